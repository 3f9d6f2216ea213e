//! "Did you mean": the nearest known word to one that is not known.

/// How many candidates are looked at; a file with a million job ids must not make an error slow.
const MAX_CANDIDATES: usize = 20_000;

/// `; did you mean "x"?` for the nearest candidate, or nothing when none is near.
pub(crate) fn did_you_mean<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(word, known).map(|best| format!("; did you mean \"{best}\"?")).unwrap_or_default()
}

/// The candidate with the smallest edit distance, if that is small for the word's length.
pub(crate) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word: Vec<char> = word.chars().take(64).collect();
    let allowed = (word.len() / 3).clamp(1, 4);
    known
        .into_iter()
        .take(MAX_CANDIDATES)
        .filter(|candidate| candidate.len() <= 256)
        .map(|candidate| (distance(&word, candidate), candidate))
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Edit distance with swaps of neighbours counted as one (optimal string alignment).
fn distance(a: &[char], b: &str) -> usize {
    let b: Vec<char> = b.chars().take(64).collect();
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let change = last[j] + usize::from(!x.eq_ignore_ascii_case(y));
            let mut best = change.min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y {
                best = best.min(before[j - 1] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
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
