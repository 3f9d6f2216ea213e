//! LMDB: bulk submit and drain, beside the raw floor of SQLite in the mode that waits for the disk as often.

use anyhow::{Result, ensure};
use runcue_store::Store;
use runcue_store_lmdb::{Durability, LmdbStore, Options};

use crate::floor::Floor;
use crate::servers::ROUNDS;
use crate::stores::{CLAIM, Jobs, PARAMS, SUBMIT, drain, per_second, submit};
use crate::table::Line;

/// Both modes. LMDB syncs every commit in either, as SQLite does in `full`.
pub async fn measure(count: usize, lines: &mut Vec<Line>) -> Result<()> {
    for durability in [Durability::Normal, Durability::Full] {
        let (mut best, mut floor_best) = ([0.0_f64; 2], [0.0_f64; 2]);
        for _ in 0..ROUNDS {
            let directory = tempfile::tempdir()?;
            let mut floor = Floor::open(&directory.path().join("floor.db"), "full")?;
            let time = floor.submit(count, SUBMIT, PARAMS)?;
            floor_best[0] = floor_best[0].max(per_second(count, time));
            let (done, time) = floor.drain(CLAIM)?;
            floor_best[1] = floor_best[1].max(per_second(done, time));
            drop(floor);
            let options = Options { durability, ..Options::new(directory.path().join("lmdb")) };
            let store = LmdbStore::open(&options)?;
            let time = submit(&store, &mut Jobs::new(0, 0)?, count).await?;
            best[0] = best[0].max(per_second(count, time));
            let (done, time, _) = drain(&store, count).await?;
            ensure!(done == count, "{done} of {count} jobs were handed out");
            best[1] = best[1].max(per_second(done, time));
            store.close().await?;
        }
        let mode = format!("LMDB, {}", durability.as_str());
        let what = ["bulk submit, 1 000 a call", "drain, 100 a claim"];
        for (place, what) in what.into_iter().enumerate() {
            let what = format!("{what}, beside SQLite's floor in `full`");
            let line = Line::rate(&what, &mode, best[place], floor_best[place], 0.5);
            lines.push(Line { goal: "–".to_owned(), met: None, ..line });
        }
    }
    Ok(())
}
