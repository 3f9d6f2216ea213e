//! What the board is built from besides groups: queues, services, lanes, uses and held jobs.

use super::*;
use crate::rows::parsed;
use runcue_core::{GroupName, Key, Token};
use runcue_store::Counts;

impl SqliteTables {
    pub(super) fn read_changes(&mut self, since: i64, now: Timestamp) -> Result<Changes> {
        // Another process has deleted lanes: what was known of any of them is not to be trusted.
        let pruned = self.row("SELECT lanes_pruned FROM meta", [], |row| row.get::<_, i64>(0))?;
        let since = if pruned.unwrap_or(0) > since { 0 } else { since };
        let services = self.services_after(since)?;
        let usage = self.usage_after(since, now)?;
        Ok(Changes {
            groups: self.groups_after(since)?,
            queues: self.queues_after(since)?,
            services,
            lanes: self.lanes_after(since)?,
            usage,
            held: self.held_by_lane()?,
            counters: self.counters()?,
            afresh: since == 0,
        })
    }

    fn counters(&self) -> Result<Counters> {
        let sql = "SELECT seq, served, event, delayed, blocked, last_served_group FROM meta";
        let found = self.row(sql, [], |row| {
            Ok(Counters {
                seq: Seq(unsigned(row.get(0)?)),
                served: Token(unsigned(row.get(1)?)),
                event: unsigned(row.get(2)?),
                delayed: unsigned(row.get(3)?),
                blocked: unsigned(row.get(4)?),
                last_served_group: group_name(row.get::<_, Option<String>>(5)?.as_deref())?,
            })
        })?;
        Ok(found.unwrap_or_default())
    }

    fn queues_after(&self, since: i64) -> Result<Vec<QueueInfo>> {
        let sql = "SELECT name, max_queued, on_full, paused, queued FROM queue WHERE stamp > ?1";
        self.rows(sql, [since], |row| {
            Ok(QueueInfo {
                name: parsed_name(row.get_ref(0)?.as_str()?)?,
                max_queued: row.get::<_, Option<i64>>(1)?.map(unsigned),
                on_full: parsed("on_full", row.get_ref(2)?.as_str()?)?,
                paused: row.get(3)?,
                queued: unsigned(row.get(4)?),
            })
        })
    }

    fn services_after(&self, since: i64) -> Result<Vec<ServiceRow>> {
        let sql = "SELECT spec, breaker, held_until FROM service WHERE stamp > ?1 ORDER BY rowid";
        self.rows(sql, [since], |row| {
            Ok(ServiceRow {
                spec: parsed("service", row.get_ref(0)?.as_str()?)?,
                breaker: parsed("breaker", row.get_ref(1)?.as_str()?)?,
                held_until: Timestamp::from_micros(row.get(2)?),
            })
        })
    }

    /// A first look needs only lanes with something ready; a later one, those that gained something.
    fn lanes_after(&self, since: i64) -> Result<Vec<(LaneId, LaneKey)>> {
        let read = |row: &Row<'_>| {
            Ok((LaneId(unsigned(row.get(0)?)), parsed("lane", row.get_ref(1)?.as_str()?)?))
        };
        if since > 0 {
            return self.rows("SELECT lane, key FROM lane WHERE stamp > ?1", [since], read);
        }
        let sql = "SELECT lane, key FROM lane WHERE EXISTS \
                   (SELECT 1 FROM ready JOIN job USING (seq) WHERE ready.lane = lane.lane AND job.stage = 0)";
        self.rows(sql, [], read)
    }

    /// A first look needs what the longest window still counts; a later one, what others added since.
    fn usage_after(&mut self, since: i64, now: Timestamp) -> Result<Vec<UsageRow>> {
        let read = |row: &Row<'_>| {
            let at = Timestamp::from_micros(row.get(0)?);
            let run: Vec<(String, Option<String>, i64)> =
                parsed("usage", row.get_ref(1)?.as_str()?)?;
            run.into_iter()
                .map(|(service, key, units)| {
                    let key = key.as_deref().map(parsed_name::<Key>).transpose()?;
                    Ok(UsageRow { service: parsed_name(&service)?, key, at, units })
                })
                .collect::<rusqlite::Result<Vec<UsageRow>>>()
        };
        let runs = if since > 0 {
            let sql = "SELECT at, body FROM usage_run WHERE id > ?1 ORDER BY at";
            self.rows(sql, [self.usage_seen], read)?
        } else {
            let services = self.services_after(0)?;
            let memory = services.iter().map(|row| row.spec.memory()).max().unwrap_or_default();
            let sql = "SELECT at, body FROM usage_run WHERE at > ?1 ORDER BY at";
            self.rows(sql, [now.minus(memory).as_micros()], read)?
        };
        let newest =
            self.row("SELECT max(id) FROM usage_run", [], |row| row.get::<_, Option<i64>>(0))?;
        self.usage_seen = newest.flatten().unwrap_or(0);
        Ok(runs.into_iter().flatten().collect())
    }

    fn held_by_lane(&self) -> Result<Vec<(LaneId, u32)>> {
        let sql = "SELECT lane, count(*) FROM job WHERE stage IN (3, 4) AND due IS NOT NULL GROUP BY lane";
        self.rows(sql, [], |row| Ok((LaneId(unsigned(row.get(0)?)), row.get(1)?)))
    }

    pub(super) fn delete_lanes(&mut self, limit: usize) -> Result<bool> {
        let sql = "DELETE FROM lane WHERE lane IN \
                   (SELECT lane FROM lane WHERE lane NOT IN (SELECT lane FROM job) LIMIT ?1)";
        let lanes = self.run(sql, [limit_of(limit)])?;
        self.move_groups()?;
        let sql = "DELETE FROM grp WHERE NOT paused \
                   AND queued + leased + running + completed + failed + cancelled + quarantined = 0";
        let groups = self.run(sql, [])?;
        if lanes + groups > 0 {
            self.run("UPDATE meta SET lanes_pruned = ?1", [self.stamp])?;
        }
        Ok(lanes + groups > 0)
    }

    pub(super) fn write_queue(&self, queue: &QueueInfo) -> Result<()> {
        let on_full = self.text("on_full", &queue.on_full)?;
        let max = queue.max_queued.map(signed);
        let values = params![
            queue.name.as_str(),
            max,
            on_full,
            queue.paused,
            signed(queue.queued),
            self.stamp
        ];
        let sql = "INSERT INTO queue (name, max_queued, on_full, paused, queued, stamp) VALUES (?1, ?2, ?3, ?4, ?5, ?6) \
                   ON CONFLICT (name) DO UPDATE SET max_queued = ?2, on_full = ?3, paused = ?4, queued = ?5, stamp = ?6";
        self.run(sql, values).map(drop)
    }

    pub(super) fn write_service(&self, service: &ServiceRow) -> Result<()> {
        let (spec, breaker) =
            (self.text("service", &service.spec)?, self.text("breaker", &service.breaker)?);
        let values = params![
            service.spec.name.as_str(),
            spec,
            breaker,
            service.held_until.as_micros(),
            self.stamp
        ];
        let sql = "INSERT INTO service (name, spec, breaker, held_until, stamp) VALUES (?1, ?2, ?3, ?4, ?5) \
                   ON CONFLICT (name) DO UPDATE SET spec = ?2, breaker = ?3, held_until = ?4, stamp = ?5";
        self.run(sql, values).map(drop)
    }

    pub(super) fn find_contradictions(&self) -> Result<Vec<String>> {
        let mut findings =
            self.rows("PRAGMA quick_check(20)", [], |row| row.get::<_, String>(0))?;
        findings.retain(|finding| finding != "ok");
        let sql = "SELECT lane.grp, sum(stage <= 2), sum(stage = 3), sum(stage = 4), sum(stage = 5), sum(stage = 6), \
                   sum(stage = 7), sum(stage = 8) FROM job JOIN lane USING (lane) GROUP BY lane.grp";
        let real = self.rows(sql, [], |row| {
            let counts = read_counts(row, 1)?;
            Ok((row.get::<_, String>(0)?, counts))
        })?;
        let mut kept = self.all_groups()?;
        for (name, counts) in real {
            let group = group_name(Some(&name)).map_err(|e| self.explain(&e))?;
            let noted = kept.remove(&group).map(|info| info.counts).unwrap_or_default();
            if noted != counts {
                findings.push(format!("group {name:?} counts {noted:?}, its jobs are {counts:?}"));
            }
        }
        for (group, info) in kept.into_iter().filter(|(_, info)| info.counts.total() > 0) {
            let (name, noted) = (group.as_ref().map_or("", GroupName::as_str), info.counts);
            findings.push(format!("group {name:?} counts {noted:?}, and has no jobs"));
        }
        let orphans = [
            (
                "jobs without a body",
                "SELECT count(*) FROM job WHERE seq NOT IN (SELECT seq FROM body)",
            ),
            (
                "jobs without a lane",
                "SELECT count(*) FROM job WHERE lane NOT IN (SELECT lane FROM lane)",
            ),
            (
                "ready jobs without a place",
                "SELECT count(*) FROM job WHERE stage = 0 AND NOT EXISTS (SELECT 1 FROM ready \
                 WHERE ready.lane = job.lane AND ready.priority = job.priority AND ready.seq = job.seq)",
            ),
        ];
        for (what, sql) in orphans {
            let count = self.row(sql, [], |row| row.get::<_, i64>(0))?.unwrap_or(0);
            if count > 0 {
                findings.push(format!("{count} {what}"));
            }
        }
        Ok(findings)
    }
}

pub(super) fn read_counts(row: &Row<'_>, from: usize) -> rusqlite::Result<Counts> {
    let at = |n: usize| row.get::<_, i64>(from + n).map(unsigned);
    Ok(Counts {
        queued: at(0)?,
        leased: at(1)?,
        running: at(2)?,
        completed: at(3)?,
        failed: at(4)?,
        cancelled: at(5)?,
        quarantined: at(6)?,
    })
}

pub(super) fn group_name(name: Option<&str>) -> rusqlite::Result<Option<GroupName>> {
    name.filter(|name| !name.is_empty()).map(parsed_name).transpose()
}

fn parsed_name<N: for<'a> TryFrom<&'a str, Error = runcue_core::NameError>>(
    name: &str,
) -> rusqlite::Result<N> {
    N::try_from(name).map_err(|error| crate::failure::unreadable("name", error))
}
