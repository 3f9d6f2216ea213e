//! Turns that are kept over several commits: others wait, in the order in which they came, and lose nothing to a
//! daemon that falls silent or fails.

use std::sync::mpsc;
use std::thread;

use runcue_store::overlay::{Backend, CommitId, Committed, Questions, WriteSet};
use runcue_store_postgres::{Options, PostgresBackend};
use runcue_test_servers::Database;

fn daemon(database: &Database, more: &str) -> PostgresBackend {
    let url = format!("{}?schema=kept{more}", database.url());
    let mut backend = PostgresBackend::new(Options::parse(&url).unwrap()).unwrap();
    backend.connect().unwrap();
    backend
}

fn writes(commit: u128, follows: u64, keeps_turn: bool) -> WriteSet {
    let id = Some(CommitId(commit));
    WriteSet { id, follows, in_turn: true, keeps_turn, ..WriteSet::default() }
}

fn kept(backend: &mut PostgresBackend, writes: &WriteSet) -> bool {
    match backend.commit(writes).unwrap() {
        Committed::Done { kept, .. } => kept,
        other => panic!("{other:?}"),
    }
}

/// Waits until so many sessions wait for the turn.
fn await_waiting(database: &Database, count: usize) {
    let sql = "SELECT count(*) FROM pg_locks JOIN pg_database ON pg_database.oid = pg_locks.database \
               WHERE locktype = 'advisory' AND NOT granted AND datname = current_database()";
    while database.sql(sql).unwrap().trim() != count.to_string() {
        thread::yield_now();
    }
}

#[test]
fn whoever_waits_has_its_turn_in_the_order_it_came() {
    let database = runcue_test_servers::postgres().unwrap();
    let mut holder = daemon(&database, "");
    let begun = holder.begin(0, None, &Questions::default()).unwrap().revision;
    assert!(kept(&mut holder, &writes(1, begun, true)));
    let (tell, told) = mpsc::channel();
    let mut waiting = Vec::new();
    for n in 2..=4 {
        let (mut backend, tell) = (daemon(&database, ""), tell.clone());
        waiting.push(thread::spawn(move || {
            let begun = backend.begin(0, None, &Questions::default()).unwrap().revision;
            tell.send((n, begun)).unwrap();
            assert!(!kept(&mut backend, &writes(n, begun, false)));
        }));
        await_waiting(&database, waiting.len());
    }
    assert!(kept(&mut holder, &writes(5, begun + 1, true)), "others wait, and it goes on");
    assert!(!kept(&mut holder, &writes(6, begun + 2, false)));
    waiting.into_iter().for_each(|thread| thread.join().unwrap());
    let order: Vec<_> = told.try_iter().collect();
    assert_eq!(order, [(2, begun + 3), (3, begun + 4), (4, begun + 5)]);
}

#[test]
fn a_kept_turn_ends_by_itself_when_its_daemon_falls_silent() {
    let database = runcue_test_servers::postgres().unwrap();
    let (mut silent, mut other) = (daemon(&database, ""), daemon(&database, ""));
    let begun = silent.begin(0, None, &Questions::default()).unwrap().revision;
    assert!(kept(&mut silent, &writes(1, begun, true)));
    // The server ends the session that keeps silent, and with it the turn.
    let opening = other.begin(0, None, &Questions::default()).unwrap();
    assert_eq!(opening.revision, begun + 1);
    assert!(!kept(&mut other, &writes(3, begun + 1, false)));
    assert!(silent.commit(&writes(2, begun + 1, true)).is_err());
    silent.connect().unwrap();
    assert!(!silent.settle(CommitId(2), begun + 1).unwrap());
}

#[test]
fn a_commit_that_fails_in_a_kept_turn_lets_go_of_it() {
    let database = runcue_test_servers::postgres().unwrap();
    let (mut failing, mut other) = (daemon(&database, ""), daemon(&database, ""));
    let begun = failing.begin(0, None, &Questions::default()).unwrap().revision;
    assert!(kept(&mut failing, &writes(1, begun, true)));
    assert_eq!(failing.commit(&writes(2, begun, true)).unwrap(), Committed::Behind);
    let opening = other.begin(0, None, &Questions::default()).unwrap();
    assert_eq!(opening.revision, begun + 1);
    other.abandon();
    let again = failing.begin(begun + 1, None, &Questions::default()).unwrap();
    assert!(again.changed.is_none());
    failing.abandon();
}

#[test]
fn behind_a_pooler_no_turn_is_kept() {
    let database = runcue_test_servers::postgres().unwrap();
    let mut daemon = daemon(&database, "&pooler=on");
    let begun = daemon.begin(0, None, &Questions::default()).unwrap().revision;
    assert!(!kept(&mut daemon, &writes(1, begun, true)));
}
