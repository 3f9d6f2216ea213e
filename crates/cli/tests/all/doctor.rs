//! `doctor` where something is wrong: it says BAD or warns, names the fix, and ends with 1 only for what is bad.

use std::time::Duration;

use runcue_core::{Capabilities, Timestamp};
use runcue_store::WorkerSpec;
use runcue_store_suite::scene::{Scene, worker};
use serde_json::Value;

use crate::sandbox::{Ended, Sandbox};

/// What was found under a name: the verdict, the words, the fix. Panics if nothing of that name was.
#[track_caller]
fn check(found: &Value, name: &str) -> [String; 3] {
    let checks = found["checks"].as_array().unwrap();
    let check = checks.iter().find(|check| check["name"] == name);
    let check = check.unwrap_or_else(|| panic!("nothing about {name} in {found}"));
    ["verdict", "detail", "help"].map(|field| check[field].as_str().unwrap_or("").to_owned())
}

fn found(ended: &Ended) -> Value {
    serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:?}"))
}

/// A queue with a job that is done and one that waits, damaged from outside.
fn is_called_bad(store: &str, damage: impl FnOnce(&Sandbox), says: &str) {
    let sandbox = Sandbox::on(store);
    sandbox.add(&["--group", "g", "--", "true"]);
    sandbox.run(&["work", "--drain", "--quiet"]).ok();
    sandbox.add(&["--group", "g", "--", "true"]);
    let sound = sandbox.run(&["doctor", "--json"]);
    assert_eq!(sound.code, 0, "{sound:?}");
    assert_eq!(check(&found(&sound), "data")[0], "ok", "{sound:?}");
    damage(&sandbox);
    let ended = sandbox.run(&["doctor"]);
    assert_eq!(ended.code, 1, "{ended:?}");
    let lines: Vec<&str> = ended.stdout.lines().collect();
    let place = lines.iter().position(|line| line.starts_with("BAD      data "));
    let place = place.unwrap_or_else(|| panic!("{}", ended.stdout));
    assert!(lines[place].contains("the first: ") && lines[place].contains(says), "{lines:#?}");
    let help = "help: stop the workers and keep a copy of the store before anything else";
    assert_eq!(lines[place + 1].trim(), help);
    let ended = sandbox.run(&["doctor", "--json"]);
    assert_eq!((ended.code, &*check(&found(&ended), "data")[0]), (1, "bad"), "{ended:?}");
}

#[test]
fn a_count_that_is_wrong_in_a_sqlite_file_is_bad() {
    let damage = |sandbox: &Sandbox| {
        let file = rusqlite::Connection::open(sandbox.path().join("q.db")).unwrap();
        // The counts of a group: name, paused, turn, queued, leased, running, completed, …
        let sql = "UPDATE group_run SET body = json_set(body, '$[0][6]', 7)";
        assert!(file.execute(sql, []).unwrap() > 0);
    };
    is_called_bad("sqlite:q.db", damage, "group \"g\" counts");
}

#[cfg(feature = "postgres")]
#[test]
fn a_row_that_is_gone_from_a_postgres_is_bad() {
    let database = runcue_test_servers::postgres().unwrap();
    let damage = |_: &Sandbox| {
        database.sql("DELETE FROM runcue.done").unwrap();
    };
    is_called_bad(&database.url(), damage, "group \"g\" counts");
}

#[cfg(feature = "redis")]
#[test]
fn an_index_that_is_gone_from_a_redis_is_bad() {
    let server = runcue_test_servers::Redis::settings().durable().start().unwrap();
    let damage = |_: &Sandbox| {
        let gone = server.command(&["DEL", "runcue:{default}:id"]).unwrap();
        assert_eq!(gone, ":1");
    };
    is_called_bad(&server.url(), damage, "id has 0 entries for 2 jobs");
}

/// What cannot even be read ends the look at the store, not the answer.
#[test]
fn a_file_that_does_not_read_back_is_bad_and_what_was_found_before_is_told() {
    let sandbox = Sandbox::on("sqlite:q.db");
    sandbox.run(&["services", "set", "api", "--max-concurrent", "1"]).ok();
    let file = rusqlite::Connection::open(sandbox.path().join("q.db")).unwrap();
    assert_eq!(file.execute("UPDATE service SET spec = '?'", []).unwrap(), 1);
    let ended = sandbox.run(&["doctor"]);
    assert_eq!((ended.code, &*ended.stderr), (1, ""), "{ended:?}");
    assert!(ended.stdout.starts_with("ok       version "), "{ended:?}");
    let bad = ended.stdout.lines().find(|line| line.starts_with("BAD      store "));
    assert!(bad.is_some_and(|line| line.contains("q.db") && line.contains("service")), "{ended:?}");
}

#[test]
fn failures_are_warned_of_with_how_to_see_them_and_send_them_round_again() {
    let sandbox = Sandbox::new();
    sandbox.add(&["--max-attempts", "1", "--", "false"]);
    assert_eq!(sandbox.run(&["work", "--drain", "--quiet"]).code, 1);
    let ended = sandbox.run(&["doctor", "--json"]);
    assert_eq!(ended.code, 0, "a warning is no failure: {ended:?}");
    let [verdict, detail, help] = check(&found(&ended), "failures");
    assert_eq!((&*verdict, &*detail), ("warning", "1 job failed or quarantined"));
    let words = help.split('`').nth(1).unwrap().strip_prefix("runcue ").unwrap().to_owned();
    let listed = sandbox.run(&words.split(' ').collect::<Vec<_>>()).ok();
    assert!(listed.contains("quarantined"), "the advice shows them: {listed}");
    assert!(help.contains("`runcue retry --failed`"), "{help}");
    assert_eq!(sandbox.run(&["retry", "--failed"]).ok(), "retrying 1 job\n");
    let told = sandbox.run(&["doctor"]).ok();
    assert!(!told.contains("failures"), "{told}");
}

/// Its process is there and has said nothing for two minutes: one that is gone would be seen at once, and its jobs
/// taken back by whoever looks.
#[tokio::test(flavor = "multi_thread")]
async fn jobs_that_a_dead_worker_holds_are_warned_of_until_somebody_takes_them_back() {
    let sandbox = Sandbox::on("sqlite:q.db");
    let id = sandbox.add(&["--", "true"]);
    let url = format!("sqlite:{}", sandbox.path().join("q.db").display());
    let now = Timestamp::from_micros(crate::crash::arena::now()).minus(Duration::from_secs(120));
    let silent = Scene { store: runcue::open(&url).unwrap(), now, worker: worker(7) };
    let spec = WorkerSpec {
        id: worker(7),
        name: "silent".to_owned(),
        host: "elsewhere".to_owned(),
        pid: 1,
        slots: 1,
        offers: Capabilities::default(),
    };
    silent.store.upsert_worker(now, spec).await.unwrap();
    let mut request = silent.request(1);
    (request.lease, request.start) = (Duration::from_secs(60), true);
    assert_eq!(silent.claim_as(request).await.len(), 1, "{id}");
    let seen = found(&sandbox.run(&["doctor", "--json"]));
    let expected = [
        ("leases", "1 lease lapsed and not taken back yet"),
        ("workers", "1 dead, still holding 1 job"),
    ];
    for (name, words) in expected {
        let [verdict, detail, help] = check(&seen, name);
        assert_eq!((&*verdict, &*detail), ("warning", words), "{seen}");
        assert!(help.contains("`runcue work`"), "{help}");
    }
    sandbox.run(&["work", "--drain", "--quiet"]).ok();
    assert_eq!(sandbox.state(&id), "completed", "the advice helps");
    let seen = found(&sandbox.run(&["doctor", "--json"]));
    assert_eq!(check(&seen, "leases")[1], "none has lapsed");
    assert_eq!(check(&seen, "workers")[0], "ok");
    silent.store.close().await.unwrap();
}

#[cfg(all(feature = "postgres", feature = "redis"))]
mod on_servers {
    use runcue_test_servers::{Fault, Postgres, Proxy, Redis};

    use super::{check, found};
    use crate::sandbox::Sandbox;

    #[test]
    fn a_redis_that_may_lose_jobs_is_warned_of_in_plain_words() {
        let cases = [
            (&[("appendonly", "yes"), ("appendfsync", "always")][..], "ok", "survives power loss"),
            (&[("appendonly", "yes"), ("appendfsync", "everysec")], "warning", "last two seconds"),
            (&[("appendonly", "no"), ("save", "")], "warning", "lost when the server stops"),
        ];
        for (settings, verdict, words) in cases {
            let all = Redis::settings();
            let all = settings.iter().fold(all, |all, (name, value)| all.set(name, value));
            let server = all.start().unwrap();
            is_judged(&server.url(), verdict, words);
        }
    }

    #[test]
    fn a_redis_that_does_not_say_what_it_keeps_is_warned_of() {
        let server = Redis::settings().durable().start().unwrap();
        let user = ["ACL", "SETUSER", "me", "reset", "on", ">pass", "~*", "&*", "+@all", "-config"];
        assert_eq!(server.command(&user).unwrap(), "+OK");
        let url = server.url().replace("redis://", "redis://me:pass@");
        is_judged(&url, "warning", "the server does not say");
    }

    #[test]
    fn a_postgres_that_may_lose_jobs_is_warned_of_in_plain_words() {
        let url = |server: &Postgres| server.url();
        let sound = Postgres::settings().durable().start().unwrap();
        is_judged(&url(&sound), "ok", "survives power loss");
        let late = "ALTER DATABASE postgres SET synchronous_commit = off";
        sound.sql(late).unwrap();
        is_judged(&url(&sound), "warning", "the last moments may be lost");
        let careless = Postgres::settings().start().unwrap();
        is_judged(&url(&careless), "warning", "fsync off");
    }

    #[track_caller]
    fn is_judged(url: &str, verdict: &str, words: &str) {
        let sandbox = Sandbox::on(url);
        sandbox.add(&["--cwd", "/", "--", "true"]);
        let ended = sandbox.run(&["doctor", "--json"]);
        assert_eq!(ended.code, 0, "{ended:?}");
        let [found, detail, help] = check(&found(&ended), "durability");
        assert!(found == verdict && detail.contains(words), "{verdict}, {words}: {ended:?}");
        assert_eq!(help.contains("let the server sync"), verdict == "warning", "{help}");
    }

    /// The server goes away under the one who writes, at its look at the data; what can be read was asked before.
    #[test]
    fn a_server_that_goes_away_is_trouble_beside_what_can_be_read() {
        let server = Postgres::settings().durable().start().unwrap();
        let sandbox = Sandbox::on(&server.url());
        sandbox.add(&["--", "true"]);
        let proxy = Proxy::to(server.port()).unwrap();
        proxy.arm_nth(b"SET LOCAL enable_hashjoin", Fault::LoseRequest, 0, true);
        let url = format!("{}?patience=1", server.url_through(&proxy));
        let ended = sandbox.run(&["doctor", "--json", "--store", &url]);
        assert_eq!((ended.code, proxy.faults()), (1, 1), "{ended:?}");
        let seen = found(&ended);
        let [verdict, detail, help] = check(&seen, "trouble");
        assert_eq!(verdict, "bad", "{seen}");
        assert!(detail.contains("not available"), "{detail}");
        assert!(help.contains("goes on trying") && help.contains("see to the server"), "{help}");
        let [_, store, _] = check(&seen, "store");
        assert!(store.contains("with 1 job"), "{store}");
        assert_eq!(check(&seen, "work")[0], "warning", "the rest is told too: {seen}");
        let names = seen["checks"].as_array().unwrap().iter().map(|check| check["name"].clone());
        assert!(!names.into_iter().any(|name| name == "data"), "not said twice: {seen}");
    }
}
