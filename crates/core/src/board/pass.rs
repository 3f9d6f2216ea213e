//! One pass of a claim over the board: picks, in the order of their turns, of jobs that may run now.
//! Within a pass room only shrinks, so what was closed once is not looked at again.

use std::time::Duration;

use super::*;
use crate::capability::Capabilities;
use crate::filter::ClaimFilter;

/// What one claim has seen so far.
#[derive(Debug)]
pub struct Pass {
    now: Timestamp,
    filter: ClaimFilter,
    offers: Option<Capabilities>,
    /// Groups up to here have nothing for this pass.
    cursor: Option<Place>,
    closed: Vec<Option<bool>>,
    wake: Option<Timestamp>,
    /// Heads to use instead, for claims that want no more than a priority.
    instead: Option<Map<LaneId, Option<Head>>>,
    probed: bool,
    freed: u64,
}

impl Pass {
    /// The earliest instant at which something that was closed to this pass may open by itself.
    pub fn wake(&self) -> Option<Timestamp> {
        self.wake
    }

    fn wake_at(&mut self, at: Option<Timestamp>) {
        if let Some(at) = at {
            self.wake = Some(self.wake.map_or(at, |wake| wake.min(at)));
        }
    }
}

/// A job that may be taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pick {
    /// Its lane.
    pub lane: LaneId,
    /// The job.
    pub head: Head,
}

impl Board {
    /// Begins a pass. The lanes that [`Board::take_hungry`] names must have been filled.
    pub fn begin(
        &mut self,
        now: Timestamp,
        filter: &ClaimFilter,
        offers: Option<&Capabilities>,
    ) -> Pass {
        self.unpark_due(now);
        self.kept.retain(|_, kept| kept.until > now);
        // Lanes are parked for their heads, and a pass with a highest priority may see other ones. And
        // instants noted before the clock was set back mean nothing now.
        if filter.max_priority.is_some() || now < self.latest {
            self.unpark_all();
        }
        self.latest = now;
        for service in &mut self.services {
            service.advance(now);
        }
        Pass {
            now,
            filter: filter.clone(),
            offers: offers.cloned(),
            cursor: None,
            closed: vec![None; self.gates.len()],
            wake: self.next_unpark(),
            instead: None,
            probed: false,
            freed: self.freed,
        }
    }

    /// For a claim that wants no more than a priority: the lanes whose head is above it. The store looks
    /// up what stands below and passes it to [`Board::use_instead`].
    pub fn lanes_above(&self, priority: i32) -> Vec<LaneId> {
        let above = |lane: &Lane| lane.heads.front().is_some_and(|head| head.priority > priority);
        self.lanes.iter().filter(|(_, lane)| above(lane)).map(|(id, _)| *id).collect()
    }

    /// Uses other heads for some lanes in this pass.
    pub fn use_instead(&self, pass: &mut Pass, heads: Map<LaneId, Option<Head>>) {
        pass.instead = Some(heads);
    }

    /// The next job that may run, or nothing if there is none.
    pub fn next(&mut self, pass: &mut Pass) -> Option<Pick> {
        if pass.freed != self.freed {
            // What was kept is free again: those who were passed over for it get another look.
            pass.freed = self.freed;
            pass.cursor = None;
            pass.closed.fill(None);
            pass.probed = false;
        }
        if !pass.probed {
            if let Some(pick) = self.probe(pass) {
                return Some(pick);
            }
            pass.probed = true;
        }
        loop {
            let place = self.next_place(pass)?;
            let group = place.2;
            if !self.groups[group].paused
                && let Some(pick) = self.best_of(pass, group)
            {
                return Some(pick);
            }
            // Parking lanes may have moved the group; past its old place nothing of it is left.
            pass.cursor = Some(place);
        }
    }

    /// The row of a pick is the claimer's: takes its services, counts it, and moves its group back.
    pub fn taken(&mut self, pick: &Pick, job: JobId, token: Token, at: Timestamp, now: Timestamp) {
        self.set_served(token);
        let Some(lane) = self.lanes.get(&pick.lane) else { return };
        let (gate, index) = (lane.gate, lane.group);
        if !self.gates[gate].services.is_empty() {
            let key = lane.key.clone();
            self.acquire(job, &key, pick.head.units.as_deref(), at, now);
        }
        // First the turn: then the group moves once, when its head goes.
        self.groups[index].turn = token.0 * 2 + 1;
        self.remove(pick.lane, pick.head.seq);
        self.place(index);
    }

    /// The lanes that a pass would look at, best first within each group: what a scored claim may choose from.
    pub fn open_lanes(&mut self, pass: &mut Pass) -> Vec<LaneId> {
        let groups: Vec<usize> = self.order.iter().map(|(_, _, group)| *group).collect();
        let mut open = Vec::new();
        for group in groups {
            if self.groups[group].paused {
                continue;
            }
            let mut looked = None;
            for (gate, lane) in self.groups[group].ranks.lanes() {
                // Not `is_open`: to a scored claim a breaker that wants a probe is open, and the first job
                // it takes is the probe.
                let unclosed = match looked {
                    Some((last, unclosed)) if last == gate => unclosed,
                    _ => self.is_unclosed(pass, gate),
                };
                looked = Some((gate, unclosed));
                open.extend(unclosed.then_some(lane));
            }
        }
        open
    }

    /// Whether a lane's gate is open to a pass and its group is not paused.
    pub fn admits(&mut self, pass: &mut Pass, lane: LaneId) -> bool {
        let Some((gate, group)) = self.lanes.get(&lane).map(|lane| (lane.gate, lane.group)) else {
            return false;
        };
        !self.groups[group].paused && self.is_unclosed(pass, gate)
    }

    fn is_unclosed(&self, pass: &mut Pass, gate: usize) -> bool {
        if !self.is_wanted(pass, gate) {
            return false;
        }
        let closed = self.closed_by(pass, gate);
        if let Some(block) = closed {
            pass.wake_at(block.until());
        }
        closed.is_none()
    }

    fn next_place(&self, pass: &Pass) -> Option<Place> {
        use std::ops::Bound::{Excluded, Unbounded};
        match pass.cursor {
            None => self.order.first().copied(),
            Some(cursor) => self.order.range((Excluded(cursor), Unbounded)).next().copied(),
        }
    }

    /// A service whose breaker wants a probe gets the best job that waits for it, whatever its group.
    fn probe(&mut self, pass: &mut Pass) -> Option<Pick> {
        let wanting: Vec<usize> = (0..self.services.len())
            .filter(|n| self.services[*n].breaker.wants_probe(pass.now))
            .collect();
        for service in wanting {
            let mut lanes: Vec<(Reverse<i32>, Seq, LaneId)> = Vec::new();
            for group in self.groups.iter().filter(|group| !group.paused) {
                let behind = |gate: &usize| self.gates[*gate].services.contains(&service);
                let ids = group.ranks.lanes().into_iter().filter(|(gate, _)| behind(gate));
                lanes.extend(ids.filter_map(|(_, id)| {
                    let (_, head) = self.head(pass, id)?;
                    Some((Reverse(head.priority), head.seq, id))
                }));
            }
            lanes.sort();
            for (_, _, id) in lanes {
                let Some((gate, head)) = self.head(pass, id).map(|(lane, head)| (lane.gate, head))
                else {
                    continue;
                };
                if !self.is_wanted(pass, gate) || self.closed_by(pass, gate).is_some() {
                    continue;
                }
                match self.fits(id, &head, pass.now) {
                    Fit::Now => return Some(Pick { lane: id, head }),
                    Fit::Never if pass.instead.is_none() => {
                        self.skipped.insert(id);
                        self.remove(id, head.seq);
                        return self.probe(pass);
                    }
                    _ => {}
                }
            }
        }
        None
    }

    fn best_of(&mut self, pass: &mut Pass, group: usize) -> Option<Pick> {
        if pass.instead.is_some() {
            return self.best_by_search(pass, group);
        }
        let mut from = None;
        loop {
            let ranks = &self.groups[group].ranks;
            let best = match from {
                None => ranks.first()?,
                Some(from) => ranks.after(from)?,
            };
            from = Some(best);
            if self.is_open(pass, best.2)
                && let Some(pick) = self.best_behind(pass, group, best.2)
            {
                return Some(pick);
            }
        }
    }

    /// The best head behind a gate, if it may run now. When it may not and the lane is out of the way,
    /// the next one takes its place in the ranking, where it may have to wait behind another gate's.
    fn best_behind(&mut self, pass: &mut Pass, group: usize, gate: usize) -> Option<Pick> {
        let id = self.groups[group].ranks.first_behind(gate)?;
        let head = self.lanes[&id].heads.front()?.clone();
        match self.fits(id, &head, pass.now) {
            Fit::Now => return Some(Pick { lane: id, head }),
            Fit::NotByKey(until) => {
                pass.wake_at(until);
                self.park(id, until);
            }
            Fit::Never => {
                // Under these limits it can never run; it must not keep the rest waiting.
                self.skipped.insert(id);
                self.remove(id, head.seq);
            }
            Fit::NotYet(short) => self.keep(pass, id, &head, &short),
            Fit::KeptForAnother => {}
        }
        None
    }

    fn best_by_search(&mut self, pass: &mut Pass, group: usize) -> Option<Pick> {
        let mut lanes: Vec<(Reverse<i32>, Seq, LaneId)> = Vec::new();
        for (_, id) in self.groups[group].ranks.lanes() {
            if let Some((_, head)) = self.head(pass, id) {
                lanes.push((Reverse(head.priority), head.seq, id));
            }
        }
        lanes.sort();
        for (_, _, id) in lanes {
            let gate = self.lanes[&id].gate;
            if !self.is_open(pass, gate) {
                continue;
            }
            let Some((_, head)) = self.head(pass, id) else { continue };
            match self.fits(id, &head, pass.now) {
                Fit::Now => {
                    if let Some(instead) = &mut pass.instead {
                        instead.insert(id, None);
                    }
                    return Some(Pick { lane: id, head });
                }
                Fit::NotByKey(until) => pass.wake_at(until),
                Fit::NotYet(short) => self.keep(pass, id, &head, &short),
                Fit::Never => return self.skip(pass, id, head.seq, group),
                Fit::KeptForAnother => {}
            }
        }
        None
    }

    /// Under these limits a job can never run; what stands behind it gets a look instead.
    fn skip(&mut self, pass: &mut Pass, id: LaneId, seq: Seq, group: usize) -> Option<Pick> {
        self.skipped.insert(id);
        self.remove(id, seq);
        if let Some(instead) = &mut pass.instead
            && instead
                .get(&id)
                .is_some_and(|head| head.as_ref().is_some_and(|head| head.seq == seq))
        {
            instead.insert(id, None);
        }
        self.best_by_search(pass, group)
    }

    /// The head of a lane as this pass sees it.
    fn head(&self, pass: &Pass, id: LaneId) -> Option<(&Lane, Head)> {
        let lane = self.lanes.get(&id)?;
        let head = match pass.instead.as_ref().and_then(|instead| instead.get(&id)) {
            Some(other) => other.clone()?,
            None => lane.heads.front()?.clone(),
        };
        let wanted = pass.filter.max_priority.is_none_or(|max| head.priority <= max);
        wanted.then_some((lane, head))
    }

    /// The job whose turn it is needs more of some rates than is left: what is left is kept for it.
    fn keep(&mut self, pass: &mut Pass, lane: LaneId, head: &Head, short: &[(usize, Timestamp)]) {
        for (service, until) in short {
            pass.wake_at(Some(*until));
            let kept = Kept { lane, rank: head.rank(), until: until.plus(KEPT_BEYOND) };
            self.kept.insert(*service, kept);
        }
    }

    fn is_open(&self, pass: &mut Pass, gate: usize) -> bool {
        if gate >= pass.closed.len() {
            pass.closed.resize(gate + 1, None);
        }
        if pass.closed[gate] == Some(true) {
            return false;
        }
        if pass.closed[gate].is_none() && !self.is_wanted(pass, gate) {
            pass.closed[gate] = Some(true);
            return false;
        }
        let closed = self.closed_by(pass, gate);
        let probes = self.gates[gate]
            .services
            .iter()
            .any(|n| self.services[*n].breaker.wants_probe(pass.now));
        if let Some(block) = closed {
            pass.wake_at(block.until());
        }
        pass.closed[gate] = Some(closed.is_some() || probes);
        pass.closed[gate] == Some(false)
    }

    fn is_wanted(&self, pass: &Pass, gate: usize) -> bool {
        let key = &self.gates[gate].key;
        pass.filter.wants(key)
            && !self.paused_queues.contains(&key.queue)
            && pass.offers.as_ref().is_none_or(|offers| offers.meet(&key.requires))
    }

    fn closed_by(&self, pass: &Pass, gate: usize) -> Option<Block> {
        let services = &self.gates[gate].services;
        services.iter().find_map(|n| self.services[*n].blocked_for_all(pass.now))
    }

    /// Whether the head of a lane whose gate is open may run, with its own cost and key.
    fn fits(&self, id: LaneId, head: &Head, now: Timestamp) -> Fit {
        let lane = &self.lanes[&id];
        if self.is_kept_for_another(id, lane, head) {
            return Fit::KeptForAnother;
        }
        if lane.key.key.is_none() && head.units.is_none() {
            return Fit::Now;
        }
        let mut by_key = None;
        let mut short = Vec::new();
        for (n, name) in lane.key.services.iter().enumerate() {
            let Some(index) = self.service_index.get(name).copied() else { continue };
            match self.services[index].blocked(lane.key.key.as_ref(), head.units(n), now) {
                None => {}
                Some(Block::Rated { until: None, .. } | Block::KeyRated { until: None }) => {
                    return Fit::Never;
                }
                Some(block) if block.is_of_key() => by_key = by_key.max(Some(block.until())),
                Some(block) => short.push((index, block.until().unwrap_or(now))),
            }
        }
        match by_key {
            Some(until) => Fit::NotByKey(until),
            None if short.is_empty() => Fit::Now,
            None => Fit::NotYet(short),
        }
    }

    /// What is kept for a costly job may be taken by a better one of the same group, and by nobody else.
    fn is_kept_for_another(&self, id: LaneId, lane: &Lane, head: &Head) -> bool {
        if self.kept.is_empty() {
            return false;
        }
        self.gates[lane.gate].services.iter().filter_map(|n| self.kept.get(n)).any(|kept| {
            let better = self.lanes.get(&kept.lane).is_some_and(|other| other.group == lane.group)
                && head.rank() < kept.rank;
            kept.lane != id && !better
        })
    }
}

/// How long past the instant at which there should be room the rest of a rate stays kept.
const KEPT_BEYOND: Duration = Duration::from_secs(1);

/// Whether a head may run.
enum Fit {
    Now,
    /// Its key has no room until then.
    NotByKey(Option<Timestamp>),
    /// Some rates have room, but too little for it, until then.
    NotYet(Vec<(usize, Timestamp)>),
    /// What it needs is more than the whole limit.
    Never,
    /// What is left is kept for a job whose turn came before.
    KeptForAnother,
}
