//! Properties of core: the state machine and the board under random histories.

#![expect(clippy::unwrap_used, reason = "test code, where a panic is the way to fail")]

mod board;
mod board_history;
mod board_model;
mod schedule;
mod timetable;
mod transition;
