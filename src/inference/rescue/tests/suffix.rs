//! What of a running text is held.

use proptest::prelude::*;

use super::{super::suffix::Suffix, offer, rescue};

const HELD_MAX: usize = 4096;

/// What of `text` is free when it came in `pieces`.
fn free_after(pieces: &[&str], held_max: usize) -> usize {
    let (mut suffix, mut text) = (Suffix::new(held_max), String::new());
    for piece in pieces {
        text.push_str(piece);
        let before = suffix.free();
        let free = suffix.advance(&text, &offer());
        assert!(before <= free && text.is_char_boundary(free), "{text:?}: {before} {free}");
    }
    suffix.free()
}

/// `text` has a bar where what is held begins.
fn held(text: &str) {
    let (free, rest) = text.split_once('|').unwrap();
    let whole = format!("{free}{rest}");
    assert_eq!(whole.split_at(free_after(&[&whole], HELD_MAX)).1, rest, "{text}");
}

#[test]
fn text_flows_and_what_may_begin_a_call_is_held() {
    held("plain text|");
    held("a word and|  ");
    held("|");
    held("1 < 2, a[0], {x}, (y) and `code`.|");
    held("see [1] and [link](http://x) and {x|");
    held("|sa");
    held("is it| sa");
    held("is it sax|");
    held("savers are nice|");
    held("save is nice|");
    held("it is|  save ");
    held("it is|  save {");
    held("it is|  save[");
    held("so:|\n<tool");
    held("so: <toolbox>|");
    held("so:|\n<tool_call>\n{");
    held("so:|\n<tool_call> is what");
    held("x|[TOOL_C");
    held("x [TOOL_BOX]|");
    held("data: {\"temperature\": 3}|");
    held("data:| {\"temperature\": 3");
    held("a call:| {\"name\": \"save\", \"arguments\": {\"path\": \"x\"}}");
    held("a call:| {\"name\": \"save\", \"arguments\": {\"path\": \"x\"}} and");
    held("```python\nx = f({\"name\": \"save\", \"arguments\": {}})\n|");
    held("```python\nx = {}\n```\nand|\n");
    held("text|\n```js");
    held("text|\n```json\n{");
    held("text\n```jsx\n{|");
    held("```json\n[1, 2]|\n```");
    held("```json\n[1, 2]\n```\nare it|");
}

#[test]
fn a_call_behind_text_is_not_let_go() {
    let json = r#"{"name": "save", "arguments": {"path": "x"}}"#;
    for call in [
        json.to_owned(),
        format!("[{json}]"),
        format!("```json\n{json}\n```"),
        format!("```\n[{json}, {json}]\n```"),
        format!("<tool_call>{json}</tool_call>"),
        format!("[TOOL_CALLS][{json}]"),
        format!("functools[{json}]"),
        r#"save[ARGS]{"path": "x"}"#.to_owned(),
        "<function=save><parameter=path>x</parameter></function>".to_owned(),
    ] {
        let text = format!("Let me see:\n\n{call}");
        let rescued = rescue(&text, free_after(&[&text], HELD_MAX), &offer());
        assert_eq!(rescued.map(|rescued| rescued.content).as_deref(), Some("Let me see:"), "{text}");
    }
}

#[test]
fn a_quoted_call_is_let_go_when_enough_text_follows() {
    let call = r#"For example: {"name": "save", "arguments": {"path": "x"}}"#;
    let text = format!("{call} {}", "is how it is called. ".repeat(20));
    assert_eq!(rescue(&text, 0, &offer()), None);
    assert!(free_after(&[&text], HELD_MAX) > text.len() - 5);
}

#[test]
fn what_is_held_too_long_is_text() {
    let text = format!("x {{\"a\": \"{}", "y".repeat(200));
    assert_eq!(free_after(&[&text], 100), text.len());
    assert_eq!(free_after(&[&text], 300), 1);
    let space = " ".repeat(200);
    assert_eq!(free_after(&[&space], 300), 0);
    assert!(free_after(&[&space], 100) >= 100);
}

fn fragments() -> impl Strategy<Value = String> {
    let fragment = prop_oneof![
        Just("<tool_call>"),
        Just("</tool_call>"),
        Just("[TOOL_CALLS]"),
        Just(r#"{"name": "save", "arguments": {"path": "x"}}"#),
        Just(r#"{"name": "save", "#),
        Just("save"),
        Just("functions."),
        Just("to=functions."),
        Just("t"),
        Just("Action: "),
        Just(">>>"),
        Just("print("),
        Just("```"),
        Just("```json\n"),
        Just("```python\n"),
        Just("[ARGS]"),
        Just(r#"{"a": 1}"#),
        Just("["),
        Just("]"),
        Just("{"),
        Just("\""),
        Just("é"),
        Just("\n"),
        Just(" "),
        Just("word"),
    ];
    proptest::collection::vec(fragment, 0..12).prop_map(|fragments| fragments.concat())
}

proptest! {
    #[test]
    fn pieces_do_not_matter(text in fragments(), size in 1usize..7, held_max in prop_oneof![Just(20usize), Just(60), Just(HELD_MAX)]) {
        let characters: Vec<String> = text.chars().map(String::from).collect();
        let pieces: Vec<String> = characters.chunks(size).map(|piece| piece.concat()).collect();
        let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
        prop_assert_eq!(free_after(&pieces, held_max), free_after(&[&text], held_max));
    }

    #[test]
    fn what_is_free_stays_the_beginning_of_the_content(text in fragments()) {
        let free = free_after(&[&text], HELD_MAX);
        let shown = text.split_at(free).0;
        if let Some(rescued) = rescue(&text, free, &offer()) {
            prop_assert!(rescued.content.starts_with(shown), "{shown:?} {:?}", rescued.content);
        }
    }
}
