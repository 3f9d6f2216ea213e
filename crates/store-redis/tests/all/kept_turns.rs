//! Turns that are kept over several commits: others wait, are told when it is over, and lose nothing to a daemon
//! that falls silent.

use std::sync::mpsc;
use std::thread;

use runcue_store::overlay::{Backend, CommitId, Committed, Questions, WriteSet};
use runcue_store_redis::{Options, RedisBackend};
use runcue_test_servers::Redis;

const WAITING: &str = "runcue:{default}:line";

fn daemon(server: &Redis, n: u128) -> RedisBackend {
    let mut backend = RedisBackend::new(Options::parse(&server.url()).unwrap(), n);
    backend.connect().unwrap();
    backend
}

fn writes(commit: u128, follows: u64, keeps_turn: bool) -> WriteSet {
    let id = Some(CommitId(commit));
    WriteSet { id, follows, in_turn: true, keeps_turn, ..WriteSet::default() }
}

fn kept(backend: &mut RedisBackend, writes: &WriteSet) -> bool {
    match backend.commit(writes).unwrap() {
        Committed::Done { kept, .. } => kept,
        other => panic!("{other:?}"),
    }
}

/// Waits until so many daemons wait for the turn.
fn await_waiting(server: &Redis, count: usize) {
    while server.command(&["LLEN", WAITING]).unwrap() != format!(":{count}") {
        thread::yield_now();
    }
}

#[test]
fn whoever_waits_has_its_turn_in_the_order_it_came() {
    let server = Redis::settings().start().unwrap();
    let mut holder = daemon(&server, 1);
    let begun = holder.begin(0, None, &Questions::default()).unwrap().revision;
    assert!(kept(&mut holder, &writes(1, begun, true)));
    let (tell, told) = mpsc::channel();
    let mut waiting = Vec::new();
    for n in 2..=4 {
        let (mut backend, tell) = (daemon(&server, n), tell.clone());
        waiting.push(thread::spawn(move || {
            let begun = backend.begin(0, None, &Questions::default()).unwrap().revision;
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
    let begun = silent.begin(0, None, &Questions::default()).unwrap().revision;
    assert!(kept(&mut silent, &writes(1, begun, true)));
    // Nobody tells it; it comes when the time of the turn is over.
    let opening = other.begin(0, None, &Questions::default()).unwrap();
    assert_eq!(opening.revision, begun + 1);
    assert_eq!(silent.commit(&writes(2, begun + 1, true)).unwrap(), Committed::Behind);
    assert!(!kept(&mut other, &writes(3, begun + 1, false)));
    assert_eq!(silent.commit(&writes(2, begun + 1, true)).unwrap(), Committed::Behind);
}

#[test]
fn a_daemon_that_died_while_it_waited_holds_nobody_up_for_long() {
    let server = Redis::settings().start().unwrap();
    let (mut holder, mut other) = (daemon(&server, 1), daemon(&server, 2));
    let begun = holder.begin(0, None, &Questions::default()).unwrap().revision;
    assert_eq!(server.command(&["RPUSH", WAITING, "somebody who died"]).unwrap(), ":1");
    let waits = thread::spawn(move || other.begin(0, None, &Questions::default()).unwrap());
    await_waiting(&server, 2);
    holder.abandon();
    assert_eq!(waits.join().unwrap().revision, begun);
}
