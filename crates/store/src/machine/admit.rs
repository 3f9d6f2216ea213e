//! admit: takes in the jobs that applications have put down beside the queue in their own transactions. Each
//! is a submission of its own; one that is refused is kept apart with the reason and holds up no other. One whose
//! queue is full waits where it is, and holds up no other either: the next look begins behind it.

use super::*;
use crate::request::SubmitBatch;

impl<T: Tables> Machine<T> {
    /// Takes in up to a chunk of them and answers how many rows it dealt with.
    pub fn admit(&mut self, now: Timestamp) -> Result<u64> {
        let mut rows = self.tables.inbox(self.passed, CHUNK)?;
        if rows.is_empty() && self.passed > 0 {
            self.passed = 0;
            rows = self.tables.inbox(0, CHUNK)?;
        }
        // A chunk that was looked at whole is not looked at again before those behind it.
        let last = rows.last().filter(|_| rows.len() == CHUNK).map_or(0, |row| row.n);
        let (mut count, mut waiting) = (0, 0);
        for row in rows {
            let refused = match runcue_core::strict::job(&row.body) {
                Ok(spec) => match self.submit(now, SubmitBatch::of(vec![spec])) {
                    Ok(_) => None,
                    // It waits for room where it is.
                    Err(StoreError::Full { block: true, .. }) => {
                        waiting += 1;
                        continue;
                    }
                    Err(error) if error.is_refusal() => Some(error.to_string()),
                    Err(error) => return Err(error),
                },
                Err(error) => Some(format!("it is not a job: {error}")),
            };
            self.tables.clear_inbox(row.n, refused.as_deref())?;
            self.news.any = true;
            count += 1;
        }
        self.passed = if waiting > 0 { last } else { 0 };
        Ok(count)
    }
}
