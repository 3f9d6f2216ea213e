//! The contract, topic by topic. Each test is one sentence about any store.

pub mod breaker;
pub mod cancel;
pub mod candidates;
pub mod claim;
pub mod clock;
pub mod deadlines;
pub mod delayed;
pub mod dependencies;
pub mod durability;
pub mod events;
pub mod finish;
pub mod groups;
pub mod keys;
pub mod leases;
pub mod logs;
pub mod progress;
pub mod queries;
pub mod queues;
pub mod retention;
pub mod retry;
pub mod rotation;
pub mod schedules;
pub mod service_limits;
pub mod services;
pub mod submit;
pub mod why;
