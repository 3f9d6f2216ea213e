//! Which worker instances of this machine are alive, for a store on a disk. Each holds a lock on a file of its own
//! beside the database for as long as its process lives; the operating system lets go of it at the very moment the
//! process ends, however it ends. A worker whose lock can be had is gone.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::request::WorkerSpec;
use runcue_core::WorkerId;

/// The locks this process holds.
#[derive(Debug)]
pub struct Presence {
    directory: PathBuf,
    held: Mutex<HashMap<WorkerId, File>>,
}

impl Presence {
    /// Locks in a directory beside a database.
    pub fn beside(database: &Path) -> Self {
        let mut name = database.file_name().unwrap_or_default().to_owned();
        name.push("-workers");
        Self { directory: database.with_file_name(name), held: Mutex::new(HashMap::new()) }
    }

    /// Takes the lock of a worker of this process. What is in the file is for people.
    pub fn announce(&self, worker: &WorkerSpec) -> std::io::Result<()> {
        let mut held = self.held();
        if held.contains_key(&worker.id) {
            return Ok(());
        }
        fs::create_dir_all(&self.directory)?;
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(self.file_of(worker.id))?;
        file.lock()?;
        // On a full disk the lock still holds.
        let _ = writeln!(file, "{} pid {} on {}", worker.name, worker.pid, worker.host);
        held.insert(worker.id, file);
        Ok(())
    }

    /// The lock of a worker of this process, for another process to hold as well.
    pub fn share(&self, worker: WorkerId) -> Option<File> {
        // A duplicate stands for the same lock, which ends only when every duplicate is closed.
        self.held().get(&worker)?.try_clone().ok()
    }

    /// Gives the lock of a worker back.
    pub fn leave(&self, worker: WorkerId) {
        if self.held().remove(&worker).is_some() {
            let _ = fs::remove_file(self.file_of(worker));
            // Goes only when it is empty.
            let _ = fs::remove_dir(&self.directory);
        }
    }

    /// Whether a worker of this machine is gone for certain.
    pub fn is_gone(&self, worker: WorkerId) -> bool {
        if self.held().contains_key(&worker) {
            return false;
        }
        let path = self.file_of(worker);
        match OpenOptions::new().read(true).write(true).open(&path) {
            Ok(file) => file.try_lock().is_ok() && fs::remove_file(&path).is_ok(),
            Err(error) => error.kind() == std::io::ErrorKind::NotFound,
        }
    }

    fn file_of(&self, worker: WorkerId) -> PathBuf {
        self.directory.join(worker.to_string())
    }

    fn held(&self) -> MutexGuard<'_, HashMap<WorkerId, File>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The name of this machine.
pub fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
