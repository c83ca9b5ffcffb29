//! What a load run saw, and how it is summed up.

use std::time::Duration;

/// The answers of one run.
#[derive(Debug, Default)]
pub struct Sample {
    /// One for each complete answer.
    pub timings: Vec<Timing>,
    /// Requests that failed in any way.
    pub errors: u64,
    /// From the first request to the last answer.
    pub elapsed: Duration,
}

/// One answer, measured from the moment its request was sent.
#[derive(Debug, Clone, Copy)]
pub struct Timing {
    /// Until the first text or named tool call; until the end if there was none.
    pub first: Duration,
    /// Until the end.
    pub total: Duration,
    /// The longest time without a byte.
    pub gap: Duration,
}

impl Sample {
    /// Complete answers per second.
    pub fn per_second(&self) -> f64 {
        self.timings.len() as f64 / self.elapsed.as_secs_f64().max(f64::EPSILON)
    }

    /// The duration within which the share `p` of the answers fell; zero if there were none.
    pub fn percentile(&self, part: fn(&Timing) -> Duration, p: f64) -> Duration {
        percentile(self.timings.iter().map(part), p)
    }

    /// Adds what another connection of the same run saw.
    pub fn extend(&mut self, other: Self) {
        self.timings.extend(other.timings);
        self.errors += other.errors;
    }
}

/// The duration within which the share `p` of all falls; zero if there are none.
pub fn percentile(durations: impl Iterator<Item = Duration>, p: f64) -> Duration {
    let mut durations: Vec<Duration> = durations.collect();
    durations.sort_unstable();
    let rank = (durations.len().saturating_sub(1) as f64 * p) as usize;
    durations.get(rank).copied().unwrap_or_default()
}

/// The value in the middle, the lower one of two; zero if there is none.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let middle = values.len().saturating_sub(1) / 2;
    values.get(middle).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_in_the_middle() {
        let check = |values: &[f64], expected: f64| assert_eq!(median(values.to_vec()), expected);
        check(&[], 0.0);
        check(&[3.0], 3.0);
        check(&[3.0, 1.0], 1.0);
        check(&[3.0, 1.0, 2.0], 2.0);
    }

    #[test]
    fn percentiles_are_ranks() {
        let timing = |ms| {
            let total = Duration::from_millis(ms);
            Timing { first: total, total, gap: total }
        };
        let sample = Sample { timings: (0..=100).rev().map(timing).collect(), ..Sample::default() };
        let check = |p: f64, ms: u64| {
            assert_eq!(sample.percentile(|t| t.total, p), Duration::from_millis(ms));
        };
        check(0.0, 0);
        check(0.5, 50);
        check(0.99, 99);
        assert_eq!(Sample::default().percentile(|t| t.total, 0.5), Duration::ZERO);
    }
}
