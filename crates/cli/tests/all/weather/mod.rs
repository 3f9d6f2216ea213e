//! Bad weather at a server while a daemon works there: its disk is full, its memory or its connections are used up,
//! its clock is off, nobody trusts its certificate. The daemon says in one line what is wrong and what helps, goes on
//! trying, and goes on working when it is over; nothing that was acknowledged is lost and nothing is done twice.

mod apart;
mod clocks;
mod connections;
mod disk;
#[cfg(feature = "lmdb")]
mod map;
mod memory;
mod spell;
mod tls;
