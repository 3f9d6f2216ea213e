//! Jobs from an application's own transaction on the same file: they are put down in a table beside the queue
//! and take part in it once the transaction has committed. The same from SQL is
//! `INSERT INTO inbox (body) VALUES ('{"task": "mail"}') RETURNING id`.

use runcue_core::JobSpec;
use runcue_store::{Result, StoreError};
use rusqlite::Transaction;

use crate::failure::explain;
use crate::rows::text;

/// Puts a job down in a transaction. Whether a worker will accept it is seen later: a refused one is kept with
/// the reason, in the table `refused`.
///
/// # Errors
/// If the job's own fields are wrong, or the file is no queue or has not been opened by this version of the store
/// before.
pub fn enqueue_in(transaction: &Transaction<'_>, job: &JobSpec) -> Result<()> {
    runcue_core::submission::check(job).map_err(|why| StoreError::Invalid { index: 0, why })?;
    let place = transaction.path().unwrap_or("a database in memory");
    let put = || -> rusqlite::Result<()> {
        let (id, body) = (job.id.to_string(), text("job", job)?);
        let sql = "INSERT INTO inbox (id, body) VALUES (?1, ?2)";
        transaction.prepare_cached(sql)?.execute([id, body]).map(drop)
    };
    put().map_err(|error| explain(place, &error))
}
