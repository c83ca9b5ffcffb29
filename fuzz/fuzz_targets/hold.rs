//! What is shown of a running text does not depend on its pieces, is never taken back, and stays the beginning of what is left of the text
//! when its calls are read out.
//!
//! A `~` in the input is a cut and not part of the text.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use toolgate::{
    fuzzing::free_of_calls,
    inference::{
        offer::{Offer, Tool},
        rescue::rescue,
    },
};

fuzz_target!(|input: &str| {
    let pieces: Vec<&str> = input.split('~').collect();
    let text = pieces.concat();
    for held_max in [8, 64, 1 << 16] {
        let free = free_of_calls([text.as_str()], held_max, &OFFER)[0];
        let by_piece = free_of_calls(pieces.iter().copied(), held_max, &OFFER);
        assert!(by_piece.is_sorted(), "what was shown is not taken back: {by_piece:?}");
        assert_eq!(by_piece.last(), Some(&free), "cut in pieces, {held_max} held");
        let characters = text.split("").collect::<Vec<_>>();
        assert_eq!(free_of_calls(characters, held_max, &OFFER).last(), Some(&free), "cut in characters, {held_max} held");
        let (shown, held) = text.split_at(free);
        assert!(held.len() <= held_max, "no more than {held_max} bytes are held: {held:?}");
        if let Some(rescued) = rescue(&text, free, &OFFER) {
            assert!(rescued.content.starts_with(shown), "{shown:?} was shown, {:?} is left", rescued.content);
        }
    }
    // Behind plain text a call is held, whatever stands before it.
    if !input.is_empty() && input.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b' ' | b'.' | b'\n')) {
        let text = format!("{input}.\n\n{CALL}");
        let free = free_of_calls([text.as_str()], 1 << 16, &OFFER)[0];
        assert!(free <= input.len() + 1, "the call is held");
    }
});

const CALL: &str = r#"{"name": "save", "arguments": {"path": "x"}}"#;

static OFFER: LazyLock<Offer> = LazyLock::new(|| {
    let save = json!({"type": "object", "properties": {"path": {"type": "string"}}});
    let tools = vec![Tool::new("save".to_owned(), save), Tool::new("ping".to_owned(), Value::Null)];
    Offer::of(tools)
});
