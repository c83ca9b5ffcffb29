//! Past reasoning, in fields and in tags at the beginning of contents, is taken out as far as the policy has it.

use super::{
    Change, Replay,
    alternation::NO_MESSAGE,
    message::{Message, Role},
};
use crate::{
    inference::thinking,
    wire::object::{Object, array, decoded, elements, encoded},
};

/// The fields in which servers return reasoning and clients send it back.
pub(super) const FIELDS: [&str; 3] = ["reasoning_content", "reasoning", "reasoning_text"];

/// Takes reasoning out of the assistant's messages in `list`, but the last message: that one is not past, the model goes on from it, and
/// clients put tags there to keep it from thinking.
pub(super) fn trim(list: &mut [Message<'_>], replay: Replay, changes: &mut Vec<Change>) {
    let past = list.len().saturating_sub(1);
    let until = match replay {
        Replay::Full => return,
        Replay::None => past,
        Replay::KeepLast => list.iter().rposition(is_said_by_user).unwrap_or(0),
    };
    for message in list.iter_mut().take(until.min(past)).filter(|message| message.role == Role::Assistant) {
        let mut trimmed = false;
        for name in FIELDS {
            let says_something = message.fields.get(name).is_some_and(|reasoning| reasoning != "\"\"");
            trimmed |= says_something && message.remove(name);
        }
        if let Some(text) = without_tags(message.content()) {
            message.set("content", text);
            trimmed = true;
        }
        if trimmed {
            changes.push(message.change("reasoning removed"));
        }
    }
}

fn is_said_by_user(message: &Message<'_>) -> bool {
    message.role == Role::User && message.content() != NO_MESSAGE
}

/// A content without the reasoning at its beginning, `None` when there is none.
fn without_tags(content: &str) -> Option<String> {
    if content.starts_with('"') {
        return text_without_tags(content);
    }
    let parts = elements(content)?;
    let mut left = parts.as_slice();
    while let Some((first, rest)) = left.split_first() {
        let Some(mut part) = Object::read(first) else { break };
        let Some(text) = part.get("text").and_then(|text| text_without_tags(text)) else { break };
        if text != "\"\"" {
            part.set("text", text);
            return Some(array(std::iter::once(part.json().as_str()).chain(rest.iter().copied())));
        }
        left = rest;
    }
    (left.len() < parts.len()).then(|| array(left.iter().copied()))
}

fn text_without_tags(content: &str) -> Option<String> {
    // Most contents begin with neither bracket, which may be escaped: no need to decode them.
    let begins = content.strip_prefix('"')?.trim_start_matches([' ', '\\', 'n', 'r', 't']);
    if !begins.starts_with(['<', '[', 'u']) {
        return None;
    }
    let text = decoded(content)?;
    thinking::behind_reasoning(&text).map(encoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_count_at_the_beginning_only() {
        let check = |content: &str, expected: Option<&str>| {
            assert_eq!(without_tags(&encoded(content)).as_deref(), expected.map(encoded).as_deref(), "{content}");
        };
        check("<think>why</think>\n\nhi\n", Some("hi\n"));
        check("\n\t <think>why</think>hi", Some("hi"));
        check("[THINK]a[/THINK]\n<think>b</think> c", Some("c"));
        check("<think>never closed", Some(""));
        check("hi <think>why</think>", None);
        check("under <b>", None);
        check("<b>why</b>", None);
        check("", None);
        assert_eq!(without_tags(r#""\u003cthink\u003ewhy\u003c/think\u003ehi""#).as_deref(), Some("\"hi\""));
        let part = |text: &str| format!(r#"{{"type":"text","text":{}}}"#, encoded(text));
        let parts = |texts: &[&str]| array(texts.iter().map(|text| part(text)).collect::<Vec<_>>().iter().map(String::as_str));
        assert_eq!(without_tags(&parts(&["<think>why</think>a", "b"])), Some(parts(&["a", "b"])));
        assert_eq!(without_tags(&parts(&["<think>why</think>"])).as_deref(), Some("[]"));
        assert_eq!(without_tags(&parts(&["<think>", "<think>why</think>a"])), Some(parts(&["a"])));
        assert_eq!(without_tags(&parts(&["a", "<think>why</think>"])), None);
    }
}
