//! The lanes of a group by rank, behind their gates. Most groups have one lane; that one is held in place, because a claim
//! over many groups would have to fetch a tree for each from far away.

use super::*;

/// A gate with its best lane's rank, in the order in which a group offers them.
pub(super) type Best = (Reverse<i32>, Seq, usize);

/// The ranked lanes of one group.
#[derive(Debug, Default)]
pub(super) enum Ranks {
    /// No lane has anything ready.
    #[default]
    None,
    /// One lane, behind this gate.
    One(usize, Rank),
    /// Several.
    Many(Box<Many>),
}

#[derive(Debug, Default)]
pub(super) struct Many {
    /// The ranked lanes behind each gate.
    gates: BTreeMap<usize, BTreeSet<Rank>>,
    /// The best of each gate, best first.
    best: BTreeSet<Best>,
}

impl Ranks {
    /// The best gate.
    pub fn first(&self) -> Option<Best> {
        match self {
            Self::None => None,
            Self::One(gate, (priority, seq, _)) => Some((*priority, *seq, *gate)),
            Self::Many(many) => many.best.first().copied(),
        }
    }

    /// The best gate behind another one.
    pub fn after(&self, best: Best) -> Option<Best> {
        use std::ops::Bound::{Excluded, Unbounded};
        match self {
            Self::Many(many) => many.best.range((Excluded(best), Unbounded)).next().copied(),
            _ => self.first().filter(|first| *first > best),
        }
    }

    /// The best lane behind a gate.
    pub fn first_behind(&self, gate: usize) -> Option<LaneId> {
        match self {
            Self::One(own, (_, _, lane)) if *own == gate => Some(*lane),
            Self::Many(many) => many.gates.get(&gate)?.first().map(|(_, _, lane)| *lane),
            _ => None,
        }
    }

    /// Every lane with its gate; gates best first, and the lanes behind each.
    pub fn lanes(&self) -> Vec<(usize, LaneId)> {
        match self {
            Self::None => Vec::new(),
            Self::One(gate, (_, _, lane)) => vec![(*gate, *lane)],
            Self::Many(many) => {
                let behind =
                    |gate: usize| many.gates[&gate].iter().map(move |(_, _, lane)| (gate, *lane));
                many.best.iter().flat_map(|(_, _, gate)| behind(*gate)).collect()
            }
        }
    }

    /// Whether a lane is known under a rank.
    pub fn contains(&self, gate: usize, rank: &Rank) -> bool {
        match self {
            Self::None => false,
            Self::One(own, one) => *own == gate && one == rank,
            Self::Many(many) => many.gates.get(&gate).is_some_and(|ranks| ranks.contains(rank)),
        }
    }

    /// A lane behind a gate gets another rank, its first, or none any more.
    pub fn change(&mut self, gate: usize, old: Option<Rank>, new: Option<Rank>) {
        match (&mut *self, old, new) {
            (_, None, None) => {}
            (Self::None, _, Some(new)) => *self = Self::One(gate, new),
            (Self::One(own, one), Some(old), new) if *own == gate && *one == old => {
                *self = new.map_or(Self::None, |new| Self::One(gate, new));
            }
            (Self::One(own, one), _, _) => {
                let mut many = Box::<Many>::default();
                many.change(*own, None, Some(*one));
                many.change(gate, old, new);
                *self = Self::Many(many);
            }
            (Self::Many(many), _, _) => {
                many.change(gate, old, new);
                if many.best.is_empty() {
                    *self = Self::None;
                }
            }
            (Self::None, _, None) => {}
        }
    }

    /// Panics if the parts contradict each other. For tests.
    pub fn check_invariants(&self, group: Option<&GroupName>) {
        if let Self::Many(many) = self {
            let best: BTreeSet<Best> = many
                .gates
                .iter()
                .filter_map(|(gate, ranks)| ranks.first().map(|(p, seq, _)| (*p, *seq, *gate)))
                .collect();
            assert_eq!(many.best, best, "group {group:?} ranks its gates wrongly");
            assert!(!best.is_empty(), "group {group:?} keeps empty gates");
        }
    }
}

impl Many {
    fn change(&mut self, gate: usize, old: Option<Rank>, new: Option<Rank>) {
        let ranks = self.gates.entry(gate).or_default();
        let best_before = ranks.first().copied();
        if let Some(old) = old {
            ranks.remove(&old);
        }
        if let Some(new) = new {
            ranks.insert(new);
        }
        let best = ranks.first().copied();
        if best.is_none() {
            self.gates.remove(&gate);
        }
        if best == best_before {
            return;
        }
        if let Some((priority, seq, _)) = best_before {
            self.best.remove(&(priority, seq, gate));
        }
        if let Some((priority, seq, _)) = best {
            self.best.insert((priority, seq, gate));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What ranks are by definition: every lane with its gate and rank.
    #[derive(Default)]
    struct Model(BTreeSet<(Reverse<i32>, Seq, LaneId, usize)>);

    impl Model {
        fn best(&self) -> Vec<Best> {
            let mut seen = std::collections::HashSet::new();
            let firsts = self.0.iter().filter(|(_, _, _, gate)| seen.insert(*gate));
            firsts.map(|(priority, seq, _, gate)| (*priority, *seq, *gate)).collect()
        }
    }

    proptest::proptest! {
        #[test]
        fn they_are_what_the_lanes_are(steps in proptest::collection::vec((0_u64..5, 0_i32..3, 0_u64..40, proptest::bool::ANY), 0..60)) {
            let (mut ranks, mut model) = (Ranks::default(), Model::default());
            let mut at: Map<LaneId, Rank> = Map::default();
            for (lane, priority, seq, leaves) in steps {
                let (id, gate) = (LaneId(lane), usize::try_from(lane % 3).unwrap());
                // No two lanes hold the same job.
                let new = (!leaves).then_some((Reverse(priority), Seq(seq * 5 + lane), id));
                let old = match new {
                    Some(new) => at.insert(id, new),
                    None => at.remove(&id),
                };
                ranks.change(gate, old, new);
                if let Some((priority, seq, _)) = old {
                    model.0.remove(&(priority, seq, id, gate));
                }
                if let Some((priority, seq, _)) = new {
                    model.0.insert((priority, seq, id, gate));
                }
                ranks.check_invariants(None);
                let best = model.best();
                assert_eq!(ranks.first(), best.first().copied());
                for (n, one) in best.iter().enumerate() {
                    assert_eq!(ranks.after(*one), best.get(n + 1).copied());
                    let first = model.0.iter().find(|(_, _, _, gate)| *gate == one.2);
                    assert_eq!(ranks.first_behind(one.2), first.map(|(_, _, lane, _)| *lane));
                }
                let mut lanes: Vec<(usize, LaneId)> = ranks.lanes();
                assert!(lanes.iter().all(|(gate, lane)| ranks.contains(*gate, &at[lane])));
                lanes.sort();
                let mut known: Vec<(usize, LaneId)> =
                    model.0.iter().map(|(_, _, lane, gate)| (*gate, *lane)).collect();
                known.sort();
                assert_eq!(lanes, known);
            }
        }
    }
}
