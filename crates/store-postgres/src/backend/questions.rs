//! Rows by key, many at a time.
//!
//! Keys are compared with lists (`= ANY`), where need be with lists of one: migration 8 says why.

use runcue_core::{LaneId, Seq};
use runcue_store::Result;
use runcue_store::overlay::{Answers, Questions, ReadyQuestion};
use tokio_postgres::types::{ToSql, Type};
use uuid::Uuid;

use super::flight::{Flight, Landed, Text, Value};
use super::{PostgresBackend, landed};
use crate::rows::{self, Misread, id_of, parsed, rank_of, signed, unsigned};

const BY_ID: &str = "SELECT {job} FROM runcue.job {states} WHERE job.id = ANY ($1::uuid[])";

const BY_SEQ: &str = "SELECT {job} FROM runcue.job {states} WHERE job.seq = ANY ($1::bigint[])";

/// Nothing is looked for where jobs that are not ready are. Most have no row of their own.
const READY_BY_SEQ: &str = "SELECT {ready} FROM runcue.job \
    LEFT JOIN runcue.live AS ready ON ready.seq = ANY (ARRAY[job.seq]) \
    WHERE job.seq = ANY ($1::bigint[]) AND coalesce(ready.stage, 0) = 0";

const BY_KEY: &str = "SELECT {job}, idempotency.key FROM runcue.idempotency \
    JOIN runcue.job ON job.seq = ANY (ARRAY[idempotency.seq]) {states} WHERE idempotency.key = ANY ($1::bytea[])";

const DEPENDENTS: &str = "SELECT {job}, tie.prerequisite FROM runcue.tie \
    JOIN runcue.job ON job.seq = ANY (ARRAY[tie.dependent]) {states} WHERE tie.prerequisite = ANY ($1::bigint[])";

const PREREQUISITES: &str = "SELECT {job}, tie.dependent FROM runcue.tie \
    JOIN runcue.job ON job.seq = ANY (ARRAY[tie.prerequisite]) {states} WHERE tie.dependent = ANY ($1::bigint[])";

/// Ready jobs of a lane from a place on, in order: those with rows of their own and those in runs. The search begins at the
/// place: before it there may be many rows that are dead but cannot be removed yet. Of the first run some may stand before it.
macro_rules! ready {
    ($lane:literal, $rank:literal, $seq:literal, $most:literal) => {
        concat!(
            "((SELECT live.rank, live.seq, live.attempt, live.earlier_attempts, live.crashes, live.queued_at, live.started_at, ",
            "live.flags, live.outcome FROM runcue.live WHERE live.stage = 0 AND live.lane = ", $lane,
            " AND (live.rank, live.seq) >= (", $rank, ", ", $seq, ") ORDER BY live.rank, live.seq LIMIT ", $most, ") ",
            "UNION ALL (SELECT one.rank, one.seq, 0, 0, 0, NULL, NULL, 0::smallint, NULL FROM (",
            "SELECT run.rank, unnest(run.seqs[run.taken + 1 :]) AS seq FROM runcue.ready_run AS run WHERE run.lane = ", $lane,
            " AND (run.rank, run.last) >= (", $rank, ", ", $seq, ") ORDER BY run.rank, run.last LIMIT ", $most, " + 64) AS one ",
            "WHERE (one.rank, one.seq) >= (", $rank, ", ", $seq, ") LIMIT ", $most, ") ",
            "ORDER BY rank, seq LIMIT ", $most, ")"
        )
    };
}

const READY: &str = concat!(
    "SELECT {ready}, wanted.n FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[]) WITH ORDINALITY \
        AS wanted (lane, rank, seq, most, n) CROSS JOIN LATERAL ",
    ready!("wanted.lane", "wanted.rank", "wanted.seq", "wanted.most"),
    " AS ready JOIN runcue.job ON job.seq = ANY (ARRAY[ready.seq]) ORDER BY wanted.n, ready.rank, ready.seq"
);

/// The same for one lane, as most questions are: nothing is remembered for other lanes.
pub(super) const READY_OF_ONE: &str = concat!(
    "SELECT {ready}, 1::bigint FROM ",
    ready!("$1", "$2", "$3", "$4"),
    " AS ready JOIN runcue.job ON job.seq = ANY (ARRAY[ready.seq]) ORDER BY ready.rank, ready.seq"
);

const LANES: &str = "SELECT lane.key, lane.lane FROM unnest($1::text[]) AS wanted (key) JOIN runcue.lane ON lane.key = wanted.key";

const LANE_KEYS: &str =
    "SELECT lane.lane, lane.key FROM runcue.lane WHERE lane.lane = ANY ($1::bigint[])";

/// The columns of a job; what follows them is the statement's own.
pub(super) const AFTER_JOB: usize = 18;

/// Questions with their statements and values.
pub struct Asked {
    by_id: Option<(Text, Vec<Uuid>)>,
    by_seq: Option<(Text, Vec<i64>)>,
    ready_by_seq: Option<(Text, Vec<i64>)>,
    by_key: Option<(Text, Vec<Vec<u8>>)>,
    dependents: Option<(Text, Vec<i64>)>,
    prerequisites: Option<(Text, Vec<i64>)>,
    ready: Option<(Text, ReadyColumns)>,
    lanes: Option<(Text, Vec<String>)>,
    lane_keys: Option<(Text, Vec<i64>)>,
    /// How many lists of ready jobs are expected.
    ready_lists: usize,
}

/// Questions for ready jobs, by column.
#[derive(Default)]
pub(super) struct ReadyColumns {
    lanes: Vec<i64>,
    ranks: Vec<i64>,
    seqs: Vec<i64>,
    limits: Vec<i64>,
}

/// Jobs that are asked for at the most.
const MOST: i64 = i32::MAX as i64;

impl ReadyColumns {
    pub(super) fn add(&mut self, question: &ReadyQuestion) {
        let from = question.from.map(|from| (rank_of(from.priority), signed(from.seq.0)));
        let behind = question.behind.map(|at| (rank_of(at.priority), signed(at.seq.0) + 1));
        let max = question.max_priority.map(|max| (rank_of(max), 0));
        let (rank, seq) = from.into_iter().chain(behind).chain(max).max().unwrap_or((i64::MIN, 0));
        self.lanes.push(signed(question.lane.0));
        self.ranks.push(rank);
        self.seqs.push(seq);
        // The statement adds a run to it.
        self.limits.push(i64::try_from(question.limit).unwrap_or(i64::MAX).min(MOST));
    }

    /// For [`READY_OF_ONE`] if there is one question, else for [`READY`].
    pub(super) fn values(&self) -> [Value<'_>; 4] {
        [&self.lanes, &self.ranks, &self.seqs, &self.limits].map(|column| match &column[..] {
            [one] => (one as &(dyn ToSql + Sync), Type::INT8),
            _ => (column as &(dyn ToSql + Sync), Type::INT8_ARRAY),
        })
    }
}

impl PostgresBackend {
    pub(super) fn answer(&mut self, questions: &Questions) -> Result<Answers> {
        if questions.is_empty() {
            return Ok(Answers::default());
        }
        let asked = self.question_texts(questions)?;
        let seqs = questions.seqs.len() + questions.ready_seqs.len();
        let rows = questions.ids.len() + seqs + questions.lanes.len();
        // Behind a pooler, how statements run is settled by the transaction.
        let begin = Some(self.begin.clone()).filter(|_| self.options.pooler() && !self.turn.held);
        let mut landed = self.run(rows, async |client| {
            let mut flight = Flight::new(client);
            if let Some(begin) = &begin {
                flight.plain(begin);
            }
            asked.add_to(&mut flight);
            if begin.is_some() {
                flight.plain("COMMIT");
            }
            landed(flight).await
        })?;
        if begin.is_some() {
            landed.skip();
        }
        asked.read(&mut landed).map_err(|why| self.unreadable(why))
    }

    pub(super) fn question_texts(&mut self, questions: &Questions) -> Result<Asked> {
        let seqs = |seqs: &[Seq]| seqs.iter().map(|seq| signed(seq.0)).collect::<Vec<i64>>();
        let ids: Vec<Uuid> = questions.ids.iter().map(|id| id_of(*id)).collect();
        let keys: Vec<Vec<u8>> = questions.keys.iter().map(|key| key.as_bytes().to_vec()).collect();
        let lane_keys: Vec<i64> = questions.lane_keys.iter().map(|lane| signed(lane.0)).collect();
        let mut ready = ReadyColumns::default();
        questions.ready.iter().for_each(|question| ready.add(question));
        let mut with = |sql: &'static str, any: bool, of: Type| {
            any.then(|| {
                let count = if [READY, READY_OF_ONE].contains(&sql) { 4 } else { 1 };
                self.text(sql, &vec![of; count])
            })
            .transpose()
        };
        let (numbers, texts) = (Type::INT8_ARRAY, Type::TEXT_ARRAY);
        Ok(Asked {
            by_id: with(BY_ID, !ids.is_empty(), Type::UUID_ARRAY)?.map(|sql| (sql, ids)),
            by_seq: with(BY_SEQ, !questions.seqs.is_empty(), numbers.clone())?
                .map(|sql| (sql, seqs(&questions.seqs))),
            ready_by_seq: with(READY_BY_SEQ, !questions.ready_seqs.is_empty(), numbers.clone())?
                .map(|sql| (sql, seqs(&questions.ready_seqs))),
            by_key: with(BY_KEY, !keys.is_empty(), Type::BYTEA_ARRAY)?.map(|sql| (sql, keys)),
            dependents: with(DEPENDENTS, !questions.dependents.is_empty(), numbers.clone())?
                .map(|sql| (sql, seqs(&questions.dependents))),
            prerequisites: with(
                PREREQUISITES,
                !questions.prerequisites.is_empty(),
                numbers.clone(),
            )?
            .map(|sql| (sql, seqs(&questions.prerequisites))),
            ready: match questions.ready.len() {
                1 => with(READY_OF_ONE, true, Type::INT8)?,
                many => with(READY, many > 0, numbers.clone())?,
            }
            .map(|sql| (sql, ready)),
            lanes: with(LANES, !questions.lanes.is_empty(), texts)?
                .map(|sql| (sql, questions.lanes.clone())),
            lane_keys: with(LANE_KEYS, !lane_keys.is_empty(), numbers)?.map(|sql| (sql, lane_keys)),
            ready_lists: questions.ready.len(),
        })
    }
}

impl Asked {
    pub fn add_to<'a>(&'a self, flight: &mut Flight<'a>) {
        if let Some((sql, ids)) = &self.by_id {
            flight.ask(sql, vec![(ids, Type::UUID_ARRAY)]);
        }
        if let Some((sql, seqs)) = &self.by_seq {
            flight.ask(sql, vec![(seqs, Type::INT8_ARRAY)]);
        }
        if let Some((sql, seqs)) = &self.ready_by_seq {
            flight.ask(sql, vec![(seqs, Type::INT8_ARRAY)]);
        }
        if let Some((sql, keys)) = &self.by_key {
            flight.ask(sql, vec![(keys, Type::BYTEA_ARRAY)]);
        }
        if let Some((sql, seqs)) = &self.dependents {
            flight.ask(sql, vec![(seqs, Type::INT8_ARRAY)]);
        }
        if let Some((sql, seqs)) = &self.prerequisites {
            flight.ask(sql, vec![(seqs, Type::INT8_ARRAY)]);
        }
        if let Some((sql, ready)) = &self.ready {
            flight.ask(sql, ready.values().to_vec());
        }
        if let Some((sql, lanes)) = &self.lanes {
            flight.ask(sql, vec![(lanes, Type::TEXT_ARRAY)]);
        }
        if let Some((sql, lanes)) = &self.lane_keys {
            flight.ask(sql, vec![(lanes, Type::INT8_ARRAY)]);
        }
    }

    pub fn read(&self, landed: &mut Landed) -> std::result::Result<Answers, Misread> {
        let mut answers = Answers::default();
        if self.by_id.is_some() {
            read_jobs(landed, &mut answers)?;
        }
        if self.by_seq.is_some() {
            read_jobs(landed, &mut answers)?;
        }
        if self.ready_by_seq.is_some() {
            read_jobs(landed, &mut answers)?;
        }
        if self.by_key.is_some() {
            for row in landed.next() {
                let job = rows::job(&row)?;
                let key = String::from_utf8_lossy(row.get(AFTER_JOB)).into_owned();
                answers.keys.push((key, job.seq));
                answers.jobs.push(job);
            }
        }
        if self.dependents.is_some() {
            for row in landed.next() {
                let job = rows::job(&row)?;
                answers.ties.push((Seq(unsigned(row.get(AFTER_JOB))), job.seq));
                answers.jobs.push(job);
            }
        }
        if self.prerequisites.is_some() {
            for row in landed.next() {
                let job = rows::job(&row)?;
                answers.ties.push((job.seq, Seq(unsigned(row.get(AFTER_JOB)))));
                answers.jobs.push(job);
            }
        }
        answers.ready = vec![Vec::new(); self.ready_lists];
        if self.ready.is_some() {
            for row in landed.next() {
                let n = usize::try_from(row.get::<_, i64>(AFTER_JOB) - 1).unwrap_or(0);
                if let Some(list) = answers.ready.get_mut(n) {
                    list.push(rows::job(&row)?);
                }
            }
        }
        if self.lanes.is_some() {
            let lanes = landed.next();
            answers.lanes.extend(
                lanes.iter().map(|row| (row.get::<_, String>(0), LaneId(unsigned(row.get(1))))),
            );
        }
        if self.lane_keys.is_some() {
            for row in landed.next() {
                let key = parsed("lane", row.get(1))?;
                answers.lane_keys.push((LaneId(unsigned(row.get(0))), key));
            }
        }
        Ok(answers)
    }
}

fn read_jobs(landed: &mut Landed, answers: &mut Answers) -> std::result::Result<(), Misread> {
    for row in landed.next() {
        answers.jobs.push(rows::job(&row)?);
    }
    Ok(())
}
