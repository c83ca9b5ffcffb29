//! What the model is told when its reply was wrong: short, about this reply, ending in what to do now.

use super::{offer::Offer, respond};
use crate::chat::{Call, Message, report::Fault};

/// Names listed to the model; with more, the list in its prompt must do.
const NAMES_MAX: usize = 40;

/// After text where a call was due.
pub(super) fn for_text(text: &str, offer: &Offer, named: Option<&str>) -> Vec<Message> {
    let mut say = match named {
        Some(name) => format!("That was text, but a call of the tool `{name}` is needed. Call it now."),
        None => format!("That was text, but a tool call is needed. Call one of these tools now: {}.", names(offer)),
    };
    if offer.responds {
        say.push_str(&format!(" To say something to the user, call `{}` with the text as `message`.", respond::NAME));
    }
    vec![Message::Assistant { content: text.to_owned(), calls: Vec::new() }, Message::User(say)]
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
        Self { fault: Fault::UnknownTool, what, advice }
    }

    /// About arguments that are wrong in the way that `how` says.
    pub(super) fn arguments(name: &str, how: &str) -> Self {
        let what = format!("the arguments of `{name}` are wrong: {how}");
        Self { fault: Fault::Arguments, what, advice: format!("Call `{name}` again with corrected arguments.") }
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
