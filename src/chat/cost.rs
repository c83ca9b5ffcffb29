//! Money as JSON: dollars with all of their digits.

use std::sync::{Arc, OnceLock};

use serde::{Serialize, Serializer};
use serde_json::{Number, value::RawValue};

/// The microcents of a dollar.
const USD: u64 = 100_000_000;

/// What something cost, in microcents, once that is known; nothing where it had no price. Cloning it shares it. The default is of what
/// nobody counts, and takes no room.
#[derive(Debug, Clone, Default)]
pub struct Cost(Option<Arc<OnceLock<Option<u64>>>>);

impl Cost {
    /// Of something that is counted.
    pub fn counted() -> Self {
        Self(Some(Arc::default()))
    }

    /// What it cost, as far as is known.
    pub fn get(&self) -> Option<u64> {
        self.0.as_ref()?.get().copied().flatten()
    }

    /// Says what it cost. What was said first stands.
    pub fn set(&self, microcents: Option<u64>) {
        if let Some(cost) = &self.0 {
            let _ = cost.set(microcents);
        }
    }
}

/// `microcents` as a number of dollars, exactly.
pub fn usd(microcents: u64) -> String {
    let (dollars, rest) = (microcents / USD, microcents % USD);
    let digits = format!("{rest:08}");
    format!("{dollars}.{}", if rest == 0 { "0" } else { digits.trim_end_matches('0') })
}

/// The microcents of a number of dollars, where it is one and has no smaller parts.
pub fn microcents(usd: &Number) -> Option<u64> {
    let text = usd.to_string();
    let (dollars, part) = text.split_once('.').unwrap_or((&text, ""));
    let is_plain = dollars.bytes().chain(part.bytes()).all(|byte| byte.is_ascii_digit());
    if !is_plain {
        // Small numbers are written with an exponent by some.
        return text.parse::<f64>().ok().filter(|usd| *usd >= 0.0 && *usd < 9e7).map(|usd| (usd * 1e8).round() as u64);
    }
    let part: u64 = format!("{part:0<8}").get(..8)?.parse().ok()?;
    dollars.parse::<u64>().ok()?.checked_mul(USD)?.checked_add(part)
}

/// Writes microcents as a number of dollars.
pub fn serialize<S: Serializer>(microcents: &u64, to: S) -> Result<S::Ok, S::Error> {
    RawValue::from_string(usd(*microcents)).map_err(serde::ser::Error::custom)?.serialize(to)
}

/// Writes microcents as a number of dollars, nothing as `null`.
pub fn serialize_some<S: Serializer>(microcents: &Option<u64>, to: S) -> Result<S::Ok, S::Error> {
    match microcents {
        Some(microcents) => serialize(microcents, to),
        None => to.serialize_none(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_digit_is_lost() {
        for (amount, text) in [(0, "0.0"), (1, "0.00000001"), (10_000_000, "0.1"), (USD, "1.0"), (12_345_678_901, "123.45678901")] {
            assert_eq!(usd(amount), text);
            assert_eq!(microcents(&serde_json::from_str(text).unwrap()), Some(amount), "{text}");
        }
        let odd = |text: &str| microcents(&serde_json::from_str(text).unwrap());
        assert_eq!((odd("1e-8"), odd("2"), odd("-1.0")), (Some(1), Some(2 * USD), None));
    }
}
