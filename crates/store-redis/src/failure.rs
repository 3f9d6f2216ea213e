//! What the server's errors mean to a caller, in one line that names the fix.

use std::fmt::Display;

use redis::{ErrorKind, RedisError};
use runcue_store::StoreError;

/// A stored value that does not read back.
#[derive(Debug)]
pub struct Unreadable(String);

impl Unreadable {
    /// What it is, and why it does not.
    pub fn new(what: &str, why: impl Display) -> Self {
        Self(format!("{what}: {why}"))
    }

    /// As an error of the store.
    pub fn at(self, place: &str) -> StoreError {
        let why = format!("{}; something else has written to these keys, restore a backup", self.0);
        StoreError::Corrupt { place: place.to_owned(), why }
    }
}

/// Says what an error of the server at a place means.
pub fn explain(place: &str, error: &RedisError) -> StoreError {
    let bad = |why: String| StoreError::BadAddress { place: place.to_owned(), why };
    let refused = |why: &str| StoreError::ReadOnly { place: place.to_owned(), why: why.to_owned() };
    let code = error.code().unwrap_or_default();
    let detail = error.detail().unwrap_or_default();
    let text = error.to_string();
    let said = |word: &str| code == word || text.contains(word);
    if said("NOAUTH") {
        return bad("the server wants a password; put it into the address: redis://:PASSWORD@HOST"
            .to_owned());
    }
    if matches!(error.kind(), ErrorKind::AuthenticationFailed)
        || said("WRONGPASS")
        || said("invalid username-password")
        || said("AUTH failed")
        || text.contains("without any password configured")
    {
        return bad(
            "the server refuses the user name or password of the address; correct it".to_owned()
        );
    }
    let forbidden = ["No permissions", "no permissions", "executing the script can't"];
    if said("NOPERM") || forbidden.iter().any(|words| text.contains(words)) {
        let user = "ACL SETUSER name on >password ~PREFIX* &PREFIX* +@all -@dangerous +info";
        return bad(format!("the user may not do this ({detail}); give it the rights with {user}"));
    }
    if said("OOM") || text.contains("maxmemory") {
        return refused(
            "the server is out of memory; raise its maxmemory, or keep finished jobs for less long",
        );
    }
    if said("MISCONF") {
        return if text.contains("No space left") {
            StoreError::DiskFull { place: place.to_owned() }
        } else {
            refused("the server cannot save its data (MISCONF); look at its disk and its log")
        };
    }
    if said("READONLY") {
        // Often only until the address leads to the new primary, to which a new connection is needed.
        return StoreError::Unavailable(format!(
            "{place} is a read-only replica; put the primary into the address"
        ));
    }
    if said("LOADING") {
        return StoreError::Unavailable(format!(
            "{place} is still loading its data; wait a moment"
        ));
    }
    if said("MOVED") || said("ASK ") {
        return bad(format!(
            "another node of the cluster has this queue ({detail}); put that one into the address"
        ));
    }
    if said("CROSSSLOT") {
        return bad(
            "the cluster does not keep the keys of this queue together; use another prefix"
                .to_owned(),
        );
    }
    if text.contains("unknown command") || text.contains("Unknown Redis command") {
        return bad(format!(
            "the server does not know a command ({detail}); Redis 7.0 or newer is needed"
        ));
    }
    if text.contains("DB index is out of range")
        || text.contains("Redis server refused to switch database")
    {
        return bad(
            "the server has no database of that number; leave the number out of the address"
                .to_owned(),
        );
    }
    if text.contains("WRONGTYPE") {
        return StoreError::Corrupt {
            place: place.to_owned(),
            why: "another program uses keys with the same prefix; choose another with ?prefix=NAME"
                .to_owned(),
        };
    }
    if text.contains("max number of clients") {
        return StoreError::Unavailable(format!(
            "{place} has as many connections as it may; raise its maxclients, or close some"
        ));
    }
    if text.contains("not valid for name") {
        return bad("the server's certificate is for another host; write the name that stands in it into the address"
            .to_owned());
    }
    if is_tls(&text) {
        return bad(format!(
            "TLS failed ({}); use redis:// if the server has no TLS, else make its certificate known to this machine",
            text.trim()
        ));
    }
    if matches!(error.kind(), ErrorKind::InvalidClientConfig) {
        return bad(format!("{text}; an address looks like redis://host:6379/0"));
    }
    if error.is_timeout() && place.starts_with("rediss:") {
        return StoreError::Unavailable(format!(
            "{place} does not answer; use redis:// if the server has no TLS"
        ));
    }
    if error.is_timeout() {
        return StoreError::Unavailable(format!("{place} does not answer"));
    }
    if ["reset by peer", "Broken pipe", "end of file"].iter().any(|word| text.contains(word)) {
        return StoreError::Unavailable(format!(
            "{place} closed the connection ({text}); if it has as many as it may, raise its maxclients"
        ));
    }
    if error.is_connection_refusal() || text.contains("refused") {
        return StoreError::Unavailable(format!(
            "nothing listens at {place}; start the server, or correct the address"
        ));
    }
    StoreError::Unavailable(format!("{place}: {text}"))
}

fn is_tls(text: &str) -> bool {
    [
        "certificate",
        "tls",
        "TLS",
        "handshake",
        "InvalidContentType",
        "corrupt message",
        "UnknownIssuer",
    ]
    .iter()
    .any(|word| text.contains(word))
}
