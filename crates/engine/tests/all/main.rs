//! The engine as its users see it, by topic. In memory and in virtual time wherever real time is not the
//! point.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod backpressure;
mod callbacks;
mod cancel;
mod commands;
mod dependencies;
mod events;
mod faults;
mod faulty;
mod late;
mod leases;
mod limits;
mod observe;
mod retries;
mod schedules;
mod stopping;
mod support;
mod traces;
mod waiting;
