//! The list of all tests, as macros that make one named test of each. A test of [`crate::topics`] that is
//! missing here fails `every_test_is_listed`.

/// Makes the tests of one topic.
#[doc(hidden)]
#[macro_export]
macro_rules! topic {
    ($maker:expr, $topic:ident: $($test:ident)*) => {
        mod $topic {
            use super::*;

            $(#[tokio::test]
            async fn $test() {
                $crate::topics::$topic::$test($maker).await;
            })*
        }
    };
}

/// Every test that any store can take. The argument is an expression that makes a [`crate::Maker`]; it is
/// evaluated once per test.
#[rustfmt::skip]
#[macro_export]
macro_rules! contract_suite {
    ($maker:expr) => {
        $crate::topic!($maker, breaker: consecutive_failures_open_it what_says_nothing_of_the_service_does_not_open_it the_best_waiting_job_is_the_probe a_good_probe_closes_it a_bad_probe_opens_it_again a_probe_without_a_verdict_makes_way a_stopped_probe_makes_way a_failure_may_blame_one_service);
        $crate::topic!($maker, cancel: a_waiting_job_is_cancelled_at_once a_running_job_is_asked_to_stop a_job_that_was_asked_to_stop_is_not_tried_again a_job_that_has_ended_is_left_alone without_cascade_dependents_fail with_cascade_dependents_are_withdrawn with_cascade_dependents_of_a_running_job_are_withdrawn by_filter five_thousand_at_once a_stopped_job_frees_its_services);
        $crate::topic!($maker, candidates: they_are_jobs_that_may_run_now what_was_turned_down_hides_nothing_behind_it every_lane_has_its_share an_old_job_is_among_them_however_many_go_before_it the_wake_hint_tells_when_there_are_others a_breaker_that_wants_a_probe_lets_one_through jobs_that_can_never_fit_are_not_among_them_and_hide_nothing);
        $crate::topic!($maker, claim: a_claim_is_a_state_change_and_never_a_removal an_attempt_is_counted_once_at_the_claim order_is_priority_then_age order_holds_in_a_deep_lane filters_by_queue_task_project_and_labels filters_by_highest_priority requirements_are_matched_with_what_a_worker_offers only_takes_just_the_named_jobs_in_that_order tokens_are_unique_and_grow a_claim_of_none_changes_nothing);
        $crate::topic!($maker, clock: a_small_step_back_gives_no_room a_large_step_back_blocks_for_one_window_at_most a_key_is_not_stuck_after_the_clock_was_set_back a_hold_is_not_stuck_after_the_clock_was_set_back a_jump_forward_hands_nothing_out_twice work_goes_on_while_the_clock_stands_still);
        $crate::topic!($maker, deadlines: a_job_that_is_not_started_in_time_is_cancelled a_delayed_or_blocked_job_expires_too a_started_job_does_not_expire a_job_that_was_handed_back_expires an_overdue_job_is_not_handed_out);
        $crate::topic!($maker, delayed: run_at_is_never_early a_run_at_in_the_past_is_now a_job_whose_time_has_come_is_as_old_as_it_is thousands_of_due_jobs_come_at_once the_wake_hint_is_never_too_late);
        $crate::topic!($maker, dependencies: a_fan_in_fires_when_the_last_is_done a_fan_in_fires_when_all_finish_together a_fan_out_frees_all a_diamond_runs_in_order a_failed_prerequisite_fails_its_dependents_at_once a_quarantined_prerequisite_fails_its_dependents finished_prerequisites_are_not_waited_for dependency_timeout_fails_a_job_that_waits_too_long dependency_timeout_ends_with_the_prerequisites run_at_holds_after_the_prerequisites a_prerequisite_named_twice_counts_once a_chain_of_two_thousand_fails_in_one_step);
        $crate::topic!($maker, events: numbers_have_no_gaps a_reader_resumes_where_it_stopped a_life_is_told_in_order an_event_says_what_happened what_did_not_happen_is_not_told);
        $crate::topic!($maker, finish: late_writes_are_refused_after_reclaim a_forged_lease_is_refused a_lease_ends_with_its_hand_back the_result_is_kept a_repeated_result_changes_nothing a_batch_answers_each_entry a_job_may_be_finished_before_its_first_heartbeat);
        $crate::topic!($maker, groups: a_paused_group_waits_and_its_running_jobs_finish a_group_may_be_paused_before_its_first_job counts_of_a_group_follow_its_jobs cancelling_a_group_withdraws_its_queued_jobs retrying_a_group_sends_its_failed_jobs_round);
        $crate::topic!($maker, keys: a_live_or_completed_job_answers_for_its_key after_a_failure_a_second_job_takes_the_key_over a_job_sent_again_answers_for_itself_even_after_a_takeover after_a_failure_a_second_job_can_be_refused a_retried_job_answers_for_its_key_again a_key_twice_in_a_batch_is_one_job a_dependent_waits_for_the_job_that_answers a_pruned_job_gives_its_key_free);
        $crate::topic!($maker, leases: a_lapsed_lease_returns_the_job the_reaper_knows_when_the_next_lease_lapses jobs_of_a_worker_that_is_gone_come_back_at_once a_poison_job_is_quarantined_by_its_crashes a_crash_on_the_last_attempt_quarantines a_hand_back_does_not_count the_first_heartbeat_begins_the_job a_lease_cannot_outlive_the_timeout heartbeats_are_answered_one_by_one a_lapse_frees_the_services);
        $crate::topic!($maker, logs: output_is_kept_in_order output_of_a_lost_lease_is_not_kept output_is_bounded_and_the_oldest_goes_first output_stays_as_long_as_the_job);
        $crate::topic!($maker, progress: the_latest_report_is_kept_for_the_attempt a_report_of_a_lost_lease_is_not_kept);
        $crate::topic!($maker, queries: jobs_by_id_come_in_the_order_asked ids_between_two_are_found_in_their_order jobs_are_listed_by_filter_newest_first pages_hold_while_jobs_come_in counts_equal_a_recount ready_and_claimed_jobs_are_counted_by_project the_oldest_ready_job_is_known services_are_listed_with_their_use task_definitions_are_kept workers_are_known_while_they_are_there what_changes_nothing_is_no_news);
        $crate::topic!($maker, queues: a_full_queue_refuses a_repeated_submission_needs_no_room a_blocking_queue_says_so the_oldest_are_dropped a_cap_can_be_changed a_paused_queue_hands_nothing_out a_nearly_full_queue_is_told_about_once queues_are_listed_with_their_depth);
        $crate::topic!($maker, records: they_are_kept_by_kind_and_name_replaced_and_taken_away tasks_know_nothing_of_them);
        $crate::topic!($maker, retention: by_age_and_state by_count_the_oldest_go a_dry_run_counts_thousands_rightly live_jobs_are_never_pruned dependents_of_pruned_prerequisites_go_on a_replayed_job_does_not_wait_for_what_was_pruned old_events_go_and_numbers_go_on use_is_kept_as_long_as_a_window_needs constraints_whose_jobs_were_pruned_come_back);
        $crate::topic!($maker, retry: delays_grow_as_the_policy_says jitter_spreads_the_delays the_last_attempt_quarantines a_permanent_error_fails_at_once retry_on_says_what_is_tried_again replay_keeps_counting_attempts only_jobs_that_ended_badly_are_replayed replay_revives_the_dependents_that_failed_with_it a_dependent_of_two_failures_fails_until_both_are_replayed);
        $crate::topic!($maker, rotation: two_groups_alternate_as_documented one_large_claim_takes_turns_as_many_small_ones three_groups_take_turns a_flood_does_not_delay_another_group a_stream_of_new_groups_does_not_starve_an_old_one a_group_that_was_away_has_no_turns_saved_up ungrouped_jobs_are_one_bucket priority_does_not_reach_across_groups the_group_served_last_is_recorded a_group_without_room_keeps_its_place);
        $crate::topic!($maker, schedules: a_schedule_fires_at_its_instants_and_never_early the_wake_hint_knows_the_next_firing a_firing_is_submitted_once_however_often_it_is_looked_for missed_firings_follow_the_policy missed_firings_are_bounded a_firing_while_the_last_job_lives_can_be_left_out a_paused_schedule_does_not_fire_and_resumes_with_its_next a_change_of_the_job_keeps_the_next_firing a_change_of_the_time_moves_the_next_firing a_removed_schedule_is_gone_and_its_jobs_stay a_schedule_that_cannot_be_is_refused_with_all_others a_firing_that_is_refused_is_told_and_the_schedule_goes_on a_clock_set_back_fires_nothing_twice thousands_of_schedules_fire_together zones_are_kept_across_a_change_of_the_clock a_schedule_that_a_fast_clock_fired_is_found);
        $crate::topic!($maker, service_limits: slots_change_while_running a_lowered_rate_counts_what_was_used_before a_new_rate_counts_what_was_used_before new_limits_per_key_count_what_runs a_paused_service_lets_nothing_through a_job_that_can_never_fit_any_more_does_not_keep_the_rest_waiting a_job_that_can_never_fit_hides_nothing_from_a_filtered_claim any_number_of_jobs_that_can_never_fit_hide_nothing retry_after_holds_the_service_and_keeps_the_attempt retry_after_of_one_service_leaves_the_other_free retry_after_of_a_job_without_services_delays_the_job a_retry_after_of_more_than_a_day_still_holds_the_service);
        $crate::topic!($maker, services: slots_are_never_exceeded_and_come_back every_window_of_every_rate_holds a_window_ends_exactly a_start_within_a_span_is_counted_at_its_end costs_are_counted_in_units a_costly_job_is_not_starved_by_cheap_ones a_costly_job_is_not_starved_when_its_group_has_other_work nothing_is_kept_for_a_job_whose_turn_has_not_come services_are_taken_all_or_none a_full_service_does_not_hold_others_up each_key_has_its_own_slots each_key_has_its_own_rates a_key_is_looked_at_again_when_its_next_job_changes a_service_named_twice_is_used_once);
        $crate::topic!($maker, submit: a_batch_is_accepted_in_its_order one_bad_job_refuses_the_whole_batch bounds_are_checked references_inside_a_batch_go_in_any_order a_cycle_is_refused_and_named an_unknown_prerequisite_is_refused an_unknown_service_is_refused a_job_that_never_fits_is_refused an_id_twice_in_a_batch_is_refused the_same_batch_again_changes_nothing a_batch_may_add_to_known_jobs ten_thousand_jobs_go_in_at_once a_job_is_kept_as_it_was_submitted);
        $crate::topic!($maker, unstarted: places_that_were_never_used_are_given_back places_in_the_windows_of_a_key_are_given_back a_job_that_began_keeps_its_places a_former_holder_gives_no_place_back a_heartbeat_before_it_does_not_matter windows_hold_and_are_full_with_starts_given_back);
        $crate::topic!($maker, why: a_job_that_does_not_wait prerequisites not_yet paused a_service_without_room no_worker behind_others);
    };
}

/// The tests of a store that can be opened again and opened twice.
#[rustfmt::skip]
#[macro_export]
macro_rules! durable_suite {
    ($maker:expr) => {
        mod durable {
            use super::*;

            $crate::topic!($maker, breaker: it_survives_a_restart);
            $crate::topic!($maker, durability: everything_acknowledged_is_there_after_a_restart work_goes_on_after_a_restart two_handles_see_each_other two_handles_take_turns_as_one changes_reach_the_other_handle a_dependent_is_freed_by_the_other_handle concurrent_claims_hand_each_job_out_once);
            $crate::topic!($maker, records: they_survive_a_restart_and_others_see_them);
            $crate::topic!($maker, retention: the_other_handle_notices_what_was_pruned);
            $crate::topic!($maker, schedules: schedules_survive_a_restart two_handles_fire_each_tick_once concurrent_fires_submit_each_tick_once_through_restarts a_change_reaches_the_other_handle);
            $crate::topic!($maker, service_limits: windows_survive_a_restart slots_in_use_survive_a_restart a_hold_survives_a_restart two_handles_share_all_limits);
            $crate::topic!($maker, unstarted: places_given_back_are_known_to_all);
        }
    };
}

/// The model test: so many random histories, compared step by step with the reference and with memory.
#[macro_export]
macro_rules! model_suite {
    ($maker:expr, $cases:expr) => {
        mod model {
            use super::*;

            #[test]
            fn random_histories_agree_with_the_reference_and_with_memory() {
                $crate::model::random_histories_agree(&$maker, $cases);
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    #[test]
    fn every_test_is_listed() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let list = std::fs::read_to_string(here.join("suite.rs")).unwrap();
        let words: std::collections::HashSet<&str> =
            list.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
        let mut found = 0;
        for entry in std::fs::read_dir(here.join("topics")).unwrap() {
            let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
            for line in text.lines() {
                let Some(rest) = line.strip_prefix("pub async fn ") else { continue };
                let name = rest.split('(').next().unwrap();
                assert!(words.contains(name), "{name} is not listed in suite.rs");
                found += 1;
            }
        }
        assert!(found > 100, "only {found} tests were found");
    }
}
