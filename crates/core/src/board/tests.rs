//! The board, case by case. Its properties over random histories are in `tests/all/board.rs`.

use super::*;
use crate::filter::ClaimFilter;
use crate::{TaskName, Timestamp};

fn spec(n: u128, group: &str) -> JobSpec {
    let mut spec = JobSpec::new(JobId::from_u128(n), TaskName::new("work").unwrap());
    spec.group = Some(GroupName::new(group).unwrap());
    spec
}

fn push(board: &mut Board, lane: u64, seq: u64, spec: &JobSpec) {
    board.add_lane(LaneId(lane), &LaneKey::of(spec), false);
    board.activate(spec.group.as_ref());
    board.push(LaneId(lane), Head::of(Seq(seq), spec));
    board.check_invariants();
}

fn drain(board: &mut Board, now: Timestamp) -> Vec<u64> {
    let mut pass = board.begin(now, &ClaimFilter::default(), None);
    let mut order = Vec::new();
    while let Some(pick) = board.next(&mut pass) {
        let token = board.next_token();
        let id = JobId::from_u128(u128::from(pick.head.seq.0));
        board.taken(&pick, id, token, now, now);
        board.check_invariants();
        order.push(pick.head.seq.0);
    }
    order
}

#[test]
fn ties_between_groups_go_to_the_oldest_head() {
    let mut board = Board::default();
    for (lane, seq, group) in [(1, 3, "a"), (2, 1, "b"), (3, 2, "c")] {
        push(&mut board, lane, seq, &spec(seq.into(), group));
    }
    assert_eq!(drain(&mut board, Timestamp::ZERO), [1, 2, 3]);
}

#[test]
fn a_group_that_joins_comes_before_those_served_later_and_after_those_who_wait() {
    let mut board = Board::default();
    for seq in 1..=3 {
        push(&mut board, 1, seq, &spec(seq.into(), "a"));
    }
    push(&mut board, 2, 4, &spec(4, "b"));
    let now = Timestamp::ZERO;
    let mut pass = board.begin(now, &ClaimFilter::default(), None);
    let pick = board.next(&mut pass).unwrap();
    let token = board.next_token();
    board.taken(&pick, JobId::from_u128(1), token, now, now);
    push(&mut board, 3, 5, &spec(5, "late"));
    assert_eq!(drain(&mut board, now), [4, 5, 2, 3]);
}
