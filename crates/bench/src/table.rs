//! The table that is printed: one line per figure, beside the floor of the same run.

/// Stands where a peer's figure would.
const NOT_MEASURED: &str = "not measured";

/// One line.
pub struct Line {
    pub what: String,
    pub ours: String,
    pub floor: String,
    pub ratio: String,
    pub mode: String,
    pub goal: String,
    pub met: Option<bool>,
}

impl Line {
    /// A rate beside a floor, with the least share of it that is wanted.
    pub fn rate(what: &str, mode: &str, ours: f64, floor: f64, least: f64) -> Self {
        let ratio = ours / floor;
        Self {
            what: what.to_owned(),
            ours: format!("{}/s", thousands(ours)),
            floor: format!("{}/s", thousands(floor)),
            ratio: format!("{ratio:.2}"),
            mode: mode.to_owned(),
            goal: format!("≥ {least:.2} of the floor"),
            met: Some(ratio >= least),
        }
    }

    /// A figure without a floor.
    pub fn figure(what: &str, mode: &str, ours: String, goal: &str, met: Option<bool>) -> Self {
        let (floor, ratio) = ("–".to_owned(), "–".to_owned());
        let (what, mode, goal) = (what.to_owned(), mode.to_owned(), goal.to_owned());
        Self { what, ours, floor, ratio, mode, goal, met }
    }

    /// In place of the figures beside a peer that could not be measured.
    pub fn unmeasured(peer: &str, mode: &str) -> Self {
        let line = Self::figure(&format!("beside {peer}"), mode, "–".to_owned(), "–", None);
        Self { floor: NOT_MEASURED.to_owned(), ..line }
    }

    /// Whether it stands in place of figures that were asked for.
    pub fn is_unmeasured(&self) -> bool {
        self.floor == NOT_MEASURED
    }

    /// A figure beside another one of the same run.
    pub fn beside(mut self, floor: String, ratio: f64) -> Self {
        self.floor = floor;
        self.ratio = format!("{ratio:.2}");
        self
    }
}

/// The lines as a Markdown table.
pub fn render(lines: &[Line]) -> String {
    let mut text = String::from(
        "| figure | runcue | floor or peer | ratio | durability | goal | met |\n|---|---:|---:|---:|---|---|---|\n",
    );
    for line in lines {
        let met = match line.met {
            Some(true) => "yes",
            Some(false) => "**no**",
            None => "–",
        };
        let Line { what, ours, floor, ratio, mode, goal, .. } = line;
        text.push_str(&format!(
            "| {what} | {ours} | {floor} | {ratio} | {mode} | {goal} | {met} |\n"
        ));
    }
    text
}

/// A number with its thousands set apart.
pub fn thousands(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place) % 3 == 0 {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_that_was_not_measured_has_a_line_that_is_known_for_it() {
        let line = Line::unmeasured("BullMQ", "everysec");
        assert!(line.is_unmeasured());
        let text = render(&[line]);
        assert!(
            text.ends_with("| beside BullMQ | – | not measured | – | everysec | – | – |\n"),
            "{text}"
        );
        let figure = Line::figure("drain", "full", "1/s".to_owned(), "–", None);
        assert!(!figure.beside("2/s".to_owned(), 0.5).is_unmeasured());
        assert!(!Line::rate("drain", "full", 1.0, 2.0, 0.5).is_unmeasured());
    }
}
