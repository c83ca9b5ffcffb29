//! The text of `message` that is read while a call's arguments arrive is what `serde_json` reads once they are whole, wherever they were cut.
//!
//! A `~` in the input is a cut and not part of the arguments.

#![no_main]

use std::fmt;

use libfuzzer_sys::fuzz_target;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::{json, value::RawValue};
use toolgate::fuzzing::read_message;

fuzz_target!(|input: &str| {
    let pieces: Vec<&str> = input.split('~').collect();
    let arguments = pieces.concat();
    let message = read(&[&arguments]);

    let added = read_message(pieces.iter().copied());
    assert_eq!(added.concat(), message, "cut in pieces");
    let characters: Vec<&str> = arguments.split("").collect();
    assert_eq!(read(&characters), message, "cut in characters");
    let (first, _) = pieces.split_at(pieces.len() / 2);
    assert_eq!(read(&[&first.concat()]), added[..first.len()].concat(), "more input only adds");

    if let Some(expected) = expected(&arguments) {
        assert_eq!(message, expected, "in valid JSON");
    }
    // Whatever the input is, it can be said.
    let said = json!({"tone": input, "more": [{"message": input}], "message": input}).to_string();
    assert_eq!(read(&[&said]), input, "as the message itself");
});

fn read(pieces: &[&str]) -> String {
    read_message(pieces.iter().copied()).concat()
}

/// The first string named `message` in arguments that are valid JSON; empty where there is none. What is no valid JSON promises nothing,
/// nor does a string that `serde_json` cannot hold, which has half of a surrogate pair.
fn expected(arguments: &str) -> Option<String> {
    let value: &RawValue = serde_json::from_str(arguments).ok()?;
    let Ok(Members(members)) = serde_json::from_str(value.get()) else {
        return Some(String::new());
    };
    // A key that is written with an escape does not count: see `Reader`.
    let is_message = |(key, value): &&(&RawValue, &RawValue)| key.get() == "\"message\"" && value.get().starts_with('"');
    match members.iter().find(is_message) {
        Some((_, message)) => serde_json::from_str(message.get()).ok(),
        None => Some(String::new()),
    }
}

/// The members of an object as they are written, in order, with those whose key comes again.
struct Members<'a>(Vec<(&'a RawValue, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MembersVisitor)
    }
}

struct MembersVisitor;

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = Members<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = map.next_entry()? {
            members.push(member);
        }
        Ok(Members(members))
    }
}
