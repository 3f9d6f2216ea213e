//! Which traces are kept. Owns the meaning of `OTEL_TRACES_SAMPLER` and its argument.

use runcue_core::TraceParent;

/// Decides whether a span is kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampler {
    /// What the trace's own flag says counts, where there is one.
    parent_based: bool,
    /// The share of all other traces that is kept.
    share: f64,
}

impl Default for Sampler {
    fn default() -> Self {
        Self { parent_based: true, share: 1.0 }
    }
}

impl Sampler {
    /// From the words of the environment; nothing if they make no sense.
    pub fn from_words(name: &str, argument: Option<&str>) -> Option<Self> {
        let (parent_based, rule) = match name.strip_prefix("parentbased_") {
            Some(rule) => (true, rule),
            None => (false, name),
        };
        let share = match rule {
            "always_on" => 1.0,
            "always_off" => 0.0,
            "traceidratio" => match argument {
                Some(text) => text.parse().ok().filter(|share| (0.0..=1.0).contains(share))?,
                None => 1.0,
            },
            _ => return None,
        };
        Some(Self { parent_based, share })
    }

    /// Whether a span of that trace is kept.
    pub fn keeps(&self, parent: Option<TraceParent>, trace: u128) -> bool {
        match parent {
            Some(parent) if self.parent_based => parent.is_sampled(),
            _ => self.is_in_share(trace),
        }
    }

    /// The last digits of an id are random, and every process that looks at them decides alike. A floating-point
    /// number holds 53 bits of them without rounding.
    fn is_in_share(&self, trace: u128) -> bool {
        const BITS: u32 = 53;
        let place = trace & ((1 << BITS) - 1);
        let place = place as f64 / (1_u64 << BITS) as f64;
        place < self.share
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parent(sampled: bool) -> Option<TraceParent> {
        TraceParent::new(1, 1, sampled)
    }

    #[test]
    fn by_default_the_trace_decides_and_new_traces_are_kept() {
        let sampler = Sampler::default();
        assert!(sampler.keeps(parent(true), 1));
        assert!(!sampler.keeps(parent(false), 1));
        assert!(sampler.keeps(None, u128::MAX));
        assert_eq!(Sampler::from_words("parentbased_always_on", None), Some(sampler));
    }

    #[test]
    fn always_means_always() {
        let (on, off) =
            (Sampler::from_words("always_on", None), Sampler::from_words("always_off", None));
        assert!(on.unwrap().keeps(parent(false), 1));
        assert!(!off.unwrap().keeps(parent(true), 1));
        assert!(!off.unwrap().keeps(None, 0));
    }

    #[test]
    fn a_share_is_a_share_and_everybody_decides_alike() {
        let tenth = Sampler::from_words("parentbased_traceidratio", Some("0.1")).unwrap();
        // Spread over all ids by a step that is odd.
        let step = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835_u128;
        let kept = (1..=10_000_u128).filter(|n| tenth.keeps(None, n.wrapping_mul(step))).count();
        assert!((900..1_100).contains(&kept), "{kept}");
        assert!(tenth.keeps(parent(true), u128::MAX));
    }

    #[test]
    fn words_that_make_no_sense_are_refused() {
        for (name, argument) in
            [("xray", None), ("traceidratio", Some("2")), ("traceidratio", Some("x"))]
        {
            assert_eq!(Sampler::from_words(name, argument), None);
        }
    }
}
