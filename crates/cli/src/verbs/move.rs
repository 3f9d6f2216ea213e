//! `runcue move`: copies a whole queue to another store and verifies the copy. Run again, it goes on where it
//! stopped. The store it comes from is left as it is.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use runcue::{Address, Kind};
use runcue_core::{Job, JobFilter, JobId, Seq};
use runcue_store::{Counts, ListRequest, LogChunk, Moved, MovedJob, Record, Store};
use sha2::{Digest, Sha256};
use tokio::task::JoinSet;

use crate::app::App;
use crate::exit::Exit;
use crate::out;
use crate::store::{self, Access};
use crate::trouble::{Trouble, bad_json};
use crate::verbs::status;
use crate::view::MoveView;
use crate::{clock, words};

/// Clocks that are no further apart than this agree.
const SKEW: Duration = Duration::from_secs(1);
/// Jobs that are copied in one step.
const BATCH: usize = 1000;
/// Jobs whose output is asked for at once.
const ASKED: usize = 16;
/// Steps between two lines of progress where there is no terminal.
const STEPS: u64 = 10;
/// The same where steps are slow: nobody is to wonder for longer whether it goes on.
const SILENCE: Duration = Duration::from_secs(5);

/// Flags of `move`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The store to copy
    #[arg(value_name = "FROM")]
    from: String,
    /// The store to copy it to: empty, or what an earlier move left there
    #[arg(value_name = "TO")]
    to: String,
    /// Also while workers run or jobs are leased, whose leases lapse in the copy, or where clocks differ
    #[arg(long)]
    force: bool,
}

/// Moves a queue.
pub async fn run(args: Args, app: &App) -> Result<Exit, Trouble> {
    let (from, to) = (store::address(&args.from)?, store::address(&args.to)?);
    let view = copy(&from, &to, args.force, Purpose::Move, app).await?;
    if app.out.json {
        app.out.document(&view)?;
    } else {
        app.out.say(describe(&view, &to))?;
    }
    Ok(Exit::Ok)
}

fn describe(view: &MoveView, to: &Address) -> String {
    let counts =
        runcue_core::StateWord::ALL.into_iter().map(|state| (state, view.counts.get(state)));
    let counts: Vec<String> =
        counts.filter(|(_, n)| *n > 0).map(|(state, n)| format!("{n} {state}")).collect();
    let counts = if counts.is_empty() { "no jobs".to_owned() } else { counts.join(", ") };
    // What is shown of an address leaves out what may be secret.
    let given = if to.url() == to.to_string() { "" } else { ", with the settings given here" };
    format!(
        "moved {} to {to}: {} copied, {} brought up to date, {} there already\n\
         verified {counts}: the counts and every checksum agree ({})\n\
         {} is left as it was; from now on use --store {to}{given}",
        view.from,
        view.new,
        view.updated,
        view.unchanged,
        &view.checksum[..16],
        view.from,
    )
}

/// What a copy is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Work goes on in it.
    Move,
    /// It is kept as it is.
    Backup,
}

/// Copies a queue and verifies the copy.
pub async fn copy(
    from: &Address,
    to: &Address,
    force: bool,
    purpose: Purpose,
    app: &App,
) -> Result<MoveView, Trouble> {
    check_addresses(from, to)?;
    let source = app.open_as_it_is(from, Access::Existing)?;
    clock::follow(&*source).await;
    if !force {
        check_idle(&*source, from).await?;
    }
    let target = app.open_as_it_is(to, Access::Create)?;
    if purpose == Purpose::Move && !force {
        check_clocks(&*source, &*target).await?;
    }
    clock::follow(&*target).await;
    let known = check_target(&*source, &*target, to).await?;
    let total = source.stats(clock::now()).await?.counts.total();
    let in_use = purpose == Purpose::Backup && force;
    let show = Show::new(app, total);
    let mut work = Move { source, target, known, in_use, last: None, show, counted: [0; 3] };
    work.copy_all().await?;
    let (counts, verified, checksum) = work.verify(to).await?;
    work.show.end();
    let [new, updated, unchanged] = work.counted;
    let (from, to) = (from.to_string(), to.to_string());
    Ok(MoveView { from, to, new, updated, unchanged, counts, verified, checksum })
}

fn check_addresses(from: &Address, to: &Address) -> Result<(), Trouble> {
    for address in [from, to] {
        if address.kind() == Kind::Memory {
            return Err(Trouble::usage(
                "memory: is gone with the process, so nothing can be moved",
            )
            .help(
                "name two stores that last, such as sqlite:queue.db and postgres://host/database",
            ));
        }
    }
    if from.clone().absolute().url() == to.clone().absolute().url() {
        return Err(Trouble::usage("FROM and TO are the same store").help("name another TO"));
    }
    Ok(())
}

/// Whoever works on a queue while it is copied goes on in the old one.
async fn check_idle(source: &dyn Store, from: &Address) -> Result<(), Trouble> {
    let view = status::look(source, from, clock::now()).await?;
    let alive = view.live_workers().count() as u64;
    let help = "stop the workers first, or use --force: jobs that are being worked on are moved with their \
                leases, which lapse there";
    if alive > 0 {
        let says = format!("{} of {from} still running", words::count(alive, "worker"));
        return Err(Trouble::failed(says).help(help));
    }
    let held = view.counts.leased + view.counts.running;
    if held > 0 {
        let says = format!("{} of {from} being worked on", words::count(held, "job"));
        return Err(Trouble::failed(says).help(help));
    }
    Ok(())
}

/// Instants are moved as they are. Between clocks that differ a delay, a lease and the place of a start in its window
/// would all mean something else, so that is not done unasked.
async fn check_clocks(source: &dyn Store, target: &dyn Store) -> Result<(), Trouble> {
    let theirs = clock::ahead_of_machine(target).await?.unwrap_or(0);
    let apart = theirs - clock::ahead_of_machine(source).await?.unwrap_or(0);
    let span = Duration::from_micros(apart.unsigned_abs());
    if span < SKEW {
        return Ok(());
    }
    let word = if apart > 0 { "ahead of" } else { "behind" };
    let says = format!("the clock of TO is {} {word} that of FROM", words::span(span));
    let help = "set the clocks first, or use --force: times are moved as they are, so jobs with a time run so much \
                earlier or later, and for one window a rate may not hold";
    Err(Trouble::failed(says).help(help))
}

/// Answers whether there are jobs in it already, all of them from here.
async fn check_target(
    source: &dyn Store,
    target: &dyn Store,
    to: &Address,
) -> Result<bool, Trouble> {
    let view = status::look(target, to, clock::now()).await?;
    let help = "move into an empty store; to go on with an earlier move, nothing else may have been done there";
    if view.live_workers().next().is_some() {
        return Err(Trouble::failed(format!("a worker is running on {to}")).help(help));
    }
    if view.counts.total() == 0 {
        return Ok(false);
    }
    // A move writes no events: whoever wrote them has used the queue since.
    if target.last_event().await? > 0 {
        let says =
            format!("{to} holds {} and has been used", words::count(view.counts.total(), "job"));
        return Err(Trouble::failed(says).help(help));
    }
    let mut before = None;
    loop {
        let page = target.list(page(before)).await?;
        let ids: Vec<JobId> = page.rows.iter().map(Job::id).collect();
        let found = source.get(ids.clone()).await?;
        if let Some((id, _)) = ids.iter().zip(&found).find(|(_, found)| found.is_none()) {
            let says = format!("{to} holds other jobs, such as {id}");
            return Err(Trouble::failed(says).help(help));
        }
        before = page.next;
        if before.is_none() {
            return Ok(true);
        }
    }
}

fn page(before: Option<Seq>) -> ListRequest {
    ListRequest { filter: JobFilter::default(), before, limit: BATCH }
}

/// A move under way.
struct Move {
    source: Arc<dyn Store>,
    target: Arc<dyn Store>,
    /// There were jobs in the target when this began.
    known: bool,
    /// Somebody may work on the source meanwhile, and the copy is as good as it can be then.
    in_use: bool,
    /// The last job that was handed over.
    last: Option<Seq>,
    show: Show,
    /// Jobs that were new, brought up to date, and left alone.
    counted: [u64; 3],
}

impl Move {
    async fn copy_all(&mut self) -> Result<(), Trouble> {
        let mut after = None;
        let mut definitions = None;
        loop {
            let mut moved = self.source.hand_over(clock::now(), after, BATCH).await?;
            if let Some(first) = &mut moved.definitions {
                first.tasks = self.source.tasks().await?;
                definitions = Some(first.clone());
            }
            let (done, next) = (moved.jobs.len() as u64, moved.next);
            self.last = moved.jobs.last().map(|one| one.job.seq).or(self.last);
            self.copy(moved).await?;
            self.show.advance(done);
            after = next;
            if after.is_none() {
                break;
            }
        }
        for kind in Record::KINDS {
            let records = self.source.records(kind).await?;
            self.target.put_records(clock::now(), records).await?;
        }
        // The turns of groups change with the jobs that come, so they are set once more at the end.
        self.target.take_over(clock::now(), Moved { definitions, ..Moved::default() }).await?;
        Ok(())
    }

    async fn copy(&mut self, mut moved: Moved) -> Result<(), Trouble> {
        let ids: Vec<JobId> = moved.jobs.iter().map(|one| one.job.id()).collect();
        let there = match self.known {
            true => self.target.get(ids).await?,
            false => vec![None; ids.len()],
        };
        let there: BTreeMap<JobId, Job> =
            there.into_iter().flatten().map(|job| (job.id(), job)).collect();
        let before = moved.jobs.len();
        moved.jobs.retain(|one| {
            let same = |job: &Job| job.life == one.job.life && job.life.state.word().is_final();
            !there.get(&one.job.id()).is_some_and(same)
        });
        self.counted[2] += (before - moved.jobs.len()) as u64;
        self.add_output(&mut moved.jobs, &there).await?;
        let sent = moved.jobs.len() as u64;
        let same = moved
            .jobs
            .iter()
            .filter(|one| there.get(&one.job.id()).is_some_and(|job| job.life == one.job.life));
        let same = same.count() as u64;
        let new = self.target.take_over(clock::now(), moved).await?;
        self.counted[0] += new;
        self.counted[1] += sent.saturating_sub(new + same);
        self.counted[2] += same;
        Ok(())
    }

    async fn add_output(
        &self,
        jobs: &mut [MovedJob],
        there: &BTreeMap<JobId, Job>,
    ) -> Result<(), Trouble> {
        for part in jobs.chunks_mut(ASKED) {
            let mut asked = JoinSet::new();
            for (n, one) in part.iter().enumerate() {
                let id = one.job.id();
                if one.job.life.attempt == 0 && one.job.life.started_at.is_none() {
                    continue;
                }
                let (source, target) = (Arc::clone(&self.source), Arc::clone(&self.target));
                let is_there = there.contains_key(&id);
                asked.spawn(async move {
                    let all = source.logs(id, 0).await?;
                    let kept = if is_there { target.logs(id, 0).await? } else { Vec::new() };
                    Ok::<_, runcue_store::StoreError>((n, missing(all, &kept)))
                });
            }
            while let Some(answer) = asked.join_next().await {
                let answer = answer.map_err(|error| Trouble::failed(error.to_string()))?;
                let (n, output) = answer?;
                part[n].output = output;
            }
        }
        Ok(())
    }

    /// Reads everything back. Answers the counts, how many jobs agree, and the checksum over all.
    async fn verify(&mut self, to: &Address) -> Result<(Counts, u64, String), Trouble> {
        self.show.verify();
        let (mut before, mut verified, mut whole) = (None, 0, Sha256::new());
        let mut different = Vec::new();
        loop {
            let page = self.source.list(page(before)).await?;
            let ids: Vec<JobId> = page.rows.iter().map(Job::id).collect();
            let found = self.target.get(ids).await?;
            for (job, found) in page.rows.iter().zip(&found) {
                let own = checksum(job)?;
                let other = found.as_ref().map(checksum).transpose()?;
                match other == Some(own) {
                    true => verified += 1,
                    false if self.in_use && self.has_gone_on(job, found.as_ref())? => {}
                    false => different.push(job.id()),
                }
                whole.update(own);
            }
            self.show.advance(page.rows.len() as u64);
            before = page.next;
            if before.is_none() {
                break;
            }
        }
        let now = clock::now();
        let (here, there) =
            (self.source.stats(now).await?.counts, self.target.stats(now).await?.counts);
        let help = "somebody works on one of them; stop that and move again: what is there already stays. If that does not \
             help, move into an empty store";
        if let Some(first) = different.first() {
            let n = words::count(different.len() as u64, "job");
            let says = format!("{to} differs in {n}, the first is {first}");
            return Err(Trouble::failed(says).help(help));
        }
        if here != there && !self.in_use {
            let says = format!("{to} has other counts of jobs by state");
            return Err(Trouble::failed(says).help(help));
        }
        let hex = whole.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        Ok((here, verified, hex))
    }

    /// Whether a job differs only by what has happened since it was copied: what was asked for never changes, and who
    /// came later cannot be there.
    fn has_gone_on(&self, job: &Job, copied: Option<&Job>) -> Result<bool, Trouble> {
        let spec =
            |job: &Job| serde_json::to_value(&*job.spec).map_err(|error| bad_json("a job", &error));
        match copied {
            Some(copied) => Ok(spec(job)? == spec(copied)?),
            None => Ok(self.last.is_none_or(|last| job.seq > last)),
        }
    }
}

/// What is to be kept of a job's output beyond what is there.
fn missing(mut all: Vec<LogChunk>, kept: &[LogChunk]) -> Vec<LogChunk> {
    let Some(last) = kept.last() else { return all };
    let same = |chunk: &LogChunk| LogChunk { n: last.n, ..chunk.clone() } == *last;
    if let Some(place) = all.iter().rposition(same) {
        all.drain(..=place);
    }
    all
}

/// The sha256 of a job's canonical JSON: what was asked for and what has happened, keys sorted.
fn checksum(job: &Job) -> Result<[u8; 32], Trouble> {
    let text = canonical(job).map_err(|error| bad_json("a job", &error))?;
    Ok(Sha256::digest(text.as_bytes()).into())
}

fn canonical(job: &Job) -> serde_json::Result<String> {
    let spec = serde_json::to_value(&*job.spec)?;
    let life = serde_json::to_value(&job.life)?;
    serde_json::to_string(&serde_json::json!({ "spec": spec, "life": life }))
}

/// How far it is: a bar on a terminal, a line now and then elsewhere.
struct Show {
    out: out::Out,
    bar: Option<ProgressBar>,
    verb: &'static str,
    total: u64,
    done: u64,
    steps: u64,
    said: Instant,
}

impl Show {
    fn new(app: &App, total: u64) -> Self {
        let bar = (out::is_error_terminal() && !app.out.quiet).then(|| {
            let style = ProgressStyle::with_template("{msg:9} {bar:30} {pos}/{len}  {eta}");
            let bar = ProgressBar::new(total);
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar.set_message("moving");
            bar
        });
        Self { out: app.out, bar, verb: "moved", total, done: 0, steps: 0, said: Instant::now() }
    }

    fn verify(&mut self) {
        self.verb = "verified";
        (self.done, self.steps) = (0, 0);
        if let Some(bar) = &self.bar {
            bar.set_message("verifying");
            bar.set_position(0);
        }
    }

    fn advance(&mut self, jobs: u64) {
        self.done += jobs;
        self.steps += 1;
        if let Some(bar) = &self.bar {
            return bar.set_position(self.done);
        }
        let line = format!("{} {} of {} jobs", self.verb, self.done, self.total);
        if is_due(self.steps, self.said.elapsed()) {
            self.said = Instant::now();
            return self.out.note(line);
        }
        self.out.detail(line);
    }

    fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Whether a line of progress is due, after so many steps and so long after the last one.
fn is_due(steps: u64, since: Duration) -> bool {
    steps.is_multiple_of(STEPS) || since >= SILENCE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_progress_is_due_after_many_steps_or_a_long_silence() {
        let quick = Duration::from_millis(10);
        let due: Vec<u64> = (1..=25).filter(|steps| is_due(*steps, quick)).collect();
        assert_eq!(due, [10, 20]);
        assert!(is_due(1, Duration::from_secs(5)) && !is_due(1, Duration::from_secs(4)));
    }
}
