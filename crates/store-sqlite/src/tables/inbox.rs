//! Jobs that applications have put down beside the queue, and those of them that were refused.

use runcue_store::Result;
use runcue_store::tables::InboxRow;
use rusqlite::params;

use super::{SqliteTables, limit_of};
use crate::rows::{signed, unsigned};

impl SqliteTables {
    /// Nobody else writes during a transaction: what is not there at its beginning, or was taken in whole, need
    /// not be looked for again.
    pub(super) fn read_inbox(&mut self, after: u64, limit: usize) -> Result<Vec<InboxRow>> {
        if !self.inbox_waits {
            return Ok(Vec::new());
        }
        let sql = "SELECT n, CASE WHEN body ->> '$.id' IS NULL THEN json_set(body, '$.id', id) ELSE body END \
                   FROM inbox WHERE n > ?2 ORDER BY n LIMIT ?1";
        let rows = self.rows(sql, [limit_of(limit), signed(after)], |row| {
            Ok(InboxRow { n: unsigned(row.get(0)?), body: row.get(1)? })
        })?;
        // From the middle on nothing is known of what stands before it.
        self.inbox_waits = rows.len() == limit || after > 0;
        Ok(rows)
    }

    pub(super) fn take_from_inbox(&self, n: u64, refused: Option<&str>) -> Result<()> {
        if let Some(why) = refused {
            let sql = "INSERT INTO refused (n, at, id, body, why) \
                       SELECT n, at, id, body, ?2 FROM inbox WHERE n = ?1";
            self.run(sql, params![signed(n), why])?;
        }
        self.run("DELETE FROM inbox WHERE n = ?1", [signed(n)]).map(drop)
    }
}
