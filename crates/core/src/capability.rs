//! Which worker fits which job: what a job requires against what a worker offers.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// What a job needs of the machine it runs on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Requires {
    /// At least so many cores.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cores: Option<u32>,
    /// At least so much memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ram_gb: Option<f64>,
    /// All of these words.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub tags: BTreeSet<String>,
}

impl Requires {
    /// Whether any worker will do.
    pub fn is_none(&self) -> bool {
        self.cores.is_none() && self.ram_gb.is_none() && self.tags.is_empty()
    }
}

/// What a worker offers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Capabilities {
    /// Cores.
    pub cores: u32,
    /// Memory.
    pub ram_gb: f64,
    /// Words that describe it.
    pub tags: BTreeSet<String>,
}

impl Capabilities {
    /// Whether a job with these requirements may run here.
    pub fn meet(&self, requires: &Requires) -> bool {
        requires.cores.is_none_or(|cores| self.cores >= cores)
            && requires.ram_gb.is_none_or(|ram| self.ram_gb >= ram)
            && requires.tags.is_subset(&self.tags)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags(words: &[&str]) -> BTreeSet<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn every_requirement_must_be_met() {
        let worker = Capabilities { cores: 8, ram_gb: 16.0, tags: tags(&["gpu", "linux"]) };
        let needs = |cores, ram_gb, words: &[&str]| Requires { cores, ram_gb, tags: tags(words) };
        assert!(worker.meet(&Requires::default()));
        assert!(worker.meet(&needs(Some(8), Some(16.0), &["gpu"])));
        assert!(!worker.meet(&needs(Some(9), None, &[])));
        assert!(!worker.meet(&needs(None, Some(17.0), &[])));
        assert!(!worker.meet(&needs(None, None, &["gpu", "ssd"])));
    }
}
