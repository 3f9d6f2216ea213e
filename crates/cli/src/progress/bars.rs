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
/// Columns that the numbers of a bar and the spaces take.
const NUMBERS: usize = 14;
/// Columns that the remark behind it should have.
const REMARK: usize = 28;

/// How the columns of the terminal are shared out, so that no line wraps: a line that does is not drawn over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Columns {
    name: usize,
    bar: usize,
    narrow: bool,
}

impl Columns {
    fn of(width: usize) -> Self {
        let narrow = width < 72;
        let name = if narrow { 12 } else { 20 };
        let bar = width.saturating_sub(name + NUMBERS + REMARK).clamp(8, 30);
        Self { name, bar, narrow }
    }

    fn here() -> Self {
        let size = ratatui::crossterm::terminal::size();
        Self::of(size.map_or(80, |(width, _)| usize::from(width)))
    }

    fn named(self, name: &str) -> String {
        let width = self.name;
        format!("{:width$}", words::one_line(name, width))
    }

    fn bar(self, color: &str) -> ProgressStyle {
        style(&format!(
            "{{prefix}} {{bar:{}.{color}/dim}} {{pos:>5}}/{{len:<5}} {{wide_msg}}",
            self.bar
        ))
    }
}

/// Bars on a terminal.
pub struct Bars {
    columns: Columns,
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
        let columns = Columns::here();
        let shown = shown(tracker);
        let tasks = shown.iter().map(|(name, counts)| {
            let bar = all.add(ProgressBar::new(counts.total()));
            bar.set_style(columns.bar("cyan"));
            bar.set_prefix(columns.named(name));
            bar
        });
        let tasks: Vec<ProgressBar> = tasks.collect();
        let total = all.add(ProgressBar::new(tracker.counts().total()));
        total.set_style(columns.bar("green"));
        total.set_prefix(columns.named("all jobs"));
        total.enable_steady_tick(Duration::from_millis(500));
        Self { columns, all, tasks, services: Vec::new(), total }
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
            line.set_style(style("{prefix} {wide_msg}"));
            self.services.push(line);
        }
        for (line, service) in self.services.iter().zip(services) {
            let gauge = gauge::of(service, now);
            line.set_prefix(self.columns.named(service.name.as_str()));
            let (concurrent, rate, status) = (gauge.concurrent, gauge.rate, gauge.status);
            let bar = if self.columns.narrow { String::new() } else { gauge.bar + " " };
            line.set_message(format!("{bar}{concurrent}  {rate}  {status}"));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_leave_room_for_the_remark_on_usual_terminals() {
        for width in [62, 72, 80, 100, 120] {
            let columns = Columns::of(width);
            assert!(columns.name + columns.bar + NUMBERS + REMARK <= width, "{width}: {columns:?}");
        }
        assert_eq!(Columns::of(120).bar, 30);
        assert_eq!(Columns::of(20), Columns { name: 12, bar: 8, narrow: true });
        assert_eq!(Columns::of(60).named("a-task-with-a-long-name").chars().count(), 12);
    }
}
