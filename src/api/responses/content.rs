//! What a message or a tool's result says, as a chat message's content: a text, or a list of typed parts.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::object::{Object, array, string};
use crate::{chat::Problem, wire::text::Text};

/// The content of a chat message for `raw`, a text or a list of parts. One part that is a text becomes the text itself, which every
/// chat template reads. Fails with a `param` below `at`.
pub(super) fn content(raw: &RawValue, at: &str) -> Result<String, Problem> {
    if raw.get().starts_with('"') {
        return Ok(raw.get().to_owned());
    }
    let parts: Vec<&RawValue> =
        serde_json::from_str(raw.get()).map_err(|_| Problem::invalid(at, format!("`{at}` must be a text or a list of parts.")))?;
    let parts: Vec<Part> = parts.iter().enumerate().map(|(index, raw)| part(raw, &format!("{at}[{index}]"))).collect::<Result<_, _>>()?;
    Ok(match parts.as_slice() {
        [] => "\"\"".to_owned(),
        [Part::Text(text)] => text.clone(),
        parts => array(parts.iter().map(Part::json)),
    })
}

/// The content of a tool's result. What is neither a text nor a list of parts is shown to the model as the JSON that it is.
pub(super) fn output(raw: &RawValue, at: &str) -> Result<String, Problem> {
    let is_list_of_parts =
        || serde_json::from_str::<Vec<WirePart<'_>>>(raw.get()).is_ok_and(|parts| parts.iter().all(|part| part.kind.is_some()));
    if raw.get().starts_with('"') || is_list_of_parts() { content(raw, at) } else { Ok(string(raw.get())) }
}

/// The texts in a list of parts, a blank line apart: a summary, or reasoning.
pub(super) fn texts(raw: Option<&RawValue>) -> String {
    let Some(raw) = raw else { return String::new() };
    if let Ok(text) = serde_json::from_str::<String>(raw.get()) {
        return text;
    }
    let parts: Vec<WirePart<'_>> = serde_json::from_str(raw.get()).unwrap_or_default();
    let texts = parts.into_iter().filter_map(|part| serde_json::from_str::<String>(part.text?.get()).ok());
    texts.filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n\n")
}

/// A part of a chat message.
enum Part {
    /// A JSON string.
    Text(String),
    /// A whole part of another type.
    Other(String),
}

impl Part {
    fn json(&self) -> String {
        match self {
            Self::Text(text) => Object::default().with("type", "\"text\"").with("text", text).json(),
            Self::Other(json) => json.clone(),
        }
    }
}

#[derive(Deserialize)]
struct WirePart<'a> {
    #[serde(borrow, rename = "type", default)]
    kind: Option<Text<'a>>,
    #[serde(borrow, default)]
    text: Option<&'a RawValue>,
    #[serde(borrow, default)]
    refusal: Option<&'a RawValue>,
    #[serde(borrow, default)]
    image_url: Option<&'a RawValue>,
    #[serde(borrow, default)]
    detail: Option<&'a RawValue>,
    #[serde(borrow, default)]
    file_data: Option<&'a RawValue>,
    #[serde(borrow, default)]
    filename: Option<&'a RawValue>,
    #[serde(borrow, default)]
    input_audio: Option<&'a RawValue>,
    #[serde(borrow, default)]
    file_id: Option<&'a RawValue>,
}

fn part(raw: &RawValue, at: &str) -> Result<Part, Problem> {
    let no_part = || Problem::invalid(at, format!("`{at}` is not a part of a message."));
    let part: WirePart<'_> = serde_json::from_str(raw.get()).map_err(|_| no_part())?;
    let kind = part.kind.as_ref().map_or("", |kind| kind.0.as_ref());
    let missing = |name: &str| Problem::invalid(format!("{at}.{name}"), format!("`{at}.{name}` is missing."));
    let text = |text: Option<&RawValue>, name: &str| {
        let text = text.map(RawValue::get).filter(|text| text.starts_with('"'));
        text.map(|text| Part::Text(text.to_owned())).ok_or_else(|| missing(name))
    };
    match kind {
        "input_text" | "output_text" | "text" | "summary_text" | "reasoning_text" => text(part.text, "text"),
        "refusal" => text(part.refusal, "refusal"),
        "input_image" | "input_file" if part.file_id.is_some() => {
            let at = format!("{at}.file_id");
            Err(Problem::invalid(at.clone(), format!("`{at}`: no files are stored here; send the data itself.")))
        }
        "input_image" => {
            let url = part.image_url.ok_or_else(|| missing("image_url"))?.get();
            let image = Object::default().with("url", url).with_some("detail", part.detail.map(RawValue::get));
            Ok(Part::Other(Object::default().with("type", "\"image_url\"").with("image_url", &image.json()).json()))
        }
        "input_file" => {
            let data = part.file_data.ok_or_else(|| missing("file_data"))?.get();
            let file = Object::default().with_some("filename", part.filename.map(RawValue::get)).with("file_data", data);
            Ok(Part::Other(Object::default().with("type", "\"file\"").with("file", &file.json()).json()))
        }
        "input_audio" => {
            let audio = part.input_audio.ok_or_else(|| missing("input_audio"))?.get();
            Ok(Part::Other(Object::default().with("type", "\"input_audio\"").with("input_audio", audio).json()))
        }
        _ => {
            let at = format!("{at}.type");
            Err(Problem::invalid(at.clone(), format!("`{at}` is `{kind}`, which is no known type of part.")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(json: &str) -> Box<RawValue> {
        RawValue::from_string(json.to_owned()).unwrap()
    }

    #[test]
    fn parts_become_the_parts_of_a_chat_message() {
        let check = |from: &str, to: &str| assert_eq!(content(&raw(from), "c").unwrap(), to, "{from}");
        check(r#""h\u00e9""#, r#""h\u00e9""#);
        check("[]", r#""""#);
        check(r#"[{"type":"input_text","text":"a\n"}]"#, r#""a\n""#);
        check(r#"[{"type":"output_text","text":"a","annotations":[]}]"#, r#""a""#);
        check(r#"[{"type":"refusal","refusal":"no"}]"#, r#""no""#);
        check(
            r#"[{"type":"input_text","text":"a"},{"type":"text","text":"b"}]"#,
            r#"[{"type":"text","text":"a"},{"type":"text","text":"b"}]"#,
        );
        check(
            r#"[{"type":"input_image","image_url":"data:x","detail":"low"}]"#,
            r#"[{"type":"image_url","image_url":{"url":"data:x","detail":"low"}}]"#,
        );
        check(
            r#"[{"type":"input_file","file_data":"data:y","filename":"y.pdf"}]"#,
            r#"[{"type":"file","file":{"filename":"y.pdf","file_data":"data:y"}}]"#,
        );
    }

    #[test]
    fn wrong_parts_are_named() {
        let check = |from: &str, param: &str, said: &str| {
            let problem = content(&raw(from), "input[0].content").unwrap_err();
            assert_eq!(problem.param.as_deref(), Some(param), "{from}");
            assert!(problem.message.contains(said), "{}", problem.message);
        };
        check("3", "input[0].content", "list of parts");
        check("[3]", "input[0].content[0]", "not a part");
        check("[{}]", "input[0].content[0].type", "no known type");
        check(r#"[{"type":"input_text"}]"#, "input[0].content[0].text", "missing");
        check(r#"[{"type":"input_text","text":3}]"#, "input[0].content[0].text", "missing");
        check(r#"[{"type":"input_image"}]"#, "input[0].content[0].image_url", "missing");
        check(r#"[{"type":"input_image","file_id":"f"}]"#, "input[0].content[0].file_id", "stored");
        check(r#"[{"type":"input_file","file_url":"u"}]"#, "input[0].content[0].file_data", "missing");
    }

    #[test]
    fn a_result_may_be_anything() {
        let check = |from: &str, to: &str| assert_eq!(output(&raw(from), "o").unwrap(), to, "{from}");
        check(r#""18 degrees""#, r#""18 degrees""#);
        check(r#"[{"type":"input_text","text":"a"}]"#, r#""a""#);
        check(r#"{"ok":true}"#, r#""{\"ok\":true}""#);
        check(r#"[1,2]"#, r#""[1,2]""#);
        check(r#"[{"a":1}]"#, r#""[{\"a\":1}]""#);
    }

    #[test]
    fn texts_of_reasoning_are_joined() {
        let check = |from: &str, to: &str| assert_eq!(texts(Some(&raw(from))), to, "{from}");
        check(r#"[{"type":"summary_text","text":"a"},{"text":"b"},{"text":""},{"x":1}]"#, "a\n\nb");
        check(r#""a""#, "a");
        check("3", "");
        assert_eq!(texts(None), "");
    }
}
