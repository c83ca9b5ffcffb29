//! Whether the model may, must or must not call, from one turn to the next.

use bytes::Bytes;
use serde_json::Value;

use crate::chat::{Request, ToolChoice};

/// Puts `choice` in the place of what the client asked.
pub(super) fn choose(request: &mut Request, choice: ToolChoice, json: &'static str) {
    request.tool_choice = choice;
    request.set_field("tool_choice", Bytes::from_static(json.as_bytes()));
}

/// What was required was done: required again, it would be done for ever.
pub(super) fn relax(request: &mut Request) {
    match request.tool_choice {
        ToolChoice::Required | ToolChoice::Named(_) => choose(request, ToolChoice::Auto, "\"auto\""),
        ToolChoice::Other => {
            let given = request.field("tool_choice").and_then(|json| serde_json::from_slice::<Value>(json).ok());
            if let Some(eased) = given.and_then(eased) {
                request.set_field("tool_choice", eased.to_string().into());
            }
        }
        ToolChoice::Auto | ToolChoice::None => {}
    }
}

/// A choice among some tools of which one is due, with none due; `None` where none is.
fn eased(mut choice: Value) -> Option<Value> {
    let mode = choice.pointer_mut("/allowed_tools/mode").filter(|mode| **mode == "required")?;
    *mode = "auto".into();
    Some(choice)
}
