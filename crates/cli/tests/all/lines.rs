//! What a person reads when a server cannot be used: the real binary, one line that says what is wrong, and the fix.
//!
//! The verb that only looks and the one that works are told the same. Every address has a password in it, which
//! nobody is shown.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};

use runcue_test_servers::{Postgres, Redis};

use crate::crash::arena::Arena;
use crate::crash::patience;
use crate::sandbox::{Ended, Sandbox};

const PASSWORD: &str = "nobody-is-to-read-this";
/// By which nobody else will answer.
const NOWHERE: &str = "no-such-host.invalid";

/// An address that cannot be used, how the process ends, and what is in its lines.
struct Bad {
    what: &'static str,
    url: String,
    code: i32,
    says: &'static str,
    fix: &'static str,
}

impl Bad {
    fn new(what: &'static str, url: String, says: &'static str, fix: &'static str) -> Self {
        Self { what, url, code: 1, says, fix }
    }

    /// It is seen before anything is tried.
    fn usage(self) -> Self {
        Self { code: 2, ..self }
    }

    fn is_told(&self) {
        for words in [&["status"][..], &["work", "--drain"], &["add", "--", "true"]] {
            let ended = Sandbox::on(&self.url).run(words);
            self.judge(words, &ended);
        }
        // A look for what is wrong finds it, and says it among the rest.
        let ended = Sandbox::on(&self.url).run(&["doctor"]);
        assert_eq!(ended.code, self.code, "{}: {ended:?}", self.what);
        let told = ended.stdout + &ended.stderr;
        assert!(told.contains(self.says) && told.contains(self.fix), "{}: {told}", self.what);
        assert!(!told.contains(PASSWORD), "{}: {told}", self.what);
    }

    fn judge(&self, words: &[&str], ended: &Ended) {
        let Self { what, code, says, fix, .. } = self;
        let told = &ended.stderr;
        assert_eq!(ended.code, *code, "{what}: {words:?}: {ended:?}");
        assert_eq!(ended.stdout, "", "{what}: {words:?}");
        let begin = |word: &str| told.lines().filter(|line| line.starts_with(word)).count();
        let (errors, helps) = (begin("error: "), begin("help: "));
        assert_eq!((errors, helps <= 1), (1, true), "{what}: {words:?}: {told}");
        assert_eq!(told.lines().count(), errors + helps, "nothing else: {what}: {words:?}: {told}");
        for word in [says, fix] {
            assert!(told.contains(word), "{what}: {words:?}: {word:?} is not in {told}");
        }
        for word in [PASSWORD, "panicked", "stack backtrace", "RUST_BACKTRACE"] {
            assert!(!told.contains(word), "{what}: {words:?}: {word:?} is in {told}");
        }
    }
}

/// A port of this machine at which nobody listens.
fn free_port() -> u16 {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    free.local_addr().unwrap().port()
}

#[test]
fn every_way_in_which_a_postgres_cannot_be_used_is_one_line_with_the_fix() {
    let server = Postgres::settings().durable().password(PASSWORD).start().unwrap();
    let url = server.url();
    let made = [
        "CREATE DATABASE newer",
        "CREATE DATABASE old",
        "CREATE DATABASE crowded CONNECTION LIMIT 0",
        "CREATE DATABASE bare",
        "CREATE DATABASE read",
        "ALTER DATABASE read SET default_transaction_read_only = on",
    ];
    for sql in made {
        server.sql(sql).unwrap();
    }
    server.sql(&format!("CREATE ROLE somebody LOGIN PASSWORD '{PASSWORD}'")).unwrap();
    let at = |database: &str| url.replace("/postgres", &format!("/{database}"));
    // Limits do not hold for the superuser, and neither do missing rights.
    let as_somebody = |database: &str| at(database).replace("runcue:", "somebody:");
    Sandbox::on(&at("newer")).run(&["migrate"]).ok();
    inside(&at("newer"), "INSERT INTO runcue.schema_version VALUES (99)");
    // Found before PostgreSQL's own, as a server of that version would answer.
    inside(
        &at("old"),
        "CREATE SCHEMA off; \
         CREATE FUNCTION off.current_setting(name text) RETURNS text LANGUAGE sql STABLE AS $$ SELECT CASE name \
         WHEN 'server_version_num' THEN '110022' WHEN 'server_version' THEN '11.22' \
         ELSE pg_catalog.current_setting(name) END $$; \
         ALTER DATABASE old SET search_path = off, pg_catalog, public",
    );
    let elsewhere = |port: u16| format!("postgres://runcue:{PASSWORD}@127.0.0.1:{port}/app");
    let bad = [
        Bad::new(
            "wrong scheme",
            url.replace("postgres:", "postgre:"),
            "postgre: is no kind of store",
            "did you mean postgres:?",
        )
        .usage(),
        Bad::new(
            "unknown setting",
            format!("{url}?colour=red"),
            "colour",
            "write postgres://user@host/database",
        )
        .usage(),
        Bad::new(
            "unknown host",
            format!("postgres://runcue:{PASSWORD}@{NOWHERE}/app"),
            NOWHERE,
            "check that it runs",
        ),
        Bad::new(
            "nothing listening",
            elsewhere(free_port()),
            "cannot be reached",
            "check that it runs",
        ),
        Bad::new(
            "wrong password",
            url.replace(PASSWORD, &format!("{PASSWORD}-either")),
            "password authentication failed",
            "check the user and the password in the address",
        ),
        Bad::new(
            "no password",
            url.replace(&format!(":{PASSWORD}"), ""),
            "password missing",
            "check the user and the password in the address",
        ),
        Bad::new("missing database", at("gone"), "\"gone\" does not exist", "createdb"),
        Bad::new(
            "missing rights",
            as_somebody("bare"),
            "permission denied",
            "grant the user CREATE on the database",
        ),
        Bad::new("only read", at("read"), "the server only reads", "name the primary"),
        Bad::new("newer schema", at("newer"), "99", "newer runcue"),
        Bad::new(
            "no schema",
            format!("{}?migrate=off", at("bare")),
            "the schema is not there",
            "runcue migrate",
        ),
        Bad::new(
            "connection limit",
            as_somebody("crowded"),
            "too many connections",
            "raise max_connections",
        ),
        Bad::new("too old", at("old"), "the server is PostgreSQL 11.22", "upgrade it"),
        Bad::new(
            "no TLS",
            format!("{url}?sslmode=require"),
            "does not speak TLS",
            "sslmode=disable",
        ),
    ];
    for bad in bad {
        bad.is_told();
    }
}

/// Runs SQL in a database of a private server, as its superuser.
fn inside(url: &str, sql: &str) {
    let words = ["-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", url, "-c", sql];
    let ended: Ended = std::process::Command::new("psql").args(words).output().unwrap().into();
    ended.ok();
}

#[test]
fn every_way_in_which_a_redis_cannot_be_used_is_one_line_with_the_fix() {
    let settings = || Redis::settings().durable().password(PASSWORD);
    let server = settings().start().unwrap();
    let careless = settings().set("maxmemory-policy", "allkeys-lru").start().unwrap();
    let full = settings().set("maxclients", "2").start().unwrap();
    let _guests = [guest(full.port()), guest(full.port())];
    let replica = settings().start().unwrap();
    let port = server.port().to_string();
    assert_eq!(replica.command(&["REPLICAOF", "127.0.0.1", &port]).unwrap(), "+OK");
    let poor = ["ACL", "SETUSER", "poor", "reset", "on", &format!(">{PASSWORD}"), "~x:*", "+@all"];
    assert_eq!(server.command(&poor).unwrap(), "+OK");
    server.command(&["HSET", "newer:{default}:meta", "schema", "99"]).unwrap();
    server.command(&["SET", "taken:{default}:meta", "mine"]).unwrap();
    let url = server.url();
    let elsewhere = |place: &str| format!("redis://:{PASSWORD}@{place}/0");
    let bad = [
        Bad::new(
            "wrong scheme",
            url.replace("redis:", "redi:"),
            "redi: is no kind of store",
            "did you mean redis:?",
        )
        .usage(),
        Bad::new("unknown setting", format!("{url}?colour=red"), "colour", "prefix").usage(),
        Bad::new("unknown host", elsewhere(NOWHERE), NOWHERE, "runcue doctor"),
        Bad::new(
            "nothing listening",
            elsewhere(&format!("127.0.0.1:{}", free_port())),
            "nothing listens at",
            "start the server, or correct the address",
        ),
        Bad::new(
            "wrong password",
            url.replace(PASSWORD, &format!("{PASSWORD}-either")),
            "refuses the user name or password",
            "correct it",
        ),
        Bad::new(
            "no password",
            url.replace(&format!(":{PASSWORD}@"), ""),
            "wants a password",
            "redis://:PASSWORD@HOST",
        ),
        Bad::new(
            "missing database",
            url.replace("/0", "/99"),
            "no database of that number",
            "leave the number out of the address",
        ),
        Bad::new(
            "missing rights",
            url.replace("redis://:", "redis://poor:"),
            "may not do this",
            "ACL SETUSER",
        ),
        Bad::new("newer schema", format!("{url}?prefix=newer"), "99", "newer runcue"),
        Bad::new(
            "another program",
            format!("{url}?prefix=taken"),
            "another program uses keys",
            "?prefix=NAME",
        ),
        Bad::new(
            "eviction",
            careless.url(),
            "throws keys away",
            "CONFIG SET maxmemory-policy noeviction",
        ),
        Bad::new("connection limit", full.url(), "as many", "raise its maxclients"),
        Bad::new("replica", replica.url(), "read-only replica", "put the primary into the address"),
        Bad::new(
            "too old",
            elsewhere(&format!("127.0.0.1:{}", old_redis())),
            "the server is Redis 6.2.14",
            "upgrade it",
        ),
    ];
    for bad in bad {
        bad.is_told();
    }
}

/// Somebody who is connected, and counted as such.
fn guest(port: u16) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(b"PING\r\n").unwrap();
    let mut answer = String::new();
    BufReader::new(stream.try_clone().unwrap()).read_line(&mut answer).unwrap();
    assert!(answer.starts_with("-NOAUTH"), "{answer}");
    stream
}

/// What a Redis that is too old says when it is asked who it is and what it keeps. Anything else is fine with it.
fn old_redis() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // Whoever is refused goes away in the middle.
            std::thread::spawn(move || answer_as_old_redis(stream).ok());
        }
    });
    port
}

fn answer_as_old_redis(mut stream: TcpStream) -> std::io::Result<()> {
    let mut asked = BufReader::new(stream.try_clone()?);
    let number = |line: &str| line.trim()[1..].parse::<usize>().unwrap();
    let mut line = String::new();
    while asked.read_line(&mut line)? > 0 {
        let mut words = Vec::new();
        for _ in 0..number(&line) {
            line.clear();
            asked.read_line(&mut line)?;
            let mut word = vec![0; number(&line) + 2];
            asked.read_exact(&mut word)?;
            words.push(String::from_utf8_lossy(&word).trim().to_uppercase());
        }
        line.clear();
        let text = |told: &str| format!("${}\r\n{told}\r\n", told.len());
        let settings =
            ["appendonly", "yes", "appendfsync", "always", "maxmemory-policy", "noeviction"];
        let answer = match words[0].as_str() {
            "INFO" => text("redis_version:6.2.14\r\n"),
            "CONFIG" => format!("*{}\r\n{}", settings.len(), settings.map(text).concat()),
            _ => "+OK\r\n".to_owned(),
        };
        stream.write_all(answer.as_bytes())?;
    }
    Ok(())
}

/// Whoever lets jobs be acknowledged there is to know it, without having asked.
#[test]
fn what_a_redis_may_lose_is_said_in_plain_words_when_work_begins_and_nothing_if_it_is_nothing() {
    let cases = [
        (&[("appendfsync", "always")][..], None),
        (&[("appendfsync", "everysec")], Some("may lose the last two seconds")),
        (&[("appendfsync", "no")], Some("may lose the last half minute")),
        (&[("appendonly", "no"), ("save", "60 1")], Some("everything since the last snapshot")),
        (&[("appendonly", "no")], Some("lost when the server stops")),
    ];
    for (settings, words) in cases {
        let all = Redis::settings();
        let all = settings.iter().fold(all, |all, (name, value)| all.set(name, value));
        let server = all.start().unwrap();
        let arena = Arena::on(&server.url());
        let judge = |told: &str| {
            let mut warnings = told.lines().filter(|line| line.starts_with("warning: "));
            let (first, more) = (warnings.next(), warnings.count());
            assert_eq!((first.is_some(), more), (words.is_some(), 0), "{settings:?}: {told}");
            let Some((line, words)) = first.zip(words) else { return };
            assert!(line.contains(words), "{line}");
            let fix = "CONFIG SET appendonly yes, CONFIG SET appendfsync always";
            assert!(line.contains(fix), "{line}");
        };
        let ended = arena.run(&["work", "--drain"]);
        assert_eq!(ended.code, 0, "{ended:?}");
        judge(&ended.stderr);
        let _hub = arena.spawn(&["serve", "--listen", "127.0.0.1:0"]);
        let serves = || arena.read("stdout") + &arena.read("stderr");
        patience::until("it serves", || serves().contains("http://127.0.0.1:").then_some(()));
        judge(&arena.read("stderr"));
    }
}
