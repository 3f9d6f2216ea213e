//! `runcue resume`: the jobs of a paused group are handed out again.

use crate::app::App;
use crate::exit::Exit;
use crate::trouble::Trouble;
use crate::verbs::pause;

pub use pause::Args;

/// Resumes groups.
pub async fn run(args: Args, app: &App) -> Result<Exit, Trouble> {
    pause::set(args, false, app).await
}
