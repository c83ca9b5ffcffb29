//! How long a context each model is run with.
//!
//! Ollama cuts a prompt that does not fit and says nothing. It gives a model a context when it loads it, and loads it anew for each request
//! that asks for another length, which takes seconds and forgets the prompt cache. Therefore lengths go in powers of two, and what a model
//! was once given it keeps.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

/// How long contexts are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum NumCtx {
    /// As the server has it: by the model's own settings, `OLLAMA_CONTEXT_LENGTH`, or the memory that it found.
    #[default]
    Server,
    /// As long as the prompt and its answer need.
    Need,
    /// Always this long.
    Fixed(u32),
}

/// The shortest context that is asked for: what Ollama gives a model on a machine with little memory.
const NUM_CTX_MIN: u32 = 4096;
/// What an answer may take, where the request does not say.
const REPLY_TOKENS: u64 = 2048;
/// Fewer bytes than English (four) or code has to a token: too long is better than cut.
const BYTES_PER_TOKEN: u64 = 3;
/// What an image costs about; models differ between a few hundred and two thousand.
const IMAGE_TOKENS: u64 = 1024;
/// So many names of models are remembered. There are never so many models; requests may name what does not exist.
const MODELS_MAX: usize = 1024;

/// The parts of a prompt that take room.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Size {
    /// Bytes of messages and tools, without images.
    pub(super) bytes: usize,
    /// How many images there are.
    pub(super) images: usize,
    /// How many tokens the answer may have.
    pub(super) reply_tokens_max: Option<u64>,
}

impl Size {
    /// How many tokens prompt and answer take, estimated from above.
    pub(super) fn tokens(self) -> u64 {
        let bytes = u64::try_from(self.bytes).unwrap_or(u64::MAX);
        let images = u64::try_from(self.images).unwrap_or(u64::MAX).saturating_mul(IMAGE_TOKENS);
        (bytes / BYTES_PER_TOKEN).saturating_add(images).saturating_add(self.reply_tokens_max.unwrap_or(REPLY_TOKENS))
    }
}

/// The context lengths that were asked for, by model.
#[derive(Debug, Default)]
pub(super) struct Lengths {
    known: Mutex<HashMap<String, u32>>,
}

impl Lengths {
    /// The length that `model` was last given; none before the first.
    pub(super) fn known(&self, model: &str) -> u32 {
        self.lock().get(model).copied().unwrap_or(0)
    }

    /// The length to ask for when `tokens` are needed: never less than before, and no more than the model was made for.
    pub(super) fn grow(&self, model: &str, tokens: u64, made_for: Option<u64>) -> u32 {
        let fitting = step(tokens, made_for);
        let mut known = self.lock();
        if known.len() >= MODELS_MAX && !known.contains_key(model) {
            known.clear();
        }
        let length = known.entry(model.to_owned()).or_default();
        *length = fitting.max(*length);
        *length
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, u32>> {
        // The map is whole after any panic: lengths are only inserted, raised or cleared.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The power of two that `tokens` fit in, within what is sensible.
fn step(tokens: u64, made_for: Option<u64>) -> u32 {
    let fitting = tokens.max(u64::from(NUM_CTX_MIN)).checked_next_power_of_two().unwrap_or(u64::MAX);
    let fitting = made_for.filter(|length| *length > 0).map_or(fitting, |length| fitting.min(length));
    // Ollama reads it as a signed number.
    u32::try_from(fitting).unwrap_or(u32::MAX).min(1 << 30)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_powers_of_two_within_what_the_model_was_made_for() {
        let check = |tokens: u64, made_for: Option<u64>, expected: u32| assert_eq!(step(tokens, made_for), expected, "{tokens}");
        check(1, None, 4096);
        check(4096, None, 4096);
        check(4097, None, 8192);
        check(30_000, Some(40_960), 32_768);
        check(33_000, Some(40_960), 40_960);
        check(1, Some(2048), 2048);
        check(u64::MAX, None, 1 << 30);
        check(9000, Some(0), 16_384);
    }

    #[test]
    fn a_model_keeps_what_it_was_given() {
        let lengths = Lengths::default();
        assert_eq!((lengths.known("a"), lengths.grow("a", 9000, None)), (0, 16_384));
        assert_eq!((lengths.grow("a", 10, None), lengths.known("a")), (16_384, 16_384));
        assert_eq!(lengths.grow("b", 10, None), 4096);
    }

    #[test]
    fn names_that_are_made_up_take_no_room() {
        let lengths = Lengths::default();
        for n in 0..5000 {
            lengths.grow(&n.to_string(), 1, None);
        }
        assert!(lengths.lock().len() <= MODELS_MAX);
    }

    #[test]
    fn a_prompt_is_estimated_from_above() {
        let size = Size { bytes: 9000, images: 2, reply_tokens_max: None };
        assert_eq!(size.tokens(), 3000 + 2048 + 2048);
        assert_eq!(Size { reply_tokens_max: Some(10), images: 0, ..size }.tokens(), 3010);
        assert_eq!(Size { reply_tokens_max: Some(u64::MAX), ..size }.tokens(), u64::MAX);
    }
}
