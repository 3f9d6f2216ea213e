//! A commit as a transaction of plain commands. The connection watches the revision and the turn from before the
//! commit is sent, so that the server carries out all of it, or nothing if either has changed in the meantime.
//!
//! It says the same as the script `commit.lua`, which stays for small commits, for whatever must be looked up in the
//! same step, and for servers that do not let us watch. Commands are several times cheaper than a script that is
//! handed the same as arguments.

use redis::Value;
use runcue_store::{Result, StoreError};

use crate::connection::{Batch, Link};
use crate::migrate::SCHEMA;
use crate::pack::Changes;
use crate::reading::Reading;
use crate::script::Script;
use crate::value::{item, items, parse, text};
use crate::watcher;

/// What the server said right after the connection began to watch.
#[derive(Debug, PartialEq, Eq)]
pub struct Watch {
    revision: u64,
    holder: Option<Vec<u8>>,
}

impl Watch {
    /// Replies of [`queue`].
    const REPLIES: usize = 4;

    /// Begins to watch, in a batch that it ends.
    pub fn queue(link: &Link, batch: &mut Batch) {
        let (meta, turn) = (link.keys().key("meta"), link.keys().key("turn"));
        batch.add(&[b"UNWATCH"]);
        batch.add(&[b"WATCH", meta.as_bytes(), turn.as_bytes()]);
        link.queue(batch, "HMGET", "meta", &[b"schema", b"revision", b"pending"]);
        link.queue(batch, "GET", "turn", &[]);
    }

    /// What is watched, from the replies to such a batch. Nothing if no commit can build on it.
    pub fn of(replies: &[Value]) -> Option<Self> {
        let [_, watching, meta, turn] = replies.last_chunk::<{ Self::REPLIES }>()?;
        let schema: Option<u32> = parse(item(meta, 0));
        let usable = text(watching) == Some(b"OK")
            && schema.is_none_or(|schema| schema <= SCHEMA)
            && matches!(item(meta, 2), Value::Nil)
            && matches!(turn, Value::Nil | Value::BulkString(_));
        let revision = parse(item(meta, 1)).unwrap_or(1);
        usable.then(|| Self { revision, holder: text(turn).map(<[u8]>::to_vec) })
    }

    /// Whether a commit can build on it: one that follows a revision, in the turn that has this word or in none.
    pub fn allows(&self, follows: u64, word: &str) -> bool {
        let others = self.holder.as_ref().is_some_and(|holder| holder != word.as_bytes());
        self.revision == follows && !others
    }
}

/// All that a transaction writes.
#[derive(Debug)]
pub struct Transaction<'a> {
    /// The daemon.
    pub daemon: &'a str,
    /// The commit's id.
    pub id: &'a str,
    /// The revision that it makes.
    pub revision: &'a str,
    /// The numbers of that revision.
    pub numbers: &'a str,
    /// What others must know.
    pub delta: &'a str,
    /// The changes.
    pub changes: &'a Changes,
    /// The word of the turn that it is made in, and how long that lasts from here on in ms; nothing if it ends.
    pub turn: Option<(&'a str, Option<&'a str>)>,
    /// What wakes the others, if they are to be.
    pub news: Option<&'a str>,
    /// What is to be read when it is done.
    pub reading: Option<&'a Reading>,
}

/// What came of a transaction.
#[derive(Debug)]
pub enum Done {
    /// It is written.
    Written {
        /// The server's clock.
        now: Value,
        /// Whether the turn goes on.
        kept: bool,
        /// Whether somebody with little to do waits for it, if it does.
        hurry: bool,
        /// How many with much to do do so, if it does.
        line: Option<usize>,
        /// What is watched from here on.
        watch: Option<Watch>,
        /// What was to be read.
        read: Vec<Value>,
    },
    /// Nothing is written: somebody else has.
    Behind,
}

impl Transaction<'_> {
    /// Sends it, in one round trip, and does something else while the server is busy with it.
    ///
    /// # Errors
    /// As every call. If the server has refused it nothing is written.
    pub fn send(
        &self,
        link: &mut Link,
        meanwhile: impl FnOnce(&mut Link) -> Result<()>,
    ) -> Result<Done> {
        let mut batch = Batch::default();
        batch.add(&[b"MULTI"]);
        let meta = [b"revision", self.revision.as_bytes(), b"numbers", self.numbers.as_bytes()];
        link.queue(&mut batch, "HSET", "meta", &meta);
        let commit = format!("commit:{}", self.daemon);
        link.queue(&mut batch, "SET", &commit, &[self.id.as_bytes(), b"EX", b"604800"]);
        let entry = format!("{}-0", self.revision);
        let words: [&[u8]; 6] =
            [b"MAXLEN", b"~", b"500", entry.as_bytes(), b"c", self.delta.as_bytes()];
        link.queue(&mut batch, "XADD", "changes", &words);
        self.changes.queue(link, &mut batch);
        let kept = matches!(self.turn, Some((_, Some(_))));
        if let Some((_, Some(lasts))) = self.turn {
            link.queue(&mut batch, "EXISTS", "first", &[]);
            link.queue(&mut batch, "LLEN", "line", &[]);
            link.queue(&mut batch, "PEXPIRE", "turn", &[lasts.as_bytes()]);
        }
        batch.add(&[b"TIME"]);
        batch.add(&[b"EXEC"]);
        let exec = batch.len() - 1;
        // What follows decides nothing: the turn would expire, and whoever is not woken polls.
        let ends = self.turn.filter(|_| !kept).map(|(word, _)| word);
        if let Some(word) = ends {
            link.queue_script(&mut batch, Script::Abandon, &[word.as_bytes()]);
        }
        if let Some(news) = self.news {
            for channel in [watcher::BEHIND, watcher::FIRST] {
                link.queue(&mut batch, "PUBLISH", channel, &[news.as_bytes()]);
            }
        }
        Watch::queue(link, &mut batch);
        let watched = batch.len();
        if let Some(reading) = self.reading {
            reading.queue(link, &mut batch);
        }
        link.write(&batch)?;
        meanwhile(link)?;
        let mut replies = link.receive(batch.len())?;
        let read = replies.split_off(watched);
        if is_error(&replies[0]) {
            // The right to do this was taken away a moment ago. What was to be one step was several, all of which may have
            // been taken: whoever made the commit looks.
            let why = link.good(replies[0].clone()).err().map(|error| error.to_string());
            return Err(StoreError::Unavailable(why.unwrap_or_default()));
        }
        if let Some(refused) = replies[..exec].iter().find(|reply| is_error(reply)) {
            link.good(refused.clone())?;
        }
        let done = link.good(replies[exec].clone())?;
        let mut watch = Watch::of(&replies);
        if let Some(word) = ends.filter(|_| is_error(&replies[exec + 1])) {
            // The server has forgotten that script. Without it the turn would expire.
            watch = None;
            if let Err(away @ StoreError::Unavailable(_)) =
                link.script(Script::Abandon, &[word.as_bytes()])
            {
                return Err(away);
            }
        }
        let [.., waits, line, lasts, now] = items(&done) else { return Ok(Done::Behind) };
        let kept = kept && *lasts == Value::Int(1);
        let hurry = kept && *waits == Value::Int(1);
        let line = match line {
            Value::Int(line) if kept => usize::try_from(*line).ok(),
            _ => None,
        };
        Ok(Done::Written { now: now.clone(), kept, hurry, line, watch, read })
    }
}

fn is_error(reply: &Value) -> bool {
    matches!(reply, Value::ServerError(_))
}
