//! The environment, behind a trait so that tests bring their own.

use std::{collections::HashMap, sync::Arc};

use crate::tools::config::Variables;

/// Where environment variables come from.
pub trait Env {
    /// The variable `name`, `None` when it is not set. One that is no Unicode counts as not set.
    fn get(&self, name: &str) -> Option<String>;

    /// The same, for those who look variables up later.
    fn variables(&self) -> Variables;
}

/// The process's own environment.
#[derive(Debug, Clone, Copy)]
pub struct Process;

impl Env for Process {
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the environment")]
    fn get(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }

    fn variables(&self) -> Variables {
        Variables(Arc::new(|name| Self.get(name)))
    }
}

impl Env for HashMap<String, String> {
    fn get(&self, name: &str) -> Option<String> {
        HashMap::get(self, name).cloned()
    }

    fn variables(&self) -> Variables {
        let own = self.clone();
        Variables(Arc::new(move |name| HashMap::get(&own, name).cloned()))
    }
}

/// The variable that sets the key at `path`: `guardrails.max_retries` is `TOOLGATE_GUARDRAILS_MAX_RETRIES`.
pub fn variable(path: &str) -> String {
    format!("TOOLGATE_{}", path.replace('.', "_").to_uppercase())
}
