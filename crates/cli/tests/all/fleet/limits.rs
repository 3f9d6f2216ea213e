//! A service that all daemons share, whose limits hold whatever happens to them or to the server.

use super::server::Server;
use crate::crash::arena::{Arena, Kill};
use crate::crash::grants::Grants;
use crate::crash::note;

/// The service that every job uses.
pub const SERVICE: &str = "api";
/// How long a job works. Two daemons with three handlers each start fewer jobs a second than the rate allows and have fewer at
/// once than there are slots, so that there is always something left for the third, however late it comes; and what all
/// three could do is more than either.
pub const WORK: f64 = 0.25;
const RATE: usize = 26;
const WINDOW: i64 = 1_000_000;
const AT_ONCE: usize = 7;

/// Makes the service.
pub fn set(arena: &Arena) {
    let (rate, slots) = (format!("{RATE}/s"), AT_ONCE.to_string());
    arena.run(&["services", "set", SERVICE, "--rate", &rate, "--max-concurrent", &slots]).ok();
}

/// In no window were more starts than the rate allows, and at no moment more executions than there are slots.
#[track_caller]
pub fn were_kept(arena: &Arena, server: &Server, kills: &[Kill]) {
    let (ledger, grants) = (arena.ledger(), Grants::of(&server.url()));
    let delay = grants.keep_a_rate(&ledger, WINDOW, RATE);
    let most = ledger.most_at_once(kills);
    note(&format!(
        "{} grants, {delay} µs from a grant to the shell at most; {most} at once",
        grants.len()
    ));
    assert!(most <= AT_ONCE, "{most} at once");
    assert!(most > 1, "nothing ran at once: that proves little");
}
