//! Redis: a private server with an append-only file that is synced every second, and its raw floor. The file is rewritten
//! between two measurements and never during one, or whoever it happens to would seem slower.
//!
//! The floor is pipelined commands over one connection without delay, one per batch and key that has to change, of
//! as many jobs as the batch has, with values as long as the store's: no script, no events, no turns. Time to start is that
//! of two connections: what inserts a job publishes it, and whoever hears of it claims it by name.

use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};
use redis::io::tcp::TcpSettings;
use redis::{Connection, IntoConnectionInfo};
use runcue_store::Store;
use runcue_test_servers::Redis;

use crate::peers;
use crate::servers::{self, Floor, LARGE, STARTS, Server};
use crate::starts::{PAUSE, percentile};
use crate::stores::{CLAIM, PARAMS, SUBMIT, per_second};
use crate::table::Line;

/// As long as what the store writes of a job's life.
const LIFE: &str = "a text as long as that of a life is";

const IS_REWRITTEN: &str = "local info = redis.call('INFO', 'persistence') \
    local busy = string.find(info, 'aof_rewrite_in_progress:1') or string.find(info, 'aof_rewrite_scheduled:1') \
    return busy and 0 or 1";
/// How long that may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server with the settings that every figure here has, the peers' too.
struct Honest {
    server: Redis,
}

impl Honest {
    fn start() -> Result<Self> {
        let settings = Redis::settings().set("appendonly", "yes").set("appendfsync", "everysec");
        let settings = settings.set("auto-aof-rewrite-percentage", "0");
        Ok(Self { server: settings.start()? })
    }
}

impl Server for Honest {
    fn mode(&self) -> String {
        "Redis, appendfsync everysec".to_owned()
    }

    fn url(&self, queue: &str) -> String {
        format!("{}?prefix={queue}", self.server.url())
    }

    fn open(&self, queue: &str) -> Result<Arc<dyn Store>> {
        Ok(Arc::new(runcue_store_redis::open_url(&self.url(queue))?))
    }

    fn clear(&self, _queue: &str) -> Result<()> {
        let said = self.server.command(&["FLUSHALL"])?;
        ensure!(said.starts_with("+OK"), "FLUSHALL: {said}");
        self.server.command(&["BGREWRITEAOF"])?;
        let begun = Instant::now();
        while self.server.command(&["EVAL", IS_REWRITTEN, "0"])? != ":1" {
            ensure!(begun.elapsed() < PATIENCE, "its file is being rewritten for ever");
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

struct Raw {
    connection: Connection,
    seq: u64,
}

impl Raw {
    fn open(server: &Honest) -> Result<Self> {
        let settings = TcpSettings::default().set_nodelay(true);
        let info = server.server.url().into_connection_info()?.set_tcp_settings(settings);
        let connection = redis::Client::open(info)?.get_connection()?;
        Ok(Self { connection, seq: 0 })
    }

    fn submit(&mut self, count: usize) -> Result<f64> {
        let body = format!(r#"{{"id":"{:032x}","task":"noop","params":{PARAMS}}}"#, 7);
        let begin = Instant::now();
        let mut left = count;
        while left > 0 {
            let size = left.min(SUBMIT);
            let (mut spec, mut life) = (redis::cmd("HSET"), redis::cmd("HSET"));
            let (mut ids, mut ready) = (redis::cmd("HSET"), redis::cmd("ZADD"));
            spec.arg("spec");
            life.arg("life");
            ids.arg("id");
            ready.arg("ready");
            for _ in 0..size {
                self.seq += 1;
                let place = format!("{:012x}", self.seq);
                let id = format!("{:032x}", self.seq);
                spec.arg(&place).arg(&body);
                life.arg(&place).arg(LIFE);
                ids.arg(&id).arg(&place);
                ready.arg(0).arg(&place);
            }
            let mut pipe = redis::pipe();
            for command in [spec, life, ids, ready] {
                pipe.add_command(command).ignore();
            }
            pipe.query::<()>(&mut self.connection)?;
            left -= size;
        }
        Ok(per_second(count, begin.elapsed()))
    }

    fn drain(&mut self, count: usize, most: usize) -> Result<f64> {
        let (begin, mut done) = (Instant::now(), 0);
        loop {
            let popped: Vec<(String, f64)> =
                redis::cmd("ZPOPMIN").arg("ready").arg(most).query(&mut self.connection)?;
            if popped.is_empty() {
                break;
            }
            let (mut spec, mut life) = (redis::cmd("HMGET"), redis::cmd("HSET"));
            let (mut lapsing, mut over) = (redis::cmd("ZADD"), redis::cmd("ZREM"));
            let mut ended = redis::cmd("ZADD");
            spec.arg("spec");
            life.arg("life");
            lapsing.arg("lapsing");
            over.arg("lapsing");
            ended.arg("ended");
            for (place, _) in &popped {
                spec.arg(place);
                life.arg(place).arg(LIFE);
                lapsing.arg(done).arg(place);
                over.arg(place);
                ended.arg(done).arg(place);
            }
            let mut pipe = redis::pipe();
            pipe.add_command(spec).add_command(life.clone()).ignore();
            pipe.add_command(lapsing).ignore();
            let (specs,): (Vec<String>,) = pipe.query(&mut self.connection)?;
            ensure!(specs.len() == popped.len(), "the floor lost jobs");
            let mut pipe = redis::pipe();
            for command in [life, over, ended] {
                pipe.add_command(command).ignore();
            }
            pipe.query::<()>(&mut self.connection)?;
            done += popped.len();
        }
        ensure!(done == count, "the floor claimed {done} of {count}");
        Ok(per_second(count, begin.elapsed()))
    }
}

/// So many jobs, one after the other, as ours are.
fn starts(server: &Honest, count: usize) -> Result<f64> {
    let mut sender = Raw::open(server)?.connection;
    let mut listener = Raw::open(server)?.connection;
    let mut claimer = Raw::open(server)?.connection;
    let (ready, is_ready) = mpsc::channel();
    let (start, started) = mpsc::channel();
    let body = format!(r#"{{"id":"{:032x}","task":"noop","params":{PARAMS}}}"#, 7);
    let listening = std::thread::spawn(move || -> Result<()> {
        let mut channel = listener.as_pubsub();
        channel.subscribe("news")?;
        ready.send(())?;
        for _ in 0..count {
            let place: String = channel.get_message()?.get_payload()?;
            let mut pipe = redis::pipe();
            pipe.cmd("ZREM").arg("ready").arg(&place).cmd("HMGET").arg("spec").arg(&place);
            pipe.cmd("HSET").arg("life").arg(&place).arg(LIFE).ignore();
            pipe.cmd("ZADD").arg("lapsing").arg(1).arg(&place).ignore();
            let (was_ready, _): (usize, Vec<String>) = pipe.query(&mut claimer)?;
            ensure!(was_ready == 1, "somebody else has claimed it");
            start.send(Instant::now())?;
        }
        Ok(())
    });
    is_ready.recv()?;
    let mut times = Vec::with_capacity(count);
    for n in 0..count {
        let place = format!("{n:012x}");
        let begin = Instant::now();
        let mut pipe = redis::pipe();
        pipe.cmd("HSET").arg("spec").arg(&place).arg(&body).ignore();
        pipe.cmd("HSET").arg("life").arg(&place).arg(LIFE).ignore();
        pipe.cmd("HSET").arg("id").arg(format!("{n:032x}")).arg(&place).ignore();
        pipe.cmd("ZADD").arg("ready").arg(0).arg(&place).ignore();
        pipe.cmd("PUBLISH").arg("news").arg(&place).ignore();
        pipe.query::<()>(&mut sender)?;
        times.push(started.recv()?.duration_since(begin));
        std::thread::sleep(PAUSE);
    }
    listening.join().map_err(|_| anyhow!("the floor's listener has failed"))??;
    times.sort();
    server.clear("")?;
    Ok(percentile(&times, 50))
}

fn floor(server: &Honest, count: usize) -> Result<Floor> {
    let mut rates = Floor { start: starts(server, STARTS)?, ..Floor::default() };
    for most in [CLAIM, LARGE] {
        let mut raw = Raw::open(server)?;
        rates.submit = rates.submit.max(raw.submit(count)?);
        let rate = if most == CLAIM { &mut rates.drain } else { &mut rates.large_drain };
        *rate = raw.drain(count, most)?;
        server.clear("")?;
    }
    Ok(rates)
}

/// All figures of this server.
pub async fn measure(count: usize, with_peers: bool, lines: &mut Vec<Line>) -> Result<()> {
    let server = Honest::start()?;
    let ours = servers::measure(&server, count, async |_| floor(&server, count), lines).await?;
    if with_peers {
        let wanted = peers::Goal { rate: 3.0, name: "BullMQ" };
        let peer = peers::node("bullmq", &server.server.url(), count)?;
        peers::compare(&wanted, &server, ours, peer, lines).await?;
    }
    Ok(())
}
