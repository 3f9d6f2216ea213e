//! Bad addresses, rights, settings and servers: one clear line each, which names the fix. And what the server's
//! settings mean for what it has acknowledged.

use runcue_store::{ClaimRequest, Finish, Store, StoreError, SubmitBatch};
use runcue_store_suite::scene::{BEGINNING, done, job, worker};
use runcue_test_servers::Redis;

fn why(url: &str) -> String {
    let line = runcue_store_redis::open_url(url).unwrap_err().to_string();
    assert_eq!(line.lines().count(), 1, "{line}");
    line
}

fn has(line: &str, words: &[&str]) {
    for word in words {
        assert!(line.contains(word), "{word:?} is not in {line:?}");
    }
}

#[test]
fn nothing_listens_there() {
    let server = Redis::settings().start().unwrap();
    let url = server.url();
    drop(server);
    has(&why(&url), &["nothing listens at", &url, "start the server"]);
}

#[test]
fn a_host_that_does_not_exist_is_named() {
    has(&why("redis://no-such-host.invalid:1/0"), &["no-such-host.invalid"]);
}

#[test]
fn a_password_is_missing_or_wrong() {
    let server = Redis::settings().password("secret").start().unwrap();
    let url = server.url();
    has(&why(&url.replace(":secret@", "")), &["wants a password", "redis://:PASSWORD@HOST"]);
    let line = why(&url.replace("secret", "wrong"));
    has(&line, &["refuses the user name or password"]);
    assert!(!line.contains("wrong"), "{line}");
    runcue_store_redis::open_url(&url).unwrap();
}

#[test]
fn a_password_where_none_is_wanted_is_named() {
    let server = Redis::settings().start().unwrap();
    let url = server.url().replace("redis://", "redis://:needless@");
    has(&why(&url), &["refuses the user name or password"]);
}

#[tokio::test]
async fn rights_are_missing() {
    let server = Redis::settings().start().unwrap();
    let user = |rights: &[&str]| {
        let words = [&["ACL", "SETUSER", "me", "reset", "on", ">pass"][..], rights].concat();
        assert_eq!(server.command(&words).unwrap(), "+OK");
    };
    let url = server.url().replace("redis://", "redis://me:pass@");
    user(&["~runcue:*", "&runcue:*", "+@all", "-eval", "-evalsha"]);
    let store = runcue_store_redis::open_url(&url).unwrap();
    let line =
        store.submit(BEGINNING, SubmitBatch::of(vec![job(1)])).await.unwrap_err().to_string();
    has(&line, &["may not do this", "ACL SETUSER"]);
    user(&["~other:*", "+@all"]);
    has(&why(&url), &["may not do this", "ACL SETUSER"]);
    // What the message advises is enough.
    user(&["~runcue:*", "&runcue:*", "+@all", "-@dangerous", "+info"]);
    let store = runcue_store_redis::open_url(&url).unwrap();
    store.submit(BEGINNING, SubmitBatch::of(vec![job(1)])).await.unwrap();
    assert!(store.durability().contains("does not say"), "{}", store.durability());
}

#[tokio::test]
async fn news_are_found_by_looking_where_they_may_not_be_sent() {
    let server = Redis::settings().start().unwrap();
    let words = ["ACL", "SETUSER", "me", "reset", "on", ">pass", "~*", "resetchannels", "+@all"];
    assert_eq!(server.command(&words).unwrap(), "+OK");
    let url = server.url().replace("redis://", "redis://me:pass@");
    let one = runcue_store_redis::open_url(&url).unwrap();
    let two = runcue_store_redis::open_url(&url).unwrap();
    let version = one.changed(0).await;
    two.submit(BEGINNING, SubmitBatch::of(vec![job(1)])).await.unwrap();
    let changed = tokio::time::timeout(std::time::Duration::from_secs(30), one.changed(version));
    changed.await.unwrap();
}

#[test]
fn data_of_a_newer_runcue_is_left_alone() {
    let server = Redis::settings().start().unwrap();
    server.command(&["HSET", "runcue:{default}:meta", "schema", "99"]).unwrap();
    let error = runcue_store_redis::open_url(&server.url()).unwrap_err();
    assert!(
        matches!(error, StoreError::Newer { found: 99, known: runcue_store_redis::SCHEMA, .. }),
        "{error:?}"
    );
}

#[tokio::test]
async fn data_that_becomes_newer_while_it_is_used_is_left_alone() {
    let server = Redis::settings().start().unwrap();
    let store = runcue_store_redis::open_url(&server.url()).unwrap();
    store.submit(BEGINNING, SubmitBatch::of(vec![job(1)])).await.unwrap();
    server.command(&["HSET", "runcue:{default}:meta", "schema", "99"]).unwrap();
    let error = store.submit(BEGINNING, SubmitBatch::of(vec![job(2)])).await.unwrap_err();
    assert!(matches!(error, StoreError::Newer { found: 99, .. }), "{error:?}");
}

#[tokio::test]
async fn a_server_without_memory_refuses_whole_commits_and_takes_them_again_later() {
    let server = Redis::settings().start().unwrap();
    let store = runcue_store_redis::open_url(&server.url()).unwrap();
    store.submit(BEGINNING, SubmitBatch::of(vec![job(1)])).await.unwrap();
    assert_eq!(server.command(&["CONFIG", "SET", "maxmemory", "1"]).unwrap(), "+OK");
    let line =
        store.submit(BEGINNING, SubmitBatch::of(vec![job(2)])).await.unwrap_err().to_string();
    has(&line, &["out of memory", "maxmemory"]);
    assert_eq!(server.command(&["CONFIG", "SET", "maxmemory", "0"]).unwrap(), "+OK");
    store.submit(BEGINNING, SubmitBatch::of(vec![job(3)])).await.unwrap();
    assert_eq!(store.stats(BEGINNING).await.unwrap().counts.queued, 2);
    assert_eq!(store.check(BEGINNING).await.unwrap(), Vec::<String>::new());
}

#[test]
fn a_reached_connection_limit_is_named() {
    let server = Redis::settings().set("maxclients", "4").start().unwrap();
    let connect = || std::net::TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    let mut others: Vec<_> = (0..4).map(|_| connect()).collect();
    // The server has counted a connection when it has answered on it.
    for other in &mut others {
        use std::io::{Read, Write};
        other.write_all(b"PING\r\n").unwrap();
        other.read_exact(&mut [0; 7]).unwrap();
    }
    has(&why(&server.url()), &["as many", "as it may", "raise its maxclients"]);
    drop(others);
}

#[tokio::test]
async fn a_replica_is_named_as_one() {
    let primary = Redis::settings().start().unwrap();
    let replica = Redis::settings().start().unwrap();
    let port = primary.port().to_string();
    assert_eq!(replica.command(&["REPLICAOF", "127.0.0.1", &port]).unwrap(), "+OK");
    has(&why(&replica.url()), &["read-only replica", "primary"]);
}

#[tokio::test]
async fn a_server_that_cannot_save_says_so() {
    let settings = Redis::settings().set("appendonly", "no").set("save", "3600 1");
    let server = settings.set("dbfilename", "taken").start().unwrap();
    let store = runcue_store_redis::open_url(&server.url()).unwrap();
    store.submit(BEGINNING, SubmitBatch::of(vec![job(1)])).await.unwrap();
    // A directory where the snapshot should go cannot be replaced by a file.
    let taken = server.directory().join("taken");
    std::fs::create_dir_all(taken.join("by a directory")).unwrap();
    let saved = server.command(&["SAVE"]).unwrap();
    assert!(saved.starts_with('-'), "{saved}");
    server.command(&["BGSAVE"]).unwrap();
    let mut line = String::new();
    for n in 2..500 {
        match store.submit(BEGINNING, SubmitBatch::of(vec![job(n)])).await {
            Ok(_) => {}
            Err(error) => {
                line = error.to_string();
                break;
            }
        }
    }
    has(&line, &["cannot save its data", "disk"]);
}

#[test]
fn tls_with_a_server_that_has_none_is_named() {
    let server = Redis::settings().start().unwrap();
    let line = why(&server.url().replace("redis://", "rediss://"));
    has(&line, &["does not answer", "use redis:// if the server has no TLS"]);
}

/// Makes a certificate for 127.0.0.1 that nobody has signed.
fn certificate(directory: &std::path::Path) -> (String, String) {
    let path = |name: &str| directory.join(name).display().to_string();
    let (key, certificate) = (path("key.pem"), path("certificate.pem"));
    let made = std::process::Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"])
        .args(["-nodes", "-days", "2", "-subj", "/CN=runcue", "-addext"])
        .args(["subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=critical,CA:FALSE"])
        .args(["-keyout", &key, "-out", &certificate])
        .output()
        .unwrap_or_else(|error| panic!("openssl: {error}: apt-get install openssl"));
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    (key, certificate)
}

#[test]
fn a_certificate_is_trusted_if_it_is_known_and_named_if_it_is_not() {
    // This test runs itself as a program on a machine that knows the certificate.
    if let Some(url) = std::env::var_os("RUNCUE_TEST_TLS_URL") {
        runcue_store_redis::open_url(&url.to_string_lossy()).unwrap();
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (key, certificate) = certificate(directory.path());
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let _server = Redis::settings()
        .set("tls-port", &port.to_string())
        .set("tls-cert-file", &certificate)
        .set("tls-key-file", &key)
        .set("tls-ca-cert-file", &certificate)
        .set("tls-auth-clients", "no")
        .start()
        .unwrap();
    let url = format!("rediss://127.0.0.1:{port}/0");
    has(&why(&url), &["TLS failed", "make its certificate known to this machine"]);
    let name = "refusals::a_certificate_is_trusted_if_it_is_known_and_named_if_it_is_not";
    let known = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name])
        .env("RUNCUE_TEST_TLS_URL", &url)
        .env("SSL_CERT_FILE", &certificate)
        .output()
        .unwrap();
    assert!(known.status.success(), "{}", String::from_utf8_lossy(&known.stdout));
}

#[test]
fn a_database_that_is_not_there_is_named() {
    let server = Redis::settings().start().unwrap();
    has(&why(&server.url().replace("/0", "/99")), &["no database of that number"]);
}

#[test]
fn keys_of_another_program_are_left_alone() {
    let server = Redis::settings().start().unwrap();
    server.command(&["SET", "runcue:{default}:meta", "mine"]).unwrap();
    has(&why(&server.url()), &["another program", "?prefix=NAME"]);
}

#[test]
fn a_server_that_throws_keys_away_is_refused_unless_that_is_accepted() {
    let server = Redis::settings().set("maxmemory-policy", "allkeys-lru").start().unwrap();
    has(&why(&server.url()), &["allkeys-lru", "noeviction", "eviction=accept"]);
    runcue_store_redis::open_url(&format!("{}?eviction=accept", server.url())).unwrap();
}

#[test]
fn what_a_crash_can_lose_is_said_in_plain_words() {
    let cases = [
        (&[("appendonly", "yes"), ("appendfsync", "always")][..], "survives power loss"),
        (&[("appendonly", "yes"), ("appendfsync", "everysec")], "last two seconds"),
        (&[("appendonly", "yes"), ("appendfsync", "no")], "last half minute"),
        (&[("appendonly", "no"), ("save", "60 1")], "since the last snapshot"),
        (&[("appendonly", "no"), ("save", "")], "lost when the server stops"),
    ];
    for (lines, words) in cases {
        let settings =
            lines.iter().fold(Redis::settings(), |all, (name, value)| all.set(name, value));
        let server = settings.start().unwrap();
        let store = runcue_store_redis::open_url(&server.url()).unwrap();
        has(store.durability(), &[words]);
    }
}

/// How often transactions took place on a server.
fn transactions(server: &Redis) -> u64 {
    let mut connection = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    let stats: String = redis::cmd("INFO").arg("commandstats").query(&mut connection).unwrap();
    let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_exec:calls="));
    line.map_or(0, |line| line.split(',').next().unwrap().parse().unwrap())
}

/// Submits jobs, works them off, and says how many transactions it took.
async fn worked_off(server: &Redis, jobs: u128) -> u64 {
    let store = runcue_store_redis::open_url(&server.url()).unwrap();
    let batch = SubmitBatch::of((1..=jobs).map(job).collect());
    store.submit(BEGINNING, batch).await.unwrap();
    let mut left = jobs;
    while left > 0 {
        let claimed = store.claim(BEGINNING, ClaimRequest::new(worker(1), 50)).await.unwrap().jobs;
        left -= claimed.len() as u128;
        let end = |(_, lease)| Finish { lease, outcome: done() };
        store.finish(BEGINNING, claimed.into_iter().map(end).collect()).await.unwrap();
    }
    let stats = store.stats(BEGINNING).await.unwrap();
    assert_eq!(u128::from(stats.counts.completed), jobs);
    assert_eq!(store.check(BEGINNING).await.unwrap(), Vec::<String>::new());
    transactions(server)
}

#[tokio::test]
async fn many_jobs_go_by_transactions_and_a_server_that_forbids_these_is_used_with_scripts() {
    let server = Redis::settings().start().unwrap();
    assert!(worked_off(&server, 300).await >= 10);
    let server = Redis::settings().start().unwrap();
    server.command(&["ACL", "SETUSER", "default", "-@transaction"]).unwrap();
    assert_eq!(worked_off(&server, 300).await, 0);
    let server = Redis::settings().start().unwrap();
    server.command(&["ACL", "SETUSER", "default", "-multi"]).unwrap();
    // Whether it may is tried once.
    assert_eq!(worked_off(&server, 300).await, 1);
}

/// The commands of the transaction that was not begun are carried out one by one.
#[tokio::test]
async fn a_commit_from_which_the_right_to_be_a_transaction_is_taken_is_written_once() {
    for rights in ["-multi", "-@transaction"] {
        let server = Redis::settings().start().unwrap();
        let store = runcue_store_redis::open_url(&server.url()).unwrap();
        store.submit(BEGINNING, SubmitBatch::of((1..=20).map(job).collect())).await.unwrap();
        let mut ends = Vec::new();
        for n in 0..10 {
            if n == 5 {
                assert!(transactions(&server) > 0);
                server.command(&["ACL", "SETUSER", "default", rights]).unwrap();
            }
            let claimed = store.claim(BEGINNING, ClaimRequest::new(worker(1), 2)).await.unwrap();
            assert_eq!(claimed.jobs.len(), 2);
            assert!(claimed.jobs.iter().all(|(job, _)| job.life.attempt == 1));
            let end = |(_, lease)| Finish { lease, outcome: done() };
            ends.extend(claimed.jobs.into_iter().map(end));
        }
        store.finish(BEGINNING, ends).await.unwrap();
        assert_eq!(store.stats(BEGINNING).await.unwrap().counts.completed, 20);
        assert_eq!(store.check(BEGINNING).await.unwrap(), Vec::<String>::new());
        assert_eq!(store.trouble(), None);
    }
}
