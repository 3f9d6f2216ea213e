//! The model test: random histories on a store, compared after every step with a naive reference that
//! looks at every job and recounts every window, and with the memory store.
//!
//! `RUNCUE_MODEL_CASES` asks for so many new histories instead of the usual ones. The seed of one that disagrees is written to
//! `tests/all/model-seeds.txt` of the crate under test, to be committed with the fix.

mod compare;
mod history;
mod play;
mod reference;
mod schedules;
mod turns;

use proptest::test_runner::{
    Config, FileFailurePersistence, RngSeed, TestCaseError, TestError, TestRunner,
};

use history::{History, Step};
use play::Play;

use crate::Maker;

/// Where a store crate keeps the seeds of histories that once disagreed; they are played first.
const SEEDS: &str = "tests/all/model-seeds.txt";

/// Plays so many random histories on stores of a maker; panics with the shortest that disagrees.
pub fn random_histories_agree(maker: &impl Maker, cases: u32) {
    let asked = std::env::var("RUNCUE_MODEL_CASES").ok();
    // The usual number is always the same histories, so that a run can be trusted; more are new ones.
    let rng_seed = if asked.is_some() { RngSeed::Random } else { RngSeed::Fixed(1) };
    let cases = asked.map_or(cases, |text| text.parse().unwrap());
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let config = Config {
        cases,
        rng_seed,
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct(SEEDS))),
        max_shrink_iters: 4_000,
        ..Config::default()
    };
    let mut runner = TestRunner::new(config);
    let outcome = runner.run(&history::any_history(), |history| {
        let played = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            runtime.block_on(play(maker, &history))
        }));
        match played {
            Ok(answer) => answer.map_err(TestCaseError::fail),
            Err(panic) => Err(TestCaseError::fail(words_of(&*panic))),
        }
    });
    match outcome {
        Ok(()) => {}
        Err(TestError::Fail(why, history)) => panic!("{why}\n\nthe shortest history:\n{history:?}"),
        Err(abort) => panic!("{abort}"),
    }
}

fn words_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
        .unwrap_or_else(|| "it panicked".to_owned())
}

/// One history on the store and on memory, each beside a reference of its own.
async fn play(maker: &impl Maker, history: &History) -> Result<(), String> {
    let mut under_test = Play::new(maker.open().await).await;
    let mut memory = Some(Play::new(std::sync::Arc::new(runcue_store::MemoryStore::new())).await);
    for (n, step) in history.steps.iter().enumerate() {
        if matches!(step, Step::Crash) && under_test.crash(maker).await {
            // What is kept of a rate is forgotten with the process: from here on the two may differ.
            memory = None;
        }
        if matches!(step, Step::SubmitAgain(_)) && under_test.keeps() {
            // And with a turn that took known jobs for new ones, as a server's may.
            memory = None;
        }
        let place = |why: String| format!("step {n}, {step:?}: {why}");
        let answer = under_test.step(step).await.map_err(place)?;
        let Some(memory) = &mut memory else { continue };
        let expected = memory.step(step).await.map_err(|why| place(format!("memory: {why}")))?;
        if answer != expected {
            return Err(place(format!("the store answers {answer}, memory {expected}")));
        }
    }
    Ok(())
}
