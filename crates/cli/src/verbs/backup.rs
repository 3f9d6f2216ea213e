//! `runcue backup`: a copy of the queue in a new SQLite file. A SQLite queue is copied as it is at one instant,
//! whoever works on it; any other is moved into the file, which asks for nobody to work on it.

use std::path::PathBuf;

use runcue::Kind;

use crate::app::App;
use crate::exit::Exit;
use crate::store::{self, Access};
use crate::trouble::Trouble;
use crate::verbs::r#move::{self, Purpose};
use crate::view::BackupView;
use crate::{clock, words};

/// Flags of `backup`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The new file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Also while workers run; what they change meanwhile may be missing
    #[arg(long)]
    force: bool,
}

/// Copies the queue into a new file.
pub async fn run(args: Args, app: &App) -> Result<Exit, Trouble> {
    let from = app.address()?;
    let file = args.file.display().to_string();
    if args.file.exists() {
        return Err(Trouble::failed(format!("{file}: a file is there already"))
            .help("a backup never takes the place of another; name a new file"));
    }
    if !from.exists() {
        // Says so, and how to name another.
        app.open_as_it_is(&from, Access::Existing)?;
    }
    let to = store::address(&format!("sqlite:{file}"))?;
    if from.kind() == Kind::Memory || !from.backup(&args.file)? {
        r#move::copy(&from, &to, args.force, Purpose::Backup, app).await?;
    }
    let copy = app.open_as_it_is(&to, Access::Existing)?;
    let counts = copy.stats(clock::now()).await?.counts;
    let view = BackupView { store: from.to_string(), file, counts };
    if app.out.json {
        app.out.document(&view)?;
    } else {
        app.out.say(format!(
            "backed {} up in {}\nto use it: --store sqlite:{}; to restore it: runcue move sqlite:{} TO",
            words::count(counts.total(), "job"),
            view.file,
            view.file,
            view.file
        ))?;
    }
    Ok(Exit::Ok)
}
