//! The content of one message: the texts of its parts as one, its images apart.

use std::borrow::Cow;

use bytes::{BufMut, BytesMut};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::encode::put_json;
use crate::{backend::Error, wire::text::Text};

/// A content that Ollama can read.
#[derive(Debug)]
pub(super) struct Content<'a> {
    text: Said<'a>,
    /// Images in base64.
    pub(super) images: Vec<Cow<'a, str>>,
}

#[derive(Debug)]
enum Said<'a> {
    /// JSON as the client wrote it: a string, or what the server will complain about.
    Raw(&'a str),
    /// The texts of parts.
    Joined(String),
}

/// A part that Ollama cannot read.
#[derive(Debug)]
pub(super) struct Unreadable {
    /// Where it stands.
    place: String,
    /// What is wrong with it, as a sentence.
    message: String,
}

#[derive(Debug, Deserialize)]
struct Part<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Option<Text<'a>>,
    #[serde(borrow, default)]
    text: Option<Text<'a>>,
    #[serde(borrow, default)]
    refusal: Option<Text<'a>>,
    #[serde(borrow, default)]
    image_url: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
struct ImageUrl<'a> {
    #[serde(borrow)]
    url: Text<'a>,
}

impl<'a> Content<'a> {
    /// Reads a content: a string, a list of parts or nothing. Fails for a part that is neither text nor an image at hand.
    pub(super) fn read(raw: Option<&'a RawValue>) -> Result<Self, Unreadable> {
        let raw = raw.map_or("null", RawValue::get);
        let parts = match raw.as_bytes().first() {
            Some(b'[') => serde_json::from_str::<Vec<Part<'a>>>(raw).ok(),
            _ => None,
        };
        let Some(parts) = parts else {
            let text = if raw == "null" { "\"\"" } else { raw };
            return Ok(Self { text: Said::Raw(text), images: Vec::new() });
        };
        let mut texts: Vec<Cow<'a, str>> = Vec::new();
        let mut images = Vec::new();
        for (index, part) in parts.into_iter().enumerate() {
            let kind = part.kind.map_or(Cow::Borrowed("text"), |kind| kind.0);
            match (kind.as_ref(), part.text.or(part.refusal), part.image_url) {
                ("text" | "input_text" | "output_text" | "refusal", Some(text), _) => texts.push(text.0),
                ("image_url", _, Some(image)) => images.push(base64(image).map_err(|unreadable| unreadable.in_part(index))?),
                _ => return Err(Unreadable::kind(&kind).in_part(index)),
            }
        }
        Ok(Self { text: Said::Joined(texts.join("\n")), images })
    }

    /// Writes the text as JSON.
    pub(super) fn put_text(&self, json: &mut BytesMut) {
        match &self.text {
            Said::Raw(raw) => json.put_slice(raw.as_bytes()),
            Said::Joined(text) => put_json(json, text),
        }
    }
}

/// The image in a `data:` URL.
fn base64(image: &RawValue) -> Result<Cow<'_, str>, Unreadable> {
    let url = serde_json::from_str::<ImageUrl<'_>>(image.get()).map(|image| image.url);
    let url = url.or_else(|_| serde_json::from_str::<Text<'_>>(image.get())).map_err(|_| Unreadable::image("The image has no URL."))?.0;
    let is_data = url.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("data:"));
    let mark = is_data.then(|| url.find(BASE64)).flatten();
    let start = mark.map(|at| at + BASE64.len());
    match (url, start) {
        (Cow::Borrowed(url), Some(start)) => Ok(Cow::Borrowed(url.get(start..).unwrap_or_default())),
        (Cow::Owned(mut url), Some(start)) => Ok(Cow::Owned(url.split_off(start))),
        _ => Err(Unreadable::image("Ollama fetches no images: send the image itself, in a URL such as `data:image/png;base64,…`.")),
    }
}

const BASE64: &str = ";base64,";

impl Unreadable {
    fn image(message: &str) -> Self {
        Self { place: "image_url".to_owned(), message: message.to_owned() }
    }

    fn kind(kind: &str) -> Self {
        Self { place: "type".to_owned(), message: format!("Ollama reads texts and images, and no content part of type `{kind}`.") }
    }

    fn in_part(self, index: usize) -> Self {
        Self { place: format!("content[{index}].{}", self.place), ..self }
    }

    /// The same, seen from the request, as the error that it is.
    pub(super) fn in_message(self, index: usize) -> Error {
        Error::Unsupported { param: "messages", message: format!("messages[{index}].{}: {}", self.place, self.message) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(content: &str) -> Result<(String, Vec<String>), String> {
        let raw: &RawValue = serde_json::from_str(content).unwrap();
        let content = Content::read(Some(raw)).map_err(|unreadable| unreadable.place)?;
        let mut text = BytesMut::new();
        content.put_text(&mut text);
        Ok((String::from_utf8(text.to_vec()).unwrap(), content.images.iter().map(|image| image.clone().into_owned()).collect()))
    }

    #[test]
    fn parts_become_one_text_and_images() {
        let check = |content: &str, text: &str, images: &[&str]| {
            assert_eq!(read(content), Ok((text.to_owned(), images.iter().map(|image| (*image).to_owned()).collect())), "{content}");
        };
        check("\"a\"", "\"a\"", &[]);
        check("null", "\"\"", &[]);
        check("[]", "\"\"", &[]);
        check("7", "7", &[]);
        check("[7]", "[7]", &[]);
        check(r#"[{"type":"input_text","text":"a"},{"text":"b"},{"type":"refusal","refusal":"c"}]"#, r#""a\nb\nc""#, &[]);
        check(r#"[{"type":"image_url","image_url":{"url":"data:image/jpeg;base64,\/9j"}}]"#, "\"\"", &["/9j"]);
        check(r#"[{"type":"image_url","image_url":"DATA:;base64,AA=="}]"#, "\"\"", &["AA=="]);
    }

    #[test]
    fn what_is_not_at_hand_is_refused() {
        let check = |part: &str, param: &str| assert_eq!(read(&format!("[{part}]")), Err(param.to_owned()), "{part}");
        check(r#"{"type":"image_url","image_url":{"url":"http://x/y.png"}}"#, "content[0].image_url");
        check(r#"{"type":"image_url","image_url":{"url":"data:image/svg+xml,<svg>"}}"#, "content[0].image_url");
        check(r#"{"type":"image_url","image_url":7}"#, "content[0].image_url");
        check(r#"{"type":"image_url","image_url":{"url":"é"}}"#, "content[0].image_url");
        check(r#"{"type":"input_audio","input_audio":{"data":""}}"#, "content[0].type");
        check(r#"{"type":"text"}"#, "content[0].type");
    }
}
