//! A JSON object as an ordered list of raw fields: what is not changed keeps its spelling, and reading copies no value.

use std::{borrow::Cow, fmt};

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// An object whose values are JSON texts, borrowed until they are changed.
#[derive(Debug, Clone, Default)]
pub struct Object<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl<'a> Object<'a> {
    /// The object in a JSON text, `None` when that is something else.
    pub fn read(text: &'a str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// The JSON text at `name`; of a repeated name the last, as most parsers have it. Null counts as absent.
    pub fn get(&self, name: &str) -> Option<&Cow<'a, str>> {
        self.written(name).filter(|value| *value != "null")
    }

    /// The same, with null.
    pub fn written(&self, name: &str) -> Option<&Cow<'a, str>> {
        self.0.iter().rfind(|(key, _)| key == name).map(|(_, value)| value)
    }

    /// The JSON text at `name` as it was read, `None` when it was changed since.
    pub fn spelled(&self, name: &str) -> Option<&'a str> {
        match self.get(name)? {
            Cow::Borrowed(value) => Some(*value),
            Cow::Owned(_) => None,
        }
    }

    /// Whether `name` stands in it more than once.
    pub fn repeats(&self, name: &str) -> bool {
        self.0.iter().filter(|(key, _)| key == name).count() > 1
    }

    /// The string at `name`.
    pub fn text(&self, name: &str) -> Option<String> {
        self.get(name).and_then(|value| decoded(value))
    }

    /// Puts a JSON text at `name`, in place or at the end.
    pub fn set(&mut self, name: &'static str, json: String) {
        match self.0.iter_mut().rfind(|(key, _)| key == name) {
            Some((_, value)) => *value = Cow::Owned(json),
            None => self.0.push((Cow::Borrowed(name), Cow::Owned(json))),
        }
    }

    /// Takes `name` out. Whether it was there.
    pub fn remove(&mut self, name: &str) -> bool {
        let before = self.0.len();
        self.0.retain(|(key, _)| key != name);
        self.0.len() < before
    }

    /// Takes over the fields of `other` whose names this one lacks.
    pub fn fill(&mut self, other: Self) {
        for (name, value) in other.0 {
            if self.written(&name).is_none() {
                self.0.push((name, value));
            }
        }
    }

    /// Its JSON text.
    pub fn json(&self) -> String {
        let mut json = String::from("{");
        for (name, value) in &self.0 {
            if json.len() > 1 {
                json.push(',');
            }
            json.push_str(&encoded(name));
            json.push(':');
            json.push_str(value);
        }
        json.push('}');
        json
    }
}

/// A text as a JSON string.
pub fn encoded(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// The text of a JSON string, `None` when it is something else.
pub fn decoded(json: &str) -> Option<String> {
    serde_json::from_str(json).ok()
}

/// A JSON text without the white space between its tokens.
pub fn compact(json: &str) -> String {
    let (mut in_string, mut escaped) = (false, false);
    let is_kept = |c: &char| {
        let keep = in_string || !c.is_ascii_whitespace();
        in_string ^= *c == '"' && !escaped;
        escaped = in_string && *c == '\\' && !escaped;
        keep
    };
    json.chars().filter(is_kept).collect()
}

/// The elements of a JSON array, `None` when it is something else.
pub fn elements(json: &str) -> Option<Vec<&str>> {
    let elements: Vec<&RawValue> = serde_json::from_str(json).ok()?;
    Some(elements.into_iter().map(RawValue::get).collect())
}

/// The JSON array of `elements`.
pub fn array<'e>(elements: impl IntoIterator<Item = &'e str>) -> String {
    let mut json = String::from("[");
    for element in elements {
        if json.len() > 1 {
            json.push(',');
        }
        json.push_str(element);
    }
    json.push(']');
    json
}

impl<'de: 'a, 'a> Deserialize<'de> for Object<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Fields)
    }
}

struct Fields;

impl<'de> Visitor<'de> for Fields {
    type Value = Object<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = Vec::new();
        while let Some((Key(name), raw)) = map.next_entry::<Key<'de>, &'de RawValue>()? {
            fields.push((name, Cow::Borrowed(raw.get())));
        }
        Ok(Object(fields))
    }
}

/// A name, borrowed where it holds no escape. (A bare `Cow` would always allocate.)
#[derive(serde::Deserialize)]
#[serde(transparent)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_changed_keeps_its_spelling_and_place() {
        let mut object = Object::read(r#" { "a" : 1e2, "b":[ 18446744073709551616 ], "c":null,"a":"\u00e9" } "#).unwrap();
        assert_eq!((object.text("a").as_deref(), object.get("c"), object.written("c").is_some()), (Some("é"), None, true));
        object.set("b", "2".to_owned());
        object.set("d", encoded("\"\n"));
        assert!(object.remove("c") && !object.remove("c"));
        assert_eq!(object.json(), r#"{"a":1e2,"b":2,"a":"\u00e9","d":"\"\n"}"#);
    }

    #[test]
    fn only_missing_fields_are_taken_over() {
        let mut object = Object::read(r#"{"a":1,"b":null}"#).unwrap();
        object.fill(Object::read(r#"{"a":2,"b":3,"c":4}"#).unwrap());
        assert_eq!(object.json(), r#"{"a":1,"b":null,"c":4}"#);
    }

    #[test]
    fn white_space_between_tokens_goes() {
        let check = |json: &str, expected: &str| assert_eq!(compact(json), expected, "{json}");
        check(" { \"a b\" : [ 1 ,\n\t2 ] }\r\n", r#"{"a b":[1,2]}"#);
        check(r#"[ "\" ", "\\", "\\\" " , 1e2 ]"#, r#"["\" ","\\","\\\" ",1e2]"#);
        check("[ \"é \u{2003}\" ]", "[\"é \u{2003}\"]");
    }

    #[test]
    fn refuses_what_is_no_object() {
        for bad in ["[]", "3", "", "{", r#"{"a":1} x"#] {
            assert!(Object::read(bad).is_none(), "{bad}");
        }
    }
}
