//! What a ledger promises, tried on every place that it can be kept in.
//!
//! A test is a function of the place: it opens empty ledgers there and uses them as the gate does, through [`Store`], at times that it says
//! itself. [`every_place`] has the list; [`on`] makes a module of tests for one place.

pub(super) mod opened;
mod parallel;
mod quotas;
mod random;
mod redis;
mod rules;
mod vectors;

use std::time::Duration;

use self::opened::Place;
use super::file::Sync;

/// A module of tests for one place. They wait for what it needs where `$waits`, a condition of `cfg`, holds.
macro_rules! on {
    ($place:ident = $variant:expr, waits if $waits:meta; $($module:ident::$test:ident,)*) => {
        mod $place {
            use super::Place;

            $(#[test]
            #[cfg_attr($waits, ignore = "needs a redis-server, see tests/real/test.sh")]
            fn $test() {
                super::run(super::$module::$test($variant));
            })*

            #[test]
            #[cfg_attr($waits, ignore = "needs a redis-server, see tests/real/test.sh")]
            fn nothing_is_lost_or_counted_twice() {
                super::random::nothing_is_lost_or_counted_twice($variant);
            }

            #[test]
            #[cfg_attr($waits, ignore = "needs a redis-server, see tests/real/test.sh")]
            fn parallel_reserves_do_not_overshoot() {
                super::parallel::reserves_do_not_overshoot($variant);
            }
        }
    };
}

/// The same tests for each place.
macro_rules! every_place {
    ($($module:ident::$test:ident,)*) => {
        on!(memory = Place::Memory, waits if any(); $($module::$test,)*);
        on!(file = Place::File(super::Sync::Every(super::Duration::from_millis(5))), waits if any(); $($module::$test,)*);
        on!(synced_file = Place::File(super::Sync::Always), waits if any(); $($module::$test,)*);
        on!(real_redis = Place::Redis, waits if all(); $($module::$test,)*);
    };
}

every_place! {
    vectors::v1_what_was_not_used_is_given_back,
    vectors::v2_an_overage_is_charged_as_far_as_there_is_something,
    vectors::v3_v4_debt_is_made_up_to_its_limit,
    vectors::v5_without_a_limit_there_is_no_debt,
    vectors::v6_v11_only_the_scope_that_had_too_little_is_over_its_limit,
    vectors::v7_what_is_reserved_is_not_there_for_others,
    vectors::v8_nothing_can_always_be_reserved,
    vectors::v9_a_scope_without_debt_caps_one_with,
    vectors::v10_a_refused_overage_leaves_the_reservation,
    vectors::v12_an_event_is_charged_as_far_as_there_is_something,
    rules::all_scopes_or_none,
    rules::the_same_key_is_one_operation,
    rules::a_key_is_forgotten_after_a_day,
    rules::a_budget_in_another_unit_is_named,
    rules::a_subject_is_checked,
    rules::time_and_grace_end_a_reservation,
    rules::budgets_are_looked_up_one_by_one,
    rules::what_is_never_settled_comes_back,
    rules::it_is_extended_ten_times,
    rules::what_is_settled_stays_settled,
    rules::a_frozen_budget_and_one_that_is_funded,
    rules::what_is_put_in_under_one_key_is_put_in_once,
    rules::what_is_closed_stays_closed,
    rules::what_nobody_knows_is_not_found,
    rules::caps_are_those_of_the_deepest_scope,
    rules::the_books_have_each_cost_once,
    rules::a_book_is_read_by_time,
    quotas::several_units_at_once_or_none,
    quotas::a_commit_settles_every_unit,
    quotas::a_quota_counts_beside_the_budgets,
    quotas::a_quota_has_what_it_has_now,
    quotas::a_quota_that_is_raised_is_over_its_limit_no_more,
    quotas::a_refusal_names_its_unit,
    quotas::a_quota_is_forgotten_a_day_after_its_end,
    quotas::a_subject_is_opened_that_has_no_budget,
}

/// Runs one test to its end, on this thread: it says how late it is there.
fn run(test: impl Future<Output = ()>) {
    runtime().block_on(test);
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}
