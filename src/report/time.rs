//! Since when and until when.

use chrono::{DateTime, NaiveDate, NaiveTime, Utc};

/// A span of time in milliseconds since 1970: its beginning is part of it, its end is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// Its beginning.
    pub since_ms: u64,
    /// Its end.
    pub until_ms: u64,
}

impl Default for Range {
    /// All time.
    fn default() -> Self {
        Self { since_ms: 0, until_ms: u64::MAX }
    }
}

impl Range {
    /// Whether `at_ms` is part of it.
    pub fn contains(&self, at_ms: u64) -> bool {
        (self.since_ms..self.until_ms).contains(&at_ms)
    }

    /// The same with `margin_ms` more on both sides.
    #[must_use]
    pub fn widened(self, margin_ms: u64) -> Self {
        Self { since_ms: self.since_ms.saturating_sub(margin_ms), until_ms: self.until_ms.saturating_add(margin_ms) }
    }
}

/// The time that `text` says: a day, which is its midnight in UTC, a date-time of RFC 3339, or how long before `now_ms` it is (`90s`, `30m`,
/// `24h`, `7d`, `2w`). Milliseconds since 1970. Fails with what it must be.
pub fn at(text: &str, now_ms: u64) -> Result<u64, String> {
    let text = text.trim();
    let day = || NaiveDate::parse_from_str(text, "%Y-%m-%d").ok().map(|day| day.and_time(NaiveTime::MIN).and_utc().timestamp_millis());
    let time = || DateTime::parse_from_rfc3339(text).ok().map(|time| time.timestamp_millis());
    let known = day().or_else(time).and_then(|ms| u64::try_from(ms).ok());
    known
        .or_else(|| before(text).map(|ms| now_ms.saturating_sub(ms)))
        .ok_or_else(|| "must be a day like 2026-11-22, a time like 2026-11-22T09:30:00Z, or how long ago it is, like 24h or 7d".to_owned())
}

/// How long `text` says, in milliseconds.
fn before(text: &str) -> Option<u64> {
    let (count, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let seconds: u64 = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 60 * 60,
        "d" => 24 * 60 * 60,
        "w" => 7 * 24 * 60 * 60,
        _ => return None,
    };
    count.parse::<u64>().ok()?.checked_mul(seconds * 1000)
}

/// The day of `at_ms` in UTC, as it is written: `2026-11-22`.
pub(super) fn day(at_ms: u64) -> String {
    moment(at_ms).map_or_else(String::new, |at| at.date_naive().to_string())
}

/// `at_ms` as it is written, in UTC and to the second.
pub(super) fn written(at_ms: u64) -> String {
    moment(at_ms).map_or_else(String::new, |at| at.to_rfc3339_opts(chrono::SecondsFormat::Secs, true))
}

fn moment(at_ms: u64) -> Option<DateTime<Utc>> {
    DateTime::from_timestamp_millis(i64::try_from(at_ms).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_day_or_a_time_or_how_long_ago_it_is() {
        const DAY: u64 = 86_400_000;
        let midnight = 20_779 * DAY;
        let read = |text: &str| at(text, midnight + 5).ok();
        assert_eq!(read("2026-11-22"), Some(midnight));
        assert_eq!(read("2026-11-22T01:00:00+01:00"), Some(midnight));
        assert_eq!(read("2026-11-22T00:00:00.250Z"), Some(midnight + 250));
        assert_eq!((read("24h"), read("7d"), read("0s")), (Some(midnight + 5 - DAY), Some(midnight + 5 - 7 * DAY), Some(midnight + 5)));
        for wrong in ["", "d", "7", "-7d", "yesterday", "2026-13-01", "1.5h", "9é", "99999999999999999d", "1960-01-01"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
        assert_eq!((&*day(midnight), &*day(midnight - 1), &*written(midnight)), ("2026-11-22", "2026-11-21", "2026-11-22T00:00:00Z"));
    }

    #[test]
    fn the_end_is_not_part_of_it() {
        let range = Range { since_ms: 10, until_ms: 20 };
        assert_eq!([9, 10, 19, 20].map(|at_ms| range.contains(at_ms)), [false, true, true, false]);
        assert_eq!(range.widened(15), Range { since_ms: 0, until_ms: 35 });
    }
}
