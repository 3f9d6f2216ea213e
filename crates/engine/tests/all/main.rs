//! The engine as its users see it, by topic. In memory and in virtual time wherever real time is not the
//! point.

mod backpressure;
mod callbacks;
mod cancel;
mod commands;
mod dependencies;
mod events;
mod leases;
mod limits;
mod observe;
mod retries;
mod stopping;
mod support;
mod waiting;
