//! What was asked for, to and from its row. What is a job's own (its id, target and params) has columns; all the
//! rest is one JSON text, which tends to be the same from job to job: what was read lately and what was written last
//! is remembered, so that most jobs are neither parsed nor serialized. A claim takes its jobs from many groups in
//! turn, so one text would not be enough for reading; a submission mostly brings jobs of one kind.

use std::sync::Arc;

use runcue_core::map::Map;
use runcue_core::{GroupName, JobId, JobSpec, Json};

use crate::rows::{parsed, text};

/// How the text of a spec begins whose id is in a column.
const NO_ID: &str = "{\"id\":\"00000000000000000000000000000000\",";

/// Texts that are remembered for reading; beyond that all are forgotten.
const REMEMBERED: usize = 2048;
/// A longer text is hardly ever the same for two jobs, and is not remembered.
const LONGEST: usize = 512;

/// Texts and what they say.
#[derive(Debug, Default)]
pub struct Specs {
    read: Map<String, Known>,
    /// The latest of what [`Known`] shares.
    latest: Option<Arc<JobSpec>>,
    written: Option<(String, JobSpec)>,
}

/// What a text says. Jobs of many groups tend to differ in nothing else, so all but the group is shared: a thousand
/// whole specs would not stay within reach of the processor.
#[derive(Debug)]
struct Known {
    rest: Arc<JobSpec>,
    group: Option<GroupName>,
}

impl Specs {
    /// The spec that a text and the job's own columns make.
    pub fn read(
        &mut self,
        written: &str,
        id: JobId,
        target: Option<String>,
        params: Option<&str>,
    ) -> rusqlite::Result<JobSpec> {
        let params = params.map(Json::trusted).unwrap_or_default();
        if let Some(Known { rest, group }) = self.read.get(written) {
            let group = group.clone();
            return Ok(JobSpec { id, target, params, group, ..JobSpec::clone(rest) });
        }
        let spec = JobSpec { id, target, params, ..parse(written)? };
        self.remember(written, &spec);
        Ok(spec)
    }

    fn remember(&mut self, written: &str, spec: &JobSpec) {
        if written.len() > LONGEST {
            return;
        }
        if self.read.len() >= REMEMBERED {
            self.read.clear();
        }
        let rest = JobSpec { group: None, ..without_own(spec) };
        let rest = match &self.latest {
            Some(latest) if **latest == rest => latest.clone(),
            _ => self.latest.insert(Arc::new(rest)).clone(),
        };
        self.read.insert(written.to_owned(), Known { rest, group: spec.group.clone() });
    }

    /// The text of everything in a spec that is not the job's own.
    pub fn write(&mut self, spec: &JobSpec) -> rusqlite::Result<&str> {
        let known = self.written.take().filter(|(_, latest)| same_but_for_own(latest, spec));
        let latest = match known {
            Some(known) => known,
            None => {
                let rest = without_own(spec);
                (serialize(&rest)?, rest)
            }
        };
        Ok(&self.written.insert(latest).0)
    }
}

/// A spec without what is the job's own.
fn without_own(spec: &JobSpec) -> JobSpec {
    JobSpec { id: JobId::from_u128(0), target: None, params: Json::default(), ..spec.clone() }
}

fn parse(written: &str) -> rusqlite::Result<JobSpec> {
    match written.strip_prefix('{') {
        Some(rest) if !written.starts_with("{\"id\"") => parsed("spec", &format!("{NO_ID}{rest}")),
        _ => parsed("spec", written),
    }
}

fn serialize(rest: &JobSpec) -> rusqlite::Result<String> {
    let whole = text("spec", rest)?;
    Ok(whole.strip_prefix(NO_ID).map(|rest| format!("{{{rest}")).unwrap_or(whole))
}

/// Whether two specs have the same text. It names every field, so that a new one cannot be forgotten.
fn same_but_for_own(one: &JobSpec, other: &JobSpec) -> bool {
    let JobSpec {
        id: _,
        target: _,
        params: _,
        task,
        queue,
        priority,
        group,
        labels,
        project,
        depends_on,
        timeout,
        dependency_timeout,
        idempotency_key,
        retry,
        run_at,
        expires_at,
        requires,
        services,
        key,
        solver_url,
        solver_checksum,
        traceparent,
    } = one;
    *task == other.task
        && *queue == other.queue
        && *priority == other.priority
        && *group == other.group
        && *labels == other.labels
        && *project == other.project
        && *depends_on == other.depends_on
        && *timeout == other.timeout
        && *dependency_timeout == other.dependency_timeout
        && *idempotency_key == other.idempotency_key
        && *retry == other.retry
        && *run_at == other.run_at
        && *expires_at == other.expires_at
        && *requires == other.requires
        && *services == other.services
        && *key == other.key
        && *solver_url == other.solver_url
        && *solver_checksum == other.solver_checksum
        && *traceparent == other.traceparent
}

#[cfg(test)]
mod tests {
    use runcue_core::TaskName;

    use super::*;

    fn spec(id: u128) -> JobSpec {
        let mut spec = JobSpec::new(JobId::from_u128(id), TaskName::new("t").unwrap());
        spec.params = Json::trusted(format!("{{\"n\":{id}}}"));
        spec.target = (id > 1).then(|| format!("file-{id}"));
        spec
    }

    fn comes_back(specs: &mut Specs, spec: &JobSpec) -> String {
        let written = specs.write(spec).unwrap().to_owned();
        let params = Some(spec.params.as_str());
        let read = Specs::default().read(&written, spec.id, spec.target.clone(), params).unwrap();
        assert_eq!(read, *spec);
        let again = specs.read(&written, spec.id, spec.target.clone(), params).unwrap();
        assert_eq!(again, *spec);
        written
    }

    #[test]
    fn jobs_that_differ_only_in_what_is_their_own_have_one_text() {
        let mut specs = Specs::default();
        assert_eq!(comes_back(&mut specs, &spec(1)), r#"{"task":"t"}"#);
        assert_eq!(comes_back(&mut specs, &spec(2)), r#"{"task":"t"}"#);
    }

    #[test]
    fn what_is_remembered_is_bounded_and_never_mistaken() {
        let mut specs = Specs::default();
        for id in 0..2 * REMEMBERED as u128 + 2 {
            let mut one = spec(id);
            one.idempotency_key = Some(format!("{}{id}", "x".repeat((id % 3 * 300) as usize)));
            comes_back(&mut specs, &one);
            assert!(specs.read.len() <= REMEMBERED);
            assert!(specs.read.keys().all(|text| text.len() <= LONGEST));
        }
    }

    #[test]
    fn whatever_else_differs_is_in_the_text() {
        let mut specs = Specs::default();
        comes_back(&mut specs, &spec(1));
        let mut other = spec(2);
        other.idempotency_key = Some("k".to_owned());
        assert_eq!(comes_back(&mut specs, &other), r#"{"task":"t","idempotency_key":"k"}"#);
        other.priority = 4;
        assert!(comes_back(&mut specs, &other).contains("priority"));
        assert_eq!(comes_back(&mut specs, &spec(3)), r#"{"task":"t"}"#);
    }
}
