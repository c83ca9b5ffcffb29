//! The ways by which the fuzz targets reach what is not public. Only there when built with `--cfg fuzzing`, as `fuzz/run.sh` and
//! cargo-fuzz do; each function hands its input on and returns what came of it.

use crate::inference::{self, offer::Offer, rescue::suffix::Suffix, respond::message};

/// What each piece of a call's arguments added to the text of `message`.
pub fn read_message<'p>(pieces: impl IntoIterator<Item = &'p str>) -> Vec<String> {
    let mut reader = message::Reader::default();
    let read = |piece| {
        reader.push(piece);
        reader.take()
    };
    pieces.into_iter().map(read).collect()
}

/// How much of a text is certainly no part of a call after each of its pieces, when at most `held_max` bytes are held.
pub fn free_of_calls<'p>(pieces: impl IntoIterator<Item = &'p str>, held_max: usize, offer: &Offer) -> Vec<usize> {
    let (mut suffix, mut text) = (Suffix::new(held_max), String::new());
    let read = |piece| {
        text.push_str(piece);
        suffix.advance(&text, offer)
    };
    pieces.into_iter().map(read).collect()
}

/// The JSON text of the object that `text` almost is.
pub fn repair(text: &str) -> Option<String> {
    inference::repair::repair(text)
}
