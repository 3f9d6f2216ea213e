//! A service in one line: `api [████░░░░░░] 4/5 concurrent 52/60 per min ● OK`.

use runcue_core::Timestamp;

use crate::view::ServiceView;
use crate::words;

const WIDTH: usize = 10;

/// The parts of the line, for a table or a screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gauge {
    /// How full its fullest limit is.
    pub bar: String,
    /// Jobs at once.
    pub concurrent: String,
    /// Units in each window.
    pub rate: String,
    /// `● OK`, or what keeps jobs out.
    pub status: String,
    /// Whether it lets jobs through.
    pub open: bool,
}

/// A service as a gauge.
pub fn of(service: &ServiceView, now: Timestamp) -> Gauge {
    let concurrent = match service.max_concurrent {
        Some(max) => format!("{}/{max} concurrent", service.in_use),
        None => format!("{} concurrent", service.in_use),
    };
    let rates: Vec<String> = service.rates.iter().map(rate).collect();
    let rate = if rates.is_empty() { "-".to_owned() } else { rates.join(", ") };
    Gauge {
        bar: bar(fullness(service)),
        concurrent,
        rate,
        status: status(service, now),
        open: !service.is_blocked(),
    }
}

fn rate(rate: &crate::view::RateView) -> String {
    let window = std::time::Duration::try_from_secs_f64(rate.rate_window).unwrap_or_default();
    format!("{}/{} per {}", rate.used, rate.rate_limit, words::window(window))
}

fn fullness(service: &ServiceView) -> f64 {
    let slots = service.max_concurrent.map(|max| f64::from(service.in_use) / f64::from(max.max(1)));
    let rates = service.rates.iter().map(|rate| rate.used as f64 / rate.rate_limit.max(1) as f64);
    rates.chain(slots).fold(0.0, f64::max).min(1.0)
}

/// A bar of ten cells; anything in use shows, and only full looks full.
pub fn bar(fullness: f64) -> String {
    let exact = fullness * WIDTH as f64;
    let cells = if fullness >= 1.0 { WIDTH } else { (exact.ceil() as usize).min(WIDTH - 1) };
    format!("[{}{}]", "█".repeat(cells), "░".repeat(WIDTH - cells))
}

fn status(service: &ServiceView, now: Timestamp) -> String {
    let until = match service.status_until.map(Timestamp::from_millis) {
        Some(at) if at > now => format!(", probe {}", words::relative(now, at)),
        Some(_) => ", probe due".to_owned(),
        None => String::new(),
    };
    match service.status {
        "ok" => "● OK".to_owned(),
        "full" => "● full".to_owned(),
        "rate_limited" => "● rate limited".to_owned(),
        "held" => format!("◌ held{}", until.replace(", probe", "")),
        "circuit_open" => format!("✖ circuit open{until}"),
        "circuit_half_open" => "◐ probing".to_owned(),
        other => format!("‖ {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_empty_only_at_zero_and_full_only_at_one() {
        assert_eq!(bar(0.0), "[░░░░░░░░░░]");
        assert_eq!(bar(0.01), "[█░░░░░░░░░]");
        assert_eq!(bar(0.99), "[█████████░]");
        assert_eq!(bar(1.0), "[██████████]");
    }
}
