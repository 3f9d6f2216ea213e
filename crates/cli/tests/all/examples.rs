//! The examples of the repository, run as a reader of the README would run them.

use std::path::{Path, PathBuf};

use crate::sandbox::Sandbox;

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name)
}

fn completes(name: &str, jobs: &str) {
    let sandbox = Sandbox::new();
    let path = example(name);
    let run = sandbox.run(&["run", path.to_str().unwrap()]);
    assert_eq!(run.code, 0, "{name}: {} {}", run.stdout, run.stderr);
    let said = format!("{}{}", run.stdout, run.stderr);
    assert!(said.contains(&format!("{jobs} of {jobs} jobs completed")), "{name}: {said}");
}

#[test]
fn the_pipeline_completes() {
    completes("pipeline.yaml", "33");
}

#[test]
fn the_sweep_completes() {
    completes("sweep.yaml", "13");
}

#[test]
fn the_backup_completes() {
    completes("backup.toml", "8");
}
