//! What a backend is, and the settings that only its kind has.

mod anthropic;
mod ollama;

use super::{keys::Keys, units};
use crate::backend::{
    Kind, llama_server,
    openai::{self, MaxTokensField},
};

type Resolve = fn(&mut Keys<'_>, &str) -> Kind;

const KINDS: [(&str, Resolve); 4] = [
    ("llama_server", |keys, path| Kind::LlamaServer(llama_server(keys, path))),
    ("ollama", |keys, path| Kind::Ollama(ollama::resolve(keys, path))),
    ("openai", |keys, path| Kind::OpenAi(openai(keys, path))),
    ("anthropic", |keys, path| Kind::Anthropic(anthropic::resolve(keys, path))),
];

/// The kind of the backend whose table is at `path`: what most people run unless told otherwise.
pub(super) fn resolve(keys: &mut Keys<'_>, path: &str) -> Kind {
    let [(_, llama_server), ..] = KINDS;
    let resolve = keys.take(&format!("{path}.kind"), llama_server, |value| units::word(value, &KINDS));
    resolve(keys, path)
}

fn openai(keys: &mut Keys<'_>, path: &str) -> openai::Config {
    let at = |key: &str| format!("{path}.{key}");
    let default = openai::Config::default();
    openai::Config {
        max_tokens_field: keys.take(&at("max_tokens_field"), default.max_tokens_field, |value| {
            let words = [
                ("as_sent", MaxTokensField::AsSent),
                ("max_tokens", MaxTokensField::MaxTokens),
                ("max_completion_tokens", MaxTokensField::MaxCompletionTokens),
            ];
            units::word(value, &words)
        }),
        stream_options: keys.take(&at("stream_options"), default.stream_options, units::flag),
    }
}

fn llama_server(keys: &mut Keys<'_>, path: &str) -> llama_server::Config {
    let at = |key: &str| format!("{path}.{key}");
    let default = llama_server::Config::default();
    llama_server::Config {
        cache_prompt: keys.take(&at("cache_prompt"), default.cache_prompt, |value| units::flag(value).map(Some)),
        slot_affinity: keys.take(&at("slot_affinity"), default.slot_affinity, units::flag),
        load_timeout: keys
            .take(&at("load_timeout"), default.load_timeout, |value| units::duration_or_off(value).map(Option::unwrap_or_default)),
    }
}
