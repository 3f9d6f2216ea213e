//! `runcue up`: what a new user sees first.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::scene::Process;
use crate::sandbox::Sandbox;

/// Waits for what a file will hold, a line at least.
#[track_caller]
fn written(path: &Path) -> String {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        if text.ends_with('\n') {
            return text;
        }
        assert!(Instant::now() < until, "{} was not written", path.display());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// `runcue up` in a process group of its own, with one directory in its path; what it says is in `up.log`.
fn up(sandbox: &Sandbox, path: &Path) -> (Process, Value) {
    let log = std::fs::File::create(sandbox.path().join("up.log")).unwrap();
    let mut up = sandbox.command(&["up", "--json", "--listen", "0"]);
    up.env("PATH", path).env_remove("RUNCUE_TOKEN").stdout(Stdio::piped()).stderr(log);
    let mut up = Process(up.process_group(0).spawn().unwrap());
    let told = first_line(&mut up.0);
    (up, serde_json::from_str(&told).unwrap_or_else(|error| panic!("{error}: {told}")))
}

fn first_line(child: &mut Child) -> String {
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    line
}

fn kill(signal: &str, whom: &str) -> bool {
    Command::new("kill").args([signal, "--", whom]).status().unwrap().success()
}

#[test]
fn the_browser_that_was_opened_outlives_an_interrupt_in_the_terminal() {
    let sandbox = Sandbox::new();
    let (opened, programs) = (sandbox.path().join("opened"), sandbox.path().join("bin"));
    std::fs::create_dir(&programs).unwrap();
    let browser = programs.join("xdg-open");
    let script = format!("#!/bin/sh\necho $$ $1 > {}\nexec /bin/sleep 300\n", opened.display());
    std::fs::write(&browser, script).unwrap();
    std::fs::set_permissions(&browser, std::fs::Permissions::from_mode(0o755)).unwrap();
    let (mut up, told) = up(&sandbox, &programs);
    let text = written(&opened);
    let (pid, url) = text.trim().split_once(' ').unwrap();
    assert_eq!(Some(url), told["url"].as_str());
    // As a terminal does it: to everybody in the group.
    assert!(kill("-INT", &format!("-{}", up.0.id())));
    assert_eq!(up.ended(), 130);
    assert!(kill("-TERM", pid), "the browser went with it");
}

#[test]
fn whoever_has_no_browser_is_told_where_to_go() {
    let sandbox = Sandbox::new();
    let nothing = sandbox.path().join("bin");
    std::fs::create_dir(&nothing).unwrap();
    let (mut up, told) = up(&sandbox, &nothing);
    let says = format!("go to {}", told["url"].as_str().unwrap());
    let said = written(&sandbox.path().join("up.log"));
    assert!(said.contains("no browser could be opened") && said.contains(&says), "{said}");
    up.signal("-TERM");
    assert_eq!(up.ended(), 0);
}

#[test]
fn what_is_added_beside_it_is_done() {
    let sandbox = Sandbox::new();
    let mut words = sandbox.command(&["up", "--no-open", "--listen", "0", "--quiet"]);
    let mut up = Process(words.stdout(Stdio::piped()).spawn().unwrap());
    assert!(
        first_line(&mut up.0).contains("the dashboard of sqlite:.runcue/queue.db is at http://")
    );
    let id = sandbox.add(&["--", "sh", "-c", "echo done > there"]);
    assert_eq!(written(&sandbox.path().join("there")), "done\n");
    up.signal("-TERM");
    assert_eq!(up.ended(), 0);
    assert_eq!(sandbox.state(&id), "completed");
}
