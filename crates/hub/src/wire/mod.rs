//! The documented shapes and words of the hub, and the way between them and runcue's own. Nothing else knows
//! that a queued job is called pending here.

mod body;
mod claim;
mod filter;
mod job;
mod path;
mod report;
pub mod strict;
mod submit;

pub use body::{Body, Ndjson, OneOrMany};
pub use claim::{ClaimBody, ClaimedBody, LeaseBody, RegisterBody, worker};
pub use filter::{ActionBody, ListQuery};
pub use job::{JobBody, JobDetail, Relative, state, status, status_of};
pub use path::Part;
pub use report::{
    BeatBody, BeatsBody, EndWord, EndedBody, EndedManyBody, EndsBody, FailBody, HeartbeatBody,
    HeartbeatsBody, MAX_MESSAGE, MOST_REPORTED, OneBeatAnswer, OneEnd, OneEnded, ReleaseBody,
    ResultBody,
};
pub use submit::{Defaults, NewJobBody, not_ours};
