//! PostgreSQL: a private server that syncs every commit, its raw floor, and what one job costs in write-ahead
//! log.
//!
//! The floor is the store's own tables, written by hand over one connection on prepared statements: `unnest` in
//! batches of 1 000, a claim with `FOR UPDATE SKIP LOCKED … RETURNING`, and one update that completes the batch.
//! No turns, no board, no events. Time to start is that of two connections: the statement that inserts a job notifies, and
//! whoever hears of it claims it.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use runcue_store::Store;
use runcue_test_servers::Postgres;
use tokio::sync::mpsc::unbounded_channel;
use tokio_postgres::{AsyncMessage, Client, NoTls, Statement};
use uuid::Uuid;

use crate::peers;
use crate::servers::{self, Floor, LARGE, STARTS, Server};
use crate::starts::{PAUSE, percentile};
use crate::stores::{CLAIM, Jobs, PARAMS, SUBMIT, drain_by, per_second, submit};
use crate::table::{Line, thousands};

/// A server with the settings that every figure here has, the peers' too.
struct Honest {
    server: Postgres,
}

impl Honest {
    fn start() -> Result<Self> {
        let server = Postgres::settings()
            .durable()
            .set("synchronous_commit", "on")
            .set("shared_buffers", "256MB")
            .set("max_wal_size", "4GB")
            .start()?;
        Ok(Self { server })
    }

    /// Bytes of write-ahead log so far.
    fn written(&self) -> Result<f64> {
        Ok(self.server.sql("SELECT pg_current_wal_lsn() - '0/0'::pg_lsn")?.trim().parse()?)
    }
}

impl Server for Honest {
    fn mode(&self) -> String {
        "PostgreSQL, fsync on, synchronous_commit on".to_owned()
    }

    fn url(&self, queue: &str) -> String {
        format!("{}?schema={queue}", self.server.url())
    }

    fn open(&self, queue: &str) -> Result<Arc<dyn Store>> {
        Ok(Arc::new(runcue_store_postgres::open_url(&self.url(queue))?))
    }

    fn clear(&self, queue: &str) -> Result<()> {
        self.server
            .sql(&format!("SET client_min_messages = error; DROP SCHEMA {queue} CASCADE"))?;
        self.server.sql("CHECKPOINT")?;
        Ok(())
    }
}

const PUT_JOB: &str = "INSERT INTO job (seq, id, lane, rank, created_at, spec) \
     SELECT seq, id, 1, 0, seq, spec FROM unnest($1::bigint[], $2::uuid[], $3::text[]) \
     AS new (seq, id, spec)";
const PUT_LIVE: &str = "INSERT INTO live (seq, lane, rank, stage, prerequisites, attempt, \
     earlier_attempts, crashes, queued_at, flags) \
     SELECT seq, 1, 0, 0, 0, 0, 0, 0, seq, 0 FROM unnest($1::bigint[]) AS new (seq)";

/// The store's tables in the hands of somebody who needs nothing else.
struct Raw {
    client: Client,
    insert: Statement,
    insert_and_notify: Statement,
    claim: Statement,
    complete: Statement,
    seq: i64,
}

impl Raw {
    async fn open(server: &Honest, schema: &str) -> Result<Self> {
        let store = server.open(schema)?;
        store.close().await?;
        drop(store);
        let (client, connection) = tokio_postgres::connect(&server.server.url(), NoTls).await?;
        tokio::spawn(connection);
        // As the store does: rows are found by their keys, whatever the planner knows of new tables.
        let settings = format!(
            "SET search_path = {schema}; SET enable_seqscan = off; SET enable_hashjoin = off; \
             SET enable_mergejoin = off"
        );
        client.batch_execute(&settings).await?;
        let insert = client.prepare(&format!("WITH put AS ({PUT_JOB}) {PUT_LIVE}")).await?;
        let insert_and_notify = format!(
            "WITH put AS ({PUT_JOB}), new AS ({PUT_LIVE} RETURNING seq) \
             SELECT pg_notify('floor', '') FROM new"
        );
        let insert_and_notify = client.prepare(&insert_and_notify).await?;
        let claim = client
            .prepare(
                "WITH head AS (SELECT seq FROM live WHERE stage = 0 AND lane = 1 ORDER BY rank, seq \
                 LIMIT $1 FOR UPDATE SKIP LOCKED), \
                 taken AS (UPDATE live SET stage = 4, due = live.seq, attempt = attempt + 1, \
                 started_at = live.seq, worker = $2, token = live.seq \
                 FROM head WHERE live.seq = head.seq RETURNING live.seq) \
                 SELECT job.seq, job.id, job.spec FROM taken JOIN job USING (seq)",
            )
            .await?;
        let complete = client
            .prepare(
                "UPDATE live SET stage = 5, due = NULL, worker = NULL \
                 FROM unnest($1::bigint[]) AS ended (seq) \
                 WHERE live.seq = ended.seq AND live.token = ended.seq",
            )
            .await?;
        Ok(Self { client, insert, insert_and_notify, claim, complete, seq: 0 })
    }

    async fn submit(&mut self, count: usize) -> Result<f64> {
        let body = format!(r#"{{"id":"{:032x}","task":"noop","params":{PARAMS}}}"#, 7);
        let begin = Instant::now();
        let mut left = count;
        while left > 0 {
            let size = left.min(SUBMIT);
            let first = self.seq + 1;
            self.seq += i64::try_from(size)?;
            let seqs: Vec<i64> = (first..=self.seq).collect();
            let id = |seq: &i64| Uuid::from_u128(u128::from(seq.unsigned_abs()) << 64);
            let ids: Vec<Uuid> = seqs.iter().map(id).collect();
            let specs = vec![body.as_str(); size];
            self.client.execute(&self.insert, &[&seqs, &ids, &specs]).await?;
            left -= size;
        }
        Ok(per_second(count, begin.elapsed()))
    }

    /// Both in one message and one transaction.
    async fn submit_and_notify(&mut self) -> Result<()> {
        self.seq += 1;
        let (seqs, id) = (vec![self.seq], Uuid::from_u128(u128::from(self.seq.unsigned_abs())));
        let spec = format!(r#"{{"id":"{:032x}","task":"noop","params":{PARAMS}}}"#, 7);
        self.client.execute(&self.insert_and_notify, &[&seqs, &vec![id], &vec![spec]]).await?;
        Ok(())
    }

    async fn claim_one(&mut self) -> Result<()> {
        let worker = Uuid::from_u128(7);
        let rows = self.client.query(&self.claim, &[&1_i64, &worker]).await?;
        ensure!(rows.len() == 1, "the floor heard of a job and found {}", rows.len());
        Ok(())
    }

    async fn drain(&mut self, count: usize, most: usize) -> Result<f64> {
        let (most, worker) = (i64::try_from(most)?, Uuid::from_u128(7));
        let (begin, mut done) = (Instant::now(), 0);
        loop {
            let rows = self.client.query(&self.claim, &[&most, &worker]).await?;
            if rows.is_empty() {
                break;
            }
            let claimed: Vec<(i64, Uuid, String)> =
                rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect();
            let seqs: Vec<i64> = claimed.iter().map(|(seq, _, _)| *seq).collect();
            done += seqs.len();
            self.client.execute(&self.complete, &[&seqs]).await?;
        }
        ensure!(done == count, "the floor claimed {done} of {count}");
        Ok(per_second(count, begin.elapsed()))
    }
}

/// So many jobs, one after the other, as ours are.
async fn starts(server: &Honest, schema: &str, count: usize) -> Result<f64> {
    let mut sender = Raw::open(server, schema).await?;
    let mut claimer = Raw::open(server, schema).await?;
    let (listener, mut connection) = tokio_postgres::connect(&server.server.url(), NoTls).await?;
    let (tell, mut told) = unbounded_channel();
    tokio::spawn(async move {
        while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
            if let AsyncMessage::Notification(_) = message {
                // Whoever has heard of the last one does not listen any more.
                let _ = tell.send(());
            }
        }
    });
    listener.batch_execute("LISTEN floor").await?;
    let (start, mut started) = unbounded_channel();
    let listening = tokio::spawn(async move {
        for _ in 0..count {
            told.recv().await.context("nobody notifies any more")?;
            claimer.claim_one().await?;
            start.send(Instant::now())?;
        }
        anyhow::Ok(())
    });
    let mut times = Vec::with_capacity(count);
    for _ in 0..count {
        let begin = Instant::now();
        sender.submit_and_notify().await?;
        let at = started.recv().await.context("the floor's listener has failed")?;
        times.push(at.duration_since(begin));
        tokio::time::sleep(PAUSE).await;
    }
    listening.await??;
    drop((sender, listener));
    times.sort();
    server.clear(schema)?;
    Ok(percentile(&times, 50))
}

async fn floor(server: &Honest, round: usize, count: usize) -> Result<Floor> {
    let start = starts(server, &format!("floor_{round}_starts"), STARTS).await?;
    let mut rates = Floor { start, ..Floor::default() };
    for most in [CLAIM, LARGE] {
        let schema = format!("floor_{round}_{most}");
        let mut raw = Raw::open(server, &schema).await?;
        rates.submit = rates.submit.max(raw.submit(count).await?);
        let rate = if most == CLAIM { &mut rates.drain } else { &mut rates.large_drain };
        *rate = raw.drain(count, most).await?;
        drop(raw);
        server.clear(&schema)?;
    }
    Ok(rates)
}

/// Write-ahead log per job over its whole life, 100 a claim.
async fn log_per_job(server: &Honest, count: usize, lines: &mut Vec<Line>) -> Result<()> {
    let mut raw = Raw::open(server, "log_floor").await?;
    let before = server.written()?;
    raw.submit(count).await?;
    raw.drain(count, CLAIM).await?;
    let floor = (server.written()? - before) / count as f64;
    drop(raw);
    server.clear("log_floor")?;
    let store = server.open("log_store")?;
    let before = server.written()?;
    submit(&*store, &mut Jobs::new(0, 0)?, count).await?;
    drain_by(&*store, count, CLAIM).await?;
    let ours = (server.written()? - before) / count as f64;
    store.close().await?;
    drop(store);
    server.clear("log_store")?;
    let bytes = |number: f64| format!("{} bytes", thousands(number));
    let what = "write-ahead log per job, submit to completion";
    let line = Line::figure(what, &server.mode(), bytes(ours), "–", None);
    lines.push(line.beside(bytes(floor), ours / floor));
    Ok(())
}

/// All figures of this server.
pub async fn measure(count: usize, with_peers: bool, lines: &mut Vec<Line>) -> Result<()> {
    let server = Honest::start()?;
    let ours =
        servers::measure(&server, count, async |round| floor(&server, round, count).await, lines)
            .await?;
    log_per_job(&server, count, lines).await?;
    if with_peers {
        let wanted = peers::Goal { rate: 2.0, name: "graphile-worker" };
        // A database of their own: the server wakes all who listen in a database, on whatever channel, and theirs stay while
        // ours come and go.
        server.server.sql("CREATE DATABASE peer")?;
        let url = server.server.url();
        let (place, _) = url.rsplit_once('/').context("an address without a database")?;
        let peer = peers::node("graphile-worker", &format!("{place}/peer"), count)?;
        peers::compare(&wanted, &server, ours, peer, lines).await?;
    }
    Ok(())
}
