//! "Did you mean": the known word that is nearest to one that is not known.

/// How many candidates are looked at, so that a store with a million groups does not make an error slow.
const MAX_CANDIDATES: usize = 20_000;
/// How much of a word is compared.
const MAX_CHARS: usize = 64;

/// The candidate with the smallest edit distance, if that is small for the word's length.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word: Vec<char> = word.chars().take(MAX_CHARS).collect();
    let allowed = (word.len() / 3).clamp(1, 4);
    known
        .into_iter()
        .take(MAX_CANDIDATES)
        .map(|candidate| (distance(&word, candidate), candidate))
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// What to tell about a word that is not among the known ones: the nearest, or some of them, or nothing.
pub fn advice<'a>(word: &str, known: impl IntoIterator<Item = &'a str> + Clone) -> Option<String> {
    if let Some(near) = nearest(word, known.clone()) {
        return Some(format!("did you mean {near}?"));
    }
    let mut known = known.into_iter();
    let some: Vec<&str> = known.by_ref().take(8).collect();
    match (some.is_empty(), known.count()) {
        (true, _) => None,
        (false, 0) => Some(format!("there are: {}", some.join(", "))),
        (false, more) => Some(format!("there are: {} and {more} more", some.join(", "))),
    }
}

/// Edit distance, with two neighbours swapped counted as one edit.
fn distance(a: &[char], b: &str) -> usize {
    let b: Vec<char> = b.chars().take(MAX_CHARS).collect();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_a_swap_and_a_missing_letter_are_near() {
        let states = ["queued", "running", "failed"];
        assert_eq!(nearest("runing", states), Some("running"));
        assert_eq!(nearest("qeuued", states), Some("queued"));
        assert_eq!(nearest("faild", states), Some("failed"));
    }

    #[test]
    fn a_word_that_is_far_from_all_is_answered_with_the_list() {
        assert_eq!(nearest("banana", ["queued", "failed"]), None);
        assert_eq!(advice("banana", ["queued", "failed"]).unwrap(), "there are: queued, failed");
        assert_eq!(advice("banana", []), None);
    }

    #[test]
    fn a_long_list_is_cut() {
        let many: Vec<String> = (0..20).map(|n| format!("group-number-{n}")).collect();
        let told = advice("x", many.iter().map(String::as_str)).unwrap();
        assert!(told.ends_with("and 12 more"), "{told}");
    }
}
