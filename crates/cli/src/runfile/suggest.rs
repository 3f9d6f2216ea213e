//! "Did you mean": the nearest known word to one that is not known.

use crate::nearest::nearest;

/// `; did you mean "x"?` for the nearest candidate, or nothing when none is near.
pub(crate) fn did_you_mean<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(word, known).map(|best| format!("; did you mean \"{best}\"?")).unwrap_or_default()
}

/// `a, b and c`, shortened after `most` words.
pub(crate) fn listed<'a>(words: impl IntoIterator<Item = &'a str>, most: usize) -> String {
    let words: Vec<&str> = words.into_iter().collect();
    if words.len() > most {
        let rest = words.len() - most;
        return format!("{} and {rest} more", words[..most].join(", "));
    }
    match words.split_last() {
        None => "nothing".to_owned(),
        Some((only, [])) => (*only).to_owned(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_swap_a_slip_and_a_missing_letter_are_near() {
        let known = ["timeout", "target", "task"];
        assert_eq!(nearest("tiemout", known), Some("timeout"));
        assert_eq!(nearest("tarhet", known), Some("target"));
        assert_eq!(nearest("tas", known), Some("task"));
    }

    #[test]
    fn a_different_word_gets_no_suggestion() {
        assert_eq!(did_you_mean("colour", ["timeout", "task"]), "");
    }

    #[test]
    fn long_lists_are_shortened() {
        assert_eq!(listed(["a", "b", "c"], 5), "a, b and c");
        assert_eq!(listed(["a", "b", "c"], 2), "a, b and 1 more");
    }
}
