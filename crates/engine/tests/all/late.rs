//! Claims that are answered late: what cannot start in time is handed back, its places in the windows with it, and
//! the span in which a start may come follows what claims take. In virtual time that goes on while the store is asked.

use std::sync::Arc;
use std::time::Duration;

use runcue_core::{StateWord, Timestamp};
use runcue_engine::{Clock, Cue, NewJob, SeededIds, Task, VirtualClock};
use runcue_store::Store;
use tokio::time::Instant;

use crate::faulty::{Fault, Faulty};
use crate::support::{Record, millis, rated, secs, word};

const LIMIT: usize = 10;
const WINDOW: Duration = Duration::from_secs(60);

/// Goes with Tokio's clock, also while the store is asked.
struct Passing(VirtualClock);

impl Clock for Passing {
    fn now(&self) -> Timestamp {
        self.0.now()
    }
}

/// A cue whose jobs use a rate of ten in a minute and note when they start.
async fn cue(store: &Arc<Faulty>, starts: &Record<Instant>) -> Cue {
    let starts = starts.clone();
    let task = Task::new("t").unwrap().service("api").unwrap().handler(move |_| {
        starts.add(Instant::now());
        async { Ok(()) }
    });
    let store: Arc<dyn Store> = Arc::clone(store) as Arc<dyn Store>;
    let builder = Cue::builder_on(store).clock(Passing(VirtualClock::default()));
    let builder = builder.ids(SeededIds::new(7)).slots(4).lease(secs(30));
    builder.service(rated("api", LIMIT as u64, WINDOW)).task(task).build().await.unwrap()
}

fn crowded(starts: &[Instant]) -> Option<Duration> {
    starts.windows(LIMIT + 1).map(|some| some[LIMIT] - some[0]).find(|span| *span < WINDOW)
}

#[tokio::test(start_paused = true)]
async fn a_rate_is_used_to_the_full_although_claims_are_answered_late() {
    let (store, record) = (Faulty::new(), Record::default());
    let cue = cue(&store, &record).await;
    store.always(&["claim"], Fault::Late(millis(400)));
    cue.start();
    let ids = cue.submit_all((0..5 * LIMIT).map(|_| NewJob::of("t")).collect()).await.unwrap();
    cue.wait_all(ids).await.unwrap();
    cue.stop().await.unwrap();
    let mut starts = record.all();
    starts.sort();
    assert_eq!(starts.len(), 5 * LIMIT);
    assert_eq!(crowded(&starts), None);
    // Each window is longer by what a start may be late, which is no more than twice what a claim takes, and by the
    // claim itself.
    let took = starts[4 * LIMIT] - starts[0];
    assert!(took <= 4 * (WINDOW + millis(1_300)), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn one_late_answer_costs_no_place_in_the_window() {
    let (store, record) = (Faulty::new(), Record::default());
    let cue = cue(&store, &record).await;
    let ids = cue.submit_all((0..LIMIT).map(|_| NewJob::of("t")).collect()).await.unwrap();
    store.next("claim", [Some(Fault::Late(secs(5)))]);
    let begin = Instant::now();
    cue.start();
    cue.wait_all(ids.clone()).await.unwrap();
    assert!(begin.elapsed() < secs(10), "{:?}", begin.elapsed());
    assert_eq!(
        record.all().len(),
        LIMIT,
        "each ran once, in the window that the late claim had taken"
    );
    for id in ids {
        let job = cue.get(id).await.unwrap();
        assert_eq!((word(&job), job.life.attempt), (StateWord::Completed, 1));
    }
    cue.stop().await.unwrap();
}
