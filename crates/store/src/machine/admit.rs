//! admit: takes in the jobs that applications have put down beside the queue in their own transactions. Each
//! is a submission of its own; one that is refused is kept apart with the reason and holds up no other.

use super::*;
use crate::request::SubmitBatch;

impl<T: Tables> Machine<T> {
    /// Takes in up to a chunk of them and answers how many rows it dealt with.
    pub fn admit(&mut self, now: Timestamp) -> Result<u64> {
        let mut count = 0;
        for row in self.tables.inbox(CHUNK)? {
            let refused = match serde_json::from_str::<JobSpec>(&row.body) {
                Ok(spec) => match self.submit(now, SubmitBatch::of(vec![spec])) {
                    Ok(_) => None,
                    // It waits for room where it is.
                    Err(StoreError::Full { block: true, .. }) => continue,
                    Err(error) if error.is_refusal() => Some(error.to_string()),
                    Err(error) => return Err(error),
                },
                Err(error) => Some(format!("it is not a job: {error}")),
            };
            self.tables.clear_inbox(row.n, refused.as_deref())?;
            self.news.any = true;
            count += 1;
        }
        Ok(count)
    }
}
