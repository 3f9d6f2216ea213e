//! Queues of earlier versions are opened for ever. `tests/fixtures/schema-N.txt` was written by the last version with
//! that schema, as the commands that make its keys; [`write`] is what wrote it. To write the one of the present
//! schema anew:
//!
//! ```text
//! RUNCUE_FIXTURE=$PWD/crates/store-redis/tests/fixtures/schema-1.txt cargo nextest run -p runcue-store-redis fixture
//! ```

use std::path::Path;
use std::time::Duration;

use redis::{Commands, Connection};
use runcue_core::{
    ErrorKind, GroupName, JobFilter, JobId, JobSpec, Json, Key, QueueName, QueueSpec, Rate,
    RetryPolicy, ServiceName, ServiceSpec, StateWord, TaskName, TaskSpec, Timestamp, Use, WorkerId,
};
use runcue_store::{
    ClaimRequest, Finish, Finished, LogChunk, LogStream, Outcome, Store, SubmitBatch, WorkerSpec,
};
use runcue_store_redis::SCHEMA;
use runcue_test_servers::Redis;

const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);
const WORKER: WorkerId = WorkerId::from_u128(1);

fn open(server: &Redis) -> runcue_store_redis::RedisStore {
    runcue_store_redis::open_url(&format!("{}?clock=caller", server.url())).unwrap()
}

fn id(n: u128) -> JobId {
    JobId::from_u128(n)
}

fn job(n: u128) -> JobSpec {
    let retry = RetryPolicy { jitter: false, ..RetryPolicy::attempts(1) };
    JobSpec { retry, ..JobSpec::new(id(n), TaskName::new("t").unwrap()) }
}

fn failed(kind: ErrorKind) -> Outcome {
    Outcome::Failed { error: "boom".to_owned(), kind, code: None, service: None }
}

/// A queue with a job in every state, a service in use, groups, a queue, a task, output and events.
async fn write(server: &Redis) {
    let store = open(server);
    let api = ServiceName::new("api").unwrap();
    let rates = vec![Rate { limit: 10, window: Duration::from_secs(60) }];
    let service = ServiceSpec { max_concurrent: Some(3), rates, ..ServiceSpec::new(api.clone()) };
    store.upsert_services(NOW, vec![service]).await.unwrap();
    store.upsert_tasks(NOW, vec![TaskSpec::new(TaskName::new("t").unwrap())]).await.unwrap();
    let queue = QueueSpec {
        name: QueueName::new("side").unwrap(),
        max_queued: Some(9),
        on_full: Default::default(),
        paused: false,
    };
    store.upsert_queues(NOW, vec![queue]).await.unwrap();
    let worker = WorkerSpec {
        id: WORKER,
        name: "old".to_owned(),
        host: "elsewhere".to_owned(),
        pid: 1,
        slots: 4,
        offers: Default::default(),
    };
    store.upsert_worker(NOW, worker).await.unwrap();
    let priority = |n: u128| 100 - i32::try_from(n).unwrap();
    let mut jobs: Vec<JobSpec> =
        (1..=6).map(|n| JobSpec { priority: priority(n), ..job(n) }).collect();
    jobs[4].services = vec![Use { service: api.clone(), units: 2 }];
    jobs[0].params = Json::parse(r#"{"width":640}"#).unwrap();
    jobs.extend([
        JobSpec { group: Some(GroupName::new("g").unwrap()), ..job(7) },
        JobSpec { depends_on: vec![id(7)], ..job(8) },
        JobSpec { run_at: Some(NOW.plus(Duration::from_secs(600))), ..job(9) },
        JobSpec {
            key: Some(Key::new("k").unwrap()),
            idempotency_key: Some("once".to_owned()),
            queue: QueueName::new("side").unwrap(),
            services: vec![Use::one(api)],
            ..job(10)
        },
    ]);
    store.submit(NOW, SubmitBatch::of(jobs)).await.unwrap();
    store.set_group_paused(NOW, GroupName::new("g").unwrap(), true).await.unwrap();
    let only = |ids: &[u128], start| ClaimRequest {
        only: Some(ids.iter().copied().map(id).collect()),
        start,
        ..ClaimRequest::new(WORKER, 9)
    };
    let claimed = store.claim(NOW, only(&[1, 2, 3, 5], true)).await.unwrap().jobs;
    store.claim(NOW, only(&[6], false)).await.unwrap();
    let lease = |n: usize| claimed[n].1.clone();
    let chunk = LogChunk {
        n: 0,
        job: id(1),
        attempt: 1,
        token: lease(0).token,
        stream: LogStream::Stdout,
        at: NOW,
        text: "hello\n".to_owned(),
    };
    store.append_logs(NOW, vec![chunk]).await.unwrap();
    let done = Outcome::Done { result: Json::parse("[1,2]").ok(), result_key: None };
    let ends = vec![
        Finish { lease: lease(0), outcome: done },
        Finish { lease: lease(1), outcome: failed(ErrorKind::Permanent) },
        Finish { lease: lease(2), outcome: failed(ErrorKind::Transient) },
    ];
    store.finish(NOW, ends).await.unwrap();
    store.cancel(NOW, JobFilter::of_ids([id(4)]), false).await.unwrap();
    store.close().await.unwrap();
}

/// Finds everything, and works the queue off.
async fn read_and_work_off(server: &Redis) {
    let store = open(server);
    assert_eq!(store.check(NOW).await.unwrap(), Vec::<String>::new());
    let jobs = store.get((1..=10).map(id).collect()).await.unwrap();
    let jobs: Vec<_> = jobs.into_iter().map(Option::unwrap).collect();
    let states: Vec<StateWord> = jobs.iter().map(|job| job.life.state.word()).collect();
    use StateWord::{Cancelled, Completed, Failed, Leased, Quarantined, Queued, Running};
    let rest = [Queued; 4];
    assert_eq!(states[..6], [Completed, Failed, Quarantined, Cancelled, Running, Leased]);
    assert_eq!(states[6..], rest);
    assert_eq!(jobs[0].life.result.as_ref().unwrap().as_str(), "[1,2]");
    assert_eq!(jobs[0].spec.params.as_str(), r#"{"width":640}"#);
    assert_eq!(store.logs(id(1), 0).await.unwrap()[0].text, "hello\n");
    let events = store.events(0, 1_000).await.unwrap();
    assert_eq!(events.len() as u64, store.last_event().await.unwrap());
    let api = store.services(NOW).await.unwrap().remove(0);
    assert_eq!((api.in_use, api.used[0].1), (1, 2), "the running job's slot and units");
    assert!(store.groups().await.unwrap().iter().any(|group| group.paused));
    assert_eq!(store.queues().await.unwrap().len(), 2);
    assert_eq!(store.tasks().await.unwrap().len(), 1);

    store.set_group_paused(NOW, GroupName::new("g").unwrap(), false).await.unwrap();
    assert_eq!(store.retry(NOW, JobFilter::of_ids([id(2), id(3), id(4)])).await.unwrap(), 3);
    // The worker of the leases is gone; jobs with one attempt are set aside with it.
    let later = NOW.plus(Duration::from_secs(3600));
    let reaped = store.reap(later, vec![WORKER]).await.unwrap();
    assert_eq!(reaped.quarantined.len() + reaped.requeued.len(), 2);
    store.retry(later, JobFilter::of_ids([id(5), id(6)])).await.unwrap();
    loop {
        let claimed =
            store.claim(later, ClaimRequest::new(WorkerId::from_u128(2), 9)).await.unwrap();
        if claimed.jobs.is_empty() {
            break;
        }
        let done = |(_, lease)| Finish {
            lease,
            outcome: Outcome::Done { result: None, result_key: None },
        };
        let ends = claimed.jobs.into_iter().map(done).collect();
        for answer in store.finish(later, ends).await.unwrap() {
            assert_eq!(answer, Finished::Now { state: Completed, retry_at: None });
        }
    }
    assert_eq!(store.stats(later).await.unwrap().counts.completed, 10);
    assert_eq!(store.check(later).await.unwrap(), Vec::<String>::new());
}

/// All keys as commands, a line each. What expires by itself is left out.
fn dump(connection: &mut Connection) -> String {
    let mut keys: Vec<Vec<u8>> = connection.keys("*").unwrap();
    keys.sort();
    let mut lines = String::new();
    let mut line = |words: &[&[u8]]| {
        let words: Vec<String> = words
            .iter()
            .map(|word| word.escape_ascii().to_string().replace(' ', "\\x20"))
            .collect();
        lines.push_str(&words.join(" "));
        lines.push('\n');
    };
    for key in keys {
        let key = &key[..];
        if connection.ttl::<_, i64>(key).unwrap() >= 0 {
            continue;
        }
        let kind: String = redis::cmd("TYPE").arg(key).query(connection).unwrap();
        match kind.as_str() {
            "hash" => {
                let mut rows: Vec<(Vec<u8>, Vec<u8>)> = connection.hgetall(key).unwrap();
                rows.sort();
                rows.iter().for_each(|(name, value)| line(&[b"HSET", key, name, value]));
            }
            "zset" => {
                let rows: Vec<(Vec<u8>, Vec<u8>)> =
                    connection.zrange_withscores(key, 0, -1).unwrap();
                rows.iter().for_each(|(member, score)| line(&[b"ZADD", key, score, member]));
            }
            "set" => {
                let mut rows: Vec<Vec<u8>> = connection.smembers(key).unwrap();
                rows.sort();
                rows.iter().for_each(|member| line(&[b"SADD", key, member]));
            }
            "list" => {
                let rows: Vec<Vec<u8>> = connection.lrange(key, 0, -1).unwrap();
                rows.iter().for_each(|one| line(&[b"RPUSH", key, one]));
            }
            "stream" => {
                let rows: Vec<(Vec<u8>, Vec<Vec<u8>>)> =
                    redis::cmd("XRANGE").arg(key).arg("-").arg("+").query(connection).unwrap();
                for (id, fields) in &rows {
                    let mut words: Vec<&[u8]> = vec![b"XADD", key, id];
                    words.extend(fields.iter().map(Vec::as_slice));
                    line(&words);
                }
            }
            other => panic!("{other} {}", key.escape_ascii()),
        }
    }
    lines
}

/// Does what a dump says.
fn load(connection: &mut Connection, lines: &str) {
    for line in lines.lines() {
        let mut words = line.split(' ').map(unescaped);
        let verb = words.next().unwrap();
        let mut command = redis::cmd(std::str::from_utf8(&verb).unwrap());
        for word in words {
            command.arg(word);
        }
        command.exec(connection).unwrap();
    }
}

fn unescaped(word: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = word.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'\\' => match rest.next().unwrap() {
                b'x' => {
                    let digits = [rest.next().unwrap(), rest.next().unwrap()];
                    u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap()
                }
                b'n' => b'\n',
                b'r' => b'\r',
                b't' => b'\t',
                other => other,
            },
            byte => byte,
        });
    }
    bytes
}

fn connection(server: &Redis) -> Connection {
    redis::Client::open(server.url()).unwrap().get_connection().unwrap()
}

#[tokio::test]
async fn this_version_writes_a_queue_that_it_can_read_and_work_off() {
    let server = Redis::settings().start().unwrap();
    write(&server).await;
    let written = dump(&mut connection(&server));
    read_and_work_off(&server).await;
    if let Some(kept) = std::env::var_os("RUNCUE_FIXTURE") {
        std::fs::write(kept, written).unwrap();
    }
}

#[tokio::test]
async fn queues_of_every_schema_so_far_open_and_are_worked_off() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    for schema in 1..=SCHEMA {
        let path = fixtures.join(format!("schema-{schema}.txt"));
        let lines = std::fs::read_to_string(&path)
            .unwrap_or_else(|_| panic!("{} is missing; see the head of this file", path.display()));
        let server = Redis::settings().start().unwrap();
        load(&mut connection(&server), &lines);
        assert_eq!(dump(&mut connection(&server)), lines, "{}", path.display());
        read_and_work_off(&server).await;
        let now: u32 = connection(&server).hget("runcue:{default}:meta", "schema").unwrap();
        assert_eq!(now, SCHEMA);
    }
}
