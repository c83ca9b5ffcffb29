//! What Ollama sends: the lines of `/api/chat`, the list of `/api/tags`, the facts of `/api/show`.
//!
//! Source: `api/types.go` of Ollama 0.17.4, and what later releases add. Every field may be absent or null.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::text::Text;

/// One line of a streamed chat, or the error that may stand in its place.
#[derive(Debug, Deserialize)]
pub struct Line<'a> {
    /// The model that answers.
    #[serde(borrow, default)]
    pub model: Option<Text<'a>>,
    /// When the line was written, in RFC 3339.
    #[serde(borrow, default)]
    pub created_at: Option<Text<'a>>,
    /// What was said since the last line.
    #[serde(borrow, default)]
    pub message: Option<Message<'a>>,
    /// Whether this is the last line.
    #[serde(default)]
    pub done: Option<bool>,
    /// Why the reply ended, in the last line.
    #[serde(borrow, default)]
    pub done_reason: Option<Text<'a>>,
    /// Tokens of the prompt, in the last line. Some releases leave it out when the whole prompt was cached.
    #[serde(default)]
    pub prompt_eval_count: Option<u64>,
    /// Those of them that came from the cache, where the release says so.
    #[serde(default)]
    pub prompt_eval_cached_count: Option<u64>,
    /// Tokens generated, in the last line.
    #[serde(default)]
    pub eval_count: Option<u64>,
    /// How long all of it took, in nanoseconds, in the last line.
    #[serde(default)]
    pub total_duration: Option<u64>,
    /// How long the model took to load.
    #[serde(default)]
    pub load_duration: Option<u64>,
    /// How long the prompt took to read.
    #[serde(default)]
    pub prompt_eval_duration: Option<u64>,
    /// How long the reply took to write.
    #[serde(default)]
    pub eval_duration: Option<u64>,
    /// Log probabilities of what this line says.
    #[serde(borrow, default)]
    pub logprobs: Option<Vec<Logprob<'a>>>,
    /// A failure after the status was sent.
    #[serde(borrow, default)]
    pub error: Option<&'a RawValue>,
}

/// What was said since the last line.
#[derive(Debug, Default, Deserialize)]
pub struct Message<'a> {
    /// Text.
    #[serde(borrow, default)]
    pub content: Option<Text<'a>>,
    /// Reasoning.
    #[serde(borrow, default)]
    pub thinking: Option<Text<'a>>,
    /// Calls, each of them whole.
    #[serde(borrow, default)]
    pub tool_calls: Option<Vec<ToolCall<'a>>>,
}

/// A call.
#[derive(Debug, Deserialize)]
pub struct ToolCall<'a> {
    /// The id, which older releases do not mint.
    #[serde(borrow, default)]
    pub id: Option<Text<'a>>,
    /// Name and arguments.
    #[serde(borrow, default)]
    pub function: Option<Function<'a>>,
}

/// Name and arguments of a call.
#[derive(Debug, Deserialize)]
pub struct Function<'a> {
    /// The name.
    #[serde(borrow, default)]
    pub name: Option<Text<'a>>,
    /// The arguments, an object.
    #[serde(borrow, default)]
    pub arguments: Option<&'a RawValue>,
}

/// The log probability of one token.
#[derive(Debug, Deserialize)]
pub struct Logprob<'a> {
    /// The token.
    #[serde(borrow)]
    pub token: &'a RawValue,
    /// Its log probability.
    #[serde(borrow)]
    pub logprob: &'a RawValue,
    /// Its bytes.
    #[serde(borrow, default)]
    pub bytes: Option<&'a RawValue>,
    /// Those that were as likely, where they were asked for.
    #[serde(borrow, default)]
    pub top_logprobs: Option<Vec<Self>>,
}

/// The answer of `/api/tags`.
#[derive(Debug, Deserialize)]
pub struct Tags {
    /// The models that are there.
    #[serde(default)]
    pub models: Option<Vec<Tag>>,
}

/// One model of `/api/tags`.
#[derive(Debug, Deserialize)]
pub struct Tag {
    /// Its name with its tag.
    pub name: String,
    /// What it consists of: another digest is another model.
    #[serde(default)]
    pub digest: Option<String>,
}

/// The answer of `/api/show`, as far as it is read.
#[derive(Debug, Deserialize)]
pub struct Show<'a> {
    /// The values in the model's file, by name.
    #[serde(borrow, default)]
    pub model_info: Option<HashMap<String, &'a RawValue>>,
    /// What its owner set, one name and value a line.
    #[serde(default)]
    pub parameters: Option<String>,
    /// What it can do.
    #[serde(default)]
    pub capabilities: Option<Vec<String>>,
}

impl Show<'_> {
    /// How many tokens the model was made for.
    pub fn context_length(&self) -> Option<u64> {
        let info = self.model_info.as_ref()?;
        let architecture: String = info.get("general.architecture").and_then(|raw| serde_json::from_str(raw.get()).ok())?;
        info.get(&format!("{architecture}.context_length")).and_then(|raw| serde_json::from_str(raw.get()).ok())
    }

    /// How many tokens its owner has it run with.
    pub fn num_ctx(&self) -> Option<u64> {
        let values = |line: &str| line.trim().strip_prefix("num_ctx").and_then(|value| value.trim().parse().ok());
        self.parameters.as_deref()?.lines().find_map(values)
    }
}

/// The seconds since 1970 of a time in RFC 3339, such as `2026-03-01T09:30:00.5+01:00`.
pub fn seconds_since_1970(time: &str) -> Option<u64> {
    let (date, clock) = time.split_once(['T', 't', ' '])?;
    let (clock, offset) = match clock.find(['Z', 'z', '+', '-']) {
        Some(at) => clock.split_at_checked(at)?,
        None => return None,
    };
    let whole = clock.split('.').next()?;
    let offset_seconds = match offset.split_at_checked(1)? {
        ("+", by) => -seconds(by)?,
        ("-", by) => seconds(by)?,
        _ => 0,
    };
    u64::try_from(days(date)? * 86_400 + seconds(whole)? + offset_seconds).ok()
}

/// `hh:mm:ss` or `hh:mm`.
fn seconds(clock: &str) -> Option<i64> {
    let mut total = 0;
    let mut unit = 3600;
    for part in clock.split(':') {
        total += part.parse::<u8>().map(i64::from).ok()? * unit;
        unit /= 60;
    }
    Some(total)
}

/// The days from 1970-01-01 to `yyyy-mm-dd`. Years begin in March here, so that the day that comes and goes is the last.
fn days(date: &str) -> Option<i64> {
    let mut parts = date.split('-').map(|part| part.parse::<u16>().map(i64::from).ok());
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    if !(1970..=9999).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let before_year = year * 365 + year / 4 - year / 100 + year / 400;
    Some(before_year + (153 * month + 2) / 5 + day - 1 - DAYS_TO_1970)
}

/// From 0000-03-01 to 1970-01-01.
const DAYS_TO_1970: i64 = 719_468;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_of_a_line_may_be_null_and_others_are_skipped() {
        let line: Line<'_> = serde_json::from_str(
            r#"{"model":null,"message":{"role":"assistant","content":null,"tool_calls":[{"function":null}],"images":[]},"done":null,"total_duration":1}"#,
        )
        .unwrap();
        assert!(line.message.unwrap().tool_calls.unwrap()[0].function.is_none());
    }

    #[test]
    fn the_context_length_stands_under_the_architecture() {
        let check = |show: &str, made_for: Option<u64>, runs_with: Option<u64>| {
            let show: Show<'_> = serde_json::from_str(show).unwrap();
            assert_eq!((show.context_length(), show.num_ctx()), (made_for, runs_with));
        };
        check(
            r#"{"model_info":{"qwen3.context_length":40960,"general.architecture":"qwen3","a.vision.context_length":7,"t":null},"parameters":"stop   \"x\"\nnum_ctx                        8192\n"}"#,
            Some(40960),
            Some(8192),
        );
        check(r#"{"model_info":{"general.architecture":"qwen3"},"parameters":"num_ctx many"}"#, None, None);
        check("{}", None, None);
    }

    #[test]
    fn times_are_read() {
        let check = |time: &str, expected: Option<u64>| assert_eq!(seconds_since_1970(time), expected, "{time}");
        check("1970-01-01T00:00:00Z", Some(0));
        check("2000-02-29T12:00:00Z", Some(951_825_600));
        check("2026-09-17T15:42:59.7420965Z", Some(1_789_659_779));
        check("2026-09-17T17:42:59.7+02:00", Some(1_789_659_779));
        check("2026-09-17T10:12:59-05:30", Some(1_789_659_779));
        for bad in ["", "now", "2026-09-17", "2026-09-17T10:12:59", "2026-13-17T10:12:59Z", "1969-12-31T23:59:59Z", "0001-01-01T00:00:00Z"]
        {
            check(bad, None);
        }
    }
}
