//! Several processes that open one file at once, when it is new and while it is being made.

use std::time::Duration;

use super::arena::{Arena, Victim};
use super::dice::Dice;
use super::{patience, scaled};

#[test]
fn processes_that_open_a_new_file_at_the_same_moment_all_find_their_place() {
    let arena = Arena::new();
    let lines = "{\"run\": [\"true\"]}\n".repeat(5);
    let names: Vec<String> = (0..8).map(|n| format!("ids-{n}")).collect();
    let mut all: Vec<Victim> = Vec::new();
    for name in &names {
        all.push(arena.spawn_with(&["add", "--from", "-"], &lines, name));
        all.push(arena.spawn(&["work", "--drain", "--quiet"]));
    }
    for process in &mut all {
        let status = patience::until("it ends", || process.left());
        assert!(status.success(), "{status}: {}", arena.read("stderr"));
    }
    arena.is_untroubled();
    arena.run(&["work", "--drain", "--quiet"]).ok();
    for id in names
        .iter()
        .flat_map(|name| arena.read(name).lines().map(str::to_owned).collect::<Vec<_>>())
    {
        assert_eq!(arena.history().completed().get(&id), Some(&1));
    }
    assert_eq!(arena.count("completed"), 40);
}

#[test]
fn a_process_killed_while_it_makes_the_file_leaves_one_that_opens() {
    let mut dice = Dice::new();
    let mut killed = 0;
    for _ in 0..scaled(12) {
        let arena = Arena::new();
        let mut maker = arena.spawn(&["add", "--", "true"]);
        std::thread::sleep(Duration::from_micros(dice.below(40_000)));
        killed += usize::from(maker.kill().is_some());
        let seen = arena.read("stdout").lines().count();
        arena.add(&["--", "true"]);
        let queued = arena.count("queued");
        let expected = 1 + seen as u64..=2;
        assert!(expected.contains(&queued), "{queued} jobs, {seen} acknowledged");
    }
    super::note(&format!("{killed} killed while the file was made"));
}
