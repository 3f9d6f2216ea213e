//! A worker that is suspended until its lease has gone, and wakes up later.
//!
//! The lease is as short as it may be used, and the wait for it is real: everything that can be seen of a frozen worker
//! is seen in that one wait.

use std::time::Duration;

use rusqlite::Connection;
use rustix::process::Signal;
use serde_json::json;

use super::arena::{Arena, Victim};
use super::patience;

/// The first attempt says so and waits for a word; the second says so and is done.
const SLOW: &str = "echo begun > begun-$RUNCUE_JOB_ID-$RUNCUE_ATTEMPT
    if test $RUNCUE_ATTEMPT = 1; then
        for n in $(seq 6000); do test -e go && break; sleep 0.05; done
        test $KIND = stays && sleep 1000
    fi
    echo by attempt $RUNCUE_ATTEMPT; echo ended > ended-$RUNCUE_JOB_ID-$RUNCUE_ATTEMPT";

#[test]
fn a_worker_that_was_frozen_until_its_lease_had_gone_changes_nothing_when_it_wakes_up() {
    is_frozen_past_its_lease(&Arena::new());
}

/// The same wherever the queue is kept.
pub fn is_frozen_past_its_lease(arena: &Arena) {
    // One is done while its worker sleeps, so that the worker wakes up with a result in hand; one goes on for ever.
    let [ends, stays] = ["ends", "stays"].map(|kind| {
        let kind = format!("KIND={kind}");
        arena.add(&["--env", &kind, "--", "sh", "-c", SLOW])
    });
    let has = |what: &str, id: &str, attempt: u32| {
        !arena.read(&format!("{what}-{id}-{attempt}")).is_empty()
    };
    let frozen = arena.spawn(&["work", "--jobs", "2", "--quiet", "--lease", "3s"]);
    patience::until("both run", || {
        (has("begun", &ends, 1) && has("begun", &stays, 1)).then_some(())
    });
    freeze(arena, &frozen);
    arena.write("go", "");
    patience::until("its child goes on without it", || has("ended", &ends, 1).then_some(()));
    let leases = [&ends, &stays].map(|id| arena.show(id)["lease_expires_at"].as_i64().unwrap());

    // The other worker has to wait: the frozen one is not dead, and only its lease says when it is over.
    arena.run(&["work", "--drain", "--jobs", "2", "--quiet"]).ok();
    let history = arena.history();
    for (id, lease) in [&ends, &stays].into_iter().zip(leases) {
        let taken_back = history.of(id).find(|event| event["type"] == "work_retrying").unwrap();
        assert!(
            taken_back["at"].as_i64().unwrap() >= lease,
            "before its lease was up: {taken_back}"
        );
    }
    let settled = [&ends, &stays].map(|id| arena.show(id));
    for job in &settled {
        assert_eq!((&job["state"], &job["attempt"]), (&json!("completed"), &json!(2)));
        assert_eq!(job["result"]["stdout"], "by attempt 2\n");
    }

    frozen.signal(Signal::CONT);
    // Awake, it is told at its next look that its jobs are no longer its own, and stops the one that still runs.
    // What is left then is the worker and its guard.
    patience::until("its child is gone", || (arena.processes().len() == 2).then_some(()));
    // A job that comes now is run by it: so it has been through everything it had to say before.
    let next = arena.add(&["--", "true"]);
    patience::until("it is at work again", || (arena.state(&next) == "completed").then_some(()));
    assert_eq!([&ends, &stays].map(|id| arena.show(id)), settled);
    let later = arena.history();
    for id in [&ends, &stays] {
        assert_eq!(later.of(id).count(), history.of(id).count(), "nothing more happened to it");
        let said = arena.run(&["logs", id, "--stream", "stdout"]).ok();
        assert_eq!(said, "by attempt 2\n", "what the late one wrote is not kept either");
    }
    arena.is_untroubled();
}

/// Stops a worker, but not while it writes to a file: that would stay locked for everybody, and no lease has to do with it.
fn freeze(arena: &Arena, worker: &Victim) {
    let stat = format!("/proc/{}/stat", worker.pid());
    let stands_still = || {
        let stat = std::fs::read_to_string(&stat).unwrap();
        stat.rsplit(')').next().is_some_and(|rest| rest.trim().starts_with('T')).then_some(())
    };
    let file = arena.path().join(".runcue/queue.db");
    let is_free = || -> rusqlite::Result<()> {
        let connection = Connection::open(&file)?;
        connection.busy_timeout(Duration::ZERO)?;
        connection.execute_batch("BEGIN IMMEDIATE; ROLLBACK")
    };
    loop {
        worker.signal(Signal::STOP);
        patience::until("it stands still", stands_still);
        if !file.exists() || is_free().is_ok() {
            return;
        }
        worker.signal(Signal::CONT);
    }
}
