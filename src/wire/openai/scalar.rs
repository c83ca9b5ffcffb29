//! A string or a number, whichever a server wrote: ids come as numbers, counts as strings or with a fraction.

use std::{borrow::Cow, fmt};

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// A JSON value without parts. What is neither a string nor a number of the kind that is meant is nothing: reading one never fails.
#[derive(Debug, Default, PartialEq, Eq)]
pub enum Scalar<'a> {
    /// Absent, null, or something else.
    #[default]
    Nothing,
    /// A whole number that is not negative, its fraction dropped.
    Count(u64),
    /// A string, borrowed where it holds no escape.
    Text(Cow<'a, str>),
}

impl Scalar<'_> {
    /// The text, a number as its digits; `None` when it is empty.
    pub fn text(&self) -> Option<Cow<'_, str>> {
        match self {
            Self::Nothing => None,
            Self::Count(count) => Some(Cow::Owned(count.to_string())),
            Self::Text(text) => Some(Cow::Borrowed(text.as_ref())).filter(|text| !text.is_empty()),
        }
    }

    /// The same, kept.
    pub fn into_string(self) -> Option<String> {
        match self {
            Self::Text(text) => Some(text.into_owned()).filter(|text| !text.is_empty()),
            other => other.text().map(Cow::into_owned),
        }
    }

    /// Whether it is the text `word`.
    pub fn is(&self, word: &str) -> bool {
        matches!(self, Self::Text(text) if text == word)
    }

    /// The number, also where it is written as a string.
    pub fn count(&self) -> Option<u64> {
        match self {
            Self::Nothing => None,
            Self::Count(count) => Some(*count),
            Self::Text(text) => text.trim().parse().ok(),
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Scalar<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Any)
    }
}

struct Any;

impl<'de> Visitor<'de> for Any {
    type Value = Scalar<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Scalar::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Scalar::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Self::Value, E> {
        Ok(Scalar::Count(number))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Self::Value, E> {
        Ok(u64::try_from(number).map_or(Scalar::Nothing, Scalar::Count))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Self::Value, E> {
        Ok(if number >= 0.0 { Scalar::Count(number as u64) } else { Scalar::Nothing })
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(Scalar::Nothing)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Scalar::Nothing)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Scalar::Nothing)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Scalar::Nothing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Scalar<'_> {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn a_string_and_a_number_stand_for_each_other() {
        let check = |json: &str, text: Option<&str>, count: Option<u64>| {
            assert_eq!((read(json).text().as_deref(), read(json).count()), (text, count), "{json}");
        };
        check("\"a\\n\"", Some("a\n"), None);
        check("\" 12 \"", Some(" 12 "), Some(12));
        check("\"\"", None, None);
        check("7", Some("7"), Some(7));
        check("1700000000.5", Some("1700000000"), Some(1_700_000_000));
        for nothing in ["null", "true", "-1", "-0.5", "[1,[2]]", "{\"a\":{\"b\":1}}"] {
            check(nothing, None, None);
        }
        assert!(matches!(read("\"plain\""), Scalar::Text(Cow::Borrowed(_))));
    }
}
