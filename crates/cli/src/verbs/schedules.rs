//! `runcue schedules`: every schedule with its next firings.

use comfy_table::{Cell, Color};
use runcue_core::Timestamp;
use runcue_store::ScheduleInfo;

use crate::app::App;
use crate::exit::Exit;
use crate::trouble::Trouble;
use crate::view::{ScheduleView, SchedulesView, next_firings};
use crate::{clock, table, words};

/// How many firings a table has room for.
const SHOWN: usize = 2;

/// Flags of `schedules`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// How many of the next firings JSON has of each
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(0..=1000))]
    next: u16,
}

/// Lists schedules.
pub async fn run(args: Args, app: &App) -> Result<Exit, Trouble> {
    let schedules = app.store()?.schedules().await?;
    show(&schedules, usize::from(args.next), app)
}

/// Shows schedules.
pub(super) fn show(schedules: &[ScheduleInfo], firings: usize, app: &App) -> Result<Exit, Trouble> {
    if app.out.json {
        let views = schedules.iter().map(|one| ScheduleView::new(one, firings)).collect();
        app.out.document(&SchedulesView { schedules: views })?;
    } else if schedules.is_empty() {
        app.out.note(
            "there are no schedules; define one: runcue schedule add NAME --cron '0 3 * * *' -- COMMAND",
        );
    } else {
        app.out.say(schedules_table(schedules, clock::now()))?;
    }
    Ok(Exit::Ok)
}

fn schedules_table(schedules: &[ScheduleInfo], now: Timestamp) -> String {
    let mut table = table::new(&["SCHEDULE", "", "CRON", "ZONE", "NEXT", "FIRED", "LAST"]);
    for schedule in schedules {
        let spec = &schedule.spec;
        let next: Vec<String> =
            next_firings(schedule, SHOWN).iter().map(|at| words::instant(now, *at)).collect();
        let last = match (&schedule.last_error, schedule.last_at) {
            (Some(error), _) => Cell::new(words::one_line(error, 50)).fg(Color::Yellow),
            (None, Some(at)) => Cell::new(words::relative(now, at)),
            (None, None) => table::dim("never"),
        };
        table.add_row(vec![
            Cell::new(words::one_line(spec.name.as_str(), 30)),
            Cell::new(if spec.paused { "paused" } else { "" }).fg(Color::Yellow),
            Cell::new(words::one_line(&spec.cron, 30)),
            Cell::new(words::one_line(&spec.zone, 30)),
            Cell::new(next.join("\n")),
            table::number(schedule.fired),
            last,
        ]);
    }
    table::text(&table)
}
