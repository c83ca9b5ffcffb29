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

#[cfg(test)]
mod tests {
    use std::{
        collections::{BTreeMap, HashMap},
        time::Duration,
    };

    use super::*;

    fn resolved(table: &str) -> Result<Kind, Vec<String>> {
        let env: HashMap<String, String> = HashMap::new();
        let mut keys = Keys::new(format!("[backend]\n{table}").parse().unwrap(), &env, BTreeMap::new());
        let kind = resolve(&mut keys, "backend");
        let problems: Vec<_> = keys.finish().iter().map(ToString::to_string).collect();
        if problems.is_empty() { Ok(kind) } else { Err(problems) }
    }

    #[test]
    fn each_kind_has_settings_of_its_own() {
        let own = llama_server::Config { cache_prompt: Some(false), slot_affinity: true, load_timeout: Duration::ZERO };
        let file = "cache_prompt = false\nslot_affinity = true\nload_timeout = \"0s\"";
        assert_eq!(resolved(file), Ok(Kind::LlamaServer(own)));
        assert_eq!(resolved(""), Ok(Kind::LlamaServer(llama_server::Config::default())));
        let own = openai::Config { max_tokens_field: MaxTokensField::MaxCompletionTokens, stream_options: false };
        let file = "kind = \"openai\"\nmax_tokens_field = \"max_completion_tokens\"\nstream_options = false";
        assert_eq!(resolved(file), Ok(Kind::OpenAi(own)));
    }

    #[test]
    fn a_setting_of_another_kind_and_a_wrong_value_are_mistakes() {
        let check = |table: &str, path: &str| {
            let problems = resolved(table).unwrap_err();
            assert!(problems.len() == 1 && problems[0].starts_with(path), "{table}: {problems:?}");
        };
        check("kind = \"openai\"\nslot_affinity = true", "backend.slot_affinity: is not a setting");
        check("stream_options = true", "backend.stream_options: is not a setting");
        check("cache_prompt = \"perhaps\"", "backend.cache_prompt: ");
        check("load_timeout = 3", "backend.load_timeout: ");
        check("kind = \"openai\"\nmax_tokens_field = \"tokens\"", "backend.max_tokens_field: ");
    }
}
