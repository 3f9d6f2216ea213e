//! One server for all tests of a run, which are processes of their own. The first to come starts it; a
//! keeper ends it when nobody holds a lock on its file of users any more.
//!
//! Locks are the operating system's and go with their process, so a killed test cannot keep a server alive.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::process::getuid;

use crate::{Trouble, place};

/// Something that this process uses together with others, until it ends.
#[derive(Debug)]
pub struct Membership {
    /// What whoever started the server wrote down about it.
    pub state: String,
    _users: File,
}

/// Joins the users of a kind of server. `is_alive` looks at what was written down about one that should run;
/// `start` starts one in its own directory, below a place, and answers what to write down.
pub fn join(
    kind: &str,
    is_alive: impl Fn(&str) -> bool,
    start: impl FnOnce(&Path, &Path) -> Result<String, Trouble>,
) -> Result<Membership, Trouble> {
    let place = place_of(kind)?;
    let (gate, users) = pass_gate(&place)?;
    let noted = fs::read_to_string(place.join("state")).unwrap_or_default();
    let known = noted.split_once('\n').map(|(_, state)| state).filter(|state| is_alive(state));
    let state = match known {
        Some(state) => state.to_owned(),
        None => {
            let own = place.join(place::unique("server"));
            fs::DirBuilder::new().mode(0o755).create(&own).map_err(Trouble::with(own.display()))?;
            let state = start(&place, &own)?;
            let noted = format!("{}\n{state}", own.display());
            fs::write(place.join("state"), noted).map_err(Trouble::with(place.display()))?;
            state
        }
    };
    drop(gate);
    Ok(Membership { state, _users: users })
}

/// Below the temporary directory, one per user and run: runs that go on at the same time do not meet.
fn place_of(kind: &str) -> Result<PathBuf, Trouble> {
    let run = std::env::var("NEXTEST_RUN_ID").unwrap_or_else(|_| "all".to_owned());
    let name = format!("runcue-{kind}-{}-{run}", getuid().as_raw());
    Ok(std::env::temp_dir().join(name))
}

/// Holds the gate, and has become a user behind it.
fn pass_gate(place: &Path) -> Result<(File, File), Trouble> {
    loop {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o755)
            .create(place)
            .map_err(Trouble::with(place.display()))?;
        let gate = match open(&place.join("gate")) {
            // The directory was deleted between the two calls.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            opened => opened.map_err(Trouble::with(place.display()))?,
        };
        gate.lock().map_err(Trouble::with(place.display()))?;
        // Whoever ended the last server deleted the gate while we stood before it: come again.
        if gate.metadata().map_err(Trouble::with(place.display()))?.nlink() == 0 {
            continue;
        }
        let users = open(&place.join("users")).map_err(Trouble::with(place.display()))?;
        users.lock_shared().map_err(Trouble::with(place.display()))?;
        return Ok((gate, users));
    }
}

fn open(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)
}
