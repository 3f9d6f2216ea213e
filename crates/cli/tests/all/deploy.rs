//! The files of `deploy/`: what they tell `runcue` is understood by it, and what they name is there. That they do what
//! they are for has to be tried by hand, with an engine and a service manager.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Parser;
use runcue_cli::cli::{Cli, Verb};
use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The words of an instruction of the container file that is written as a list, the last of its kind.
fn listed(file: &str, instruction: &str) -> Vec<String> {
    let list = file.lines().rev().find_map(|line| line.strip_prefix(instruction)).unwrap();
    serde_json::from_str(list).unwrap()
}

/// The verb that these words are understood as; the first is the program.
#[track_caller]
fn verb<'a>(words: impl IntoIterator<Item = &'a str>) -> Verb {
    let words: Vec<&str> = words.into_iter().collect();
    assert!(words[0].ends_with("runcue"), "{words:?}");
    Cli::try_parse_from(&words).unwrap_or_else(|error| panic!("{words:?}: {error}")).verb
}

/// Every source of the command line, as one text.
fn sources() -> String {
    let mut open = vec![root().join("crates/cli/src")];
    let mut text = String::new();
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else {
            text.push_str(&fs::read_to_string(&path).unwrap());
        }
    }
    text
}

/// A variable that nobody reads is a mistake that nobody sees.
#[track_caller]
fn is_read(name: &str) {
    assert!(sources().contains(&format!("\"{name}\"")), "nothing reads {name}");
}

/// The words of a list in YAML.
fn words(list: &Value) -> Vec<&str> {
    list.as_array().into_iter().flatten().map(|word| word.as_str().unwrap()).collect()
}

fn compose() -> Value {
    serde_saphyr::from_str(&read("deploy/compose.yaml")).unwrap()
}

/// The services that run our image.
fn ours(compose: &Value) -> Vec<(&String, &Value)> {
    let services = compose["services"].as_object().unwrap();
    services.iter().filter(|(_, service)| service["image"] == "runcue").collect()
}

#[test]
fn the_image_runs_a_verb_and_sets_what_is_read() {
    let file = read("deploy/Containerfile");
    let start = [listed(&file, "ENTRYPOINT "), listed(&file, "CMD ")].concat();
    let runcue = start.iter().skip_while(|word| *word != "runcue").map(String::as_str);
    assert!(matches!(verb(runcue), Verb::Serve(_)));
    let last = file.rsplit("\nFROM ").next().unwrap();
    let set = last.lines().find_map(|line| line.strip_prefix("ENV ")).unwrap();
    for pair in set.split(' ') {
        is_read(pair.split_once('=').unwrap().0);
    }
}

#[test]
fn the_image_is_built_with_the_compiler_of_the_workspace_from_what_is_sent() {
    let file = read("deploy/Containerfile");
    let toolchain = read("rust-toolchain.toml");
    let channel = toolchain.lines().find_map(|line| line.strip_prefix("channel = ")).unwrap();
    assert!(file.contains(&format!("/rust:{}-bookworm ", channel.trim_matches('"'))), "{channel}");
    let sent = read(".dockerignore");
    let sent: BTreeSet<&str> = sent.lines().filter_map(|line| line.strip_prefix('!')).collect();
    for name in &sent {
        assert!(root().join(name).exists(), "{name}");
    }
    let copied = file.lines().filter_map(|line| line.strip_prefix("COPY "));
    for line in copied.filter(|line| !line.starts_with("--from") && !line.starts_with(". ")) {
        let mut paths: Vec<&str> = line.split(' ').collect();
        paths.pop();
        for path in paths {
            assert!(root().join(path).exists(), "{path}");
            assert!(sent.contains(path.split('/').next().unwrap()), "{path} is not sent");
        }
    }
}

#[test]
fn the_compose_file_says_what_runcue_understands() {
    let compose = compose();
    let ours = ours(&compose);
    let verbs: Vec<Verb> = ours
        .iter()
        .map(|(_, service)| verb(["runcue"].into_iter().chain(words(&service["command"]))))
        .collect();
    assert_eq!(verbs.iter().filter(|verb| matches!(verb, Verb::Serve(_))).count(), 2);
    assert_eq!(verbs.iter().filter(|verb| matches!(verb, Verb::Worker(_))).count(), 1);
    for (_, service) in &ours {
        let set = service["environment"].as_object().unwrap();
        set.keys().for_each(|name| is_read(name));
        let built = service["build"]["dockerfile"].as_str().unwrap();
        assert!(
            root()
                .join("deploy")
                .join(service["build"]["context"].as_str().unwrap())
                .join(built)
                .exists()
        );
    }
}

#[test]
fn every_hub_answers_to_the_names_that_its_workers_call() {
    let compose = compose();
    let after = |service: &Value, flag: &str| -> BTreeSet<String> {
        let words = words(&service["command"]);
        let pairs = words.windows(2).filter(|pair| pair[0] == flag);
        pairs.map(|pair| pair[1].to_owned()).collect()
    };
    let ours = ours(&compose);
    let called: BTreeSet<String> =
        ours.iter().flat_map(|(_, service)| after(service, "--hub")).collect();
    assert_eq!(called.len(), 2, "{called:?}");
    for url in called {
        let name = url.strip_prefix("http://").and_then(|rest| rest.strip_suffix(":3000")).unwrap();
        let (_, hub) = ours.iter().find(|(own, _)| *own == name).unwrap();
        assert!(after(hub, "--host").contains(name), "{name} is refused");
    }
}

#[test]
fn what_the_compose_file_names_is_in_it() {
    let compose = compose();
    let services = compose["services"].as_object().unwrap();
    for (name, service) in services {
        let needs = match &service["depends_on"] {
            Value::Object(needs) => needs.keys().map(String::as_str).collect(),
            list => words(list),
        };
        assert!(needs.iter().all(|need| services.contains_key(*need)), "{name}: {needs:?}");
        for volume in words(&service["volumes"]) {
            let kept = volume.split(':').next().unwrap();
            assert!(compose["volumes"].as_object().unwrap().contains_key(kept), "{name}: {kept}");
        }
    }
}

#[test]
fn the_units_say_what_runcue_understands() {
    for (unit, hub) in
        [("deploy/runcue-hub.service", true), ("deploy/runcue-worker.service", false)]
    {
        let unit = read(unit);
        let start = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
        let understood = verb(start.split(' '));
        assert_eq!(hub, matches!(understood, Verb::Serve(_)), "{start}");
        assert_eq!(!hub, matches!(understood, Verb::Worker(_)), "{start}");
        let set = unit.lines().filter_map(|line| line.strip_prefix("Environment="));
        for pair in set.flat_map(|line| line.split(' ')) {
            is_read(pair.split_once('=').unwrap().0);
        }
    }
}
