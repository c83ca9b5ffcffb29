//! One call, as a line of the trace or of the books tells of it.

use std::borrow::Cow;

use chrono::DateTime;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{
    budget::{Unit, amount::AMOUNT_MAX, ledger::Entry, policy::MODEL},
    chat::cost,
};

/// A model or a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum What {
    /// An attempt of a model.
    Model,
    /// A call of a tool.
    Tool,
}

impl What {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Tool => "tool",
        }
    }
}

/// One call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// When it ended or was settled, in milliseconds since 1970.
    pub at_ms: u64,
    /// A model's or a tool's.
    pub what: What,
    /// The model, or the tool as `server.tool`.
    pub name: String,
    /// The name of the API key that asked; empty where none was needed.
    pub key: String,
    /// The request it was part of.
    pub request_id: String,
    /// What it cost; nothing where it has no price.
    pub microcents: u64,
    /// What the model read.
    pub tokens_in: u64,
    /// What it wrote. In the books the two are one number, and it is here.
    pub tokens_out: u64,
    /// Whether it was made.
    pub executed: bool,
}

/// A line of a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// It tells of a call.
    Call(Box<Call>),
    /// It tells of something else.
    Other,
    /// It is damaged, or of no trace.
    Malformed,
}

/// Where the trace cuts the name of a model.
const NAME_BYTES_MAX: usize = 256;

impl Line {
    /// What `line` tells, without its end.
    pub fn read(line: &[u8]) -> Self {
        let Ok(typed) = serde_json::from_slice::<Typed<'_>>(line) else { return Self::Malformed };
        let what = match &*typed.kind {
            "model_attempt" => What::Model,
            "tool_call" => What::Tool,
            _ => return Self::Other,
        };
        typed.call(what).map_or(Self::Malformed, |call| Self::Call(Box::new(call)))
    }
}

/// The fields of a line that matter here.
#[derive(Deserialize)]
struct Typed<'a> {
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(default)]
    timestamp: String,
    #[serde(default)]
    request_id: String,
    #[serde(default)]
    key: String,
    #[serde(default)]
    model: String,
    #[serde(default)]
    server: String,
    #[serde(default)]
    tool: String,
    #[serde(default)]
    tokens_in: u64,
    #[serde(default)]
    tokens_out: u64,
    /// Lines of models had none at first.
    #[serde(default = "yes")]
    executed: bool,
    #[serde(borrow)]
    cost_usd: Option<&'a RawValue>,
}

fn yes() -> bool {
    true
}

impl Typed<'_> {
    /// The call; `None` where what is there is not what toolgate writes.
    fn call(self, what: What) -> Option<Call> {
        let at = DateTime::parse_from_rfc3339(&self.timestamp).ok()?;
        let name = match what {
            What::Model => self.model,
            What::Tool => format!("{}.{}", self.server, self.tool),
        };
        Some(Call {
            at_ms: u64::try_from(at.timestamp_millis()).ok()?,
            what,
            name,
            key: self.key,
            request_id: self.request_id,
            microcents: self.cost_usd.map_or(Some(0), |usd| microcents(usd.get()))?,
            tokens_in: self.tokens_in,
            tokens_out: self.tokens_out,
            executed: self.executed,
        })
    }
}

/// The microcents of a number of dollars as it is written. Binary numbers would lose the last of a large one.
fn microcents(usd: &str) -> Option<u64> {
    let exact = || {
        let (dollars, part) = usd.split_once('.')?;
        let is_plain = part.len() <= 8 && dollars.bytes().chain(part.bytes()).all(|byte| byte.is_ascii_digit());
        let digits = is_plain.then(|| format!("{dollars}{part:0<8}"))?;
        digits.parse().ok()
    };
    let amount: Option<u64> = exact().or_else(|| cost::microcents(&serde_json::from_str(usd).ok()?));
    amount.filter(|amount| *amount <= AMOUNT_MAX)
}

impl From<Entry> for Call {
    fn from(entry: Entry) -> Self {
        let of = |unit: Unit| entry.cost.iter().find(|amount| amount.unit == unit).map_or(0, |amount| amount.amount);
        let (microcents, tokens_out) = (of(Unit::UsdMicrocents), of(Unit::Tokens));
        let what = if entry.action.kind == MODEL { What::Model } else { What::Tool };
        let mut name = entry.action.name;
        if what == What::Model {
            name.truncate(name.floor_char_boundary(NAME_BYTES_MAX));
        }
        Self {
            at_ms: entry.at_ms,
            what,
            name,
            key: entry.action.key,
            request_id: entry.action.request_id,
            microcents,
            tokens_in: 0,
            tokens_out,
            executed: true,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(json: &str) -> Option<Call> {
        match Line::read(json.as_bytes()) {
            Line::Call(call) => Some(*call),
            Line::Other | Line::Malformed => None,
        }
    }

    #[test]
    fn a_line_is_a_call_or_something_else_or_nothing() {
        let model = r#"{"kind":"model_attempt","timestamp":"2026-11-22T09:15:04.382113+00:00","request_id":"r","model":"m","key":"alice",
            "tokens_in":7,"tokens_out":3,"cost_usd":0.00000012,"new":[1]}"#;
        let call = read(model).unwrap();
        assert_eq!((call.at_ms, call.what, call.microcents, call.executed), (1_795_338_904_382, What::Model, 12, true));
        assert_eq!((&*call.name, &*call.key, &*call.request_id, call.tokens_in, call.tokens_out), ("m", "alice", "r", 7, 3));
        let tool = r#"{"kind":"tool_call","timestamp":"2026-11-22T09:15:04Z","server":"fs","tool":"read","executed":false}"#;
        let call = read(tool).unwrap();
        assert_eq!((call.what, &*call.name, call.microcents, call.executed), (What::Tool, "fs.read", 0, false));
        assert_eq!(Line::read(br#"{"kind":"start"}"#), Line::Other);
        for damaged in [
            "",
            "[]",
            "{\"kind\":\"tool_call\"",
            r#"{"kind":"tool_call"}"#,
            r#"{"kind":"tool_call","timestamp":"yesterday"}"#,
            r#"{"kind":"tool_call","timestamp":"2026-11-22T09:15:04Z","cost_usd":"0.1"}"#,
            r#"{"kind":"tool_call","timestamp":"2026-11-22T09:15:04Z","cost_usd":-0.1}"#,
            r#"{"kind":"tool_call","timestamp":"2026-11-22T09:15:04Z","tokens_in":-1}"#,
            "\u{1}",
        ] {
            assert_eq!(Line::read(damaged.as_bytes()), Line::Malformed, "{damaged}");
        }
    }

    #[test]
    fn money_is_read_as_it_is_written() {
        let read = |text: &str| microcents(text);
        assert_eq!((read("0.1"), read("1e-8"), read("2"), read("0.00000001")), (Some(10_000_000), Some(1), Some(200_000_000), Some(1)));
        assert_eq!((read("90071992.54740991"), read("90071992.54740990")), (Some(AMOUNT_MAX), Some(AMOUNT_MAX - 1)));
        assert_eq!((read("90071992.54740992"), read("-1"), read("\"1\""), read("null")), (None, None, None, None));
    }

    proptest! {
        #[test]
        fn what_was_written_is_what_is_read(amount in 0..=AMOUNT_MAX) {
            prop_assert_eq!(microcents(&cost::usd(amount)), Some(amount));
        }

        #[test]
        fn no_bytes_are_fatal(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Line::read(&bytes);
        }
    }
}
