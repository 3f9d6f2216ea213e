//! What happens to a family when its parent dies.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use runcue_process::{CommandSpec, Guard, guard::MARK, signal};

use crate::sight::{assert_all_end, eventually, pids, runs};

const FIXTURE: &str = env!("CARGO_BIN_EXE_runcue-process-fixture");

/// Unique on this machine for as long as it matters.
fn instance() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("test-{}-{next}", std::process::id())
}

fn guard_command() -> Command {
    let mut command = Command::new(FIXTURE);
    command.arg("guard");
    command
}

struct Family {
    parent: Child,
    guard: u32,
    members: Vec<u32>,
}

/// Starts a parent and waits until all six of its family have told their pid.
fn family(parent: &mut Command) -> Family {
    let mut parent = parent.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a parent");
    let mut told = BufReader::new(parent.stdout.take().expect("its output"));
    let (mut guard, mut members) = (0, Vec::new());
    while guard == 0 || members.len() < 6 {
        let mut line = String::new();
        assert!(told.read_line(&mut line).expect("a line") > 0, "the parent ended");
        match line.strip_prefix("guard ") {
            Some(pid) => guard = pid.trim().parse().expect("a pid"),
            None => members.extend(pids(&line)),
        }
    }
    Family { parent, guard, members }
}

fn parent() -> Command {
    let mut command = Command::new(FIXTURE);
    command.args(["parent", &instance()]);
    command
}

#[test]
fn neither_children_nor_grandchildren_nor_other_sessions_outlive_a_killed_parent() {
    let mut family = family(&mut parent());
    assert!(family.members.iter().all(|pid| runs(*pid)));
    family.parent.kill().unwrap();
    family.parent.wait().unwrap();
    assert_all_end(&family.members);
    assert_all_end(&[family.guard]);
}

#[test]
fn a_parent_that_leaves_in_good_order_takes_its_guard_along() {
    let mut family = family(&mut parent());
    let mut stdin = family.parent.stdin.take().unwrap();
    stdin.write_all(b"leave\n").unwrap();
    assert!(family.parent.wait().unwrap().success());
    assert_all_end(&[family.guard]);
    // The two in the other session are out of reach of the groups that are killed on the way out.
    let left = || family.members.iter().filter(|pid| runs(**pid));
    eventually("the end of all groups", || left().count() <= 2);
    for pid in left() {
        // It may end on its own when its sibling does.
        let _ = signal::kill(*pid);
    }
}

#[test]
fn a_guard_does_not_carry_the_mark_of_the_guard_above() {
    let mut family = family(parent().env(MARK, "the-one-above"));
    let environ = std::fs::read(format!("/proc/{}/environ", family.guard)).unwrap();
    assert!(!String::from_utf8_lossy(&environ).contains(MARK));
    family.parent.kill().unwrap();
    family.parent.wait().unwrap();
    assert_all_end(&family.members);
}

#[test]
fn ctrl_c_does_not_reach_the_guard() {
    let guard = Guard::start(guard_command(), instance()).unwrap();
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", guard.pid())).unwrap();
    let group = stat.rsplit_once(") ").unwrap().1.split(' ').nth(2).unwrap();
    assert_eq!(group, guard.pid().to_string());
}

#[test]
fn a_dead_guard_is_replaced() {
    let mut guard = Guard::start(guard_command(), instance()).unwrap();
    assert!(!guard.ensure().unwrap());
    let first = guard.pid();
    signal::kill(first).unwrap();
    eventually("a new guard", || guard.ensure().unwrap());
    assert_ne!(guard.pid(), first);
    assert!(!guard.ensure().unwrap());
    let second = guard.pid();
    drop(guard);
    assert!(!signal::exists(second));
}

#[test]
fn strangers_survive_a_sweep() {
    let mut stranger = Command::new("sleep").arg("1000").env(MARK, "someone-else").spawn().unwrap();
    let mut family = family(&mut parent());
    family.parent.kill().unwrap();
    family.parent.wait().unwrap();
    assert_all_end(&[family.guard]);
    assert!(runs(stranger.id()));
    stranger.kill().unwrap();
    stranger.wait().unwrap();
}

#[test]
fn a_mark_is_one_variable() {
    let guard = Guard::start(guard_command(), "abc").unwrap();
    let mut spec = CommandSpec::new(["true"]);
    guard.mark(&mut spec);
    assert_eq!(spec.env, [(MARK.to_owned(), "abc".to_owned())]);
}
