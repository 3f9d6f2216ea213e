//! Tables for people: plain columns without rules, so that they can also be cut and sorted by other
//! programs, and the colour of every state.

use comfy_table::{Attribute, Cell, CellAlignment, Color, Table, presets};
use runcue_core::StateWord;

/// A table with a heading.
pub fn new(heading: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    // `anstream` drops the colours where they are not wanted; here they are always written.
    table.enforce_styling();
    table.style_text_only();
    let cells = heading.iter().map(|word| Cell::new(word).add_attribute(Attribute::Dim));
    table.set_header(cells.collect::<Vec<_>>());
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table
}

/// The text of a table without trailing blanks.
pub fn text(table: &Table) -> String {
    table.trim_fmt()
}

/// A number, aligned to the right; zero is left blank so that what matters stands out.
pub fn number(n: u64) -> Cell {
    let text = if n == 0 { "·".to_owned() } else { n.to_string() };
    Cell::new(text).set_alignment(CellAlignment::Right)
}

/// A number that is bad news unless it is zero.
pub fn bad_number(n: u64) -> Cell {
    if n == 0 { number(n) } else { number(n).fg(Color::Red) }
}

/// A state in its colour.
pub fn state(state: StateWord) -> Cell {
    Cell::new(state).fg(color(state))
}

/// A remark that is there but not important.
pub fn dim(text: impl ToString) -> Cell {
    Cell::new(text).add_attribute(Attribute::Dim)
}

/// The colour of a state.
pub fn color(state: StateWord) -> Color {
    match state {
        StateWord::Queued => Color::Reset,
        StateWord::Leased | StateWord::Running => Color::Cyan,
        StateWord::Completed => Color::Green,
        StateWord::Failed | StateWord::Quarantined => Color::Red,
        StateWord::Cancelled => Color::Yellow,
    }
}
