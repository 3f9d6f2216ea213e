//! TLS with a server that really speaks it: what is trusted, what is refused, and that it is encrypted at all.

use runcue_store::{Store, StoreError};
use runcue_store_postgres::open_url;
use runcue_test_servers::{Authority, Postgres};

/// A server with a certificate for these names, and who signed it.
fn server(names: &str) -> (Postgres, Authority) {
    let authority = Authority::new().unwrap();
    let certificate = authority.sign(names).unwrap();
    (Postgres::settings().tls(&certificate).start().unwrap(), authority)
}

fn url(server: &Postgres, mode: &str, authority: &Authority) -> String {
    let known = authority.certificate();
    format!("{}?sslmode={mode}&sslrootcert={}", server.url(), known.display())
}

fn refused(url: &str) -> String {
    let Err(error) = open_url(url) else { panic!("{url} was opened") };
    assert!(matches!(error, StoreError::BadAddress { .. }), "{error:?}");
    assert!(!error.to_string().contains('\n'), "{error}");
    error.to_string()
}

/// Connections of ours by whether they are encrypted.
fn connections(server: &Postgres, encrypted: bool) -> u32 {
    let sql = format!(
        "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
         WHERE application_name = 'runcue' AND ssl = {encrypted}"
    );
    server.sql(&sql).unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_server_whose_authority_is_known_is_worked_with() {
    let (server, authority) = server("IP:127.0.0.1");
    for mode in ["verify-full", "verify-ca", "require"] {
        let store = open_url(&url(&server, mode, &authority)).unwrap();
        store.stats(runcue_core::Timestamp::ZERO).await.unwrap();
        assert!(connections(&server, true) >= 1, "{mode}");
        assert_eq!(connections(&server, false), 0, "{mode}");
        store.close().await.unwrap();
    }
}

#[tokio::test]
async fn a_connection_is_encrypted_by_itself_where_the_server_can_and_plain_where_that_is_wanted() {
    let (server, _authority) = server("DNS:elsewhere.example");
    let store = open_url(&server.url()).unwrap();
    store.stats(runcue_core::Timestamp::ZERO).await.unwrap();
    assert!(connections(&server, true) >= 1);
    store.close().await.unwrap();
    let plain = open_url(&format!("{}?sslmode=disable", server.url())).unwrap();
    plain.stats(runcue_core::Timestamp::ZERO).await.unwrap();
    assert!(connections(&server, false) >= 1);
}

#[test]
fn a_server_signed_by_somebody_else_is_named() {
    let (server, _own) = server("IP:127.0.0.1");
    let other = Authority::new().unwrap();
    for mode in ["verify-full", "verify-ca"] {
        let line = refused(&url(&server, mode, &other));
        assert!(line.contains("TLS failed") && line.contains("sslrootcert"), "{line}");
    }
    let line = refused(&format!("{}?sslmode=verify-full", server.url()));
    assert!(line.contains("sslrootcert"), "the machine's own authorities do not know it: {line}");
}

#[test]
fn a_certificate_for_another_host_is_named() {
    let (server, authority) = server("DNS:elsewhere.example");
    let line = refused(&url(&server, "verify-full", &authority));
    assert!(line.contains("for another host"), "{line}");
    assert!(line.contains("sslmode=verify-ca"), "{line}");
    assert!(
        open_url(&url(&server, "verify-ca", &authority)).is_ok(),
        "the fix that is named helps"
    );
}
