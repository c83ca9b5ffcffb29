//! A tool's result as the model reads it: bounded, as text or as content parts.

use serde_json::json;

use super::{
    config::Images,
    mcp::{Output, Part},
};

/// The content of a tool message, as JSON: a string, or an array of content parts.
pub fn content(output: &Output, bytes_max: usize, images: Images) -> String {
    let mut text = String::new();
    let mut shown = Vec::new();
    for part in &output.parts {
        if !text.is_empty() {
            text.push('\n');
        }
        match part {
            Part::Text(said) => text.push_str(said),
            Part::Note(note) => text.push_str(&format!("[{note}]")),
            Part::Image { mime, data } if images == Images::Content && data.len() <= bytes_max => {
                text.push_str(&format!("[image, {mime}, below]"));
                shown.push(json!({"type": "image_url", "image_url": {"url": format!("data:{mime};base64,{data}")}}));
            }
            Part::Image { mime, data } => text.push_str(&format!("[image, {mime}, {} bytes in base64]", data.len())),
        }
    }
    let text = bounded(&text, bytes_max);
    if shown.is_empty() {
        return json!(text).to_string();
    }
    let mut parts = vec![json!({"type": "text", "text": text})];
    parts.extend(shown);
    json!(parts).to_string()
}

/// `text` with its middle left out where it is longer than `bytes_max`.
pub fn bounded(text: &str, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    let half = bytes_max / 2;
    let head = text.get(..text.floor_char_boundary(half)).unwrap_or_default();
    let tail = text.get(text.ceil_char_boundary(text.len() - half)..).unwrap_or_default();
    format!("{head}\n[… {} bytes left out …]\n{tail}", text.len() - head.len() - tail.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_keeps_its_head_and_tail() {
        assert_eq!(bounded("abc", 3), "abc");
        assert_eq!(bounded("abcdefghij", 4), "ab\n[… 6 bytes left out …]\nij");
        // Never within a character.
        assert_eq!(bounded("äöüß", 6), "ä\n[… 4 bytes left out …]\nß");
    }
}
