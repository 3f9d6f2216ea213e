//! Progress on a terminal: a bar for each task, a line for each service with limits, and the time left.

use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use runcue_core::{Event, EventKind, Timestamp};

use super::lines;
use super::tracker::{Counts, Tracker};
use crate::view::ServiceView;
use crate::{gauge, out, words};

/// More tasks than this share one bar, so that the terminal is not filled with them.
const MOST_TASKS: usize = 8;
/// More services than this are not shown.
const MOST_SERVICES: usize = 6;
const NAME: usize = 20;

/// Bars on a terminal.
pub struct Bars {
    all: MultiProgress,
    tasks: Vec<ProgressBar>,
    services: Vec<ProgressBar>,
    total: ProgressBar,
}

impl Bars {
    /// Bars for the tasks of a run.
    pub fn new(tracker: &Tracker) -> Self {
        let all = MultiProgress::new();
        out::set_bars(Some(all.clone()));
        let shown = shown(tracker);
        let tasks = shown.iter().map(|(name, counts)| {
            let bar = all.add(ProgressBar::new(counts.total()));
            bar.set_style(style("{prefix} {bar:30.cyan/dim} {pos:>5}/{len:<5} {msg}"));
            bar.set_prefix(format!("{:NAME$}", words::one_line(name, NAME)));
            bar
        });
        let tasks: Vec<ProgressBar> = tasks.collect();
        let total = all.add(ProgressBar::new(tracker.counts().total()));
        total.set_style(style("{prefix} {bar:30.green/dim} {pos:>5}/{len:<5} {msg}"));
        total.set_prefix(format!("{:NAME$}", "all jobs"));
        total.enable_steady_tick(Duration::from_millis(500));
        Self { all, tasks, services: Vec::new(), total }
    }

    /// Something happened to a job.
    pub fn event(&self, event: &Event, name: &str) {
        if event.kind == EventKind::Failed {
            out::complain(&lines::line(event, name));
        }
    }

    /// Time has passed.
    pub fn tick(&mut self, tracker: &Tracker, services: &[ServiceView], now: Timestamp) {
        for (bar, (_, counts)) in self.tasks.iter().zip(shown(tracker)) {
            bar.set_position(counts.ended());
            bar.set_message(remark(&counts));
        }
        let counts = tracker.counts();
        let left = tracker.left(now).map(|left| format!(", about {} left", words::span(left)));
        let so_far = words::span(now.since(tracker.began()));
        self.total.set_position(counts.ended());
        self.total.set_message(format!("{so_far}{}", left.unwrap_or_default()));
        self.show_services(services, now);
    }

    fn show_services(&mut self, services: &[ServiceView], now: Timestamp) {
        let shown = services.len().min(MOST_SERVICES);
        while self.services.len() < shown {
            let line = self.all.insert_before(&self.total, ProgressBar::new_spinner());
            line.set_style(style("{prefix} {msg}"));
            self.services.push(line);
        }
        for (line, service) in self.services.iter().zip(services) {
            let gauge = gauge::of(service, now);
            line.set_prefix(format!("{:NAME$}", words::one_line(service.name.as_str(), NAME)));
            let (bar, concurrent, rate) = (gauge.bar, gauge.concurrent, gauge.rate);
            line.set_message(format!("{bar} {concurrent}  {rate}  {}", gauge.status));
        }
    }

    /// Why nothing moves.
    pub fn stuck(&self, why: &str) {
        out::complain(&format!("waiting: {why}"));
    }

    /// Leaves the last picture as text and the terminal as it was.
    pub fn end(self) {
        for line in &self.services {
            line.finish_and_clear();
        }
        for bar in self.tasks.iter().chain([&self.total]) {
            bar.abandon();
        }
        out::set_bars(None);
    }
}

fn shown(tracker: &Tracker) -> Vec<(String, Counts)> {
    let tasks = tracker.tasks();
    if tasks.len() <= MOST_TASKS {
        return tasks.to_vec();
    }
    let mut shown = tasks[..MOST_TASKS - 1].to_vec();
    let mut rest = Counts::default();
    for (_, counts) in &tasks[MOST_TASKS - 1..] {
        rest.add(counts);
    }
    shown.push((format!("{} more tasks", tasks.len() + 1 - MOST_TASKS), rest));
    shown
}

fn remark(counts: &Counts) -> String {
    let mut parts = Vec::new();
    for (n, word) in
        [(counts.running, "running"), (counts.failed, "failed"), (counts.cancelled, "cancelled")]
    {
        if n > 0 {
            parts.push(format!("{n} {word}"));
        }
    }
    parts.join(", ")
}

fn style(template: &str) -> ProgressStyle {
    // The templates are constants; a wrong one would fall back to the plain bar.
    ProgressStyle::with_template(template)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("█▓░")
}
