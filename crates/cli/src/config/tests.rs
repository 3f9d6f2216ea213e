//! The config file from the user's side.

use std::fs;

use super::*;

fn no_env(_: &str) -> Option<String> {
    None
}

fn toml(text: &str) -> Result<Config, String> {
    parse(text, Format::Toml, "runcue.toml", &no_env).map_err(|error| error.to_string())
}

#[test]
fn every_key_is_read_from_toml_and_yaml() {
    let config = toml(
        "store = 'sqlite:q.db'\njobs = 4\ndurability = 'full'\nlog = 'debug'\n[retention]\nage = '7d'\ncount = 1000\nfailed = {age = '30d'}\n",
    )
    .unwrap();
    assert_eq!(config.store.as_deref(), Some("sqlite:q.db"));
    assert_eq!(config.jobs, Some(4));
    assert_eq!(config.durability, Some(Durability::Full));
    let retention = config.retention.unwrap();
    assert_eq!(retention.all.count, Some(1000));
    assert_eq!(retention.failed.unwrap().age, Some(Duration::from_secs(30 * 86_400)));
    let yaml = "store: sqlite:q.db\njobs: 4\ndurability: full\nlog: debug\nretention: {age: 7d, count: 1000, failed: {age: 30d}}\n";
    assert_eq!(parse(yaml, Format::Yaml, "c", &no_env).unwrap(), config);
}

#[test]
fn mistakes_are_named_with_line_and_fix() {
    for (text, expected) in [
        ("stor = 'x'", "runcue.toml:1: unknown field \"stor\"; did you mean \"store\"?"),
        ("jobs = 0", "runcue.toml:1: jobs is 0; it must be at least 1"),
        ("\ndurability = 'safe'", "runcue.toml:2: durability is \"safe\"; it must be normal"),
        ("[retention]\nage = 'x'", "runcue.toml:2: retention: age is \"x\", which is no duration"),
        (
            "[retention.failed]\nags = 1",
            "retention.failed: unknown field \"ags\"; did you mean \"age\"?",
        ),
        ("store = ", "runcue.toml:1: not valid TOML"),
    ] {
        let report = toml(text).unwrap_err();
        assert!(report.contains(expected), "{text}\n{report}");
    }
}

#[test]
fn variables_are_filled_in_and_missing_ones_named() {
    let env = |name: &str| match name {
        "DATABASE_URL" => Some("postgres://u:secret@h/db".to_owned()),
        "JOBS" => Some("8".to_owned()),
        "EMPTY" => Some(String::new()),
        _ => None,
    };
    let read = |text: &str| parse(text, Format::Toml, "c.toml", &env).map_err(|e| e.to_string());
    let config =
        read("store = '${DATABASE_URL}?x=1'\njobs = '${JOBS}'\nlog = '${LOG:-warn}-$${x}'")
            .unwrap();
    assert_eq!(config.store.as_deref(), Some("postgres://u:secret@h/db?x=1"));
    assert_eq!(config.jobs, Some(8));
    assert_eq!(config.log.as_deref(), Some("warn-${x}"));
    assert_eq!(read("log = '${EMPTY:-info}'").unwrap().log.as_deref(), Some("info"));
    for (text, expected) in [
        (
            "store = '${NOPE}'",
            "c.toml:1: store: config names NOPE which is not set; set it, or write ${NOPE:-default}",
        ),
        ("store = '${'", "c.toml:1: store: has ${ without }"),
        ("store = '${a b}'", "has ${a b}, which is no variable"),
    ] {
        let report = read(text).unwrap_err();
        assert!(report.contains(expected), "{text}\n{report}");
    }
}

#[test]
fn the_nearest_file_wins_up_to_the_project_root_and_then_the_users_own() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    let deep = root.join("home/project/a/b");
    fs::create_dir_all(&deep).unwrap();
    fs::create_dir_all(root.join("home/.config/runcue")).unwrap();
    let home = root.join("home").display().to_string();
    let env = move |name: &str| (name == "HOME").then(|| home.clone());
    assert_eq!(locate(&deep, &env), None);

    let user = root.join("home/.config/runcue/config.toml");
    fs::write(&user, "store = 'sqlite:u.db'").unwrap();
    assert_eq!(locate(&deep, &env).unwrap().path, user);
    assert_eq!(load(&deep, &env).unwrap().store.as_deref(), Some("sqlite:u.db"));

    let in_home = root.join("home/runcue.yaml");
    fs::write(&in_home, "jobs: 1").unwrap();
    assert_eq!(locate(&deep, &env).unwrap().path, in_home);

    fs::create_dir(root.join("home/project/.git")).unwrap();
    assert_eq!(locate(&deep, &env).unwrap().path, user, "not beyond the git root");

    fs::create_dir(root.join("home/project/.runcue")).unwrap();
    let hidden = root.join("home/project/.runcue/config.toml");
    fs::write(&hidden, "store = 'sqlite:.runcue/q.db'").unwrap();
    assert_eq!(locate(&deep, &env).unwrap().path, hidden);
    let anchored = root.join("home/project/.runcue/q.db");
    assert_eq!(load(&deep, &env).unwrap().store, Some(format!("sqlite:{}", anchored.display())));

    let near = deep.join("runcue.toml");
    fs::write(&near, "store = 'sqlite:n.db'").unwrap();
    assert_eq!(load(&deep, &env).unwrap().store.as_deref(), Some("sqlite:n.db"));
}

#[test]
fn outside_a_project_and_home_only_the_directory_itself_counts() {
    let dir = tempfile::tempdir().unwrap();
    let below = dir.path().join("below");
    fs::create_dir(&below).unwrap();
    fs::write(dir.path().join("runcue.toml"), "jobs = 1").unwrap();
    assert_eq!(locate(&below, &no_env), None);
    assert!(locate(dir.path(), &no_env).is_some());
}

#[test]
fn the_store_is_decided_by_flag_then_environment_then_file_then_default() {
    let set = |name: &str| (name == STORE_VARIABLE).then(|| "memory:".to_owned());
    let empty = |name: &str| (name == STORE_VARIABLE).then(String::new);
    let file = Some("redis://h");
    let resolve = |flag, env, file| {
        let (url, from) = resolve_store(flag, env, file);
        (url.leak() as &str, from)
    };
    assert_eq!(resolve(Some("lmdb:d"), &set, file), ("lmdb:d", StoreFrom::Flag));
    assert_eq!(resolve(None, &set, file), ("memory:", StoreFrom::Env));
    assert_eq!(resolve(None, &empty, file), ("redis://h", StoreFrom::File));
    assert_eq!(resolve(None, &no_env, file), ("redis://h", StoreFrom::File));
    assert_eq!(resolve(None, &no_env, None), (DEFAULT_STORE, StoreFrom::Default));
}
