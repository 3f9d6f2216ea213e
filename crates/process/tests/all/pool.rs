//! Calls to worker processes, well behaved and not.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use runcue_process::pool::{FailureKind, Progress, Reply, Request};
use runcue_process::{CommandSpec, Exit, PoolError, ProcessPool};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::sight::{LONG, assert_all_end, eventually, runs};

const FIXTURE: &str = env!("CARGO_BIN_EXE_runcue-process-fixture");

fn pool(size: usize) -> ProcessPool {
    ProcessPool::new(CommandSpec::new([FIXTURE, "worker"]), size, LONG)
}

fn shell_pool(line: &str) -> ProcessPool {
    ProcessPool::new(CommandSpec::shell(line.to_owned()), 1, LONG)
}

fn request(task: &str) -> Request {
    Request {
        id: format!("{task}-1"),
        task: task.to_owned(),
        target: Value::Null,
        params: json!({"n": 1}),
        attempt: 1,
        traceparent: None,
    }
}

async fn call(pool: &ProcessPool, task: &str) -> Result<Reply, PoolError> {
    let cancel = CancellationToken::new();
    pool.call(&request(task), Some(LONG), &cancel, |_| {}).await
}

async fn pid(pool: &ProcessPool) -> u32 {
    match call(pool, "pid").await.expect("a reply") {
        Reply::Done(pid) => serde_json::from_value(pid).expect("a pid"),
        Reply::Failed { message, .. } => panic!("{message}"),
    }
}

#[tokio::test]
async fn a_call_brings_progress_and_a_result_despite_stray_prints() {
    let mut reports = Vec::new();
    let cancel = CancellationToken::new();
    let reply = pool(1)
        .call(&request("echo"), None, &cancel, |report| {
            reports.push(report);
        })
        .await
        .unwrap();
    assert_eq!(reply, Reply::Done(json!({"n": 1})));
    let half = Progress { percent: 50, message: Some("half way".to_owned()) };
    assert_eq!(reports, [half]);
}

#[tokio::test]
async fn a_failure_is_a_reply_and_keeps_the_worker() {
    let pool = pool(1);
    let before = pid(&pool).await;
    let failed =
        Reply::Failed { message: "no such thing".to_owned(), kind: FailureKind::Permanent };
    assert_eq!(call(&pool, "fail").await.unwrap(), failed);
    assert_eq!(pid(&pool).await, before);
}

#[tokio::test]
async fn a_hundred_calls_reuse_the_same_workers() {
    let pool = pool(2);
    let mut pids = BTreeSet::new();
    for _ in 0..50 {
        let (one, other) = tokio::join!(pid(&pool), pid(&pool));
        pids.extend([one, other]);
    }
    assert!(pids.len() <= 2, "{pids:?}");
    pool.close().await;
    assert!(!pids.iter().any(|pid| runs(*pid)));
    assert!(matches!(call(&pool, "pid").await, Err(PoolError::Closed)));
}

#[tokio::test]
async fn a_crash_is_the_matter_of_one_call() {
    let pool = pool(2);
    let (crash, fine) = tokio::join!(call(&pool, "abort"), call(&pool, "echo"));
    assert!(
        matches!(crash, Err(PoolError::Crashed { exit: Some(Exit::Signal(6)), .. })),
        "{crash:?}"
    );
    assert!(fine.is_ok());
    let exit = call(&pool, "exit").await;
    assert!(matches!(exit, Err(PoolError::Crashed { exit: Some(Exit::Code(7)), .. })), "{exit:?}");
    assert!(call(&pool, "echo").await.is_ok());
}

#[tokio::test]
async fn a_panic_is_explained_by_what_the_worker_wrote() {
    match call(&pool(1), "panic").await {
        Err(PoolError::Crashed { stderr, .. }) => {
            assert!(stderr.text.contains("the handler gave up"), "{stderr:?}");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_timeout_kills_the_worker_and_what_it_started() {
    let pool = pool(1);
    let worker = pid(&pool).await;
    let mut child = 0;
    let cancel = CancellationToken::new();
    let timeout = Some(Duration::from_millis(500));
    let outcome = pool
        .call(&request("hang"), timeout, &cancel, |report| {
            child = report.message.unwrap().parse().unwrap();
        })
        .await;
    assert!(matches!(outcome, Err(PoolError::TimedOut)), "{outcome:?}");
    assert!(!runs(worker));
    assert_all_end(&[child]);
    assert_ne!(pid(&pool).await, worker);
}

#[tokio::test]
async fn a_cancelled_call_kills_its_worker() {
    let pool = pool(1);
    let worker = pid(&pool).await;
    let cancel = CancellationToken::new();
    let outcome = pool.call(&request("hang"), None, &cancel, |_| cancel.cancel()).await;
    assert!(matches!(outcome, Err(PoolError::Cancelled)), "{outcome:?}");
    assert!(!runs(worker));
}

#[tokio::test]
async fn a_dropped_call_kills_its_worker_and_frees_its_place() {
    let pool = pool(1);
    let worker = pid(&pool).await;
    let cancel = CancellationToken::new();
    let (tell, told) = tokio::sync::oneshot::channel();
    let mut tell = Some(tell);
    let request = request("hang");
    tokio::select! {
        _ = pool.call(&request, None, &cancel, move |_| {
            if let Some(tell) = tell.take() {
                let _ = tell.send(());
            }
            }) => panic!("it hangs"),
        _ = told => {}
    }
    assert_all_end(&[worker]);
    assert_ne!(pid(&pool).await, worker);
}

#[tokio::test]
async fn a_worker_without_heartbeat_is_replaced() {
    let spec = CommandSpec::new([FIXTURE, "worker"]);
    let pool = ProcessPool::new(spec, 1, Duration::from_secs(3));
    let mut frozen = 0;
    let cancel = CancellationToken::new();
    let outcome = pool
        .call(&request("freeze"), None, &cancel, |report| {
            frozen = report.message.unwrap().parse().unwrap();
        })
        .await;
    assert!(matches!(outcome, Err(PoolError::Stuck { .. })), "{outcome:?}");
    assert!(!runs(frozen));
    assert_ne!(pid(&pool).await, frozen);
}

#[tokio::test]
async fn a_busy_worker_with_a_heartbeat_is_left_alone() {
    let spec = CommandSpec::new([FIXTURE, "worker"]);
    let pool = ProcessPool::new(spec, 1, Duration::from_millis(1900));
    let cancel = CancellationToken::new();
    let started = Instant::now();
    let timeout = Some(Duration::from_millis(4500));
    let outcome = pool.call(&request("hang"), timeout, &cancel, |_| {}).await;
    assert!(matches!(outcome, Err(PoolError::TimedOut)), "{outcome:?}");
    assert!(started.elapsed() >= Duration::from_millis(4500));
}

#[tokio::test]
async fn a_worker_that_never_speaks_is_given_up_after_the_start_timeout() {
    let pool = shell_pool("exec sleep 1000").with_start_timeout(Duration::from_millis(200));
    let outcome = call(&pool, "pid").await;
    assert!(matches!(outcome, Err(PoolError::Stuck { .. })), "{outcome:?}");
}

#[tokio::test]
async fn garbage_is_shown_and_the_worker_replaced() {
    let pool = shell_pool("read line; echo hello there; exec sleep 1000");
    match call(&pool, "pid").await {
        Err(PoolError::Garbage { line }) => assert_eq!(line, "hello there"),
        other => panic!("{other:?}"),
    }
    assert!(pool.idle_pids().is_empty());
}

#[tokio::test]
async fn a_line_without_end_is_garbage() {
    let pool = shell_pool("exec cat /dev/zero");
    let outcome = call(&pool, "pid").await;
    assert!(matches!(outcome, Err(PoolError::Garbage { .. })), "{outcome:?}");
}

#[tokio::test]
async fn a_last_word_before_the_end_counts() {
    let pool = shell_pool(r#"read line; echo '{"id":"pid-1","result":5}'"#);
    for _ in 0..2 {
        assert_eq!(call(&pool, "pid").await.unwrap(), Reply::Done(json!(5)));
        // Until then it would be taken for a worker that can be used again.
        assert_all_end(&pool.idle_pids());
    }
}

#[tokio::test]
async fn a_worker_that_died_while_idle_is_nobodys_crash() {
    let pool = pool(1);
    let worker = pid(&pool).await;
    runcue_process::signal::kill(worker).unwrap();
    eventually("the end of the idle worker", || !runs(worker));
    assert_ne!(pid(&pool).await, worker);
}

#[tokio::test]
async fn large_requests_and_replies_pass_and_larger_ones_are_refused() {
    let pool = pool(1);
    let cancel = CancellationToken::new();
    let mut request = request("echo");
    request.params = json!("x".repeat(4 << 20));
    let reply = pool.call(&request, Some(LONG), &cancel, |_| {}).await;
    assert!(reply.unwrap() == Reply::Done(request.params.clone()));
    request.params = json!("x".repeat(8 << 20));
    let refused = pool.call(&request, Some(LONG), &cancel, |_| {}).await;
    assert!(matches!(refused, Err(PoolError::TooLarge { .. })));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_calls_than_workers_wait_their_turn_from_any_task() {
    let pool = std::sync::Arc::new(pool(2));
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let pool = std::sync::Arc::clone(&pool);
        calls.spawn(async move { pid(&pool).await });
    }
    let pids: BTreeSet<u32> = calls.join_all().await.into_iter().collect();
    assert!(pids.len() <= 2, "{pids:?}");
}

#[tokio::test]
async fn a_missing_worker_program_is_named() {
    let pool = ProcessPool::new(CommandSpec::new(["no-such-worker"]), 1, LONG);
    let error = call(&pool, "pid").await.unwrap_err();
    assert!(error.to_string().contains("no-such-worker"), "{error}");
}
