//! `runcue groups`: every group, whether it is paused, and its jobs by state.

use comfy_table::{Cell, Color};
use runcue_store::GroupInfo;

use crate::app::App;
use crate::exit::Exit;
use crate::trouble::Trouble;
use crate::view::{GroupView, GroupsView};
use crate::{table, words};

/// Flags of `groups`.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Lists groups.
pub async fn run(_: Args, app: &App) -> Result<Exit, Trouble> {
    let groups = app.store()?.groups().await?;
    if app.out.json {
        app.out.document(&GroupsView { groups: groups.iter().map(GroupView::from).collect() })?;
    } else if groups.is_empty() {
        app.out.note("there are no jobs yet");
    } else {
        app.out.say(groups_table(&groups))?;
    }
    Ok(Exit::Ok)
}

/// Groups as a table.
pub fn groups_table(groups: &[GroupInfo]) -> String {
    let heading =
        ["GROUP", "", "QUEUED", "RUNNING", "COMPLETED", "FAILED", "QUARANTINED", "CANCELLED"];
    let mut table = table::new(&heading);
    for group in groups {
        let counts = &group.counts;
        let name = match &group.name {
            Some(name) => Cell::new(words::one_line(name.as_str(), 40)),
            None => table::dim("(no group)"),
        };
        let paused = if group.paused { "paused" } else { "" };
        table.add_row(vec![
            name,
            Cell::new(paused).fg(Color::Yellow),
            table::number(counts.queued),
            table::number(counts.leased + counts.running),
            table::number(counts.completed),
            table::bad_number(counts.failed),
            table::bad_number(counts.quarantined),
            table::number(counts.cancelled),
        ]);
    }
    table::text(&table)
}
