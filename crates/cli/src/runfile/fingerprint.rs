//! A stable hash of what a job does: FNV-1a with 128 bits over a canonical form.
//!
//! Not a defence against anyone; it only tells whether a job changed between two runs of a file.
//! The canonical form sorts object keys and frames every text with its length, so that no two
//! different jobs write the same bytes.

use serde_json::Value;

use super::model::{JobDef, TaskDef};

/// FNV-1a, 128 bits.
#[derive(Clone)]
pub(crate) struct Fnv(u128);

impl Fnv {
    /// The hash of nothing.
    pub(crate) fn new() -> Self {
        Self(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d)
    }

    /// Takes in bytes.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 ^= u128::from(*byte);
            self.0 = self.0.wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
        }
    }

    /// Takes in a text, framed by its length.
    pub(crate) fn text(&mut self, text: &str) {
        self.bytes(&(text.len() as u64).to_le_bytes());
        self.bytes(text.as_bytes());
    }

    /// What has been taken in so far, as a number.
    pub(crate) fn bits(&self) -> u128 {
        self.0
    }

    fn option(&mut self, text: Option<&str>) {
        match text {
            Some(text) => {
                self.bytes(&[1]);
                self.text(text);
            }
            None => self.bytes(&[0]),
        }
    }

    /// Depth is bounded by the reader's limit on nesting.
    fn value(&mut self, value: &Value) {
        match value {
            Value::Array(items) => {
                self.bytes(b"[");
                items.iter().for_each(|item| self.value(item));
                self.bytes(b"]");
            }
            Value::Object(map) => {
                let mut keys: Vec<&String> = map.keys().collect();
                keys.sort_unstable();
                self.bytes(b"{");
                for key in keys {
                    self.text(key);
                    self.value(&map[key]);
                }
                self.bytes(b"}");
            }
            Value::String(text) => {
                self.bytes(b"\"");
                self.text(text);
            }
            other => self.text(&other.to_string()),
        }
    }
}

/// The part of the hash that all jobs of a task share: command, environment, directory.
pub(crate) fn of_task(task: &TaskDef) -> Fnv {
    let mut hash = Fnv::new();
    let parts = serde_json::json!([task.run, task.env, task.cwd]);
    hash.value(&parts);
    hash
}

/// The hash of a job, from that of its task.
pub(crate) fn of_job(task: &Fnv, job: &JobDef) -> u128 {
    let mut hash = task.clone();
    hash.option(job.target.as_deref());
    hash.value(&job.params);
    for (service, units) in &job.services {
        hash.text(service);
        hash.bytes(&units.to_le_bytes());
    }
    hash.option(job.key.as_deref());
    hash.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_fnv_1a_and_never_changes() {
        let hash = |text: &str| {
            let mut fnv = Fnv::new();
            fnv.bytes(text.as_bytes());
            fnv.0
        };
        assert_eq!(hash(""), 0x6c62272e07bb014262b821756295c58d);
        assert_eq!(hash("a"), 0xd228cb696f1a8caf78912b704e4a8964);
    }

    #[test]
    fn the_order_of_keys_does_not_matter_and_values_do() {
        let hash = |text: &str| {
            let mut fnv = Fnv::new();
            fnv.value(&serde_json::from_str(text).unwrap());
            fnv.0
        };
        assert_eq!(hash(r#"{"a": 1, "b": 2}"#), hash(r#"{"b": 2, "a": 1}"#));
        assert_ne!(hash(r#"{"a": 1}"#), hash(r#"{"a": "1"}"#));
        assert_ne!(hash(r#"["ab", "c"]"#), hash(r#"["a", "bc"]"#));
    }
}
