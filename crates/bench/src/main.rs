//! probe
#![expect(clippy::print_stdout, clippy::disallowed_methods, reason = "x")]
use std::time::Instant;
use runcue_core::*;
use runcue_store::*;
use runcue_store_sqlite::*;

fn now() -> Timestamp { Timestamp::from_micros(std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("t").as_micros() as i64) }

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let n: usize = std::env::args().nth(1).and_then(|s| s.parse().ok()).unwrap_or(100_000);
    let groups: usize = std::env::args().nth(2).and_then(|s| s.parse().ok()).unwrap_or(1);
    let batch: usize = std::env::args().nth(3).and_then(|s| s.parse().ok()).unwrap_or(1000);
    let dir = tempfile::tempdir().expect("d");
    let store = SqliteStore::open(Options::new(dir.path().join("q.db"))).expect("open");
    let mut id = 0u128;
    let task = TaskName::new("noop").expect("n");
    let names: Vec<_> = (0..groups).map(|g| GroupName::new(format!("g{g}")).expect("g")).collect();
    let t = Instant::now();
    let mut left = n;
    while left > 0 {
        let k = left.min(batch);
        let jobs = (0..k).map(|_| { id += 1; let mut j = JobSpec::new(JobId::time_ordered(now(), id << 20 | id), task.clone()); if groups > 1 { j.group = Some(names[id as usize % groups].clone()); } j.params = Json::parse("{\"n\":1,\"name\":\"hello world\"}").expect("j"); j }).collect();
        store.submit(now(), SubmitBatch::of(jobs)).await.expect("s");
        left -= k;
    }
    let e = t.elapsed();
    println!("submit {:.0}/s", n as f64 / e.as_secs_f64());
    let worker = WorkerId::from_u128(1);
    let t = Instant::now();
    let mut done = 0;
    let mut claim_t = std::time::Duration::ZERO;
    while done < n {
        let c = Instant::now();
        let claimed = store.claim(now(), ClaimRequest::new(worker, 100)).await.expect("c");
        claim_t += c.elapsed();
        let ends: Vec<_> = claimed.jobs.into_iter().map(|(_, lease)| Finish { lease, outcome: runcue_store::Outcome::Done { result: None, result_key: None } }).collect();
        if ends.is_empty() { println!("stuck at {done}"); break; }
        done += ends.len();
        store.finish(now(), ends).await.expect("f");
    }
    let e = t.elapsed();
    println!("drain {:.0}/s, claim part {:.2} us/job", n as f64 / e.as_secs_f64(), claim_t.as_micros() as f64 / n as f64);
    println!("{:?}", store.stats(now()).await.expect("s"));
    println!("{:?}", store.check(now()).await.expect("s"));
}
