//! TLS between the real binary and servers that really speak it.

use std::path::Path;

use runcue_test_servers::{Authority, Postgres, Redis};

use crate::sandbox::{Ended, Sandbox};

/// A Redis that speaks nothing but TLS, with a certificate for these names.
fn redis(authority: &Authority, names: &str) -> (Redis, String) {
    let certificate = authority.sign(names).unwrap();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let server = Redis::settings()
        .set("tls-port", &port.to_string())
        .set("tls-cert-file", &certificate.certificate.display().to_string())
        .set("tls-key-file", &certificate.key.display().to_string())
        .set("tls-ca-cert-file", &authority.certificate().display().to_string())
        .set("tls-auth-clients", "no")
        .start()
        .unwrap();
    (server, format!("rediss://127.0.0.1:{port}/0"))
}

/// Runs the binary on a machine that knows one authority.
fn knowing(authority: &Path, store: &str, words: &[&str]) -> Ended {
    let sandbox = Sandbox::on(store);
    sandbox.command(words).env("SSL_CERT_FILE", authority).output().unwrap().into()
}

#[track_caller]
fn refused(ended: Ended, words: &[&str]) {
    let told = ended.refused(1);
    assert!(told.lines().filter(|line| line.starts_with("error:")).count() == 1, "{told}");
    for word in words {
        assert!(told.contains(word), "{word:?} is not in {told}");
    }
}

#[test]
fn a_redis_is_trusted_if_its_authority_is_known_and_it_is_the_one_that_was_asked_for() {
    let (ours, other) = (Authority::new().unwrap(), Authority::new().unwrap());
    let (_server, url) = redis(&ours, "IP:127.0.0.1");
    knowing(&ours.certificate(), &url, &["add", "--cwd", "/", "--", "true"]).ok();
    knowing(&ours.certificate(), &url, &["work", "--drain"]).ok();
    let fix = "make its certificate known to this machine";
    refused(
        knowing(&other.certificate(), &url, &["add", "--cwd", "/", "--", "true"]),
        &["TLS failed", fix],
    );
    let (_elsewhere, url) = redis(&ours, "DNS:elsewhere.example");
    let ended = knowing(&ours.certificate(), &url, &["add", "--cwd", "/", "--", "true"]);
    refused(ended, &["for another host", "into the address"]);
}

#[test]
fn a_plain_server_that_is_asked_for_tls_is_named() {
    let authority = Authority::new().unwrap();
    let redis = Redis::settings().start().unwrap();
    let url = redis.url().replace("redis://", "rediss://");
    let ended = knowing(&authority.certificate(), &url, &["add", "--cwd", "/", "--", "true"]);
    refused(ended, &["use redis:// if the server has no TLS"]);
    let postgres = Postgres::settings().start().unwrap();
    let url = format!("{}?sslmode=require", postgres.url());
    let ended = knowing(&authority.certificate(), &url, &["add", "--cwd", "/", "--", "true"]);
    refused(ended, &["does not speak TLS", "sslmode=disable"]);
}

/// Without sslrootcert, the authorities of the machine decide.
#[test]
fn a_postgres_is_trusted_if_its_authority_is_known_to_the_machine() {
    let (ours, other) = (Authority::new().unwrap(), Authority::new().unwrap());
    let certificate = ours.sign("IP:127.0.0.1").unwrap();
    let server = Postgres::settings().tls(&certificate).start().unwrap();
    let url = format!("{}?sslmode=verify-full", server.url());
    knowing(&ours.certificate(), &url, &["add", "--cwd", "/", "--", "true"]).ok();
    knowing(&ours.certificate(), &url, &["work", "--drain"]).ok();
    let ended = knowing(&other.certificate(), &url, &["add", "--cwd", "/", "--", "true"]);
    refused(ended, &["TLS failed", "sslrootcert"]);
}
