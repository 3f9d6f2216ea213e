//! `runcue doctor`: looks for what is wrong, and says what to do about it.

use std::collections::HashSet;
use std::path::Path;
use std::time::Duration;

use runcue_core::{JobFilter, StateWord, Timestamp};
use runcue_store::{ListRequest, Store};
use serde::Serialize;

use crate::app::App;
use crate::exit::Exit;
use crate::trouble::Trouble;
use crate::verbs::status;
use crate::view::StatusView;
use crate::{clock, words};
use runcue::Address;

/// Less than this is too little for a queue to grow in.
const LITTLE_SPACE: u64 = 100 * 1024 * 1024;
/// How many held jobs are looked at for lapsed leases.
const LEASES: usize = 10_000;

/// Clocks that are no further apart than this agree.
const SKEW: Duration = Duration::from_secs(1);

/// How many refused jobs of applications are counted.
const REFUSED: usize = 1000;

/// Flags of `doctor`.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// How one check went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    Ok,
    Warning,
    Bad,
}

/// One check.
#[derive(Debug, Serialize)]
struct Check {
    name: &'static str,
    verdict: Verdict,
    detail: String,
    help: Option<String>,
}

/// All of them.
#[derive(Debug, Serialize)]
struct Checks<'a> {
    checks: &'a [Check],
}

impl Check {
    fn ok(name: &'static str, detail: impl Into<String>) -> Self {
        Self { name, verdict: Verdict::Ok, detail: detail.into(), help: None }
    }

    fn warning(name: &'static str, detail: impl Into<String>, help: impl Into<String>) -> Self {
        let verdict = Verdict::Warning;
        Self { name, verdict, detail: detail.into(), help: Some(help.into()) }
    }

    fn bad(name: &'static str, detail: impl Into<String>, help: impl Into<String>) -> Self {
        let verdict = Verdict::Bad;
        Self { name, verdict, detail: detail.into(), help: Some(help.into()) }
    }

    /// One that could not be made, with the reason.
    fn unanswered(name: &'static str, trouble: Trouble) -> Result<Self, Trouble> {
        match trouble {
            Trouble::Told { says, help, .. } => Ok(Self::bad(name, says, help.unwrap_or_default())),
            gone @ Trouble::ReaderGone => Err(gone),
        }
    }
}

/// Looks for what is wrong. Ends with 1 if something is.
pub async fn run(_: Args, app: &App) -> Result<Exit, Trouble> {
    let address = app.address()?;
    let mut checks = vec![Check::ok("version", env!("CARGO_PKG_VERSION"))];
    if let Some(path) = &app.config.path {
        checks.push(Check::ok("config", path.display().to_string()));
    }
    if let Some(path) = address.path() {
        checks.extend(file_checks(path));
    }
    match app.store() {
        Ok(store) => {
            // A store that cannot answer is what people call the doctor for: what was found until then is told too.
            if let Err(trouble) = store_checks(&*store, &address, &mut checks).await {
                checks.push(Check::unanswered("store", trouble)?);
            }
        }
        Err(trouble) => checks.push(Check::unanswered("store", trouble)?),
    }
    tell(&checks, app)?;
    let bad = checks.iter().any(|check| check.verdict == Verdict::Bad);
    Ok(if bad { Exit::Failed } else { Exit::Ok })
}

fn tell(checks: &[Check], app: &App) -> Result<(), Trouble> {
    if app.out.json {
        return app.out.document(&Checks { checks });
    }
    for check in checks {
        let (mark, color) = match check.verdict {
            Verdict::Ok => ("ok     ", anstyle::AnsiColor::Green),
            Verdict::Warning => ("warning", anstyle::AnsiColor::Yellow),
            Verdict::Bad => ("BAD    ", anstyle::AnsiColor::Red),
        };
        let style = color.on_default();
        let detail = words::plain(&check.detail);
        app.out.say(format!("{style}{mark}{style:#}  {:<12} {detail}", check.name))?;
        if let Some(help) = check.help.as_ref().filter(|help| !help.is_empty()) {
            app.out.say(format!("         {:<12} help: {help}", ""))?;
        }
    }
    Ok(())
}

async fn store_checks(
    store: &dyn Store,
    address: &Address,
    checks: &mut Vec<Check>,
) -> Result<(), Trouble> {
    let now = clock::now();
    let view = status::look(store, address, now).await?;
    let jobs = words::count(view.counts.total(), "job");
    checks.push(Check::ok("store", format!("{} with {jobs}", view.store)));
    checks.push(durability(store.durability()));
    checks.extend(place(store).await?);
    let data = data(store, now).await?;
    // Whether changes can be written is known only after somebody has asked the one who writes; if they cannot, that
    // is why the data could not be looked at.
    checks.push(match store.trouble() {
        Some(trouble) => {
            Check::bad("trouble", trouble, "runcue goes on trying by itself; see to the server")
        }
        None => data,
    });
    checks.push(workers(&view));
    checks.push(work(&view, now));
    checks.push(leases(store, &view, now).await?);
    checks.extend(failures(&view));
    checks.extend(refused(store).await?);
    Ok(())
}

/// What an acknowledged write survives. That a crash may lose some is worth knowing beforehand.
fn durability(words: &str) -> Check {
    let warned = ["may lose", "loses", "lost", "not of its machine", "does not say"];
    match warned.iter().any(|word| words.contains(word)) {
        true => Check::warning(
            "durability",
            words,
            "let the server sync what it acknowledges, or live with it: jobs may be missing after a crash",
        ),
        false => Check::ok("durability", words),
    }
}

/// The server: its version and its clock.
async fn place(store: &dyn Store) -> Result<Vec<Check>, Trouble> {
    let asked = clock::machine();
    let found = store.particulars().await?;
    let answered = clock::machine();
    let mut checks = Vec::new();
    if let Some(server) = found.server {
        let schema = found.schema.map(|version| format!(", schema version {version}"));
        checks.push(Check::ok("server", server + &schema.unwrap_or_default()));
    }
    checks.extend(found.now.map(|theirs| skew(clock::ahead(asked, theirs, answered))));
    Ok(checks)
}

/// How far the server's clock is ahead of this machine's, in microseconds.
fn skew(ahead: i64) -> Check {
    let word = if ahead < 0 { "ahead of" } else { "behind" };
    let apart = Duration::from_micros(ahead.unsigned_abs());
    if apart < SKEW {
        return Check::ok("clock", "this machine's clock agrees with the server's");
    }
    Check::warning(
        "clock",
        format!("this machine's clock is {} {word} the server's", words::span(apart)),
        "leases, limits and the times shown here follow the server's clock, so nothing breaks; set this one, so that \
         instants you write mean what you think",
    )
}

async fn data(store: &dyn Store, now: Timestamp) -> Result<Check, Trouble> {
    let found = match store.check(now).await {
        Ok(found) => found,
        Err(error) => return Check::unanswered("data", error.into()),
    };
    Ok(match found.as_slice() {
        [] => Check::ok("data", "the stored data agrees with itself"),
        [first, ..] => Check::bad(
            "data",
            format!("{} found, the first: {first}", words::count(found.len() as u64, "fault")),
            "stop the workers and keep a copy of the store before anything else",
        ),
    })
}

fn workers(view: &StatusView) -> Check {
    let alive = view.live_workers().count();
    let dead: Vec<_> = view.workers.iter().filter(|worker| !worker.alive).collect();
    let held: u64 = dead.iter().map(|worker| worker.held).sum();
    if held > 0 {
        return Check::warning(
            "workers",
            format!("{} dead, still holding {}", dead.len(), words::count(held, "job")),
            "any running worker takes them back; start one with `runcue work`",
        );
    }
    Check::ok("workers", format!("{alive} alive, {} gone", dead.len()))
}

/// Work that nobody will do.
fn work(view: &StatusView, now: Timestamp) -> Check {
    let no_worker = view.live_workers().all(|worker| worker.slots == 0);
    if view.ready > 0 && no_worker {
        let since = view.oldest_ready_at.map(Timestamp::from_millis);
        let since = since.map(|at| words::span(now.since(at))).unwrap_or_default();
        let detail = format!(
            "{} ready, the oldest since {since}, and no worker runs",
            words::count(view.ready, "job")
        );
        return Check::warning("work", detail, "start a worker: runcue work");
    }
    let busy = view.counts.leased + view.counts.running;
    if view.ready > 0 && busy == 0 {
        let detail =
            format!("{} ready, and none is being worked on", words::count(view.ready, "job"));
        return Check::warning("work", detail, "ask one of them: runcue why @last");
    }
    Check::ok("work", format!("{} ready, {busy} being worked on", view.ready))
}

async fn leases(store: &dyn Store, view: &StatusView, now: Timestamp) -> Result<Check, Trouble> {
    let filter = JobFilter::default().in_states([StateWord::Leased, StateWord::Running]);
    let page = store.list(ListRequest { filter, before: None, limit: LEASES }).await?;
    let held = || page.rows.iter().filter_map(|job| job.life.state.lease());
    let lapsed = held().filter(|lease| lease.until < now).count() as u64;
    if lapsed == 0 {
        let known: HashSet<_> = view.workers.iter().map(|worker| worker.id).collect();
        let strange = held().filter(|lease| !known.contains(&lease.worker));
        let last = strange.clone().map(|lease| lease.until).max();
        let Some(last) = last else { return Ok(Check::ok("leases", "none has lapsed")) };
        return Ok(Check::warning(
            "leases",
            format!(
                "{} held by workers that are not known here",
                words::count(strange.count() as u64, "job")
            ),
            format!(
                "their leases lapse within {}, then any worker takes them",
                words::span(last.since(now))
            ),
        ));
    }
    Ok(Check::warning(
        "leases",
        format!("{} lapsed and not taken back yet", words::count(lapsed, "lease")),
        "any running worker takes them back; start one with `runcue work`",
    ))
}

fn failures(view: &StatusView) -> Option<Check> {
    let ended_badly = view.counts.failed + view.counts.quarantined;
    (ended_badly > 0).then(|| {
        Check::warning(
            "failures",
            format!("{} failed or quarantined", words::count(ended_badly, "job")),
            "look with `runcue list --state failed,quarantined`, then `runcue retry --failed`",
        )
    })
}

/// Jobs that an application put down in its own transaction, and that nobody could tell it about.
async fn refused(store: &dyn Store) -> Result<Option<Check>, Trouble> {
    let found = store.refused(REFUSED).await?;
    let Some(latest) = found.first() else { return Ok(None) };
    let at_least = if found.len() == REFUSED { "at least " } else { "" };
    let count = words::count(found.len() as u64, "job");
    let detail = format!("{at_least}{count} from applications refused, the latest: {}", latest.why);
    let help = "put them down again as they should be, and delete them from the table `refused`";
    Ok(Some(Check::warning("inbox", detail, help)))
}

fn file_checks(path: &Path) -> Vec<Check> {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let mut checks = Vec::new();
    if path.exists() {
        checks.push(permissions(path, directory));
    }
    checks.extend(space(directory));
    checks
}

/// SQLite writes beside the file too, so both must allow it.
fn permissions(path: &Path, directory: &Path) -> Check {
    for place in [path, directory] {
        if !may_be_written(place) {
            return Check::bad(
                "permissions",
                format!("{} cannot be written", place.display()),
                "change its owner or its mode, or mount its file system for writing; the directory must be \
                 writable as well",
            );
        }
    }
    Check::ok("permissions", format!("{} and its directory can be written", path.display()))
}

/// The system's own answer, which knows of read-only file systems too.
#[cfg(unix)]
fn may_be_written(place: &Path) -> bool {
    rustix::fs::access(place, rustix::fs::Access::WRITE_OK).is_ok()
}

#[cfg(not(unix))]
fn may_be_written(place: &Path) -> bool {
    std::fs::metadata(place).is_ok_and(|found| !found.permissions().readonly())
}

#[cfg(unix)]
fn space(directory: &Path) -> Option<Check> {
    let found = rustix::fs::statvfs(directory).ok()?;
    let free = found.f_bavail.saturating_mul(found.f_frsize);
    let detail = format!("{} MiB free in {}", free / 1024 / 1024, directory.display());
    Some(match free < LITTLE_SPACE {
        true => Check::bad("disk", detail, "free some space, or move the queue to another disk"),
        false => Check::ok("disk", detail),
    })
}

#[cfg(not(unix))]
fn space(_: &Path) -> Option<Check> {
    None
}
