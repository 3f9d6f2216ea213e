//! Taking the turn, and what has happened since the last one.

use std::collections::BTreeMap;
use std::time::Duration;

use runcue_core::{
    GroupName, Key, LaneId, LaneKey, ScheduleName, Seq, ServiceName, Timestamp, Token,
};
use runcue_store::overlay::{
    Changed, Earliest, Numbers, Opening, Places, Questions, Rank, TouchedLane,
};
use runcue_store::tables::{Counters, ServiceRow, UsageRow};
use runcue_store::{GroupInfo, QueueInfo, Result, ScheduleInfo};
use serde::{Deserialize, Serialize};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::flight::Flight;
use super::{PostgresBackend, landed};
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

const HEAD: &str = "SELECT revision, runcue.now_micros(), seq, served, event, delayed, blocked, last_served_group, lane, \
    log, first_delayed, first_lapsing, first_deadline, \
    $1 = 0 OR EXISTS (SELECT 1 FROM runcue.turn AS known WHERE known.revision = $1) \
    FROM runcue.turn ORDER BY revision DESC LIMIT 1";

const BOARD: &str =
    "SELECT kind, name, body FROM runcue.board WHERE revision > $1 ORDER BY kind, name";

/// Everything on the board; no index helps there.
const WHOLE_BOARD: &str = "SELECT kind, name, body FROM runcue.board ORDER BY kind, name";

const USAGE: &str = "SELECT at, body FROM runcue.usage_run WHERE revision > $1 ORDER BY at";

const WHOLE_USAGE: &str = "SELECT at, body FROM runcue.usage_run WHERE at > $1 ORDER BY at";

/// Lanes that were touched since, each with the best place at which a job has become ready.
const TOUCHED: &str = "SELECT lane.lane, lane.key, touched.best[1], touched.best[2] FROM ( \
        SELECT one.lane, min(ARRAY[one.rank, one.seq]) FILTER (WHERE one.rank IS NOT NULL) AS best \
        FROM runcue.turn, unnest(turn.touched, turn.touched_rank, turn.touched_seq) AS one (lane, rank, seq) \
        WHERE turn.revision > $1 GROUP BY one.lane) AS touched \
    JOIN runcue.lane ON lane.lane = touched.lane";

/// Jobs that were changed since, and how many are held in lanes.
const CHANGED: &str =
    "SELECT changed, held, held_jobs FROM runcue.turn WHERE revision > $1 ORDER BY revision";

/// How many are held in lanes, since all were last written in one row.
const WHOLE_HELD: &str = "SELECT held, held_jobs FROM runcue.turn WHERE revision > \
    (SELECT coalesce(max(board.revision), 0) FROM runcue.board WHERE board.kind = 4) AND held <> '{}' ORDER BY revision";

const WHOLE_LANES: &str = "SELECT lane.lane, lane.key, NULL::bigint, NULL::bigint FROM runcue.lane WHERE EXISTS \
    (SELECT 1 FROM runcue.live WHERE live.stage = 0 AND live.lane = lane.lane)";

impl PostgresBackend {
    pub(super) fn open_turn(
        &mut self,
        known: u64,
        now: Option<Timestamp>,
        questions: &Questions,
    ) -> Result<Opening> {
        let whole = known == 0;
        let known = signed(known);
        let one = [Type::INT8];
        let turn = self.text("SELECT runcue.take_turn()", &[])?;
        let head = self.text(HEAD, &one)?;
        let since: &[Type] = if whole { &[] } else { &one };
        let board = self.text(if whole { WHOLE_BOARD } else { BOARD }, since)?;
        let lanes = self.text(if whole { WHOLE_LANES } else { TOUCHED }, since)?;
        let (usage, jobs) = (self.text(USAGE, &one)?, self.text(CHANGED, &one)?);
        let held = self.text(WHOLE_HELD, &[])?;
        let asked = self.question_texts(questions)?;
        self.in_turn = true;
        let begin = self.begin.clone();
        let ran = self.run(questions.ids.len(), async |client| {
            let mut flight = Flight::new(client);
            let since = || vec![(&known as _, Type::INT8)];
            flight.plain(&begin);
            flight.ask(&turn, vec![]);
            flight.ask(&head, since());
            flight.ask(&board, if whole { vec![] } else { since() });
            flight.ask(&lanes, if whole { vec![] } else { since() });
            if whole {
                flight.ask(&held, vec![]);
            } else {
                flight.ask(&usage, since());
                flight.ask(&jobs, since());
            }
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
        landed.skip();
        let head = landed.next();
        let head = head.first().ok_or_else(|| self.unreadable("no turn".to_owned()))?;
        let revision = unsigned(head.get(0));
        let server_now = Timestamp::from_micros(head.get(1));
        let numbers = numbers(head).map_err(|why| self.unreadable(why))?;
        let remembered: bool = head.get(13);
        let (board, lanes) = (landed.next(), landed.next());
        // Of everything there is one more list, of how many jobs are held.
        let (usage, jobs) = match whole {
            true => (Vec::new(), landed.next()),
            false => (landed.next(), landed.next()),
        };
        let answers = asked.read(&mut landed).map_err(|why| self.unreadable(why))?;
        let counted = now.unwrap_or(server_now);
        let changed = if whole {
            Some(self.with_usage(board, lanes, &jobs, counted, Duration::ZERO)?)
        } else if !remembered || board.iter().any(|row| row.get::<_, i16>(0) == DROPPED) {
            // Too far behind: which lanes were touched since is not known any more. Or lanes have gone.
            Some(self.read_whole(counted, Duration::ZERO)?)
        } else if revision == unsigned(known) {
            None
        } else {
            let mut since = changed(&board, &lanes, &usage).map_err(|why| self.unreadable(why))?;
            since.jobs = jobs.iter().flat_map(changed_jobs).collect();
            since.held = latest_held(Vec::new(), jobs.iter().map(|row| (row.get(1), row.get(2))));
            Some(since)
        };
        Ok(Opening { revision, now: server_now, numbers, changed, answers })
    }

    /// Everything, in the middle of a turn.
    pub(super) fn read_whole(&mut self, now: Timestamp, memory: Duration) -> Result<Changed> {
        let (board, lanes) = (self.text(WHOLE_BOARD, &[])?, self.text(WHOLE_LANES, &[])?);
        let held = self.text(WHOLE_HELD, &[])?;
        let mut landed = self.run(0, async |client| {
            let mut flight = Flight::new(client);
            flight.ask(&board, vec![]);
            flight.ask(&lanes, vec![]);
            flight.ask(&held, vec![]);
            landed(flight).await
        })?;
        let (board, lanes, held) = (landed.next(), landed.next(), landed.next());
        self.with_usage(board, lanes, &held, now, memory)
    }

    /// How many jobs are held in lanes, as it is written; lanes with none may be left out.
    pub(super) fn read_held(&mut self) -> Result<Vec<(LaneId, u32)>> {
        let sql = "SELECT kind, name, body FROM runcue.board WHERE kind = $1";
        let board = self.query(sql, &[(&HELD, Type::INT2)])?;
        let since = self.query(WHOLE_HELD, &[])?;
        let noted = changed(&board, &[], &[]).map_err(|why| self.unreadable(why))?.held;
        Ok(latest_held(noted, since.iter().map(|row| (row.get(0), row.get(1)))))
    }

    /// How far back uses count is known only from the services.
    fn with_usage(
        &mut self,
        board: Vec<Row>,
        lanes: Vec<Row>,
        held: &[Row],
        now: Timestamp,
        memory: Duration,
    ) -> Result<Changed> {
        let mut all = changed(&board, &lanes, &[]).map_err(|why| self.unreadable(why))?;
        all.whole = true;
        let noted = std::mem::take(&mut all.held);
        all.held = latest_held(noted, held.iter().map(|row| (row.get(0), row.get(1))));
        all.held.retain(|(_, jobs)| *jobs > 0);
        let longest = all.services.iter().map(|row| row.spec.memory()).max();
        let memory = memory.max(longest.unwrap_or_default());
        if !memory.is_zero() {
            let since = now.minus(memory).as_micros();
            let rows = self.query(WHOLE_USAGE, &[(&since, Type::INT8)])?;
            all.usage = uses(&rows).map_err(|why| self.unreadable(why))?;
        }
        Ok(all)
    }
}

fn numbers(row: &Row) -> std::result::Result<Numbers, Misread> {
    let number = |n: usize| unsigned(row.get(n));
    let instant = |n: usize| row.get::<_, Option<i64>>(n).map(Timestamp::from_micros);
    let group: Option<&str> = row.get(7);
    Ok(Numbers {
        counters: Counters {
            seq: Seq(number(2)),
            served: Token(number(3)),
            event: number(4),
            delayed: number(5),
            blocked: number(6),
            last_served_group: group.map(name::<GroupName>).transpose()?,
        },
        lane: number(8),
        log: number(9),
        earliest: Earliest { delayed: instant(10), lapsing: instant(11), deadline: instant(12) },
    })
}

fn changed(board: &[Row], lanes: &[Row], usage: &[Row]) -> std::result::Result<Changed, Misread> {
    let mut changed = Changed::default();
    for row in board {
        let (kind, key, body): (i16, &str, &str) = (row.get(0), row.get(1), row.get(2));
        match kind {
            GROUP => changed.groups.push(parsed::<GroupInfo>("group", body)?),
            QUEUE => changed.queues.push(parsed::<QueueInfo>("queue", body)?),
            SERVICE => {
                let body: ServiceBody = parsed("service", body)?;
                let ServiceBody { spec, breaker, held_until } = body;
                changed.services.push(ServiceRow { spec, breaker, held_until });
            }
            HELD => {
                let all: Vec<(u64, u32)> = parsed("held", body)?;
                changed.held = all.into_iter().map(|(lane, jobs)| (LaneId(lane), jobs)).collect();
            }
            SCHEDULE => {
                let schedule = (!body.is_empty()).then(|| parsed::<ScheduleInfo>("schedule", body));
                changed.schedules.push((name::<ScheduleName>(key)?, schedule.transpose()?));
            }
            DROPPED => {}
            other => return Err(format!("kind {other} on the board")),
        }
    }
    for row in lanes {
        let rank: Option<i64> = row.get(2);
        let seq: Option<i64> = row.get(3);
        let from = rank
            .zip(seq)
            .map(|(rank, seq)| Rank { priority: priority_of(rank), seq: Seq(unsigned(seq)) });
        let key: LaneKey = parsed("lane", row.get(1))?;
        changed.lanes.push(TouchedLane { lane: LaneId(unsigned(row.get(0))), key, from });
    }
    changed.usage = uses(usage)?;
    Ok(changed)
}

/// How many jobs are held in lanes after turns that have changed that, in their order.
fn latest_held(
    before: Vec<(LaneId, u32)>,
    turns: impl Iterator<Item = (Vec<i64>, Vec<i32>)>,
) -> Vec<(LaneId, u32)> {
    let mut latest: BTreeMap<LaneId, u32> = before.into_iter().collect();
    for (lanes, jobs) in turns {
        let jobs = jobs.into_iter().map(|jobs| u32::try_from(jobs).unwrap_or(0));
        latest.extend(lanes.into_iter().map(|lane| LaneId(unsigned(lane))).zip(jobs));
    }
    latest.into_iter().collect()
}

fn changed_jobs(row: &Row) -> Vec<Places> {
    let places: Vec<i64> = row.get(0);
    let place = |n: i64| Seq(unsigned(n));
    places.chunks_exact(2).map(|pair| (place(pair[0]), place(pair[1]))).collect()
}

fn uses(rows: &[Row]) -> std::result::Result<Vec<UsageRow>, Misread> {
    let mut uses = Vec::new();
    for row in rows {
        let at = Timestamp::from_micros(row.get(0));
        let run: Vec<(&str, Option<&str>, i64)> = parsed("usage", row.get(1))?;
        for (service, key, units) in run {
            let key = key.map(name::<Key>).transpose()?;
            uses.push(UsageRow { service: name::<ServiceName>(service)?, key, at, units });
        }
    }
    Ok(uses)
}

fn name<N: for<'a> TryFrom<&'a str, Error = runcue_core::NameError>>(
    text: &str,
) -> std::result::Result<N, Misread> {
    N::try_from(text).map_err(|error| error.to_string())
}
