//! A server that forgets: its scripts, in the middle of all kinds of work, and everything, under daemons that go on.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use runcue_core::{EventKind, Job, JobId, JobSpec, Json};
use runcue_store::{ClaimRequest, Finish, Finished, ListRequest, Store, SubmitBatch};
use runcue_store_redis::{RedisStore, SCHEMA, open_url};
use runcue_store_suite::scene::{BEGINNING, done, drain, group, id, job, job_of, worker};
use runcue_test_servers::Redis;

fn padded(n: u128) -> JobSpec {
    let padding = Json::from_value(&"x".repeat(300)).unwrap();
    JobSpec { params: padding, ..job(n) }
}

/// Forgets the scripts all the time.
struct Forgetful {
    over: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Forgetful {
    fn on(server: &Redis) -> Self {
        let mut control = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
        let over = Arc::new(AtomicBool::new(false));
        let until = over.clone();
        let thread = thread::spawn(move || {
            while !until.load(Ordering::Acquire) {
                redis::cmd("SCRIPT").arg("FLUSH").exec(&mut control).unwrap();
                // Often enough that it falls into every kind of commit, and seldom enough that one is ever through.
                thread::sleep(std::time::Duration::from_millis(3));
            }
        });
        Self { over, thread: Some(thread) }
    }

    fn end(mut self) {
        self.over.store(true, Ordering::Release);
        self.thread.take().unwrap().join().unwrap();
    }
}

/// How often a script was not known.
fn unknown_scripts(server: &Redis) -> u64 {
    let count = "local said = redis.call('INFO', 'errorstats') \
        return tonumber(string.match(said, 'errorstat_NOSCRIPT:count=(%d+)') or '0')";
    let said = server.command(&["EVAL", count, "0"]).unwrap();
    said.trim_start_matches(':').parse().unwrap()
}

/// One job, few, many and so many that they are staged; through two handles, of which one claims what the other submits.
async fn goes_through(server: &Redis, how: &str) {
    let url = format!("{}?{how}", server.url());
    let open = || Arc::new(open_url(&url).unwrap());
    let (one, two) = (open(), open());
    let forgetful = Forgetful::on(server);
    let before = unknown_scripts(server);
    let mut next = 1;
    for (size, times) in [(1, 30), (50, 10), (600, 4), (4000, 1)] {
        for n in 0..times {
            let ids: Vec<JobId> = (next..next + size).map(id).collect();
            let jobs = (next..next + size).map(padded).collect();
            let submitted = one.submit(BEGINNING, SubmitBatch::of(jobs)).await.unwrap();
            assert_eq!(submitted.len(), ids.len());
            let by = if n % 2 == 0 { &one } else { &two };
            let had = drain(by.clone(), BEGINNING, 1, ids.len()).await;
            assert_eq!(had, ids, "{size} jobs, {n}");
            next += size;
        }
    }
    assert!(unknown_scripts(server) > before + 20, "the scripts were there nearly always");
    forgetful.end();
    let total = u64::try_from(next - 1).unwrap();
    assert_eq!(two.stats(BEGINNING).await.unwrap().counts.completed, total);
    assert_eq!(two.check(BEGINNING).await.unwrap(), Vec::<String>::new());
    let events = one.events(0, 1_000_000).await.unwrap();
    for kind in [EventKind::Queued, EventKind::Started, EventKind::Completed] {
        let told: Vec<_> = events.iter().filter(|event| event.kind == kind).collect();
        let jobs: HashSet<_> = told.iter().map(|event| event.job).collect();
        assert_eq!((told.len() as u64, jobs.len() as u64), (total, total), "{kind:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scripts_that_are_forgotten_in_the_middle_of_work_lose_and_double_nothing() {
    let server = Redis::settings().start().unwrap();
    goes_through(&server, "space=a&transactions=off").await;
    goes_through(&server, "space=b").await;
}

async fn claim(store: &RedisStore, most: usize) -> Vec<Finish> {
    let claimed = store.claim(BEGINNING, ClaimRequest::new(worker(1), most)).await.unwrap();
    let end = |(_, lease)| Finish { lease, outcome: done() };
    claimed.jobs.into_iter().map(end).collect()
}

fn of_group(from: u128, name: &str) -> SubmitBatch {
    SubmitBatch::of((from..from + 5).map(|n| job_of(n, name)).collect())
}

/// The jobs of a group as they are listed, oldest first.
async fn listed(store: &RedisStore, name: &str) -> Vec<u128> {
    let mut request = ListRequest { limit: 100, ..ListRequest::default() };
    request.filter.group = Some(group(name));
    let rows = store.list(request).await.unwrap().rows;
    rows.iter().rev().map(|job: &Job| job.id().as_u128()).collect()
}

/// As many commits as there were before everything was forgotten.
async fn same_again(store: &RedisStore, from: u128, name: &str) {
    for n in 0..3 {
        store.submit(BEGINNING, of_group(from + 5 * n, name)).await.unwrap();
    }
    assert_eq!(claim(store, 4).await.len(), 4);
}

/// What is known of the queue before is not written onto the one that has begun in its place, however alike they are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_is_begun_anew_under_a_daemon_is_not_taken_for_the_former() {
    for restarts in [false, true] {
        let mut server = Redis::settings().set("appendonly", "no").start().unwrap();
        same_again(&open_url(&server.url()).unwrap(), 100, "former").await;
        let daemon = open_url(&server.url()).unwrap();
        let held = claim(&daemon, 3).await;
        assert_eq!(listed(&daemon, "former").await.len(), 15);
        if restarts {
            server.kill9();
            server.restart().unwrap();
        } else {
            assert_eq!(server.command(&["FLUSHALL"]).unwrap(), "+OK");
        }
        let other = open_url(&server.url()).unwrap();
        same_again(&other, 200, "latter").await;
        claim(&other, 3).await;
        let ended = daemon.finish(BEGINNING, held).await.unwrap();
        assert!(ended.iter().all(|end| matches!(end, Finished::Lost)), "{ended:?}");
        assert_eq!(daemon.stats(BEGINNING).await.unwrap().counts.queued, 8);
        assert_eq!(listed(&daemon, "latter").await, (200..215).collect::<Vec<_>>());
        assert_eq!(listed(&daemon, "former").await, []);
        daemon.set_group_paused(BEGINNING, group("latter"), true).await.unwrap();
        assert_eq!(claim(&daemon, 9).await.len(), 0);
        daemon.set_group_paused(BEGINNING, group("latter"), false).await.unwrap();
        let rest = claim(&daemon, 9).await;
        let ids: Vec<u128> = rest.iter().map(|end| end.lease.job.as_u128()).collect();
        assert_eq!(ids, (207..215).collect::<Vec<_>>());
        daemon.finish(BEGINNING, rest).await.unwrap();
        assert_eq!(daemon.check(BEGINNING).await.unwrap(), Vec::<String>::new());
        assert_eq!(other.stats(BEGINNING).await.unwrap().counts.completed, 8);
    }
}

/// Nobody opens it anew: those who were there go on, on a queue of the present schema with nothing in it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_that_is_deleted_under_running_daemons_is_gone_and_work_goes_on() {
    let server = Redis::settings().start().unwrap();
    for how in ["space=a&transactions=off", "space=b"] {
        let url = format!("{}?{how}", server.url());
        let open = || Arc::new(open_url(&url).unwrap());
        let (one, two) = (open(), open());
        one.submit(BEGINNING, of_group(1, "former")).await.unwrap();
        let held = claim(&two, 2).await;
        assert_eq!(server.command(&["FLUSHALL"]).unwrap(), "+OK");
        let ended = two.finish(BEGINNING, held).await.unwrap();
        assert!(ended.iter().all(|end| matches!(end, Finished::Lost)), "{ended:?}");
        assert!(claim(&one, 9).await.is_empty());
        assert_eq!(one.get(vec![id(1)]).await.unwrap(), [None]);
        one.submit(BEGINNING, of_group(11, "latter")).await.unwrap();
        let had = drain(two.clone(), BEGINNING, 2, 3).await;
        assert_eq!(had, (11..16).map(id).collect::<Vec<_>>());
        assert_eq!(one.stats(BEGINNING).await.unwrap().counts.total(), 5);
        assert_eq!(one.check(BEGINNING).await.unwrap(), Vec::<String>::new());
        let space = &how[6..7];
        let schema = ["HGET", &format!("runcue:{{{space}}}:meta"), "schema"];
        let mut control = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
        let schema: Option<u32> =
            redis::cmd(schema[0]).arg(&schema[1..]).query(&mut control).unwrap();
        assert_eq!(schema, Some(SCHEMA), "a version that is older than this one is told so");
    }
}

/// One that is alone asks nobody before it writes.
#[tokio::test]
async fn a_daemon_alone_writes_nothing_onto_what_is_not_there_any_more() {
    let server = Redis::settings().start().unwrap();
    for how in ["space=a&transactions=off", "space=b"] {
        let store = open_url(&format!("{}?{how}", server.url())).unwrap();
        for n in 0..12 {
            store.submit(BEGINNING, of_group(1 + 5 * n, "former")).await.unwrap();
        }
        let held = claim(&store, 2).await;
        assert_eq!(server.command(&["FLUSHALL"]).unwrap(), "+OK");
        let ended = store.finish(BEGINNING, held).await.unwrap();
        assert!(ended.iter().all(|end| matches!(end, Finished::Lost)), "{ended:?}");
        store.submit(BEGINNING, of_group(101, "latter")).await.unwrap();
        assert_eq!(store.stats(BEGINNING).await.unwrap().counts.total(), 5);
        assert_eq!(listed(&store, "former").await, []);
        assert_eq!(store.check(BEGINNING).await.unwrap(), Vec::<String>::new());
    }
}
