//! What a tool answered.

use rmcp::model::{CallToolResponse, ContentBlock, ResourceContents};

use super::Error;

/// The result of a call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Output {
    /// What it says, in order.
    pub parts: Vec<Part>,
    /// Whether the tool says that it failed.
    pub is_error: bool,
}

/// One part of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Text.
    Text(String),
    /// An image.
    Image {
        /// Its media type.
        mime: String,
        /// Its bytes in base64.
        data: String,
    },
    /// Something that a model cannot read, in a few words.
    Note(String),
}

pub(super) fn read(response: CallToolResponse) -> Result<Output, Error> {
    let CallToolResponse::Complete(result) = response else {
        return Err(Error::Refused("the tool asks for more input, which nobody here can give".to_owned()));
    };
    let mut parts: Vec<Part> = result.content.into_iter().map(part).collect();
    // By the book, what is structured is also there as text.
    if parts.is_empty()
        && let Some(structured) = result.structured_content
    {
        parts.push(Part::Text(structured.to_string()));
    }
    Ok(Output { parts, is_error: result.is_error == Some(true) })
}

fn part(block: ContentBlock) -> Part {
    match block {
        ContentBlock::Text(text) => Part::Text(text.text),
        ContentBlock::Image(image) => Part::Image { mime: image.mime_type, data: image.data },
        ContentBlock::Audio(audio) => Part::Note(format!("audio, {}, {} bytes in base64", audio.mime_type, audio.data.len())),
        ContentBlock::Resource(embedded) => match embedded.resource {
            ResourceContents::TextResourceContents { uri, text, .. } => Part::Text(format!("[{uri}]\n{text}")),
            ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => Part::Note(format!(
                "resource {uri}, {}, {} bytes in base64",
                mime_type.as_deref().unwrap_or("of no stated type"),
                blob.len()
            )),
            _ => Part::Note("a resource of an unknown kind".to_owned()),
        },
        ContentBlock::ResourceLink(link) => Part::Note(format!("link to {} ({})", link.uri, link.name)),
        _ => Part::Note("content of an unknown kind".to_owned()),
    }
}

/// `text` on one line, cut where it is longer than `bytes_max`.
pub(super) fn clipped(text: &str, bytes_max: usize) -> String {
    let line: String = text.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if line.len() <= bytes_max {
        return line;
    }
    let head = line.get(..line.floor_char_boundary(bytes_max)).unwrap_or_default();
    format!("{head}…")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_one_short_line() {
        assert_eq!(clipped(" a\nb\r\n: c ", 20), "a b  : c");
        assert_eq!(clipped("ääää", 5), "ää…");
    }
}
