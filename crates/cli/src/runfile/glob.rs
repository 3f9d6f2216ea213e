//! Files by pattern: `*`, `?`, `[a-z]`, `[!x]` within a name, `**` across directories.
//!
//! The walk reads only directories that the pattern can reach, in sorted order, and does not follow
//! symbolic links to directories under `**`, so it always ends. Hidden names need a pattern that
//! starts with a dot.

use std::fs;
use std::io;
use std::path::Path;

/// How many files one pattern may match.
pub(crate) const MAX_MATCHES: usize = 1_000_000;

/// The files below `base` that `pattern` matches, as paths relative to `base` (or absolute, when the
/// pattern is), sorted. Stops after [`MAX_MATCHES`] + 1.
pub(crate) fn find(base: &Path, pattern: &str) -> io::Result<Vec<String>> {
    let (root, prefix, rest) = match pattern.strip_prefix('/') {
        Some(rest) => (Path::new("/"), "/", rest),
        None => (base, "", pattern),
    };
    let mut segments: Vec<&str> =
        rest.split('/').filter(|segment| !segment.is_empty() && *segment != ".").collect();
    segments.dedup_by(|a, b| *a == "**" && *b == "**");
    let mut walk = Walk { root, found: Vec::new() };
    walk.visit(prefix.to_owned(), &segments)?;
    walk.found.sort_unstable();
    walk.found.dedup();
    Ok(walk.found)
}

struct Walk<'a> {
    root: &'a Path,
    found: Vec<String>,
}

impl Walk<'_> {
    /// `path` is what has matched so far, empty or ending in `/`. Depth is the pattern's length, or
    /// the depth of the directories under `**`.
    fn visit(&mut self, path: String, segments: &[&str]) -> io::Result<()> {
        let Some((segment, rest)) = segments.split_first() else {
            return Ok(());
        };
        if self.found.len() > MAX_MATCHES {
            return Ok(());
        }
        if *segment == "**" {
            return self.visit_below(path, segments, rest);
        }
        if !segment.contains(['*', '?', '[']) {
            return self.enter(format!("{path}{segment}"), rest);
        }
        for name in self.names(&path)? {
            if matches(segment, &name) {
                self.enter(format!("{path}{name}"), rest)?;
            }
        }
        Ok(())
    }

    fn visit_below(&mut self, path: String, all: &[&str], rest: &[&str]) -> io::Result<()> {
        let files_too = if rest.is_empty() { &["*"][..] } else { rest };
        self.visit(path.clone(), files_too)?;
        for name in self.names(&path)? {
            let below = format!("{path}{name}");
            let real = fs::symlink_metadata(self.root.join(&below)).is_ok_and(|meta| meta.is_dir());
            if real && !name.starts_with('.') {
                self.visit(format!("{below}/"), all)?;
            }
        }
        Ok(())
    }

    fn enter(&mut self, path: String, rest: &[&str]) -> io::Result<()> {
        let Ok(meta) = fs::metadata(self.root.join(&path)) else {
            return Ok(());
        };
        if rest.is_empty() {
            if meta.is_file() {
                self.found.push(path);
            }
            return Ok(());
        }
        if meta.is_dir() {
            self.visit(format!("{path}/"), rest)?;
        }
        Ok(())
    }

    /// The names in a directory, sorted; names that are not UTF-8 cannot be placeholders and are
    /// left out. A directory that is not there holds nothing.
    fn names(&self, path: &str) -> io::Result<Vec<String>> {
        let directory = self.root.join(path);
        let entries = match fs::read_dir(&directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => {
                let message = format!("{}: {error}", directory.display());
                return Err(io::Error::new(error.kind(), message));
            }
        };
        let mut names = Vec::new();
        for entry in entries {
            names.extend(entry?.file_name().into_string().ok());
        }
        names.sort_unstable();
        Ok(names)
    }
}

/// Whether one name fits one segment of a pattern. Linear memory, no recursion: on a mismatch the
/// last `*` takes one character more.
fn matches(pattern: &str, name: &str) -> bool {
    if name.starts_with('.') && !pattern.starts_with('.') {
        return false;
    }
    let pattern: Vec<char> = pattern.chars().collect();
    let name: Vec<char> = name.chars().collect();
    let (mut p, mut n) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        if pattern.get(p) == Some(&'*') {
            star = Some((p, n));
            p += 1;
        } else if let Some(length) = one(&pattern[p..], name[n]) {
            p += length;
            n += 1;
        } else if let Some((at, taken)) = star {
            star = Some((at, taken + 1));
            p = at + 1;
            n = taken + 1;
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

/// Whether the first element of `pattern` fits `c`, and how many characters long that element is.
fn one(pattern: &[char], c: char) -> Option<usize> {
    match pattern.first()? {
        '?' => Some(1),
        '[' => match class(&pattern[1..], c) {
            Some((fits, length)) => fits.then_some(length + 1),
            None => (c == '[').then_some(1),
        },
        literal => (*literal == c).then_some(1),
    }
}

/// Reads a class after its `[`: whether `c` is in it, and its length with the `]`.
fn class(pattern: &[char], c: char) -> Option<(bool, usize)> {
    let negated = matches!(pattern.first(), Some('!' | '^'));
    let start = usize::from(negated);
    let mut at = start;
    let mut fits = false;
    loop {
        let low = *pattern.get(at)?;
        if low == ']' && at > start {
            return Some((fits != negated, at + 1));
        }
        match (pattern.get(at + 1), pattern.get(at + 2)) {
            (Some('-'), Some(high)) if *high != ']' => {
                fits |= (low..=*high).contains(&c);
                at += 3;
            }
            _ => {
                fits |= low == c;
                at += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_names_as_in_a_shell() {
        for (pattern, name, expected) in [
            ("*.csv", "a.csv", true),
            ("*.csv", "a.csv.gz", false),
            ("*", ".hidden", false),
            (".*", ".hidden", true),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("[a-c]x", "bx", true),
            ("[!a-c]x", "bx", false),
            ("[]]x", "]x", true),
            ("[a", "[a", true),
            ("*a*b*", "xxaxxbxx", true),
            ("ä*", "äöü", true),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn a_pattern_of_many_stars_does_not_explode() {
        let pattern = "*a".repeat(40) + "b";
        assert!(!matches(&pattern, &"a".repeat(5000)));
    }

    #[cfg(unix)]
    #[test]
    fn files_are_found_sorted_and_links_do_not_loop() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["data/b.csv", "data/a.csv", "data/x/y/c.csv", "data/.h.csv", "top.csv"] {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        std::os::unix::fs::symlink("..", dir.path().join("data/x/up")).unwrap();
        let find = |pattern: &str| find(dir.path(), pattern).unwrap();
        assert_eq!(find("data/*.csv"), ["data/a.csv", "data/b.csv"]);
        assert_eq!(find("**/*.csv"), ["data/a.csv", "data/b.csv", "data/x/y/c.csv", "top.csv"]);
        assert_eq!(find("data/x/**"), ["data/x/y/c.csv"]);
        assert_eq!(find("./top.csv"), ["top.csv"]);
        assert_eq!(find("nowhere/*"), Vec::<String>::new());
        let absolute = format!("{}/t*.csv", dir.path().display());
        assert_eq!(find(&absolute), [format!("{}/top.csv", dir.path().display())]);
    }
}
