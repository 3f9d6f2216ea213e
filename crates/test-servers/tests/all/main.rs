//! The servers themselves: that they start, answer, die, come back, and leave nothing behind.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use runcue_test_servers::{Fault, Postgres, Proxy, Redis};

fn runs(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

fn until(what: &str, done: impl Fn() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(30), "{what} did not happen");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn every_test_has_a_database_of_its_own() {
    let (one, two) =
        (runcue_test_servers::postgres().unwrap(), runcue_test_servers::postgres().unwrap());
    one.sql("CREATE TABLE t (n int)").unwrap();
    assert_eq!(one.sql("SELECT count(*) FROM t").unwrap(), "0");
    assert!(two.sql("SELECT count(*) FROM t").is_err());
    assert_eq!(one.port(), two.port());
}

#[test]
fn every_test_has_a_prefix_of_its_own() {
    let (one, two) = (runcue_test_servers::redis().unwrap(), runcue_test_servers::redis().unwrap());
    assert_ne!(one.url(), two.url());
    assert_eq!(one.port(), two.port());
}

#[test]
fn a_killed_postgres_comes_back_with_its_data() {
    let mut server = Postgres::settings().durable().start().unwrap();
    server.sql("CREATE TABLE t AS SELECT 7 AS n").unwrap();
    let pid = server.pid();
    server.kill9();
    assert!(!runs(pid));
    assert!(server.sql("SELECT 1").is_err());
    server.restart().unwrap();
    assert_eq!(server.sql("SELECT n FROM t").unwrap(), "7");
}

#[test]
fn a_postgres_with_a_password_asks_for_it() {
    let server = Postgres::settings().password("secret").start().unwrap();
    assert_eq!(server.sql("SELECT 1").unwrap(), "1");
    let wrong = server.url().replace("secret", "wrong");
    let said =
        std::process::Command::new("psql").args(["-X", "-d", &wrong, "-c", "SELECT 1"]).output();
    assert!(!said.unwrap().status.success());
}

#[test]
fn a_frozen_postgres_is_gone_when_its_owner_is() {
    let server = Postgres::settings().start().unwrap();
    let pid = server.pid();
    server.freeze();
    drop(server);
    until("the end of a frozen server", || !runs(pid));
}

#[test]
fn a_killed_redis_comes_back_with_its_data() {
    let mut server = Redis::settings().durable().start().unwrap();
    assert_eq!(server.command(&["SET", "a", "7"]).unwrap(), "+OK");
    let pid = server.pid();
    server.kill9();
    assert!(!runs(pid));
    assert!(server.command(&["PING"]).is_err());
    server.restart().unwrap();
    assert_eq!(server.command(&["STRLEN", "a"]).unwrap(), ":1");
}

#[test]
fn a_frozen_redis_answers_after_the_thaw() {
    let server = Redis::settings().password("secret").start().unwrap();
    server.freeze();
    let port = server.port();
    let asked = std::thread::spawn(move || {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.write_all(b"AUTH secret\r\nPING\r\n").unwrap();
        let mut reply = [0; 12];
        stream.read_exact(&mut reply).unwrap();
        reply
    });
    server.thaw();
    assert_eq!(&asked.join().unwrap(), b"+OK\r\n+PONG\r\n");
}

#[test]
fn a_server_ends_with_the_process_that_started_it_even_if_that_is_killed() {
    // This test runs itself as the process that is killed.
    if std::env::var_os("RUNCUE_TEST_SERVERS_VICTIM").is_some() {
        let server = Redis::settings().start().unwrap();
        let place = server.directory().display();
        writeln!(std::io::stdout(), "pid {} {place}", server.pid()).unwrap();
        std::thread::park();
    }
    let name = "a_server_ends_with_the_process_that_started_it_even_if_that_is_killed";
    let mut victim = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env("RUNCUE_TEST_SERVERS_VICTIM", "1")
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = std::io::BufReader::new(victim.stdout.take().unwrap());
    let (pid, place): (u32, String) = loop {
        let mut line = String::new();
        assert!(
            std::io::BufRead::read_line(&mut said, &mut line).unwrap() > 0,
            "no server was started"
        );
        if let Some((pid, place)) =
            line.split_once("pid ").and_then(|(_, rest)| rest.trim().split_once(' '))
        {
            break (pid.parse().unwrap(), place.to_owned());
        }
    };
    assert!(runs(pid));
    victim.kill().unwrap();
    victim.wait().unwrap();
    until("the end of a server whose owner was killed", || !runs(pid));
    until("the end of its directory", || !Path::new(&place).exists());
}

#[test]
fn a_lost_request_is_not_carried_out_and_a_lost_reply_is() {
    let server = Redis::settings().start().unwrap();
    let proxy = Proxy::to(server.port()).unwrap();
    let ask = |text: &str| {
        let mut stream = TcpStream::connect(("127.0.0.1", proxy.port())).unwrap();
        stream.write_all(text.as_bytes()).unwrap();
        let mut reply = [0; 64];
        let count = stream.read(&mut reply).unwrap_or(0);
        String::from_utf8_lossy(&reply[..count]).into_owned()
    };
    assert_eq!(ask("INCR a\r\n"), ":1\r\n");
    proxy.arm(b"INCR", Fault::LoseRequest, 1);
    assert_eq!(ask("INCR a\r\n"), "");
    assert_eq!(server.command(&["GETRANGE", "a", "0", "-1"]).unwrap(), "$1");
    assert_eq!(ask("INCR a\r\n"), ":2\r\n");
    proxy.arm(b"INCR", Fault::LoseReply, 1);
    assert_eq!(ask("INCR a\r\n"), "");
    assert_eq!(ask("INCR a\r\n"), ":4\r\n");
    assert_eq!(proxy.faults(), 2);
    proxy.refuse();
    assert_eq!(ask("PING\r\n"), "");
    proxy.heal();
    assert_eq!(ask("PING\r\n"), "+PONG\r\n");
}
