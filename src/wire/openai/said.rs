//! What is said in a field: a string by the book, a list of parts from some servers.
//!
//! Mistral's models that reason send `content: [{"type":"thinking","thinking":[{"type":"text","text":"…"}]}]`, and OpenRouter
//! `reasoning_details: [{"type":"reasoning.text","text":"…"},{"type":"reasoning.summary","summary":"…"}]`.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize,
    de::{self, Deserializer, MapAccess, SeqAccess, Visitor, value::MapAccessDeserializer},
};

use super::Scalar;

/// A text, in one piece or in parts. What is neither says nothing: reading one never fails.
#[derive(Debug)]
pub enum Said<'a> {
    /// A string, borrowed where it holds no escape.
    Text(Cow<'a, str>),
    /// One after the other.
    List(Vec<Said<'a>>),
    /// Of a kind of its own.
    Part(Box<Part<'a>>),
}

/// An element of a list.
#[derive(Debug, Deserialize)]
pub struct Part<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Scalar<'a>,
    #[serde(borrow, default)]
    text: Option<Said<'a>>,
    #[serde(borrow, default)]
    thinking: Option<Said<'a>>,
    #[serde(borrow, default)]
    summary: Option<Said<'a>>,
}

/// Whom a text is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Voice {
    /// The user.
    Aloud,
    /// The model itself.
    Thinking,
}

impl Said<'_> {
    /// Hands each text that is not empty to `hear`, in order.
    pub fn tell(self, voice: Voice, hear: &mut impl FnMut(Voice, String)) {
        match self {
            Self::Text(text) if text.is_empty() => {}
            Self::Text(text) => hear(voice, text.into_owned()),
            Self::List(list) => list.into_iter().for_each(|said| said.tell(voice, hear)),
            Self::Part(part) => {
                let thinks = part.kind.text().is_some_and(|kind| kind.starts_with("thinking") || kind.starts_with("reasoning"));
                for said in [part.thinking, part.summary].into_iter().flatten() {
                    said.tell(Voice::Thinking, hear);
                }
                if let Some(said) = part.text {
                    said.tell(if thinks { Voice::Thinking } else { voice }, hear);
                }
            }
        }
    }

    /// Whether nothing is said.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Text(text) => text.is_empty(),
            Self::List(list) => list.iter().all(Said::is_empty),
            Self::Part(part) => [&part.text, &part.thinking, &part.summary].into_iter().flatten().all(Said::is_empty),
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Said<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Any)
    }
}

struct Any;

impl<'de> Visitor<'de> for Any {
    type Value = Said<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text or its parts")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Said::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Said::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Self::Value, A::Error> {
        let mut list = Vec::new();
        while let Some(said) = elements.next_element()? {
            list.push(said);
        }
        Ok(Said::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<Self::Value, A::Error> {
        Part::deserialize(MapAccessDeserializer::new(fields)).map(|part| Said::Part(Box::new(part)))
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Said::List(Vec::new()))
    }

    fn visit_bool<E: de::Error>(self, _: bool) -> Result<Self::Value, E> {
        self.visit_unit()
    }

    fn visit_u64<E: de::Error>(self, _: u64) -> Result<Self::Value, E> {
        self.visit_unit()
    }

    fn visit_i64<E: de::Error>(self, _: i64) -> Result<Self::Value, E> {
        self.visit_unit()
    }

    fn visit_f64<E: de::Error>(self, _: f64) -> Result<Self::Value, E> {
        self.visit_unit()
    }
}

#[cfg(test)]
mod tests {
    use super::{
        Voice::{Aloud, Thinking},
        *,
    };

    #[test]
    fn texts_are_told_in_order_with_their_voice() {
        let check = |json: &str, expected: &[(Voice, &str)]| {
            let said: Said<'_> = serde_json::from_str(json).unwrap();
            assert_eq!(said.is_empty(), expected.is_empty(), "{json}");
            let mut heard = Vec::new();
            said.tell(Aloud, &mut |voice, text| heard.push((voice, text)));
            let heard: Vec<_> = heard.iter().map(|(voice, text)| (*voice, text.as_str())).collect();
            assert_eq!(heard, expected, "{json}");
        };
        check(r#""a\n""#, &[(Aloud, "a\n")]);
        check(r#"["a",{"type":"text","text":"b"},{"text":"c"}]"#, &[(Aloud, "a"), (Aloud, "b"), (Aloud, "c")]);
        check(
            r#"[{"type":"thinking","thinking":[{"type":"text","text":"so"}]},{"type":"text","text":"yes"}]"#,
            &[(Thinking, "so"), (Aloud, "yes")],
        );
        check(r#"{"type":"reasoning.text","text":"so","signature":"x"}"#, &[(Thinking, "so")]);
        check(r#"[{"type":"reasoning.summary","summary":"in short"}]"#, &[(Thinking, "in short")]);
        for nothing in
            [r#""""#, "[]", "3", "-3", "0.5", "false", "{}", r#"[null,{"type":"reasoning.encrypted","data":"xx"},{"text":null}]"#]
        {
            check(nothing, &[]);
        }
    }
}
