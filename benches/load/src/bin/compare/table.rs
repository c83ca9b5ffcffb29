//! How the figures look.

use toolgate_load::report::{cell, progress_end};

use crate::{
    Name,
    measure::{self, Case, Memory, Rate},
};

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
