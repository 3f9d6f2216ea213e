//! Taking the turn, and what has happened since the last one.

use std::collections::BTreeMap;
use std::time::Duration;

use runcue_core::{
    GroupName, Key, LaneId, LaneKey, ScheduleName, Seq, ServiceName, Timestamp, Token,
};
use runcue_store::overlay::{
    Changed, Earliest, Haste, Numbers, Opening, Places, Questions, Rank, TouchedLane,
};
use runcue_store::tables::{Counters, ServiceRow, UsageRow};
use runcue_store::{GroupInfo, QueueInfo, Result, ScheduleInfo};
use serde::{Deserialize, Serialize};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::flight::Flight;
use super::{PostgresBackend, landed};
use crate::migrate;
use crate::rows::{Misread, parsed, priority_of, signed, unsigned};

pub const GROUP: i16 = 1;
pub const QUEUE: i16 = 2;
pub const SERVICE: i16 = 3;
pub const HELD: i16 = 4;
pub const SCHEDULE: i16 = 5;
pub const DROPPED: i16 = 6;

/// A service's row on the board.
#[derive(Serialize, Deserialize)]
pub struct ServiceBody {
    pub spec: runcue_core::ServiceSpec,
    pub breaker: runcue_core::breaker::Breaker,
    pub held_until: Timestamp,
}

/// And what else an opening is made of.
const HEAD: i16 = 0;
const LANE: i16 = 10;
const USAGE: i16 = 11;
const TURN: i16 = 12;

/// All of it in one answer, and the version of the schema: it may have become newer since the connection was opened, which
/// is always a turn as well ([`crate::migrate`]).
const OPENING: &str = "SELECT kind, name, body, numbers, held, held_jobs, \
    (SELECT max(version) FROM runcue.schema_version) FROM runcue.opening($1)";

const WHOLE_USAGE: &str = "SELECT at, body FROM runcue.usage_run WHERE at > $1 ORDER BY at";

impl PostgresBackend {
    pub(super) fn open_turn(
        &mut self,
        known: u64,
        now: Option<Timestamp>,
        questions: &Questions,
        haste: Haste,
    ) -> Result<Opening> {
        let opening = self.text(OPENING, &[Type::INT8])?;
        self.prepare_commits()?;
        let asked = self.question_texts(questions)?;
        let (begin, taken) = self.turn.take(&self.begin, haste);
        self.turn = taken;
        // What is read after the turn was taken is read as it is then.
        let begin = self.options.sql(&begin);
        let since = signed(known);
        let ran = self.run(questions.ids.len(), async |client| {
            let mut flight = Flight::new(client);
            flight.plain(&begin);
            flight.ask(&opening, vec![(&since, Type::INT8)]);
            asked.add_to(&mut flight);
            landed(flight).await
        });
        let mut landed = match ran {
            Ok(landed) => landed,
            Err(error) => {
                use runcue_store::overlay::Backend;
                self.abandon();
                return Err(error);
            }
        };
        landed.skip();
        let rows = landed.next();
        let head = rows.first().ok_or_else(|| self.unreadable("no turn".to_owned()))?;
        let schema: Option<i32> = head.get(6);
        let schema = schema.and_then(|version| u32::try_from(version).ok()).unwrap_or(0);
        migrate::check_known(&self.options, schema, migrate::SCHEMA)?;
        let head = Head::of(head).map_err(|why| self.unreadable(why))?;
        let answers = asked.read(&mut landed).map_err(|why| self.unreadable(why))?;
        let counted = now.unwrap_or(head.now);
        let changed = if known == 0 {
            Some(self.everything(&rows, counted, Duration::ZERO)?)
        } else if !head.remembered || rows.iter().any(|row| row.get::<_, i16>(0) == DROPPED) {
            // Too far behind: which lanes were touched since is not known any more. Or lanes have gone.
            Some(self.read_whole(counted, Duration::ZERO)?)
        } else if head.revision == known {
            None
        } else {
            Some(changed(&rows).map_err(|why| self.unreadable(why))?)
        };
        let Head { revision, now, numbers, .. } = head;
        Ok(Opening { revision, now, numbers, changed, answers })
    }

    /// Everything, in the middle of a turn.
    pub(super) fn read_whole(&mut self, now: Timestamp, memory: Duration) -> Result<Changed> {
        let rows = self.query(OPENING, &[(&0_i64, Type::INT8)])?;
        self.everything(&rows, now, memory)
    }

    /// How many jobs are held in lanes, as it is written; lanes with none may be left out.
    pub(super) fn read_held(&mut self) -> Result<Vec<(LaneId, u32)>> {
        let rows = self.query(OPENING, &[(&0_i64, Type::INT8)])?;
        Ok(changed(&rows).map_err(|why| self.unreadable(why))?.held)
    }

    /// How far back uses count is known only from the services.
    fn everything(&mut self, rows: &[Row], now: Timestamp, memory: Duration) -> Result<Changed> {
        let mut all = changed(rows).map_err(|why| self.unreadable(why))?;
        all.whole = true;
        all.held.retain(|(_, jobs)| *jobs > 0);
        let longest = all.services.iter().map(|row| row.spec.memory()).max();
        let memory = memory.max(longest.unwrap_or_default());
        if !memory.is_zero() {
            let since = now.minus(memory).as_micros();
            let rows = self.query(WHOLE_USAGE, &[(&since, Type::INT8)])?;
            for row in &rows {
                add_uses(&mut all.usage, row.get(0), row.get(1))
                    .map_err(|why| self.unreadable(why))?;
            }
        }
        Ok(all)
    }
}

/// The latest turn.
struct Head {
    revision: u64,
    now: Timestamp,
    numbers: Numbers,
    /// Whether the turns since the known one are all there.
    remembered: bool,
}

impl Head {
    fn of(row: &Row) -> std::result::Result<Self, Misread> {
        let (kind, group): (i16, Option<&str>) = (row.get(0), row.get(1));
        let given: Vec<Option<i64>> = row.get(3);
        let instant = |n: usize| given.get(n).copied().flatten();
        let number = |n: usize| instant(n).map_or(0, unsigned);
        if kind != HEAD || given.len() != 13 {
            return Err(format!("a turn of {} numbers", given.len()));
        }
        let earliest = |n: usize| instant(n).map(Timestamp::from_micros);
        Ok(Self {
            revision: number(0),
            now: Timestamp::from_micros(instant(1).unwrap_or(0)),
            numbers: Numbers {
                counters: Counters {
                    seq: Seq(number(2)),
                    served: Token(number(3)),
                    event: number(4),
                    delayed: number(5),
                    blocked: number(6),
                    last_served_group: group.map(name::<GroupName>).transpose()?,
                },
                lane: number(7),
                log: number(8),
                earliest: Earliest {
                    delayed: earliest(9),
                    lapsing: earliest(10),
                    deadline: earliest(11),
                },
            },
            remembered: number(12) == 1,
        })
    }
}

/// What an opening says besides the latest turn.
fn changed(rows: &[Row]) -> std::result::Result<Changed, Misread> {
    let mut changed = Changed::default();
    let mut held: BTreeMap<LaneId, u32> = BTreeMap::new();
    for row in rows {
        let kind: i16 = row.get(0);
        let key = || row.get::<_, Option<&str>>(1).unwrap_or_default();
        let body = || row.get::<_, Option<&str>>(2).unwrap_or_default();
        match kind {
            HEAD | DROPPED => {}
            GROUP => changed.groups.push(parsed::<GroupInfo>("group", body())?),
            QUEUE => changed.queues.push(parsed::<QueueInfo>("queue", body())?),
            SERVICE => {
                let body: ServiceBody = parsed("service", body())?;
                let ServiceBody { spec, breaker, held_until } = body;
                changed.services.push(ServiceRow { spec, breaker, held_until });
            }
            // The turns since come after it.
            HELD => {
                let all: Vec<(u64, u32)> = parsed("held", body())?;
                held.extend(all.into_iter().map(|(lane, jobs)| (LaneId(lane), jobs)));
            }
            SCHEDULE => {
                let schedule = Some(body()).filter(|body| !body.is_empty());
                let schedule = schedule.map(|body| parsed::<ScheduleInfo>("schedule", body));
                changed.schedules.push((name::<ScheduleName>(key())?, schedule.transpose()?));
            }
            LANE => changed.lanes.push(touched_lane(row)?),
            USAGE => {
                let at: Vec<i64> = row.get(3);
                add_uses(&mut changed.usage, at.first().copied().unwrap_or(0), body())?;
            }
            TURN => {
                let places: Vec<i64> = row.get(3);
                let place = |n: i64| Seq(unsigned(n));
                let pairs = places.chunks_exact(2);
                changed
                    .jobs
                    .extend(pairs.map(|pair| -> Places { (place(pair[0]), place(pair[1])) }));
                let (lanes, jobs): (Vec<i64>, Vec<i32>) = (row.get(4), row.get(5));
                let jobs = jobs.into_iter().map(|jobs| u32::try_from(jobs).unwrap_or(0));
                held.extend(lanes.into_iter().map(|lane| LaneId(unsigned(lane))).zip(jobs));
            }
            other => return Err(format!("kind {other} in an opening")),
        }
    }
    changed.held = held.into_iter().collect();
    Ok(changed)
}

fn touched_lane(row: &Row) -> std::result::Result<TouchedLane, Misread> {
    let given: Vec<Option<i64>> = row.get(3);
    let [Some(lane), rank, seq] = given[..] else {
        return Err(format!("a lane of {} numbers", given.len()));
    };
    let place = |(rank, seq)| Rank { priority: priority_of(rank), seq: Seq(unsigned(seq)) };
    let key: LaneKey = parsed("lane", row.get(2))?;
    Ok(TouchedLane { lane: LaneId(unsigned(lane)), key, from: rank.zip(seq).map(place) })
}

fn add_uses(uses: &mut Vec<UsageRow>, at: i64, body: &str) -> std::result::Result<(), Misread> {
    let run: Vec<(&str, Option<&str>, i64)> = parsed("usage", body)?;
    for (service, key, units) in run {
        let (service, key) = (name::<ServiceName>(service)?, key.map(name::<Key>).transpose()?);
        uses.push(UsageRow { service, key, at: Timestamp::from_micros(at), units });
    }
    Ok(())
}

fn name<N: for<'a> TryFrom<&'a str, Error = runcue_core::NameError>>(
    text: &str,
) -> std::result::Result<N, Misread> {
    N::try_from(text).map_err(|error| error.to_string())
}
