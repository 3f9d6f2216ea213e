//! `runcue why`: why a job waits, most important reason first.

use runcue_core::Timestamp;
use serde::Serialize;

use crate::app::App;
use crate::exit::Exit;
use crate::trouble::Trouble;
use crate::view::ReasonView;
use crate::{clock, job_ref, words};

/// Flags of `why`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The job: its id, digits from either end of it, or @last
    #[arg(value_name = "ID")]
    id: String,
}

#[derive(Serialize)]
struct WhyView {
    id: runcue_core::JobId,
    state: runcue_core::StateWord,
    reasons: Vec<ReasonView>,
}

/// Says why a job waits.
pub async fn run(args: Args, app: &App) -> Result<Exit, Trouble> {
    let store = app.store()?;
    let job = job_ref::one(&*store, &args.id).await?;
    let now = clock::now();
    let reasons = store.why(now, job.id()).await?;
    let reasons: Vec<ReasonView> = reasons.iter().map(ReasonView::from).collect();
    let state = job.life.state.word();
    if app.out.json {
        app.out.document(&WhyView { id: job.id(), state, reasons })?;
        return Ok(Exit::Ok);
    }
    app.out.say(format!("job {} is {state}", words::short(job.id())))?;
    for reason in &reasons {
        app.out.say(format!("  {}", words(reason, now)))?;
        if let Some(fix) = fix(reason) {
            app.out.say(format!("    {fix}"))?;
        }
    }
    Ok(Exit::Ok)
}

/// A reason in words, with when it ends and which jobs it is about.
pub fn words(reason: &ReasonView, now: Timestamp) -> String {
    let mut text = words::plain(&reason.words);
    if let Some(at) = reason.ends_at() {
        text += &format!(", {}", words::relative(now, at));
    }
    if !reason.jobs.is_empty() {
        let ids: Vec<String> = reason.jobs.iter().take(5).map(|id| words::short(*id)).collect();
        text += &format!(": {}", ids.join(", "));
    }
    text
}

/// What a person can do about it, where nothing happens by itself.
fn fix(reason: &ReasonView) -> Option<String> {
    match reason.reason {
        "group_paused" => reason.group.as_ref().map(|group| format!("runcue resume {group}")),
        "queue_paused" => {
            reason.queue.as_ref().map(|queue| format!("runcue queues set {queue} --resume"))
        }
        "no_worker" => Some("runcue work".to_owned()),
        "service" => {
            let service = reason.service.as_ref()?;
            match reason.block.as_deref() {
                Some("paused") => Some(format!("runcue services set {service} --resume")),
                Some("never") => Some(format!("runcue services set {service} --rate N/min")),
                _ => None,
            }
        }
        _ => None,
    }
}
