//! The tags that templates put around calls, and the tokens that end a turn.

use super::dialects::Form;

/// A pair of tags around calls.
pub(super) struct Wrapper {
    pub(super) opening: &'static str,
    pub(super) closing: &'static str,
    /// Whose tags they are; none for tags that do not say that a call follows.
    pub(super) form: Option<Form>,
}

/// The tag at the start of a text, taken off.
pub(super) fn strip_tag(text: &str) -> Option<&str> {
    // Asked at every character of a packing; few begin a tag.
    let beginning = text.as_bytes().get(..2);
    if !matches!(beginning, Some([b'<' | b'>' | b'A', _] | [b'[', b'T' | b'/'])) {
        return None;
    }
    tags().filter(|tag| tag.as_bytes().get(..2) == beginning).find_map(|tag| text.strip_prefix(tag))
}

/// The tag at the end of a text, taken off.
pub(super) fn strip_tag_behind(text: &str) -> Option<&str> {
    tags().find_map(|tag| text.strip_suffix(tag))
}

/// The token that ends a turn at the end of a text, taken off.
pub(super) fn strip_end_of_turn(text: &str) -> Option<&str> {
    ENDS_OF_TURN.iter().find_map(|tag| text.strip_suffix(tag))
}

/// The last wrapper that is opened in `text`, and where what it holds begins.
pub(super) fn last_opened(text: &str) -> Option<(usize, Form)> {
    let opened = |wrapper: &Wrapper| Some((text.rfind(wrapper.opening)? + wrapper.opening.len(), wrapper.form?));
    WRAPPERS.iter().filter_map(opened).max_by_key(|(at, _)| *at)
}

/// The wrapper that is opened at the start of a text: where what it holds begins, and its closing tag.
pub(super) fn opened_at(text: &str) -> Option<(usize, &'static str)> {
    let wrapper = WRAPPERS.iter().find(|wrapper| wrapper.form.is_some() && text.starts_with(wrapper.opening))?;
    Some((wrapper.opening.len(), wrapper.closing))
}

/// Whether a wrapper is closed in `text`.
pub(super) fn is_closed_in(text: &str) -> bool {
    WRAPPERS.iter().any(|wrapper| wrapper.form.is_some() && text.contains(wrapper.closing))
}

fn tags() -> impl Iterator<Item = &'static str> {
    WRAPPERS.iter().flat_map(|wrapper| [wrapper.opening, wrapper.closing]).chain(ENDS_OF_TURN)
}

const fn wrapper(opening: &'static str, closing: &'static str, form: Form) -> Wrapper {
    Wrapper { opening, closing, form: Some(form) }
}

pub(super) const WRAPPERS: [Wrapper; 20] = [
    wrapper("<tool_call>", "</tool_call>", Form::Hermes),
    wrapper("<tool_calls>", "</tool_calls>", Form::MiniMax),
    wrapper("<|tool_call|>", "<|/tool_call|>", Form::Granite),
    wrapper("<|python_tag|>", "<|eom_id|>", Form::Llama),
    wrapper("<|python_start|>", "<|python_end|>", Form::Llama),
    wrapper("<|tool_call_start|>", "<|tool_call_end|>", Form::Lfm),
    wrapper("[TOOL_CALLS]", "[/TOOL_CALLS]", Form::Mistral),
    wrapper("<TOOLCALL>", "</TOOLCALL>", Form::Nemotron),
    wrapper("<|START_ACTION|>", "<|END_ACTION|>", Form::CommandR),
    wrapper("<function_calls>", "</function_calls>", Form::Invoke),
    wrapper("<antml:function_calls>", "</antml:function_calls>", Form::Invoke),
    wrapper("<｜DSML｜function_calls>", "</｜DSML｜function_calls>", Form::Invoke),
    wrapper("<minimax:tool_call>", "</minimax:tool_call>", Form::MiniMax),
    // Seed-OSS puts Qwen's elements into a tag of its own.
    wrapper("<seed:tool_call>", "</seed:tool_call>", Form::QwenXml),
    // The tag of the tools' definitions, into which Qwen's coders also write calls.
    Wrapper { opening: "<tools>", closing: "</tools>", form: None },
    // The headers of harmony's messages to nobody in particular, and their ends.
    Wrapper { opening: "<|channel|>final<|message|>", closing: "<|return|>", form: None },
    Wrapper { opening: "<|channel|>commentary<|message|>", closing: "<|end|>", form: None },
    // What Functionary writes in front of text for the user, and Command R in front of a fence of calls.
    Wrapper { opening: ">>>all\n", closing: ">>>all\n", form: None },
    Wrapper { opening: "Action:", closing: "Action:", form: None },
    Wrapper { opening: "<|start|>assistant", closing: "<|call|>", form: None },
];

/// The tokens that end a turn, where a server lets them through.
const ENDS_OF_TURN: [&str; 12] = [
    "<|eom_id|>",
    "<|eot_id|>",
    "<|eot|>",
    "<|im_end|>",
    "<|end_of_text|>",
    "<|endoftext|>",
    "</s>",
    "<|END_OF_TURN_TOKEN|>",
    "<|return|>",
    "<|end|>",
    "<｜end▁of▁sentence｜>",
    "<|call|>",
];
