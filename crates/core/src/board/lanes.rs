//! The board's lanes: which jobs stand at their heads, and how lanes and groups are ranked.

use super::*;

impl Board {
    /// Whether a lane is known.
    pub fn has_lane(&self, lane: LaneId) -> bool {
        self.lanes.contains_key(&lane)
    }

    /// How many lanes are known.
    pub fn lane_count(&self) -> usize {
        self.lanes.len()
    }

    /// The constraints of a lane.
    pub fn lane_key(&self, lane: LaneId) -> Option<&Arc<LaneKey>> {
        self.lanes.get(&lane).map(|lane| &lane.key)
    }

    /// Makes a lane known. If it may hold ready jobs already, its heads are asked for before the next pass.
    pub fn add_lane(&mut self, id: LaneId, key: &LaneKey, more: bool) {
        if !self.lanes.contains_key(&id) {
            let (gate, group) = (self.gate(key), self.group(key.group.as_ref()));
            let key = Arc::new(key.clone());
            let lane = Lane {
                key,
                gate,
                group,
                heads: VecDeque::new(),
                more: false,
                parked: false,
                rank: None,
            };
            self.lanes.insert(id, lane);
        }
        if more {
            self.forget_heads(id);
        }
    }

    /// Forgets the heads of a lane that someone else has changed; they are asked for again.
    pub fn forget_heads(&mut self, id: LaneId) {
        if let Some(lane) = self.lanes.get_mut(&id) {
            lane.heads.clear();
            lane.more = true;
            self.hungry.push(id);
            self.rank(id);
        }
    }

    /// Lanes whose heads the board needs before a pass.
    pub fn take_hungry(&mut self) -> Vec<LaneId> {
        std::mem::take(&mut self.hungry)
    }

    /// Puts the heads of a lane in place, in order; if there are as many as were asked for, more may follow.
    pub fn fill(&mut self, id: LaneId, heads: Vec<Head>, asked: usize) {
        if let Some(lane) = self.lanes.get_mut(&id) {
            lane.more = heads.len() >= asked;
            lane.heads = heads.into();
            lane.parked = false;
            self.rank(id);
        }
    }

    /// Jobs of a lane were left out of its heads because they can never run under the present limits: when
    /// those change, the heads are asked for again.
    pub fn left_out(&mut self, id: LaneId) {
        self.skipped.insert(id);
    }

    /// A job of a lane is ready now.
    pub fn push(&mut self, id: LaneId, head: Head) {
        let Some(lane) = self.lanes.get_mut(&id) else { return };
        let last = lane.heads.back().map(Head::rank);
        // Behind heads that are not at hand its place is unknown: the store will offer it in time.
        let unknown = lane.more && last.is_none_or(|last| head.rank() > last);
        if unknown {
            return;
        }
        let place = match last {
            Some(last) if head.rank() < last => {
                lane.heads.partition_point(|h| h.rank() < head.rank())
            }
            _ => lane.heads.len(),
        };
        lane.heads.insert(place, head);
        if lane.heads.len() > HEADS {
            lane.heads.truncate(HEADS);
            lane.more = true;
        }
        if place == 0 {
            // It was parked for its former head; this one may fit.
            lane.parked = false;
            self.rank(id);
        }
    }

    /// A job of a lane is no longer ready.
    pub fn remove(&mut self, id: LaneId, seq: Seq) {
        if !self.kept.is_empty() {
            let before = self.kept.len();
            self.kept.retain(|_, kept| kept.lane != id || kept.rank.1 != seq);
            self.freed += u64::from(self.kept.len() < before);
        }
        let Some(lane) = self.lanes.get_mut(&id) else { return };
        let place = match lane.heads.front() {
            Some(front) if front.seq == seq => Some(0),
            _ => lane.heads.iter().position(|head| head.seq == seq),
        };
        let Some(place) = place else { return };
        lane.heads.remove(place);
        if lane.heads.is_empty() && lane.more {
            self.hungry.push(id);
        }
        if place == 0 {
            lane.parked = false;
            self.rank(id);
        }
    }

    /// The lanes that have ready jobs, each with its head.
    pub fn heads(&self) -> Vec<(LaneId, Head)> {
        let front = |(id, lane): (&LaneId, &Lane)| Some((*id, lane.heads.front()?.clone()));
        self.lanes.iter().filter_map(front).collect()
    }

    /// Gives a lane and its group their places anew.
    pub(super) fn rank(&mut self, id: LaneId) {
        let Some(lane) = self.lanes.get_mut(&id) else { return };
        let new = match lane.heads.front() {
            Some(head) if !lane.parked => Some((Reverse(head.priority), head.seq, id)),
            _ => None,
        };
        if new == lane.rank {
            return;
        }
        let old = std::mem::replace(&mut lane.rank, new);
        let (gate, index) = (lane.gate, lane.group);
        self.groups[index].ranks.change(gate, old, new);
        self.place(index);
    }

    /// Gives a group its place in the rotation anew.
    pub(super) fn place(&mut self, index: usize) {
        let group = &mut self.groups[index];
        let new = group.ranks.first().map(|(_, seq, _)| (group.turn, seq, index));
        if new == group.place {
            return;
        }
        if let Some(old) = std::mem::replace(&mut group.place, new) {
            self.order.remove(&old);
        }
        if let Some(new) = new {
            self.order.insert(new);
        }
    }

    /// Takes a lane out of the ranking until its key has room.
    pub(super) fn park(&mut self, id: LaneId, until: Option<Timestamp>) {
        let Some(lane) = self.lanes.get_mut(&id) else { return };
        lane.parked = true;
        if let Some(key) = &lane.key.key {
            self.parked_by_key.entry(key.clone()).or_default().push(id);
        }
        if let Some(until) = until {
            self.parked_until.entry(until).or_default().push(id);
        }
        self.rank(id);
    }

    /// Lanes parked until a time that has come are ranked again.
    pub(super) fn unpark_due(&mut self, now: Timestamp) {
        while let Some(entry) = self.parked_until.first_entry() {
            if *entry.key() > now {
                break;
            }
            for id in entry.remove() {
                self.unpark(id);
            }
        }
    }

    /// Lanes of a key are ranked again.
    pub(super) fn unpark_key(&mut self, key: &Key) {
        for id in self.parked_by_key.remove(key).unwrap_or_default() {
            self.unpark(id);
        }
    }

    /// All parked lanes are ranked again, because limits or uses changed elsewhere.
    pub fn unpark_all(&mut self) {
        self.parked_until.clear();
        for id in std::mem::take(&mut self.parked_by_key).into_values().flatten() {
            self.unpark(id);
        }
    }

    /// The instant at which the first parked lane gets another look.
    pub(super) fn next_unpark(&self) -> Option<Timestamp> {
        self.parked_until.first_key_value().map(|(until, _)| *until)
    }

    fn unpark(&mut self, id: LaneId) {
        if let Some(lane) = self.lanes.get_mut(&id) {
            lane.parked = false;
            self.rank(id);
        }
    }

    /// Panics if the board's parts contradict each other. For tests.
    pub fn check_invariants(&self) {
        for (id, lane) in &self.lanes {
            let ordered =
                lane.heads.iter().zip(lane.heads.iter().skip(1)).all(|(a, b)| a.rank() < b.rank());
            assert!(ordered, "heads of {id:?} are out of order");
            let front = lane.heads.front().filter(|_| !lane.parked);
            let rank = front.map(|head| (Reverse(head.priority), head.seq, *id));
            assert_eq!(lane.rank, rank, "{id:?} is ranked under another head");
            let ranks = &self.groups[lane.group].ranks;
            let is_ranked = rank.is_some_and(|rank| ranks.contains(lane.gate, &rank));
            assert_eq!(is_ranked, rank.is_some(), "{id:?} is missing from its group");
        }
        for (index, group) in self.groups.iter().enumerate() {
            group.ranks.check_invariants(group.name.as_ref());
            assert_eq!(group.place.is_some(), group.ranks.first().is_some());
            assert!(
                group.place.is_none_or(|place| self.order.contains(&place) && place.2 == index)
            );
        }
        assert_eq!(
            self.order.len(),
            self.groups.iter().filter(|group| group.place.is_some()).count()
        );
    }
}
