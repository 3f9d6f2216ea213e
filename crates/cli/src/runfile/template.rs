//! Text with holes: `{target}`, `{params.customer.id}`, `{attempt}`.
//!
//! A hole is `{name}` where name is letters, digits, `_`, `-` and `.`, starting with a letter or
//! `_`. Everything else in braces is left alone (`{}`, `{"a": 1}`, `{a,b}`), and so is `${NAME}`,
//! which belongs to the shell. `{{` writes a `{`, and the `}}` that goes with it a `}`.
//!
//! A template is parsed once and filled for each job. In an argument list a value is whole or part
//! of one argument and is never split. In a shell string ([`ShellTemplate`]) every value is quoted.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::shell::{self, Context};

/// A parsed text with holes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    source: String,
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Hole(String),
}

/// The first hole that nothing fills.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{{{name}}} names nothing")]
pub struct Unfilled {
    /// The name in the braces.
    pub name: String,
}

impl Template {
    /// Parses `text`. There is no wrong template, only holes that nothing fills.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut escaped = 0_usize;
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            literal.push_str(&rest[..at]);
            rest = &rest[at..];
            if rest.starts_with("{{") {
                literal.push('{');
                escaped += 1;
                rest = &rest[2..];
            } else if rest.starts_with("}}") && escaped > 0 {
                literal.push('}');
                escaped -= 1;
                rest = &rest[2..];
            } else if let Some(name) = hole(rest).filter(|_| !literal.ends_with('$')) {
                if !literal.is_empty() {
                    parts.push(Part::Text(std::mem::take(&mut literal)));
                }
                parts.push(Part::Hole(name.to_owned()));
                rest = &rest[name.len() + 2..];
            } else {
                literal.push_str(&rest[..1]);
                rest = &rest[1..];
            }
        }
        literal.push_str(rest);
        if !literal.is_empty() {
            parts.push(Part::Text(literal));
        }
        Self { source: text.to_owned(), parts }
    }

    /// A template that fills to exactly `text`, whatever braces it has.
    #[must_use]
    pub fn literal(text: &str) -> Self {
        let mut source = String::with_capacity(text.len());
        let mut open = 0_usize;
        for c in text.chars() {
            source.push(c);
            if c == '{' {
                open += 1;
                source.push(c);
            } else if c == '}' && open > 0 {
                open -= 1;
                source.push(c);
            }
        }
        let parts = match text {
            "" => Vec::new(),
            _ => vec![Part::Text(text.to_owned())],
        };
        Self { source, parts }
    }

    /// The text as written.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The names in the holes, in order, repeated as often as they stand there.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            Part::Hole(name) => Some(name.as_str()),
            Part::Text(_) => None,
        })
    }

    /// Whether there are no holes.
    #[must_use]
    pub fn is_literal(&self) -> bool {
        self.names().next().is_none()
    }

    /// The text with every hole filled.
    pub fn fill(&self, value: &dyn Fn(&str) -> Option<String>) -> Result<String, Unfilled> {
        let mut text = String::with_capacity(self.source.len());
        for part in &self.parts {
            match part {
                Part::Text(literal) => text.push_str(literal),
                Part::Hole(name) => text.push_str(&find(name, value)?),
            }
        }
        Ok(text)
    }
}

fn find(name: &str, value: &dyn Fn(&str) -> Option<String>) -> Result<String, Unfilled> {
    value(name).ok_or_else(|| Unfilled { name: name.to_owned() })
}

/// The name if `text` starts with a hole.
fn hole(text: &str) -> Option<&str> {
    let inner = text.strip_prefix('{')?;
    let name = &inner[..inner.find('}')?];
    let first = name.chars().next()?;
    let fits = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    ((first.is_alphabetic() || first == '_') && name.chars().all(fits)).then_some(name)
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)
    }
}

impl Serialize for Template {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.source)
    }
}

impl<'de> Deserialize<'de> for Template {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::parse(&String::deserialize(deserializer)?))
    }
}

/// A shell command line with holes. Every value is quoted where it goes in, so that no value can
/// become shell syntax; a hole where quoting cannot work is refused when the file is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShellTemplate {
    template: Template,
    contexts: Vec<Context>,
}

/// A hole in a shell string where no quoting is safe.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{{{name}}} stands {place}, where a value cannot be quoted; {advice}, or write {{{{{name}}}}} \
     if the braces belong to the command"
)]
pub struct UnsafeHole {
    /// The name in the braces.
    pub name: String,
    /// Where it stands, in words.
    pub place: &'static str,
    /// What to do instead.
    pub advice: &'static str,
}

impl ShellTemplate {
    /// Parses a shell string and checks that each hole stands where its value can be quoted.
    pub fn parse(text: &str) -> Result<Self, UnsafeHole> {
        let template = Template::parse(text);
        let mut scanner = shell::Scanner::default();
        let mut contexts = Vec::new();
        for part in &template.parts {
            match part {
                Part::Text(literal) => scanner.read(literal),
                Part::Hole(name) => {
                    let context = scanner.context().map_err(|refused| UnsafeHole {
                        name: name.clone(),
                        place: refused.place,
                        advice: refused.advice,
                    })?;
                    contexts.push(context);
                    scanner.read_value();
                }
            }
        }
        Ok(Self { template, contexts })
    }

    /// The template underneath.
    #[must_use]
    pub fn template(&self) -> &Template {
        &self.template
    }

    /// The command line for `sh -c`, with every value quoted.
    pub fn fill(&self, value: &dyn Fn(&str) -> Option<String>) -> Result<String, Unfilled> {
        let mut text = String::with_capacity(self.template.source.len());
        let mut contexts = self.contexts.iter();
        for part in &self.template.parts {
            match part {
                Part::Text(literal) => text.push_str(literal),
                Part::Hole(name) => {
                    let quoted = shell::quote(&find(name, value)?);
                    match contexts.next() {
                        // Leaves the double quotes, puts the value in single ones, comes back.
                        Some(Context::DoubleQuotes) => text.push_str(&format!("\"{quoted}\"")),
                        _ => text.push_str(&quoted),
                    }
                }
            }
        }
        Ok(text)
    }
}

impl Serialize for ShellTemplate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.template.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for ShellTemplate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(name: &str) -> Option<String> {
        match name {
            "target" => Some("a b".to_owned()),
            "params.x" => Some("1".to_owned()),
            "evil" => Some("'; $(touch pwned) `x` \"\n".to_owned()),
            _ => None,
        }
    }

    #[test]
    fn holes_are_filled_and_other_braces_left_alone() {
        for (text, filled) in [
            ("{target}", "a b"),
            ("--x={params.x}/{target}", "--x=1/a b"),
            ("{} {a,b} {\"k\": {\"a\": 1}}", "{} {a,b} {\"k\": {\"a\": 1}}"),
            ("${HOME} ${{x}}", "${HOME} ${x}"),
            ("{{target}} {target}", "{target} a b"),
            ("{{\"k\": {params.x}}}", "{\"k\": 1}"),
            ("100 %", "100 %"),
            ("", ""),
            ("{", "{"),
            ("ä{target}ö", "äa bö"),
        ] {
            assert_eq!(Template::parse(text).fill(&values).as_deref(), Ok(filled));
        }
    }

    #[test]
    fn a_hole_that_nothing_fills_is_named() {
        let template = Template::parse("{target} {nope}");
        assert_eq!(template.fill(&values).unwrap_err().name, "nope");
        assert_eq!(template.names().collect::<Vec<_>>(), ["target", "nope"]);
    }

    #[test]
    fn a_literal_survives_being_stored_as_text() {
        for text in ["{target}", "{\"a\": {\"b\": 1}}", "}}", "{{x}}", "a}b{c", "${x}", "${{y}"] {
            let stored = serde_json::to_string(&Template::literal(text)).unwrap();
            let template: Template = serde_json::from_str(&stored).unwrap();
            assert_eq!(template.fill(&|_| None).as_deref(), Ok(text), "{stored}");
        }
    }

    #[test]
    fn values_in_a_shell_string_stay_one_word_wherever_they_stand() {
        for script in [
            "printf %s {evil}",
            "printf %s \"{evil}\"",
            "printf %s \"$(printf %s {evil})\"",
            "printf %s x{evil}x # a comment that doesn't matter",
            "awk 'BEGIN {{ print 1 }}' >/dev/null; printf %s {evil}",
        ] {
            let line = ShellTemplate::parse(script).unwrap().fill(&values).unwrap();
            let output = std::process::Command::new("sh").args(["-c", &line]).output().unwrap();
            assert!(output.status.success(), "{line}");
            let text = String::from_utf8(output.stdout).unwrap();
            let expected = values("evil").unwrap();
            // $(…) drops the last newline.
            assert!(text.contains(expected.trim_end()), "{line} gave {text}");
            assert!(!std::path::Path::new("pwned").exists());
        }
    }

    #[test]
    fn a_hole_where_quoting_cannot_work_is_refused() {
        for script in [
            "echo '{target}'",
            "echo `cat {target}`",
            "echo hi # {target}",
            "echo $((1 + {params.x}))",
            "echo ${X:-{target}}",
            "cat <<EOF\n{target}\nEOF",
            "echo \"`cat {target}`\"",
            "echo $'{target}'",
            "echo \\{target}",
        ] {
            assert!(ShellTemplate::parse(script).is_err(), "{script}");
        }
    }

    #[test]
    fn a_shell_string_is_stored_as_text_and_read_back() {
        let template = ShellTemplate::parse("echo \"{target}\" {params.x}").unwrap();
        let stored = serde_json::to_string(&template).unwrap();
        assert_eq!(stored, "\"echo \\\"{target}\\\" {params.x}\"");
        let back: ShellTemplate = serde_json::from_str(&stored).unwrap();
        assert_eq!(back, template);
    }
}
