//! The input as chat messages: what belongs to one turn of the assistant — reasoning, text, calls — becomes one message.

#[cfg(test)]
mod tests;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    content,
    object::{Object, array, string},
    tools::{Kind, Tools},
};
use crate::{chat::Problem, wire::text::Text};

/// The chat messages that `instructions` and `input` make. Fails with a `param` where one item is to blame.
pub(super) fn messages(instructions: Option<&str>, input: &RawValue, tools: &Tools) -> Result<String, Problem> {
    let mut transcript = Transcript { tools, messages: Vec::new(), reasoning: String::new(), turn: None };
    if let Some(instructions) = instructions {
        transcript.say("system", instructions);
    }
    if input.get().starts_with('"') {
        transcript.say("user", input.get());
        return Ok(array(transcript.messages));
    }
    let wrong = || Problem::invalid("input", "`input` must be a text or a list of items.");
    let items: Vec<&RawValue> = serde_json::from_str(input.get()).map_err(|_| wrong())?;
    for (index, raw) in items.into_iter().enumerate() {
        let at = format!("input[{index}]");
        let item = serde_json::from_str(raw.get()).map_err(|_| Problem::invalid(&at, format!("`{at}` is not an item.")))?;
        transcript.take(&item, &at)?;
    }
    transcript.end_turn();
    Ok(array(transcript.messages))
}

/// An item of any type.
#[derive(Deserialize)]
struct Item<'a> {
    #[serde(borrow, rename = "type", default)]
    kind: Option<Text<'a>>,
    #[serde(borrow, default)]
    role: Option<Text<'a>>,
    #[serde(borrow, default)]
    id: Option<Text<'a>>,
    #[serde(borrow, default)]
    call_id: Option<Text<'a>>,
    #[serde(borrow, default)]
    name: Option<Text<'a>>,
    #[serde(borrow, default)]
    namespace: Option<Text<'a>>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    summary: Option<&'a RawValue>,
    #[serde(borrow, default)]
    arguments: Option<&'a RawValue>,
    #[serde(borrow, default)]
    input: Option<&'a RawValue>,
    #[serde(borrow, default)]
    action: Option<&'a RawValue>,
    #[serde(borrow, default)]
    operation: Option<&'a RawValue>,
    #[serde(borrow, default)]
    code: Option<&'a RawValue>,
    #[serde(borrow, default)]
    output: Option<&'a RawValue>,
    #[serde(borrow, default)]
    outputs: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

/// The messages so far, and the assistant's turn that is not complete.
struct Transcript<'a> {
    tools: &'a Tools,
    messages: Vec<String>,
    /// Reasoning that belongs to what comes next.
    reasoning: String,
    turn: Option<Turn>,
}

/// A turn of the assistant. All of it is JSON but the reasoning.
#[derive(Default)]
struct Turn {
    reasoning: String,
    contents: Vec<String>,
    calls: Vec<String>,
}

/// A past call, as the model would have made it.
struct Call<'a> {
    id: &'a str,
    name: &'a str,
    /// The JSON of the arguments, not yet a string.
    arguments: String,
}

impl Transcript<'_> {
    fn take(&mut self, item: &Item<'_>, at: &str) -> Result<(), Problem> {
        let kind = item.kind.as_ref().map_or("", |kind| kind.0.as_ref());
        match kind {
            "" | "message" => self.message(item, at),
            "reasoning" => {
                let said = content::texts(item.content);
                join(&mut self.reasoning, &if said.is_empty() { content::texts(item.summary) } else { said });
                Ok(())
            }
            "function_call" | "custom_tool_call" | "local_shell_call" | "shell_call" | "apply_patch_call" => self.call(kind, item, at),
            "function_call_output"
            | "custom_tool_call_output"
            | "local_shell_call_output"
            | "shell_call_output"
            | "apply_patch_call_output" => self.result(item, at),
            "mcp_call" | "code_interpreter_call" => self.run_elsewhere(kind, item, at),
            "item_reference" => {
                Err(Problem::invalid(at, format!("`{at}` refers to an item by its id, but nothing is stored here: send the item itself.")))
            }
            kind if LEFT_OUT.contains(&kind) => {
                tracing::debug!(item = kind, "an item that no chat message can say is left out");
                Ok(())
            }
            unknown => {
                let at = format!("{at}.type");
                Err(Problem::invalid(at.clone(), format!("`{at}` is `{unknown}`, which is no known type of item.")))
            }
        }
    }

    fn message(&mut self, item: &Item<'_>, at: &str) -> Result<(), Problem> {
        let missing = |name: &str| Problem::invalid(format!("{at}.{name}"), format!("`{at}.{name}` is missing."));
        let role = item.role.as_ref().ok_or_else(|| missing(if item.kind.is_some() { "role" } else { "type" }))?.0.as_ref();
        let content = content::content(item.content.ok_or_else(|| missing("content"))?, &format!("{at}.content"))?;
        match role {
            "assistant" => self.answer(content),
            // Most chat templates know no `developer`.
            "system" | "developer" => self.say("system", &content),
            "user" => self.say("user", &content),
            unknown => {
                let at = format!("{at}.role");
                return Err(Problem::invalid(
                    at.clone(),
                    format!("`{at}` is `{unknown}`; it must be user, assistant, system or developer."),
                ));
            }
        }
        Ok(())
    }

    /// Text beside calls that have no results yet belongs to them, wherever it stands: results must follow their calls.
    fn answer(&mut self, content: String) {
        if self.turn.as_ref().is_some_and(|turn| turn.calls.is_empty()) {
            let reasoning = std::mem::take(&mut self.reasoning);
            self.end_turn();
            self.reasoning = reasoning;
        }
        self.turn().contents.push(content);
    }

    fn call(&mut self, kind: &str, item: &Item<'_>, at: &str) -> Result<(), Problem> {
        let name = item.name.as_ref().map(|name| name.0.as_ref());
        let namespace = item.namespace.as_ref().map(|namespace| namespace.0.as_ref());
        let id = call_id(item, at)?;
        let nameless = || Problem::invalid(format!("{at}.name"), format!("`{at}.name` is missing."));
        let (name, arguments) = match kind {
            "function_call" => (self.tools.seen_name(name.ok_or_else(nameless)?, namespace), as_text(item.arguments, "{}")),
            "custom_tool_call" => {
                let input = item.input.map_or_else(|| "\"\"".to_owned(), |raw| string(&as_text(Some(raw), "")));
                (self.tools.seen_name(name.ok_or_else(nameless)?, namespace), Object::default().with("input", &input).json())
            }
            "local_shell_call" => {
                let seen = self.tools.of_kind(Kind::LocalShell).map_or("local_shell", |tool| tool.seen.name.as_str());
                (seen, item.action.map_or_else(|| "{}".to_owned(), shell_arguments))
            }
            other => (other.trim_end_matches("_call"), as_text(item.action.or(item.operation), "{}")),
        };
        let call = Call { id, name, arguments }.json();
        self.turn().calls.push(call);
        Ok(())
    }

    fn result(&mut self, item: &Item<'_>, at: &str) -> Result<(), Problem> {
        let id = call_id(item, at)?;
        let said = item.output.map_or_else(|| Ok("\"\"".to_owned()), |raw| content::output(raw, &format!("{at}.output")))?;
        self.answer_call(id, &said);
        Ok(())
    }

    /// A call that a vendor's server ran, with its result in the same item.
    fn run_elsewhere(&mut self, kind: &str, item: &Item<'_>, at: &str) -> Result<(), Problem> {
        let id = call_id(item, at)?;
        let name = item.name.as_ref().map_or_else(|| kind.trim_end_matches("_call"), |name| name.0.as_ref());
        let code = || item.code.map_or_else(|| "{}".to_owned(), |code| Object::default().with("code", code.get()).json());
        let arguments = item.arguments.map_or_else(code, |raw| as_text(Some(raw), "{}"));
        let call = Call { id, name, arguments }.json();
        self.turn().calls.push(call);
        let said = item.output.or(item.outputs).or(item.error);
        let said = said.map_or_else(|| Ok("\"\"".to_owned()), |raw| content::output(raw, &format!("{at}.output")))?;
        self.answer_call(id, &said);
        Ok(())
    }

    fn answer_call(&mut self, id: &str, content: &str) {
        self.end_turn();
        let message = Object::default().with("role", "\"tool\"").with_text("tool_call_id", id).with("content", content);
        self.messages.push(message.json());
    }

    /// A message of another role than the assistant's.
    fn say(&mut self, role: &str, content: &str) {
        self.end_turn();
        self.messages.push(Object::default().with_text("role", role).with("content", content).json());
    }

    /// The assistant's turn, with the reasoning that led here.
    fn turn(&mut self) -> &mut Turn {
        let reasoning = std::mem::take(&mut self.reasoning);
        let turn = self.turn.get_or_insert_default();
        join(&mut turn.reasoning, &reasoning);
        turn
    }

    fn end_turn(&mut self) {
        if !self.reasoning.is_empty() {
            self.turn();
        }
        if let Some(turn) = self.turn.take() {
            self.messages.push(turn.json());
        }
    }
}

impl Turn {
    fn json(self) -> String {
        let content = match self.contents.as_slice() {
            // Some templates put the content before the calls as it is, and fail on null.
            [] => "\"\"".to_owned(),
            [only] => only.clone(),
            several => joined(several),
        };
        let reasoning = (!self.reasoning.is_empty()).then(|| string(&self.reasoning));
        let calls = (!self.calls.is_empty()).then(|| array(&self.calls));
        let message = Object::default().with("role", "\"assistant\"").with("content", &content);
        message.with_some("reasoning_content", reasoning.as_deref()).with_some("tool_calls", calls.as_deref()).json()
    }
}

impl Call<'_> {
    fn json(&self) -> String {
        let function = Object::default().with_text("name", self.name).with_text("arguments", &self.arguments).json();
        Object::default().with_text("id", self.id).with("type", "\"function\"").with("function", &function).json()
    }
}

/// The call that `item` makes or answers. A local shell's result names it in `id`.
fn call_id<'a>(item: &'a Item<'_>, at: &str) -> Result<&'a str, Problem> {
    let id = item.call_id.as_ref().or(item.id.as_ref()).map(|id| id.0.as_ref()).filter(|id| !id.is_empty());
    id.ok_or_else(|| Problem::invalid(format!("{at}.call_id"), format!("`{at}.call_id` is missing.")))
}

/// What the JSON string `raw` says, or the JSON itself where it is none.
fn as_text(raw: Option<&RawValue>, absent: &str) -> String {
    raw.map_or_else(|| absent.to_owned(), |raw| serde_json::from_str(raw.get()).unwrap_or_else(|_| raw.get().to_owned()))
}

/// The arguments that the model gave where a client's `action` says that it runs a command.
fn shell_arguments(action: &RawValue) -> String {
    #[derive(Deserialize)]
    struct Action<'a> {
        #[serde(borrow, default)]
        command: Option<&'a RawValue>,
        #[serde(borrow, default)]
        working_directory: Option<&'a RawValue>,
        #[serde(borrow, default)]
        timeout_ms: Option<&'a RawValue>,
    }
    let Ok(action) = serde_json::from_str::<Action<'_>>(action.get()) else { return action.get().to_owned() };
    let arguments = Object::default().with_some("command", action.command.map(RawValue::get));
    let arguments = arguments.with_some("working_directory", action.working_directory.map(RawValue::get));
    arguments.with_some("timeout_ms", action.timeout_ms.map(RawValue::get)).json()
}

/// Contents, texts or lists of parts, as one list of parts.
fn joined(contents: &[String]) -> String {
    let part = |text: &String| Object::default().with("type", "\"text\"").with("text", text).json();
    let parts = contents.iter().flat_map(|content| match serde_json::from_str::<Vec<&RawValue>>(content) {
        Ok(parts) => parts.into_iter().map(|part| part.get().to_owned()).collect(),
        Err(_) => vec![part(content)],
    });
    array(parts)
}

fn join(text: &mut String, more: &str) {
    if !text.is_empty() && !more.is_empty() {
        text.push_str("\n\n");
    }
    text.push_str(more);
}

/// Items that hold nothing a model could read as a message: calls whose results only the vendor's server saw, lists of tools, consent
/// and what is encrypted.
const LEFT_OUT: [&str; 17] = [
    "web_search_call",
    "file_search_call",
    "image_generation_call",
    "computer_call",
    "computer_call_output",
    "tool_search_call",
    "tool_search_output",
    "additional_tools",
    "mcp_list_tools",
    "mcp_approval_request",
    "mcp_approval_response",
    "compaction",
    "compaction_summary",
    "compaction_trigger",
    "context_compaction",
    "program",
    "program_output",
];
