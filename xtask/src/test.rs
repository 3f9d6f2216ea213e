//! `cargo xtask test`: everything that must hold before a change is done, one step after the other. The first
//! step that fails ends it.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::arguments::Wanted;
use crate::{Trouble, cargo, dashboard, http, programs, tidy};

const HTTP: &str = "schemathesis asks a hub in every way that its document knows";

/// One step: a name and what is asked of cargo.
struct Step {
    name: &'static str,
    words: Vec<String>,
}

impl Step {
    fn new(name: &'static str, line: &str, rest: &[&str], filters: &[String]) -> Self {
        let mut words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        if !rest.is_empty() || !filters.is_empty() {
            words.push("--".to_owned());
        }
        words.extend(rest.iter().map(|word| (*word).to_owned()));
        words.extend(filters.iter().cloned());
        Self { name, words }
    }

    fn line(&self) -> String {
        format!("cargo {}", self.words.join(" "))
    }
}

fn steps(wanted: &Wanted, nextest: bool) -> Vec<Step> {
    let filters = &wanted.filters[..];
    let tests = match nextest {
        true => "nextest run --workspace --locked",
        false => "test --workspace --locked --tests --lib --bins",
    };
    let lints = "clippy --workspace --all-targets --locked";
    vec![
        Step::new("format", "fmt --all --check", &[], &[]),
        Step::new("lints", lints, &["-D", "warnings"], &[]),
        Step::new("tests", tests, &[], filters),
        Step::new("doc tests", "test --workspace --doc --locked", &[], filters),
    ]
}

/// How long each step took, for the summary.
#[derive(Default)]
struct Summary {
    lines: Vec<(&'static str, bool, Duration)>,
}

impl Summary {
    /// Does one step, announced with what it is.
    fn step(
        &mut self,
        name: &'static str,
        line: &str,
        step: impl FnOnce() -> Result<(), Trouble>,
    ) -> Result<(), Trouble> {
        println!("xtask: {name}: {line}");
        let start = Instant::now();
        let done = step();
        let took = start.elapsed();
        let word = if done.is_ok() { "ok" } else { "FAILED" };
        println!("xtask: {name}: {word} after {:.1} s", took.as_secs_f64());
        self.lines.push((name, done.is_ok(), took));
        done
    }

    fn print(&self) {
        let all: Duration = self.lines.iter().map(|(_, _, took)| *took).sum();
        println!();
        for (name, fine, took) in &self.lines {
            let word = if *fine { "ok" } else { "FAILED" };
            println!("  {name:<12} {word:<6} {:>8.1} s", took.as_secs_f64());
        }
        let fine = self.lines.iter().all(|(_, fine, _)| *fine);
        let word = if fine { "ok" } else { "FAILED" };
        println!("  {:<12} {word:<6} {:>8.1} s", "all", all.as_secs_f64());
    }
}

/// Runs every step.
pub fn run(root: &Path, wanted: &Wanted) -> Result<(), Trouble> {
    programs::ensure(root)?;
    let nextest = cargo::has(root, "nextest");
    if !nextest {
        println!("xtask: cargo-nextest is not installed, so cargo test runs the tests");
    }
    let mut summary = Summary::default();
    let mut done = Ok(());
    for step in steps(wanted, nextest) {
        done = summary.step(step.name, &step.line(), || call(root, &step, wanted.long));
        if done.is_err() {
            break;
        }
    }
    // A filter picks tests by their names in Rust; these have none.
    if done.is_ok() && wanted.filters.is_empty() {
        done = summary.step("http", HTTP, || http::test(root));
    }
    if done.is_ok() && wanted.filters.is_empty() {
        let line = "npm: types, logic, and every page in Chromium";
        done = summary.step("dashboard", line, || dashboard::test(root));
    }
    if done.is_ok() {
        done = summary.step("house rules", "cargo xtask tidy", || tidy(root));
    }
    summary.print();
    done
}

/// Builds the hub and asks it in every way alone.
pub fn http_alone(root: &Path) -> Result<(), Trouble> {
    let build = Step::new("build", "build -p runcue-cli --locked", &[], &[]);
    call(root, &build, false)?;
    Summary::default().step("http", HTTP, || http::test(root))
}

/// Runs the house rules alone.
pub fn tidy_alone(root: &Path) -> Result<(), Trouble> {
    Summary::default().step("house rules", "every .rs file", || tidy(root))
}

fn call(root: &Path, step: &Step, long: bool) -> Result<(), Trouble> {
    let mut command = cargo::cargo(root);
    command.args(&step.words);
    if long {
        command.env("RUNCUE_LONG", "1");
    }
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err(Trouble::Failed),
        Err(error) => Err(Trouble::Refused(format!("cargo could not be started: {error}"))),
    }
}

fn tidy(root: &Path) -> Result<(), Trouble> {
    let found = tidy::check(root)
        .map_err(|error| Trouble::Refused(format!("the sources cannot be read: {error}")))?;
    for complaint in &found.complaints {
        println!("{complaint}");
    }
    println!("files looked at: {}, complaints: {}", found.files, found.complaints.len());
    if found.complaints.is_empty() { Ok(()) } else { Err(Trouble::Failed) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(wanted: &Wanted, nextest: bool) -> Vec<String> {
        steps(wanted, nextest).iter().map(Step::line).collect()
    }

    #[test]
    fn the_steps_come_cheapest_first_and_are_locked() {
        let lines = lines(&Wanted::default(), true);
        assert_eq!(
            lines,
            [
                "cargo fmt --all --check",
                "cargo clippy --workspace --all-targets --locked -- -D warnings",
                "cargo nextest run --workspace --locked",
                "cargo test --workspace --doc --locked",
            ]
        );
    }

    #[test]
    fn without_nextest_cargo_runs_the_same_tests() {
        let lines = lines(&Wanted::default(), false);
        assert_eq!(lines[2], "cargo test --workspace --locked --tests --lib --bins");
    }

    #[test]
    fn filters_go_to_the_tests_and_to_nothing_else() {
        let wanted = Wanted { long: false, filters: vec!["lease".into(), "claim".into()] };
        let lines = lines(&wanted, true);
        assert_eq!(lines[1], "cargo clippy --workspace --all-targets --locked -- -D warnings");
        assert!(lines[2].ends_with("--locked -- lease claim"), "{}", lines[2]);
        assert!(lines[3].ends_with("--locked -- lease claim"), "{}", lines[3]);
    }

    #[test]
    fn a_failed_step_fails_the_summary() {
        let mut summary = Summary::default();
        assert_eq!(summary.step("a", "", || Ok(())), Ok(()));
        assert_eq!(summary.step("b", "", || Err(Trouble::Failed)), Err(Trouble::Failed));
        assert_eq!(
            summary.lines.iter().map(|(_, fine, _)| *fine).collect::<Vec<_>>(),
            [true, false]
        );
    }
}
