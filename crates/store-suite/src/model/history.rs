//! Histories: what may happen, how it is drawn at random, and how it is written down.

use std::fmt;

use proptest::prelude::*;

/// A job to be submitted.
#[derive(Clone)]
pub struct NewJob {
    /// None, a, b, c.
    pub group: u8,
    /// build, test.
    pub task: u8,
    /// Its priority.
    pub priority: i32,
    /// Bits: api, db, frail.
    pub services: u8,
    /// Units of api.
    pub units: u64,
    /// None, k, l.
    pub key: u8,
    /// Which of the jobs before it (counted back) it waits for.
    pub after: Vec<u8>,
    /// Seconds from now.
    pub run_in: Option<u64>,
    /// Attempts.
    pub attempts: u32,
    /// Idempotency key.
    pub once: Option<u8>,
    /// Seconds from now.
    pub expires_in: Option<u64>,
    /// How long it waits for its prerequisites, in seconds.
    pub patience: Option<u64>,
    /// How long an attempt may run, in seconds.
    pub timeout: Option<u64>,
}

impl fmt::Debug for NewJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "job(group {}, task {}", self.group, self.task)?;
        if self.priority != 0 {
            write!(f, ", priority {}", self.priority)?;
        }
        for (bit, name) in ["api", "db", "frail"].into_iter().enumerate() {
            if self.services & (1 << bit) != 0 {
                write!(f, ", {name}")?;
            }
        }
        if self.services & 1 != 0 {
            write!(f, " x{}", self.units)?;
        }
        if self.key != 0 {
            write!(f, ", key {}", self.key)?;
        }
        if !self.after.is_empty() {
            write!(f, ", after {:?}", self.after)?;
        }
        let spans = [
            ("run in", self.run_in),
            ("expires in", self.expires_in),
            ("patience", self.patience),
            ("timeout", self.timeout),
            ("once", self.once.map(u64::from)),
        ];
        for (name, value) in spans {
            if let Some(value) = value {
                write!(f, ", {name} {value}")?;
            }
        }
        write!(f, ", {} attempts)", self.attempts)
    }
}

/// How an attempt ends.
#[derive(Clone, Copy, Debug)]
pub enum End {
    /// Done, perhaps with a key for the result.
    Done(Option<u8>),
    /// May go better next time.
    Transient,
    /// Will not.
    Permanent,
    /// Took too long.
    Timeout,
    /// Come back in so many seconds.
    RateLimited(u64),
    /// Given back.
    HandBack,
    /// Given back before it began.
    Unstarted,
    /// Stopped as asked.
    Stopped,
}

/// The limits of a service.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Units of api in ten seconds.
    pub rate: u64,
    /// Slots per key of api.
    pub key_slots: u32,
    /// Slots of db.
    pub slots: u32,
    /// frail is paused.
    pub paused: bool,
}

/// A schedule to be defined.
#[derive(Clone, Copy, Debug)]
pub struct Tick {
    /// often, seldom.
    pub n: u8,
    /// Every so many seconds.
    pub every: u64,
    /// Skip, once, all.
    pub missed: u8,
    /// It fires while the job of the firing before is not finished.
    pub overlaps: bool,
    /// It does not fire now.
    pub paused: bool,
    /// Its jobs use api.
    pub uses: bool,
}

/// Something that happens. Jobs, leases and batches are named by a number that wraps around.
#[derive(Clone, Debug)]
pub enum Step {
    /// New jobs, accepted or refused together.
    Submit(Vec<NewJob>),
    /// An earlier batch is sent again, because the reply was lost.
    SubmitAgain(usize),
    /// A worker claims.
    Claim {
        worker: u8,
        max: usize,
        task: Option<u8>,
        highest: Option<i32>,
        start: bool,
        within: bool,
    },
    /// A heartbeat under a lease, perhaps a stale one.
    Extend { lease: usize, seconds: u64 },
    /// The end of an attempt under a lease, perhaps a stale one.
    Finish { lease: usize, end: End },
    /// The reaper, perhaps knowing that a worker is gone.
    Reap { gone: Option<u8> },
    /// A job is withdrawn.
    Cancel { job: usize, cascade: bool },
    /// A group's queued jobs are withdrawn.
    CancelGroup { group: u8 },
    /// A job is sent round again.
    Retry { job: usize },
    /// All jobs of a group that ended badly are sent round again.
    RetryGroup { group: u8 },
    /// A group is paused or resumed.
    Pause { group: u8, paused: bool },
    /// A schedule is defined, or changed.
    Schedule(Tick),
    /// A schedule is removed.
    Unschedule { n: u8 },
    /// Somebody looks whether schedules are due. A claim does so, too.
    Fire,
    /// Limits change.
    Define(Limits),
    /// Time passes, in milliseconds.
    Wait(u64),
    /// The clock is set back a little, in milliseconds.
    Back(u64),
    /// The process dies and the store is opened again, where it can be.
    Crash,
}

/// A history of steps.
#[derive(Clone)]
pub struct History {
    /// In order.
    pub steps: Vec<Step>,
}

impl fmt::Debug for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, step) in self.steps.iter().enumerate() {
            writeln!(f, "{n:3}  {step:?}")?;
        }
        Ok(())
    }
}

fn new_job() -> impl Strategy<Value = NewJob> {
    let what = (0..4_u8, 0..2_u8, -1..2_i32, 0..8_u8, 1..4_u64, 0..3_u8);
    let when = (
        prop::collection::vec(0..6_u8, 0..3),
        prop::option::weighted(0.15, 1..15_u64),
        1..4_u32,
        prop::option::weighted(0.1, 0..3_u8),
    );
    let limits = (
        prop::option::weighted(0.1, 1..20_u64),
        prop::option::weighted(0.2, 1..20_u64),
        prop::option::weighted(0.2, 1..40_u64),
    );
    (what, when, limits).prop_map(|(what, when, limits)| {
        let (group, task, priority, services, units, key) = what;
        let (after, run_in, attempts, once) = when;
        let (expires_in, patience, timeout) = limits;
        let after = if group == 3 { after } else { Vec::new() };
        NewJob {
            group,
            task,
            priority,
            services,
            units,
            key,
            after,
            run_in,
            attempts,
            once,
            expires_in,
            patience,
            timeout,
        }
    })
}

fn end() -> impl Strategy<Value = End> {
    prop_oneof![
        6 => prop::option::of(0..2_u8).prop_map(End::Done),
        4 => Just(End::Transient),
        1 => Just(End::Permanent),
        1 => Just(End::Timeout),
        1 => (1..8_u64).prop_map(End::RateLimited),
        1 => Just(End::HandBack),
        2 => Just(End::Unstarted),
        1 => Just(End::Stopped),
    ]
}

fn tick() -> impl Strategy<Value = Tick> {
    let every = prop::sample::select(vec![5, 10, 20]);
    let paused = prop::bool::weighted(0.2);
    (0..2_u8, every, 0..3_u8, any::<bool>(), paused, any::<bool>()).prop_map(
        |(n, every, missed, overlaps, paused, uses)| Tick {
            n,
            every,
            missed,
            overlaps,
            paused,
            uses,
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    let claim = (
        0..3_u8,
        1..5_usize,
        prop::option::weighted(0.2, 0..2_u8),
        prop::option::weighted(0.1, -1..2_i32),
        any::<bool>(),
        prop::bool::weighted(0.2),
    );
    let limits = (3..8_u64, 1..3_u32, 1..4_u32, prop::bool::weighted(0.2));
    prop_oneof![
        6 => prop::collection::vec(new_job(), 1..6).prop_map(Step::Submit),
        1 => any::<usize>().prop_map(Step::SubmitAgain),
        8 => claim.prop_map(|(worker, max, task, highest, start, within)| Step::Claim {
            worker, max, task, highest, start, within
        }),
        2 => (any::<usize>(), 1..60_u64).prop_map(|(lease, seconds)| Step::Extend { lease, seconds }),
        9 => (any::<usize>(), end()).prop_map(|(lease, end)| Step::Finish { lease, end }),
        2 => prop::option::weighted(0.2, 0..3_u8).prop_map(|gone| Step::Reap { gone }),
        1 => (any::<usize>(), any::<bool>()).prop_map(|(job, cascade)| Step::Cancel { job, cascade }),
        1 => (1..4_u8).prop_map(|group| Step::CancelGroup { group }),
        2 => any::<usize>().prop_map(|job| Step::Retry { job }),
        1 => (1..4_u8).prop_map(|group| Step::RetryGroup { group }),
        1 => (1..4_u8, any::<bool>()).prop_map(|(group, paused)| Step::Pause { group, paused }),
        1 => limits.prop_map(|(rate, key_slots, slots, paused)| Step::Define(Limits {
            rate, key_slots, slots, paused
        })),
        2 => tick().prop_map(Step::Schedule),
        1 => (0..2_u8).prop_map(|n| Step::Unschedule { n }),
        1 => Just(Step::Fire),
        5 => (1..9_000_u64).prop_map(Step::Wait),
        1 => (50_000..90_000_u64).prop_map(Step::Wait),
        1 => (1..900_u64).prop_map(Step::Back),
        1 => Just(Step::Crash),
    ]
}

/// Any history.
pub fn any_history() -> impl Strategy<Value = History> {
    prop::collection::vec(step(), 1..60).prop_map(|steps| History { steps })
}
