//! Draws the screen: counts and depth on top, services and groups in the middle, events below.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Cell, Clear, Paragraph, Row, Sparkline, Table, TableState, Wrap};
use runcue_core::{EventKind, StateWord};

use super::state::Screen;
use crate::verbs::events;
use crate::{gauge, words};

const HELP: &str = "\
 up, down   choose a group
 p          pause or resume the chosen group
 f          show only what has a text; Enter keeps it, Esc clears it
 ?          these words
 q          leave";

/// Narrower than this, what can be done without is left out, so that nothing wraps.
const NARROW: u16 = 72;
/// From this width on there is room for the depth beside the counts.
const WIDE: u16 = 110;

/// Draws everything.
pub fn draw(frame: &mut Frame<'_>, screen: &Screen) {
    let services = u16::try_from(screen.seen.services.len()).unwrap_or(u16::MAX);
    let groups = u16::try_from(screen.groups().len()).unwrap_or(u16::MAX);
    let area = frame.area();
    // Half of the screen at most for services and groups each, so that the others stay visible.
    let most = area.height / 3;
    let [top, middle, lower, bottom, foot] = Layout::vertical([
        Constraint::Length(6),
        Constraint::Length(services.max(1).min(most) + 2),
        Constraint::Length(groups.max(1).min(most) + 3),
        Constraint::Min(3),
        Constraint::Length(1),
    ])
    .areas(area);
    draw_queue(frame, top, screen);
    draw_services(frame, middle, screen);
    draw_groups(frame, lower, screen);
    draw_events(frame, bottom, screen);
    draw_foot(frame, foot, screen);
    if screen.help {
        draw_help(frame, area);
    }
}

fn draw_queue(frame: &mut Frame<'_>, area: Rect, screen: &Screen) {
    let block = Block::bordered().title(format!(" {} ", screen.seen.status.store));
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let text = Paragraph::new(queue_lines(screen)).wrap(Wrap { trim: true });
    if area.width < WIDE {
        return frame.render_widget(text, inner);
    }
    let [left, right] =
        Layout::horizontal([Constraint::Min(80), Constraint::Percentage(30)]).areas(inner);
    frame.render_widget(text, left);
    let [label, depth] = Layout::vertical([Constraint::Length(1), Constraint::Min(1)]).areas(right);
    frame.render_widget(Line::from("queued over time").dim(), label);
    let width = usize::from(depth.width);
    let skipped = screen.depths.len().saturating_sub(width);
    let recent: Vec<u64> = screen.depths.iter().skip(skipped).copied().collect();
    frame.render_widget(Sparkline::default().data(recent).style(Style::new().cyan()), depth);
}

fn queue_lines(screen: &Screen) -> Vec<Line<'static>> {
    let status = &screen.seen.status;
    let mut counts = Vec::new();
    for state in StateWord::ALL {
        // A leased job begins in a moment: it counts as running, as in the table of groups.
        let n = match state {
            StateWord::Leased => 0,
            StateWord::Running => status.counts.leased + status.counts.running,
            other => status.counts.get(other),
        };
        // The bad news only where there is some: all seven do not fit on a line.
        let usual = matches!(state, StateWord::Queued | StateWord::Running | StateWord::Completed);
        if n == 0 && !usual {
            continue;
        }
        let style = if n == 0 { Style::new().dim() } else { Style::new().fg(color(state)) };
        counts.push(Span::styled(format!("{n} {state}  "), style));
    }
    let workers: Vec<_> = status.live_workers().collect();
    let slots: u64 = workers.iter().map(|worker| u64::from(worker.slots)).sum();
    let held: u64 = workers.iter().map(|worker| worker.held).sum();
    let queued = format!(
        "{} ready, {} wait for a time, {} wait for other jobs",
        status.ready, status.delayed, status.blocked
    );
    let working = match workers.len() as u64 {
        0 => "no worker".to_owned(),
        n => format!("{}, {held} of {slots} slots busy", words::count(n, "worker")),
    };
    let hint = status.hint.clone().unwrap_or_default();
    vec![Line::from(counts), Line::from(queued), Line::from(working), Line::from(hint).yellow()]
}

fn draw_services(frame: &mut Frame<'_>, area: Rect, screen: &Screen) {
    let block = Block::bordered().title(" services ");
    if screen.seen.services.is_empty() {
        let none = Paragraph::new("none").dim().block(block);
        return frame.render_widget(none, area);
    }
    let narrow = area.width < NARROW;
    let rows = screen.seen.services.iter().map(|service| {
        let gauge = gauge::of(service, screen.seen.at);
        let color = if gauge.open { Color::Green } else { Color::Yellow };
        Row::new([
            Cell::from(words::one_line(service.name.as_str(), 24)),
            Cell::from(if narrow { String::new() } else { gauge.bar }),
            Cell::from(gauge.concurrent),
            Cell::from(gauge.rate),
            Cell::from(gauge.status).style(Style::new().fg(color)),
        ])
    });
    let widths = [
        Constraint::Max(24),
        Constraint::Length(if narrow { 0 } else { 12 }),
        Constraint::Length(if narrow { 14 } else { 18 }),
        Constraint::Length(if narrow { 14 } else { 20 }),
        Constraint::Min(10),
    ];
    frame.render_widget(Table::new(rows, widths).block(block), area);
}

fn draw_groups(frame: &mut Frame<'_>, area: Rect, screen: &Screen) {
    let title = match screen.filter.as_str() {
        "" => " groups ".to_owned(),
        filter => format!(" groups with {filter:?} "),
    };
    let rows = screen.groups().into_iter().map(|group| {
        let counts = &group.counts;
        let name = group.name.as_ref().map_or("(no group)", |name| name.as_str());
        let numbers = [
            counts.queued,
            counts.leased + counts.running,
            counts.completed,
            counts.failed + counts.quarantined,
            counts.cancelled,
        ];
        let paused = if group.paused { "paused" } else { "" };
        let cells = [words::one_line(name, 30), paused.to_owned()];
        Row::new(cells.into_iter().chain(numbers.map(|n| n.to_string())))
    });
    let narrow = area.width < NARROW;
    let done = if narrow { "done" } else { "completed" };
    let heading = ["", "", "queued", "running", done, "failed", "cancelled"];
    let mut widths = vec![Constraint::Max(30), Constraint::Length(6)];
    // Without room for all of them the cancelled ones, the last column, are left out.
    let columns = if narrow { [7, 7, 7, 7, 0] } else { [9; 5] };
    widths.extend(columns.map(Constraint::Length));
    let table = Table::new(rows.collect::<Vec<_>>(), widths)
        .header(Row::new(heading).style(Style::new().dim()))
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED))
        .block(Block::bordered().title(title));
    let mut chosen = TableState::default().with_selected(Some(screen.chosen));
    frame.render_stateful_widget(table, area, &mut chosen);
}

fn draw_events(frame: &mut Frame<'_>, area: Rect, screen: &Screen) {
    let room = usize::from(area.height.saturating_sub(2));
    let events = screen.events();
    let skipped = events.len().saturating_sub(room);
    let line = |event: &&runcue_core::Event| {
        let color = match event.kind {
            EventKind::Completed => Color::Green,
            EventKind::Failed => Color::Red,
            EventKind::Retrying | EventKind::Cancelled => Color::Yellow,
            _ => Color::Reset,
        };
        Line::from(vec![
            Span::from(format!("{}  ", words::clock(event.at))).dim(),
            Span::from(format!("{:<15}", event.kind.short())).fg(color),
            Span::from(events::about(event)),
        ])
    };
    let lines: Vec<Line<'_>> = events.iter().skip(skipped).map(line).collect();
    let block = Block::bordered().title(" recent events ");
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

fn draw_foot(frame: &mut Frame<'_>, area: Rect, screen: &Screen) {
    let line = match screen.typing {
        true => Line::from(format!(" show only: {}▏", screen.filter)),
        false => Line::from(" q quit  ↑↓ choose  p pause/resume  f filter  ? help").dim(),
    };
    frame.render_widget(line, area);
}

fn draw_help(frame: &mut Frame<'_>, area: Rect) {
    let width = area.width.min(70);
    let height = area.height.min(7);
    let place = Rect { x: (area.width - width) / 2, y: (area.height - height) / 2, width, height };
    frame.render_widget(Clear, place);
    let help = Paragraph::new(HELP).wrap(Wrap { trim: false });
    frame.render_widget(help.block(Block::bordered().title(" keys ")), place);
}

fn color(state: StateWord) -> Color {
    match state {
        StateWord::Queued => Color::Reset,
        StateWord::Leased | StateWord::Running => Color::Cyan,
        StateWord::Completed => Color::Green,
        StateWord::Failed | StateWord::Quarantined => Color::Red,
        StateWord::Cancelled => Color::Yellow,
    }
}
