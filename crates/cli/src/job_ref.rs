//! Which job is meant: a whole id, its beginning or its end, or `@last`.
//!
//! The beginning of an id is looked for among all jobs, which stores find by the order of ids; its end among the
//! newest ones, page by page, up to [`SEARCHED`]. Whole ids are looked up directly, however old.

use std::collections::BTreeMap;

use runcue_core::{Job, JobFilter, JobId};
use runcue_store::{ListRequest, Store};

use crate::trouble::Trouble;
use crate::words;

/// The fewest digits that may name a job.
pub const FEWEST: usize = 4;
/// How many of the newest jobs are searched for the end of an id.
pub const SEARCHED: usize = 20_000;
const PAGE: usize = 1_000;
/// How many jobs that begin alike are told apart.
const MOST: usize = 100;
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
    for part in parts {
        let (first, last) = ids_beginning_with(part);
        let ids = store.ids_between(first, last, MOST).await?;
        let jobs = store.get(ids).await?.into_iter().flatten().collect();
        found.insert((*part).to_owned(), jobs);
    }
    // What begins so may be one of many that also end so: all have to be known to tell whether it is the one.
    search_ends(store, parts, &mut found).await?;
    Ok(found)
}

/// The lowest and the highest id that begin with some digits.
fn ids_beginning_with(digits: &str) -> (JobId, JobId) {
    let end = |digit: char| {
        let whole: String = digits.chars().chain(std::iter::repeat(digit)).take(32).collect();
        whole.parse().unwrap_or_else(|_| JobId::from_u128(0))
    };
    (end('0'), end('f'))
}

async fn search_ends(
    store: &dyn Store,
    parts: &[&str],
    found: &mut BTreeMap<String, Vec<Job>>,
) -> Result<(), Trouble> {
    let mut before = None;
    for _ in 0..SEARCHED / PAGE {
        if parts.is_empty() {
            break;
        }
        let request = ListRequest { filter: JobFilter::default(), before, limit: PAGE };
        let page = store.list(request).await?;
        for job in page.rows {
            let id = job.id().to_string();
            for part in parts.iter().filter(|part| id.ends_with(**part)) {
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
    Ok(())
}

fn pick(part: &str, mut jobs: Vec<Job>) -> Result<Job, Trouble> {
    if jobs.len() > 1 {
        return Err(ambiguous(part, &jobs));
    }
    jobs.pop().ok_or_else(|| {
        Trouble::failed(format!("no job has an id that begins or ends with {part}")).help(format!(
            "ends were looked for among the newest {SEARCHED} jobs; `runcue list` shows jobs, an older one needs \
             the beginning of its id"
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
        _ if jobs.len() >= MOST => "\n  and many more".to_owned(),
        more => format!("\n  and {more} more"),
    };
    let count = if jobs.len() >= MOST { "many".to_owned() } else { jobs.len().to_string() };
    let says = format!("{part} means {count} jobs:{}{more}", shown.collect::<String>());
    Trouble::usage(says).help("give more digits; the end of an id tells jobs apart soonest")
}
