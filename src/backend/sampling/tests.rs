use proptest::prelude::*;

use super::{
    name::{Part, parts},
    *,
};
use crate::wire::fields;

fn table() -> Vec<Recommendation> {
    read(include_str!("recommended.toml")).unwrap()
}

#[test]
fn models_have_a_family() {
    for (model, family) in FAMILIES {
        assert_eq!(recommended(model).map_or("none", |recommendation| &recommendation.family), *family, "{model}");
    }
}

const FAMILIES: &[(&str, &str)] = &[
    ("qwen2.5:7b", "Qwen2.5"),
    ("Qwen/Qwen2.5-0.5B-Instruct-GGUF", "Qwen2.5, smallest"),
    ("qwen2.5-coder:0.5b", "Qwen2.5-Coder"),
    ("Qwen2.5-Coder-32B-Instruct-Q4_K_M.gguf", "Qwen2.5-Coder"),
    ("Qwen2.5-VL-7B-Instruct", "none"),
    ("qwen2.5vl:7b", "none"),
    ("qwen2:7b", "none"),
    ("qwq:32b", "QwQ"),
    ("Qwen/Qwen3-8B-GGUF", "Qwen3"),
    ("qwen3-8b-q4_k_m.gguf", "Qwen3"),
    ("hf.co/unsloth/Qwen3-4B-Instruct-2507-GGUF:Q4_K_M", "Qwen3 Instruct"),
    ("qwen3:4b-thinking-2507-q4_K_M", "Qwen3"),
    ("Qwen3-8B-Base", "none"),
    ("Qwen3-Embedding-0.6B", "none"),
    ("qwen3-vl:8b", "none"),
    ("qwen3-coder:30b", "Qwen3-Coder"),
    ("Qwen3-Coder-Next-Q4_K_M", "Qwen3-Coder-Next"),
    ("Qwen3-Next-80B-A3B-Instruct", "Qwen3-Next Instruct"),
    ("Qwen3-Next-80B-A3B-Thinking", "none"),
    ("qwen3.5:9b", "Qwen3.5"),
    ("Qwen3.5-2B-UD-Q4_K_XL.gguf", "Qwen3.5, smallest"),
    ("Qwen3.5-122B-A10B", "Qwen3.5"),
    ("Qwen3.6-35B-A3B-UD-Q4_K_M", "Qwen3.6 35B-A3B"),
    ("qwen3.6:27b-q4_K_M", "Qwen3.6 27B"),
    ("Qwen/Qwen3.8-27B", "Qwen3.8 27B"),
    ("llama3.2:3b", "Llama 3"),
    ("meta-llama/Meta-Llama-3.1-8B-Instruct", "Llama 3"),
    ("Llama-3.1-Nemotron-Nano-8B-v1", "none"),
    ("llama2:7b", "none"),
    ("Llama-4-Scout-17B-16E-Instruct", "Llama 4"),
    ("mistral-small3.2", "Mistral Small 3"),
    ("mistralai_Mistral-Small-24B-Instruct-2501-Q4_K_M.gguf", "Mistral Small 3"),
    ("Mistral-Small-Instruct-2409", "none"),
    ("mistral-nemo:12b", "Mistral Nemo"),
    ("ministral-3:8b", "Ministral 3 Instruct"),
    ("Ministral-3-14B-Reasoning-2512", "Ministral 3 Reasoning 14B"),
    ("Ministral-3-3B-Reasoning-2512", "none"),
    ("devstral-small-2:24b", "Devstral Small 2"),
    ("Devstral-Small-2507", "none"),
    ("magistral:24b", "Magistral"),
    ("gemma3:4b", "Gemma 3"),
    ("google/gemma-3n-E4B-it", "Gemma 3"),
    ("gemma-3-4b-pt", "none"),
    ("gemma-2-9b-it", "none"),
    ("gemma-4-26B-A4B-it-Q8_0", "Gemma 4"),
    ("phi4-reasoning:14b", "Phi-4-reasoning"),
    ("Phi-4-mini-reasoning", "none"),
    ("phi4", "none"),
    ("deepseek-r1:8b", "DeepSeek-R1 and its distillations"),
    ("DeepSeek-R1-0528-Qwen3-8B", "DeepSeek-R1 and its distillations"),
    ("gpt-oss:20b", "gpt-oss"),
    ("gpt-oss-safeguard-20b", "none"),
    ("glm-4.5v", "none"),
    ("GLM-4.5-Air", "GLM-4.5"),
    ("GLM-4.7-Flash-GGUF", "GLM-4.6 and 4.7"),
    ("granite4:micro-h", "Granite 4.0"),
    ("granite-4.0-h-tiny", "Granite 4.0"),
    ("granite-4.1-8b", "none"),
    ("SmolLM3-3B", "SmolLM3"),
    ("LFM2-1.2B", "LFM2"),
    ("LFM2.5-1.2B-Instruct-GGUF", "LFM2.5 350M and 1.2B Instruct"),
    ("LFM2.5-8B-A1B", "LFM2.5 8B-A1B"),
    ("Hermes-4-14B", "Hermes 4"),
    ("Hermes-3-Llama-3.1-8B", "none"),
    ("nemotron-3-nano:30b", "Nemotron 3 Nano"),
    ("Kimi-K2-Instruct-0905", "Kimi K2"),
    ("Kimi-K2-Thinking", "Kimi K2 Thinking"),
    ("Kimi-K2.5", "none"),
    ("MiniMax-M2.7", "MiniMax M2"),
    ("/models/Qwen3-8B/", "Qwen3"),
    (r"C:\models\qwen3-8b.gguf", "Qwen3"),
    ("gpt-4o", "none"),
    ("", "none"),
];

#[test]
fn every_entry_says_something_and_where_it_is_from() {
    for entry in table() {
        assert!(!entry.sampling.is_empty() && entry.source.starts_with("https://"), "{}", entry.family);
        assert!(!entry.patterns.is_empty() && entry.patterns.iter().all(|pattern| pattern.length() > 0), "{}", entry.family);
        for (name, value) in &entry.sampling {
            let value: f64 = serde_json::from_slice(value).unwrap();
            let (least, most) = if name == "top_k" { (0.0, 100.0) } else { (0.0, 2.0) };
            assert!((least..=most).contains(&value), "{} {name}", entry.family);
        }
    }
}

/// A pattern that another one always wins against is of no use.
#[test]
fn no_pattern_shadows_another() {
    let table = table();
    for entry in &table {
        for pattern in &entry.patterns {
            let words: Vec<String> =
                pattern.0.iter().map(|word| word.0.iter().map(|part| part.text.as_str()).collect::<Vec<_>>().join("-")).collect();
            let name = words.join(" ");
            assert_eq!(best(&table, &name).map(|found| &found.family), Some(&entry.family), "{name}");
        }
    }
}

#[test]
fn names_are_cut_into_parts() {
    let check = |name: &str, expected: &str| {
        let mark = |part: &Part| format!("{}{}", if part.begins { " " } else { "+" }, part.text);
        assert_eq!(parts(name).iter().map(mark).collect::<String>(), expected, "{name}");
    };
    check("qwen2.5-coder:0.5b", " qwen+2.5 coder 0.5+b");
    check("Granite-4.0-H_Tiny.gguf", " granite 4 h tiny gguf");
    check("a3b.Q4_K_M.1.", " a+3+b q+4 k m 1");
    check("1.2.3", " 1.2 3");
    check("--é漢.0", " é漢 0");
    check("", "");
}

#[test]
fn only_what_is_not_set_is_filled_in() {
    let check = |body: &str, defaults: &[(&str, &str)], expected: Option<&str>| {
        let fields = fields::object(&Bytes::copy_from_slice(body.as_bytes())).unwrap();
        let request = Request { fields, ..Request::default() };
        let defaults: Sampling =
            defaults.iter().map(|(name, value)| ((*name).to_owned(), Bytes::copy_from_slice(value.as_bytes()))).collect();
        let filled = filled(&request, &defaults).map(|filled| {
            let field = |(name, value): &(String, Bytes)| format!("{name}={}", std::str::from_utf8(value).unwrap());
            filled.fields.iter().map(field).collect::<Vec<_>>().join(" ")
        });
        assert_eq!(filled.as_deref(), expected, "{body}");
    };
    let both = [("temperature", "0.6"), ("top_k", "20")];
    check("{}", &both, Some("temperature=0.6 top_k=20"));
    check(r#"{"a":1,"temperature":0}"#, &both, Some("a=1 temperature=0 top_k=20"));
    check(r#"{"temperature":null,"a":1}"#, &both, Some("a=1 temperature=0.6 top_k=20"));
    check(r#"{"temperature":1,"top_k":2}"#, &both, None);
    check(r#"{"temperature":1}"#, &[], None);
    // A route comes before a recommendation.
    check("{}", &[("temperature", "1"), ("temperature", "2")], Some("temperature=1"));
    check(r#"{"repetition_penalty":1.2}"#, &[("repeat_penalty", "1.05")], None);
    check("{}", &[("repetition_penalty", "1.2"), ("repeat_penalty", "1.05")], Some("repetition_penalty=1.2"));
}

proptest! {
    #[test]
    fn any_name_is_read(name in "\\PC{0,40}") {
        let parts = parts(&name);
        prop_assert!(parts.iter().all(|part| !part.text.is_empty()));
        recommended(&name);
    }
}
