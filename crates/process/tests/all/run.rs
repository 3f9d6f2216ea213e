//! One command at a time.

use std::time::{Duration, Instant};

use runcue_process::{CommandSpec, Exit, Finished, Limits, Line, Output, SpawnError, Stream, run};
use tokio_util::sync::CancellationToken;

use crate::sight::{LONG, assert_all_end, eventually, pids, runs};

fn sh(line: &str) -> CommandSpec {
    CommandSpec::shell(line.to_owned())
}

fn limits() -> Limits {
    Limits { output_bytes: 64 * 1024, grace: LONG, timeout: Some(LONG) }
}

async fn finish(spec: &CommandSpec, limits: &Limits) -> Finished {
    run(spec, limits, &CancellationToken::new(), |_| {}).await.expect("it starts")
}

async fn refusal(spec: &CommandSpec) -> SpawnError {
    run(spec, &limits(), &CancellationToken::new(), |_| {}).await.expect_err("it must not start")
}

#[tokio::test]
async fn a_command_reports_its_code_and_output() {
    let spec = sh("echo out $NAME; echo err >&2; pwd; exit 3").with_env("NAME", "x").with_cwd("/");
    let done = finish(&spec, &limits()).await;
    assert_eq!(done.exit, Exit::Code(3));
    assert_eq!(done.stdout.text, "out x\n/\n");
    assert_eq!(done.stderr.text, "err\n");
    assert!(!done.exit.is_success());
}

#[tokio::test]
async fn a_signal_from_elsewhere_is_reported_as_such() {
    let done = finish(&sh("kill -USR1 $$"), &limits()).await;
    assert_eq!(done.exit, Exit::Signal(10));
}

#[tokio::test]
async fn input_larger_than_a_pipe_comes_back_whole() {
    let input: String = "0123456789abcdef".repeat(40_000);
    let spec = CommandSpec::new(["cat"]).with_stdin(input.clone());
    let limits = Limits { output_bytes: 1 << 20, ..limits() };
    let done = finish(&spec, &limits).await;
    assert_eq!(done.exit, Exit::Code(0));
    assert!(done.stdout.text == input);
}

#[tokio::test]
async fn input_that_nobody_reads_is_no_failure() {
    let spec = CommandSpec::new(["true"]).with_stdin(vec![b'x'; 1 << 20]);
    assert_eq!(finish(&spec, &limits()).await.exit, Exit::Code(0));
}

#[tokio::test]
async fn without_input_a_command_reads_nothing() {
    let done = finish(&CommandSpec::new(["cat"]), &limits()).await;
    assert_eq!((done.exit, done.stdout.text.as_str()), (Exit::Code(0), ""));
}

#[tokio::test]
async fn a_timeout_kills_grandchildren_too() {
    let spec = sh("sleep 1000 & echo pid $!; sh -c 'echo pid $$; sleep 1000; :' & wait");
    let limits = Limits { timeout: Some(Duration::from_millis(300)), ..limits() };
    let done = finish(&spec, &limits).await;
    assert_eq!(done.exit, Exit::TimedOut);
    let pids = pids(&done.stdout.text);
    assert_eq!(pids.len(), 2);
    assert_all_end(&pids);
}

#[tokio::test]
async fn a_child_that_ignores_sigterm_is_killed_after_the_grace() {
    let spec = sh("trap '' TERM; echo pid $$; while :; do sleep 0.05; done");
    let cancel = CancellationToken::new();
    let limits = Limits { grace: Duration::from_millis(200), timeout: None, ..limits() };
    let mut asked = None;
    let done = run(&spec, &limits, &cancel, |_| {
        asked.get_or_insert_with(Instant::now);
        cancel.cancel();
    })
    .await
    .unwrap();
    assert_eq!(done.exit, Exit::Cancelled);
    assert!(asked.unwrap().elapsed() >= Duration::from_millis(200));
    assert_all_end(&pids(&done.stdout.text));
}

#[tokio::test]
async fn a_child_may_use_its_grace_to_say_goodbye() {
    let spec = sh("trap 'echo goodbye; exit 0' TERM; echo ready; while :; do sleep 0.01; done");
    let cancel = CancellationToken::new();
    let done = run(&spec, &limits(), &cancel, |_| cancel.cancel()).await.unwrap();
    assert_eq!(done.exit, Exit::Cancelled);
    assert_eq!(done.stdout.text, "ready\ngoodbye\n");
}

#[tokio::test]
async fn a_grandchild_may_use_the_grace_when_the_child_is_gone() {
    let spec = sh(
        "sh -c 'trap \"sleep 0.4; echo goodbye; exit\" TERM; echo ready; while :; do sleep 0.01; done' & wait",
    );
    let cancel = CancellationToken::new();
    let done = run(&spec, &limits(), &cancel, |_| cancel.cancel()).await.unwrap();
    assert_eq!(done.stdout.text, "ready\ngoodbye\n");
}

#[tokio::test]
async fn a_stopped_child_can_be_cancelled_within_its_grace() {
    let spec = sh("echo pid $$; kill -STOP $$; sleep 1000");
    let cancel = CancellationToken::new();
    let done = run(&spec, &limits(), &cancel, |output| {
        if let Output::Chunk(_, chunk) = output {
            let pid = pids(std::str::from_utf8(chunk).unwrap())[0];
            eventually("the child is stopped", || {
                let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
                stat.contains(") T ")
            });
            cancel.cancel();
        }
    })
    .await
    .unwrap();
    assert_eq!(done.exit, Exit::Cancelled);
    assert!(done.duration < LONG);
}

#[tokio::test]
async fn a_grandchild_that_holds_the_pipe_does_not_hang_us() {
    let done = finish(&sh("sleep 1000 & echo pid $!"), &limits()).await;
    assert_eq!(done.exit, Exit::Code(0));
    assert!(done.duration < Duration::from_secs(5));
    assert_all_end(&pids(&done.stdout.text));
}

#[tokio::test]
async fn a_grandchild_that_let_go_of_the_pipe_is_killed_as_well() {
    let done = finish(&sh("sleep 1000 >/dev/null 2>&1 & echo pid $!"), &limits()).await;
    assert_eq!(done.exit, Exit::Code(0));
    assert_all_end(&pids(&done.stdout.text));
}

#[tokio::test]
async fn a_grandchild_in_another_session_does_not_hang_us() {
    let dir = tempfile::tempdir().unwrap();
    let spec = sh("setsid sh -c 'echo pid $$; : > ready; exec sleep 1000' & \
         until [ -e ready ]; do sleep 0.01; done")
    .with_cwd(dir.path());
    let done = finish(&spec, &limits()).await;
    assert_eq!(done.exit, Exit::Code(0));
    assert!(done.duration < Duration::from_secs(5));
    let pids = pids(&done.stdout.text);
    assert!(runs(pids[0]), "out of reach of the group, as documented");
    runcue_process::signal::kill(pids[0]).unwrap();
}

#[tokio::test]
async fn ten_megabytes_keep_the_bounded_tail_and_count_the_rest() {
    let spec = sh("yes 0123456 | head -c 10000000; printf end");
    let limits = Limits { output_bytes: 1000, ..limits() };
    let mut live = 0;
    let done = run(&spec, &limits, &CancellationToken::new(), |output| {
        if let Output::Chunk(Stream::Stdout, chunk) = output {
            live += chunk.len();
        }
    })
    .await
    .unwrap();
    assert_eq!(done.stdout.text.len(), 1000);
    assert!(done.stdout.text.ends_with("0123456\nend"));
    assert_eq!(done.stdout.dropped, 10_000_003 - 1000);
    assert_eq!(live, 10_000_003);
}

#[tokio::test]
async fn a_command_that_prints_for_ever_can_be_stopped() {
    let limits =
        Limits { output_bytes: 1000, timeout: Some(Duration::from_millis(200)), ..limits() };
    let done = finish(&CommandSpec::new(["yes"]), &limits).await;
    assert_eq!(done.exit, Exit::TimedOut);
    assert_eq!(done.stdout.text.len(), 1000);
    assert!(done.duration < Duration::from_secs(5));
}

#[tokio::test]
async fn more_than_a_pipe_on_both_streams_does_not_deadlock() {
    let spec = sh("yes out | head -c 300000 & yes err | head -c 300000 >&2; wait");
    let limits = Limits { output_bytes: 1 << 20, ..limits() };
    let done = finish(&spec, &limits).await;
    assert_eq!(done.exit, Exit::Code(0));
    assert_eq!(done.stdout.text.len(), 300_000);
    assert_eq!(done.stderr.text.len(), 300_000);
}

#[tokio::test]
async fn live_chunks_never_end_inside_a_character() {
    let spec = sh("printf 'a\\303'; sleep 0.05; printf '\\244b\\377\\342\\202'");
    let mut text = String::new();
    run(&spec, &limits(), &CancellationToken::new(), |output| {
        if let Output::Chunk(_, chunk) = output {
            text.push_str(&String::from_utf8_lossy(chunk));
        }
    })
    .await
    .unwrap();
    assert_eq!(text, "aäb\u{FFFD}\u{FFFD}");
}

#[tokio::test]
async fn reports_come_as_lines_and_stay_in_the_output() {
    let spec = sh(
        "printf '::runcue prog'; sleep 0.05; echo 'ress 40 half'; echo '::runcue progress 50' >&2; \
         echo '::runcue retry-after 30 api'; printf '::runcue result {\"n\":1}'",
    );
    let mut lines = Vec::new();
    let done = run(&spec, &limits(), &CancellationToken::new(), |output| {
        if let Output::Line(line) = output {
            lines.push(line);
        }
    })
    .await
    .unwrap();
    let expected = [
        Line::Progress { percent: 40, message: Some("half".to_owned()) },
        Line::RetryAfter { delay: Duration::from_secs(30), service: Some("api".to_owned()) },
        Line::Result(serde_json::json!({"n": 1})),
    ];
    assert_eq!(lines, expected);
    assert!(done.stdout.text.starts_with("::runcue progress 40 half\n"));
}

#[tokio::test]
async fn a_cancelled_token_stops_a_command() {
    let cancel = CancellationToken::new();
    let done = run(&sh("echo pid $$; sleep 1000"), &limits(), &cancel, |_| {
        cancel.cancel();
    })
    .await
    .unwrap();
    assert_eq!(done.exit, Exit::Cancelled);
    assert_all_end(&pids(&done.stdout.text));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn dropping_the_future_kills_the_group() {
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let task = tokio::spawn(async move {
        let spec = sh("trap '' TERM; sleep 1000 & echo pid $$; echo pid $!; wait");
        let cancel = CancellationToken::new();
        run(&spec, &Limits::default(), &cancel, |output| {
            if let Output::Chunk(_, chunk) = output {
                tell.send(String::from_utf8_lossy(chunk).into_owned()).unwrap();
            }
        })
        .await
    });
    let mut text = String::new();
    while pids(&text).len() < 2 || !text.ends_with('\n') {
        text.push_str(&told.recv().await.unwrap());
    }
    let pids = pids(&text);
    assert!(pids.iter().all(|pid| runs(*pid)));
    task.abort();
    assert_all_end(&pids);
}

#[tokio::test]
async fn a_missing_program_is_named_with_the_path_it_was_looked_for_on() {
    let error = refusal(&CommandSpec::new(["no-such-program-here"])).await;
    assert!(matches!(error, SpawnError::NotFound { .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("no-such-program-here") && text.contains("PATH"), "{text}");

    let spec = CommandSpec::new(["true"]).with_env("PATH", "/nowhere");
    let error = refusal(&spec).await;
    assert!(error.to_string().contains("/nowhere"), "{error}");

    let error = refusal(&CommandSpec::new(["/no/such/file"])).await;
    assert!(matches!(error, SpawnError::NotFound { .. }), "{error:?}");
}

#[tokio::test]
async fn a_missing_directory_is_named() {
    let error = refusal(&CommandSpec::new(["true"]).with_cwd("/no/such/dir")).await;
    assert!(matches!(&error, SpawnError::CwdMissing { cwd } if cwd.ends_with("dir")), "{error:?}");
}

#[tokio::test]
async fn a_file_that_is_no_program_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("notes.txt");
    std::fs::write(&file, "hello").unwrap();
    let error = refusal(&CommandSpec::new([file.to_str().unwrap()])).await;
    assert!(matches!(error, SpawnError::NotExecutable { .. }), "{error:?}");
    let error = refusal(&CommandSpec::new(["/"])).await;
    assert!(matches!(error, SpawnError::NotExecutable { .. }), "{error:?}");
}

#[tokio::test]
async fn too_many_arguments_are_refused_with_a_way_out() {
    let error = refusal(&CommandSpec::new(["true".to_owned(), "x".repeat(8 << 20)])).await;
    assert!(matches!(error, SpawnError::TooLong { bytes, .. } if bytes > 8 << 20), "{error:?}");
}

#[tokio::test]
async fn an_empty_command_and_a_nul_byte_are_refused() {
    assert!(matches!(refusal(&CommandSpec::default()).await, SpawnError::Empty));
    assert!(matches!(refusal(&CommandSpec::new([""])).await, SpawnError::Empty));
    let error = refusal(&CommandSpec::new(["echo", "a\0b"])).await;
    assert!(matches!(error, SpawnError::Invalid { .. }), "{error:?}");
}

#[tokio::test]
async fn a_command_with_its_own_path_finds_programs_there() {
    let dir = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("/bin/sh", dir.path().join("mine")).unwrap();
    let path = format!("/nowhere:{}", dir.path().display());
    let spec = CommandSpec::new(["mine", "-c", "echo $0 $PATH"]).with_env("PATH", &path);
    let done = finish(&spec, &limits()).await;
    assert_eq!(done.stdout.text, format!("mine {path}\n"));
}

#[tokio::test]
async fn no_zombie_and_no_descriptor_is_left_behind() {
    let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    finish(&CommandSpec::new(["true"]), &limits()).await;
    let before = descriptors();
    for _ in 0..50 {
        let done = finish(&sh("echo pid $$"), &limits()).await;
        let pid = pids(&done.stdout.text)[0];
        assert!(!runcue_process::signal::exists(pid));
    }
    // Other tests of this process open some too.
    assert!(descriptors() < before + 50);
}
