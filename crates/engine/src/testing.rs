//! Helpers for tests of applications: a cue in memory and in virtual time, running jobs inline, and running
//! until nothing more can happen.
//!
//! ```
//! use runcue_engine::{NewJob, Task, testing};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> runcue_engine::Result<()> {
//! let cue = testing::cue()
//!     .task(Task::new("double")?.handler(|work| async move { Ok(work.params::<i64>()? * 2) }))
//!     .build()
//!     .await?;
//! let id = cue.submit(NewJob::of("double").params(&21)?).await?;
//!
//! cue.drain().await?; // retries and delays included: time is virtual
//!
//! assert_eq!(cue.result::<i64>(id).await?, 42);
//! # Ok(())
//! # }
//! ```
//!
//! Use `#[tokio::test(start_paused = true)]`, so that waiting takes no time.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use runcue_core::Timestamp;
use runcue_store::MemoryStore;

use crate::builder::CueBuilder;
use crate::clock::VirtualClock;
use crate::cue::Cue;
use crate::dispatch::{claim, earliest, run_one};
use crate::error::Result;
use crate::heartbeat;
use crate::ids::SeededIds;
use crate::reap;
use crate::running::Running;

/// Where callbacks have a say, nothing tells when to look again; after so many fruitless looks we stop.
const LOOKS: u32 = 100;

/// A cue in memory and in virtual time, with the same ids in every run.
pub fn cue() -> CueBuilder {
    Cue::builder(MemoryStore::new()).clock(VirtualClock::default()).ids(SeededIds::new(1))
}

impl Cue {
    /// Runs what can run now, one job after the other in the caller's task, until nothing is ready. Answers
    /// how many attempts that were. For tests; a started cue does this by itself.
    pub async fn run_inline(&self) -> Result<usize> {
        let shared = self.shared();
        shared.register().await?;
        let mut attempts = 0;
        loop {
            let claimed = claim(shared, shared.clock.now(), 1).await?;
            let Some(running) = claimed.into_iter().next() else { return Ok(attempts) };
            self.run_held(running).await?;
            attempts += 1;
        }
    }

    async fn run_held(&self, running: Arc<Running>) -> Result<()> {
        let shared = self.shared();
        tokio::select! {
            biased;
            () = run_one(Arc::clone(shared), running) => {}
            () = heartbeat::run(shared, &shared.over) => {}
        }
        while !shared.completer.is_idle() {
            if self.services.are_running() {
                shared.completer.idle().await;
            } else {
                shared.completer.run_once(shared, shared.clock.now()).await?;
            }
        }
        Ok(())
    }

    /// Runs, or if started lets run, until no job can make progress by itself: all have ended, or what is left
    /// waits for a person. With a virtual clock this includes every retry, delay, deadline and rate window.
    pub async fn drain(&self) -> Result<()> {
        if self.services.are_running() {
            self.drain_started().await
        } else {
            self.drain_inline().await
        }
    }

    async fn drain_inline(&self) -> Result<()> {
        let shared = self.shared();
        let mut fruitless = 0;
        loop {
            let attempts = self.run_inline().await?;
            let reaped = reap::run_once(shared, shared.clock.now()).await?;
            let idle = attempts == 0
                && reaped == runcue_store::Reaped { wake: reaped.wake, ..Default::default() };
            if !idle {
                fruitless = 0;
                continue;
            }
            if self.stats().await?.counts.live() == 0 {
                return Ok(());
            }
            fruitless += 1;
            let Some(wake) = self.next_wake(fruitless) else { return Ok(()) };
            shared.sleep_until(Some(wake)).await;
        }
    }

    async fn drain_started(&self) -> Result<()> {
        let shared = self.shared();
        let mut news = shared.news.subscribe();
        // The latest event and the claims made when nothing ran any more.
        let mut quiet: Option<(u64, u64)> = None;
        let mut fruitless = 0;
        loop {
            news.mark_unchanged();
            let claims = shared.wakes().claims;
            let last = shared.ask(shared.store.last_event()).await?;
            let counts = self.stats().await?.counts;
            let settled = shared.completer.is_idle();
            if counts.live() == 0 && settled {
                return Ok(());
            }
            quiet = match quiet {
                _ if counts.leased + counts.running > 0 || !settled => None,
                Some((event, since)) if event == last => Some((event, since)),
                _ => Some((last, shared.wakes().claims)),
            };
            // Counted before we saw that nothing has happened since. The first of the claims may have
            // begun before it was quiet; the second has looked at what we looked at.
            let looked = quiet.is_some_and(|(_, since)| claims >= since + 2);
            fruitless = if looked { fruitless + 1 } else { 0 };
            if looked || quiet.is_some() && shared.slots.load(Ordering::Relaxed) == 0 {
                reap::run_once(shared, shared.clock.now()).await?;
                if self.next_wake(fruitless).is_none() {
                    return Ok(());
                }
            }
            tokio::select! {
                biased;
                _ = news.changed() => {}
                () = tokio::time::sleep(shared.settings.poll) => {}
            }
        }
    }

    /// When something may happen by itself.
    fn next_wake(&self, fruitless: u32) -> Option<Timestamp> {
        let shared = self.shared();
        let wakes = shared.wakes();
        let known = earliest(wakes.claim, wakes.reap);
        let look = (shared.callbacks.are_set() && fruitless < LOOKS)
            .then(|| shared.clock.now().plus(shared.settings.poll));
        earliest(known, look)
    }
}
