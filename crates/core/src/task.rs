//! Task definitions as they are stored with the queue, so that any process that opens it can run them.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ids::TaskName;
use crate::json::Json;
use crate::retry::RetryPolicy;
use crate::service::Use;
use crate::time::seconds;

/// What the names of tasks begin with that runcue itself runs.
const RESERVED: &str = "runcue.";

impl TaskName {
    /// Whether the task is one of runcue's own. Its jobs go only to a claim that names it: a worker that takes
    /// whatever there is would not know what to do with them.
    pub fn is_reserved(&self) -> bool {
        self.as_str().starts_with(RESERVED)
    }
}

/// How the jobs of a task are run, and what they get unless they say otherwise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskSpec {
    /// Its name.
    pub name: TaskName,
    /// What its jobs use.
    #[serde(default)]
    pub services: Vec<Use>,
    /// How long one attempt may run.
    #[serde(default, with = "seconds::option")]
    pub timeout: Option<Duration>,
    /// When to try again.
    #[serde(default)]
    pub retry: RetryPolicy,
    /// What a front needs to run it, such as a command template; runcue itself does not look inside.
    #[serde(default)]
    pub definition: Json,
}

impl TaskSpec {
    /// A task with every default.
    pub fn new(name: TaskName) -> Self {
        Self {
            name,
            services: Vec::new(),
            timeout: None,
            retry: RetryPolicy::default(),
            definition: Json::null(),
        }
    }
}
