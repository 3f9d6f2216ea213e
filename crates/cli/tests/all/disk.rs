//! A disk that is really full and one that is really read-only, under the real binary: one line that names
//! the fix, the documented exit code, nothing acknowledged lost, and the same command goes on when there is
//! space again.
//!
//! The disk is a small file system of its own, mounted where only the test sees it. Where the machine does
//! not allow that (some containers), a bound on the size of files and plain permissions take its place: what
//! runcue says of them differs, what it keeps does not.

use std::process::{Command, Stdio};

use crate::sandbox::{Ended, Sandbox};

/// Short jobs that leave a line each.
const FILE: &str = r#"
tasks:
  note: {run: [sh, -c, "echo {item} >> $LEDGER; head -c 2000 /dev/zero | tr '\\0' x; sleep 0.02"]}
jobs:
  - {id: note, task: note, for_each: {from: 1, to: 150}}
"#;

/// What every script begins with: `r` runs the binary and notes its exit code, `free` and `fill` are the
/// disk's.
const DISK: &str = r#"
r() { code=0; "$RUNCUE" "$@" || code=$?; echo "exit $code"; }
mkdir disk
mount -t tmpfs -o size=6m none disk
cd disk
fill() { dd if=/dev/zero of=../disk/fill bs=1k 2>/dev/null || true; }
free() { rm fill; }
"#;

fn can_mount() -> bool {
    let probe =
        Command::new("unshare").args(["-rm", "mount", "-t", "tmpfs", "none", "/mnt"]).output();
    probe.is_ok_and(|probe| probe.status.success())
}

/// Runs a script where its mounts are its own.
fn script(sandbox: &Sandbox, text: &str) -> Ended {
    sandbox.write("file.yaml", FILE);
    sandbox.write("ledger", "");
    let mut shell = sandbox.command(&[]);
    let environment: Vec<_> = shell
        .get_envs()
        .map(|(name, value)| (name.to_owned(), value.map(ToOwned::to_owned)))
        .collect();
    shell = Command::new(if can_mount() { "unshare" } else { "sh" });
    if can_mount() {
        shell.args(["-rm", "sh"]);
    }
    for (name, value) in environment {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell
        .args(["-eu", "-c", text])
        .current_dir(sandbox.path())
        .env("RUNCUE", env!("CARGO_BIN_EXE_runcue"))
        .env("LEDGER", sandbox.path().join("ledger"))
        .stdin(Stdio::null());
    shell.output().unwrap().into()
}

/// The lines of the ledger, sorted by number.
fn ledger(sandbox: &Sandbox) -> Vec<u32> {
    let mut lines: Vec<u32> = sandbox.read("ledger").lines().map(|n| n.parse().unwrap()).collect();
    lines.sort_unstable();
    lines
}

fn all() -> Vec<u32> {
    (1..=150).collect()
}

#[test]
fn a_full_disk_is_named_with_the_fix_and_loses_nothing() {
    let sandbox = Sandbox::new();
    let (disk, full) = if can_mount() {
        (DISK, "fill")
    } else {
        (
            "r() { code=0; (eval \"$bound\"; exec \"$RUNCUE\" \"$@\") || code=$?; echo \"exit $code\"; }
             bound=; mkdir disk; cd disk; free() { bound=; }\n",
            "bound='trap \"\" XFSZ; ulimit -f 40'",
        )
    };
    let ended = script(
        &sandbox,
        &format!(
            "{disk}
            id=$(\"$RUNCUE\" add -- sh -c 'echo 0 >> $LEDGER')
            {full}
            r add -- true 2>&1
            r run ../file.yaml 2>&1
            r work --drain 2>&1
            free
            echo freed
            test \"$(\"$RUNCUE\" list --json | grep -c queued)\" -ge 1
            \"$RUNCUE\" show $id --json | grep -q '\"state\": *\"queued\"'
            r run ../file.yaml --jobs 4 2>/dev/null
            r work --drain 2>/dev/null
            \"$RUNCUE\" doctor | grep -q 'stored data agrees'"
        ),
    );
    let told = ended.ok();
    let (before, after) = told.split_once("freed\n").unwrap();
    assert_eq!(before.matches("exit 1").count(), 3, "{told}");
    if can_mount() {
        let full = "error: the disk that holds .runcue/queue.db is full; free some space, nothing acknowledged is lost\nexit 1\n";
        assert_eq!(before, full.repeat(3));
    }
    assert_eq!(after.matches("exit 0").count(), 2, "{told}");
    assert_eq!(ledger(&sandbox), (0..=150).collect::<Vec<_>>(), "each once");
}

#[test]
fn a_run_whose_disk_fills_up_waits_and_goes_on_when_there_is_space() {
    let sandbox = Sandbox::new();
    if !can_mount() {
        return ends_and_is_run_again(&sandbox);
    }
    let ended = script(
        &sandbox,
        &format!(
            "{DISK}
            until_there() {{ n=0; until eval \"$1\"; do n=$((n+1)); test $n -lt 600; sleep 0.1; done; }}
            \"$RUNCUE\" run ../file.yaml --jobs 2 >../told 2>&1 &
            until_there 'test \"$(grep -c . ../ledger)\" -gt 20'
            fill
            until_there 'grep -q \"is full; free some space\" ../told'
            r add -- true 2>&1
            free
            wait $!
            \"$RUNCUE\" doctor | grep -q 'stored data agrees'"
        ),
    );
    let told = ended.ok();
    assert!(told.contains("exit 1") && told.contains("is full; free some space"), "{told}");
    let told = sandbox.read("told");
    assert_eq!(told.matches("is full").count(), 1, "one line, not one per try: {told}");
    assert!(told.contains("goes on by itself"), "{told}");
    assert!(told.contains("150 of 150 jobs completed"), "{told}");
    assert_eq!(ledger(&sandbox), all(), "each once");
}

/// Where files cannot grow and nothing can be done about it, the run is killed and begun again.
fn ends_and_is_run_again(sandbox: &Sandbox) {
    let ended = script(
        sandbox,
        "mkdir disk; cd disk
        (trap '' XFSZ; ulimit -f 700; exec timeout -s KILL 10 \"$RUNCUE\" run ../file.yaml >../told 2>&1) || true
        \"$RUNCUE\" run ../file.yaml --jobs 4 2>&1",
    );
    assert!(ended.ok().contains("150 of 150 jobs completed"));
    let mut ran = ledger(sandbox);
    ran.dedup();
    assert_eq!(ran, all());
}

#[test]
fn a_read_only_disk_is_named_with_the_fix_and_the_queue_goes_on_later() {
    let sandbox = Sandbox::new();
    let (close, open) = if can_mount() {
        (
            "mount --bind disk disk; mount -o remount,bind,ro disk; cd disk",
            "mount -o remount,bind,rw .",
        )
    } else {
        // Permissions do not hold for the superuser, so it becomes somebody else.
        (
            "chmod -R a-w disk; cp \"$RUNCUE\" runcue; chmod 755 . runcue; RUNCUE=\"$PWD/runcue\"; cd disk
             test $(id -u) -ne 0 || RUNCUE_AS='setpriv --reuid 65534 --clear-groups'",
            "chmod -R u+w .; RUNCUE_AS=",
        )
    };
    let ended = script(
        &sandbox,
        &format!(
            "RUNCUE_AS=
            r() {{ code=0; $RUNCUE_AS \"$RUNCUE\" \"$@\" || code=$?; echo \"exit $code\"; }}
            mkdir disk; (cd disk; \"$RUNCUE\" add -- sh -c 'echo 0 >> $LEDGER' >/dev/null)
            {close}
            r add -- true 2>&1
            r run ../file.yaml 2>&1
            r work --drain 2>&1
            r doctor
            cd ..; cd disk
            {open}
            echo opened
            r work --drain 2>/dev/null"
        ),
    );
    let told = ended.ok();
    let (before, after) = told.split_once("opened\n").unwrap();
    assert_eq!(before.matches("exit 1").count(), 4, "{told}");
    assert_eq!(before.matches("error: .runcue/queue.db cannot be written: ").count(), 3, "{told}");
    assert_eq!(before.matches("help: check who owns the file").count(), 4, "{told}");
    assert!(before.contains("BAD      permissions"), "{told}");
    if can_mount() {
        assert!(before.contains("mounted read-only; mount it for writing"), "{told}");
    }
    assert!(after.contains("exit 0"), "{told}");
    assert_eq!(ledger(&sandbox), [0]);
}
