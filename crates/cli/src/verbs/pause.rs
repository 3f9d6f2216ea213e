//! `runcue pause`: nothing more of a group is handed out; what runs finishes.

use runcue_core::GroupName;
use serde::Serialize;

use crate::app::App;
use crate::exit::Exit;
use crate::trouble::Trouble;
use crate::{clock, known};

/// Flags of `pause` and `resume`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The groups
    #[arg(value_name = "GROUP", required = true)]
    groups: Vec<String>,
    /// Even if nothing is known of the group yet
    #[arg(long)]
    anyway: bool,
}

#[derive(Serialize)]
struct Set {
    group: GroupName,
    paused: bool,
    changed: bool,
}

#[derive(Serialize)]
struct SetAll {
    groups: Vec<Set>,
}

/// Pauses groups.
pub async fn run(args: Args, app: &App) -> Result<Exit, Trouble> {
    set(args, true, app).await
}

/// Pauses or resumes groups.
pub(super) async fn set(args: Args, paused: bool, app: &App) -> Result<Exit, Trouble> {
    let store = app.store()?;
    let mut groups = Vec::new();
    for name in &args.groups {
        groups.push(match args.anyway {
            true => GroupName::new(name.as_str())?,
            false => known::group(&*store, name).await?,
        });
    }
    let mut done = Vec::new();
    for group in groups {
        let changed = store.set_group_paused(clock::now(), group.clone(), paused).await?;
        done.push(Set { group, paused, changed });
    }
    if app.out.json {
        app.out.document(&SetAll { groups: done })?;
        return Ok(Exit::Ok);
    }
    let word = if paused { "paused" } else { "running" };
    for one in &done {
        let already = if one.changed { "" } else { " already" };
        app.out.say(format!("group {} is{already} {word}", one.group))?;
    }
    Ok(Exit::Ok)
}
