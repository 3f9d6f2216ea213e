//! The screen, drawn into memory, and what its keys do.

use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{Event as TermEvent, KeyCode, KeyEvent, KeyModifiers};
use runcue_core::{
    GroupName, JobId, JobSpec, Rate, ServiceName, ServiceSpec, TaskName, Timestamp, Use,
};
use runcue_store::{MemoryStore, Store, SubmitBatch};

use super::{Action, Screen, Snapshot, draw};
use runcue::Address;

const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);

async fn snapshot() -> Snapshot {
    let store = MemoryStore::new();
    let api = ServiceName::new("api").unwrap();
    let rates = vec![Rate { limit: 60, window: Duration::from_secs(60) }];
    let spec = ServiceSpec { max_concurrent: Some(5), rates, ..ServiceSpec::new(api.clone()) };
    store.upsert_services(NOW, vec![spec]).await.unwrap();
    let job = |n: u128, group: &str| JobSpec {
        group: Some(GroupName::new(group).unwrap()),
        services: vec![Use::one(api.clone())],
        ..JobSpec::new(JobId::from_u128(n), TaskName::new("resize").unwrap())
    };
    let jobs = vec![job(1, "nightly"), job(2, "nightly"), job(3, "weekly")];
    store.submit(NOW, SubmitBatch::of(jobs)).await.unwrap();
    let weekly = GroupName::new("weekly").unwrap();
    store.set_group_paused(NOW, weekly, true).await.unwrap();
    Snapshot::take(&store, &Address::memory(), NOW).await.unwrap()
}

fn drawn(screen: &Screen) -> String {
    drawn_at(screen, 100, 30)
}

fn drawn_at(screen: &Screen, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, screen)).unwrap();
    terminal.backend().to_string()
}

fn press(screen: &mut Screen, code: KeyCode) -> Action {
    screen.on_event(&TermEvent::Key(KeyEvent::new(code, KeyModifiers::NONE)))
}

#[tokio::test]
async fn the_screen_shows_counts_services_groups_and_events() {
    let text = drawn(&Screen::new(snapshot().await));
    for part in [
        "3 queued",
        "no worker",
        "api",
        "[░░░░░░░░░░]",
        "0/5 concurrent",
        "0/60 per min",
        "● OK",
        "nightly",
        "weekly",
        "paused",
        "resize",
        "q quit",
    ] {
        assert!(text.contains(part), "{part} is missing:\n{text}");
    }
}

#[tokio::test]
async fn p_pauses_or_resumes_the_chosen_group() {
    let mut screen = Screen::new(snapshot().await);
    let group = |name: &str| GroupName::new(name).unwrap();
    let pause = Action::SetPaused { group: group("nightly"), paused: true };
    assert_eq!(press(&mut screen, KeyCode::Char('p')), pause);
    press(&mut screen, KeyCode::Down);
    let resume = Action::SetPaused { group: group("weekly"), paused: false };
    assert_eq!(press(&mut screen, KeyCode::Char('p')), resume);
    press(&mut screen, KeyCode::Down);
    assert_eq!(press(&mut screen, KeyCode::Char('p')), resume, "the last group stays chosen");
}

#[tokio::test]
async fn a_filter_hides_the_rest_until_it_is_cleared() {
    let mut screen = Screen::new(snapshot().await);
    press(&mut screen, KeyCode::Char('f'));
    for c in "Week".chars() {
        press(&mut screen, KeyCode::Char(c));
    }
    press(&mut screen, KeyCode::Enter);
    assert_eq!(screen.groups().len(), 1);
    assert!(!drawn(&screen).contains("nightly"));
    press(&mut screen, KeyCode::Esc);
    assert_eq!(screen.groups().len(), 2);
}

#[tokio::test]
async fn q_and_ctrl_c_leave_and_help_explains() {
    let mut screen = Screen::new(snapshot().await);
    press(&mut screen, KeyCode::Char('?'));
    assert!(drawn(&screen).contains("pause or resume the chosen group"));
    press(&mut screen, KeyCode::Char('x'));
    assert!(!screen.help);
    assert_eq!(press(&mut screen, KeyCode::Char('q')), Action::Quit);
    let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(screen.on_event(&TermEvent::Key(interrupt)), Action::Quit);
}

#[tokio::test]
async fn the_smallest_terminal_does_not_panic() {
    let screen = Screen::new(snapshot().await);
    for (width, height) in [(1, 1), (10, 3), (40, 10)] {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, &screen)).unwrap();
    }
}

#[tokio::test]
async fn nothing_wraps_or_is_cut_on_usual_terminals() {
    let mut seen = snapshot().await;
    let counts = &mut seen.status.counts;
    (counts.queued, counts.running, counts.completed) = (1_234, 16, 56_789);
    let screen = Screen::new(seen);
    for (width, height) in [(60, 20), (80, 24), (100, 30), (120, 40)] {
        let text = drawn_at(&screen, width, height);
        let whole = |parts: &[&str]| {
            let on_one = |line: &str| parts.iter().all(|part| line.contains(part));
            assert!(text.lines().any(on_one), "{parts:?} at {width}x{height}:\n{text}");
        };
        whole(&["1234 queued", "16 running", "56789 completed"]);
        whole(&["3 ready, 0 wait for a time, 0 wait for other jobs"]);
        whole(&["api", "0/5 concurrent", "0/60 per min", "OK"]);
        whole(&["queued", "running", "failed"]);
        whole(&["nightly", "2"]);
        whole(&["weekly", "paused", "1"]);
        whole(&["queued", "resize"]);
        whole(&["q quit", "? help"]);
    }
}

#[tokio::test]
async fn all_counts_fit_on_eighty_columns() {
    let mut seen = snapshot().await;
    let counts = &mut seen.status.counts;
    (counts.queued, counts.leased, counts.running, counts.completed) = (412, 3, 16, 789);
    (counts.failed, counts.cancelled, counts.quarantined) = (5, 6, 7);
    let text = drawn_at(&Screen::new(seen), 80, 24);
    let line = "412 queued  19 running  789 completed  5 failed  6 cancelled  7 quarantined";
    assert!(text.contains(line), "{text}");
    assert!(text.contains("ready, "), "{text}");
}
