//! `runcue events`: what happened, and with `--follow` what happens.

use std::time::Duration;

use runcue_core::{Event, EventKind};

use crate::app::App;
use crate::exit::Exit;
use crate::news::News;
use crate::trouble::Trouble;
use crate::view::EventView;
use crate::{clock, nearest, words};

const PAGE: usize = 1_000;
const LOOK_AGAIN: Duration = Duration::from_secs(1);

const KINDS: [EventKind; 13] = [
    EventKind::Queued,
    EventKind::Leased,
    EventKind::Started,
    EventKind::Progress,
    EventKind::Completed,
    EventKind::Failed,
    EventKind::Retrying,
    EventKind::Cancelled,
    EventKind::QueueStatus,
    EventKind::ServiceStatus,
    EventKind::Backpressure,
    EventKind::GroupStatus,
    EventKind::Missed,
];

/// Flags of `events`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only those after this number, oldest first; without it the latest are shown
    #[arg(long, value_name = "SEQ")]
    after: Option<u64>,
    /// Go on with what happens
    #[arg(short, long)]
    follow: bool,
    /// Only of this type, for example completed or work_completed; may be repeated
    #[arg(long = "type", value_name = "TYPE", value_parser = kind, value_delimiter = ',')]
    kinds: Vec<EventKind>,
    /// At most so many [default: 50; no bound with --follow]
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
}

fn kind(text: &str) -> Result<EventKind, String> {
    let found = KINDS.into_iter().find(|kind| kind.wire() == text || kind.short() == text);
    let names = KINDS.iter().flat_map(|kind| [kind.short(), kind.wire()]);
    found.ok_or_else(|| match nearest::nearest(text, names) {
        Some(near) => format!("did you mean {near}?"),
        None => format!("the types are {}", KINDS.map(EventKind::short).join(", ")),
    })
}

/// Shows events.
pub async fn run(args: Args, app: &App) -> Result<Exit, Trouble> {
    let store = app.store()?;
    let wanted = |event: &Event| args.kinds.is_empty() || args.kinds.contains(&event.kind);
    let mut left = args.limit.unwrap_or(if args.follow { usize::MAX } else { 50 });
    let shown_first = left.min(50) as u64;
    let mut after = match args.after {
        Some(after) => after,
        // Without a filter the latest are simply the last numbers; with one they lie further back.
        None if args.kinds.is_empty() => store.last_event().await?.saturating_sub(shown_first),
        None => latest(&*store, &wanted, shown_first).await?,
    };
    if let Some(seen) = args.after {
        // Asked for first: one that comes in between would be taken for one that is gone.
        let last = store.last_event().await?;
        let next = store.events(seen, 1).await?.first().map_or(last + 1, |first| first.seq);
        if let Some(missed) = Event::missed(seen, next, clock::now()) {
            after = missed.seq;
            show(&missed, app)?;
        }
    }
    let mut news = News::begin(&*store).await;
    loop {
        let events = store.events(after, PAGE).await?;
        let Some(last) = events.last() else {
            if !args.follow {
                return Ok(Exit::Ok);
            }
            news.wait(LOOK_AGAIN).await;
            continue;
        };
        after = last.seq;
        for event in events.iter().filter(|event| wanted(event)).take(left) {
            left -= 1;
            show(event, app)?;
        }
        if left == 0 {
            return Ok(Exit::Ok);
        }
    }
}

/// The number after which so many wanted events are left.
async fn latest(
    store: &dyn runcue_store::Store,
    wanted: &dyn Fn(&Event) -> bool,
    many: u64,
) -> Result<u64, Trouble> {
    let mut end = store.last_event().await?;
    let mut found = 0;
    while end > 0 {
        let start = end.saturating_sub(PAGE as u64);
        let events = store.events(start, PAGE).await?;
        for event in events.iter().rev().filter(|event| event.seq <= end && wanted(event)) {
            found += 1;
            if found == many {
                return Ok(event.seq - 1);
            }
        }
        // Events are pruned from the old end, so an empty page has nothing before it.
        if events.is_empty() {
            break;
        }
        end = start;
    }
    Ok(0)
}

fn show(event: &Event, app: &App) -> Result<(), Trouble> {
    if app.out.json {
        return app.out.record(&EventView::from(event));
    }
    app.out.say(line(event))
}

/// An event on one line.
pub fn line(event: &Event) -> String {
    let mut parts = vec![
        format!("{:>6}", event.seq),
        words::clock(event.at),
        format!("{:<14}", event.kind.short()),
    ];
    parts.push(about(event));
    parts.join("  ").trim_end().to_owned()
}

/// What an event is about, in words.
pub fn about(event: &Event) -> String {
    let mut parts = Vec::new();
    if let Some(job) = event.job {
        parts.push(words::short(job));
    }
    parts.extend(event.task.as_ref().map(|task| words::one_line(task.as_str(), 24)));
    parts.extend(event.service.as_ref().map(|service| format!("service {service}")));
    parts.extend(event.queue.as_ref().map(|queue| format!("queue {queue}")));
    let is_about_group = event.kind == EventKind::GroupStatus || event.job.is_some();
    let group = event.group.as_ref().filter(|_| is_about_group);
    parts.extend(group.map(|group| format!("group {group}")));
    if let Some(attempt) = event.attempt.filter(|attempt| *attempt > 1) {
        parts.push(format!("attempt {attempt}"));
    }
    let state = event.state.filter(|_| event.kind == EventKind::Failed);
    parts.extend(state.map(|state| state.to_string()));
    if let Some(percent) = event.percent {
        parts.push(format!("{percent:.0} %"));
    }
    if let Some(took) = event.took {
        parts.push(format!("took {}", words::span(Duration::from_micros(took))));
    }
    parts.extend(event.message.as_ref().map(|text| words::one_line(text, 60)));
    parts.extend(event.error.as_ref().map(|text| words::one_line(text, 80)));
    if let Some(at) = event.retry_at {
        let word = if event.kind == EventKind::Retrying { "again" } else { "due" };
        parts.push(format!("{word} {}", words::relative(event.at, at)));
    }
    parts.join("  ")
}
