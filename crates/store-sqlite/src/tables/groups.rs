//! Groups. A transaction adds those it changed to a log, in one row; a row for each would cost a claim over
//! many groups more than its jobs. When the log has grown long enough for that to be cheap, its latest entries
//! move into the table of groups. An entry of the log is always newer than the row of its group.

use std::borrow::Cow;

use super::*;
use crate::rows::parsed;
use crate::tables::scheduling::{group_name, read_counts};
use runcue_core::GroupName;
use runcue_store::Counts;

/// Entries of the log for each group in it before they move: what moving costs is shared by so many.
const SHARED_BY: usize = 16;
/// Entries that are never too many.
const FEW: usize = 512;
/// Entries that always are: whoever opens the file reads them.
const MANY: usize = 16 * 1024;

/// Name (empty for the jobs without a group), paused, turn, and the counts by state.
type Entry<'a> = (Cow<'a, str>, bool, u64, u64, u64, u64, u64, u64, u64, u64);

/// The log as far as it is known here: the latest entry of each group.
#[derive(Debug, Default)]
pub struct GroupLog {
    latest: Map<Option<GroupName>, (GroupInfo, i64)>,
    /// Entries in all, also those that are not the latest.
    entries: usize,
}

impl GroupLog {
    fn add(&mut self, group: GroupInfo, stamp: i64) {
        self.entries += 1;
        self.latest.insert(group.name.clone(), (group, stamp));
    }

    fn is_long(&self) -> bool {
        self.entries > MANY.min(FEW + SHARED_BY * self.latest.len())
    }
}

impl SqliteTables {
    pub(super) fn log_groups(&mut self, groups: &[&GroupInfo]) -> Result<()> {
        for group in groups {
            self.group_log.add((*group).clone(), self.stamp);
        }
        if self.group_log.is_long() {
            return self.move_groups();
        }
        let entries: Vec<Entry<'_>> = groups.iter().map(|group| entry(group)).collect();
        let body = self.text("groups", &entries)?;
        let sql = "INSERT INTO group_run (stamp, body) VALUES (?1, ?2)";
        self.run(sql, params![self.stamp, body]).map(drop)
    }

    /// The latest entries of the log become rows, each with the stamp of its change.
    pub(super) fn move_groups(&mut self) -> Result<()> {
        let mut groups: Vec<(GroupInfo, i64)> =
            std::mem::take(&mut self.group_log).latest.into_values().collect();
        // Rows that stand next to each other in the file are written one after the other.
        groups.sort_unstable_by(|(a, _), (b, _)| a.name.cmp(&b.name));
        for (group, stamp) in &groups {
            self.write_group(group, *stamp)?;
        }
        self.run("DELETE FROM group_run", []).map(drop)
    }

    fn write_group(&self, group: &GroupInfo, stamp: i64) -> Result<()> {
        let (
            name,
            paused,
            turn,
            queued,
            leased,
            running,
            completed,
            failed,
            cancelled,
            quarantined,
        ) = entry(group);
        let values = params![
            name,
            paused,
            signed(turn),
            signed(queued),
            signed(leased),
            signed(running),
            signed(completed),
            signed(failed),
            signed(cancelled),
            signed(quarantined),
            stamp,
        ];
        let sql = "UPDATE grp SET paused = ?2, turn = ?3, queued = ?4, leased = ?5, running = ?6, completed = ?7, \
                   failed = ?8, cancelled = ?9, quarantined = ?10, stamp = ?11 WHERE name = ?1";
        if self.run(sql, values)? == 0 {
            let sql = "INSERT INTO grp (name, paused, turn, queued, leased, running, completed, failed, cancelled, \
                       quarantined, stamp) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";
            self.run(sql, values)?;
        }
        Ok(())
    }

    /// The groups that changed after a revision, and with that what is known of the log.
    pub(super) fn groups_after(&mut self, since: i64) -> Result<Vec<GroupInfo>> {
        let (rows, log) = (self.group_rows(since)?, self.logged_groups(since)?);
        if since == 0 {
            self.group_log = GroupLog::default();
        }
        let mut changed: Map<Option<GroupName>, GroupInfo> = Map::default();
        for group in rows {
            // Another process has moved it.
            self.group_log.latest.remove(&group.name);
            changed.insert(group.name.clone(), group);
        }
        for (group, stamp) in log {
            self.group_log.add(group.clone(), stamp);
            changed.insert(group.name.clone(), group);
        }
        Ok(changed.into_values().collect())
    }

    /// Every group as it is now.
    pub(super) fn all_groups(&self) -> Result<Map<Option<GroupName>, GroupInfo>> {
        let log = self.logged_groups(0)?.into_iter().map(|(group, _)| group);
        let all = self.group_rows(0)?.into_iter().chain(log);
        Ok(all.map(|group| (group.name.clone(), group)).collect())
    }

    fn group_rows(&self, since: i64) -> Result<Vec<GroupInfo>> {
        let sql = "SELECT name, paused, turn, queued, leased, running, completed, failed, cancelled, quarantined \
                   FROM grp WHERE stamp > ?1";
        self.rows(sql, [since], |row| {
            Ok(GroupInfo {
                name: group_name(Some(row.get_ref(0)?.as_str()?))?,
                paused: row.get(1)?,
                turn: unsigned(row.get(2)?),
                counts: read_counts(row, 3)?,
            })
        })
    }

    /// The entries of the log with their stamps, oldest first.
    fn logged_groups(&self, since: i64) -> Result<Vec<(GroupInfo, i64)>> {
        let sql = "SELECT stamp, body FROM group_run WHERE stamp > ?1 ORDER BY n";
        let runs = self.rows(sql, [since], |row| {
            let stamp: i64 = row.get(0)?;
            let entries: Vec<Entry<'_>> = parsed("groups", row.get_ref(1)?.as_str()?)?;
            let one = |entry| Ok((group(entry)?, stamp));
            entries.into_iter().map(one).collect::<rusqlite::Result<Vec<_>>>()
        })?;
        Ok(runs.into_iter().flatten().collect())
    }
}

fn entry(group: &GroupInfo) -> Entry<'_> {
    let name = Cow::Borrowed(group.name.as_ref().map_or("", GroupName::as_str));
    let Counts { queued, leased, running, completed, failed, cancelled, quarantined } =
        group.counts;
    let (paused, turn) = (group.paused, group.turn);
    (name, paused, turn, queued, leased, running, completed, failed, cancelled, quarantined)
}

fn group(entry: Entry<'_>) -> rusqlite::Result<GroupInfo> {
    let (name, paused, turn, queued, leased, running, completed, failed, cancelled, quarantined) =
        entry;
    let counts = Counts { queued, leased, running, completed, failed, cancelled, quarantined };
    Ok(GroupInfo { name: group_name(Some(&name))?, paused, turn, counts })
}
