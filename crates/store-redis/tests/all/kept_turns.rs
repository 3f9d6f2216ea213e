//! Turns that are kept over several commits: others wait, are told when it is over, and lose nothing to a daemon
//! that falls silent.

use std::sync::{Arc, mpsc};
use std::thread;

use runcue_store::overlay::{Backend, CommitId, Committed, Haste, Questions, WriteSet};
use runcue_store_redis::{Options, RedisBackend};
use runcue_test_servers::Redis;

const WAITING: &str = "runcue:{default}:line";
const FIRST: &str = "runcue:{default}:first";

fn daemon(server: &Redis, n: u128) -> RedisBackend {
    let mut backend = RedisBackend::new(Options::parse(&server.url()).unwrap(), n);
    backend.connect().unwrap();
    backend
}

fn writes(commit: u128, follows: u64, keeps_turn: bool) -> WriteSet {
    let id = Some(CommitId(commit));
    WriteSet { id, follows, in_turn: true, keeps_turn, ..WriteSet::default() }
}

fn lending(commit: u128, follows: u64) -> WriteSet {
    WriteSet { lends_turn: true, ..writes(commit, follows, false) }
}

/// Whether somebody with little to do waits, and how many with much, as a commit in a kept turn is told.
fn waiting(backend: &mut RedisBackend, writes: &WriteSet) -> (bool, Option<usize>) {
    match backend.commit(writes).unwrap() {
        Committed::Done { kept: true, hurry, line, .. } => (hurry, line),
        other => panic!("{other:?}"),
    }
}

fn kept(backend: &mut RedisBackend, writes: &WriteSet) -> bool {
    match backend.commit(writes).unwrap() {
        Committed::Done { kept, .. } => kept,
        other => panic!("{other:?}"),
    }
}

/// Waits until so many daemons wait for the turn.
fn await_waiting(server: &Redis, count: usize) {
    await_in(server, WAITING, count);
}

fn await_in(server: &Redis, line: &str, count: usize) {
    while server.command(&["LLEN", line]).unwrap() != format!(":{count}") {
        thread::yield_now();
    }
}

#[test]
fn whoever_waits_has_its_turn_in_the_order_it_came() {
    let server = Redis::settings().start().unwrap();
    let mut holder = daemon(&server, 1);
    let begun = holder.begin(0, None, &Questions::default(), Haste::Much).unwrap().revision;
    assert!(kept(&mut holder, &writes(1, begun, true)));
    let (tell, told) = mpsc::channel();
    let mut waiting = Vec::new();
    for n in 2..=4 {
        let (mut backend, tell) = (daemon(&server, n), tell.clone());
        waiting.push(thread::spawn(move || {
            let begun =
                backend.begin(0, None, &Questions::default(), Haste::Much).unwrap().revision;
            tell.send((n, begun)).unwrap();
            assert!(!kept(&mut backend, &writes(n, begun, false)));
        }));
        await_waiting(&server, waiting.len());
    }
    assert!(kept(&mut holder, &writes(5, begun + 1, true)), "others wait, and it goes on");
    assert!(!kept(&mut holder, &writes(6, begun + 2, false)));
    waiting.into_iter().for_each(|thread| thread.join().unwrap());
    let order: Vec<_> = told.try_iter().collect();
    assert_eq!(order, [(2, begun + 3), (3, begun + 4), (4, begun + 5)]);
}

#[test]
fn a_kept_turn_ends_by_itself_when_its_daemon_falls_silent() {
    let server = Redis::settings().start().unwrap();
    let (mut silent, mut other) = (daemon(&server, 1), daemon(&server, 2));
    let begun = silent.begin(0, None, &Questions::default(), Haste::Much).unwrap().revision;
    assert!(kept(&mut silent, &writes(1, begun, true)));
    // Nobody tells it; it comes when the time of the turn is over.
    let opening = other.begin(0, None, &Questions::default(), Haste::Much).unwrap();
    assert_eq!(opening.revision, begun + 1);
    assert_eq!(silent.commit(&writes(2, begun + 1, true)).unwrap(), Committed::Behind);
    assert!(!kept(&mut other, &writes(3, begun + 1, false)));
    assert_eq!(silent.commit(&writes(2, begun + 1, true)).unwrap(), Committed::Behind);
}

#[test]
fn a_daemon_that_died_while_it_waited_holds_nobody_up_for_long() {
    let server = Redis::settings().start().unwrap();
    let (mut holder, mut other) = (daemon(&server, 1), daemon(&server, 2));
    let begun = holder.begin(0, None, &Questions::default(), Haste::Much).unwrap().revision;
    assert_eq!(server.command(&["RPUSH", WAITING, "somebody who died"]).unwrap(), ":1");
    let waits =
        thread::spawn(move || other.begin(0, None, &Questions::default(), Haste::Much).unwrap());
    await_waiting(&server, 2);
    holder.abandon();
    assert_eq!(waits.join().unwrap().revision, begun);
}

/// The holder of a kept turn lends it, with commits by the script or by plain commands.
fn lends_to_those_with_little(how: &str) {
    let server = Arc::new(Redis::settings().start().unwrap());
    let url = format!("{}{how}", server.url());
    let open = |n| {
        let mut backend = RedisBackend::new(Options::parse(&url).unwrap(), n);
        backend.connect().unwrap();
        backend
    };
    let mut holder = open(1);
    let begun = holder.begin(0, None, &Questions::default(), Haste::Much).unwrap().revision;
    assert_eq!(waiting(&mut holder, &writes(1, begun, true)), (false, Some(0)), "nobody waits");
    let (tell, told) = mpsc::channel();
    let wait = |n: u128, haste| {
        let (mut backend, tell, server) = (open(n), tell.clone(), Arc::clone(&server));
        thread::spawn(move || {
            let begun = backend.begin(0, None, &Questions::default(), haste).unwrap().revision;
            tell.send(n).unwrap();
            if haste == Haste::Little {
                // Until the one who has lent it waits for it again, or it would be somebody else's.
                await_waiting(&server, 2);
            }
            assert!(!kept(&mut backend, &writes(n, begun, false)));
        })
    };
    let much = wait(2, Haste::Much);
    await_waiting(&server, 1);
    let has_time = waiting(&mut holder, &writes(3, begun + 1, true));
    assert_eq!(has_time, (false, Some(1)), "that one has time");
    let little = [wait(4, Haste::Little), wait(5, Haste::Little)];
    await_in(&server, FIRST, 2);
    assert_eq!(waiting(&mut holder, &writes(6, begun + 2, true)), (true, Some(1)));
    assert!(!kept(&mut holder, &lending(7, begun + 3)));
    let again = holder.begin(begun + 4, None, &Questions::default(), Haste::Again).unwrap();
    assert_eq!(again.revision, begun + 6, "after those with little to do");
    tell.send(1).unwrap();
    assert!(!kept(&mut holder, &writes(8, begun + 6, false)));
    little.into_iter().chain([much]).for_each(|thread| thread.join().unwrap());
    let mut order: Vec<u128> = told.try_iter().collect();
    order[..2].sort_unstable();
    assert_eq!(order, [4, 5, 1, 2]);
}

#[test]
fn a_turn_is_lent_to_those_with_little_to_do_and_taken_up_before_others() {
    lends_to_those_with_little("?transactions=off");
}

#[test]
fn it_is_so_by_plain_commands_too() {
    lends_to_those_with_little("");
}
