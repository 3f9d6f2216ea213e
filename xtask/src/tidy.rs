//! The house rules that no lint knows, checked over every `.rs` file of the repository.
//!
//! - A file begins with `//!`: what it owns.
//! - A file has at most [`MAX_LINES`] lines.
//! - Nothing is left to be done, no test is switched off, no lint is silenced without a reason.
//! - A file is named after a thing.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Longer files are split.
const MAX_LINES: usize = 800;

/// Text that may not stand in code, and what to write instead. Joined from parts, because this file is
/// checked too.
const FORBIDDEN: [(&str, &str); 4] = [
    (concat!("todo", "!("), "write it, or leave it out"),
    (concat!("#[", "ignore"), "a test runs or is not there; gate long ones on RUNCUE_LONG"),
    (concat!("#[", "allow("), "use #[expect(…, reason = \"…\")]"),
    (concat!("#![", "allow("), "use #![expect(…, reason = \"…\")]"),
];

/// Names that say nothing.
const EMPTY_NAMES: [&str; 4] = ["utils", "common", "helpers", "misc"];

/// What was looked at, and what was found.
#[derive(Debug, Default)]
pub struct Found {
    pub files: usize,
    pub complaints: Vec<Complaint>,
}

/// Something that is against the rules.
#[derive(Debug, PartialEq, Eq)]
pub struct Complaint {
    path: PathBuf,
    line: usize,
    what: String,
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path.display(), self.line, self.what)
    }
}

/// Checks every `.rs` file below a directory.
pub fn check(root: &Path) -> io::Result<Found> {
    let mut found = Found::default();
    let mut open = vec![root.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory)? {
            let entry = entry?;
            let path = entry.path();
            if entry.file_type()?.is_dir() {
                if !is_skipped(&path) {
                    open.push(path);
                }
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let shown = path.strip_prefix(root).unwrap_or(&path).to_owned();
                found.files += 1;
                found.complaints.extend(check_file(&shown, &fs::read_to_string(&path)?));
            }
        }
    }
    found.complaints.sort_by(|a, b| (&a.path, a.line).cmp(&(&b.path, b.line)));
    Ok(found)
}

/// What cargo builds and what is hidden is not ours.
fn is_skipped(directory: &Path) -> bool {
    let name = directory.file_name().unwrap_or_default().to_string_lossy();
    name == "target" || name.starts_with('.')
}

fn check_file(path: &Path, text: &str) -> Vec<Complaint> {
    let complain = |line, what: String| Complaint { path: path.to_owned(), line, what };
    let mut complaints = Vec::new();
    if !text.starts_with("//!") {
        complaints.push(complain(1, "does not begin with //! and what it owns".to_owned()));
    }
    let lines = text.lines().count();
    if lines > MAX_LINES {
        complaints.push(complain(lines, format!("has {lines} lines; split it at {MAX_LINES}")));
    }
    if let Some(name) = empty_name(path) {
        complaints.push(complain(1, format!("\"{name}\" says nothing; name the thing")));
    }
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("//") {
            continue;
        }
        for (word, instead) in FORBIDDEN {
            if line.contains(word) {
                complaints.push(complain(index + 1, format!("{word} is not used here: {instead}")));
            }
        }
    }
    complaints
}

fn empty_name(path: &Path) -> Option<&'static str> {
    let says_nothing = |part: &str| EMPTY_NAMES.into_iter().find(|name| *name == part);
    let parts = path.iter().filter_map(|part| part.to_str());
    parts.map(|part| part.strip_suffix(".rs").unwrap_or(part)).find_map(says_nothing)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(path: &str, text: &str) -> Vec<String> {
        check_file(Path::new(path), text).iter().map(Complaint::to_string).collect()
    }

    #[test]
    fn a_file_that_keeps_the_rules_is_left_alone() {
        let text = "//! What it owns.\n\nfn main() {}\n";
        assert!(complaints("src/lane.rs", text).is_empty());
    }

    #[test]
    fn a_file_without_a_first_word_is_named() {
        let found = complaints("src/lane.rs", "fn main() {}\n");
        assert_eq!(found, ["src/lane.rs:1: does not begin with //! and what it owns"]);
    }

    #[test]
    fn eight_hundred_lines_are_the_end() {
        let text = |lines: usize| format!("//! Long.\n{}", "\n".repeat(lines - 1));
        assert!(complaints("a.rs", &text(800)).is_empty());
        assert_eq!(complaints("a.rs", &text(801)), ["a.rs:801: has 801 lines; split it at 800"]);
    }

    #[test]
    fn forbidden_words_are_found_in_code_and_not_in_comments() {
        for (word, _) in FORBIDDEN {
            let text = format!("//! It.\n// {word} here is talk\n    {word}x)]\n");
            let found = complaints("a.rs", &text);
            assert_eq!(found.len(), 1, "{word}: {found:?}");
            assert!(found[0].starts_with("a.rs:3: "), "{found:?}");
        }
    }

    #[test]
    fn a_name_that_says_nothing_is_refused_for_files_and_directories() {
        for path in ["src/utils.rs", "tests/common/mod.rs", "src/helpers/lane.rs"] {
            assert_eq!(complaints(path, "//! It.\n").len(), 1, "{path}");
        }
        assert!(complaints("src/common_lanes.rs", "//! It.\n").is_empty());
    }

    #[test]
    fn built_and_hidden_directories_are_not_looked_at() {
        assert!(is_skipped(Path::new("a/target")));
        assert!(is_skipped(Path::new("a/.git")));
        assert!(!is_skipped(Path::new("a/src")));
    }

    #[test]
    fn this_repository_can_be_read() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let found = check(root).unwrap();
        assert!(found.files >= 6, "{found:?}");
        assert!(found.complaints.is_empty(), "{found:?}");
    }
}
