//! The application's callbacks: the score of a job, and whether a prerequisite's output is there. They run
//! on threads of their own and have 100 ms each. One that hangs gets a safe default, is counted, and keeps
//! its thread; there are only a few such threads, so a callback that always hangs costs its own effect and
//! nothing else.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak, mpsc};
use std::time::{Duration, Instant};

use runcue_core::{Job, JobId};

use crate::error::{Error, Result};
use crate::metrics::Metrics;

/// How long one call may take.
pub const LIMIT: Duration = Duration::from_millis(100);
/// How long one round of calls may take in all; what is left then gets the default.
const ROUND: Duration = Duration::from_millis(250);
/// Threads, including those that hang.
const THREADS: usize = 4;

/// What a priority callback is told.
#[derive(Debug)]
pub struct PriorityContext<'a> {
    /// The job that could run now.
    pub work: &'a Job,
    /// How many jobs wait.
    pub queue_depth: u64,
    /// How loaded each of the job's services is, from 0 to 1.
    pub service_pressure: &'a BTreeMap<String, f64>,
    /// How long the job has waited.
    pub wait_time: Duration,
}

/// Scores a job from 0 to 1.
pub type PriorityFn = dyn Fn(&PriorityContext<'_>) -> f64 + Send + Sync;
/// Says whether the output of a prerequisite is there.
pub type DependencyFn = dyn Fn(JobId) -> bool + Send + Sync;

/// The older a job, the higher its score: nothing starves. It approaches 1; an hour makes 0.5.
pub fn priority_by_wait_time() -> impl Fn(&PriorityContext<'_>) -> f64 + Send + Sync + 'static {
    |context| {
        let hours = context.wait_time.as_secs_f64() / 3600.0;
        hours / (hours + 1.0)
    }
}

/// Every job has the same score.
pub fn priority_constant(
    score: f64,
) -> impl Fn(&PriorityContext<'_>) -> f64 + Send + Sync + 'static {
    move |_| score
}

/// A prerequisite's output is there when this file exists; `{id}` stands for the prerequisite's id.
pub fn dependency_check_file(
    pattern: impl Into<String>,
) -> impl Fn(JobId) -> bool + Send + Sync + 'static {
    let pattern = pattern.into();
    move |id| PathBuf::from(pattern.replace("{id}", &id.to_string())).exists()
}

/// A prerequisite's output is there when the query finds a row for it. The names are checked, so that a query
/// may put them into SQL; the id is to be bound as a parameter.
pub fn dependency_check_db<Q>(
    table: &str,
    column: &str,
    query: Q,
) -> Result<impl Fn(JobId) -> bool + Send + Sync + 'static>
where
    Q: Fn(&str, &str, &JobId) -> bool + Send + Sync + 'static,
{
    for name in [table, column] {
        let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if !plain || name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
            return Err(Error::Setting {
                setting: "dependency_check_db",
                why: format!("{name:?} is not a plain name of letters, digits and underscores"),
            });
        }
    }
    let (table, column) = (table.to_owned(), column.to_owned());
    Ok(move |id: JobId| query(&table, &column, &id))
}

/// The callbacks that are set, and the threads they run on.
#[derive(Default)]
pub(crate) struct Callbacks {
    pub(crate) priority: Option<Arc<PriorityFn>>,
    pub(crate) dependency: Option<Arc<DependencyFn>>,
    threads: Arc<Threads>,
}

impl Callbacks {
    pub(crate) fn new(
        priority: Option<Arc<PriorityFn>>,
        dependency: Option<Arc<DependencyFn>>,
    ) -> Self {
        Self { priority, dependency, threads: Arc::default() }
    }

    pub(crate) fn are_set(&self) -> bool {
        self.priority.is_some() || self.dependency.is_some()
    }

    /// Runs calls one after the other, as long as a round may take.
    pub(crate) async fn round<T: Send + 'static>(
        &self,
        metrics: &Arc<Metrics>,
        calls: Vec<Call<T>>,
    ) -> Vec<Answer<T>> {
        let wanted = calls.len();
        if wanted == 0 {
            return Vec::new();
        }
        let (threads, meter) = (Arc::clone(&self.threads), Arc::clone(metrics));
        // The wait is in real time, also under virtual time: a callback is not part of the simulation.
        let waited = tokio::task::spawn_blocking(move || wait(&threads, &meter, calls)).await;
        let mut answers = waited.unwrap_or_default();
        answers.resize_with(wanted, || Answer::Failed);
        answers
    }

    /// Runs something that nobody waits for, unless every thread hangs.
    pub(crate) fn tell(&self, metrics: &Metrics, call: Call<()>) {
        let quiet = Box::new(move || {
            let _ = catch_unwind(AssertUnwindSafe(call));
        });
        if !self.threads.run(quiet) {
            metrics.callback_failed(1);
        }
    }
}

/// What came of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer<T> {
    /// The callback's answer.
    Given(T),
    /// It hung, it panicked, or there was no thread for it.
    Failed,
    /// Those before it took all the time of the round.
    NotReached,
}

/// One call of a callback.
pub(crate) type Call<T> = Box<dyn FnOnce() -> T + Send>;
type Left<T> = Arc<Mutex<VecDeque<(usize, Call<T>)>>>;

/// Has the calls made, and waits for each as long as it may take. When one hangs the rest goes to another
/// thread.
fn wait<T: Send + 'static>(
    threads: &Arc<Threads>,
    metrics: &Metrics,
    calls: Vec<Call<T>>,
) -> Vec<Answer<T>> {
    let end = Instant::now() + ROUND;
    let mut answers: Vec<Answer<T>> = calls.iter().map(|_| Answer::NotReached).collect();
    let mut left: VecDeque<_> = calls.into_iter().enumerate().collect();
    while !left.is_empty() {
        let shared: Left<T> = Arc::new(Mutex::new(left));
        let (answer, answered) = mpsc::channel();
        let series = Arc::clone(&shared);
        if !threads.run(Box::new(move || make_calls(&series, &answer))) {
            let refused = take(&shared);
            metrics.callback_failed(refused.len() as u64);
            refused.iter().for_each(|(index, _)| answers[*index] = Answer::Failed);
            break;
        }
        let hung = loop {
            let patience = LIMIT.min(end.saturating_duration_since(Instant::now()));
            match answered.recv_timeout(patience) {
                Ok((index, value, took)) => {
                    metrics.callback_took(took);
                    metrics.callback_failed(u64::from(value.is_none()));
                    answers[index] = value.map_or(Answer::Failed, Answer::Given);
                }
                // At the end of the round the last one may have had less time than it may take.
                Err(mpsc::RecvTimeoutError::Timeout) => break patience == LIMIT,
                Err(mpsc::RecvTimeoutError::Disconnected) => break false,
            }
        };
        left = take(&shared);
        if hung {
            let waits: HashSet<usize> = left.iter().map(|(index, _)| *index).collect();
            let begun = |index: &usize| !waits.contains(index);
            for index in (0..answers.len()).filter(begun) {
                if matches!(answers[index], Answer::NotReached) {
                    answers[index] = Answer::Failed;
                }
            }
            metrics.callback_failed(1);
            tracing::warn!("a callback took longer than it may; its default is used");
        }
        if Instant::now() >= end {
            break;
        }
    }
    answers
}

fn take<T>(left: &Left<T>) -> VecDeque<(usize, Call<T>)> {
    std::mem::take(&mut *left.lock().unwrap_or_else(PoisonError::into_inner))
}

fn make_calls<T>(left: &Left<T>, answer: &mpsc::Sender<(usize, Option<T>, Duration)>) {
    loop {
        let next = left.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        let Some((index, call)) = next else { return };
        let start = Instant::now();
        let value = catch_unwind(AssertUnwindSafe(call)).ok();
        if answer.send((index, value, start.elapsed())).is_err() {
            return;
        }
    }
}

type Errand = Box<dyn FnOnce() + Send>;

/// The threads callbacks run on: started when needed, kept, and never more than a few.
#[derive(Default)]
struct Threads {
    idle: Mutex<Vec<mpsc::Sender<Errand>>>,
    started: AtomicUsize,
}

impl Threads {
    fn idle(&self) -> MutexGuard<'_, Vec<mpsc::Sender<Errand>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands an errand to a free thread; says so if every thread is busy.
    fn run(self: &Arc<Self>, errand: Errand) -> bool {
        let free = self.idle().pop();
        let Some(thread) = free.or_else(|| self.start()) else { return false };
        let (threads, back) = (Arc::downgrade(self), thread.clone());
        let errand = Box::new(move || {
            errand();
            come_back(&threads, back);
        });
        thread.send(errand).is_ok()
    }

    fn start(&self) -> Option<mpsc::Sender<Errand>> {
        let room = |started: usize| (started < THREADS).then_some(started + 1);
        self.started.fetch_update(Ordering::AcqRel, Ordering::Acquire, room).ok()?;
        let (hand, errands) = mpsc::channel::<Errand>();
        let name = "runcue-callback".to_owned();
        let started = std::thread::Builder::new().name(name).spawn(move || {
            while let Ok(errand) = errands.recv() {
                errand();
            }
        });
        started.is_ok().then_some(hand)
    }
}

fn come_back(threads: &Weak<Threads>, thread: mpsc::Sender<Errand>) {
    if let Some(threads) = threads.upgrade() {
        threads.idle().push(thread);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call<T: Send + 'static>(call: impl FnOnce() -> T + Send + 'static) -> Call<T> {
        Box::new(call)
    }

    #[tokio::test]
    async fn a_panic_or_a_hang_costs_only_its_own_answer() {
        let (callbacks, metrics) = (Callbacks::default(), Arc::new(Metrics::default()));
        let (release, hang) = mpsc::channel::<()>();
        let calls = vec![
            call(|| 1),
            // Without the hook, whose backtrace may take longer than a callback has.
            call(|| std::panic::resume_unwind(Box::new("no"))),
            call(move || hang.recv().map_or(2, |()| 2)),
            call(|| 3),
        ];
        let answers = callbacks.round(&metrics, calls).await;
        let (given, failed) = (Answer::Given, Answer::Failed);
        assert_eq!(answers, [given(1), failed, failed, given(3)]);
        assert_eq!(metrics.callback_errors(), 2);
        drop(release);
    }

    #[tokio::test]
    async fn callbacks_that_always_hang_do_not_pile_up_threads() {
        let (callbacks, metrics) = (Callbacks::default(), Arc::new(Metrics::default()));
        let (release, gate) = mpsc::channel::<()>();
        let gate = Arc::new(Mutex::new(gate));
        for _ in 0..THREADS {
            let gate = Arc::clone(&gate);
            let hang = call(move || gate.lock().unwrap().recv().unwrap_or(()));
            assert_eq!(callbacks.round(&metrics, vec![hang]).await, [Answer::Failed]);
        }
        let refused = callbacks.round(&metrics, vec![call(|| ())]).await;
        assert_eq!(refused, [Answer::Failed], "all are busy");
        assert_eq!(callbacks.threads.started.load(Ordering::Relaxed), THREADS);
        drop(release);
        while callbacks.threads.idle().is_empty() {
            std::thread::yield_now();
        }
        assert_eq!(callbacks.round(&metrics, vec![call(|| ())]).await, [Answer::Given(())]);
    }

    #[tokio::test]
    async fn a_call_that_the_round_does_not_reach_is_not_held_against_it() {
        let (callbacks, metrics) = (Callbacks::default(), Arc::new(Metrics::default()));
        let slow = |_| call(|| std::thread::sleep(LIMIT * 3 / 5));
        let answers = callbacks.round(&metrics, (0..20).map(slow).collect()).await;
        assert_eq!(answers.first(), Some(&Answer::Given(())));
        assert_eq!(answers.last(), Some(&Answer::NotReached));
        assert_eq!(metrics.callback_errors(), 0);
    }

    #[test]
    fn names_that_are_not_plain_are_refused() {
        let check = |table| dependency_check_db(table, "id", |_, _, _| true).is_ok();
        assert!(check("artifacts"));
        assert!(!check("a; drop table jobs"));
        assert!(!check(""));
        assert!(!check("1a"));
    }
}
