//! What the model is told when its reply was wrong: short, about this reply, ending in what to do now.

use super::{offer::Offer, respond};
use crate::chat::{Call, Message, report::Fault};

/// Names listed to the model; with more, the list in its prompt must do.
const NAMES_MAX: usize = 40;

/// How much of a text that the model is not to go on from is repeated to it.
const EXCERPT_BYTES: usize = 256;
/// A longer text is no slip: the model knows what it wrote from its beginning.
const TEXT_BYTES_MAX: usize = 4096;

/// After text where a call was due.
pub(super) fn for_text(text: &str, offer: &Offer, named: Option<&str>) -> Vec<Message> {
    let say = match named {
        Some(name) => format!("That was text, but a call of the tool `{name}` is needed. Call it now."),
        None => format!("That was text, but a tool call is needed. Call one of these tools now: {}.", names(offer)),
    };
    answered(beginning(text, TEXT_BYTES_MAX), say, offer)
}

/// After a reply that repeated itself. Only its beginning is told, lest the model goes on with it.
pub(super) fn for_repetition(text: &str, offer: &Offer, named: Option<&str>, text_is_welcome: bool) -> Vec<Message> {
    let say = match named {
        Some(name) => format!("That repeated itself without end. Call the tool `{name}` now, once."),
        None if text_is_welcome => "That repeated itself without end. Say it again in a few words.".to_owned(),
        None => format!("That repeated itself without end. Call one of these tools now, once: {}.", names(offer)),
    };
    answered(beginning(text, EXCERPT_BYTES), say, offer)
}

fn answered(text: String, mut say: String, offer: &Offer) -> Vec<Message> {
    if offer.responds {
        say.push_str(&format!(" To say something to the user, call `{}` with the text as `message`.", respond::NAME));
    }
    vec![Message::Assistant { content: text, calls: Vec::new() }, Message::User(say)]
}

fn beginning(text: &str, bytes_max: usize) -> String {
    match text.get(..text.floor_char_boundary(bytes_max)) {
        Some(beginning) if beginning.len() < text.len() => format!("{beginning} …"),
        _ => text.to_owned(),
    }
}

/// After calls of which at least one was wrong: one result for each, its complaint or, for a good one, that it was not run.
pub(super) fn for_calls(text: &str, calls: impl Iterator<Item = (Call, Option<Complaint>)>) -> Vec<Message> {
    let (mut made, mut results) = (Vec::new(), Vec::new());
    for (call, complaint) in calls {
        let content = complaint.map(Complaint::told).unwrap_or_else(|| {
            "Not run, because another call beside it was wrong. Fix the other call first and send this one again with it.".to_owned()
        });
        results.push(Message::Tool { call_id: call.id.clone(), content });
        made.push(as_history(call));
    }
    let mut messages = vec![Message::Assistant { content: text.to_owned(), calls: made }];
    messages.append(&mut results);
    messages
}

/// What is wrong with a call.
#[derive(Debug)]
pub(super) struct Complaint {
    pub(super) fault: Fault,
    /// The fault itself, for the report.
    pub(super) what: String,
    /// The tool whose arguments are wrong.
    pub(super) tool: Option<String>,
    /// What the model is to do about it.
    advice: String,
}

impl Complaint {
    /// About a call of a tool that was not offered.
    pub(super) fn unknown_tool(name: &str, offer: &Offer, named: Option<&str>) -> Self {
        let (what, advice) = match named {
            Some(named) => (format!("`{name}` cannot be called now"), format!("Call `{named}` instead.")),
            None => (format!("there is no tool `{name}`"), format!("Call one of these tools instead: {}.", names(offer))),
        };
        Self { fault: Fault::UnknownTool, what, tool: None, advice }
    }

    /// About arguments that are wrong in the way that `how` says.
    pub(super) fn arguments(name: &str, how: &str) -> Self {
        let what = format!("the arguments of `{name}` are wrong: {how}");
        Self {
            fault: Fault::Arguments,
            what,
            tool: Some(name.to_owned()),
            advice: format!("Call `{name}` again with corrected arguments."),
        }
    }

    fn told(self) -> String {
        format!("Error: {}. {}", self.what, self.advice)
    }
}

fn names(offer: &Offer) -> String {
    let mut names: Vec<_> = offer.tools.iter().take(NAMES_MAX).map(|tool| format!("`{}`", tool.name)).collect();
    if offer.tools.len() > NAMES_MAX {
        names.push("…".to_owned());
    }
    names.join(", ")
}

/// Servers parse the arguments in a transcript, and some fail on broken ones. What was written stands in the complaint.
fn as_history(call: Call) -> Call {
    let is_object = serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(&call.arguments).is_ok();
    if is_object { call } else { Call { arguments: "{}".to_owned(), ..call } }
}
