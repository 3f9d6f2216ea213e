//! The full-screen view of a queue: what it shows ([`Snapshot`]), what a person chose ([`Screen`]) and how
//! it is drawn ([`draw`]). It asks a store and draws; it changes nothing by itself.

mod draw;
mod snapshot;
mod state;

pub use draw::draw;
pub use snapshot::Snapshot;
pub use state::{Action, Screen};

#[cfg(test)]
mod tests;
