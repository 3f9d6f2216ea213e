//! LMDB directories between processes: one of them makes the map larger, one may not write there at all.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use serde_json::json;

use crate::crash::arena::Arena;
use crate::crash::{ledger, patience};
use crate::sandbox::{Ended, Sandbox};

/// A daemon with a small map goes on, without a restart, after another process has filled more than that.
#[test]
fn a_map_that_another_process_made_larger_is_taken_over_by_those_at_work() {
    let arena = Arena::on("lmdb:queue?size=4MiB");
    let small = json!({"run": ledger::command(0.02)});
    let mut ids = arena.submit(&format!("{small}\n").repeat(10));
    let mut daemon = arena.worker(2);
    patience::until("it works", || (arena.count("completed") == 10).then_some(()));
    let large = json!({"run": ledger::command(0.02), "target": "x".repeat(60_000)});
    let lines = format!("{large}\n").repeat(200);
    let words = ["--store", "lmdb:queue?size=256MiB", "add", "--from", "-"];
    ids.extend(arena.run_with(&words, &lines).ok().lines().map(str::to_owned));
    let length = fs::metadata(arena.path().join("queue/data.mdb")).unwrap().len();
    assert!(length > 4 << 20, "{length} bytes are no more than there was room for");
    patience::until("everything is completed", || {
        // Whoever comes with the small size takes the large one over, too.
        (arena.count("completed") == ids.len() as u64).then_some(())
    });
    assert_eq!(daemon.left(), None, "it is the same process");
    let (ledger, history) = (arena.ledger(), arena.history());
    history.leaves_finished_jobs_alone(&ledger);
    assert_eq!(ledger.executions.len(), ids.len(), "each once");
    arena.is_untroubled();
}

#[test]
fn doctor_says_which_lmdb_it_is() {
    let sandbox = Sandbox::on("lmdb:queue");
    sandbox.add(&["--", "true"]);
    let doctor = sandbox.run(&["doctor", "--json"]).json();
    let checks = doctor["checks"].as_array().unwrap();
    let server = checks.iter().find(|check| check["name"] == "server").unwrap();
    let detail = server["detail"].as_str().unwrap();
    assert!(detail.starts_with("LMDB 0.9") && detail.contains("schema version 1"), "{detail}");
}

/// The binary as somebody who is not the superuser, for whom permissions do not hold.
fn as_nobody(sandbox: &Sandbox, words: &[&str]) -> Ended {
    let own = sandbox.command(words);
    if !rustix::process::getuid().is_root() {
        return sandbox.run(words);
    }
    // The binary itself may be where nobody else can look.
    let copy = sandbox.path().join("runcue");
    fs::copy(own.get_program(), &copy).unwrap();
    fs::set_permissions(sandbox.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&copy).args(words);
    for (name, value) in own.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.current_dir(sandbox.path()).output().unwrap().into()
}

#[test]
fn a_directory_that_may_only_be_read_is_named_with_the_fix() {
    let sandbox = Sandbox::on("lmdb:queue");
    let id = sandbox.add(&["--", "true"]);
    let queue = sandbox.path().join("queue");
    let files = ["data.mdb", "lock.mdb"].map(|name| queue.join(name));
    for path in files.iter().chain([&queue]) {
        let mode = if path.is_dir() { 0o555 } else { 0o444 };
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    for words in [&["add", "--", "true"][..], &["work", "--drain"]] {
        let told = as_nobody(&sandbox, words).refused(1);
        assert!(
            told.contains("queue") && told.contains("read-only; check the permissions"),
            "{told}"
        );
    }
    for path in files.iter().chain([&queue]) {
        let mode = if path.is_dir() { 0o755 } else { 0o644 };
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    sandbox.run(&["work", "--drain"]).ok();
    assert_eq!(sandbox.state(&id), "completed");
}
