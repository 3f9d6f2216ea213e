//! A PgBouncer in front of a PostgreSQL server, which lends connections for one transaction at a time.

use std::fs;
use std::net::TcpStream;
use std::path::Path;

use tempfile::TempDir;

use crate::keeper::{self, Kept};
use crate::place::{self, RunAs};
use crate::{Postgres, Trouble};

/// Connections it keeps to the server: fewer than its clients have, so that they really are lent.
const POOL: usize = 3;

/// A pooler of one's own. Ends when this value is dropped or the process ends.
#[derive(Debug)]
pub struct Pooler {
    port: u16,
    server: u16,
    _kept: Kept,
    _directory: TempDir,
}

impl Pooler {
    /// Starts one in front of a server.
    ///
    /// # Errors
    /// If it is not installed or does not start.
    pub fn to(server: &Postgres) -> Result<Self, Trouble> {
        let directory = place::temporary()?;
        let run_as = RunAs::unprivileged()?;
        let home = directory.path().join("home");
        run_as.make_directory(&home)?;
        let port = place::free_port()?;
        let file = directory.path().join("pgbouncer.ini");
        let users = directory.path().join("users");
        fs::write(&users, "\"runcue\" \"\"\n").map_err(Trouble::with(users.display()))?;
        let text = settings(server.port(), port, &users);
        fs::write(&file, text).map_err(Trouble::with(file.display()))?;
        let program = place::program("pgbouncer", "pgbouncer")?;
        let line = run_as.command(&program, &[file.display().to_string()]);
        let kept = Kept::start(directory.path(), &line)?;
        let log = directory.path().join("log");
        let is_ready = || TcpStream::connect(("127.0.0.1", port)).is_ok();
        keeper::await_ready("PgBouncer", Path::new(&log), || kept.is_alive(), is_ready)?;
        Ok(Self { port, server: server.port(), _kept: kept, _directory: directory })
    }

    /// An address of the server, through this.
    pub fn url(&self, direct: &str) -> String {
        direct.replace(&format!(":{}/", self.server), &format!(":{}/", self.port))
    }
}

fn settings(server: u16, port: u16, users: &Path) -> String {
    let users = users.display();
    format!(
        "[databases]\n* = host=127.0.0.1 port={server}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
         listen_port = {port}\nunix_socket_dir =\nauth_type = trust\nauth_file = {users}\npool_mode = transaction\n\
         default_pool_size = {POOL}\n"
    )
}
