//! Subprocesses, in real time.

use std::sync::Arc;

use runcue_core::StateWord;
use runcue_engine::{Cue, JobExt, NewJob, Task};
use runcue_process::{CommandSpec, ProcessPool};
use runcue_store::{LogStream, MemoryStore};
use serde_json::Value;

use crate::support::{millis, retry, secs, until_running, word};

async fn cue(script: &'static str) -> Cue {
    let task = Task::new("sh").unwrap().retry(retry(1)).command(move |work| {
        Ok(CommandSpec::shell(script.to_owned()).with_env("TARGET", work.target().unwrap_or("")))
    });
    let cue = Cue::builder(MemoryStore::new()).task(task).build().await.unwrap();
    cue.start();
    cue
}

#[tokio::test]
async fn a_command_gives_its_output_and_code() {
    let cue = cue("echo hello $TARGET; echo oops >&2").await;
    let id = cue.submit(NewJob::of("sh").target("moon")).await.unwrap();
    let result: Value = cue.result(id).await.unwrap();
    assert_eq!(result["stdout"], "hello moon\n");
    assert_eq!(result["stderr"], "oops\n");
    assert_eq!(result["exit_code"], 0);
    let logs = cue.store().logs(id, 0).await.unwrap();
    assert!(logs.iter().any(|c| c.stream == LogStream::Stdout && c.text == "hello moon\n"));
    assert!(logs.iter().any(|c| c.stream == LogStream::Stderr && c.text == "oops\n"));
}

#[tokio::test]
async fn another_code_than_zero_is_a_failure_with_the_last_words() {
    let cue = cue("echo no such host >&2; exit 75").await;
    let id = cue.submit(NewJob::of("sh")).await.unwrap();
    let job = cue.wait(id).await.unwrap();
    assert_eq!(word(&job), StateWord::Quarantined);
    assert_eq!(job.life.last_error.as_deref(), Some("exit 75: no such host"));
}

#[tokio::test]
async fn a_missing_program_is_a_permanent_failure() {
    let task = Task::new("t").unwrap().command(|_| Ok(CommandSpec::new(["no-such-program-here"])));
    let cue = Cue::builder(MemoryStore::new()).task(task).build().await.unwrap();
    let id = cue.submit(NewJob::of("t")).await.unwrap();
    cue.run_inline().await.unwrap();
    let job = cue.get(id).await.unwrap();
    assert_eq!(word(&job), StateWord::Failed);
    assert!(job.life.last_error.unwrap().contains("was not found"));
}

#[tokio::test]
async fn a_command_that_takes_too_long_is_terminated() {
    let cue = cue("sleep 60").await;
    let start = std::time::Instant::now();
    let id = cue.submit(NewJob::of("sh").timeout(millis(200))).await.unwrap();
    let job = cue.wait(id).await.unwrap();
    assert_eq!(job.life.last_error.as_deref(), Some("timeout: ran longer than 200ms"));
    assert!(start.elapsed() < secs(10));
}

#[tokio::test]
async fn a_cancelled_command_is_terminated() {
    let cue = cue("sleep 60").await;
    let id = cue.submit(NewJob::of("sh")).await.unwrap();
    until_running(&cue, id).await;
    let start = std::time::Instant::now();
    cue.cancel(id, false).await.unwrap();
    assert_eq!(word(&cue.wait(id).await.unwrap()), StateWord::Cancelled);
    assert!(start.elapsed() < secs(5));
}

#[tokio::test]
async fn a_command_can_report_progress_a_result_and_a_rate_limit() {
    let script = "echo '::runcue progress 40 halfway'; echo '::runcue result {\"rows\": 12}'";
    let cue = cue(script).await;
    let id = cue.submit(NewJob::of("sh")).await.unwrap();
    let result: Value = cue.result(id).await.unwrap();
    assert_eq!(result["result"]["rows"], 12);
}

/// A pool worker in a few lines of shell: answers, fails or dies as it is told.
const WORKER: &str = r#"
while read -r line; do
  id=$(printf '%s' "$line" | sed 's/.*"id":"\([^"]*\)".*/\1/')
  case "$line" in
    *'"target":"die"'*) echo out of memory >&2; exit 9 ;;
    *'"target":"no"'*) echo "{\"id\":\"$id\",\"error\":\"bad input\",\"kind\":\"permanent\"}" ;;
    *) echo "{\"id\":\"$id\",\"result\":$$}" ;;
  esac
done
"#;

#[tokio::test]
async fn a_pool_keeps_its_workers_and_survives_their_crashes() {
    let pool = Arc::new(ProcessPool::new(CommandSpec::shell(WORKER.to_owned()), 1, secs(30)));
    let task = Task::new("t").unwrap().retry(retry(1)).pool(Arc::clone(&pool));
    let cue = Cue::builder(MemoryStore::new()).task(task).build().await.unwrap();
    cue.start();
    let run = async |target: &str| {
        let id = cue.submit(NewJob::of("t").target(target)).await.unwrap();
        cue.wait(id).await.unwrap()
    };
    let first: u32 = run("go").await.result().unwrap();
    assert_eq!(run("go").await.result::<u32>().unwrap(), first, "the same process");
    let refused = run("no").await;
    assert_eq!(
        (word(&refused), refused.life.last_error.as_deref()),
        (StateWord::Failed, Some("bad input"))
    );
    let crashed = run("die").await;
    assert_eq!(crashed.life.last_error.as_deref(), Some("the worker crashed: out of memory"));
    assert_ne!(run("go").await.result::<u32>().unwrap(), first, "a new one");
    cue.stop().await.unwrap();
    pool.close().await;
}

/// A cue that has run one job of a task.
async fn ran(task: Task) -> runcue_core::Job {
    let cue = Cue::builder(MemoryStore::new()).task(task).build().await.unwrap();
    cue.start();
    let id = cue.submit(NewJob::of("t").timeout(millis(300))).await.unwrap();
    cue.wait(id).await.unwrap()
}

#[tokio::test]
async fn how_much_output_of_a_command_is_kept_can_be_said_before_or_after_it() {
    let wordy = |_: &runcue_engine::Work| Ok(CommandSpec::shell("printf 0123456789".to_owned()));
    let before = Task::new("t").unwrap().output_bytes(4).command(wordy);
    let after = Task::new("t").unwrap().command(wordy).output_bytes(4);
    for task in [before, after] {
        let result: Value = ran(task).await.result().unwrap();
        let kept = result["stdout"].as_str().unwrap();
        assert!(kept.ends_with("6789") && !kept.contains("345"), "{kept:?}");
    }
}

#[tokio::test]
async fn the_grace_of_a_command_that_ignores_its_end_can_be_shortened() {
    let stubborn = "trap '' TERM; while :; do sleep 0.01; done".to_owned();
    let task = Task::new("t")
        .unwrap()
        .retry(retry(1))
        .command(move |_| Ok(CommandSpec::shell(stubborn.clone())))
        .kill_grace(millis(50));
    let begin = std::time::Instant::now();
    assert_eq!(word(&ran(task).await), StateWord::Quarantined);
    // The default alone is ten seconds.
    assert!(begin.elapsed() < secs(9), "{:?}", begin.elapsed());
}
