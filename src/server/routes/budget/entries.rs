//! `/budget/entries`: the lines of the books, the oldest first, a page at a time.

use std::fmt::Write;

use chrono::DateTime;
use hyper::{
    HeaderMap, Response, StatusCode,
    header::{ACCEPT, CONTENT_TYPE, HeaderValue},
};
use serde_json::json;

use super::{books, check_admin, refused};
use crate::{
    budget::{Account, ledger::Entry},
    chat::Problem,
    server::{State, origin, query, reply},
};

/// How many lines a page has when nobody says.
const PAGE: usize = 1_000;
/// How many it has at most: some 5 MB.
const PAGE_MAX: usize = 10_000;
/// A line of JSON each, for those who read them one by one.
const LINES: &str = "application/x-ndjson";

/// Where a page begins: so many lines of that moment were on the pages before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    at_ms: u64,
    seen: usize,
}

/// The lines from `since` until before `until`, which go on after `after`.
pub(super) async fn list(
    state: &State,
    headers: &HeaderMap,
    account: &Account,
    query: &query::Pairs,
) -> Result<Response<reply::Body>, Problem> {
    origin::check_reader_here(headers, state)?;
    check_admin(account)?;
    let since = read(query, "since", moment, "must be milliseconds since 1970 or a time such as 2026-11-22T00:00:00Z")?.unwrap_or_default();
    let until = read(query, "until", moment, "must be milliseconds since 1970 or a time such as 2026-11-22T00:00:00Z")?.unwrap_or(u64::MAX);
    let limit = |text: &str| text.parse().ok().filter(|limit| (1..=PAGE_MAX).contains(limit));
    let limit = read(query, "limit", limit, &format!("must be a whole number from 1 to {PAGE_MAX}"))?.unwrap_or(PAGE);
    let after = read(query, "after", Place::parse, "must be what the page before has as `next`")?;
    let after = after.unwrap_or(Place { at_ms: since, seen: 0 });
    // One more than the page has tells whether another follows.
    let most = after.seen.saturating_add(limit).saturating_add(1);
    let entries = books(state)?.first_entries(after.at_ms.max(since), until, most).await.map_err(|error| refused(error, "entries"))?;
    let (page, next) = page(&entries, after, limit);
    let is_lines = headers.get(ACCEPT).is_some_and(|accept| accept.as_bytes() == LINES.as_bytes());
    Ok(if is_lines { as_lines(page) } else { as_array(page, next) })
}

fn as_array(page: &[Entry], next: Option<Place>) -> Response<reply::Body> {
    let body = json!({"entries": page, "next": next.map(Place::written)});
    reply::json(StatusCode::OK, body.to_string().into())
}

fn as_lines(page: &[Entry]) -> Response<reply::Body> {
    let mut body = String::new();
    for entry in page {
        // Memory takes all that is written.
        let _ = writeln!(body, "{}", json!(entry));
    }
    let mut response = reply::json(StatusCode::OK, body.into());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(LINES));
    response
}

/// What of `entries` comes after `after`, so many at most, and where the rest begins, if there is one.
fn page(entries: &[Entry], after: Place, limit: usize) -> (&[Entry], Option<Place>) {
    let seen = entries.iter().take_while(|entry| entry.at_ms == after.at_ms).count().min(after.seen);
    let rest = entries.get(seen..).unwrap_or_default();
    let page = rest.get(..limit).unwrap_or(rest);
    let Some(last) = page.last().filter(|_| page.len() < rest.len()) else { return (page, None) };
    let of_last = page.iter().rev().take_while(|entry| entry.at_ms == last.at_ms).count();
    // A moment that began on a page before has lines there too.
    let before = if of_last == page.len() && last.at_ms == after.at_ms { seen } else { 0 };
    (page, Some(Place { at_ms: last.at_ms, seen: before + of_last }))
}

impl Place {
    fn parse(text: &str) -> Option<Self> {
        let (at_ms, seen) = text.split_once('.')?;
        Some(Self { at_ms: at_ms.parse().ok()?, seen: seen.parse().ok()? })
    }

    fn written(self) -> String {
        format!("{}.{}", self.at_ms, self.seen)
    }
}

fn read<T>(query: &query::Pairs, name: &str, read: impl Fn(&str) -> Option<T>, expected: &str) -> Result<Option<T>, Problem> {
    let Some(text) = query.get(name) else { return Ok(None) };
    read(text).map(Some).ok_or_else(|| Problem::invalid(name, format!("{name} {expected}.")))
}

fn moment(text: &str) -> Option<u64> {
    let ms = || u64::try_from(DateTime::parse_from_rfc3339(text).ok()?.timestamp_millis()).ok();
    text.parse().ok().or_else(ms)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::{Subject, ledger::Action};

    #[test]
    fn pages_follow_one_another() {
        let entry =
            |at_ms: u64| Entry { at_ms, subject: Subject::default(), action: Action::default(), cost: Vec::new(), charged: Vec::new() };
        let all: Vec<Entry> = [1, 2, 2, 2, 2, 3, 5].map(entry).into();
        for limit in 1..9 {
            let (mut told, mut after) = (Vec::new(), Place { at_ms: 0, seen: 0 });
            loop {
                let known = all.iter().filter(|entry| entry.at_ms >= after.at_ms).take(after.seen + limit + 1);
                let known: Vec<Entry> = known.cloned().collect();
                let (page, next) = page(&known, after, limit);
                told.extend(page.iter().map(|entry| entry.at_ms));
                let Some(next) = next else { break };
                assert_eq!(Place::parse(&next.written()), Some(next));
                after = next;
            }
            assert_eq!(told, [1, 2, 2, 2, 2, 3, 5], "{limit} a page");
        }
        assert_eq!((moment("7"), moment("1970-01-01T00:00:01Z"), moment("now")), (Some(7), Some(1000), None));
    }
}
