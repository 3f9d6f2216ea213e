//! What a person chose on the screen, and what a key does to that.

use std::collections::VecDeque;

use ratatui::crossterm::event::{Event as TermEvent, KeyCode, KeyEvent, KeyModifiers};
use runcue_core::{Event, GroupName};
use runcue_store::GroupInfo;

use super::snapshot::Snapshot;

/// How much of the depth's past is drawn.
const DEPTHS: usize = 240;

/// What a key asks for beyond the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing.
    None,
    /// Leave.
    Quit,
    /// Pause or resume a group.
    SetPaused {
        /// The group.
        group: GroupName,
        /// Which of the two.
        paused: bool,
    },
}

/// The screen between two keys.
#[derive(Clone, Debug)]
pub struct Screen {
    /// What the queue looked like last.
    pub seen: Snapshot,
    /// Jobs waiting, oldest look first.
    pub depths: VecDeque<u64>,
    /// Which group is chosen, among those shown.
    pub chosen: usize,
    /// Only what has this text.
    pub filter: String,
    /// The filter is being typed.
    pub typing: bool,
    /// The keys are being explained.
    pub help: bool,
}

impl Screen {
    /// A screen that shows a first look.
    pub fn new(seen: Snapshot) -> Self {
        let mut screen = Self {
            seen: seen.clone(),
            depths: VecDeque::new(),
            chosen: 0,
            filter: String::new(),
            typing: false,
            help: false,
        };
        screen.update(seen);
        screen
    }

    /// Shows a new look.
    pub fn update(&mut self, seen: Snapshot) {
        self.depths.push_back(seen.status.counts.queued);
        if self.depths.len() > DEPTHS {
            self.depths.pop_front();
        }
        self.seen = seen;
        self.keep_choice_in_range();
    }

    /// The groups that the filter lets through.
    pub fn groups(&self) -> Vec<&GroupInfo> {
        let name = |group: &GroupInfo| group.name.as_ref().map_or("", GroupName::as_str).to_owned();
        self.seen.groups.iter().filter(|group| self.wants(&name(group))).collect()
    }

    /// The events that the filter lets through.
    pub fn events(&self) -> Vec<&Event> {
        let line = crate::verbs::events::line;
        self.seen.events.iter().filter(|event| self.wants(&line(event))).collect()
    }

    fn wants(&self, text: &str) -> bool {
        text.to_lowercase().contains(&self.filter.to_lowercase())
    }

    /// Takes in a key, or a new size of the terminal.
    pub fn on_event(&mut self, event: &TermEvent) -> Action {
        match event {
            TermEvent::Key(key) if is_interrupt(key) => Action::Quit,
            TermEvent::Key(key) if self.typing => self.on_typed(key),
            TermEvent::Key(key) => self.on_key(key),
            _ => Action::None,
        }
    }

    fn on_typed(&mut self, key: &KeyEvent) -> Action {
        match key.code {
            KeyCode::Enter => self.typing = false,
            KeyCode::Esc => {
                self.typing = false;
                self.filter.clear();
            }
            KeyCode::Backspace => {
                self.filter.pop();
            }
            KeyCode::Char(c) => self.filter.push(c),
            _ => {}
        }
        self.keep_choice_in_range();
        Action::None
    }

    fn on_key(&mut self, key: &KeyEvent) -> Action {
        if self.help && key.code != KeyCode::Char('q') {
            self.help = false;
            return Action::None;
        }
        match key.code {
            KeyCode::Char('q') => return Action::Quit,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Char('p') => return self.toggle_pause(),
            KeyCode::Up | KeyCode::Char('k') => self.chosen = self.chosen.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => self.chosen += 1,
            KeyCode::Char('f' | '/') => self.typing = true,
            KeyCode::Char('?' | 'h') => self.help = true,
            _ => {}
        }
        self.keep_choice_in_range();
        Action::None
    }

    /// Jobs without a group cannot be paused together.
    fn toggle_pause(&self) -> Action {
        let groups = self.groups();
        let chosen = groups.get(self.chosen);
        match chosen.and_then(|group| group.name.clone().map(|name| (name, group.paused))) {
            Some((group, paused)) => Action::SetPaused { group, paused: !paused },
            None => Action::None,
        }
    }

    fn keep_choice_in_range(&mut self) {
        self.chosen = self.chosen.min(self.groups().len().saturating_sub(1));
    }
}

/// In raw mode Ctrl-C is a key like any other.
fn is_interrupt(key: &KeyEvent) -> bool {
    key.modifiers.contains(KeyModifiers::CONTROL) && matches!(key.code, KeyCode::Char('c' | 'd'))
}
