//! What a server says about a model.

/// A model that a server has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Model {
    /// The name by which it is asked for.
    pub id: String,
    /// How many tokens its context holds as it is run, where that is known.
    pub context_length: Option<u64>,
    /// What it can do, in Ollama's words: `completion`, `tools`, `vision`, `thinking`, `embedding`. Empty when the server does not say.
    pub capabilities: Vec<String>,
}

impl Model {
    /// The names by which it may be asked for: Ollama lists `qwen3:latest` for what everyone calls `qwen3`.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        [Some(self.id.as_str()), self.id.strip_suffix(":latest")].into_iter().flatten()
    }

    /// Whether a request for `name` means it.
    pub fn is_called(&self, name: &str) -> bool {
        self.names().any(|known| known == name)
    }
}
