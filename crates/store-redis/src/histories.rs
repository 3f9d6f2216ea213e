//! Streams of what has happened: uses of services and events. How far back they count, and what of them is pruned.

use redis::Value;
use runcue_core::Timestamp;
use runcue_store::Result;
use runcue_store::overlay::PrunedEvents;
use runcue_store::tables::UsageRow;

use crate::commit::EventsFrom;
use crate::connection::Link;
use crate::rows::{self, UsedAt};
use crate::value::{entry, items, number, parse, some};

/// Entries of a stream in one question.
const ENTRIES: &[u8] = b"500";

/// Uses of services after an instant, walking back from the latest.
pub fn usage_after(link: &mut Link, after: Timestamp) -> Result<Vec<UsageRow>> {
    let mut found = Vec::new();
    let mut end = b"+".to_vec();
    loop {
        let reply = link.command("XREVRANGE", "usage", &[&end, b"-", b"COUNT", ENTRIES])?;
        let mut any = false;
        for value in items(&reply) {
            let Some((_, id, values)) = entry(value) else { continue };
            end = [b"(", id].concat();
            let at = used_at(&values);
            if at > after {
                any = true;
                let run = run_of(link, &values)?;
                found.extend(rows::used(at, run));
            }
        }
        // Instants follow the order of the entries but for clocks that were set back a little.
        if !any {
            found.sort_by_key(|row: &UsageRow| row.at);
            return Ok(found);
        }
    }
}

fn used_at(values: &[&Value]) -> Timestamp {
    Timestamp::from_micros(values.first().and_then(|at| parse(at)).unwrap_or(0))
}

fn run_of(link: &Link, values: &[&Value]) -> Result<Vec<UsedAt>> {
    let body = values.get(1).copied().unwrap_or(&Value::Nil);
    let run = some("usage", body).and_then(|body| rows::parsed("usage", body));
    run.map_err(|why| link.unreadable(why))
}

/// Entries of the usage log from before an instant: their ids, and how many uses they tell of.
pub fn old_usage(link: &mut Link, before: Timestamp) -> Result<(Vec<Vec<u8>>, u64)> {
    let (mut ids, mut count) = (Vec::new(), 0);
    let mut begin = b"-".to_vec();
    loop {
        let reply = link.command("XRANGE", "usage", &[&begin, b"+", b"COUNT", ENTRIES])?;
        let mut any = false;
        for value in items(&reply) {
            let Some((_, id, values)) = entry(value) else { continue };
            begin = [b"(", id].concat();
            if used_at(&values) < before {
                any = true;
                count += run_of(link, &values)?.len() as u64;
                ids.push(id.to_vec());
            }
        }
        if !any {
            return Ok((ids, count));
        }
    }
}

/// Runs of events that are not kept any longer: where the others begin, and how many events go.
pub fn old_events(link: &mut Link, what: PrunedEvents) -> Result<(Option<EventsFrom>, u64)> {
    let mut count = 0;
    let mut begin = b"-".to_vec();
    loop {
        let reply = link.command("XRANGE", "event", &[&begin, b"+", b"COUNT", ENTRIES])?;
        if items(&reply).is_empty() {
            return Ok((Some(EventsFrom::Nowhere).filter(|_| count > 0), count));
        }
        for value in items(&reply) {
            let Some((last, id, values)) = entry(value) else { continue };
            let first: u64 = values.first().map_or(last, |first| number(first));
            let at = Timestamp::from_micros(values.get(1).and_then(|at| parse(at)).unwrap_or(0));
            if at >= what.before && last > what.through {
                let from = EventsFrom::Entry(id.to_vec());
                return Ok((Some(from).filter(|_| count > 0), count));
            }
            count += last + 1 - first;
            begin = [b"(", id].concat();
        }
    }
}
