//! Token counts, wherever in a chunk and under whichever name a server puts them.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::Scalar;

/// A `usage` object. What it does not tell is `None`; reading one never fails.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens of the prompt.
    pub prompt_tokens: Option<u64>,
    /// Tokens generated.
    pub completion_tokens: Option<u64>,
    /// How many of the prompt's came from the cache.
    pub cached_tokens: Option<u64>,
    /// How many of the generated were reasoning.
    pub reasoning_tokens: Option<u64>,
}

impl Usage {
    /// Reads a `usage` object.
    pub fn read(raw: &RawValue) -> Self {
        let wire: Wire<'_> = serde_json::from_str(raw.get()).unwrap_or_default();
        let of_prompt = Details::read(wire.prompt_tokens_details);
        let of_completion = Details::read(wire.completion_tokens_details);
        Self {
            prompt_tokens: first([&wire.prompt_tokens, &wire.input_tokens, &Scalar::Nothing]),
            completion_tokens: first([&wire.completion_tokens, &wire.output_tokens, &Scalar::Nothing]),
            cached_tokens: first([&of_prompt.cached_tokens, &wire.prompt_cache_hit_tokens, &wire.cached_tokens]),
            reasoning_tokens: first([&of_completion.reasoning_tokens, &wire.reasoning_tokens, &Scalar::Nothing]),
        }
    }
}

/// What is told: a zero in one place may stand beside a number in another.
fn first(places: [&Scalar<'_>; 3]) -> Option<u64> {
    places.iter().filter_map(|place| place.count()).max()
}

#[derive(Default, Deserialize)]
struct Wire<'a> {
    #[serde(borrow, default)]
    prompt_tokens: Scalar<'a>,
    #[serde(borrow, default)]
    completion_tokens: Scalar<'a>,
    #[serde(borrow, default)]
    prompt_tokens_details: Option<&'a RawValue>,
    #[serde(borrow, default)]
    completion_tokens_details: Option<&'a RawValue>,
    /// Some gateways' words, beside the others or in their place.
    #[serde(borrow, default)]
    input_tokens: Scalar<'a>,
    #[serde(borrow, default)]
    output_tokens: Scalar<'a>,
    /// DeepSeek.
    #[serde(borrow, default)]
    prompt_cache_hit_tokens: Scalar<'a>,
    /// Moonshot.
    #[serde(borrow, default)]
    cached_tokens: Scalar<'a>,
    /// SGLang.
    #[serde(borrow, default)]
    reasoning_tokens: Scalar<'a>,
}

#[derive(Default, Deserialize)]
struct Details<'a> {
    #[serde(borrow, default)]
    cached_tokens: Scalar<'a>,
    #[serde(borrow, default)]
    reasoning_tokens: Scalar<'a>,
}

impl<'a> Details<'a> {
    fn read(raw: Option<&'a RawValue>) -> Self {
        raw.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_found_under_the_names_of_known_servers() {
        let check = |json: &str, expected: [Option<u64>; 4]| {
            let usage = Usage::read(serde_json::from_str(json).unwrap());
            let read = [usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens, usage.reasoning_tokens];
            assert_eq!(read, expected, "{json}");
        };
        check(r#"{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}"#, [Some(3), Some(2), None, None]);
        check(
            r#"{"prompt_tokens":3,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":1},"completion_tokens_details":{"reasoning_tokens":1}}"#,
            [Some(3), Some(2), Some(1), Some(1)],
        );
        check(
            r#"{"prompt_tokens":3,"completion_tokens":2,"prompt_cache_hit_tokens":1,"prompt_cache_miss_tokens":2}"#,
            [Some(3), Some(2), Some(1), None],
        );
        check(
            r#"{"prompt_tokens":3,"prompt_tokens_details":{"cached_tokens":0},"cached_tokens":2,"reasoning_tokens":1}"#,
            [Some(3), None, Some(2), Some(1)],
        );
        check(r#"{"input_tokens":3,"output_tokens":2,"prompt_tokens":0,"completion_tokens":0}"#, [Some(3), Some(2), None, None]);
        check(r#"{"prompt_tokens":"3","completion_tokens":2.0,"prompt_tokens_details":[]}"#, [Some(3), Some(2), None, None]);
        for nothing in ["{}", "[]", "\"none\"", "3", r#"{"prompt_tokens":null}"#] {
            check(nothing, [None; 4]);
        }
    }
}
