//! The content of one message: OpenAI's text or parts as blocks. Blank texts are left out, since the API refuses them.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::refuse::invalid;
use crate::{
    backend::Error,
    wire::{
        anthropic::request::{Block, Made, Source},
        text::Text,
    },
};

/// A part of a content, as far as it can be sent on.
#[derive(Deserialize)]
struct Part<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Option<Text<'a>>,
    #[serde(borrow, default)]
    text: Option<Text<'a>>,
    #[serde(borrow, default)]
    refusal: Option<Text<'a>>,
    #[serde(borrow, default)]
    image_url: Option<Image<'a>>,
    #[serde(borrow, default)]
    file: Option<File<'a>>,
}

#[derive(Deserialize)]
struct Image<'a> {
    #[serde(borrow)]
    url: Text<'a>,
}

#[derive(Deserialize)]
struct File<'a> {
    #[serde(borrow, default)]
    file_data: Option<Text<'a>>,
    #[serde(borrow, default)]
    filename: Option<Text<'a>>,
}

/// The blocks of `content`, which is a string, a list of parts, or nothing.
pub(super) fn blocks(content: Option<&RawValue>) -> Result<Vec<Block<'_>>, Error> {
    let written = content.map_or("null", RawValue::get);
    match written.as_bytes().first() {
        Some(b'"') => Ok(text(decoded(written)?).into_iter().collect()),
        Some(b'[') => {
            let parts: Vec<Part<'_>> = serde_json::from_str(written).map_err(|_| invalid("messages", "A content has a broken part."))?;
            let blocks: Result<Vec<Option<Block<'_>>>, Error> = parts.into_iter().map(block).collect();
            Ok(blocks?.into_iter().flatten().collect())
        }
        _ if written == "null" => Ok(Vec::new()),
        _ => Err(invalid("messages", "A content is neither text nor a list of parts.")),
    }
}

/// A block of `text`, unless it is blank.
pub(super) fn text<'a>(text: impl Into<Cow<'a, str>>) -> Option<Block<'a>> {
    let text = text.into();
    (!text.trim().is_empty()).then(|| Block::text(text))
}

fn decoded(written: &str) -> Result<Cow<'_, str>, Error> {
    serde_json::from_str::<Text<'_>>(written).map(|text| text.0).map_err(|_| invalid("messages", "A content is no text."))
}

fn block(part: Part<'_>) -> Result<Option<Block<'_>>, Error> {
    let Part { kind, text: words, refusal, image_url, file } = part;
    match kind.as_ref().map_or("", |kind| kind.0.as_ref()) {
        "" | "text" | "input_text" | "output_text" => words.map(|words| text(words.0)).ok_or_else(lacking),
        "refusal" => refusal.map(|words| text(words.0)).ok_or_else(lacking),
        "image_url" => source(image_url.ok_or_else(lacking)?.url.0).map(image_block),
        "file" => document(file.ok_or_else(lacking)?).map(Some),
        kind => Err(invalid("messages", format!("The backend takes no part of type `{kind}`."))),
    }
}

fn lacking() -> Error {
    invalid("messages", "A part of a content lacks what its type says.")
}

fn image_block(source: Source<'_>) -> Option<Block<'_>> {
    Some(Block::Made(Made::Image { source, cache_control: None }))
}

fn source(url: Cow<'_, str>) -> Result<Source<'_>, Error> {
    if url.starts_with("data:") {
        return base64(&url).ok_or_else(|| invalid("messages", "The data of an image is not in base64."));
    }
    let is_web = ["https://", "http://"].iter().any(|scheme| url.starts_with(scheme));
    if is_web { Ok(Source::Url { url }) } else { Err(invalid("messages", "An image is at no web address.")) }
}

fn document(file: File<'_>) -> Result<Block<'_>, Error> {
    let source = file.file_data.and_then(|data| base64(&data.0));
    match source {
        Some(source) if matches!(&source, Source::Base64 { media_type, .. } if media_type == "application/pdf") => {
            Ok(Block::Made(Made::Document { source, title: file.filename.map(|name| name.0), cache_control: None }))
        }
        _ => Err(invalid("messages", "The backend takes only files that are PDFs and come with the request, in base64.")),
    }
}

/// What a `data:` URL holds.
fn base64(url: &str) -> Option<Source<'static>> {
    let (head, data) = url.strip_prefix("data:")?.split_once(";base64,")?;
    // Parameters such as a charset say nothing about a picture.
    let media_type = head.split(';').next().unwrap_or_default();
    Some(Source::Base64 { media_type: media_type.to_owned().into(), data: data.to_owned().into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(content: &str, expected: &str) {
        let raw = RawValue::from_string(content.to_owned()).unwrap();
        let blocks = blocks(Some(&raw)).map_err(|error| error.to_string());
        let written = blocks.map(|blocks| serde_json::to_string(&blocks).unwrap()).unwrap_or_else(|error| error);
        assert_eq!(written, expected, "{content}");
    }

    #[test]
    fn parts_become_blocks() {
        check("null", "[]");
        check(r#""caf\u00e9""#, r#"[{"type":"text","text":"café"}]"#);
        check(r#"" \n""#, "[]");
        check(r#"[{"type":"text","text":"a"},{"type":"text","text":""}]"#, r#"[{"type":"text","text":"a"}]"#);
        check(r#"[{"type":"refusal","refusal":"no"}]"#, r#"[{"type":"text","text":"no"}]"#);
        check(
            r#"[{"type":"image_url","image_url":{"url":"https://h/x.png","detail":"low"}}]"#,
            r#"[{"type":"image","source":{"type":"url","url":"https://h/x.png"}}]"#,
        );
        check(
            r#"[{"type":"image_url","image_url":{"url":"data:image/png;charset=x;base64,aGk="}}]"#,
            r#"[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"aGk="}}]"#,
        );
        check(
            r#"[{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,aGk="}}]"#,
            r#"[{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"aGk="},"title":"a.pdf"}]"#,
        );
    }

    #[test]
    fn what_cannot_be_sent_on_is_refused() {
        for content in [
            "7",
            "{}",
            "[7]",
            r#"[{"type":"text"}]"#,
            r#"[{"type":"input_audio","input_audio":{}}]"#,
            r#"[{"type":"file","file":{"file_id":"f1"}}]"#,
            r#"[{"type":"file","file":{"file_data":"data:text/csv;base64,aGk="}}]"#,
            r#"[{"type":"image_url","image_url":{"url":"file:///etc/passwd"}}]"#,
            r#"[{"type":"image_url","image_url":{"url":"data:image/png,raw"}}]"#,
        ] {
            check(content, "backend answered 400");
        }
    }
}
