//! A consistent copy of a file while others work on it.

use std::fs::File;
use std::path::Path;

use runcue_store::{Result, StoreError};

use crate::connection::{self, Options};
use crate::failure::{explain, explain_io};

/// Copies the queue at an address into a new file, as it is at one instant. A file that is there is left alone;
/// one that is half written never has the name that was asked for.
pub fn backup(url: &str, to: &Path) -> Result<()> {
    let options = Options::parse(url)?;
    let place = to.display().to_string();
    let mut part = to.as_os_str().to_owned();
    part.push(".part");
    let part = Path::new(&part);
    let there = |path: &Path| StoreError::BadAddress {
        place: path.display().to_string(),
        why: "a file is there already; name a new one".to_owned(),
    };
    if let Some(taken) = [to, part].into_iter().find(|path| path.exists()) {
        return Err(there(taken));
    }
    let copy = || -> Result<()> {
        let connection = connection::reader(&options)?;
        let copied = connection
            .pragma_update(None, "query_only", false)
            .and_then(|()| connection.execute("VACUUM INTO ?1", [&part.to_string_lossy()]));
        copied.map_err(|error| explain(&options.place(), &error))?;
        let synced = File::open(part).and_then(|file| file.sync_all());
        synced.map_err(|error| explain_io(&place, "the copy", &error))?;
        // Unlike a rename, a link never takes the place of another file.
        match std::fs::hard_link(part, to) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Err(there(to)),
            linked => linked.map_err(|error| explain_io(&place, "the copy", &error)),
        }
    };
    let copied = copy();
    // What is left behind is only in the way.
    let _ = std::fs::remove_file(part);
    copied
}
