//! A commit as a transaction of plain commands, in one message with the condition under which it may take place. The
//! connection watches the revision and the turn; a small script looks at them, and touches them if they are not as they have to
//! be; so the server carries out all of the transaction, or nothing.
//!
//! It says the same as the script `commit.lua`, which stays for commits that are carried out in parts and for servers that
//! do not let us watch. Commands are several times cheaper than a script that is handed the same as arguments.

use redis::Value;
use runcue_store::{Result, StoreError};

use crate::connection::{Batch, Link};
use crate::migrate::SCHEMA;
use crate::pack::Changes;
use crate::reading::Reading;
use crate::script::Script;
use crate::value::items;

/// All that a transaction writes.
#[derive(Debug)]
pub struct Transaction<'a> {
    /// The daemon.
    pub daemon: &'a str,
    /// The commit's id.
    pub id: &'a str,
    /// The revision that it builds on.
    pub follows: u64,
    /// The numbers of the revision that it makes.
    pub numbers: &'a str,
    /// What others must know.
    pub delta: &'a str,
    /// Ids of new jobs that were not looked for before. There is nobody who has one of them.
    pub ids: &'a [[u8; 16]],
    /// The changes.
    pub changes: &'a Changes,
    /// The word of the turn that it is made in, and how long that lasts from here on in ms; nothing if it ends.
    pub turn: Option<(&'a str, Option<&'a str>)>,
    /// What wakes the others, if they are to be, and how many of those who hear of it behind the others and first are the
    /// author.
    pub news: Option<(&'a str, [&'a str; 2])>,
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
        /// What was to be read.
        read: Vec<Value>,
    },
    /// Nothing is written, and this is what the condition said: as `commit.lua` would have.
    Refused(Value),
}

/// Where the replies to these stand.
const WATCH: usize = 0;
const CONDITION: usize = 1;
const MULTI: usize = 2;

impl Transaction<'_> {
    /// Whether a server lets us do this.
    ///
    /// # Errors
    /// As every call.
    pub fn is_allowed(link: &mut Link) -> Result<bool> {
        let mut batch = Batch::default();
        batch.add(&[b"WATCH", link.keys().key("meta").as_bytes()]);
        batch.add(&[b"MULTI"]);
        batch.add(&[b"EXEC"]);
        Ok(link.send(&batch)?.iter().all(|reply| link.good(reply.clone()).is_ok()))
    }

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
        self.queue_condition(link, &mut batch);
        batch.add(&[b"MULTI"]);
        let revision = (self.follows + 1).to_string();
        let meta = [b"revision", revision.as_bytes(), b"numbers", self.numbers.as_bytes()];
        link.queue(&mut batch, "HSET", "meta", &meta);
        let commit = format!("commit:{}", self.daemon);
        link.queue(&mut batch, "SET", &commit, &[self.id.as_bytes(), b"EX", b"604800"]);
        let entry = format!("{revision}-0");
        let words: [&[u8]; 6] =
            [b"MAXLEN", b"~", b"500", entry.as_bytes(), b"c", self.delta.as_bytes()];
        link.queue(&mut batch, "XADD", "changes", &words);
        self.changes.queue(link, &mut batch);
        if let Some((news, [behind, first])) = self.news {
            let words = [news, behind, first].map(str::as_bytes);
            link.queue_text(&mut batch, Script::tell(), &words);
        }
        let kept = matches!(self.turn, Some((_, Some(_))));
        if let Some((_, Some(lasts))) = self.turn {
            link.queue(&mut batch, "EXISTS", "first", &[]);
            link.queue(&mut batch, "LLEN", "line", &[]);
            link.queue(&mut batch, "PEXPIRE", "turn", &[lasts.as_bytes()]);
        }
        batch.add(&[b"TIME"]);
        batch.add(&[b"EXEC"]);
        let exec = batch.len() - 1;
        // What follows decides nothing: the turn would expire.
        let ends = self.turn.filter(|_| !kept).map(|(word, _)| word);
        if let Some(word) = ends {
            link.queue_script(&mut batch, Script::Abandon, &[word.as_bytes()]);
        }
        let written = batch.len();
        if let Some(reading) = self.reading {
            reading.queue(link, &mut batch);
        }
        link.write(&batch)?;
        meanwhile(link)?;
        let mut replies = link.receive(batch.len())?;
        let read = replies.split_off(written);
        if let Some(place) =
            [WATCH, CONDITION, MULTI].into_iter().find(|at| is_error(&replies[*at]))
        {
            // The right to do this was taken away a moment ago. What was to be one step under a condition was perhaps neither,
            // and may have been taken: whoever made the commit looks.
            let why = link.good(replies[place].clone()).err().map(|error| error.to_string());
            return Err(StoreError::Unavailable(why.unwrap_or_default()));
        }
        if let Some(refused) = replies[..exec].iter().find(|reply| is_error(reply)) {
            link.good(refused.clone())?;
        }
        let done = link.good(replies[exec].clone())?;
        if let Some(word) = ends.filter(|_| is_error(&replies[exec + 1]))
            // The server has forgotten that script. Without it the turn would expire.
            && let Err(away @ StoreError::Unavailable(_)) =
                link.script(Script::Abandon, &[word.as_bytes()])
        {
            return Err(away);
        }
        let [.., waits, line, lasts, now] = items(&done) else {
            return Ok(Done::Refused(replies.swap_remove(CONDITION)));
        };
        let kept = kept && *lasts == Value::Int(1);
        let hurry = kept && *waits == Value::Int(1);
        let line = match line {
            Value::Int(line) if kept => usize::try_from(*line).ok(),
            _ => None,
        };
        Ok(Done::Written { now: now.clone(), kept, hurry, line, read })
    }

    fn queue_condition(&self, link: &Link, batch: &mut Batch) {
        let (meta, turn) = (link.keys().key("meta"), link.keys().key("turn"));
        batch.add(&[b"WATCH", meta.as_bytes(), turn.as_bytes()]);
        let (schema, follows) = (SCHEMA.to_string(), self.follows.to_string());
        let word = self.turn.map_or("", |(word, _)| word);
        let head = [&*schema, &*follows, word].map(str::as_bytes);
        let words: Vec<&[u8]> = head.into_iter().chain(self.ids.iter().map(|id| &id[..])).collect();
        link.queue_text(batch, Script::condition(), &words);
    }
}

fn is_error(reply: &Value) -> bool {
    matches!(reply, Value::ServerError(_))
}
