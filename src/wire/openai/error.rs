//! The sentence in an error answer, wherever a server puts it. Anything else in the body is not read, so that no raw body is ever shown.

use serde_json::Value;

/// The part of an error answer that a client may see.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ErrorBody {
    /// The sentence, `None` when the body holds none in a known place.
    pub message: Option<String>,
    /// OpenAI's `type`.
    pub kind: Option<String>,
    /// OpenAI's `param`.
    pub param: Option<String>,
    /// OpenAI's `code`, when it is a word.
    pub code: Option<String>,
    /// `code` when it is a number: some servers repeat the status there.
    pub status: Option<u16>,
}

/// Where a sentence stands, the likeliest place first: OpenAI's, FastAPI's (vLLM, SGLang, Mistral), and those of gateways.
const PLACES: [&str; 4] = ["message", "detail", "msg", "error"];
/// Messages in messages are followed so far: Mistral has a list of complaints in one.
const DEPTH_MAX: usize = 5;
/// A validator may complain about every field.
const COMPLAINTS_MAX: usize = 3;

impl ErrorBody {
    /// Reads `{"error":{…}}`, `{"error":"…"}`, `{"message":…}`, `{"detail":…}` with a sentence or a list of complaints, and any of them in
    /// a list of one, which is how Google wraps it.
    pub fn read(body: &[u8]) -> Self {
        let Ok(value) = serde_json::from_slice::<Value>(body) else { return Self::default() };
        let value = value.get(0).unwrap_or(&value);
        let error = value.get("error").filter(|error| !error.is_null()).unwrap_or(value);
        let text = |key: &str| error.get(key).and_then(Value::as_str).map(str::to_owned);
        Self {
            message: sentence(error, DEPTH_MAX),
            kind: text("type"),
            param: text("param"),
            code: text("code"),
            status: error.get("code").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok()),
        }
    }
}

fn sentence(value: &Value, depth: usize) -> Option<String> {
    let depth = depth.checked_sub(1)?;
    match value {
        Value::String(text) => Some(text.clone()).filter(|text| !text.trim().is_empty()),
        Value::Object(fields) => PLACES.iter().find_map(|place| sentence(fields.get(*place)?, depth)),
        Value::Array(list) => {
            let sentences: Vec<String> = list.iter().filter_map(|value| sentence(value, depth)).take(COMPLAINTS_MAX).collect();
            Some(sentences.join("; ")).filter(|joined| !joined.is_empty())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str) -> ErrorBody {
        ErrorBody::read(body.as_bytes())
    }

    #[test]
    fn reads_the_error_bodies_of_known_servers() {
        let llama = read(r#"{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}"#);
        assert_eq!((llama.message.as_deref(), llama.status), (Some("Loading model"), Some(503)));
        assert_eq!(read(r#"{"error":{"message":"m","code":"c","param":"p","type":"t"}}"#).code.as_deref(), Some("c"));
        let check = |body: &str, message: Option<&str>| assert_eq!(read(body).message.as_deref(), message, "{body}");
        check(r#"{"error":"model not found"}"#, Some("model not found"));
        check(r#"{"error":null,"message":"out of memory"}"#, Some("out of memory"));
        check(r#"{"detail":"no"}"#, Some("no"));
        check(r#"{"object":"error","message":"too long","type":"BadRequestError","param":null,"code":400}"#, Some("too long"));
        check(
            r#"{"detail":[{"type":"missing","loc":["body"],"msg":"Field required"},{"msg":"Too big"}]}"#,
            Some("Field required; Too big"),
        );
        check(r#"{"object":"error","message":{"detail":[{"msg":"Extra inputs"}]},"code":null}"#, Some("Extra inputs"));
        check(r#"[{"error":{"code":400,"message":"bad schema","status":"INVALID_ARGUMENT"}}]"#, Some("bad schema"));
        check(r#"{"error":{"message":" ","detail":"said here"}}"#, Some("said here"));
    }

    #[test]
    fn shows_nothing_of_what_it_does_not_know() {
        for body in ["<html>secret</html>", "[]", "3", r#"{"secret":"x"}"#, r#"{"error":{"secret":"x"}}"#, r#"{"message":7}"#] {
            assert_eq!(read(body), ErrorBody::default(), "{body}");
        }
        let deep = format!("{}\"secret\"{}", r#"{"error":"#.repeat(9), "}".repeat(9));
        assert_eq!(read(&deep).message, None);
    }
}
