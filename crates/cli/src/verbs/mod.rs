//! One file per verb, named after it: its flags as `Args`, and `run`, which does it.

pub mod add;
pub mod backup;
pub mod cancel;
pub mod complete;
pub mod completions;
pub mod doctor;
pub mod events;
pub mod groups;
pub mod list;
pub mod logs;
pub mod migrate;
pub mod r#move;
pub mod pause;
pub mod queues;
pub mod resume;
pub mod retry;
pub mod run;
pub mod schedule;
pub mod schedules;
pub mod serve;
pub mod services;
pub mod show;
pub mod status;
pub mod watch;
pub mod why;
pub mod work;
