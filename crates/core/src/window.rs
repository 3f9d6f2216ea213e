//! The exact sliding window: in no span of the window's length are there more units than the limit.
//!
//! A unit counts from the instant it was used until the whole window has passed; the window is half
//! open, so a use at `t` no longer counts at `t + window`.

use std::collections::VecDeque;
use std::time::Duration;

use crate::time::Timestamp;

/// An entry further ahead than this was written by a clock that has since been set back.
const AHEAD: Duration = Duration::from_secs(60);

/// What was used lately, and how much more may be.
#[derive(Clone, Debug)]
pub struct Window {
    limit: u64,
    span: Duration,
    used: VecDeque<(Timestamp, u64)>,
    sum: u64,
}

impl Window {
    /// An empty window.
    pub fn new(limit: u64, span: Duration) -> Self {
        Self { limit, span, used: VecDeque::new(), sum: 0 }
    }

    /// Its limit.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Its length.
    pub fn span(&self) -> Duration {
        self.span
    }

    /// Units used in the window that ends now.
    pub fn in_use(&self, now: Timestamp) -> u64 {
        self.sum
            - self
                .used
                .iter()
                .take_while(|(at, _)| self.is_past(*at, now))
                .map(|(_, n)| n)
                .sum::<u64>()
    }

    /// Units that may still be used now.
    pub fn room(&self, now: Timestamp) -> u64 {
        self.limit.saturating_sub(self.in_use(now))
    }

    /// The earliest instant at which so many units may be used, if nothing else is used until then;
    /// nothing if they exceed the limit itself.
    pub fn room_at(&self, units: u64, now: Timestamp) -> Option<Timestamp> {
        if units > self.limit {
            return None;
        }
        let mut in_use = self.sum;
        if in_use + units <= self.limit {
            return Some(now);
        }
        for (at, n) in &self.used {
            in_use -= n;
            if in_use + units <= self.limit {
                return Some(at.plus(self.span).max(now));
            }
        }
        Some(now)
    }

    /// Notes a use. Uses may arrive out of order, from several machines.
    pub fn add(&mut self, at: Timestamp, units: u64) {
        self.sum += units;
        match self.used.back_mut() {
            Some((last, n)) if *last == at => *n += units,
            Some((last, _)) if *last > at => {
                let place = self.used.partition_point(|(other, _)| *other <= at);
                self.used.insert(place, (at, units));
            }
            _ => self.used.push_back((at, units)),
        }
    }

    /// Takes units back that were noted at an instant and never used. What is not noted there, because it no
    /// longer counts or was pulled back from a future that was abolished, stays as it is.
    pub fn take_back(&mut self, at: Timestamp, units: u64) {
        let mut left = units;
        let first = self.used.partition_point(|(other, _)| *other < at);
        for (_, n) in self.used.iter_mut().skip(first).take_while(|(other, _)| *other == at) {
            let taken = left.min(*n);
            *n -= taken;
            left -= taken;
        }
        self.sum -= units - left;
    }

    /// Forgets what no longer counts, and pulls entries back that lie in a future which was abolished
    /// by setting the clock back: they count from now, which errs on the safe side for one window.
    pub fn advance(&mut self, now: Timestamp) {
        while let Some((at, n)) = self.used.front().copied() {
            if !self.is_past(at, now) {
                break;
            }
            self.sum -= n;
            self.used.pop_front();
        }
        let horizon = now.plus(AHEAD);
        if self.used.back().is_some_and(|(at, _)| *at > horizon) {
            for (at, _) in self.used.iter_mut().rev().take_while(|(at, _)| *at > horizon) {
                *at = now;
            }
            self.used.make_contiguous().sort_by_key(|(at, _)| *at);
        }
    }

    /// The same uses under another limit and length.
    pub fn resized(&self, limit: u64, span: Duration) -> Self {
        Self { limit, span, used: self.used.clone(), sum: self.sum }
    }

    fn is_past(&self, at: Timestamp, now: Timestamp) -> bool {
        at.plus(self.span) <= now
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    #[test]
    fn a_use_no_longer_counts_when_exactly_one_window_has_passed() {
        let mut window = Window::new(1, Duration::from_secs(10));
        window.add(at(100), 1);
        assert_eq!(window.room(Timestamp::from_micros(109_999_999)), 0);
        assert_eq!(window.room(at(110)), 1);
        assert_eq!(window.room_at(1, at(105)), Some(at(110)));
    }

    #[test]
    fn more_units_than_the_limit_never_fit() {
        assert_eq!(Window::new(5, Duration::from_secs(1)).room_at(6, at(0)), None);
    }

    #[test]
    fn a_clock_set_back_by_an_hour_blocks_for_one_window_at_most() {
        let mut window = Window::new(1, Duration::from_secs(10));
        window.add(at(7_200), 1);
        window.advance(at(3_600));
        assert_eq!(window.room(at(3_600)), 0);
        window.advance(at(3_610));
        assert_eq!(window.room(at(3_610)), 1);
    }

    #[test]
    fn units_taken_back_leave_room_for_others_at_once() {
        let mut window = Window::new(3, Duration::from_secs(10));
        window.add(at(102), 2);
        window.add(at(100), 1);
        window.take_back(at(102), 2);
        assert_eq!(window.room(at(103)), 2);
        assert_eq!(window.room_at(3, at(103)), Some(at(110)), "the other start still counts");
        window.add(at(103), 2);
        window.take_back(at(102), 2);
        assert_eq!(window.room(at(103)), 0, "they are taken back once");
        window.take_back(at(50), 1);
        assert_eq!(window.room(at(103)), 0, "nothing was noted there");
    }

    proptest! {
        /// Greedy use as soon as there is room, at random instants and costs: every window over the
        /// whole history stays within the limit, and `room_at` is never too early nor too late.
        #[test]
        fn no_window_of_any_history_exceeds_the_limit(
            limit in 1_u64..20,
            span in 1_u64..30,
            steps in proptest::collection::vec((0_u64..8, 1_u64..6), 1..120),
        ) {
            let span = Duration::from_secs(span);
            let mut window = Window::new(limit, span);
            let mut now = at(1_000);
            let mut history: Vec<(Timestamp, u64)> = Vec::new();
            for (wait, units) in steps {
                now = now.plus(Duration::from_secs(wait));
                window.advance(now);
                let fits = window.room(now) >= units;
                match window.room_at(units, now) {
                    Some(when) => prop_assert_eq!(fits, when <= now),
                    None => prop_assert!(units > limit),
                }
                if fits {
                    window.add(now, units);
                    history.push((now, units));
                }
                for (start, _) in &history {
                    let inside: u64 = history
                        .iter()
                        .filter(|(t, _)| t >= start && *t < start.plus(span))
                        .map(|(_, n)| n)
                        .sum();
                    prop_assert!(inside <= limit);
                }
            }
        }
    }
}
