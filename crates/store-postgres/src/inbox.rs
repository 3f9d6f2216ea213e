//! Jobs from an application's own transaction: they are put down in a table beside the queue and take part in
//! it once the transaction has committed. The same from SQL is the function `enqueue` of the schema.

use runcue_core::JobSpec;
use runcue_store::{Result, StoreError};
use tokio_postgres::Transaction;
use tokio_postgres::types::{ToSql, Type};

use crate::connection::Options;
use crate::failure::explain;
use crate::rows::text;

/// Puts jobs down in a transaction. Nobody waits for it, and it waits for nobody. Whether a daemon will accept
/// them is seen later: refused ones are kept with the reason.
///
/// # Errors
/// If the schema of the options is not there or may not be written.
pub async fn enqueue_in(
    options: &Options,
    transaction: &Transaction<'_>,
    jobs: &[JobSpec],
) -> Result<()> {
    for (index, spec) in jobs.iter().enumerate() {
        runcue_core::submission::check(spec).map_err(|why| StoreError::Invalid { index, why })?;
    }
    let bodies: Vec<String> = jobs.iter().map(text).collect();
    let sql = options.sql("INSERT INTO runcue.inbox (body) SELECT * FROM unnest($1::text[])");
    let fail = |error: tokio_postgres::Error| explain(options, &error);
    transaction.query_typed(&sql, &[(&bodies, Type::TEXT_ARRAY)]).await.map_err(fail)?;
    let channel = options.channel();
    let values: &[(&(dyn ToSql + Sync), Type)] = &[(&channel, Type::TEXT)];
    let told = transaction.query_typed("SELECT pg_notify($1, 'inbox')", values).await;
    told.map_err(fail).map(drop)
}
