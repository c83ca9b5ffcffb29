//! A request body read: the message goes behind the turns before it, and what else there is goes to the model server as it is.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{
    api::openai::decode::not_an_object,
    chat::{Problem, Request, id},
    wire::fields,
};

/// Reads a request. Fails with a `param` where one field is to blame.
pub(super) fn request(body: &Bytes) -> Result<Request, Problem> {
    let given = fields::object(body).map_err(|error| not_an_object(body, &error))?;
    let mut request = Request::default();
    let (mut message, mut earlier) = (None, Vec::new());
    let mut passed = Vec::with_capacity(given.len() + 1);
    for (name, value) in &given {
        match name.as_str() {
            "message" => message = optional::<String>(name, value, "a text")?,
            "session_id" => request.session = session(value)?,
            "messages" => earlier = turns(value)?,
            "dry_run" => request.dry_run = optional(name, value, "a boolean")?.unwrap_or(false),
            name if REFUSED.contains(&name) => return Err(refused(name)),
            name => {
                if name == "model" {
                    // Of any other type, it is for the backend to complain.
                    request.model = serde_json::from_slice(value).unwrap_or_default();
                } else if name == "parallel_tool_calls" {
                    request.parallel_tool_calls = optional(name, value, "a boolean")?.unwrap_or(true);
                }
                passed.push((name.to_owned(), value.clone()));
            }
        }
    }
    let message = message.filter(|message| !message.trim().is_empty());
    let message = message.ok_or_else(|| {
        let missing = "`message` is missing: it is what the user says now.";
        Problem::invalid("message", missing).with_code("missing_required_parameter")
    })?;
    request.session.get_or_insert_with(|| id::mint("session_"));
    request.messages = with_message(&earlier, &message);
    passed.push(("messages".to_owned(), request.messages.clone()));
    request.fields = passed;
    Ok(request)
}

/// Fields that mean something to a chat completion and nothing here.
const REFUSED: [&str; 7] = ["tools", "tool_choice", "functions", "function_call", "n", "stream", "stream_options"];

/// A longer one is none: it is kept with the conversation and stands in each line of the trace.
const SESSION_BYTES_MAX: usize = 256;

fn refused(name: &str) -> Problem {
    let why = match name {
        "stream" | "stream_options" => "the path says how the answer comes: `/chat` or `/chat/stream`",
        "n" => "there is one answer",
        _ => "the tools are those that run here. For tools of your own, ask `/v1/chat/completions`",
    };
    Problem::invalid(name, format!("`{name}` is no field of this path: {why}.")).with_code("unsupported_parameter")
}

/// `value` as a `T`, `None` for null.
fn optional<'a, T: Deserialize<'a>>(name: &str, value: &'a [u8], expected: &str) -> Result<Option<T>, Problem> {
    serde_json::from_slice(value).map_err(|_| Problem::invalid(name, format!("`{name}` must be {expected}.")))
}

fn session(value: &[u8]) -> Result<Option<String>, Problem> {
    let session = optional::<String>("session_id", value, "a text")?.filter(|session| !session.is_empty());
    if session.as_ref().is_some_and(|session| session.len() > SESSION_BYTES_MAX) {
        return Err(Problem::invalid("session_id", format!("`session_id` must not exceed {SESSION_BYTES_MAX} bytes.")));
    }
    Ok(session)
}

/// The turns before the message, each as it was written.
fn turns(value: &[u8]) -> Result<Vec<&RawValue>, Problem> {
    let turns = optional::<Vec<&RawValue>>("messages", value, "a list of messages")?.unwrap_or_default();
    match turns.iter().position(|turn| !turn.get().starts_with('{')) {
        Some(at) => Err(Problem::invalid(format!("messages[{at}]"), format!("`messages[{at}]` is not a message object."))),
        None => Ok(turns),
    }
}

fn with_message(earlier: &[&RawValue], message: &str) -> Bytes {
    let said = serde_json::json!({"role": "user", "content": message}).to_string();
    let all: Vec<&str> = earlier.iter().map(|turn| turn.get()).chain([said.as_str()]).collect();
    format!("[{}]", all.join(",")).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str) -> Result<Request, Problem> {
        request(&Bytes::copy_from_slice(body.as_bytes()))
    }

    #[test]
    fn faults_are_named() {
        let check = |body: &str, param: Option<&str>, part: &str| {
            let problem = read(body).unwrap_err();
            assert_eq!(problem.param.as_deref(), param, "{body}");
            assert!(problem.message.contains(part), "{body}: {}", problem.message);
        };
        check("", None, "empty");
        check("[]", None, "must be a JSON object");
        check("{}", Some("message"), "missing");
        check(r#"{"message":" \n"}"#, Some("message"), "missing");
        check(r#"{"message":["a"]}"#, Some("message"), "a text");
        check(r#"{"message":"a","session_id":7}"#, Some("session_id"), "a text");
        check(&format!(r#"{{"message":"a","session_id":"{}"}}"#, "s".repeat(257)), Some("session_id"), "256");
        check(r#"{"message":"a","messages":{}}"#, Some("messages"), "a list");
        check(r#"{"message":"a","messages":[{},"b"]}"#, Some("messages[1]"), "not a message");
        check(r#"{"message":"a","dry_run":"yes"}"#, Some("dry_run"), "a boolean");
        check(r#"{"message":"a","tools":[]}"#, Some("tools"), "/v1/chat/completions");
        check(r#"{"message":"a","stream":true}"#, Some("stream"), "/chat/stream");
        check(r#"{"message":"a","n":2}"#, Some("n"), "one answer");
    }

    #[test]
    fn the_message_comes_last_and_what_was_before_keeps_its_bytes() {
        let request =
            read(r#"{"message":"and \"now\"?","messages":[ {"role" : "user","content":"é"} ],"temperature":1e-1,"model":"m"}"#).unwrap();
        assert_eq!(
            request.messages,
            r#"[{"role" : "user","content":"é"},{"content":"and \"now\"?","role":"user"}]"#
                .replace(r#"{"content":"and \"now\"?","role":"user"}"#, r#"{"role":"user","content":"and \"now\"?"}"#)
        );
        let fields: Vec<_> = request.fields.iter().map(|(name, value)| (name.as_str(), std::str::from_utf8(value).unwrap())).collect();
        assert_eq!(fields, [("temperature", "1e-1"), ("model", "\"m\""), ("messages", std::str::from_utf8(&request.messages).unwrap())]);
        assert_eq!(request.model, "m");
    }

    #[test]
    fn a_session_without_a_name_gets_one() {
        let session = |body: &str| read(body).unwrap().session.unwrap();
        assert_eq!(session(r#"{"message":"a","session_id":"mine"}"#), "mine");
        let (one, other) = (session(r#"{"message":"a"}"#), session(r#"{"message":"a","session_id":null}"#));
        assert!(one.starts_with("session_") && other.starts_with("session_") && one != other);
    }
}
