//! Token counts, in the field names of OpenAI's `usage` object.

use std::ops::AddAssign;

/// Tokens of one upstream call, or summed over several.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens of the prompt, cached ones included.
    pub prompt_tokens: u64,
    /// Tokens generated, reasoning included.
    pub completion_tokens: u64,
    /// Prompt tokens that came from the backend's cache.
    pub cached_tokens: u64,
    /// Generated tokens that were reasoning, where the backend says so.
    pub reasoning_tokens: u64,
    /// Prompt tokens that the backend was paid to keep in its cache.
    pub cache_write_tokens: u64,
}

impl Usage {
    /// Prompt and completion together.
    pub fn total_tokens(&self) -> u64 {
        self.prompt_tokens.saturating_add(self.completion_tokens)
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.prompt_tokens = self.prompt_tokens.saturating_add(other.prompt_tokens);
        self.completion_tokens = self.completion_tokens.saturating_add(other.completion_tokens);
        self.cached_tokens = self.cached_tokens.saturating_add(other.cached_tokens);
        self.reasoning_tokens = self.reasoning_tokens.saturating_add(other.reasoning_tokens);
        self.cache_write_tokens = self.cache_write_tokens.saturating_add(other.cache_write_tokens);
    }
}
