//! The ways in which models write a call as text.
//!
//! A dialect with a grammar of its own has a file. Those that only put their own tags around JSON
//! objects or Python calls share `json` and `pythonic`; their tags are in `wrapper`.

mod json;
mod pythonic;
mod rehearsal;

mod deepseek;
mod functionary;
mod glm;
mod harmony;
mod invoke;
mod kimi;
mod mistral;
mod qwen_xml;
mod react;
mod yaml;

mod section;

use memchr::memmem;

use super::page::{Marks, Page};
use super::unit::Unit;
use crate::inference::offer::Offer;

/// The way of writing a call that was recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// An object with a name and arguments, without a tag that says whose form it is.
    Json,
    /// `{"type": "function", "function": {…}}` or `{"tool_calls": […]}`.
    OpenAi,
    /// `<tool_call>{…}</tool_call>` of Hermes and Qwen.
    Hermes,
    /// `<|tool_call|>[{…}]`.
    Granite,
    /// `<TOOLCALL>[{…}]</TOOLCALL>`.
    Nemotron,
    /// `<minimax:tool_call><invoke name="…">…`, or lines of objects in `<tool_calls>`.
    MiniMax,
    /// `[{"tool_name": …, "parameters": {…}}]`, behind `Action:` or in `<|START_ACTION|>`.
    CommandR,
    /// `functools[{…}]`.
    Phi,
    /// An object or `name.call(…)` behind `<|python_tag|>`, or a list of calls in `<|python_start|>`.
    Llama,
    /// `<|tool_call_start|>[name(key="value")]<|tool_call_end|>`.
    Lfm,
    /// `[name(key="value")]` without a tag that says whose form it is, or `name(key="value")` in a fence.
    Pythonic,
    /// `[TOOL_CALLS]name{…}` or `[TOOL_CALLS][{…}]`.
    Mistral,
    /// `name[ARGS]{…}` without the marker in front, or `name{…}` as the whole text.
    Rehearsal,
    /// `<function=name><parameter=key>value</parameter></function>`.
    QwenXml,
    /// `<function=name>{…}</function>`.
    FunctionTag,
    /// `<｜tool▁call▁begin｜>name<｜tool▁sep｜>{…}<｜tool▁call▁end｜>`.
    DeepSeek,
    /// `<|tool_call_begin|>functions.name:0<|tool_call_argument_begin|>{…}<|tool_call_end|>`.
    Kimi,
    /// `<invoke name="f"><parameter name="key">value</parameter></invoke>`.
    Invoke,
    /// `<|channel|>commentary to=functions.name<|message|>{…}<|call|>`.
    Harmony,
    /// `>>>name`, a line break and `{…}`.
    Functionary,
    /// `Action: name` and `Action Input: {…}`.
    React,
    /// `name: f`, `arguments:` and a line for each.
    Yaml,
    /// `<tool_call>name<arg_key>key</arg_key><arg_value>value</arg_value></tool_call>`.
    Glm,
}

impl Form {
    /// The stable name, for logs, metrics and answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::OpenAi => "openai",
            Self::Hermes => "hermes",
            Self::Granite => "granite",
            Self::Nemotron => "nemotron",
            Self::MiniMax => "minimax",
            Self::CommandR => "command_r",
            Self::Phi => "phi",
            Self::Llama => "llama",
            Self::Lfm => "lfm",
            Self::Pythonic => "pythonic",
            Self::Mistral => "mistral",
            Self::Rehearsal => "rehearsal",
            Self::QwenXml => "qwen_xml",
            Self::FunctionTag => "function_tag",
            Self::DeepSeek => "deepseek",
            Self::Kimi => "kimi",
            Self::Invoke => "invoke",
            Self::Harmony => "harmony",
            Self::Functionary => "functionary",
            Self::React => "react",
            Self::Yaml => "yaml",
            Self::Glm => "glm",
        }
    }

    /// Whether many models write calls so; a tag around it then says whose it is.
    pub(super) fn is_common(self) -> bool {
        matches!(self, Self::Json | Self::OpenAi | Self::Invoke | Self::Pythonic)
    }
}

/// The readers that a text may need.
pub(super) struct Readers {
    readers: Vec<(u8, Read)>,
    /// The bytes at which one of them may find something.
    pub(super) marks: Marks,
}

impl Readers {
    /// Those whose token stands in `text`; `None` for most texts, which hold no token at all.
    pub(super) fn of(text: &str) -> Option<Self> {
        let needed: Vec<_> = READERS.iter().filter(|(token, ..)| memmem::find(text.as_bytes(), token.as_bytes()).is_some()).collect();
        let marks = Marks::new(needed.iter().map(|(_, mark, _)| *mark));
        let readers: Vec<_> = needed.iter().map(|(_, mark, read)| (*mark, *read)).collect();
        (!readers.is_empty()).then_some(Self { readers, marks })
    }

    /// Reads the unit that begins at (or is recognised by) the byte at `mark`.
    pub(super) fn read(&self, page: &mut Page<'_>, mark: usize, offer: &Offer) -> Option<Unit> {
        let byte = page.byte(mark)?;
        self.readers.iter().filter(|(mark, _)| *mark == byte).find_map(|(_, read)| read(page, mark, offer))
    }
}

/// Reads the unit of one dialect that begins at (or is recognised by) the byte at the given position.
type Read = fn(&mut Page<'_>, usize, &Offer) -> Option<Unit>;

/// Each reader with a token that it cannot do without and the byte at which it looks. What begins
/// first is read first, and what stands in it is its own; at one byte the first that finds a unit
/// wins, so what has a token comes before JSON, which has none.
const READERS: &[(&str, u8, Read)] = &[
    ("[TOOL_CALLS]", b'[', mistral::read),
    ("<|message|>", b'<', harmony::read),
    // Their tokens have look-alikes; the beginning is all that is sure.
    ("<｜tool", b'<', deepseek::read),
    ("<|tool", b'<', deepseek::read),
    ("<|tool", b'<', kimi::read),
    ("<tool_call>", b'<', glm::read),
    ("invoke name=", b'<', invoke::read),
    ("[ARGS]", b'[', rehearsal::read),
    (">>>", b'>', functionary::read),
    (">>>", b'{', functionary::read),
    ("Action Input:", b'A', react::read),
    (": ", b'`', yaml::read),
    (": ", b'<', yaml::read),
    ("{", b'{', rehearsal::read),
    ("<function=", b'<', qwen_xml::read),
    ("(", b'<', pythonic::read_tag),
    ("(", b'[', pythonic::read_list),
    ("(", b'(', pythonic::read_text),
    ("(", b'`', pythonic::read_fence),
    ("{", b'{', json::read),
    ("{", b'[', json::read),
];
