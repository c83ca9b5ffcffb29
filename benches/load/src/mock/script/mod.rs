//! Which reply a request gets. Its `model` names the script, with `-N` and `-dMS` after it:
//!
//! ```text
//! text-N[-dMS]      N words of content, MS milliseconds between them
//! respond-N[-dMS]   a call of `respond` whose message has N words, if tools hold one; else text
//! tool              one well-formed call of the first tool, arguments {"city":"Paris"}
//! tool-N[-dMS]      the same with a long argument of N words
//! fence             the call as JSON in a code fence in plain text
//! hermes | mistral | qwenxml   the call as text in that family's own form
//! bare              plain text where a tool call was due; after any nudge, a well-formed call
//! unknown           a call of a tool that does not exist; after any nudge, a well-formed call
//! badargs           arguments that are no JSON; after any nudge, a well-formed call
//! stubborn          plain text for ever
//! err500 | drop     an HTTP 500; a connection closed in the middle of a stream
//! script[-dMS]      the first user message is a JSON list of replies, one for each assistant turn
//!                   so far: {"text": "…"}, {"calls": [{"name": …, "arguments": {…} or "text"}]},
//!                   {"reasoning": "…", …}, {"finish": "length", …},
//!                   {"status": 429, "body": {…}}; the last one repeats
//! ```
//!
//! An unknown name is `text`. N is 32 and MS is 0 unless given.

use std::{mem, time::Duration};

use serde_json::{Value, json};

#[cfg(test)]
mod tests;

/// What the model does.
#[derive(Debug)]
pub enum Reply {
    /// It answers.
    Message(Message),
    /// The server answers with this status instead.
    Status {
        /// The HTTP status.
        code: u16,
        /// The body, sent as it is.
        body: Value,
    },
    /// The connection closes in the middle of the answer.
    Cut,
}

/// An answer in the pieces in which it streams.
#[derive(Debug, Default)]
pub struct Message {
    /// Thinking, sent before the rest.
    pub reasoning: Option<Vec<String>>,
    /// The text; `None` is JSON's null.
    pub content: Option<Vec<String>>,
    /// Tool calls, in order.
    pub calls: Vec<Call>,
    /// Whether it ends because it ran out of tokens.
    pub truncated: bool,
}

/// One tool call.
#[derive(Debug)]
pub struct Call {
    /// The tool's name as scripted, a string unless the script is odd on purpose.
    pub name: Value,
    /// The arguments' text, which need not be JSON.
    pub arguments: Vec<String>,
}

/// The reply for `request`, and the pause before each of its pieces.
pub fn reply(request: &Value) -> (Reply, Duration) {
    let model = Model::parse(request["model"].as_str().unwrap_or("text"));
    let reply = match model.kind {
        "err500" => Reply::Status { code: 500, body: json!({"error": {"code": 500, "message": "boom", "type": "server_error"}}) },
        "drop" => Reply::Cut,
        "script" => scripted(list(&request["messages"])),
        _ => Reply::Message(message(&model, request)),
    };
    (reply, model.pause)
}

/// `count` different words, each with a space behind it.
pub fn words(count: usize) -> Vec<String> {
    (0..count).map(|i| format!("w{i} ")).collect()
}

// === impl Message ===

impl Message {
    /// OpenAI's finish reason.
    pub fn finish_reason(&self) -> &'static str {
        match self {
            Self { truncated: true, .. } => "length",
            Self { calls, .. } if calls.is_empty() => "stop",
            Self { .. } => "tool_calls",
        }
    }

    /// How many pieces wait for a pause when the answer streams.
    pub fn pieces(&self) -> usize {
        let texts = [&self.reasoning, &self.content];
        let text: usize = texts.into_iter().flatten().map(Vec::len).sum();
        text + self.calls.iter().map(|call| call.arguments.len()).sum::<usize>()
    }

    fn text(content: Vec<String>) -> Self {
        Self { content: Some(content), ..Self::default() }
    }

    fn call(name: &str, arguments: Vec<String>) -> Self {
        Self { calls: vec![Call { name: name.into(), arguments }], ..Self::default() }
    }

    fn from_turn(turn: &Value) -> Self {
        let text = |key: &str| turn[key].as_str().map(pieces);
        let call = |call: &Value| Call {
            name: call["name"].clone(),
            arguments: match &call["arguments"] {
                Value::String(text) => pieces(text),
                value => pieces(&value.to_string()),
            },
        };
        Self {
            reasoning: text("reasoning"),
            content: text("text"),
            calls: list(&turn["calls"]).iter().map(call).collect(),
            truncated: turn["finish"] == "length",
        }
    }
}

/// A model's name taken apart.
#[derive(Debug, PartialEq)]
struct Model<'a> {
    kind: &'a str,
    words: usize,
    pause: Duration,
}

impl<'a> Model<'a> {
    fn parse(name: &'a str) -> Self {
        let mut parts = name.split('-');
        let mut model = Self { kind: parts.next().unwrap_or_default(), words: WORDS, pause: Duration::ZERO };
        for part in parts {
            if let Some(pause_ms) = part.strip_prefix('d') {
                model.pause = Duration::from_millis(pause_ms.parse().unwrap_or(0));
            } else if let Ok(words) = part.parse() {
                model.words = words;
            }
        }
        model
    }

    fn is_long(&self) -> bool {
        self.words != WORDS
    }
}

fn message(model: &Model<'_>, request: &Value) -> Message {
    let names = || list(&request["tools"]).iter().filter_map(|t| t["function"]["name"].as_str());
    let tool = names().find(|name| *name != "respond").unwrap_or("get_weather");
    let is_nudged = is_nudged(list(&request["messages"]));
    let good = || Message::call(tool, pieces(PARIS));
    let words = || words(model.words);
    match model.kind {
        "respond" if names().any(|name| name == "respond") => Message::call("respond", long_argument("message", words())),
        "tool" if model.is_long() => Message::call(tool, long_argument("city", words())),
        "tool" => good(),
        "fence" | "hermes" | "mistral" | "qwenxml" => Message::text(pieces(&call_as_text(model.kind, tool))),
        "bare" | "unknown" | "badargs" if is_nudged => good(),
        "unknown" if model.is_long() => Message::call("no_such_tool", long_argument("city", words())),
        "unknown" => Message::call("no_such_tool", pieces(PARIS)),
        "badargs" => Message::call(tool, vec![r#"{"city": "#.into(), "Par".into()]),
        _ => Message::text(words()),
    }
}

fn call_as_text(form: &str, tool: &str) -> String {
    let json = format!(r#"{{"name": "{tool}", "arguments": {{"city": "Paris"}}}}"#);
    match form {
        "fence" => format!("Sure.\n```json\n{json}\n```"),
        "hermes" => format!("<tool_call>\n{json}\n</tool_call>"),
        "mistral" => format!(r#"[TOOL_CALLS]{tool}{{"city": "Paris"}}"#),
        _ => format!("<tool_call>\n<function={tool}>\n<parameter=city>\nParis\n</parameter>\n</function>\n</tool_call>"),
    }
}

/// The reply for this turn: turns are counted by the assistant messages after the first user's.
fn scripted(messages: &[Value]) -> Reply {
    let start = messages.iter().position(|message| message["role"] == "user").unwrap_or(0);
    let replies: Vec<Value> =
        messages.get(start).and_then(|message| serde_json::from_str(&content_text(&message["content"])).ok()).unwrap_or_default();
    let turn = messages.iter().skip(start).filter(|m| m["role"] == "assistant").count();
    let Some(reply) = replies.get(turn).or(replies.last()) else {
        return Reply::Message(Message::text(pieces("no script")));
    };
    match reply["status"].as_u64() {
        Some(code) => Reply::Status { code: u16::try_from(code).unwrap_or(500), body: reply["body"].clone() },
        None => Reply::Message(Message::from_turn(reply)),
    }
}

/// A nudge shows as an assistant turn that the client did not send, near the end.
fn is_nudged(messages: &[Value]) -> bool {
    messages.iter().rev().take(2).any(|message| message["role"] == "assistant")
}

fn content_text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        parts => list(parts).iter().filter_map(|part| part["text"].as_str()).collect(),
    }
}

/// One piece for each word, so that words in an argument take as long as words of content.
fn long_argument(key: &str, mut words: Vec<String>) -> Vec<String> {
    if let Some(first) = words.first_mut() {
        first.insert_str(0, &format!("{{\"{key}\":\""));
    }
    if let Some(last) = words.last_mut() {
        last.push_str("\"}");
    }
    words
}

/// Cuts a text into pieces about as long as tokens are.
fn pieces(text: &str) -> Vec<String> {
    let mut pieces = Vec::new();
    let mut piece = String::new();
    for c in text.chars() {
        piece.push(c);
        if piece.len() >= PIECE_BYTES {
            pieces.push(mem::take(&mut piece));
        }
    }
    if !piece.is_empty() {
        pieces.push(piece);
    }
    pieces
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// The length of a reply whose name gives none.
const WORDS: usize = 32;

const PIECE_BYTES: usize = 6;

const PARIS: &str = r#"{"city":"Paris"}"#;
