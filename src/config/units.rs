//! Values as people type them. Each reader takes what a TOML file, an environment variable or a flag can hold and says what it
//! expected.

use std::{net::SocketAddr, time::Duration};

use toml::Value;

/// What a reader says when it cannot read.
pub type Expected = String;

/// Text.
pub fn text(value: &Value) -> Result<String, Expected> {
    value.as_str().map(str::to_owned).ok_or_else(|| "must be a string".to_owned())
}

/// A list of texts.
pub fn texts(value: &Value) -> Result<Vec<String>, Expected> {
    let list = value.as_array().ok_or("must be a list of strings")?;
    list.iter().map(text).collect()
}

/// One of some words, each with what it stands for.
pub fn word<T: Copy>(value: &Value, words: &[(&str, T)]) -> Result<T, Expected> {
    let typed = value.as_str().unwrap_or_default();
    let expected = || {
        let known: Vec<String> = words.iter().map(|(word, _)| format!("\"{word}\"")).collect();
        format!("must be {}", known.join(" or "))
    };
    words.iter().find(|(word, _)| *word == typed).map(|(_, it)| *it).ok_or_else(expected)
}

/// `true` or `false`; in the environment also `1`, `0`, `on`, `off`.
pub fn flag(value: &Value) -> Result<bool, Expected> {
    match (value, value.as_str()) {
        (Value::Boolean(flag), _) => Ok(*flag),
        (_, Some("true" | "1" | "on")) => Ok(true),
        (_, Some("false" | "0" | "off")) => Ok(false),
        _ => Err("must be true or false".to_owned()),
    }
}

/// A whole number from `min` to `max`.
pub fn count(value: &Value, min: u32, max: u32) -> Result<u32, Expected> {
    let number = value.as_integer().or_else(|| value.as_str()?.parse().ok());
    let number = number.and_then(|number| u32::try_from(number).ok());
    number.filter(|number| (min..=max).contains(number)).ok_or_else(|| format!("must be a whole number from {min} to {max}"))
}

/// A number from 0 to `max`.
pub fn fraction(value: &Value, max: f64) -> Result<f64, Expected> {
    let whole = || value.as_integer().map(|whole| whole as f64);
    let number = value.as_float().or_else(whole).or_else(|| value.as_str()?.parse().ok());
    number.filter(|number| (0.0..=max).contains(number)).ok_or_else(|| format!("must be a number from 0 to {max}"))
}

/// A length of time: `"250ms"`, `"30s"`, `"5m"`, `"1h"`. Not zero: a wait without a limit is not to be had.
pub fn duration(value: &Value) -> Result<Duration, Expected> {
    let expected = || "must be a length of time above zero, such as \"250ms\", \"30s\" or \"5m\"".to_owned();
    let (number, unit) = number_and_unit(value.as_str().ok_or_else(expected)?).ok_or_else(expected)?;
    let ms = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err(expected()),
    };
    Some(Duration::from_millis(number.saturating_mul(ms))).filter(|time| !time.is_zero()).ok_or_else(expected)
}

/// The same, or nothing for `"0s"`.
pub fn duration_or_off(value: &Value) -> Result<Option<Duration>, Expected> {
    if value.as_str().is_some_and(|text| number_and_unit(text) == Some((0, "s"))) { Ok(None) } else { duration(value).map(Some) }
}

/// A number of bytes: `"64KiB"`, `"16MiB"`, `"1GiB"`, `"100B"`. Not zero.
pub fn bytes(value: &Value) -> Result<usize, Expected> {
    let expected = || "must be a size above zero, such as \"64KiB\" or \"16MiB\"".to_owned();
    let (number, unit) = number_and_unit(value.as_str().ok_or_else(expected)?).ok_or_else(expected)?;
    let factor = match unit {
        "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return Err(expected()),
    };
    let size = usize::try_from(number).ok().and_then(|number| number.checked_mul(factor));
    size.filter(|size| *size > 0).ok_or_else(expected)
}

/// An IP address and port.
pub fn address(value: &Value) -> Result<SocketAddr, Expected> {
    let expected = "must be an IP address and a port, such as \"127.0.0.1:8081\"";
    value.as_str().and_then(|text| text.parse().ok()).ok_or_else(|| expected.to_owned())
}

fn number_and_unit(text: &str) -> Option<(u64, &str)> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at_checked(digits)?;
    Some((number.parse().ok()?, unit.trim_start()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        let check = |text: &str, ms: Option<u64>| {
            assert_eq!(duration(&Value::from(text)).ok(), ms.map(Duration::from_millis), "{text}");
        };
        check("250ms", Some(250));
        check("30s", Some(30_000));
        check(" 5 m ", Some(300_000));
        check("1h", Some(3_600_000));
        check("0s", None);
        check("30", None);
        check("s", None);
        check("-1s", None);
        check("1.5s", None);
        assert!(duration(&Value::from(30)).is_err());
    }

    #[test]
    fn a_time_that_may_be_off() {
        assert_eq!(duration_or_off(&Value::from("0s")), Ok(None));
        assert_eq!(duration_or_off(&Value::from("1s")), Ok(Some(Duration::from_secs(1))));
        assert!(duration_or_off(&Value::from("off")).is_err());
    }

    #[test]
    fn sizes() {
        let check = |text: &str, size: Option<usize>| assert_eq!(bytes(&Value::from(text)).ok(), size, "{text}");
        check("16MiB", Some(16 << 20));
        check("100 B", Some(100));
        check("0KiB", None);
        check("16MB", None);
        check("99999999999GiB", None);
    }

    #[test]
    fn counts_and_flags_from_the_environment() {
        assert_eq!(count(&Value::from("3"), 0, 10), Ok(3));
        assert!(count(&Value::from(11), 0, 10).is_err());
        assert!(count(&Value::from(-1), 0, 10).is_err());
        assert_eq!(flag(&Value::from("off")), Ok(false));
        assert!(flag(&Value::from("no")).is_err());
        assert!(flag(&Value::from(1)).is_err());
    }
}
