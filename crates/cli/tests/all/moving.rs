//! `move` and `backup` while something happens: the queue changes, somebody has written to the copy, the server is
//! killed, a worker is at work, a person looks on.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStderr, Command, ExitStatus};

use runcue_store_suite::scene::{id, job};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::crash::arena::Arena;
use crate::crash::{ledger, patience};
use crate::moves::{Places, scene};
use crate::sandbox::{Ended, Sandbox};

const JOBS: u128 = 6000;

async fn fill(url: &str, jobs: u128) {
    let source = scene(url);
    source.submit((1..=jobs).map(job)).await;
    source.store.close().await.unwrap();
}

/// A move under way that says how far it is.
struct Moving {
    child: Child,
    lines: Lines<BufReader<ChildStderr>>,
    told: String,
}

impl Moving {
    fn begin(sandbox: &Sandbox, from: &str, to: &str) -> Self {
        let mut child = sandbox.start(&["move", "-v", from, to]);
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        Self { child, lines, told: String::new() }
    }

    /// Reads along until it has said so.
    #[track_caller]
    fn until(&mut self, words: &str) {
        while !self.told.contains(words) {
            let line = self.lines.next().unwrap_or_else(|| panic!("{words}: {}", self.told));
            self.told += &(line.unwrap() + "\n");
        }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Runs the binary while the move is held. What it holds itself it keeps for a moment only, so if the other has to
    /// wait for that, the move goes on for so long.
    fn meanwhile(&self, sandbox: &Sandbox, words: &[&str]) -> String {
        self.signal(Signal::STOP);
        let mut other = sandbox.start(words);
        let mut looks = 0_u32;
        patience::until("the other is done", || {
            looks += 1;
            match looks % 500 {
                0 => self.signal(Signal::CONT),
                1 => self.signal(Signal::STOP),
                _ => {}
            }
            other.try_wait().unwrap()
        });
        self.signal(Signal::CONT);
        Ended::from(other.wait_with_output().unwrap()).ok()
    }

    /// How it ended, and what it had to say besides how far it was.
    fn end(mut self) -> (ExitStatus, String) {
        for line in self.lines {
            self.told += &(line.unwrap() + "\n");
        }
        let is_progress = |line: &&str| line.starts_with("moved ") || line.starts_with("verified ");
        let told = self.told.lines().filter(|line| !is_progress(line));
        (self.child.wait().unwrap(), told.map(|line| format!("{line}\n")).collect())
    }
}

/// Moves, and changes the queue when so much has been said. On a machine with much to do the change may come after the
/// move's last look; then it is moved once more, with the next change.
fn until_noticed(
    sandbox: &Sandbox,
    from: &str,
    to: &str,
    words: &str,
    mut change: impl FnMut(&Moving),
) -> (ExitStatus, String) {
    for _ in 0..10 {
        let mut moving = Moving::begin(sandbox, from, to);
        moving.until(words);
        change(&moving);
        let ended = moving.end();
        if !ended.0.success() {
            return ended;
        }
    }
    panic!("no change was noticed");
}

/// Expects one line that says what is wrong, and one with the fix.
#[track_caller]
fn is_refused((status, told): (ExitStatus, String), says: &str, fix: &str) {
    assert_eq!(status.code(), Some(1), "{told}");
    assert!(!told.contains("panicked"), "{told}");
    let begin =
        |word: &str| -> Vec<&str> { told.lines().filter(|line| line.starts_with(word)).collect() };
    let (errors, helps) = (begin("error: "), begin("help: "));
    let ([error], [help]) = (&errors[..], &helps[..]) else { panic!("{told}") };
    assert!(error.contains(says), "{says:?} is not in {error}");
    assert!(help.contains(fix), "{fix:?} is not in {help}");
}

/// The move is held while somebody else uses the queue it comes from.
#[tokio::test(flavor = "multi_thread")]
async fn a_queue_that_changes_while_it_is_moved_is_noticed_and_moving_again_helps() {
    let sandbox = Sandbox::new();
    let mut places = Places::new();
    let round = Places::KINDS.iter().zip(Places::KINDS.iter().cycle().skip(1));
    for (from, to) in round {
        let (from, to) = (places.fresh(from), places.fresh(to));
        fill(&from, JOBS).await;
        // Ids go from the first job on, which is the first to be copied and the last to be verified.
        let mut cancelled = 0;
        let ended = until_noticed(&sandbox, &from, &to, "moved 1000 of ", |moving| {
            cancelled += 1;
            let id = id(cancelled).to_string();
            let told = moving.meanwhile(&sandbox, &["cancel", &id, "--store", &from]);
            assert_eq!(told, "cancelled 1 job\n");
        });
        let says = format!("differs in 1 job, the first is {}", id(cancelled));
        is_refused(ended, &says, "stop that and move again");

        let mut added = 0;
        let ended = until_noticed(&sandbox, &from, &to, "verified 1000 of ", |moving| {
            added += 1;
            moving.meanwhile(&sandbox, &["add", "--store", &from, "--", "true"]);
        });
        is_refused(ended, "has other counts of jobs by state", "stop that and move again");

        let all = 6000 + added;
        let told = sandbox.run(&["move", &from, &to, "--json"]).json();
        assert_eq!((&told["new"], &told["verified"]), (&1.into(), &all.into()), "{from}: {told}");
        let expected = u64::try_from(cancelled).unwrap();
        assert_eq!(told["counts"]["cancelled"], expected, "{from}: {told}");
        assert_eq!(told["checksum"].as_str().unwrap().len(), 64, "{told}");
    }
}

/// What has ended is not written again, so moving again does not help: another place does.
#[test]
fn a_copy_that_somebody_has_written_to_is_noticed_by_its_checksum() {
    let sandbox = Sandbox::new();
    let ids = ["a", "b", "c"].map(|word| sandbox.add(&["--store", "a.db", "--", "true", word]));
    sandbox.run(&["work", "--drain", "--store", "a.db"]).ok();
    let is_noticed = |to: &str, damage: &dyn Fn()| {
        sandbox.run(&["move", "a.db", to]).ok();
        damage();
        let ended = sandbox.command(&["move", "a.db", to]).output().unwrap();
        let told = String::from_utf8(ended.stderr).unwrap();
        let says = format!("differs in 1 job, the first is {}", ids[1]);
        is_refused((ended.status, told), &says, "move into an empty store");
    };
    is_noticed("b.db", &|| {
        let file = rusqlite::Connection::open(sandbox.path().join("b.db")).unwrap();
        let sql = "UPDATE body SET spec = replace(spec, '\"b\"', '\"B\"'), params = replace(params, '\"b\"', '\"B\"')";
        assert_eq!(file.execute(sql, []).unwrap(), 3);
    });
    #[cfg(feature = "postgres")]
    {
        let database = runcue_test_servers::postgres().unwrap();
        is_noticed(&database.url(), &|| {
            let sql = "UPDATE runcue.job SET spec = replace(spec, '\"b\"', '\"B\"')";
            database.sql(sql).unwrap();
        });
    }
    sandbox.run(&["move", "a.db", "c.db"]).ok();
}

#[cfg(all(feature = "postgres", feature = "redis"))]
mod servers {
    use runcue_test_servers::{Postgres, Redis};

    use super::*;

    /// Killed in the middle and back only when the move has given up.
    async fn goes_on(from: &str, to: &str, mut kill: impl FnMut(), mut restart: impl FnMut()) {
        let sandbox = Sandbox::new();
        fill(from, JOBS).await;
        let mut moving = Moving::begin(&sandbox, from, to);
        moving.until("moved 2000 of 6000 jobs");
        moving.signal(Signal::STOP);
        kill();
        moving.signal(Signal::CONT);
        let (status, told) = moving.end();
        assert_eq!(status.code(), Some(1), "{told}");
        let errors: Vec<&str> = told.lines().filter(|line| line.starts_with("error: ")).collect();
        let [error] = errors[..] else { panic!("{told}") };
        assert!(error.contains("not available"), "{error}");
        restart();
        let told = sandbox.run(&["move", from, to, "--json"]).json();
        let [new, unchanged] = ["new", "unchanged"].map(|name| told[name].as_u64().unwrap());
        assert_eq!((new + unchanged, &told["verified"]), (6000, &6000.into()), "{told}");
        assert!(unchanged >= 1000, "what was acknowledged is there: {told}");
        let doctor = sandbox.run(&["doctor", "--store", to]).ok();
        assert!(doctor.contains("the stored data agrees with itself"), "{doctor}");
        let status = sandbox.run(&["status", "--json", "--store", to]).json();
        assert_eq!(status["counts"]["queued"], 6000, "{status}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_move_to_a_postgres_that_is_killed_goes_on_when_it_is_back() {
        let mut places = Places::new();
        let from = places.fresh("sqlite");
        let server = std::cell::RefCell::new(Postgres::settings().durable().start().unwrap());
        let url = format!("{}?patience=1", server.borrow().url());
        let kill = || server.borrow_mut().kill9();
        goes_on(&from, &url, kill, || server.borrow_mut().restart().unwrap()).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_move_to_a_redis_that_is_killed_goes_on_when_it_is_back() {
        let mut places = Places::new();
        let from = places.fresh("sqlite");
        let server = std::cell::RefCell::new(Redis::settings().durable().start().unwrap());
        let url = server.borrow().url();
        let kill = || server.borrow_mut().kill9();
        goes_on(&from, &url, kill, || server.borrow_mut().restart().unwrap()).await;
    }
}

/// Nobody has asked for more, and nobody looks at a terminal: a long move still says that it goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_long_move_says_how_far_it_is_to_a_person_and_to_a_file() {
    let mut places = Places::new();
    let (from, to) = (places.fresh("sqlite"), places.fresh("sqlite"));
    fill(&from, 10_500).await;
    let sandbox = Sandbox::new();
    let ended = sandbox.run(&["move", &from, &to]);
    assert_eq!(ended.code, 0, "{ended:?}");
    let lines: Vec<&str> = ended.stderr.lines().collect();
    // On a slow machine there are more.
    for line in ["moved 10000 of 10500 jobs", "verified 10000 of 10500 jobs"] {
        assert!(lines.contains(&line), "{lines:?}");
    }
    assert!(lines.len() < 20, "not a line per step: {lines:?}");
    let ended = sandbox.run(&["move", &from, &to, "--quiet"]);
    assert_eq!((ended.code, &*ended.stderr), (0, ""), "{ended:?}");

    let told = on_a_terminal(&sandbox, &["move", &from, &places.fresh("sqlite")]);
    for word in ["moving ", "verifying ", "/10500", "verified 10500 queued"] {
        assert!(told.contains(word), "{word:?} is not in {told:?}");
    }
    assert!(!told.contains("moved 10000 of"), "a bar is enough: {told:?}");
}

/// Runs the binary on a terminal, and answers all that it showed.
fn on_a_terminal(sandbox: &Sandbox, words: &[&str]) -> String {
    let inner = sandbox.command(words);
    let quoted = |word: &std::ffi::OsStr| format!("'{}'", word.to_str().unwrap());
    let line: Vec<String> =
        [inner.get_program()].into_iter().chain(inner.get_args()).map(quoted).collect();
    let mut command = Command::new("script");
    command.args(["-qec", &line.join(" "), "/dev/null"]).current_dir(sandbox.path());
    command.env("HOME", sandbox.path()).env("TERM", "xterm").stdin(std::process::Stdio::null());
    let ended: Ended = command.output().unwrap().into();
    ended.ok()
}

/// What was acknowledged before the backup began is in it, and it is a queue that agrees with itself.
#[test]
fn a_backup_is_whole_though_a_worker_is_at_work() {
    let mut places = Places::new();
    for kind in Places::KINDS {
        let arena = Arena::on(&places.fresh(kind));
        let line = json!({"run": ledger::command(0.005), "group": "g"});
        let lines = format!("{line}\n").repeat(100);
        let mut acknowledged: BTreeSet<String> = arena.submit(&lines).into_iter().collect();
        let mut worker = arena.worker(2);
        let mut copies = Vec::new();
        for n in 1..=3 {
            acknowledged.extend(arena.submit(&lines));
            let enough = arena.lines() + 6;
            patience::until("work is done", || (arena.lines() >= enough).then_some(()));
            let file = format!("copy-{n}.db");
            let told = arena.run(&["backup", &file, "--force"]).ok();
            assert!(told.contains(" jobs up in "), "{kind}: {told}");
            copies.push((file, acknowledged.clone()));
        }
        assert!(arena.count("queued") > 0, "{kind}: it was at work all the time");
        assert_eq!(worker.left(), None, "{kind}");
        for (file, expected) in copies {
            let page = arena.run(&["list", "--limit", "10000", "--json", "--store", &file]).json();
            let jobs = page["jobs"].as_array().unwrap().iter();
            let found: BTreeSet<String> =
                jobs.map(|job| job["id"].as_str().unwrap().to_owned()).collect();
            let lost: Vec<_> = expected.difference(&found).collect();
            assert!(lost.is_empty(), "{kind}: {file}: {lost:?}");
            let doctor = arena.run(&["doctor", "--store", &file]).ok();
            assert!(doctor.contains("the stored data agrees with itself"), "{kind}: {doctor}");
        }
        arena.is_untroubled();
    }
}
