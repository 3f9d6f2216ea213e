//! A rate that three daemons share: no window holds more starts than it allows, and hardly fewer while there is work.
//!
//! The most is judged by the instants at which the store granted the starts, exact to the microsecond, and by the
//! shells' ledger with the longest delay from a grant to its shell taken off the window. The least is judged by the
//! ledger. A grant that came too late to be used is no start: its place is given back, and somebody else has it.

use std::collections::BTreeSet;

use serde_json::json;

use super::server::Server;
use crate::crash::arena::Arena;
use crate::crash::grants::Grants;
use crate::crash::{ledger, note, patience};

/// So many starts in so many seconds, and how many there must be where there is work.
struct Rate {
    limit: usize,
    seconds: i64,
    enough: usize,
}

fn three_daemons_share_a_rate(server: &Server) {
    let rate = Rate { limit: 60, seconds: 60, enough: 55 };
    let arena = Arena::on(&server.url());
    let said = format!("{}/{}s", rate.limit, rate.seconds);
    arena.run(&["services", "set", "api", "--rate", &said]).ok();
    // Three windows are full, and a fourth begins.
    let jobs = 3 * rate.limit + 2;
    let line = json!({"run": ledger::command(0.1), "services": ["api"]});
    arena.submit(&format!("{line}\n").repeat(jobs));
    let daemons = [(); 3].map(|()| arena.worker(2));
    patience::until_within("everything is completed", rate.span() * 6, || {
        (arena.lines() == 2 * jobs && arena.count("completed") == jobs as u64).then_some(())
    });
    judge(&arena, &rate, &Grants::of(&server.url()));
    let workers: BTreeSet<u32> = arena.ledger().executions.values().map(|run| run.worker).collect();
    assert_eq!(workers.len(), daemons.len(), "not every daemon had its share");
    arena.is_untroubled();
}

impl Rate {
    fn span(&self) -> std::time::Duration {
        std::time::Duration::from_secs(self.seconds.unsigned_abs())
    }
}

fn judge(arena: &Arena, rate: &Rate, grants: &Grants) {
    let window = rate.seconds * 1_000_000;
    let ledger = arena.ledger();
    let delay = grants.keep_a_rate(&ledger, window, rate.limit);
    let mut starts: Vec<i64> = ledger.executions.values().map(|run| run.start).collect();

    // One window after the other from the first start on, up to the last that had work to its end.
    starts.sort_unstable();
    let (first, last) = (starts[0], starts[starts.len() - 1]);
    let counts: Vec<usize> = (0..(last - first) / window)
        .map(|n| {
            let from = first + n * window;
            starts.iter().filter(|at| (from..from + window).contains(*at)).count()
        })
        .collect();
    note(&format!(
        "{counts:?} starts in windows of {} s; {} grants for {} starts, {delay} µs later at most",
        rate.seconds,
        grants.len(),
        starts.len()
    ));
    assert!(counts.len() >= 3, "{counts:?}");
    assert!(counts.iter().all(|count| *count >= rate.enough), "too few: {counts:?}");
}

#[test]
fn three_daemons_share_a_rate_on_postgres() {
    three_daemons_share_a_rate(&Server::postgres());
}

#[test]
fn three_daemons_share_a_rate_on_redis() {
    three_daemons_share_a_rate(&Server::redis());
}
