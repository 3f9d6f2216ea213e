//! What may be typed after `cargo xtask`.

pub const HELP: &str = "\
Chores of this repository.

  cargo xtask test [--long] [-- FILTER…]   everything that must hold: format, lints, tests, house rules
  cargo xtask tidy                         the house rules alone
  cargo xtask http                         the property-based tests of the hub over HTTP alone
  cargo xtask bench [ARGS…]                the benchmarks, built as delivered: --quick, --peers, names of parts
  cargo xtask help                         this

--long also runs the tests that take minutes (it sets RUNCUE_LONG=1).
FILTER runs only the tests whose name contains one of the words.
Exit codes: 0 all is well, 1 a step failed, 2 wrong usage or a missing program.
";

/// What is to be done.
#[derive(Debug, PartialEq, Eq)]
pub enum Chore {
    Help,
    Test(Wanted),
    Tidy,
    Http,
    /// With arguments for the benchmark program.
    Bench(Vec<String>),
}

/// Which tests are wanted.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Also those that take minutes.
    pub long: bool,
    /// Only those whose name contains one of these; none means all.
    pub filters: Vec<String>,
}

/// Reads the words, or says which one it does not know.
pub fn parse(words: impl Iterator<Item = String>) -> Result<Chore, String> {
    let mut words = words;
    match words.next().as_deref() {
        None | Some("help" | "--help" | "-h") => Ok(Chore::Help),
        Some("test") => test(words),
        Some("tidy") => alone("tidy", Chore::Tidy, words),
        Some("http") => alone("http", Chore::Http, words),
        Some("bench") => {
            let words: Vec<String> = words.collect();
            // `bench -- --quick` and `bench --quick` mean the same.
            let skip = usize::from(words.first().is_some_and(|word| word == "--"));
            Ok(Chore::Bench(words[skip..].to_vec()))
        }
        Some(other) => Err(format!("there is no chore \"{other}\"")),
    }
}

fn alone(
    name: &str,
    chore: Chore,
    mut words: impl Iterator<Item = String>,
) -> Result<Chore, String> {
    match words.next() {
        None => Ok(chore),
        Some(word) => Err(format!("{name} takes no arguments, not even \"{word}\"")),
    }
}

fn test(mut words: impl Iterator<Item = String>) -> Result<Chore, String> {
    let mut wanted = Wanted::default();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--long" => wanted.long = true,
            "--help" | "-h" => return Ok(Chore::Help),
            "--" => {
                wanted.filters = words.collect();
                break;
            }
            other => {
                return Err(format!("test does not know \"{other}\" (a filter goes after --)"));
            }
        }
    }
    Ok(Chore::Test(wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Chore, String> {
        parse(line.split_whitespace().map(str::to_owned))
    }

    fn wanted(long: bool, filters: &[&str]) -> Result<Chore, String> {
        let filters = filters.iter().map(|word| (*word).to_owned()).collect();
        Ok(Chore::Test(Wanted { long, filters }))
    }

    #[test]
    fn nothing_and_help_both_explain() {
        for line in ["", "help", "--help", "-h", "test --help"] {
            assert_eq!(parsed(line), Ok(Chore::Help), "{line}");
        }
    }

    #[test]
    fn test_takes_long_and_filters_after_two_dashes() {
        assert_eq!(parsed("test"), wanted(false, &[]));
        assert_eq!(parsed("test --long"), wanted(true, &[]));
        assert_eq!(parsed("test --long -- lease claim"), wanted(true, &["lease", "claim"]));
        assert_eq!(parsed("test -- --long"), wanted(false, &["--long"]));
    }

    #[test]
    fn bench_hands_its_words_on() {
        let words = |line: &[&str]| line.iter().map(|word| (*word).to_owned()).collect();
        assert_eq!(parsed("bench"), Ok(Chore::Bench(words(&[]))));
        assert_eq!(parsed("bench --quick"), Ok(Chore::Bench(words(&["--quick"]))));
        assert_eq!(parsed("bench -- a -- b"), Ok(Chore::Bench(words(&["a", "--", "b"]))));
    }

    #[test]
    fn a_word_nobody_knows_is_named() {
        for (line, word) in [("tst", "tst"), ("test lease", "lease"), ("tidy up", "up")] {
            let error = parsed(line).unwrap_err();
            assert!(error.contains(word), "{error}");
        }
    }
}
