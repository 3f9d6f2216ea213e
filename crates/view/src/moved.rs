//! What became of a queue that was copied, and of a schema that was brought up to date.

use runcue_store::Counts;
use serde::Serialize;

/// A queue that was moved.
#[derive(Clone, Debug, Serialize)]
pub struct MoveView {
    /// Where it was, and still is.
    pub from: String,
    /// Where it is now.
    pub to: String,
    /// Jobs that were copied.
    pub new: u64,
    /// Jobs that were there and have been brought up to date.
    pub updated: u64,
    /// Jobs that were there already.
    pub unchanged: u64,
    /// Jobs by state, the same in both.
    pub counts: Counts,
    /// Jobs whose checksums were compared and agree.
    pub verified: u64,
    /// The checksum over all of them.
    pub checksum: String,
}

/// A queue that was backed up.
#[derive(Clone, Debug, Serialize)]
pub struct BackupView {
    /// The store.
    pub store: String,
    /// The file.
    pub file: String,
    /// Jobs in it, by state.
    pub counts: Counts,
}

/// A schema that was looked at.
#[derive(Clone, Debug, Serialize)]
pub struct MigrateView {
    /// The store.
    pub store: String,
    /// The version that was found, `null` for a store that sees to its schema itself.
    pub found: Option<u32>,
    /// The version it has now.
    pub schema: Option<u32>,
    /// Whether something was changed.
    pub changed: bool,
}
