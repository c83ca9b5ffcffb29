//! Whether a backend read the prompt to its end. Some cut a prompt that does not fit their context and say nothing: the model then answers
//! without its instructions or its tools, and nobody knows why.

use memchr::memmem;

use crate::chat::{Usage, report::Truncation};

/// More bytes than any text has to a token on average: English has about four, indented code about six.
const BYTES_PER_TOKEN_MAX: u64 = 8;
/// Shorter prompts fit every context that is in use.
const BYTES_MIN: u64 = 8 << 10;

/// What is missing of the prompt, by what the backend says that it read; `None` when it may be all.
pub(super) fn of(messages: &[u8], tools: &[u8], usage: Usage) -> Option<Truncation> {
    // An image or a sound is long in the request and a few hundred tokens to the model.
    let is_media = |mark: &[u8]| memmem::find(messages, mark).is_some();
    if usage.prompt_tokens == 0 || is_media(b";base64,") || is_media(b"\"input_audio\"") {
        return None;
    }
    // An escape of six bytes is one character, which other clients write in two or three.
    let bytes = |text: &[u8]| u64::try_from(text.len() - 4 * memmem::find_iter(text, b"\\u").count()).unwrap_or(u64::MAX);
    let bytes = bytes(messages).saturating_add(bytes(tools));
    let tokens_min = bytes / BYTES_PER_TOKEN_MAX;
    let is_cut = bytes >= BYTES_MIN && usage.prompt_tokens < tokens_min;
    is_cut.then_some(Truncation { prompt_tokens: usage.prompt_tokens, prompt_tokens_min: tokens_min })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_that_was_read_in_part_is_noticed() {
        let check = |messages: String, prompt_tokens: u64, expected: bool| {
            let usage = Usage { prompt_tokens, ..Usage::default() };
            assert_eq!(of(messages.as_bytes(), b"[]", usage).is_some(), expected, "{prompt_tokens}");
        };
        let words = "one word and another ".repeat(4000);
        check(words.clone(), 4096, true);
        check(words.clone(), 16_000, false);
        check(words.clone(), 0, false);
        check("short".to_owned(), 1, false);
        check(r"\u0442\u0435\u043a\u0441\u0442".repeat(2000), 5000, false);
        check(format!("data:image/png;base64,{words}"), 500, false);
    }
}
