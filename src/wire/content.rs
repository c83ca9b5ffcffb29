//! The content of a message in OpenAI's form, as JSON: a text, or a list of typed parts.

use super::object::{array, elements};

/// The contents that say nothing.
pub const NOTHING: [&str; 3] = ["null", "\"\"", "[]"];

/// Contents as one, in order and a blank line apart. Each is a text or a list of parts; those that say nothing are left out.
pub fn joined<'c>(contents: impl IntoIterator<Item = &'c str>) -> String {
    let contents: Vec<&str> = contents.into_iter().filter(|content| !NOTHING.contains(content)).collect();
    let texts: Option<Vec<&str>> = contents.iter().map(|content| string_body(content)).collect();
    match (texts, contents.as_slice()) {
        (_, [only]) => (*only).to_owned(),
        (Some(texts), _) => format!("\"{}\"", texts.join("\\n\\n")),
        (None, _) => array(contents.into_iter().flat_map(as_parts).collect::<Vec<_>>().iter().map(String::as_str)),
    }
}

/// A part that holds a JSON string.
pub fn text_part(text: &str) -> String {
    format!(r#"{{"type":"text","text":{text}}}"#)
}

/// What stands between the quotes of a JSON string; `None` for a list of parts.
pub fn string_body(json: &str) -> Option<&str> {
    json.strip_prefix('"')?.strip_suffix('"')
}

fn as_parts(content: &str) -> Vec<String> {
    elements(content).map_or_else(|| vec![text_part(content)], |parts| parts.into_iter().map(str::to_owned).collect())
}
