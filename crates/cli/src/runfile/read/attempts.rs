//! How often and when again: the `retry`, `max_attempts` and `priority` fields.

use super::super::error::Problems;
use super::super::fields::Fields;
use super::super::model::{Backoff, RetryDef, RetryOn};
use super::super::suggest::did_you_mean;
use super::super::tree::{Kind, Node};

/// Priorities go from minus this to plus this.
pub(crate) const MAX_PRIORITY: i64 = 1_000_000;
/// The words for priorities.
const PRIORITIES: [(&str, i32); 4] = [("low", 0), ("normal", 50), ("high", 100), ("critical", 200)];

const RETRY_FIELDS: [&str; 7] =
    ["max_attempts", "max_crashes", "backoff", "base_delay", "max_delay", "jitter", "retry_on"];
const MAX_ATTEMPTS: i64 = 1_000_000;

/// `priority: 10` or `priority: high`.
pub(super) fn priority(fields: &Fields<'_>, problems: &mut Problems) -> Option<i32> {
    let node = fields.get("priority")?;
    let text = node.text().unwrap_or_default();
    if let Some((_, value)) = PRIORITIES.iter().find(|(word, _)| *word == text) {
        return Some(*value);
    }
    match text.parse::<i64>() {
        Ok(number) if number.abs() <= MAX_PRIORITY => i32::try_from(number).ok(),
        Ok(number) => {
            let range = format!("is {number}; it must be from -{MAX_PRIORITY} to {MAX_PRIORITY}");
            fields.refuse("priority", problems, range);
            None
        }
        Err(_) => fields.wrong(
            "priority",
            node,
            "a whole number, or low (0), normal (50), high (100) or critical (200)",
            problems,
        ),
    }
}

/// `retry` and `max_attempts` together. `max_attempts` beside `retry` says the same thing as inside.
pub(super) fn retry(fields: &Fields<'_>, problems: &mut Problems) -> Option<RetryDef> {
    let beside = attempts(fields, "max_attempts", problems);
    let retry = match fields.get("retry") {
        None => None,
        Some(node) => match &node.kind {
            Kind::Map(_) => policy(node, &fields.path("retry"), problems),
            _ => attempts(fields, "retry", problems)
                .map(|count| RetryDef { max_attempts: Some(count), ..RetryDef::default() }),
        },
    };
    let inside = retry.as_ref().and_then(|retry| retry.max_attempts);
    if let (Some(inside), Some(beside)) = (inside, beside)
        && inside != beside
    {
        let message = format!("is {beside}, but retry says {inside}; keep one");
        fields.refuse("max_attempts", problems, message);
    }
    match (retry, beside) {
        (None, None) => None,
        (retry, beside) => {
            let mut retry = retry.unwrap_or_default();
            retry.max_attempts = inside.or(beside);
            Some(retry)
        }
    }
}

fn attempts(fields: &Fields<'_>, name: &str, problems: &mut Problems) -> Option<u32> {
    fields.whole(name, 1, MAX_ATTEMPTS, problems).and_then(|count| u32::try_from(count).ok())
}

fn policy(node: &Node, place: &str, problems: &mut Problems) -> Option<RetryDef> {
    let fields = Fields::open(node, place, &RETRY_FIELDS, problems)?;
    let retry = RetryDef {
        max_attempts: attempts(&fields, "max_attempts", problems),
        max_crashes: attempts(&fields, "max_crashes", problems),
        backoff: backoff(&fields, problems),
        base_delay: fields.duration("base_delay", problems),
        max_delay: fields.duration("max_delay", problems),
        jitter: fields.flag("jitter", problems),
        retry_on: fields
            .words("retry_on", problems)
            .map(|words| words.into_iter().map(retry_on).collect()),
    };
    if let (Some(base), Some(max)) = (retry.base_delay, retry.max_delay)
        && base > max
    {
        fields.refuse("base_delay", problems, "is longer than max_delay");
    }
    Some(retry)
}

fn backoff(fields: &Fields<'_>, problems: &mut Problems) -> Option<Backoff> {
    let text = fields.text("backoff", problems)?;
    match text.as_str() {
        "fixed" => Some(Backoff::Fixed),
        "linear" => Some(Backoff::Linear),
        "exponential" => Some(Backoff::Exponential),
        other => {
            let near = did_you_mean(other, ["fixed", "linear", "exponential"]);
            let message = format!("is \"{other}\"; it must be fixed, linear or exponential{near}");
            fields.refuse("backoff", problems, message);
            None
        }
    }
}

fn retry_on(word: String) -> RetryOn {
    match (word.as_str(), word.parse::<i32>()) {
        ("timeout", _) => RetryOn::Timeout,
        ("crash", _) => RetryOn::Crash,
        (_, Ok(code)) => RetryOn::ExitCode(code),
        _ => RetryOn::Word(word),
    }
}
