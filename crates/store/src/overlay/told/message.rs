//! How what is told is worded, in an order and with words of its own ([`super::text`]); only what a job is to do is JSON, as
//! it is everywhere. Jobs come first: a lane that one of them is in is not described again. A daemon that does not understand
//! a message is awake all the same, and asks.

use runcue_core::{
    GroupName, Key, LaneId, LaneKey, OnFull, QueueName, Seq, ServiceName, Timestamp, Token,
};

use super::text::{Reader, Writer};
use super::{Came, Told};
use crate::overlay::{Earliest, Numbers};
use crate::reply::{Counts, GroupInfo, QueueInfo};
use crate::tables::Counters;

impl Told {
    /// All of it, as daemons tell it each other. Nothing if it cannot be told.
    pub(super) fn write(&self) -> Option<String> {
        let mut to = Writer::default();
        to.number(self.from);
        to.number(self.to);
        write_numbers(&mut to, &self.numbers);
        let mut whole = true;
        to.list(&self.came, |to, came| whole &= write_came(to, came));
        to.list(&self.lanes, |to, (lane, key, best)| {
            to.number(lane.0);
            let is_known = key_of(&self.came, *lane).is_some_and(|known| known == *key);
            to.maybe((!is_known).then(|| key.canonical()), |to, key| to.word(&key));
            to.maybe(*best, |to, (priority, seq)| {
                to.signed(priority.into());
                to.number(seq.0);
            });
        });
        to.list(&self.groups, write_group);
        to.list(&self.queues, write_queue);
        to.list(&self.held, |to, (lane, jobs)| {
            to.number(lane.0);
            to.number((*jobs).into());
        });
        to.list(&self.usage, |to, (service, key, at, units)| {
            to.word(service.as_str());
            to.maybe(key.as_ref(), |to, key| to.word(key.as_str()));
            to.signed(at.as_micros());
            to.signed(*units);
        });
        to.list(&self.jobs, |to, (first, last)| {
            to.number(first.0);
            to.number(last.0);
        });
        whole.then(|| to.done())
    }

    /// What a message says, if it is understood.
    pub(super) fn read(text: &str) -> Option<Self> {
        let mut of = Reader::new(text);
        let (from, to) = (of.number()?, of.number()?);
        let numbers = read_numbers(&mut of)?;
        let came = of.list(read_came)?;
        let lanes = of.list(|of| {
            let lane = LaneId(of.number()?);
            let key = match of.maybe(Reader::word)? {
                Some(key) => serde_json::from_str(key).ok()?,
                None => key_of(&came, lane)?,
            };
            let best = of.maybe(|of| Some((of.signed()?.try_into().ok()?, Seq(of.number()?))))?;
            Some((lane, key, best))
        })?;
        let told = Self {
            from,
            to,
            numbers,
            lanes,
            came,
            groups: of.list(read_group)?,
            queues: of.list(read_queue)?,
            held: of.list(|of| Some((LaneId(of.number()?), of.small()?)))?,
            usage: of.list(|of| {
                let service = ServiceName::new(of.word()?).ok()?;
                let key = of.maybe(|of| Key::new(of.word()?).ok())?;
                Some((service, key, Timestamp::from_micros(of.signed()?), of.signed()?))
            })?,
            jobs: of.list(|of| Some((Seq(of.number()?), Seq(of.number()?))))?,
        };
        of.end().map(|()| told)
    }
}

/// The constraints of a lane that one of these jobs is in.
fn key_of(came: &[Came], lane: LaneId) -> Option<LaneKey> {
    came.iter().find(|came| came.lane == lane).map(|came| LaneKey::of(&came.spec))
}

fn write_numbers(to: &mut Writer, numbers: &Numbers) {
    let Numbers { counters, lane, log, earliest } = numbers;
    let Counters { seq, served, event, delayed, blocked, last_served_group } = counters;
    for number in [seq.0, served.0, *event, *delayed, *blocked, *lane, *log] {
        to.number(number);
    }
    to.maybe(last_served_group.as_ref(), |to, group| to.word(group.as_str()));
    for at in [earliest.delayed, earliest.lapsing, earliest.deadline] {
        to.maybe(at, |to, at| to.signed(at.as_micros()));
    }
}

fn read_numbers(of: &mut Reader<'_>) -> Option<Numbers> {
    let counters = Counters {
        seq: Seq(of.number()?),
        served: Token(of.number()?),
        event: of.number()?,
        delayed: of.number()?,
        blocked: of.number()?,
        last_served_group: None,
    };
    let (lane, log) = (of.number()?, of.number()?);
    let last_served_group = of.maybe(|of| GroupName::new(of.word()?).ok())?;
    let mut instant = || of.maybe(|of| of.signed().map(Timestamp::from_micros));
    let earliest = Earliest { delayed: instant()?, lapsing: instant()?, deadline: instant()? };
    Some(Numbers { counters: Counters { last_served_group, ..counters }, lane, log, earliest })
}

/// Answers whether it could be written.
fn write_came(to: &mut Writer, came: &Came) -> bool {
    let spec = serde_json::to_string(&*came.spec);
    to.number(came.seq.0);
    to.number(came.lane.0);
    to.signed(came.at.as_micros());
    to.word(spec.as_deref().unwrap_or_default());
    spec.is_ok()
}

fn read_came(of: &mut Reader<'_>) -> Option<Came> {
    let (seq, lane) = (Seq(of.number()?), LaneId(of.number()?));
    let at = Timestamp::from_micros(of.signed()?);
    Some(Came { seq, lane, at, spec: serde_json::from_str(of.word()?).ok()? })
}

fn write_group(to: &mut Writer, group: &GroupInfo) {
    let GroupInfo { name, paused, turn, counts } = group;
    to.maybe(name.as_ref(), |to, name| to.word(name.as_str()));
    to.flag(*paused);
    to.number(*turn);
    let Counts { queued, leased, running, completed, failed, cancelled, quarantined } = *counts;
    for number in [queued, leased, running, completed, failed, cancelled, quarantined] {
        to.number(number);
    }
}

fn read_group(of: &mut Reader<'_>) -> Option<GroupInfo> {
    Some(GroupInfo {
        name: of.maybe(|of| GroupName::new(of.word()?).ok())?,
        paused: of.flag()?,
        turn: of.number()?,
        counts: Counts {
            queued: of.number()?,
            leased: of.number()?,
            running: of.number()?,
            completed: of.number()?,
            failed: of.number()?,
            cancelled: of.number()?,
            quarantined: of.number()?,
        },
    })
}

const ON_FULL: [OnFull; 3] = [OnFull::Reject, OnFull::DropOldest, OnFull::Block];

fn write_queue(to: &mut Writer, queue: &QueueInfo) {
    let QueueInfo { name, max_queued, on_full, paused, queued } = queue;
    to.word(name.as_str());
    to.maybe(*max_queued, Writer::number);
    to.number(ON_FULL.iter().position(|word| word == on_full).unwrap_or(ON_FULL.len()) as u64);
    to.flag(*paused);
    to.number(*queued);
}

fn read_queue(of: &mut Reader<'_>) -> Option<QueueInfo> {
    Some(QueueInfo {
        name: QueueName::new(of.word()?).ok()?,
        max_queued: of.maybe(Reader::number)?,
        on_full: *ON_FULL.get(of.small()? as usize)?,
        paused: of.flag()?,
        queued: of.number()?,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use runcue_core::{JobId, JobSpec, TaskName};

    use super::*;

    fn told() -> Told {
        let mut spec = JobSpec::new(JobId::from_u128(7), TaskName::new("work").unwrap());
        spec.group = Some(GroupName::new("a group").unwrap());
        let group = GroupInfo { name: spec.group.clone(), turn: 9, ..GroupInfo::default() };
        let counts = Counts {
            queued: 1,
            leased: 2,
            running: 3,
            completed: 4,
            failed: 5,
            cancelled: 6,
            quarantined: 7,
        };
        let queue = |on_full, max_queued| QueueInfo { on_full, max_queued, ..QueueInfo::default() };
        let counters = Counters {
            seq: Seq(11),
            served: Token(12),
            event: 13,
            delayed: 14,
            blocked: 15,
            last_served_group: spec.group.clone(),
        };
        let at = Timestamp::from_micros(-3);
        let earliest = Earliest { delayed: None, lapsing: Some(at), deadline: None };
        let other = LaneKey { group: None, ..LaneKey::of(&spec) };
        let service = ServiceName::new("api").unwrap();
        Told {
            from: 1,
            to: 3,
            numbers: Numbers { counters, lane: 2, log: 4, earliest },
            lanes: vec![
                (LaneId(1), LaneKey::of(&spec), Some((-5, Seq(11)))),
                (LaneId(2), other, None),
            ],
            groups: vec![group, GroupInfo { paused: true, counts, ..GroupInfo::default() }],
            queues: vec![
                queue(OnFull::Reject, None),
                queue(OnFull::DropOldest, Some(5)),
                QueueInfo { paused: true, queued: 8, ..queue(OnFull::Block, Some(0)) },
            ],
            held: vec![(LaneId(2), u32::MAX)],
            usage: vec![
                (service.clone(), None, at, -2),
                (service, Some(Key::new("a key").unwrap()), Timestamp::ZERO, 3),
            ],
            jobs: vec![(Seq(4), Seq(6)), (Seq(11), Seq(11))],
            came: vec![Came { seq: Seq(11), lane: LaneId(1), at, spec: Arc::new(spec) }],
        }
    }

    /// Daemons of other builds read it: what changes here they do not understand any more.
    const WORDS: &str = concat!(
        "1 3 11 12 13 14 15 2 4 7:a group - ~3 - ",
        r#"1 11 1 ~3 73:{"id":"00000000000000000000000000000007","task":"work","group":"a group"} "#,
        r#"2 1 - ~5 11 2 33:{"queue":"default","task":"work"} - "#,
        "2 7:a group 0 9 0 0 0 0 0 0 0 - 1 0 1 2 3 4 5 6 7 ",
        "3 7:default - 0 0 0 7:default 5 1 0 0 7:default 0 2 1 8 ",
        "1 2 4294967295 2 3:api - ~3 ~2 3:api 5:a key 0 3 2 4 6 11 11 "
    );

    #[test]
    fn what_is_told_is_understood() {
        let told = told();
        assert_eq!(told.write().as_deref(), Some(WORDS));
        assert_eq!(Told::read(WORDS), Some(told));
    }

    #[test]
    fn whoever_tells_nothing_is_understood_too() {
        let nothing = Told::default();
        assert_eq!(Told::read(&nothing.write().unwrap()), Some(nothing));
    }

    #[test]
    fn a_message_that_is_cut_off_or_goes_on_is_not_understood() {
        for end in 0..WORDS.len() {
            assert_eq!(Told::read(&WORDS[..end]), None, "{}", &WORDS[..end]);
        }
        assert_eq!(Told::read(&format!("{WORDS}0 ")), None);
    }

    #[test]
    fn a_lane_of_which_nothing_is_said_is_not_understood() {
        let nowhere = WORDS.replacen("1 11 1 ~3 73:", "1 11 9 ~3 73:", 1);
        assert_eq!(Told::read(&nowhere), None);
    }
}
