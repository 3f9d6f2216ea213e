//! Reading the next ready jobs of a lane over the connection of the commits, without anybody waiting for it: their places
//! with a commit, or when a turn is taken, and their rows right behind it. The server looks them up while the answer is made use
//! of, and they are decoded while it is busy with the next commit.
//!
//! What is read counts only if the revision is still the same when all of it has been read.

use redis::Value;
use runcue_core::Job;
use runcue_store::Result;
use runcue_store::overlay::ReadyQuestion;

use crate::connection::{Batch, Link};
use crate::keys;
use crate::questions::{is_ready, queue_rows, read_rows};
use crate::value::{items, parse, text};

/// The next ready jobs of a lane, which are to be read after a commit, or when a turn is taken.
#[derive(Debug)]
pub struct Reading {
    key: String,
    /// Between these places of the list, both included.
    from: usize,
    to: usize,
    /// The revision of the commit, or of the turn.
    revision: u64,
}

/// Jobs whose rows are on their way.
#[derive(Debug)]
pub struct Coming {
    places: Vec<Vec<u8>>,
    any_tied: bool,
    revision: u64,
}

impl Reading {
    /// What was asked for: everything up to what is known of the list is at its beginning when the commit that follows a
    /// revision is carried out.
    pub fn of(question: &ReadyQuestion, follows: u64) -> Option<Self> {
        let (from, limit) = (question.known, question.limit);
        (limit > 0 && question.max_priority.is_none()).then(|| Self {
            key: keys::ready(question.lane),
            from,
            to: from + limit - 1,
            revision: follows + 1,
        })
    }

    /// The first of the lane, to be read as soon as a turn is taken.
    pub fn first(question: &ReadyQuestion) -> Option<Self> {
        Self::of(&ReadyQuestion { known: 0, ..question.clone() }, 0)
    }

    /// The same as of the revision that the turn begins with.
    pub fn at(self, revision: u64) -> Self {
        Self { revision, ..self }
    }

    /// Adds what asks for the places to a batch.
    pub fn queue(&self, link: &Link, batch: &mut Batch) {
        link.queue(batch, "EXISTS", "tied", &[]);
        let (from, to) = (self.from.to_string(), self.to.to_string());
        link.queue(batch, "ZRANGE", &self.key, &[from.as_bytes(), to.as_bytes()]);
    }

    /// Asks for the rows of the places that came.
    ///
    /// # Errors
    /// As every call.
    pub fn go_on(&self, link: &mut Link, replies: &[Value]) -> Result<Option<Coming>> {
        let [tied, list] = replies else { return Ok(None) };
        if !matches!(list, Value::Array(_)) {
            return Ok(None);
        }
        let places: Vec<Vec<u8>> =
            items(list).iter().filter_map(text).map(<[u8]>::to_vec).collect();
        let any_tied = *tied == Value::Int(1);
        let mut batch = Batch::default();
        let all: Vec<&[u8]> = places.iter().map(Vec::as_slice).collect();
        queue_rows(link, &mut batch, &all, any_tied);
        link.queue(&mut batch, "HGET", "meta", &[b"revision"]);
        link.write_ahead(&batch)?;
        Ok(Some(Coming { places, any_tied, revision: self.revision }))
    }
}

impl Coming {
    /// The jobs, if they can be relied on.
    ///
    /// # Errors
    /// As every call.
    pub fn read(&self, link: &mut Link) -> Result<Option<Vec<Job>>> {
        let Some(replies) = link.take_early()? else { return Ok(None) };
        let Some((revision, rows)) = replies.split_last() else { return Ok(None) };
        if parse(revision) != Some(self.revision) {
            return Ok(None);
        }
        let places = self.places.iter().map(Vec::as_slice);
        let jobs = read_rows(places, rows, self.any_tied).map(|job| job.ok().flatten());
        // If one of them is not as it should be, whoever needs it asks for it, and is told why.
        let jobs: Option<Vec<Job>> = jobs.map(|job| job.filter(is_ready)).collect();
        Ok(jobs.filter(|jobs| jobs.len() == self.places.len()))
    }
}
