//! How far a run is: what the events say ([`Tracker`]) and how it is shown, as bars on a terminal and as
//! plain lines elsewhere.

mod bars;
mod lines;
mod summary;
mod tracker;

pub use bars::Bars;
pub use lines::Lines;
pub use summary::{Failed, SummaryView, tell};
pub use tracker::{Counts, Phase, Tracker};

use runcue_core::{Event, Timestamp};

use crate::app::App;
use crate::out::{self, Out};
use crate::trouble::Trouble;
use crate::view::{EventView, ServiceView};

/// How progress is shown.
pub enum Show {
    /// Not at all.
    Quiet,
    /// Every event of these jobs as JSON.
    Json(Out),
    /// Plain lines.
    Lines(Lines),
    /// Bars.
    Bars(Bars),
}

impl Show {
    /// As it fits the flags and the place we run in.
    pub fn fitting(app: &App, tracker: &Tracker, now: Timestamp) -> Self {
        match app.out {
            Out { json: true, .. } => Self::Json(app.out),
            Out { quiet: true, .. } => Self::Quiet,
            _ if out::is_terminal() && out::is_error_terminal() => Self::Bars(Bars::new(tracker)),
            out => Self::Lines(Lines::new(out, now)),
        }
    }

    /// Something happened to one of the jobs.
    pub fn event(&mut self, event: &Event, name: &str) -> Result<(), Trouble> {
        match self {
            Self::Quiet => Ok(()),
            Self::Json(out) => out.record(&EventView::from(event)),
            Self::Lines(lines) => lines.event(event, name),
            Self::Bars(bars) => {
                bars.event(event, name);
                Ok(())
            }
        }
    }

    /// Time has passed.
    pub fn tick(
        &mut self,
        tracker: &Tracker,
        services: &[ServiceView],
        now: Timestamp,
    ) -> Result<(), Trouble> {
        match self {
            Self::Quiet | Self::Json(_) => Ok(()),
            Self::Lines(lines) => lines.tick(tracker, now),
            Self::Bars(bars) => {
                bars.tick(tracker, services, now);
                Ok(())
            }
        }
    }

    /// Why nothing moves.
    pub fn stuck(&mut self, why: &str) -> Result<(), Trouble> {
        match self {
            Self::Quiet | Self::Json(_) => Ok(()),
            Self::Lines(lines) => lines.stuck(why),
            Self::Bars(bars) => {
                bars.stuck(why);
                Ok(())
            }
        }
    }

    /// Leaves the terminal as it was.
    pub fn end(self) {
        if let Self::Bars(bars) = self {
            bars.end();
        }
    }
}
