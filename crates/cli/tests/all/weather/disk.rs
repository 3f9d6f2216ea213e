//! A server whose disk is really full.
//!
//! The disk is a small file system of its own, mounted where only the test sees it: the test runs itself once more in
//! a mount name space of its own. Where the machine does not allow that, or where it would make a superuser of us, as
//! whom PostgreSQL does not run, a trigger that fails as a full disk does and a memory limit take its place: what the
//! server goes through differs, what runcue has to do does not.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use runcue_test_servers::{Postgres, Redis};
use rustix::process::getuid;
use tempfile::TempDir;

use super::spell::goes_on_after;
use crate::crash::note;

/// Set where the test runs for the second time.
const INSIDE: &str = "RUNCUE_TEST_MOUNTS";

/// A small disk.
struct Disk {
    directory: TempDir,
}

impl Disk {
    fn mount(size: &str) -> Self {
        let directory = TempDir::new().unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size},mode=755"), "none"])
            .arg(directory.path())
            .status();
        assert!(mounted.unwrap().success());
        Self { directory }
    }

    /// A directory on it for the user of a process.
    fn directory_for(&self, pid: u32) -> PathBuf {
        let user = fs::metadata(format!("/proc/{pid}")).unwrap();
        let path = self.directory.path().join("data");
        fs::create_dir(&path).unwrap();
        chown(&path, Some(user.uid()), Some(user.gid())).unwrap();
        path
    }

    fn fill(&self) {
        let path = self.directory.path().join("fill");
        let all = Command::new("dd")
            .args(["if=/dev/zero", "bs=1k"])
            .arg(format!("of={}", path.display()))
            .output();
        assert!(!all.unwrap().status.success(), "the disk took everything");
    }

    fn free(&self) {
        fs::remove_file(self.directory.path().join("fill")).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.directory.path()).status();
    }
}

fn can_mount() -> bool {
    let probe =
        Command::new("unshare").args(["-m", "mount", "-t", "tmpfs", "none", "/mnt"]).output();
    getuid().is_root() && probe.is_ok_and(|probe| probe.status.success())
}

/// Runs a test of this file where its mounts are its own. Answers whether this is there.
fn is_inside(name: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let ended = Command::new("unshare")
        .arg("-m")
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", &format!("weather::disk::{name}"), "--nocapture"])
        .env(INSIDE, "1")
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(ended.status.success(), "{}{told}", String::from_utf8_lossy(&ended.stdout));
    assert!(String::from_utf8_lossy(&ended.stdout).contains("1 passed"), "the test has run");
    note(&told);
    false
}

const WORDS: [&str; 2] = ["the disk that holds", "is full; free some space"];

/// The tables are on the small disk, the log of changes on another, as it should be: a server whose log cannot be
/// written stops as a whole, and that a server stops is tried elsewhere.
#[test]
fn a_full_disk_of_postgres_is_named_and_work_goes_on_when_there_is_space() {
    let name = "a_full_disk_of_postgres_is_named_and_work_goes_on_when_there_is_space";
    if !can_mount() && std::env::var_os(INSIDE).is_none() {
        return on_postgres_without_a_disk();
    }
    if !is_inside(name) {
        return;
    }
    let disk = Disk::mount("32m");
    let server = Postgres::settings().durable().start().unwrap();
    let place = disk.directory_for(server.pid());
    server.sql(&format!("CREATE TABLESPACE small LOCATION '{}'", place.display())).unwrap();
    server.sql("CREATE DATABASE queue TABLESPACE small").unwrap();
    let direct = server.url();
    let url = format!("{}/queue", direct.rsplit_once('/').unwrap().0);
    goes_on_after(&url, || disk.fill(), &WORDS, || disk.free());
}

fn on_postgres_without_a_disk() {
    let server = Postgres::settings().durable().start().unwrap();
    let sql = |sql: &str| server.sql(sql).map(drop).unwrap();
    let full = "CREATE FUNCTION disk_full() RETURNS trigger LANGUAGE plpgsql AS \
                $$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = '53100'; END $$; \
                CREATE TRIGGER disk_full BEFORE INSERT OR UPDATE ON runcue.turn EXECUTE FUNCTION disk_full()";
    goes_on_after(
        &server.url(),
        || sql(full),
        &WORDS,
        || sql("DROP TRIGGER disk_full ON runcue.turn"),
    );
}

/// Synced every second: one that syncs every change ends itself when it cannot.
#[test]
fn a_full_disk_of_redis_is_named_and_work_goes_on_when_there_is_space() {
    let name = "a_full_disk_of_redis_is_named_and_work_goes_on_when_there_is_space";
    if !can_mount() && std::env::var_os(INSIDE).is_none() {
        return on_redis_without_a_disk();
    }
    if !is_inside(name) {
        return;
    }
    let disk = Disk::mount("8m");
    let place = disk.directory_for(std::process::id());
    let server = Redis::settings().data(&place).start().unwrap();
    goes_on_after(&server.url(), || disk.fill(), &WORDS, || disk.free());
    assert!(has_data(&place));
}

fn has_data(place: &Path) -> bool {
    place.join("appendonlydir").exists()
}

fn on_redis_without_a_disk() {
    let server = Redis::settings().durable().start().unwrap();
    let limit = |bytes: &str| {
        assert_eq!(server.command(&["CONFIG", "SET", "maxmemory", bytes]).unwrap(), "+OK");
    };
    goes_on_after(&server.url(), || limit("1"), &["out of memory"], || limit("0"));
}
