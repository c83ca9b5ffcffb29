//! Ollama's refusals in words that say what to do, with codes that a program can go by.
//!
//! Source: `server/routes.go`, `server/images.go`, `server/sched.go` and `llm/server.go` of Ollama 0.17.4.

use crate::backend::{Error, Refusal};

/// `error` as it is told to the client; `model` is the name that was asked for. What is not known keeps Ollama's words.
pub(super) fn explained(error: Error, model: &str) -> Error {
    let Error::Status(mut refusal) = error else { return error };
    let said = refusal.body.message.take().unwrap_or_default();
    let reason = reason(refusal.status, &said);
    refusal.body.message = match reason {
        Reason::Unknown if said.is_empty() => None,
        Reason::Unknown => Some(said),
        _ => Some(reason.sentence(model, &said)),
    };
    if let Some((code, param)) = reason.code() {
        refusal.body.code = Some(code.to_owned());
        refusal.body.param = param.map(str::to_owned);
    }
    if matches!(reason, Reason::Form) {
        // The request is at fault, not the server.
        refusal.status = 400;
    }
    Error::Status(refusal)
}

/// Whether `error` says that the model takes no level of thinking by that name.
pub(super) fn is_about_think_level(error: &Error) -> bool {
    let Error::Status(refusal) = error else { return false };
    let Refusal { status: 400, body, .. } = &**refusal else { return false };
    body.message.as_deref().is_some_and(|said| said.contains("think value"))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reason {
    NoModelNamed,
    NoSuchModel,
    NoTools,
    NoThinking,
    NoChat,
    Tools,
    Form,
    TooLong,
    Busy,
    NotLoaded,
    Unknown,
}

fn reason(status: u16, said: &str) -> Reason {
    let lower = said.to_ascii_lowercase();
    let says = |phrases: &[&str]| phrases.iter().any(|phrase| lower.contains(phrase));
    match status {
        404 => Reason::NoSuchModel,
        400 if says(&["model is required"]) => Reason::NoModelNamed,
        400 if says(&["does not support"]) && says(&["support tools", "\ntools"]) => Reason::NoTools,
        400 if says(&["does not support"]) && says(&["thinking"]) => Reason::NoThinking,
        400 if says(&["does not support chat", "does not support completion", "does not support generate"]) => Reason::NoChat,
        // Ollama reads the schemas into structures of its own, which have no room for all that a schema may say.
        400 if says(&["cannot unmarshal"]) && says(&[".tools"]) => Reason::Tools,
        400 | 413 | 500 if says(&["exceeds the context", "exceeds the available context", "input length exceeds"]) => Reason::TooLong,
        400 | 500 | 502 if says(&GRAMMAR) => Reason::Form,
        503 if says(&["server busy", "maximum pending requests"]) => Reason::Busy,
        500 | 502 | 503 if says(&LOADING) => Reason::NotLoaded,
        _ => Reason::Unknown,
    }
}

/// What Ollama says about a `format` that it cannot hold a model to.
const GRAMMAR: [&str; 5] = [
    "invalid json schema in format",
    "invalid format:",
    "required for format",
    "failed to parse grammar",
    "unable to create sampling context",
];

/// What it says when a model does not get or does not stay into memory.
const LOADING: [&str; 12] = [
    "requires more system memory",
    "failed to allocate memory",
    "failed to commit memory",
    "memory layout cannot be allocated",
    "out of memory",
    "resource limitations",
    "error starting runner",
    "error loading model",
    "unable to load model",
    "runner process has terminated",
    "runner process no longer running",
    "waiting for llama runner",
];

impl Reason {
    fn sentence(self, model: &str, said: &str) -> String {
        match self {
            Self::NoModelNamed => "The request names no model, and Ollama has no default: set `model`.".to_owned(),
            Self::NoSuchModel => {
                format!("Ollama has no model `{model}`: `ollama pull {model}` gets it, `ollama list` shows which ones there are.")
            }
            Self::NoTools => format!(
                "Ollama gives `{model}` no tools, since its template has no place for them: set tools = \"prompt\" for this backend, \
                 so that they go into the prompt, or use a model that `ollama show` lists with the capability `tools`."
            ),
            Self::NoThinking => {
                format!("`{model}` cannot think: leave out `think` and `reasoning_effort`, or use a model with the capability `thinking`.")
            }
            Self::NoChat => format!(
                "`{model}` does not chat, as models for embeddings do not: use one that `ollama show` lists with the capability `completion`."
            ),
            Self::Tools => format!("Ollama cannot read the JSON schema of a tool: {said}."),
            Self::Form => format!("Ollama cannot make a grammar of the form that the reply is to have: {said}."),
            Self::TooLong => format!("The prompt does not fit the context of `{model}`: {said}."),
            Self::Busy => "Ollama's queue is full: try again later, or set OLLAMA_MAX_QUEUE higher.".to_owned(),
            Self::NotLoaded => {
                format!(
                    "Ollama could not load `{model}` or keep it loaded: {said}. A smaller model, or a smaller num_ctx, takes less memory."
                )
            }
            Self::Unknown => said.to_owned(),
        }
    }

    /// The code, and the field that is at fault.
    fn code(self) -> Option<(&'static str, Option<&'static str>)> {
        match self {
            Self::NoModelNamed | Self::NoSuchModel => Some(("model_not_found", Some("model"))),
            Self::NoTools => Some(("tools_not_supported", Some("tools"))),
            Self::NoThinking => Some(("thinking_not_supported", Some("think"))),
            Self::NoChat => Some(("chat_not_supported", Some("model"))),
            Self::Tools => Some(("invalid_tools", Some("tools"))),
            Self::Form => Some(("invalid_format", Some("response_format"))),
            Self::TooLong => Some(("context_length_exceeded", Some("messages"))),
            Self::Busy => Some(("backend_busy", None)),
            Self::NotLoaded => Some(("model_not_loaded", None)),
            Self::Unknown => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::openai::ErrorBody;

    fn refused(status: u16, said: &str) -> Box<Refusal> {
        let body = ErrorBody { message: Some(said.to_owned()), ..ErrorBody::default() };
        match explained(Error::Status(Box::new(Refusal { status, body, retry_after: None })), "tiny") {
            Error::Status(refusal) => refusal,
            other => panic!("{other}"),
        }
    }

    #[test]
    fn refusals_say_what_to_do() {
        let check = |status: u16, said: &str, code: Option<&str>, part: &str| {
            let refusal = refused(status, said);
            assert_eq!(refusal.body.code.as_deref(), code, "{said}");
            assert!(refusal.body.message.as_deref().is_some_and(|message| message.contains(part)), "{:?}", refusal.body.message);
        };
        check(404, "model 'tiny' not found", Some("model_not_found"), "`ollama pull tiny`");
        check(400, "model is required", Some("model_not_found"), "set `model`");
        check(400, "registry.ollama.ai/library/tiny:latest does not support tools", Some("tools_not_supported"), "tools = \"prompt\"");
        check(400, "tiny does not support insert\ntools", Some("tools_not_supported"), "`tiny`");
        check(400, "\"tiny\" does not support thinking", Some("thinking_not_supported"), "`reasoning_effort`");
        check(400, "\"tiny\" does not support chat", Some("chat_not_supported"), "embeddings");
        check(
            400,
            "json: cannot unmarshal bool into Go struct field ToolFunctionParameters.tools.function.parameters.properties of type api.ToolProperty",
            Some("invalid_tools"),
            "JSON schema",
        );
        check(500, "the input length exceeds the context length", Some("context_length_exceeded"), "does not fit");
        check(503, "server busy, please try again.  maximum pending requests exceeded", Some("backend_busy"), "OLLAMA_MAX_QUEUE");
        check(500, "model requires more system memory (9.1 GiB) than is available (2.0 GiB)", Some("model_not_loaded"), "9.1 GiB");
        check(500, "llama runner process has terminated: exit status 2", Some("model_not_loaded"), "exit status 2");
        check(500, "something else", None, "something else");
        check(400, "does not support this", None, "does not support this");
    }

    #[test]
    fn a_form_that_cannot_be_held_is_the_requests_fault() {
        for said in ["invalid JSON schema in format", "invalid format: \"7\"; expected \"json\" or a valid JSON Schema object"] {
            let refusal = refused(500, said);
            assert_eq!((refusal.status, refusal.body.code.as_deref()), (400, Some("invalid_format")));
            assert!(refusal.body.message.as_deref().is_some_and(|message| message.contains("grammar") && message.contains(said)));
        }
    }

    #[test]
    fn levels_of_thinking_are_told_from_thinking_at_all() {
        let check = |status: u16, said: &str, expected: bool| {
            let body = ErrorBody { message: Some(said.to_owned()), ..ErrorBody::default() };
            let error = Error::Status(Box::new(Refusal { status, body, retry_after: None }));
            assert_eq!(is_about_think_level(&error), expected, "{said}");
        };
        check(400, "think value \"low\" is not supported for this model", true);
        check(400, "invalid think value: \"max\" (must be \"high\", \"medium\", \"low\", true, or false)", true);
        check(400, "\"tiny\" does not support thinking", false);
        check(500, "think value", false);
    }
}
