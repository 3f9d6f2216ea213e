//! What the overlay knows of an ordered list: everything up to an edge. Behind the edge only the backend
//! knows. What a turn changes is changed here at once; a turn that is not written forgets its windows.

use std::collections::BTreeSet;

use runcue_core::map::Map;
use runcue_core::{Seq, Timestamp};

use super::Rank;

/// How far a window reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Edge<P> {
    /// Nothing is known.
    Closed,
    /// Everything up to a place is known, that one included.
    Upto(P),
    /// Everything is known.
    End,
}

/// The known beginning of a list of jobs by place.
#[derive(Clone, Debug)]
pub struct Window<P> {
    rows: BTreeSet<P>,
    edge: Edge<P>,
    most: usize,
}

impl<P: Ord + Copy> Window<P> {
    /// A window of which nothing is known, and that keeps no more than so many rows.
    pub fn closed(most: usize) -> Self {
        Self { rows: BTreeSet::new(), edge: Edge::Closed, most }
    }

    /// A window on a list that is known to be empty.
    pub fn empty(most: usize) -> Self {
        Self { rows: BTreeSet::new(), edge: Edge::End, most }
    }

    /// Replaces what is known by the first rows of the list; there are no others if it is whole.
    pub fn fill(&mut self, rows: impl IntoIterator<Item = P>, last: Option<P>, whole: bool) {
        self.rows = rows.into_iter().collect();
        self.edge = match last {
            _ if whole => Edge::End,
            Some(last) => Edge::Upto(last),
            None => Edge::Closed,
        };
    }

    /// Adds the rows that follow the edge; there are no others if it is whole.
    pub fn go_on(&mut self, rows: impl IntoIterator<Item = P>, last: Option<P>, whole: bool) {
        self.rows.extend(rows);
        if whole {
            self.edge = Edge::End;
        } else if let Some(last) = last {
            self.edge = Edge::Upto(last);
        }
    }

    /// The place up to which everything is known, if more follows.
    pub fn edge(&self) -> Option<P> {
        match self.edge {
            Edge::Upto(edge) => Some(edge),
            Edge::Closed | Edge::End => None,
        }
    }

    /// Whether a place lies within what is known.
    pub fn covers(&self, place: P) -> bool {
        match self.edge {
            Edge::Closed => false,
            Edge::Upto(edge) => place <= edge,
            Edge::End => true,
        }
    }

    /// Whether nothing follows the rows that are known.
    pub fn is_whole(&self) -> bool {
        self.edge == Edge::End
    }

    /// The known rows, in order.
    pub fn rows(&self) -> impl Iterator<Item = P> + '_ {
        self.rows.iter().copied()
    }

    /// How many rows are known.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// A row comes, if it is not behind the edge.
    pub fn insert(&mut self, place: P) {
        if !self.covers(place) {
            return;
        }
        self.rows.insert(place);
        if self.rows.len() > self.most {
            self.rows.pop_last();
            self.edge = self.rows.last().map_or(Edge::Closed, |last| Edge::Upto(*last));
        }
    }

    /// Whether a row is known.
    pub fn shows(&self, place: P) -> bool {
        self.rows.contains(&place)
    }

    /// A row goes.
    pub fn remove(&mut self, place: P) {
        self.rows.remove(&place);
    }

    /// What stands at a place or behind it is not known any more. Answers the rows that were.
    pub fn cut(&mut self, from: P) -> BTreeSet<P> {
        if !self.covers(from) {
            return BTreeSet::new();
        }
        let cut = self.rows.split_off(&from);
        self.edge = self.rows.last().map_or(Edge::Closed, |last| Edge::Upto(*last));
        cut
    }
}

/// A window on a list by instant, where rows are also found by job.
#[derive(Clone, Debug)]
pub struct TimedWindow {
    window: Window<(Timestamp, Seq)>,
    at: Map<Seq, Timestamp>,
    /// Whether the bound that is kept with the revision is the exact beginning of the list.
    pub exact: bool,
}

impl TimedWindow {
    /// Rows kept at the most.
    const MOST: usize = 4096;

    /// A window of which nothing is known.
    pub fn closed(exact: bool) -> Self {
        Self { window: Window::closed(Self::MOST), at: Map::default(), exact }
    }

    /// Replaces what is known.
    pub fn fill(
        &mut self,
        rows: Vec<(Timestamp, Seq)>,
        last: Option<(Timestamp, Seq)>,
        whole: bool,
    ) {
        self.at = rows.iter().map(|(at, seq)| (*seq, *at)).collect();
        self.window.fill(rows, last, whole);
    }

    /// A job has this instant now, or none.
    pub fn set(&mut self, seq: Seq, at: Option<Timestamp>) {
        if let Some(old) = self.at.remove(&seq) {
            self.window.remove((old, seq));
        }
        if let Some(at) = at
            && self.window.covers((at, seq))
        {
            self.window.insert((at, seq));
            self.at.insert(seq, at);
        }
    }

    /// Whether every row up to an instant is known.
    pub fn covers(&self, at: Timestamp) -> bool {
        self.window.covers((at, Seq(u64::MAX)))
    }

    /// The known rows, in order.
    pub fn rows(&self) -> impl Iterator<Item = (Timestamp, Seq)> + '_ {
        self.window.rows()
    }

    /// The beginning of the list: nothing if that is not known, nothing in it if the list is empty.
    pub fn first(&self) -> Option<Option<Timestamp>> {
        match self.window.rows().next() {
            Some((at, _)) => Some(Some(at)),
            None => self.window.is_whole().then_some(None),
        }
    }
}

/// What is known of the ready jobs of a lane.
#[derive(Clone, Debug, Default)]
pub struct ReadyLane {
    /// No ready job stands before this place. Nothing if that is not known.
    pub from: Option<Rank>,
    /// Behind the last job that went: where the next one will probably come to stand.
    past: Option<Rank>,
    /// Windows by the highest priority they show.
    pub windows: Map<Option<i32>, Window<Rank>>,
    /// How many jobs to ask for next time: a lane that is being emptied is read further ahead.
    pub ahead: usize,
}

impl ReadyLane {
    /// Rows kept of a lane at the most.
    pub const MOST: usize = 8192;

    /// A lane that is new and has no jobs.
    pub fn new_lane() -> Self {
        let windows = Map::from_iter([(None, Window::empty(Self::MOST))]);
        Self { from: Some(Rank::END), past: None, windows, ahead: 0 }
    }

    /// A job has become ready.
    pub fn insert(&mut self, rank: Rank) {
        if self.from.is_some_and(|from| rank < from) {
            self.from = Some(rank);
        }
        for (max, window) in &mut self.windows {
            if max.is_none_or(|max| rank.priority <= max) {
                window.insert(rank);
            }
        }
    }

    /// Where a search may begin. In a lane without jobs that is where one will probably come next, so that one that has
    /// come since is found.
    pub fn begin(&self) -> Option<Rank> {
        match self.from {
            Some(Rank::END) => self.past.or(self.from),
            from => from,
        }
    }

    /// Whether a search that began at a place has found all jobs.
    pub fn begins_behind(&self, place: Option<Rank>) -> bool {
        match (self.from, place) {
            (_, None) => true,
            (from, Some(place)) => from.is_some_and(|from| place <= from),
        }
    }

    /// A job is no longer ready.
    pub fn remove(&mut self, rank: Rank) {
        let next = Rank { seq: Seq(rank.seq.0.saturating_add(1)), ..rank };
        self.past = self.past.max(Some(next));
        for window in self.windows.values_mut() {
            window.remove(rank);
        }
    }

    /// Whether a job is known to be ready.
    pub fn shows(&self, rank: Rank) -> bool {
        self.windows.values().any(|window| window.shows(rank))
    }

    /// Somebody else has changed the lane, and the jobs that came are known: none stands before a place.
    pub fn learn(&mut self, from: Option<Rank>) {
        self.ahead = 0;
        if let Some(from) = from {
            self.from = self.from.map(|known| known.min(from));
        }
    }

    /// Nothing is known of its jobs any more but where they begin. Answers those that were.
    pub fn close(&mut self) -> BTreeSet<Rank> {
        self.ahead = 0;
        self.windows.drain().flat_map(|(_, window)| window.rows).collect()
    }

    /// Somebody else has changed the lane: jobs have become ready at a place or behind it, or only gone.
    /// Answers the rows that are not known any more.
    pub fn touch(&mut self, from: Option<Rank>) -> BTreeSet<Rank> {
        // What is read far ahead here is taken by others.
        self.learn(from);
        let Some(from) = from else { return BTreeSet::new() };
        self.windows.values_mut().flat_map(|window| window.cut(from)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_behind_the_edge_are_left_to_the_backend() {
        let mut window = Window::closed(10);
        window.insert(1);
        assert_eq!(window.len(), 0);
        window.fill([2, 4], Some(4), false);
        window.insert(3);
        window.insert(9);
        assert_eq!(window.rows().collect::<Vec<_>>(), [2, 3, 4]);
        window.remove(4);
        assert!(window.covers(4), "that nothing is there is known, too");
        assert!(!window.covers(5));
    }

    #[test]
    fn a_window_goes_on_behind_its_edge() {
        let mut window = Window::closed(10);
        assert_eq!(window.edge(), None);
        window.fill([1, 2], Some(2), false);
        window.remove(2);
        assert_eq!(window.edge(), Some(2));
        window.go_on([5, 7], Some(8), false);
        assert_eq!((window.rows().collect::<Vec<_>>(), window.edge()), (vec![1, 5, 7], Some(8)));
        window.go_on([], None, true);
        assert!(window.is_whole() && window.edge().is_none());
    }

    #[test]
    fn a_full_window_draws_its_edge_in() {
        let mut window = Window::empty(2);
        (1..=5).rev().for_each(|n| window.insert(n));
        assert_eq!(window.rows().collect::<Vec<_>>(), [1, 2]);
        assert!(!window.is_whole());
        assert!(!window.covers(3));
    }

    fn rank(priority: i32, seq: u64) -> Rank {
        Rank { priority, seq: Seq(seq) }
    }

    #[test]
    fn a_lane_that_somebody_else_touched_begins_no_later_than_what_came() {
        let mut lane = ReadyLane { from: Some(rank(0, 50)), ..ReadyLane::new_lane() };
        lane.touch(None);
        assert_eq!(lane.from, Some(rank(0, 50)));
        lane.touch(Some(rank(0, 70)));
        assert_eq!(lane.from, Some(rank(0, 50)));
        lane.touch(Some(rank(5, 90)));
        assert_eq!(lane.from, Some(rank(5, 90)));
    }

    #[test]
    fn a_search_in_an_empty_lane_begins_where_a_job_will_probably_come() {
        let mut lane = ReadyLane::new_lane();
        assert_eq!(lane.begin(), Some(Rank::END));
        lane.insert(rank(0, 7));
        lane.remove(rank(0, 7));
        lane.from = Some(Rank::END);
        let place = lane.begin();
        assert_eq!(place, Some(rank(0, 8)));
        lane.touch(Some(rank(0, 9)));
        assert!(lane.begins_behind(place));
        // A job of a higher priority comes before that, and the search has missed it.
        lane.touch(Some(rank(1, 10)));
        assert!(!lane.begins_behind(place) && lane.begins_behind(None));
    }

    #[test]
    fn what_stands_before_a_job_that_came_is_still_known() {
        let mut lane = ReadyLane::new_lane();
        (1..=6).for_each(|seq| lane.insert(rank(0, seq)));
        assert_eq!(lane.touch(Some(rank(0, 5))), [rank(0, 5), rank(0, 6)].into());
        let window = &lane.windows[&None];
        assert_eq!(window.len(), 4);
        assert!(window.covers(rank(0, 4)) && !window.covers(rank(0, 5)) && !window.is_whole());
        assert!(lane.touch(Some(rank(0, 9))).is_empty(), "behind the edge nothing was known");
        assert_eq!(lane.touch(Some(rank(1, 10))).len(), 4);
        assert!(!lane.windows[&None].covers(rank(1, 10)));
    }
}
