//! Where servers come from and where they live: programs, the user they run as, directories, ports.

use std::env;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::getuid;

use crate::Trouble;

/// A program of a package: in the newest of the package's own directories, or on the path.
pub fn program(name: &str, package: &str) -> Result<PathBuf, Trouble> {
    let found = debian(name).or_else(|| on_path(name));
    found.ok_or_else(|| Trouble::new(format!("{name} is not installed: apt-get install {package}")))
}

/// Debian keeps every major version of PostgreSQL in a directory of its own, off the path.
fn debian(name: &str) -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").ok()?.flatten();
    let mut found: Vec<(u32, PathBuf)> = versions
        .filter_map(|entry| {
            let version = entry.file_name().to_str()?.parse().ok()?;
            Some((version, entry.path().join("bin").join(name)))
        })
        .filter(|(_, path)| path.is_file())
        .collect();
    found.sort();
    found.pop().map(|(_, path)| path)
}

fn on_path(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let places = env::split_paths(&path).chain([PathBuf::from("/usr/sbin"), "/sbin".into()]);
    places.map(|directory| directory.join(name)).find(|path| path.is_file())
}

/// Whoever a server runs as. PostgreSQL refuses to run as root.
#[derive(Clone, Debug)]
pub enum RunAs {
    /// The user who runs the tests.
    Oneself,
    /// Somebody without rights, because the tests run as root.
    Nobody { uid: u32, gid: u32 },
}

impl RunAs {
    /// The user for servers that refuse root.
    pub fn unprivileged() -> Result<Self, Trouble> {
        if !getuid().is_root() {
            return Ok(Self::Oneself);
        }
        let known = ["postgres", "nobody"]
            .into_iter()
            .find_map(|user| Some(Self::Nobody { uid: id("-u", user)?, gid: id("-g", user)? }));
        known.ok_or_else(|| Trouble::new("there is no user postgres or nobody to run servers as"))
    }

    /// The words of a command, with the change of user before them.
    pub fn command(&self, program: &Path, words: &[String]) -> Vec<String> {
        let mut line = match self {
            Self::Oneself => Vec::new(),
            Self::Nobody { uid, gid } => vec![
                "setpriv".to_owned(),
                format!("--reuid={uid}"),
                format!("--regid={gid}"),
                "--clear-groups".to_owned(),
            ],
        };
        line.push(program.display().to_string());
        line.extend(words.iter().cloned());
        line
    }

    /// Makes a directory that only this user can look into.
    pub fn make_directory(&self, path: &Path) -> Result<(), Trouble> {
        let made = fs::DirBuilder::new().mode(0o700).create(path);
        made.map_err(Trouble::with(path.display()))?;
        self.own(path)
    }

    /// Makes a file one that only this user can read.
    pub fn take_file(&self, path: &Path) -> Result<(), Trouble> {
        let narrow = fs::set_permissions(path, fs::Permissions::from_mode(0o600));
        narrow.map_err(Trouble::with(path.display()))?;
        self.own(path)
    }

    fn own(&self, path: &Path) -> Result<(), Trouble> {
        match self {
            Self::Oneself => Ok(()),
            Self::Nobody { uid, gid } => {
                chown(path, Some(*uid), Some(*gid)).map_err(Trouble::with(path.display()))
            }
        }
    }
}

fn id(what: &str, user: &str) -> Option<u32> {
    let answer = Command::new("id").args([what, user]).stdin(Stdio::null()).output().ok()?;
    std::str::from_utf8(&answer.stdout).ok()?.trim().parse().ok()
}

/// A temporary directory that other users can pass through, as the server may be one.
pub fn temporary() -> Result<tempfile::TempDir, Trouble> {
    let made = tempfile::Builder::new()
        .prefix("runcue-server-")
        .permissions(fs::Permissions::from_mode(0o755))
        .tempdir();
    made.map_err(Trouble::with("no temporary directory"))
}

/// A loopback port that was free a moment ago.
pub fn free_port() -> Result<u16, Trouble> {
    let bound = TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| listener.local_addr());
    bound.map(|address| address.port()).map_err(Trouble::with("no free loopback port"))
}

/// A name that nobody else has.
pub fn unique(word: &str) -> String {
    let random = getrandom::u64().unwrap_or_default();
    format!("{word}_{}_{random:016x}", std::process::id())
}

/// Runs a program to its end; if it fails, what it said.
pub fn run(line: &[String]) -> Result<String, Trouble> {
    let name = line.first().map_or("", String::as_str);
    let output = Command::new(name)
        .args(line.get(1..).unwrap_or_default())
        .current_dir("/")
        .stdin(Stdio::null())
        .output()
        .map_err(Trouble::with(name))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
    Err(Trouble::new(format!("{} failed: {said}", line.join(" "))))
}
