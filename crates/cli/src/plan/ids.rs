//! The id of a job of a run file: the same in every run of that file.

use std::path::Path;

use runcue_core::JobId;

use crate::runfile::Fnv;

/// What tells one run file from another: its name, or else where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileKey {
    name: String,
    hash: u128,
}

impl FileKey {
    /// From the name the file gives itself, or from its whole path.
    pub fn new(name: Option<&str>, path: &Path) -> Self {
        let (kind, name) = match name {
            Some(name) => (b'n', name.to_owned()),
            None => (b'p', path.display().to_string()),
        };
        let mut hash = Fnv::new();
        hash.bytes(&[kind]);
        hash.text(&name);
        Self { name, hash: stirred(&hash) }
    }

    /// The name or the path.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A few digits that tell the file from others.
    pub fn short(&self) -> String {
        format!("{:08x}", self.hash >> 96)
    }

    /// The id of a job of this file. A job that was submitted and is to be done differently has a next
    /// generation.
    pub fn id(&self, job: &str, generation: u32) -> JobId {
        let mut hash = Fnv::new();
        hash.bytes(&self.hash.to_le_bytes());
        hash.text(job);
        hash.bytes(&generation.to_le_bytes());
        JobId::from_u128(stirred(&hash))
    }
}

/// The last digits are what people see, so the hash is stirred until they differ most.
fn stirred(hash: &Fnv) -> u128 {
    let mut stirred = hash.bits();
    for _ in 0..2 {
        stirred ^= stirred >> 67;
        stirred = stirred.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
    }
    stirred ^ (stirred >> 71)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn an_id_depends_on_the_file_the_job_and_the_generation_and_never_changes() {
        let file = FileKey::new(Some("sweep"), Path::new("/a/x.yaml"));
        let same = FileKey::new(Some("sweep"), Path::new("/b/y.yaml"));
        let other = FileKey::new(None, Path::new("/a/x.yaml"));
        assert_eq!(file.id("train", 0), same.id("train", 0), "a name goes before the path");
        assert_ne!(file.id("train", 0), other.id("train", 0));
        assert_ne!(file.id("train", 0), file.id("train", 1));
        // Stored queues hold these: a change makes every file start anew.
        assert_eq!(file.id("train", 0).to_string(), "f0d4a5218df4907bdd6a0bec272bec21");
    }

    #[test]
    fn neighbours_differ_in_the_digits_that_are_shown() {
        let file = FileKey::new(Some("sweep"), Path::new("/"));
        let short = |n: u32| file.id(&format!("job-{n}"), 0).as_u128() as u32;
        let seen: HashSet<u32> = (0..10_000).map(short).collect();
        assert!(seen.len() > 9_980, "{} of 10000 differ", seen.len());
    }
}
