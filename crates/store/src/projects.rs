//! Counts by project. A project is a word of a job, not something the queue keeps books on: they are counted
//! when they are asked for.

use std::collections::BTreeMap;

use runcue_core::{JobFilter, State, StateWord, Wait};

use crate::{ListRequest, ProjectInfo, Result, Store};

/// Jobs looked at in one page.
const PAGE: usize = 5_000;

/// Counts the jobs that are not in a final state.
pub async fn count<S: Store + ?Sized>(store: &S) -> Result<Vec<ProjectInfo>> {
    let live = [StateWord::Queued, StateWord::Leased, StateWord::Running];
    let mut found: BTreeMap<Option<String>, ProjectInfo> = BTreeMap::new();
    let mut before = None;
    loop {
        let filter = JobFilter::default().in_states(live);
        let page = store.list(ListRequest { filter, before, limit: PAGE }).await?;
        for job in &page.rows {
            let name = &job.spec.project;
            let info = found
                .entry(name.clone())
                .or_insert_with(|| ProjectInfo { name: name.clone(), ..ProjectInfo::default() });
            match &job.life.state {
                State::Queued(Wait::Turn) => info.ready += 1,
                State::Queued(_) => info.waiting += 1,
                State::Leased(_) | State::Running(_) => info.claimed += 1,
                _ => {}
            }
        }
        before = page.next;
        if before.is_none() {
            return Ok(found.into_values().collect());
        }
    }
}
