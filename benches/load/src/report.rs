//! What the measuring programs say: what goes on, and what was asked of toolgate beside what was measured.

use std::io::{self, IsTerminal};

/// One of toolgate's targets and what was measured.
pub struct Goal {
    title: &'static str,
    asked: String,
    measured: Option<f64>,
    /// Shown beside the measured ratio, without a verdict.
    of_tuned: Option<f64>,
    is_met: bool,
}

// === impl Goal ===

impl Goal {
    /// A share of nginx's rate that is to be reached, and beside it the share of the tuned nginx's.
    pub fn at_least(title: &'static str, min: f64, measured: Option<f64>, of_tuned: Option<f64>) -> Self {
        let is_met = measured.is_some_and(|measured| measured >= min);
        Self { title, asked: format!("≥ {min}"), measured, of_tuned, is_met }
    }

    /// A bound that is not to be reached.
    pub fn below(title: &'static str, max: f64, measured: Option<f64>) -> Self {
        let is_met = measured.is_some_and(|measured| measured < max);
        Self { title, asked: format!("< {max}"), measured, of_tuned: None, is_met }
    }
}

/// Says on the terminal what goes on, in one line that the next output replaces.
pub fn progress(what: &str) {
    if io::stderr().is_terminal() {
        eprint!("{CLEAR_LINE}{what} …");
    }
}

/// Takes the progress line away.
pub fn progress_end() {
    if io::stderr().is_terminal() {
        eprint!("{CLEAR_LINE}");
    }
}

/// Prints one line for each goal.
pub fn print_goals(goals: &[Goal]) {
    let of_tuned = if goals.iter().any(|goal| goal.of_tuned.is_some()) { "of tuned" } else { "" };
    let head = format!("{:<52} {:>8} {:>10}  {:<12} {of_tuned:>8}", "target", "asked", "measured", "verdict");
    println!("\n{}", head.trim_end());
    for goal in goals {
        let verdict = match (goal.measured, goal.is_met) {
            (None, _) => "not measured",
            (Some(_), true) => "ok",
            (Some(_), false) => "short",
        };
        let of_tuned = if of_tuned.is_empty() { String::new() } else { cell(goal.of_tuned) };
        let line = format!("{:<52} {:>8} {:>10}  {verdict:<12} {of_tuned:>8}", goal.title, goal.asked, cell(goal.measured));
        println!("{}", line.trim_end());
    }
}

/// A figure in a table, `-` if there is none.
pub fn cell(figure: Option<f64>) -> String {
    figure.map_or_else(|| "-".to_owned(), |figure| format!("{figure:.2}"))
}

const CLEAR_LINE: &str = "\r\x1b[K";
