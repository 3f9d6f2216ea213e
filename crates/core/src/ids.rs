//! Identities: what a job, a worker instance or a lease is called, and the checked names of everything else.
//! Making an id needs randomness, so it is the caller's to make; this file only shapes it.

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, LazyLock};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Why a name or id from outside was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// The name has no characters.
    #[error("a {what} name may not be empty")]
    Empty {
        /// What was being named.
        what: &'static str,
    },
    /// The name is too long to be stored and shown.
    #[error("a {what} name has at most {max} bytes, this one has {len}")]
    TooLong {
        /// What was being named.
        what: &'static str,
        /// The limit.
        max: usize,
        /// What was given.
        len: usize,
    },
    /// The name would garble a terminal, a log line or a path.
    #[error("a {what} name may not hold control characters: {name:?}")]
    Control {
        /// What was being named.
        what: &'static str,
        /// The refused name.
        name: String,
    },
    /// Not 32 hexadecimal digits.
    #[error("{text:?} is not a {what} id: 32 hexadecimal digits are expected")]
    NotAnId {
        /// What was being named.
        what: &'static str,
        /// What was given.
        text: String,
    },
}

/// The longest name of anything, in bytes.
pub const MAX_NAME: usize = 255;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u128);

        impl $name {
            /// From its 128 bits.
            pub const fn from_u128(bits: u128) -> Self {
                Self(bits)
            }

            /// Its 128 bits.
            pub const fn as_u128(self) -> u128 {
                self.0
            }

            /// Its 32 hexadecimal digits, in ASCII.
            pub fn digits(self) -> [u8; 32] {
                hex_digits(self.0)
            }

            /// A time-ordered id (the layout of UUID version 7): the instant, then random bits.
            pub fn time_ordered(now: crate::Timestamp, random: u128) -> Self {
                let millis = u128::try_from(now.as_millis().max(0)).unwrap_or(0) & 0xffff_ffff_ffff;
                let random74 = random & ((1_u128 << 76) - 1) & !(0b11_u128 << 62);
                Self(millis << 80 | 0x7_u128 << 76 | 0b10_u128 << 62 | random74)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let digits = hex_digits(self.0);
                f.pad(std::str::from_utf8(&digits).unwrap_or_default())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = NameError;

            fn from_str(text: &str) -> Result<Self, NameError> {
                let refused = || NameError::NotAnId { what: $what, text: text.chars().take(64).collect() };
                if text.len() != 32 {
                    return Err(refused());
                }
                let digit = |byte: u8| char::from(byte).to_digit(16).map(u64::from);
                let half = |bytes: &[u8]| {
                    bytes.iter().try_fold(0_u64, |bits, byte| Some(bits << 4 | digit(*byte)?))
                };
                let (high, low) = text.as_bytes().split_at(16);
                match (half(high), half(low)) {
                    (Some(high), Some(low)) => Ok(Self(u128::from(high) << 64 | u128::from(low))),
                    _ => Err(refused()),
                }
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                let digits = hex_digits(self.0);
                to.serialize_str(std::str::from_utf8(&digits).unwrap_or_default())
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                std::borrow::Cow::<str>::deserialize(from)?.parse().map_err(de::Error::custom)
            }
        }
    };
}

/// Ids are written with every event; the general formatter is several times slower than this table.
fn hex_digits(bits: u128) -> [u8; 32] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = [0; 32];
    for (pair, byte) in text.chunks_exact_mut(2).zip(bits.to_be_bytes()) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 15)];
    }
    text
}

id!(
    /// A job's identity, chosen by whoever submits it; shown as 32 hexadecimal digits.
    JobId,
    "job"
);
id!(
    /// One start of one worker process. Never reused, so a lease can be told from a predecessor's.
    WorkerId,
    "worker"
);

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks and takes a name.
            pub fn new(name: impl Into<Arc<str>>) -> Result<Self, NameError> {
                let name = name.into();
                check_name($what, &name)?;
                Ok(Self(name))
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }

        impl FromStr for $name {
            type Err = NameError;

            fn from_str(text: &str) -> Result<Self, NameError> {
                Self::new(text)
            }
        }

        impl TryFrom<&str> for $name {
            type Error = NameError;

            fn try_from(text: &str) -> Result<Self, NameError> {
                Self::new(text)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                Self::new(&*std::borrow::Cow::<str>::deserialize(from)?).map_err(de::Error::custom)
            }
        }
    };
}

name!(
    /// A task: the kind of a job, which says how it is run.
    TaskName,
    "task"
);
name!(
    /// A named queue.
    QueueName,
    "queue"
);
name!(
    /// A group: the unit of fairness and of pause.
    GroupName,
    "group"
);
name!(
    /// A service: a limited resource.
    ServiceName,
    "service"
);
name!(
    /// A schedule: what is submitted again and again, by the clock.
    ScheduleName,
    "schedule"
);
name!(
    /// The key that per-key limits are counted by, for example one customer.
    Key,
    "key"
);

impl Default for QueueName {
    fn default() -> Self {
        static DEFAULT: LazyLock<QueueName> = LazyLock::new(|| QueueName(Arc::from("default")));
        DEFAULT.clone()
    }
}

fn check_name(what: &'static str, name: &str) -> Result<(), NameError> {
    if name.is_empty() {
        return Err(NameError::Empty { what });
    }
    if name.len() > MAX_NAME {
        return Err(NameError::TooLong { what, max: MAX_NAME, len: name.len() });
    }
    if name.chars().any(char::is_control) {
        return Err(NameError::Control { what, name: name.to_owned() });
    }
    Ok(())
}

/// The number of a claim. It grows with every claim on a store, so it tells one lease from every other
/// lease of the same job, and which group was served last.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Token(pub u64);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Timestamp;

    #[test]
    fn ids_are_32_lower_case_hex_digits_and_come_back_the_same() {
        let id = JobId::time_ordered(Timestamp::from_millis(1_700_000_000_000), u128::MAX);
        let text = id.to_string();
        assert_eq!(text.len(), 32);
        assert_eq!(text, text.to_lowercase());
        assert_eq!(text.as_bytes()[12], b'7', "the version digit of UUID 7");
        assert_eq!(text.parse::<JobId>().unwrap(), id);
    }

    #[test]
    fn later_ids_sort_after_earlier_ones() {
        let early = JobId::time_ordered(Timestamp::from_millis(1_000), u128::MAX);
        let late = JobId::time_ordered(Timestamp::from_millis(1_001), 0);
        assert!(early < late);
    }

    #[test]
    fn a_bad_id_or_name_is_refused_with_a_reason() {
        assert!("+0000000000000000000000000000001".parse::<JobId>().is_err());
        assert!("xyz".parse::<JobId>().unwrap_err().to_string().contains("32 hexadecimal"));
        assert!(TaskName::new("").is_err());
        assert!(TaskName::new("a\nb").is_err());
        assert!(TaskName::new("x".repeat(256)).is_err());
    }
}
