//! Tokens that are kept with the queue, so that every hub on it knows them: made, listed and taken back. Only the
//! hash of a token is kept; the token itself is shown once, to whoever made it.

use runcue_core::{Json, Timestamp};
use runcue_store::{Record, Store, StoreError};
use serde::{Deserialize, Serialize};

use crate::access::{Known, Role, hash};

const KIND: &str = "token";
/// The longest name of a token, in bytes.
pub(crate) const MAX_NAME: usize = 100;
/// What every token begins with, so that it is recognised where it should not be.
const PREFIX: &str = "rcq_";

#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    role: Role,
    sha256: String,
    created_at: i64,
}

/// A token as it is listed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TokenInfo {
    /// Its name.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// When it was made; nothing for one that was given at start.
    pub created_at: Option<i64>,
}

impl From<&Known> for TokenInfo {
    fn from(known: &Known) -> Self {
        let created_at = known.created_at.map(Timestamp::as_millis);
        Self { name: known.name.clone(), role: known.role, created_at }
    }
}

/// Why a token was not made.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The name is not acceptable.
    #[error("a token's name has 1 to {MAX_NAME} letters, digits, dots, dashes or underscores")]
    Name,
    /// There is one of that name.
    #[error("there is a token {0} already; revoke it first, or choose another name")]
    Taken(String),
    /// There is none of that name.
    #[error("there is no token {0}")]
    Unknown(String),
    /// The operating system has no randomness to give.
    #[error("no random bits: {0}")]
    NoBits(String),
    /// The store refused.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Makes a token; answers it, the only time it is seen.
pub async fn create(
    store: &dyn Store,
    now: Timestamp,
    name: &str,
    role: Role,
) -> Result<String, TokenError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(plain) {
        return Err(TokenError::Name);
    }
    if list(store).await?.iter().any(|known| known.name == name) {
        return Err(TokenError::Taken(name.to_owned()));
    }
    let mut bits = [0_u8; 32];
    getrandom::fill(&mut bits).map_err(|error| TokenError::NoBits(error.to_string()))?;
    let token = format!("{PREFIX}{}", hex(&bits));
    let kept = Kept { role, sha256: hex(&hash(&token)), created_at: now.as_millis() };
    let value = Json::from_value(&kept).ok();
    let record = Record { kind: KIND.to_owned(), name: name.to_owned(), value };
    store.put_records(now, vec![record]).await?;
    Ok(token)
}

/// Takes a token back; every hub refuses it within a second.
pub async fn revoke(store: &dyn Store, now: Timestamp, name: &str) -> Result<(), TokenError> {
    if !list(store).await?.iter().any(|known| known.name == name) {
        return Err(TokenError::Unknown(name.to_owned()));
    }
    let record = Record { kind: KIND.to_owned(), name: name.to_owned(), value: None };
    Ok(store.put_records(now, vec![record]).await?)
}

/// Every token that is kept, by name.
pub async fn list(store: &dyn Store) -> Result<Vec<Known>, StoreError> {
    let records = store.records(KIND).await?;
    Ok(records.into_iter().filter_map(known).collect())
}

/// A record that cannot be read is no token: nobody gets in with it.
fn known(record: Record) -> Option<Known> {
    let kept: Kept = record.value?.to().ok()?;
    let mut hash = [0_u8; 32];
    if kept.sha256.len() != 64 || !kept.sha256.is_ascii() {
        return None;
    }
    for (at, byte) in hash.iter_mut().enumerate() {
        *byte = u8::from_str_radix(kept.sha256.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    let created_at = Some(Timestamp::from_millis(kept.created_at));
    Some(Known { name: record.name, role: kept.role, hash, created_at })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
