//! The report as JSON for programs: money in dollars with all digits, and in whole microcents.

use serde::Serialize;
use serde_json::value::RawValue;

use super::{Counted, Ledger, Odd, Page, Sums, table::signed, time};

impl Page<'_> {
    /// The report as one JSON object.
    pub fn json(&self) -> serde_json::Result<String> {
        let comparison = self.comparison;
        let (terms, has_books) = (comparison.terms(), comparison.agrees().is_some());
        let (odd, count) = comparison.odd();
        let (place, absent) = match &self.ledger {
            Ledger::At(place) => (Some(&**place), None),
            Ledger::None(why) => (None, Some(&**why)),
        };
        let report = Report {
            by: terms.by.as_str(),
            since: (terms.range.since_ms > 0).then(|| time::written(terms.range.since_ms)),
            until: (terms.range.until_ms < u64::MAX).then(|| time::written(terms.range.until_ms)),
            executed_only: terms.executed_only,
            groups: comparison
                .groups()
                .map(|(group, sums)| Ok(Group { group, sums: told(sums, has_books)? }))
                .collect::<serde_json::Result<_>>()?,
            total: told(&comparison.total(), has_books)?,
            agrees: comparison.agrees(),
            disagreements: Disagreements { count, shown: odd.iter().map(call).collect::<serde_json::Result<_>>()? },
            traces: Traces { files: self.traces, counted: self.counted },
            ledger: Place { place, absent },
            notes: self.notes,
        };
        serde_json::to_string_pretty(&report)
    }
}

#[derive(Serialize)]
struct Report<'a> {
    by: &'static str,
    since: Option<String>,
    until: Option<String>,
    executed_only: bool,
    groups: Vec<Group<'a>>,
    total: Told,
    agrees: Option<bool>,
    disagreements: Disagreements<'a>,
    traces: Traces<'a>,
    ledger: Place<'a>,
    notes: &'a [String],
}

#[derive(Serialize)]
struct Group<'a> {
    group: &'a str,
    #[serde(flatten)]
    sums: Told,
}

#[derive(Serialize)]
struct Told {
    calls: u64,
    tokens_in: u64,
    tokens_out: u64,
    cost_usd: Box<RawValue>,
    cost_microcents: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    ledger: Option<Booked>,
}

#[derive(Serialize)]
struct Booked {
    calls: u64,
    tokens: u64,
    cost_usd: Box<RawValue>,
    cost_microcents: u64,
    difference_usd: Box<RawValue>,
    difference_microcents: i128,
}

#[derive(Serialize)]
struct Disagreements<'a> {
    count: u64,
    shown: Vec<Call<'a>>,
}

#[derive(Serialize)]
struct Call<'a> {
    request_id: &'a str,
    kind: &'static str,
    name: &'a str,
    cost_usd: Option<Box<RawValue>>,
    cost_microcents: Option<u64>,
    ledger_cost_usd: Option<Box<RawValue>>,
    ledger_cost_microcents: Option<u64>,
}

#[derive(Serialize)]
struct Traces<'a> {
    files: &'a [String],
    #[serde(flatten)]
    counted: Counted,
}

#[derive(Serialize)]
struct Place<'a> {
    place: Option<&'a str>,
    absent: Option<&'a str>,
}

fn told(sums: &Sums, has_books: bool) -> serde_json::Result<Told> {
    let booked = || {
        Ok(Booked {
            calls: sums.booked_calls,
            tokens: sums.booked_tokens,
            cost_usd: number(sums.booked)?,
            cost_microcents: sums.booked,
            difference_usd: number(sums.difference())?,
            difference_microcents: sums.difference(),
        })
    };
    Ok(Told {
        calls: sums.calls,
        tokens_in: sums.tokens_in,
        tokens_out: sums.tokens_out,
        cost_usd: number(sums.traced)?,
        cost_microcents: sums.traced,
        ledger: has_books.then(booked).transpose()?,
    })
}

fn call(odd: &Odd) -> serde_json::Result<Call<'_>> {
    Ok(Call {
        request_id: &odd.request_id,
        kind: odd.what.as_str(),
        name: &odd.name,
        cost_usd: odd.traced.map(number).transpose()?,
        cost_microcents: odd.traced,
        ledger_cost_usd: odd.booked.map(number).transpose()?,
        ledger_cost_microcents: odd.booked,
    })
}

/// `microcents` as a number of dollars.
fn number(microcents: impl Into<i128>) -> serde_json::Result<Box<RawValue>> {
    RawValue::from_string(signed(microcents.into()))
}
