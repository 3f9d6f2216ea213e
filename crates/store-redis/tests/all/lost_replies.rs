//! Requests and replies that are lost on the way, at every step of small and large commits: nothing is applied
//! twice, nothing acknowledged is missing, and a commit is never there in part.

use runcue_core::{EventKind, Json, StateWord};
use runcue_store::{ClaimRequest, Finish, Finished, Store, SubmitBatch};
use runcue_store_redis::RedisStore;
use runcue_store_suite::scene::{BEGINNING, done, id, job, worker};
use runcue_test_servers::{Fault, Prefix, Proxy};

/// Only a commit has these bytes in it.
const COMMIT: &[u8] = b"\"served\":";
/// Every call of a script has these.
const SCRIPT: &[u8] = b"EVALSHA";
/// So many jobs with a kilobyte each are a large commit, which is carried out in parts.
const MANY: u128 = 600;

fn through(proxy: &Proxy, prefix: &Prefix) -> String {
    let direct = format!(":{}/", prefix.port());
    prefix.url().replace(&direct, &format!(":{}/", proxy.port()))
}

fn open(url: &str) -> RedisStore {
    runcue_store_redis::open_url(url).unwrap()
}

fn large_batch() -> SubmitBatch {
    let padding = Json::from_value(&"x".repeat(1000)).unwrap();
    let spec = |n| runcue_core::JobSpec { params: padding.clone(), ..job(n) };
    SubmitBatch::of((1..=MANY).map(spec).collect())
}

async fn kinds(store: &RedisStore, kind: EventKind) -> usize {
    let events = store.events(0, 100_000).await.unwrap();
    let numbers: Vec<u64> = events.iter().map(|event| event.seq).collect();
    assert_eq!(numbers, (1..=events.len() as u64).collect::<Vec<_>>(), "numbers without gaps");
    events.iter().filter(|event| event.kind == kind).count()
}

#[tokio::test]
async fn a_commit_whose_request_or_reply_is_lost_happens_once() {
    happens_once("&transactions=off").await;
}

#[tokio::test]
async fn a_transaction_whose_request_or_reply_is_lost_happens_once() {
    happens_once("").await;
}

async fn happens_once(how: &str) {
    let prefix = runcue_test_servers::redis().unwrap();
    let proxy = Proxy::to(prefix.port()).unwrap();
    let store = open(&format!("{}{how}", through(&proxy, &prefix)));
    let faults = [Fault::LoseReply, Fault::LoseRequest];
    for n in 0..12u128 {
        let fault = faults[usize::from(n % 2 == 1)];
        proxy.arm(COMMIT, fault, 1);
        let batch = SubmitBatch::of(vec![job(n)]);
        store.submit(BEGINNING, batch).await.unwrap();
        proxy.arm(COMMIT, faults[usize::from(n % 3 == 1)], 1);
        let claimed = store.claim(BEGINNING, ClaimRequest::new(worker(1), 1)).await.unwrap();
        let [(_, lease)] = &claimed.jobs[..] else { panic!("one job is there to be claimed") };
        proxy.arm(COMMIT, fault, 1);
        let end = Finish { lease: lease.clone(), outcome: done() };
        store.finish(BEGINNING, vec![end]).await.unwrap();
    }
    assert_eq!(proxy.faults(), 36);
    assert_eq!(kinds(&store, EventKind::Queued).await, 12);
    assert_eq!(kinds(&store, EventKind::Started).await, 12);
    assert_eq!(kinds(&store, EventKind::Completed).await, 12);
    let jobs = store.get((0..12).map(id).collect()).await.unwrap();
    assert!(jobs.iter().flatten().all(|job| job.life.attempt == 1));
    assert_eq!(store.check(BEGINNING).await.unwrap(), Vec::<String>::new());
}

/// Only a transaction ends with these.
const EXEC: &[u8] = b"EXEC\r\n";
/// So many that they go as a transaction, and are looked up before if they are new.
const SOME: u128 = 300;

/// What went as a transaction of many jobs and was lost on the way, or whose reply was: submissions, claims and ends.
#[tokio::test]
async fn a_transaction_of_many_jobs_whose_request_or_reply_is_lost_happens_once() {
    let prefix = runcue_test_servers::redis().unwrap();
    let proxy = Proxy::to(prefix.port()).unwrap();
    let store = open(&through(&proxy, &prefix));
    let mut rounds = 0;
    for (fault, at) in [Fault::LoseReply, Fault::LoseRequest].into_iter().zip(0..).cycle().take(6) {
        for step in 0..3 {
            let first = SOME * rounds * 2;
            // The commit after one that was settled goes by script: these jobs go first, and the others are lost.
            for (from, faults) in [(first, 0), (first + SOME, 1)] {
                let jobs = SubmitBatch::of((from..from + SOME).map(job).collect());
                lose(&proxy, fault, faults * usize::from(step == 0));
                store.submit(BEGINNING, jobs).await.unwrap();
            }
            let mut held = Vec::new();
            for faults in [0, 1] {
                lose(&proxy, fault, faults * usize::from(step == 1));
                let many = ClaimRequest::new(worker(1), SOME.try_into().unwrap());
                held.push(store.claim(BEGINNING, many).await.unwrap().jobs);
            }
            for (faults, held) in held.into_iter().enumerate() {
                assert_eq!(held.len() as u128, SOME);
                lose(&proxy, fault, faults * usize::from(step == 2));
                let end = |(_, lease)| Finish { lease, outcome: done() };
                let ends = store.finish(BEGINNING, held.into_iter().map(end).collect()).await;
                for end in ends.unwrap() {
                    let is_told = matches!(end, Finished::Now { state: StateWord::Completed, .. });
                    assert!(is_told || end == Finished::Repeated, "{end:?}");
                }
            }
            proxy.disarm();
            rounds += 1;
            assert_eq!(proxy.faults() as u128, rounds, "{fault:?} {at} {step}");
        }
    }
    let all = usize::try_from(SOME * rounds * 2).unwrap();
    for kind in [EventKind::Queued, EventKind::Started, EventKind::Completed] {
        assert_eq!(kinds(&store, kind).await, all, "{kind:?}");
    }
    let jobs = store.get((0..SOME * rounds * 2).map(id).collect()).await.unwrap();
    assert!(jobs.iter().flatten().all(|job| job.life.attempt == 1));
    assert_eq!(store.check(BEGINNING).await.unwrap(), Vec::<String>::new());
}

/// Of the next transactions, so many are lost.
fn lose(proxy: &Proxy, fault: Fault, faults: usize) {
    if faults > 0 {
        proxy.arm(EXEC, fault, faults);
    }
}

/// Loses the nth call of a script during a large submission.
async fn submit_with_fault(nth: usize, fault: Fault) -> bool {
    let prefix = runcue_test_servers::redis().unwrap();
    let proxy = Proxy::to(prefix.port()).unwrap();
    let store = open(&through(&proxy, &prefix));
    proxy.arm_nth(SCRIPT, fault, nth, false);
    let answers = store.submit(BEGINNING, large_batch()).await.unwrap();
    assert_eq!(answers.len() as u128, MANY);
    proxy.disarm();
    let queued = kinds(&store, EventKind::Queued).await as u128;
    assert_eq!(queued, MANY, "call {nth} was lost by {fault:?}");
    assert_eq!(
        store.check(BEGINNING).await.unwrap(),
        Vec::<String>::new(),
        "call {nth}, {fault:?}"
    );
    proxy.faults() == 1
}

#[tokio::test]
async fn a_large_commit_survives_the_loss_of_any_of_its_calls() {
    for fault in [Fault::LoseReply, Fault::LoseRequest] {
        let mut nth = 0;
        while submit_with_fault(nth, fault).await {
            nth += 1;
        }
        // Begin, stage several times, commit, apply several times.
        assert!(nth > 6, "only {nth} calls were made");
    }
}

/// Loses the reply to the nth call of a large submission and with it the daemon. Answers whether there was such
/// a call, and how many jobs are there afterwards.
async fn die_in_large_commit(nth: usize) -> (bool, u128) {
    let prefix = runcue_test_servers::redis().unwrap();
    let proxy = Proxy::to(prefix.port()).unwrap();
    let other = open(&prefix.url());
    let daemon = open(&through(&proxy, &prefix));
    proxy.arm_nth(SCRIPT, Fault::LoseReply, nth, true);
    let dying = tokio::spawn(async move {
        let answer = daemon.submit(BEGINNING, large_batch()).await;
        (daemon, answer)
    });
    let died = tokio::select! {
        biased;
        () = lost(&proxy) => true,
        ended = dying => {
            ended.unwrap().1.unwrap();
            false
        }
    };
    let stats = other.stats(BEGINNING).await.unwrap();
    assert_eq!(other.check(BEGINNING).await.unwrap(), Vec::<String>::new(), "call {nth}");
    let jobs = other.claim(BEGINNING, ClaimRequest::new(worker(2), 2000)).await.unwrap().jobs;
    assert_eq!(jobs.len() as u64, stats.counts.queued, "call {nth}");
    (died, u128::from(stats.counts.queued))
}

async fn lost(proxy: &Proxy) {
    while proxy.faults() == 0 {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_commit_of_a_daemon_that_dies_is_there_whole_or_not_at_all() {
    let mut seen = Vec::new();
    // For the server, a request that is lost is the end after the call before.
    for nth in 0.. {
        let (died, there) = die_in_large_commit(nth).await;
        assert!(there == 0 || there == MANY, "{there} of {MANY} jobs after call {nth}");
        if !died {
            break;
        }
        seen.push(there);
    }
    assert!(seen.contains(&0) && seen.contains(&MANY), "{seen:?}");
}

#[tokio::test]
async fn forgotten_scripts_are_not_noticed() {
    let server = runcue_test_servers::Redis::settings().start().unwrap();
    let store = open(&server.url());
    for n in 1..=20 {
        server.command(&["SCRIPT", "FLUSH"]).unwrap();
        store.submit(BEGINNING, SubmitBatch::of(vec![job(n)])).await.unwrap();
        server.command(&["SCRIPT", "FLUSH"]).unwrap();
        let claimed = store.claim(BEGINNING, ClaimRequest::new(worker(1), 1)).await.unwrap();
        assert_eq!(claimed.jobs.len(), 1);
        server.command(&["SCRIPT", "FLUSH"]).unwrap();
        let found = store.get(vec![id(n)]).await.unwrap();
        assert_eq!(found[0].as_ref().unwrap().life.state.word(), StateWord::Running);
    }
}

#[tokio::test]
async fn a_daemon_that_is_gone_in_its_turn_holds_nobody_up_for_long() {
    let server = runcue_test_servers::Redis::settings().start().unwrap();
    let store = open(&server.url());
    let turn = "runcue:{default}:turn";
    assert_eq!(server.command(&["SET", turn, "somebody", "PX", "2000"]).unwrap(), "+OK");
    store.submit(BEGINNING, SubmitBatch::of(vec![job(1)])).await.unwrap();
    assert_eq!(store.stats(BEGINNING).await.unwrap().counts.queued, 1);
}
