//! Properties of core: the state machine and the board under random histories.

mod board;
mod board_history;
mod board_model;
mod transition;
