//! What a killed worker leaves behind: no process, and a job that the next one takes back at once.

use serde_json::json;

use super::arena::Arena;
use super::patience;

/// Heartbeats come every ten seconds, leases last thirty: whoever waits for a lease waits for more than this.
const LEFT_OF_A_LEASE: i64 = 15_000;

/// The first attempt never ends, and neither do its children: one in its group, one in a session of its own.
const ENDLESS: &str = "test $RUNCUE_ATTEMPT -gt 1 && exit 0
    sleep 1000 & setsid sleep 1000 & echo up > up-$RUNCUE_JOB_ID; sleep 1000";

#[test]
fn children_of_a_killed_worker_die_with_it_and_its_jobs_are_taken_back_at_once() {
    let arena = Arena::new();
    let ids = [(); 2].map(|()| arena.add(&["--", "sh", "-c", ENDLESS]));
    let mut worker = arena.worker(2);
    patience::until("both run", || {
        ids.iter().all(|id| !arena.read(&format!("up-{id}")).is_empty()).then_some(())
    });
    // The worker, its guard, and of each job the shell and three times sleep.
    patience::until("all are there", || (arena.processes().len() == 2 + 2 * 4).then_some(()));
    let leases = ids.clone().map(|id| arena.show(&id)["lease_expires_at"].as_i64().unwrap());
    worker.kill().unwrap();
    arena.deserted();

    let status = arena.run(&["status", "--json"]).json();
    assert_eq!(status["workers"], json!([]), "whoever opens the queue sees that it is gone");
    let states = ids.clone().map(|id| arena.show(&id)["state"].clone());
    assert_eq!(states, [json!("queued"), json!("queued")], "and takes its jobs back");

    arena.run(&["work", "--drain", "--quiet"]).ok();
    let history = arena.history();
    for (id, lease) in ids.iter().zip(leases) {
        let taken_back = history.of(id).find(|event| event["type"] == "work_retrying").unwrap();
        let left = lease - taken_back["at"].as_i64().unwrap();
        assert!(left > LEFT_OF_A_LEASE, "taken back {left} ms before its lease was up");
        let job = arena.show(id);
        assert_eq!((&job["state"], &job["attempt"]), (&json!("completed"), &json!(2)));
        assert_eq!(job["crashes"], 1);
        super::note(&format!("taken back {left} ms before its lease was up"));
    }
    arena.deserted();
}
