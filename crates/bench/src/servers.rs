//! Figures of a store on a server, the same for every kind of server: bulk submit, drain through the store and
//! through engines, time from submit to start, and what limits cost.
//!
//! A daemon here is an engine with a store handle and connections of its own; several of them share this
//! process. What they share with real daemons is all that can be in each other's way: the server and its turns.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use runcue_core::{JobId, JobSpec, QueueSpec, TaskName};
use runcue_engine::{Cue, Task};
use runcue_store::{Store, SubmitBatch};

use crate::starts;
use crate::stores::{CLAIM, Jobs, drain_by, per_second, submit};
use crate::table::Line;

/// Rounds in which floor and store take turns.
pub const ROUNDS: usize = 3;
/// The larger claim.
pub const LARGE: usize = 1000;
/// Jobs of the floor whose time to start is measured in each round.
pub const STARTS: usize = 300;

/// Handlers at once in one daemon, to choose from.
const SLOTS: [usize; 3] = [256, 1024, 2048];

/// A server on which queues can be opened.
pub trait Server {
    /// Its name and settings, as they stand in the table.
    fn mode(&self) -> String;

    /// The address of a queue.
    fn url(&self, queue: &str) -> String;

    /// A handle of its own on a queue, which is made if it is not there.
    fn open(&self, queue: &str) -> Result<Arc<dyn Store>>;

    /// Removes a queue and lets the server settle.
    fn clear(&self, queue: &str) -> Result<()>;
}

/// What the raw floor reached: jobs per second, and milliseconds from the insertion of one job to its start by somebody who
/// listens.
#[derive(Clone, Copy)]
pub struct Floor {
    pub submit: f64,
    pub drain: f64,
    pub large_drain: f64,
    pub start: f64,
}

impl Default for Floor {
    fn default() -> Self {
        Self { submit: 0.0, drain: 0.0, large_drain: 0.0, start: f64::INFINITY }
    }
}

impl Floor {
    /// The better of two rounds in everything.
    pub fn best(self, other: Self) -> Self {
        Self {
            submit: self.submit.max(other.submit),
            drain: self.drain.max(other.drain),
            large_drain: self.large_drain.max(other.large_drain),
            start: self.start.min(other.start),
        }
    }
}

/// What runcue reached, for whoever is measured beside it.
#[derive(Clone, Copy, Default)]
pub struct Ours {
    pub submit: f64,
    /// Through one engine with a handler that does nothing.
    pub engine: f64,
}

/// Everything that is measured on every kind of server. `floor` measures one round of the raw floor.
pub async fn measure(
    server: &dyn Server,
    count: usize,
    mut floor: impl AsyncFnMut(usize) -> Result<Floor>,
    lines: &mut Vec<Line>,
) -> Result<Ours> {
    let mode = server.mode();
    let (mut raw, mut best) = (Floor::default(), Floor::default());
    for round in 0..ROUNDS {
        eprintln!("  {mode}: the floor and the store alone, round {} of {ROUNDS} …", round + 1);
        raw = raw.best(floor(round).await?);
        best = best.best(through_the_store(server, round, count).await?);
    }
    lines.push(Line::rate("bulk submit, 1 000 a call", &mode, best.submit, raw.submit, 0.5));
    lines.push(Line::rate("drain, 100 a claim", &mode, best.drain, raw.drain, 0.5));
    lines.push(Line::rate("drain, 1 000 a claim", &mode, best.large_drain, raw.large_drain, 0.5));
    let slots = best_slots(server, count).await?;
    let mut engine = 0.0_f64;
    for round in 0..ROUNDS {
        let queue = format!("engine_{round}");
        engine = engine.max(through_engines(server, &queue, slots, count).await?);
    }
    let what = format!("drain through the engine, no-op handler, 1 daemon, {slots} at once");
    lines.push(Line::rate(&what, &mode, engine, raw.drain, 0.5));
    several_daemons(server, slots, count * LONGER, raw.drain, lines).await?;
    eprintln!("  {mode}: time to start …");
    starts::measure(server, count / 50, raw.start, lines).await?;
    eprintln!("  {mode}: limits …");
    limits(server, count, lines).await?;
    Ok(Ours { submit: best.submit, engine })
}

async fn through_the_store(server: &dyn Server, round: usize, count: usize) -> Result<Floor> {
    let mut rates = Floor::default();
    for claim in [CLAIM, LARGE] {
        let queue = format!("store_{round}_{claim}");
        let store = server.open(&queue)?;
        let time = submit(&*store, &mut Jobs::new(0, 0)?, count).await?;
        rates.submit = rates.submit.max(per_second(count, time));
        let (done, time, _) = drain_by(&*store, count, claim).await?;
        ensure!(done == count, "{done} of {count} jobs were handed out");
        let rate = if claim == CLAIM { &mut rates.drain } else { &mut rates.large_drain };
        *rate = per_second(done, time);
        store.close().await?;
        drop(store);
        server.clear(&queue)?;
    }
    Ok(rates)
}

/// How many handlers at once drain a queue best, as the peers may choose too.
async fn best_slots(server: &dyn Server, count: usize) -> Result<usize> {
    let mut best = (0.0_f64, 0);
    for slots in SLOTS {
        eprintln!("  {}: {slots} handlers at once …", server.mode());
        let queue = format!("slots_{slots}");
        let rate = through_engines(server, &queue, slots, count).await?;
        if rate > best.0 {
            best = (rate, slots);
        }
    }
    Ok(best.1)
}

/// Jobs per second of one engine that is started when the jobs are there, as the peers are, until every completion is
/// stored.
async fn through_engines(
    server: &dyn Server,
    queue: &str,
    slots: usize,
    count: usize,
) -> Result<f64> {
    let store = server.open(queue)?;
    submit(&*store, &mut Jobs::new(0, 0)?, count).await?;
    let fleet = Fleet::build(server, queue, 1, slots).await?;
    let begin = Instant::now();
    fleet.start();
    fleet.completed(count).await;
    let rate = per_second(count, begin.elapsed());
    fleet.stop().await?;
    store.close().await?;
    drop(store);
    server.clear(queue)?;
    Ok(rate)
}

/// Rounds in which one, two and four daemons take turns, and how many times as many jobs they have: a turn comes round in two
/// seconds, and with fewer jobs the beginning and the end would be most of it.
const DAEMON_ROUNDS: usize = 6;
const LONGER: usize = 6;

/// Jobs for each daemon before those that are counted.
const BEFORE: usize = 5_000;
/// How long the daemons have to look at the jobs that came, and find the queue paused, before time runs.
const SETTLE: Duration = Duration::from_millis(500);
/// Between two submissions beside busy daemons.
const BETWEEN: Duration = Duration::from_millis(20);

/// What several daemons reach beside one, and how long whoever submits one job waits beside them. The median of all rounds.
async fn several_daemons(
    server: &dyn Server,
    slots: usize,
    count: usize,
    floor: f64,
    lines: &mut Vec<Line>,
) -> Result<()> {
    let mode = server.mode();
    let mut rates = [const { Vec::new() }; 3];
    for round in 0..DAEMON_ROUNDS {
        // Whoever is last in a round finds a disk that is busy with what the others have written.
        let mut order = [(0, 1), (1, 2), (2, 4)];
        if round % 2 == 1 {
            order.reverse();
        }
        for (place, daemons) in order {
            eprintln!("  {mode}: {daemons} daemons, round {} of {DAEMON_ROUNDS} …", round + 1);
            rates[place].push(at_work(server, daemons, slots, count, None).await?);
        }
    }
    let [one, two, four] = rates.map(median);
    for (daemons, rate) in [(2, two), (4, four)] {
        let what =
            format!("{daemons} daemons beside 1, all at work before, median of {DAEMON_ROUNDS}");
        let line = Line::rate(&what, &mode, rate, one, 1.0);
        lines.push(Line { goal: "no slower than one".to_owned(), ..line });
        let what = format!("{daemons} daemons, all at work before, median of {DAEMON_ROUNDS}");
        lines.push(Line::rate(&what, &mode, rate, floor, 0.5));
    }
    let mut times = Vec::new();
    at_work(server, 4, slots, count, Some(&mut times)).await?;
    times.sort();
    for (name, p) in [("p50", 50), ("p99", 99)] {
        let what = format!("submit of one job beside 4 busy daemons, {name}");
        let time = times[(times.len() - 1) * p / 100].as_secs_f64() * 1e3;
        lines.push(Line::figure(&what, &mode, format!("{time:.1} ms"), "–", None));
    }
    Ok(())
}

/// The one in the middle.
pub fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// Jobs per second of engines that have worked before, as daemons have: the jobs come while the queue is paused, and time runs
/// from its release. Meanwhile somebody else may submit one job at a time that they do not run, and say how long each took.
async fn at_work(
    server: &dyn Server,
    daemons: usize,
    slots: usize,
    count: usize,
    beside: Option<&mut Vec<Duration>>,
) -> Result<f64> {
    let queue = format!("daemons_{daemons}");
    let store = server.open(&queue)?;
    let mut jobs = Jobs::new(0, 0)?;
    let before = BEFORE * daemons;
    submit(&*store, &mut jobs, before).await?;
    let fleet = Fleet::build(server, &queue, daemons, slots).await?;
    fleet.start();
    fleet.completed(before).await;
    let paused = |paused| vec![QueueSpec { paused, ..QueueSpec::default() }];
    store.upsert_queues(crate::now(), paused(true)).await?;
    submit(&*store, &mut jobs, count).await?;
    tokio::time::sleep(SETTLE).await;
    let begin = Instant::now();
    store.upsert_queues(crate::now(), paused(false)).await?;
    let drained = fleet.completed(before + count);
    match beside {
        None => drained.await,
        Some(times) => tokio::select! {
            biased;
            () = drained => {}
            failed = submit_singly(&*store, times) => failed?,
        },
    }
    let rate = per_second(count, begin.elapsed());
    fleet.stop().await?;
    store.close().await?;
    drop(store);
    server.clear(&queue)?;
    Ok(rate)
}

/// Submits one job after the other, of a task that nobody runs, until it is dropped.
async fn submit_singly(store: &dyn Store, times: &mut Vec<Duration>) -> Result<()> {
    loop {
        tokio::time::sleep(BETWEEN).await;
        let job = JobSpec::new(
            JobId::from_u128(u128::MAX - times.len() as u128),
            TaskName::new("other")?,
        );
        let begin = Instant::now();
        store.submit(crate::now(), SubmitBatch::of(vec![job])).await?;
        times.push(begin.elapsed());
    }
}

/// Engines that drain one queue with a handler that does nothing.
struct Fleet(Vec<Cue>);

impl Fleet {
    async fn build(server: &dyn Server, queue: &str, daemons: usize, slots: usize) -> Result<Self> {
        let mut cues = Vec::new();
        for _ in 0..daemons {
            let task = Task::new("noop")?.handler(|_| async { Ok(()) });
            let cue = Cue::builder_on(server.open(queue)?).slots(slots).task(task).build().await?;
            cues.push(cue);
        }
        Ok(Self(cues))
    }

    fn start(&self) {
        self.0.iter().for_each(Cue::start);
    }

    /// Waits until they have heard of so many jobs that their completion is stored. Nobody asks the store: a turn that only
    /// counts jobs would be in the way of four daemons more than of one.
    async fn completed(&self, count: usize) {
        let completed = |cue: &Cue| cue.metrics().work_units_completed();
        while self.0.iter().map(completed).sum::<u64>() < count as u64 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    async fn stop(self) -> Result<()> {
        for cue in self.0 {
            cue.stop().await?;
        }
        Ok(())
    }
}

/// What 100 active limits cost.
async fn limits(server: &dyn Server, count: usize, lines: &mut Vec<Line>) -> Result<()> {
    let mut rates = [0.0_f64; 2];
    for round in 0..ROUNDS {
        for (place, services) in [0, 100].into_iter().enumerate() {
            let queue = format!("limits_{services}_{round}");
            let store = server.open(&queue)?;
            let mut jobs = Jobs::new(0, services)?;
            store.upsert_services(crate::now(), jobs.limits()).await?;
            submit(&*store, &mut jobs, count).await?;
            let (done, time, _) = drain_by(&*store, count, CLAIM).await?;
            ensure!(done == count, "{done} of {count} jobs were handed out");
            rates[place] = rates[place].max(per_second(done, time));
            store.close().await?;
            drop(store);
            server.clear(&queue)?;
        }
    }
    let line =
        Line::rate("drain with 100 limits beside none", &server.mode(), rates[1], rates[0], 0.8);
    lines.push(Line { goal: "≥ 0.80 of no limits".to_owned(), ..line });
    Ok(())
}
