//! Who may do what: tokens, their roles, and how often an address may guess. Tokens are kept as hashes and
//! compared without telling by the time it takes where they differ.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError, RwLock};
use std::time::Duration;

use runcue_core::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::config::StaticToken;

/// Failed logins that an address may have in [`WINDOW`].
const GUESSES: usize = 10;
const WINDOW: Duration = Duration::from_secs(60);
/// Addresses whose guesses are remembered; beyond that the oldest are forgotten.
const ADDRESSES: usize = 10_000;

/// What a token may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Looks.
    Read,
    /// Looks and submits.
    Submit,
    /// Looks, claims and reports.
    Work,
    /// Everything.
    Admin,
}

impl Role {
    /// Whether a caller with this role may do what asks for another.
    pub fn may(self, needed: Self) -> bool {
        self == Self::Admin || self == needed || needed == Self::Read
    }

    /// Its word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Submit => "submit",
            Self::Work => "work",
            Self::Admin => "admin",
        }
    }

    /// From its word.
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::Read, Self::Submit, Self::Work, Self::Admin]
            .into_iter()
            .find(|role| role.as_str() == word)
    }
}

/// Who makes a request.
#[derive(Clone, Debug, Serialize)]
pub struct Caller {
    /// The token's name.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// Nobody needs a token here.
    pub open: bool,
    /// It came as a cookie, so a page may have sent it without the person knowing.
    #[serde(skip)]
    pub by_cookie: bool,
}

/// A token as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// Its name.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// The sha256 of the token.
    pub hash: [u8; 32],
    /// When it was made; nothing for one that was given at start.
    pub created_at: Option<Timestamp>,
}

/// What a token looks like once it is kept.
pub fn hash(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}

/// Every token, and who has guessed how often.
#[derive(Debug)]
pub struct Access {
    given: Vec<Known>,
    kept: RwLock<Vec<Known>>,
    open: bool,
    guesses: Mutex<HashMap<IpAddr, Vec<Timestamp>>>,
}

impl Access {
    /// Access with the tokens given at start.
    pub fn new(given: &[StaticToken], open: bool) -> Self {
        let known = |token: &StaticToken| Known {
            name: token.name.clone(),
            role: token.role,
            hash: hash(&token.secret),
            created_at: None,
        };
        Self {
            given: given.iter().map(known).collect(),
            kept: RwLock::default(),
            open,
            guesses: Mutex::default(),
        }
    }

    /// Replaces the tokens that are kept in the store.
    pub fn set_kept(&self, kept: Vec<Known>) {
        *self.kept.write().unwrap_or_else(PoisonError::into_inner) = kept;
    }

    /// Every token, those given at start first.
    pub fn all(&self) -> Vec<Known> {
        let kept = self.kept.read().unwrap_or_else(PoisonError::into_inner);
        self.given.iter().chain(kept.iter()).cloned().collect()
    }

    /// Whether nobody needs a token: only while there is none.
    pub fn is_open(&self) -> bool {
        let kept = self.kept.read().unwrap_or_else(PoisonError::into_inner);
        self.open && self.given.is_empty() && kept.is_empty()
    }

    /// Who a token belongs to. Every known token is compared, so that the time tells nothing.
    pub fn of(&self, secret: &str) -> Option<(String, Role)> {
        let hash = hash(secret);
        let kept = self.kept.read().unwrap_or_else(PoisonError::into_inner);
        let mut found = None;
        for known in self.given.iter().chain(kept.iter()) {
            if bool::from(known.hash.ct_eq(&hash)) && found.is_none() {
                found = Some((known.name.clone(), known.role));
            }
        }
        found
    }

    /// Whether an address has guessed too often, and when it may try again.
    pub fn barred(&self, from: IpAddr, now: Timestamp) -> Option<Duration> {
        let mut guesses = self.guesses.lock().unwrap_or_else(PoisonError::into_inner);
        let of_address = guesses.get_mut(&from)?;
        of_address.retain(|at| now.since(*at) < WINDOW);
        let first = *of_address.first()?;
        (of_address.len() >= GUESSES).then(|| first.plus(WINDOW).since(now))
    }

    /// Notes a failed login.
    pub fn guessed_wrong(&self, from: IpAddr, now: Timestamp) {
        let mut guesses = self.guesses.lock().unwrap_or_else(PoisonError::into_inner);
        if guesses.len() >= ADDRESSES {
            guesses.retain(|_, tries| tries.iter().any(|at| now.since(*at) < WINDOW));
            if guesses.len() >= ADDRESSES {
                guesses.clear();
            }
        }
        let of_address = guesses.entry(from).or_default();
        if of_address.len() < GUESSES {
            of_address.push(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(name: &str, role: Role, secret: &str) -> StaticToken {
        StaticToken { name: name.to_owned(), role, secret: secret.to_owned() }
    }

    #[test]
    fn a_role_may_look_and_do_its_own_and_admin_everything() {
        assert!(Role::Submit.may(Role::Read) && Role::Submit.may(Role::Submit));
        assert!(!Role::Submit.may(Role::Work) && !Role::Work.may(Role::Submit));
        assert!(!Role::Read.may(Role::Submit) && !Role::Work.may(Role::Admin));
        assert!(Role::Admin.may(Role::Work) && Role::Admin.may(Role::Admin));
    }

    #[test]
    fn a_hub_is_open_only_while_there_is_no_token() {
        let access = Access::new(&[], true);
        assert!(access.is_open());
        let kept = Known { name: "ci".into(), role: Role::Read, hash: hash("x"), created_at: None };
        access.set_kept(vec![kept]);
        assert!(!access.is_open());
        assert_eq!(access.of("x"), Some(("ci".to_owned(), Role::Read)));
        assert_eq!(access.of("y"), None);
        assert!(!Access::new(&[given("a", Role::Admin, "s")], true).is_open());
    }

    #[test]
    fn a_token_is_known_only_by_the_whole_of_its_hash() {
        let access = Access::new(&[], false);
        for byte in 0..32 {
            let mut near = hash("x");
            near[byte] ^= 1;
            let kept = Known { name: "ci".into(), role: Role::Read, hash: near, created_at: None };
            access.set_kept(vec![kept]);
            assert_eq!(access.of("x"), None, "byte {byte} differs");
        }
    }

    #[test]
    fn an_address_is_barred_after_ten_wrong_guesses_and_let_in_again_after_a_minute() {
        let access = Access::new(&[], false);
        let (from, other) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        let at = |seconds: i64| Timestamp::from_millis(seconds * 1_000);
        for n in 0..10 {
            assert_eq!(access.barred(from, at(n)), None);
            access.guessed_wrong(from, at(n));
        }
        assert_eq!(access.barred(from, at(10)), Some(Duration::from_secs(50)));
        assert_eq!(access.barred(other, at(10)), None);
        assert_eq!(access.barred(from, at(61)), None);
    }
}
