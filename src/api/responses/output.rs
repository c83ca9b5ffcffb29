//! The items of a response: reasoning, a message, calls. Each is written as it stands, begun or done.

use serde::Serialize;
use serde_json::{Value, value::RawValue};

use super::tools::{Kind, Tools};
use crate::chat::{Call, FinishReason, Reply, id};

/// One item of an answer.
#[derive(Debug)]
pub(super) enum Item {
    /// What the model thought.
    Reasoning {
        /// Its id.
        id: String,
        /// What it says so far.
        text: String,
        /// Where clients look for it.
        summary: bool,
    },
    /// What the user reads.
    Message {
        /// Its id.
        id: String,
        /// What it says so far.
        parts: Vec<Part>,
    },
    /// A call, in the form of its tool.
    Call {
        /// Its id, which is not the call's.
        id: String,
        /// The call as the model made it.
        call: Call,
        /// The form in which the client wants it.
        form: Form,
    },
}

/// A part of a message.
#[derive(Debug)]
pub(super) struct Part {
    /// Whether it is a refusal.
    pub(super) is_refusal: bool,
    /// What it says so far.
    pub(super) text: String,
    /// The log probabilities of its tokens.
    pub(super) logprobs: Vec<Box<RawValue>>,
}

/// How far an item has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Status {
    InProgress,
    Completed,
    /// It was cut off.
    Incomplete,
}

impl Status {
    /// Of what ends for `reason`.
    pub(super) fn at_the_end(reason: Option<FinishReason>) -> Self {
        match reason {
            Some(FinishReason::Length | FinishReason::ContentFilter) => Self::Incomplete,
            Some(FinishReason::Stop | FinishReason::ToolCalls) | None => Self::Completed,
        }
    }
}

/// The form of a call, and the client's name for the tool.
#[derive(Debug)]
pub(super) struct Form {
    kind: Kind,
    name: String,
    namespace: Option<String>,
}

impl Item {
    /// Reasoning that is about to come.
    pub(super) fn reasoning(summary: bool) -> Self {
        Self::Reasoning { id: id::mint("rs_"), text: String::new(), summary }
    }

    /// A message that is about to come.
    pub(super) fn message() -> Self {
        Self::Message { id: id::mint("msg_"), parts: Vec::new() }
    }

    /// `call`, in the form of its tool.
    pub(super) fn call(call: Call, tools: &Tools) -> Self {
        let form = match tools.seen_as(&call.name) {
            Some(tool) => Form { kind: tool.kind, name: tool.name.clone(), namespace: tool.namespace.clone() },
            // A tool that was not offered, with the guardrails off.
            None => Form { kind: Kind::Function, name: call.name.clone(), namespace: None },
        };
        let prefix = match form.kind {
            Kind::Function => "fc_",
            Kind::Custom => "ctc_",
            Kind::LocalShell => "lsh_",
        };
        Self::Call { id: id::mint(prefix), call, form }
    }

    /// Its id.
    pub(super) fn id(&self) -> &str {
        match self {
            Self::Reasoning { id, .. } | Self::Message { id, .. } | Self::Call { id, .. } => id,
        }
    }

    /// Whether it is a call.
    pub(super) fn is_call(&self) -> bool {
        matches!(self, Self::Call { .. })
    }

    /// As it is written. One that is in progress is written empty: what it says follows.
    pub(super) fn wire(&self, status: Status) -> Wire<'_> {
        let is_done = status != Status::InProgress;
        match self {
            Self::Reasoning { id, text, summary } => {
                let part = |kind: &'static str| vec![WirePart::plain(kind, text)];
                let (summary, content) = match summary {
                    _ if !is_done => (Vec::new(), None),
                    true => (part("summary_text"), None),
                    false => (Vec::new(), Some(part("reasoning_text"))),
                };
                Wire::Reasoning { id, summary, content }
            }
            Self::Message { id, parts } => {
                let content = parts.iter().filter(|_| is_done).map(Part::wire).collect();
                Wire::Message { id, status, role: "assistant", content }
            }
            Self::Call { id, call, form } => call_wire(id, call, form, status),
        }
    }
}

fn call_wire<'a>(id: &'a str, call: &'a Call, form: &'a Form, status: Status) -> Wire<'a> {
    let (call_id, name, namespace) = (call.id.as_str(), form.name.as_str(), form.namespace.as_deref());
    let is_done = status != Status::InProgress;
    let text = |text: String| if is_done { text } else { String::new() };
    match form.kind {
        Kind::Custom => Wire::CustomToolCall { id, status, call_id, name, namespace, input: text(free_text(&call.arguments)) },
        Kind::LocalShell => Wire::LocalShellCall { id, status, call_id, action: action(&call.arguments) },
        Kind::Function => {
            let arguments = if is_done { call.arguments.as_str() } else { "" };
            Wire::FunctionCall { id, status, call_id, name, namespace, arguments }
        }
    }
}

impl Form {
    /// Whether the call's arguments are shown as they come.
    pub(super) fn kind(&self) -> Kind {
        self.kind
    }
}

impl Part {
    /// A part that is about to come.
    pub(super) fn begin(is_refusal: bool) -> Self {
        Self { is_refusal, text: String::new(), logprobs: Vec::new() }
    }

    /// As it is written.
    pub(super) fn wire(&self) -> WirePart<'_> {
        if self.is_refusal {
            WirePart { refusal: Some(&self.text), ..WirePart::default("refusal") }
        } else {
            let logprobs = self.logprobs.iter().map(AsRef::as_ref).collect();
            WirePart { text: Some(&self.text), annotations: Some([]), logprobs: Some(logprobs), ..WirePart::default("output_text") }
        }
    }
}

/// The items of a whole reply.
pub(super) fn items(reply: &Reply, tools: &Tools, summary: bool) -> Vec<Item> {
    let mut items = Vec::with_capacity(reply.calls.len() + 2);
    if !reply.reasoning.is_empty() {
        items.push(Item::Reasoning { id: id::mint("rs_"), text: reply.reasoning.clone(), summary });
    }
    let mut parts = Vec::new();
    if !reply.content.is_empty() {
        let logprobs = reply.logprobs.iter().flat_map(|raw| entries(raw)).collect();
        parts.push(Part { is_refusal: false, text: reply.content.clone(), logprobs });
    }
    if !reply.refusal.is_empty() {
        parts.push(Part { is_refusal: true, text: reply.refusal.clone(), logprobs: Vec::new() });
    }
    if parts.is_empty() && says_nothing(reply.calls.is_empty(), reply.finish) {
        parts.push(Part::begin(false));
    }
    if !parts.is_empty() {
        items.push(Item::Message { id: id::mint("msg_"), parts });
    }
    items.extend(reply.calls.iter().map(|call| Item::call(call.clone(), tools)));
    items
}

/// Whether a reply without text is an empty answer, rather than one that was cut off before its text, or one that is calls.
pub(super) fn says_nothing(no_calls: bool, finish: Option<FinishReason>) -> bool {
    no_calls && Status::at_the_end(finish) == Status::Completed
}

/// The entries of a chat completion's `logprobs`.
pub(super) fn entries(raw: &RawValue) -> Vec<Box<RawValue>> {
    #[derive(serde::Deserialize)]
    struct Logprobs {
        #[serde(default)]
        content: Option<Vec<Box<RawValue>>>,
    }
    serde_json::from_str::<Logprobs>(raw.get()).ok().and_then(|logprobs| logprobs.content).unwrap_or_default()
}

/// The input of a custom tool in the arguments of its function. What is no such object is taken as the input itself.
pub(super) fn free_text(arguments: &str) -> String {
    match serde_json::from_str::<Value>(arguments) {
        Ok(Value::Object(mut fields)) => match fields.remove("input") {
            Some(Value::String(input)) => input,
            _ => arguments.to_owned(),
        },
        Ok(Value::String(input)) => input,
        _ => arguments.to_owned(),
    }
}

/// The action of a local shell's call.
fn action(arguments: &str) -> Action {
    let mut arguments: Value = serde_json::from_str(arguments).unwrap_or_default();
    let command = match arguments.get_mut("command").map(Value::take) {
        Some(Value::Array(words)) => words.into_iter().map(|word| word.as_str().map_or_else(|| word.to_string(), str::to_owned)).collect(),
        // With the guardrails off, a model may write a line for the shell.
        Some(Value::String(line)) => vec!["bash".to_owned(), "-lc".to_owned(), line],
        _ => Vec::new(),
    };
    let working_directory = arguments.get("working_directory").and_then(Value::as_str).map(str::to_owned);
    let timeout_ms = arguments.get("timeout_ms").and_then(Value::as_u64);
    Action { kind: "exec", command, env: serde_json::Map::new(), working_directory, timeout_ms }
}

/// An item on the wire.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Wire<'a> {
    Reasoning {
        id: &'a str,
        summary: Vec<WirePart<'a>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        content: Option<Vec<WirePart<'a>>>,
    },
    Message {
        id: &'a str,
        status: Status,
        role: &'static str,
        content: Vec<WirePart<'a>>,
    },
    FunctionCall {
        id: &'a str,
        status: Status,
        call_id: &'a str,
        name: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        namespace: Option<&'a str>,
        arguments: &'a str,
    },
    CustomToolCall {
        id: &'a str,
        status: Status,
        call_id: &'a str,
        name: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        namespace: Option<&'a str>,
        input: String,
    },
    LocalShellCall {
        id: &'a str,
        status: Status,
        call_id: &'a str,
        action: Action,
    },
}

/// A part of an item on the wire.
#[derive(Serialize)]
pub(super) struct WirePart<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    refusal: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    annotations: Option<[(); 0]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    logprobs: Option<Vec<&'a RawValue>>,
}

impl<'a> WirePart<'a> {
    fn default(kind: &'static str) -> Self {
        Self { kind, text: None, refusal: None, annotations: None, logprobs: None }
    }

    /// A part that is a text and no more.
    pub(super) fn plain(kind: &'static str, text: &'a str) -> Self {
        Self { text: Some(text), ..Self::default(kind) }
    }
}

/// What a local shell shall do.
#[derive(Serialize)]
pub(super) struct Action {
    #[serde(rename = "type")]
    kind: &'static str,
    command: Vec<String>,
    env: serde_json::Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    working_directory: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout_ms: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_text_is_read_wherever_it_can_only_be() {
        let check = |arguments: &str, expected: &str| assert_eq!(free_text(arguments), expected, "{arguments}");
        check(r#"{"input":"a\nb"}"#, "a\nb");
        check(r#""a""#, "a");
        check(r#"{"input":3}"#, r#"{"input":3}"#);
        check("*** Begin Patch", "*** Begin Patch");
        check("", "");
    }

    #[test]
    fn a_command_is_an_action() {
        let check = |arguments: &str, expected: &str| assert_eq!(serde_json::to_string(&action(arguments)).unwrap(), expected);
        check(
            r#"{"command":["ls","-l"],"working_directory":"/","timeout_ms":5}"#,
            r#"{"type":"exec","command":["ls","-l"],"env":{},"working_directory":"/","timeout_ms":5}"#,
        );
        check(r#"{"command":"ls -l"}"#, r#"{"type":"exec","command":["bash","-lc","ls -l"],"env":{}}"#);
        check("{", r#"{"type":"exec","command":[],"env":{}}"#);
    }
}
