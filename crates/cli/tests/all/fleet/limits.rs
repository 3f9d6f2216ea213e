//! A service that all daemons share, whose limits hold whatever happens to them or to the server.

use super::server::Server;
use crate::crash::arena::{Arena, Kill};
use crate::crash::grants::Grants;
use crate::crash::note;

/// The service that every job uses.
pub const SERVICE: &str = "api";
/// How long a job works: at a rate of so many, all slots are taken at the beginning of a window, and the rate is used up
/// before its end.
pub const WORK: f64 = 0.1;
const RATE: usize = 30;
const WINDOW: i64 = 1_000_000;
const AT_ONCE: usize = 4;

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
