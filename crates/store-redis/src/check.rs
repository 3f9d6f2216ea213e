//! Whether stored data agrees with itself: counts and indexes against the jobs they tell of.

use std::collections::{BTreeMap, BTreeSet};

use runcue_core::{GroupName, StateWord};
use runcue_store::{Counts, GroupInfo, Result};

use crate::connection::{Batch, Link};
use crate::find::{self, Lanes, Walk, rows_of};
use crate::keys::{self, place};
use crate::rows;
use crate::value::{items, number, text};

/// What does not agree, in words.
pub fn contradictions(link: &mut Link, lanes: &mut Lanes) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    let mut real: BTreeMap<Option<GroupName>, Counts> = BTreeMap::new();
    let mut total = Counts::default();
    let mut walk = Walk::forward(link, &Default::default(), None)?;
    while let Some(places) = walk.next(link)? {
        let seen = find::glances(link, &places)?;
        find::learn_lanes(link, lanes, seen.iter().map(|(_, glance)| glance.lane))?;
        let mut batch = Batch::default();
        let names: Vec<String> = seen.iter().map(|(seq, _)| place(*seq)).collect();
        for chunk in names.chunks(500) {
            let words: Vec<&[u8]> = chunk.iter().map(String::as_bytes).collect();
            link.queue(&mut batch, "HMGET", "spec", &words);
        }
        let specs = link.all(&batch)?;
        let without = specs.iter().flat_map(items).filter(|spec| text(spec).is_none()).count();
        if without > 0 {
            findings.push(format!("{without} jobs without a spec"));
        }
        for (seq, glance) in &seen {
            match lanes.get(&glance.lane) {
                Some(lane) => *real.entry(lane.group.clone()).or_default().of(glance.state) += 1,
                None => findings.push(format!(
                    "job {} is in lane {}, which is not there",
                    seq.0, glance.lane.0
                )),
            }
            *total.of(glance.state) += 1;
        }
    }
    for (_, row) in rows_of(link, "group")? {
        let group: GroupInfo = rows::parsed("group", &row).map_err(|why| link.unreadable(why))?;
        let counts = real.remove(&group.name).unwrap_or_default();
        if counts != group.counts {
            findings.push(format!(
                "group {:?} counts {:?}, its jobs are {counts:?}",
                group.name, group.counts
            ));
        }
    }
    findings.extend(real.keys().map(|name| format!("group {name:?} has jobs and is not there")));
    findings.extend(indexes(link, &total)?);
    Ok(findings)
}

fn indexes(link: &mut Link, total: &Counts) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    let mut batch = Batch::default();
    for key in ["spec", "life", "id"] {
        link.queue(&mut batch, "HLEN", key, &[]);
    }
    link.queue(&mut batch, "ZCARD", "lapsing", &[]);
    let ended =
        [StateWord::Completed, StateWord::Failed, StateWord::Cancelled, StateWord::Quarantined];
    for state in ended {
        link.queue(&mut batch, "ZCARD", &keys::ended(state), &[]);
    }
    let sizes: Vec<u64> = link.all(&batch)?.iter().map(number).collect();
    let names =
        ["spec", "life", "id", "lapsing", "completed", "failed", "cancelled", "quarantined"];
    let held = total.leased + total.running;
    let all = total.total();
    let expected = [all, all, all, held].into_iter().chain(ended.map(|state| total.get(state)));
    for ((name, size), expected) in names.iter().zip(sizes).zip(expected) {
        if size != expected {
            findings.push(format!("{name} has {size} entries for {expected} jobs"));
        }
    }
    let noted = rows_of(link, "waiting")?;
    let noted: BTreeSet<&[u8]> = noted.iter().map(|(lane, _)| &lane[..]).collect();
    let mut waiting = 0;
    for (lane, _) in rows_of(link, "lane")? {
        let key = format!("ready:{}", String::from_utf8_lossy(&lane));
        let size: u64 = number(&link.command("ZCARD", &key, &[])?);
        if size > 0 && !noted.contains(&lane[..]) {
            let lane = String::from_utf8_lossy(&lane);
            findings.push(format!("lane {lane} has {size} ready jobs and is not noted for it"));
        }
        waiting += size;
    }
    if waiting > total.queued {
        findings.push(format!("{waiting} jobs are ready of {} that wait", total.queued));
    }
    Ok(findings)
}
