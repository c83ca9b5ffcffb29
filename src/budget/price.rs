//! What models and tools cost.

use crate::{chat::Usage, glob};

/// The price lists. The first entry whose pattern matches counts; what none matches costs nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Prices {
    /// Of models.
    pub models: Vec<ModelPrice>,
    /// Of tools.
    pub tools: Vec<ToolPrice>,
}

/// What a model costs, in microcents for a million tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelPrice {
    /// The models, by the name that clients ask for, with `*` for any characters.
    pub pattern: String,
    /// What it reads.
    pub input: u64,
    /// What it reads and has read before.
    pub cached_input: u64,
    /// What it reads and is to keep.
    pub cache_write: u64,
    /// What it writes.
    pub output: u64,
}

/// What a call of a tool costs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolPrice {
    /// The tools, as `server.tool` with `*` for any characters.
    pub pattern: String,
    /// In microcents.
    pub call: u64,
    /// In risk points.
    pub risk: u64,
}

/// Prices are for so many tokens.
const TOKENS: u128 = 1_000_000;

impl Prices {
    /// What `model` costs, if it costs anything.
    pub fn model(&self, model: &str) -> Option<&ModelPrice> {
        self.models.iter().find(|price| glob::matches(&price.pattern, model))
    }

    /// What `tool`, a `server.tool`, costs, if it costs anything.
    pub fn tool(&self, tool: &str) -> Option<&ToolPrice> {
        self.tools.iter().find(|price| glob::matches(&price.pattern, tool))
    }
}

impl ModelPrice {
    /// What `usage` costs, in microcents; a part of one counts as one.
    pub fn cost(&self, usage: Usage) -> u64 {
        let cached = usage.cached_tokens.min(usage.prompt_tokens);
        let written = usage.cache_write_tokens.min(usage.prompt_tokens - cached);
        let fresh = usage.prompt_tokens - cached - written;
        let parts = [(fresh, self.input), (cached, self.cached_input), (written, self.cache_write), (usage.completion_tokens, self.output)];
        rounded(parts.into_iter().map(|(tokens, price)| u128::from(tokens) * u128::from(price)).sum())
    }

    /// What a call costs at most that reads `prompt` tokens and writes `completion`.
    pub fn at_most(&self, prompt: u64, completion: u64) -> u64 {
        let input = self.input.max(self.cached_input).max(self.cache_write);
        rounded(u128::from(prompt) * u128::from(input) + u128::from(completion) * u128::from(self.output))
    }

    /// How many tokens may be written for `microcents` beside reading `prompt` tokens; `None` where not even those may be read.
    pub fn affordable(&self, prompt: u64, microcents: u64) -> Option<u64> {
        let left = microcents.checked_sub(self.at_most(prompt, 0))?;
        match u128::from(self.output) {
            0 => Some(u64::MAX),
            output => Some(u64::try_from(u128::from(left) * TOKENS / output).unwrap_or(u64::MAX)),
        }
    }
}

fn rounded(millionths: u128) -> u64 {
    u64::try_from(millionths.div_ceil(TOKENS)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::amount::USD;

    /// 3 dollars for a million tokens read, 0.30 again, 3.75 kept, 15 written.
    fn price() -> ModelPrice {
        let [input, cached_input, cache_write, output] = [3 * USD, 3 * USD / 10, 375 * USD / 100, 15 * USD];
        ModelPrice { pattern: "big-*".to_owned(), input, cached_input, cache_write, output }
    }

    #[test]
    fn each_kind_of_token_has_its_price() {
        let check = |usage: Usage, expected: u64| assert_eq!(price().cost(usage), expected, "{usage:?}");
        check(Usage { prompt_tokens: 1_000_000, ..Usage::default() }, 3 * USD);
        let usage = Usage { prompt_tokens: 1000, cached_tokens: 400, cache_write_tokens: 100, completion_tokens: 10, ..Usage::default() };
        check(usage, 500 * 300 + 400 * 30 + 100 * 375 + 10 * 1500);
        // One token of a model at 0.000001 dollars a million is a part of a microcent.
        let cheap = ModelPrice { input: 100, ..price() };
        assert_eq!(cheap.cost(Usage { prompt_tokens: 1, ..Usage::default() }), 1);
        check(Usage { prompt_tokens: 1, cached_tokens: 9, ..Usage::default() }, 30);
    }

    #[test]
    fn what_may_be_written_is_what_the_rest_pays_for() {
        assert_eq!(price().at_most(1000, 10), 1000 * 375 + 10 * 1500);
        assert_eq!(price().affordable(1000, 1000 * 375 + 10 * 1500), Some(10));
        assert_eq!(price().affordable(1000, 1000 * 375 - 1), None);
        assert_eq!(ModelPrice { output: 0, ..price() }.affordable(0, 0), Some(u64::MAX));
    }

    #[test]
    fn the_first_entry_that_matches_counts() {
        let prices = Prices { models: vec![price(), ModelPrice { pattern: "*".to_owned(), ..price() }], tools: Vec::new() };
        assert_eq!(prices.model("big-1").map(|price| &*price.pattern), Some("big-*"));
        assert_eq!(prices.model("small").map(|price| &*price.pattern), Some("*"));
        assert_eq!(prices.tool("a.b"), None);
    }
}
