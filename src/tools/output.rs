//! A tool's result as the model reads it: bounded, as text or as content parts.

use serde_json::{Value, json};

use super::{
    config::Images,
    mcp::{Output, Part},
};

/// How many images of one result are shown. More fill the context of any model that can see.
const IMAGES_MAX: usize = 8;
/// How long they may be together, in base64: a few screenshots.
const IMAGES_BYTES_MAX: usize = 4 << 20;
/// How long the note about what was left out may be: its words and a number of any length.
const NOTE_BYTES_MAX: usize = 48;

/// The content of a tool message, as JSON: a string, or an array of content parts. `preface` stands in front.
pub fn content(output: &Output, preface: Option<&str>, bytes_max: usize, images: Images) -> String {
    let mut shown = Vec::new();
    let said = said(output, images, &mut shown);
    let text = bounded(&said, bytes_max);
    let text = preface.map_or_else(|| text.clone(), |preface| format!("{preface}\n{text}"));
    if shown.is_empty() {
        return json!(text).to_string();
    }
    let mut parts = vec![json!({"type": "text", "text": text})];
    parts.extend(shown);
    json!(parts).to_string()
}

/// What the result says in words, in whole, images as notes.
pub fn words(output: &Output) -> String {
    said(output, Images::Note, &mut Vec::new())
}

/// What the result says in words, in whole; images that are to be shown beside it go to `shown`.
fn said(output: &Output, images: Images, shown: &mut Vec<Value>) -> String {
    let mut room = if images == Images::Content { IMAGES_BYTES_MAX } else { 0 };
    let mut lines: Vec<String> = Vec::with_capacity(output.parts.len() + 1);
    if output.is_error {
        lines.push("The tool reports an error:".to_owned());
    }
    for part in &output.parts {
        lines.push(match part {
            Part::Text(said) => said.clone(),
            Part::Note(note) => format!("[{note}]"),
            Part::Image { mime, data } if data.len() <= room && shown.len() < IMAGES_MAX && is_image(mime, data) => {
                room -= data.len();
                shown.push(json!({"type": "image_url", "image_url": {"url": format!("data:{mime};base64,{data}")}}));
                format!("[image, {mime}, below]")
            }
            Part::Image { mime, data } => format!("[image, {mime}, {} bytes in base64]", data.len()),
        });
    }
    let is_blank = |line: &String| line.trim().is_empty();
    if output.parts.is_empty() || lines.iter().skip(usize::from(output.is_error)).all(is_blank) {
        let nothing = if output.is_error { "(it says nothing about it)" } else { "(the tool answered with nothing)" };
        lines.truncate(usize::from(output.is_error));
        lines.push(nothing.to_owned());
    }
    lines.join("\n")
}

/// Whether they may stand in a `data:` URL: a server could write anything there.
fn is_image(mime: &str, data: &str) -> bool {
    let is_subtype = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '+' | '-');
    let is_base64 = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=');
    let subtype = mime.strip_prefix("image/").unwrap_or_default();
    !subtype.is_empty() && subtype.chars().all(is_subtype) && !data.is_empty() && data.bytes().all(is_base64)
}

/// `text` with its middle left out where it is longer than `bytes_max`, the note about it included. Where there is no room for a note, its
/// beginning.
pub fn bounded(text: &str, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    let half = bytes_max.saturating_sub(NOTE_BYTES_MAX) / 2;
    if half == 0 {
        return text.get(..text.floor_char_boundary(bytes_max)).unwrap_or_default().to_owned();
    }
    let head = text.get(..text.floor_char_boundary(half)).unwrap_or_default();
    let tail = text.get(text.ceil_char_boundary(text.len() - half)..).unwrap_or_default();
    format!("{head}\n[… {} bytes left out …]\n{tail}", text.len() - head.len() - tail.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: usize = 32 << 10;

    fn check(parts: Vec<Part>, expected: Value) {
        let output = Output { parts, is_error: false };
        assert_eq!(serde_json::from_str::<Value>(&content(&output, None, MAX, Images::Content)).unwrap(), expected);
    }

    fn text(text: &str) -> Part {
        Part::Text(text.to_owned())
    }

    fn image(mime: &str, data: &str) -> Part {
        Part::Image { mime: mime.to_owned(), data: data.to_owned() }
    }

    #[test]
    fn a_long_text_keeps_its_head_and_tail() {
        assert_eq!(bounded("abc", 3), "abc");
        let long: String = ('a'..='z').cycle().take(1000).collect();
        let cut = bounded(&long, 68);
        assert_eq!(cut, "abcdefghij\n[… 980 bytes left out …]\ncdefghijkl");
        // No room for a note.
        assert_eq!(bounded("abcdefghij", 4), "abcd");
    }

    #[test]
    fn a_cut_is_never_within_a_character_nor_its_result_too_long() {
        for character in ["A", "ß", "読", "😀"] {
            let long = character.repeat(100_000);
            for bytes_max in [1, 3, 47, 48, 49, 50, 51, 52, 60, 100, 1023, 1024, MAX] {
                let cut = bounded(&long, bytes_max);
                assert!(cut.len() <= bytes_max, "{character} {bytes_max} {}", cut.len());
                let kept = cut.matches(character).count() * character.len();
                assert!(kept + NOTE_BYTES_MAX + 2 * character.len() > bytes_max.min(long.len()), "{character} {bytes_max} {kept}");
                if bytes_max > 60 {
                    assert!(cut.contains(&format!("{} bytes left out", long.len() - kept)), "{character} {bytes_max}");
                }
            }
        }
    }

    #[test]
    fn parts_come_in_order_and_what_cannot_be_read_is_noted() {
        check(vec![text("a"), Part::Note("link to x".to_owned()), text("b")], json!("a\n[link to x]\nb"));
    }

    #[test]
    fn nothing_is_said_to_be_nothing() {
        for parts in [vec![], vec![text("")], vec![text(" \n"), text("")]] {
            check(parts, json!("(the tool answered with nothing)"));
        }
        let silent = Output { parts: vec![text("")], is_error: true };
        assert_eq!(content(&silent, None, MAX, Images::Note), json!("The tool reports an error:\n(it says nothing about it)").to_string());
    }

    #[test]
    fn an_error_is_marked() {
        let output = Output { parts: vec![text("no such file")], is_error: true };
        assert_eq!(content(&output, None, MAX, Images::Note), json!("The tool reports an error:\nno such file").to_string());
    }

    #[test]
    fn a_preface_is_never_cut() {
        let output = Output { parts: vec![text(&"x".repeat(1000))], is_error: false };
        let content = content(&output, Some("[b answered]"), 100, Images::Note);
        assert!(content.starts_with("\"[b answered]\\nxxx"), "{content}");
    }

    #[test]
    fn images_are_shown_where_they_may_be() {
        let output = Output { parts: vec![text("look"), image("image/png", "aGk=")], is_error: false };
        assert_eq!(content(&output, None, MAX, Images::Note), json!("look\n[image, image/png, 4 bytes in base64]").to_string());
        check(
            output.parts,
            json!([
                {"type": "text", "text": "look\n[image, image/png, below]"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}},
            ]),
        );
    }

    #[test]
    fn what_is_no_image_is_not_put_into_a_url() {
        for (mime, data) in
            [("text/html", "aGk="), ("image/", "aGk="), ("image/png;x=y,", "aGk="), ("image/png", "a\nb"), ("image/png", "")]
        {
            check(vec![image(mime, data)], json!(format!("[image, {mime}, {} bytes in base64]", data.len())));
        }
    }

    #[test]
    fn images_are_bounded_in_number_and_length() {
        let parts: Vec<Part> = (0..20).map(|_| image("image/png", "aGk=")).collect();
        let many: Value = serde_json::from_str(&content(&Output { parts, is_error: false }, None, MAX, Images::Content)).unwrap();
        assert_eq!(many.as_array().unwrap().len(), 1 + IMAGES_MAX);
        let parts = vec![image("image/png", &"a".repeat(IMAGES_BYTES_MAX)), image("image/png", "aGk=")];
        let long: Value = serde_json::from_str(&content(&Output { parts, is_error: false }, None, MAX, Images::Content)).unwrap();
        assert_eq!(long.as_array().unwrap().len(), 2);
    }
}
