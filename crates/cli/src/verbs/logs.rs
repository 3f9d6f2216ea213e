//! `runcue logs`: what a job wrote, and with `--follow` what it still writes.

use std::time::Duration;

use clap::ValueEnum;
use runcue_core::{Job, JobId};
use runcue_store::{LogChunk, LogStream, Store};

use crate::app::App;
use crate::exit::Exit;
use crate::news::News;
use crate::trouble::Trouble;
use crate::view::LogView;
use crate::{clock, job_ref, out};

/// How often a follower looks, should no news reach it. Output alone may not count as news.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// How long the last output of a job may take to arrive.
const TAIL: Duration = Duration::from_millis(500);

/// Flags of `logs`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The job: its id, digits from either end of it, or @last
    #[arg(value_name = "ID")]
    id: String,
    /// Go on until the job is done
    #[arg(short, long)]
    follow: bool,
    /// Only this stream: stdout, stderr or note
    #[arg(long, hide_possible_values = true)]
    stream: Option<Stream>,
    /// Only of this attempt, counted from 1
    #[arg(long, value_name = "N")]
    attempt: Option<u32>,
}

/// A stream of a job's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// runcue's own remarks.
    Note,
}

impl From<Stream> for LogStream {
    fn from(stream: Stream) -> Self {
        match stream {
            Stream::Stdout => Self::Stdout,
            Stream::Stderr => Self::Stderr,
            Stream::Note => Self::Note,
        }
    }
}

/// Shows what a job wrote.
pub async fn run(args: Args, app: &App) -> Result<Exit, Trouble> {
    let store = app.store()?;
    let job = job_ref::one(&*store, &args.id).await?;
    let mut printer = Printer { args: &args, app, after: 0, attempt: None, open_line: false };
    let mut news = News::begin(&*store).await;
    let mut ended = is_final(&job);
    let mut waited = ended && job.life.finished_at.is_none_or(|at| clock::now().since(at) > TAIL);
    loop {
        let chunks = store.logs(job.id(), printer.after).await?;
        let some = !chunks.is_empty();
        for chunk in &chunks {
            printer.print(chunk)?;
        }
        if some {
            continue;
        }
        match (args.follow, ended) {
            (false, _) => break,
            // A worker sends output in batches, the last one perhaps after the job has ended.
            (true, true) if std::mem::replace(&mut waited, true) => break,
            (true, true) => tokio::time::sleep(TAIL).await,
            (true, false) => {
                news.wait(LOOK_AGAIN).await;
                ended = has_ended(&*store, job.id()).await?;
            }
        }
    }
    if printer.after == 0 && !app.out.json {
        app.out.note(if ended { "it wrote nothing" } else { "it has written nothing yet" });
    }
    Ok(Exit::Ok)
}

fn is_final(job: &Job) -> bool {
    job.life.state.word().is_final()
}

async fn has_ended(store: &dyn Store, id: JobId) -> Result<bool, Trouble> {
    let job = store.get(vec![id]).await?.pop().flatten();
    Ok(job.as_ref().is_none_or(is_final))
}

struct Printer<'a> {
    args: &'a Args,
    app: &'a App,
    after: u64,
    attempt: Option<u32>,
    open_line: bool,
}

impl Printer<'_> {
    fn print(&mut self, chunk: &LogChunk) -> Result<(), Trouble> {
        self.after = chunk.n;
        let wanted = self.args.stream.is_none_or(|stream| LogStream::from(stream) == chunk.stream)
            && self.args.attempt.is_none_or(|attempt| attempt == chunk.attempt);
        if !wanted {
            return Ok(());
        }
        if self.app.out.json {
            return self.app.out.record(&LogView::from(chunk));
        }
        self.heading(chunk);
        match chunk.stream {
            LogStream::Note => {
                let start = if std::mem::take(&mut self.open_line) { "\n" } else { "" };
                self.app.out.raw(&format!("{start}[runcue] {}\n", chunk.text.trim_end()))
            }
            LogStream::Stdout | LogStream::Stderr => {
                self.open_line = !chunk.text.ends_with('\n');
                self.app.out.raw(&chunk.text)
            }
        }
    }

    /// Tells attempts apart, for a person only.
    fn heading(&mut self, chunk: &LogChunk) {
        let other = self.attempt.replace(chunk.attempt) != Some(chunk.attempt);
        if other && (chunk.attempt > 1 || self.after > 1) && out::is_terminal() {
            self.app.out.note(format!("── attempt {} ──", chunk.attempt));
        }
    }
}
