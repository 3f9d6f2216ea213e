//! A real hub with real agents: `runcue serve` and `runcue worker` as processes, a solver that is downloaded, and what
//! can happen to all of them.

mod agents;
mod doors;
#[cfg(all(feature = "postgres", feature = "redis"))]
mod health;
mod outages;
pub mod scene;
mod several;
mod up;
mod webhooks;
