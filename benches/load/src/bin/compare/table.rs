//! How the figures look.

use std::io::{self, IsTerminal};

use crate::{
    Name,
    measure::{self, Case, Memory, Rate},
};

/// One of toolgate's targets and what was measured.
pub(crate) struct Goal {
    title: &'static str,
    asked: String,
    measured: Option<f64>,
    /// Shown beside the measured ratio, without a verdict.
    of_tuned: Option<f64>,
    is_met: bool,
}

impl Goal {
    pub(crate) fn at_least(title: &'static str, min: f64, measured: Option<f64>, of_tuned: Option<f64>) -> Self {
        let is_met = measured.is_some_and(|measured| measured >= min);
        Self { title, asked: format!("≥ {min}"), measured, of_tuned, is_met }
    }

    pub(crate) fn below(title: &'static str, max: f64, measured: Option<f64>) -> Self {
        let is_met = measured.is_some_and(|measured| measured < max);
        Self { title, asked: format!("< {max}"), measured, of_tuned: None, is_met }
    }
}

/// Says on the terminal what goes on, in one line that the next output replaces.
pub(crate) fn progress(what: &str) {
    if io::stderr().is_terminal() {
        eprint!("{CLEAR_LINE}{what} …");
    }
}

/// Takes the progress line away.
fn progress_end() {
    if io::stderr().is_terminal() {
        eprint!("{CLEAR_LINE}");
    }
}

pub(crate) fn print_rates_head() {
    println!(
        "{:<26} {:<12} {:>10} {:>8} {:>8} {:>7} {:>9} {:>9}",
        "4 connections", "through", "requests/s", "p50 µs", "p99 µs", "errors", "of nginx", "of tuned"
    );
}

pub(crate) fn print_rates(case: &Case, rates: &[Rate]) {
    progress_end();
    for (row, rate) in rates.iter().enumerate() {
        let title = if row == 0 { case.title } else { "" };
        let share = |base| cell(measure::ratio(rates, rate.name, base));
        println!(
            "{title:<26} {:<12} {:>10.0} {:>8.0} {:>8.0} {:>7} {:>9} {:>9}",
            rate.name.label(),
            rate.per_second,
            rate.p50_us,
            rate.p99_us,
            rate.errors,
            share(Name::Nginx),
            share(Name::NginxTuned),
        );
    }
}

pub(crate) fn print_details(added_us: &[(Name, f64)], memory: Option<&Memory>, startup_ms: Option<f64>) {
    progress_end();
    println!();
    for (name, us) in added_us {
        println!("added to a guarded tool call at 1 connection, {}: {us:.0} µs", name.label());
    }
    if let Some(memory) = memory {
        println!("resident memory of toolgate: {:.1} MiB at most with 64 connections, {:.1} MiB after", memory.peak_mib, memory.after_mib);
    }
    if let Some(ms) = startup_ms {
        println!("start of toolgate to the first answered request: {ms:.1} ms");
    }
}

pub(crate) fn print_goals(goals: &[Goal]) {
    println!("\n{:<42} {:>8} {:>10}  {:<12} {:>8}", "target", "asked", "measured", "verdict", "of tuned");
    for goal in goals {
        let verdict = match (goal.measured, goal.is_met) {
            (None, _) => "not measured",
            (Some(_), true) => "ok",
            (Some(_), false) => "short",
        };
        println!("{:<42} {:>8} {:>10}  {verdict:<12} {:>8}", goal.title, goal.asked, cell(goal.measured), cell(goal.of_tuned));
    }
}

fn cell(figure: Option<f64>) -> String {
    figure.map_or_else(|| "-".to_owned(), |figure| format!("{figure:.2}"))
}

const CLEAR_LINE: &str = "\r\x1b[K";
