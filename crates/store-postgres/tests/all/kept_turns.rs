//! Turns that are kept over several commits: others wait, in the order in which they came, and lose nothing to a
//! daemon that falls silent or fails.

use std::sync::mpsc;
use std::thread;

use runcue_store::overlay::{Backend, CommitId, Committed, Haste, Questions, WriteSet};
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

fn lending(commit: u128, follows: u64) -> WriteSet {
    WriteSet { lends_turn: true, ..writes(commit, follows, false) }
}

/// Whether somebody with little to do waits, as a commit in a kept turn is told.
fn hurry(backend: &mut PostgresBackend, writes: &WriteSet) -> bool {
    match backend.commit(writes).unwrap() {
        Committed::Done { kept: true, hurry, .. } => hurry,
        other => panic!("{other:?}"),
    }
}

/// Takes the turn as soon as it can, says so, and ends it.
fn wait_for_it(
    database: &Database,
    n: u128,
    haste: Haste,
    tell: &mpsc::Sender<u128>,
) -> thread::JoinHandle<()> {
    let (mut backend, tell) = (daemon(database, ""), tell.clone());
    thread::spawn(move || {
        let begun = backend.begin(0, None, &Questions::default(), haste).unwrap().revision;
        tell.send(n).unwrap();
        assert!(!kept(&mut backend, &writes(n, begun, false)));
    })
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
    let begun = holder.begin(0, None, &Questions::default(), Haste::Much).unwrap().revision;
    assert!(kept(&mut holder, &writes(1, begun, true)));
    let (tell, told) = mpsc::channel();
    let mut waiting = Vec::new();
    for n in 2..=4 {
        let (mut backend, tell) = (daemon(&database, ""), tell.clone());
        waiting.push(thread::spawn(move || {
            let begun =
                backend.begin(0, None, &Questions::default(), Haste::Much).unwrap().revision;
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
    let begun = silent.begin(0, None, &Questions::default(), Haste::Much).unwrap().revision;
    assert!(kept(&mut silent, &writes(1, begun, true)));
    // The server ends the session that keeps silent, and with it the turn.
    let opening = other.begin(0, None, &Questions::default(), Haste::Much).unwrap();
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
    let begun = failing.begin(0, None, &Questions::default(), Haste::Much).unwrap().revision;
    assert!(kept(&mut failing, &writes(1, begun, true)));
    assert_eq!(failing.commit(&writes(2, begun, true)).unwrap(), Committed::Behind);
    let opening = other.begin(0, None, &Questions::default(), Haste::Much).unwrap();
    assert_eq!(opening.revision, begun + 1);
    other.abandon();
    let again = failing.begin(begun + 1, None, &Questions::default(), Haste::Much).unwrap();
    assert!(again.changed.is_none());
    failing.abandon();
}

#[test]
fn behind_a_pooler_no_turn_is_kept() {
    let database = runcue_test_servers::postgres().unwrap();
    let mut daemon = daemon(&database, "&pooler=on");
    let begun = daemon.begin(0, None, &Questions::default(), Haste::Much).unwrap().revision;
    assert!(!kept(&mut daemon, &writes(1, begun, true)));
}

/// The first commit of a kept turn asks: from then on it is known.
#[test]
fn whoever_keeps_a_turn_knows_how_many_wait_for_it() {
    let database = runcue_test_servers::postgres().unwrap();
    let mut holder = daemon(&database, "");
    let begun = holder.begin(0, None, &Questions::default(), Haste::Much).unwrap().revision;
    let (tell, _told) = mpsc::channel();
    let mut others = vec![wait_for_it(&database, 2, Haste::Much, &tell)];
    others.push(wait_for_it(&database, 3, Haste::Much, &tell));
    others.push(wait_for_it(&database, 4, Haste::Little, &tell));
    await_waiting(&database, 3);
    let mut line = |commit, follows| match holder.commit(&writes(commit, follows, true)).unwrap() {
        Committed::Done { kept: true, line, .. } => line,
        other => panic!("{other:?}"),
    };
    assert_eq!(line(1, begun), Some(2), "the one with little to do waits elsewhere");
    assert_eq!(line(5, begun + 1), None);
    assert!(!kept(&mut holder, &writes(6, begun + 2, false)));
    others.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn a_turn_is_lent_to_those_with_little_to_do_and_taken_up_before_others() {
    let database = runcue_test_servers::postgres().unwrap();
    let mut holder = daemon(&database, "");
    let begun = holder.begin(0, None, &Questions::default(), Haste::Much).unwrap().revision;
    assert!(!hurry(&mut holder, &writes(1, begun, true)), "nobody waits");
    let (tell, told) = mpsc::channel();
    let much = wait_for_it(&database, 2, Haste::Much, &tell);
    await_waiting(&database, 1);
    assert!(!hurry(&mut holder, &writes(3, begun + 1, true)), "that one has time");
    let little = [4, 5].map(|n| wait_for_it(&database, n, Haste::Little, &tell));
    await_waiting(&database, 3);
    assert!(hurry(&mut holder, &writes(6, begun + 2, true)));
    assert!(!kept(&mut holder, &lending(7, begun + 3)));
    let again = holder.begin(begun + 4, None, &Questions::default(), Haste::Again).unwrap();
    assert_eq!(again.revision, begun + 6, "after those with little to do");
    tell.send(1).unwrap();
    // It can be kept as before, and ends as a whole.
    assert!(kept(&mut holder, &writes(8, begun + 6, true)));
    assert!(!kept(&mut holder, &writes(9, begun + 7, false)));
    little.into_iter().chain([much]).for_each(|thread| thread.join().unwrap());
    let mut order: Vec<u128> = told.try_iter().collect();
    order[..2].sort_unstable();
    assert_eq!(order, [4, 5, 1, 2]);
    assert_eq!(locks(&database), "0", "nobody holds anything any more");
}

/// How many locks of turns are held in the database.
fn locks(database: &Database) -> String {
    let sql = "SELECT count(*) FROM pg_locks JOIN pg_database ON pg_database.oid = pg_locks.database \
               WHERE locktype = 'advisory' AND datname = current_database()";
    database.sql(sql).unwrap().trim().to_owned()
}

/// A daemon that has lent its turn while another with much to do waits.
fn lent(database: &Database) -> (PostgresBackend, thread::JoinHandle<()>, mpsc::Receiver<u128>) {
    let mut holder = daemon(database, "");
    let begun = holder.begin(0, None, &Questions::default(), Haste::Much).unwrap().revision;
    assert!(kept(&mut holder, &writes(1, begun, true)));
    let (tell, told) = mpsc::channel();
    let other = wait_for_it(database, 2, Haste::Much, &tell);
    await_waiting(database, 1);
    assert!(!kept(&mut holder, &lending(3, begun + 1)));
    let little = wait_for_it(database, 4, Haste::Little, &tell);
    little.join().unwrap();
    assert_eq!(told.recv().unwrap(), 4);
    assert!(told.try_recv().is_err(), "it may still be taken up");
    (holder, other, told)
}

#[test]
fn whoever_has_lent_its_turn_and_does_not_want_it_any_more_lets_others_go_on() {
    let database = runcue_test_servers::postgres().unwrap();
    let (mut holder, other, told) = lent(&database);
    holder.abandon();
    other.join().unwrap();
    assert_eq!(told.recv().unwrap(), 2);
    let (mut holder, other, told) = lent(&database);
    let revision = holder.look().unwrap().0;
    // A commit outside of a turn is not part of the transaction in which the turn was to be taken up.
    let outside = WriteSet { in_turn: false, ..writes(9, revision, false) };
    let written = matches!(holder.commit(&outside).unwrap(), Committed::Done { .. });
    other.join().unwrap();
    assert_eq!((told.recv().unwrap(), locks(&database)), (2, "0".to_owned()));
    assert_eq!(daemon(&database, "").look().unwrap().0, revision + 1 + u64::from(written));
}

#[test]
fn whoever_has_lent_its_turn_and_falls_silent_holds_nobody_up_for_long() {
    let database = runcue_test_servers::postgres().unwrap();
    let (mut holder, other, told) = lent(&database);
    // The server ends the session that keeps silent, and with it what it held.
    other.join().unwrap();
    assert_eq!(told.recv().unwrap(), 2);
    assert!(holder.begin(1, None, &Questions::default(), Haste::Again).is_err());
}
