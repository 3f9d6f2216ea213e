//! Which job is meant: a whole id, its beginning or its end, or `@last`.
//!
//! A shortened id is looked for among the newest jobs, page by page, up to [`SEARCHED`]. Whole ids are
//! looked up directly, however old.

use std::collections::BTreeMap;

use runcue_core::{Job, JobFilter, JobId};
use runcue_store::{ListRequest, Store};

use crate::trouble::Trouble;
use crate::words;

/// The fewest digits that may name a job.
pub const FEWEST: usize = 4;
/// How many of the newest jobs are searched for a shortened id.
pub const SEARCHED: usize = 20_000;
const PAGE: usize = 1_000;
/// How many jobs an ambiguous id is answered with.
const SHOWN: usize = 5;

enum Ref {
    Whole(JobId),
    Last,
    Part(String),
}

/// The job that a text means.
pub async fn one(store: &dyn Store, text: &str) -> Result<Job, Trouble> {
    let mut jobs = many(store, &[text.to_owned()]).await?;
    jobs.pop().ok_or_else(|| Trouble::failed("there is no such job"))
}

/// The jobs that texts mean, in their order.
pub async fn many(store: &dyn Store, texts: &[String]) -> Result<Vec<Job>, Trouble> {
    let refs: Vec<Ref> = texts.iter().map(|text| read(text)).collect::<Result<_, _>>()?;
    let parts: Vec<&str> = refs.iter().filter_map(part).collect();
    let mut found = search(store, &parts).await?;
    let mut jobs = Vec::with_capacity(refs.len());
    for one in &refs {
        jobs.push(match one {
            Ref::Whole(id) => whole(store, *id).await?,
            Ref::Last => last(store).await?,
            Ref::Part(part) => pick(part, found.remove(part).unwrap_or_default())?,
        });
    }
    Ok(jobs)
}

fn part(one: &Ref) -> Option<&str> {
    match one {
        Ref::Part(part) => Some(part),
        _ => None,
    }
}

fn read(text: &str) -> Result<Ref, Trouble> {
    if text == "@last" {
        return Ok(Ref::Last);
    }
    let digits = text.replace('-', "").to_ascii_lowercase();
    if let Ok(id) = digits.parse() {
        return Ok(Ref::Whole(id));
    }
    let says = if !digits.bytes().all(|b| b.is_ascii_hexdigit()) || digits.len() > 32 {
        format!("{text:?} is no job id")
    } else if digits.len() < FEWEST {
        format!("{text:?} is too short to name a job")
    } else {
        return Ok(Ref::Part(digits));
    };
    Err(Trouble::usage(says).help(format!(
        "give at least {FEWEST} hexadecimal digits from the beginning or the end of an id, or @last"
    )))
}

async fn whole(store: &dyn Store, id: JobId) -> Result<Job, Trouble> {
    let found = store.get(vec![id]).await?.pop().flatten();
    found.ok_or_else(|| Trouble::no_job(id))
}

async fn last(store: &dyn Store) -> Result<Job, Trouble> {
    let request = ListRequest { filter: JobFilter::default(), before: None, limit: 1 };
    let newest = store.list(request).await?.rows.pop();
    newest.ok_or_else(|| {
        Trouble::failed("there are no jobs yet").help("add one with `runcue add -- COMMAND`")
    })
}

async fn search(store: &dyn Store, parts: &[&str]) -> Result<BTreeMap<String, Vec<Job>>, Trouble> {
    let mut found: BTreeMap<String, Vec<Job>> = BTreeMap::new();
    if parts.is_empty() {
        return Ok(found);
    }
    let mut before = None;
    for _ in 0..SEARCHED / PAGE {
        let request = ListRequest { filter: JobFilter::default(), before, limit: PAGE };
        let page = store.list(request).await?;
        for job in page.rows {
            let id = job.id().to_string();
            for part in parts.iter().filter(|p| id.starts_with(**p) || id.ends_with(**p)) {
                let jobs = found.entry((*part).to_owned()).or_default();
                if !jobs.iter().any(|known| known.id() == job.id()) {
                    jobs.push(job.clone());
                }
            }
        }
        before = page.next;
        if before.is_none() {
            break;
        }
    }
    Ok(found)
}

fn pick(part: &str, mut jobs: Vec<Job>) -> Result<Job, Trouble> {
    if jobs.len() > 1 {
        return Err(ambiguous(part, &jobs));
    }
    jobs.pop().ok_or_else(|| {
        Trouble::failed(format!("no job has an id that begins or ends with {part}")).help(format!(
            "the newest {SEARCHED} jobs were searched; `runcue list` shows jobs, an older one needs its whole id"
        ))
    })
}

fn ambiguous(part: &str, jobs: &[Job]) -> Trouble {
    let shown = jobs
        .iter()
        .take(SHOWN)
        .map(|job| format!("\n  {} {} {}", job.id(), job.life.state.word(), words::about(job, 40)));
    let more = match jobs.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!("\n  and {more} more"),
    };
    let says = format!("{part} means {} jobs:{}{more}", jobs.len(), shown.collect::<String>());
    Trouble::usage(says).help("give more digits; the end of an id tells jobs apart soonest")
}
