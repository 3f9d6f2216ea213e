//! What a person reads when something does not work: one line that says what, one that says what to do.

use crate::sandbox::Sandbox;

#[test]
fn a_store_that_cannot_be_opened_says_why_and_what_can() {
    let sandbox = Sandbox::new();
    for kind in runcue::Kind::ALL.into_iter().filter(|kind| !kind.is_built()) {
        let told = sandbox.run(&["--store", kind.example(), "status"]).refused(1);
        assert!(told.contains("not part of this build"), "{told}");
        assert!(told.contains("help: build it with") && told.contains("--features"), "{told}");
    }
    let told = sandbox.run(&["--store", "mysql://db", "status"]).refused(2);
    assert!(told.contains("sqlite:") && told.contains("memory:"), "{told}");
}

#[test]
fn the_flag_goes_before_the_environment_and_that_before_the_file() {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path().join(".runcue")).unwrap();
    sandbox.write(".runcue/config.toml", "store = \"sqlite:from-file.db\"\n");
    sandbox.add(&["--", "true"]);
    assert!(sandbox.path().join("from-file.db").exists());
    let mut with_env = sandbox.command(&["add", "--", "true"]);
    assert!(with_env.env("RUNCUE_STORE", "from-env.db").output().unwrap().status.success());
    assert!(sandbox.path().join("from-env.db").exists());
    let mut with_flag = sandbox.command(&["--store", "from-flag.db", "add", "--", "true"]);
    assert!(with_flag.env("RUNCUE_STORE", "from-env-2.db").output().unwrap().status.success());
    assert!(sandbox.path().join("from-flag.db").exists());
    assert!(!sandbox.path().join("from-env-2.db").exists());
}

#[test]
fn a_bad_config_file_is_named() {
    let sandbox = Sandbox::new();
    sandbox.write("c.toml", "stor = \"x\"\n");
    let told = sandbox.run(&["--config", "c.toml", "status"]).refused(2);
    assert!(told.contains("c.toml") && told.contains("stor"), "{told}");
}

#[test]
fn a_file_that_is_no_queue_is_refused() {
    let sandbox = Sandbox::new();
    sandbox.write("text.db", &"this is no database at all\n".repeat(200));
    let told = sandbox.run(&["--store", "text.db", "status"]).refused(1);
    assert!(told.contains("text.db"), "{told}");
}

#[test]
fn a_misspelt_verb_or_flag_is_answered_with_the_nearest() {
    let sandbox = Sandbox::new();
    let told = sandbox.run(&["stauts"]).refused(2);
    assert!(told.contains("status"), "{told}");
    let told = sandbox.run(&["add", "--grup", "g", "--", "true"]).refused(2);
    assert!(told.contains("--group"), "{told}");
}

#[test]
fn a_bad_duration_rate_or_priority_says_what_to_write() {
    let sandbox = Sandbox::new();
    let told = sandbox.run(&["add", "--in", "soon", "--", "true"]).refused(2);
    assert!(told.contains("5m"), "{told}");
    let told = sandbox.run(&["services", "set", "api", "--rate", "sixty"]).refused(2);
    assert!(told.contains("60/min"), "{told}");
    let told = sandbox.run(&["add", "--priority", "hihg", "--", "true"]).refused(2);
    assert!(told.contains("did you mean high?"), "{told}");
}

#[test]
fn nothing_to_add_is_wrong_usage() {
    let sandbox = Sandbox::new();
    let told = sandbox.run(&["add"]).refused(2);
    assert!(told.contains("help: write `runcue add -- COMMAND"), "{told}");
    assert!(!sandbox.path().join(".runcue").exists());
}
