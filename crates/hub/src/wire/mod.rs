//! The documented shapes and words of the hub, and the way between them and runcue's own. Nothing else knows
//! that a queued job is called pending here.

mod body;
mod claim;
mod filter;
mod job;
mod submit;

pub use body::{Body, Ndjson};
pub use claim::{ClaimBody, ClaimedBody, LeaseBody, RegisterBody, worker};
pub use filter::{ActionBody, ListQuery};
pub use job::{JobBody, JobDetail, Relative, status_of};
pub use submit::{Defaults, NewJobBody};
