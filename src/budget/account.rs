//! Who asks: what an API key stands for.

use std::time::SystemTime;

use super::{Subject, access::Access};
use crate::glob;

/// Who asks, and what they may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// The name of the key; empty where none was needed.
    pub key: String,
    /// On whose account things are done.
    pub subject: Subject,
    /// The models that may be asked for, with `*` for any characters; where it is empty, all.
    pub models: Vec<String>,
    /// The tools that may be used.
    pub tools: Access,
    /// From when on it is no longer good.
    pub expires: Option<SystemTime>,
    /// Whether budgets may be changed and those of others seen.
    pub is_admin: bool,
}

impl Account {
    /// Somebody who needed no key.
    pub fn anonymous() -> Self {
        Self {
            key: String::new(),
            subject: Subject { tenant: Some(ANONYMOUS.to_owned()), ..Subject::default() },
            models: Vec::new(),
            tools: Access::default(),
            expires: None,
            is_admin: false,
        }
    }

    /// What it owns is kept apart by this name: that of the key and of whom it stands for. `None` for those who needed no key.
    pub fn owner(&self) -> Option<String> {
        (!self.key.is_empty()).then(|| format!("{}#{}", self.key, self.subject.scopes().pop().unwrap_or_default()))
    }

    /// Whether `model` may be asked for.
    pub fn allows_model(&self, model: &str) -> bool {
        self.models.is_empty() || self.models.iter().any(|pattern| glob::matches(pattern, model))
    }
}

/// The tenant of those who need no key.
const ANONYMOUS: &str = "local";
