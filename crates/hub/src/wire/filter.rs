//! Which jobs a request means: the query of a list, and the filter of an action on many.

use std::collections::BTreeSet;

use runcue_core::{GroupName, JobFilter, JobId, QueueName, StateWord, TaskName};
use serde::Deserialize;

use super::strict::known;
use crate::error::{Answer, Code, Refusal};
use crate::openapi::{Described, Schema, flag, id_read, list_of, may, name, named, read_as, text};

/// The most jobs an action may name one by one.
const MAX_IDS: usize = 10_000;

/// The query of a list.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ListQuery {
    pub status: Option<String>,
    pub state: Option<String>,
    pub r#type: Option<TaskName>,
    pub group: Option<GroupName>,
    pub queue: Option<QueueName>,
    pub project: Option<String>,
    pub label: Option<String>,
    pub q: Option<String>,
    pub limit: Option<usize>,
    pub offset: Option<usize>,
    pub before: Option<JobId>,
}

impl ListQuery {
    /// The jobs it means, text search apart.
    pub fn filter(&self) -> Answer<JobFilter> {
        Ok(JobFilter {
            states: states_of(self.status.as_deref(), self.state.as_deref())?,
            queue: self.queue.clone(),
            group: self.group.clone(),
            task: self.r#type.clone(),
            project: self.project.clone(),
            label: self.label.clone(),
            ..JobFilter::default()
        })
    }
}

/// The states that words of either kind mean, several with commas; none means all.
pub fn states_of(status: Option<&str>, state: Option<&str>) -> Answer<BTreeSet<StateWord>> {
    let mut states = BTreeSet::new();
    for word in words(status) {
        let meant: &[StateWord] = match word {
            "pending" => &[StateWord::Queued],
            "assigned" => &[StateWord::Leased],
            "running" => &[StateWord::Running],
            "completed" => &[StateWord::Completed],
            "failed" => &[StateWord::Failed, StateWord::Cancelled],
            "quarantined" => &[StateWord::Quarantined],
            other => {
                return Err(Refusal::field("status", format!("{other:?} is no status")).help(
                    "pending, assigned, running, completed, failed and quarantined are; see also state",
                ));
            }
        };
        states.extend(meant);
    }
    for word in words(state) {
        let state = StateWord::from_word(word).ok_or_else(|| {
            let known = StateWord::ALL.map(StateWord::as_str).join(", ");
            Refusal::field("state", format!("{word:?} is no state")).help(format!("{known} are"))
        })?;
        states.insert(state);
    }
    Ok(states)
}

fn words(text: Option<&str>) -> impl Iterator<Item = &str> {
    text.unwrap_or_default().split(',').map(str::trim).filter(|word| !word.is_empty())
}

/// An action on many jobs.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ActionBody {
    #[serde(deserialize_with = "known")]
    pub filter: FilterBody,
    pub cascade: bool,
    pub dry_run: bool,
    /// Every job there is is meant.
    pub all: bool,
}

/// Which jobs.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FilterBody {
    pub ids: BTreeSet<JobId>,
    pub status: Option<String>,
    pub state: Option<String>,
    pub r#type: Option<TaskName>,
    pub group: Option<GroupName>,
    pub queue: Option<QueueName>,
    pub project: Option<String>,
    pub label: Option<String>,
}

impl ActionBody {
    /// The jobs it means, of those in these states. A filter that names nothing is refused unless that is meant.
    pub fn filter(&self, among: &[StateWord]) -> Answer<JobFilter> {
        let asked = &self.filter;
        if asked.ids.len() > MAX_IDS {
            return Err(Refusal::field("filter.ids", format!("at most {MAX_IDS} are allowed")));
        }
        let mut states = states_of(asked.status.as_deref(), asked.state.as_deref())?;
        let named = !asked.ids.is_empty()
            || !states.is_empty()
            || asked.r#type.is_some()
            || asked.group.is_some()
            || asked.queue.is_some()
            || asked.project.is_some()
            || asked.label.is_some();
        if !named && !self.all {
            return Err(Refusal::new(
                Code::Invalid,
                "filter: it names nothing, which would mean all",
            )
            .help("name ids, state, type, group, queue, project or label; or send \"all\": true"));
        }
        if states.is_empty() {
            states = among.iter().copied().collect();
        } else {
            states.retain(|state| among.contains(state));
            if states.is_empty() {
                let can = among.iter().map(|state| state.as_str()).collect::<Vec<_>>().join(", ");
                return Err(Refusal::field("filter.state", "no job in these states can be meant")
                    .help(format!("this acts on {can}")));
            }
        }
        Ok(JobFilter {
            ids: asked.ids.clone(),
            states,
            queue: asked.queue.clone(),
            group: asked.group.clone(),
            task: asked.r#type.clone(),
            project: asked.project.clone(),
            label: asked.label.clone(),
        })
    }
}

impl Described for ActionBody {
    const NAME: &'static str = "Action";

    fn schema() -> Schema {
        read_as::<Self>([
            may("filter", named::<FilterBody>()),
            may("cascade", flag().says("Also what waits for them.")),
            may("dry_run", flag().says("Only count.")),
            may("all", flag().says("A filter that names nothing means every job.")),
        ])
    }
}

impl Described for FilterBody {
    const NAME: &'static str = "Filter";

    fn schema() -> Schema {
        read_as::<Self>([
            may("ids", list_of(id_read()).up_to(MAX_IDS)),
            may("status", text().or_null().says("The hub's words, several with commas.")),
            may("state", text().or_null().says("runcue's words, several with commas.")),
            may("type", name().or_null()),
            may("group", name().or_null()),
            may("queue", name().or_null()),
            may("project", text().or_null()),
            may("label", text().or_null()),
        ])
    }
}
