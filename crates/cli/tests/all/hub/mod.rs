//! A real hub with real agents: `runcue serve` and `runcue worker` as processes, a solver that is downloaded, and what
//! can happen to all of them.

mod agents;
mod doors;
mod outages;
pub mod scene;
mod several;
mod up;
mod webhooks;
