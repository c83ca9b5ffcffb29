//! On whose account something is done, from the tenant down to the set of tools.

use serde::{Deserialize, Serialize};

/// A place in the hierarchy of accounts. At least one level is set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Subject {
    /// Who pays.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// A part of the tenant's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// A program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app: Option<String>,
    /// A task of the program, or one run of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workflow: Option<String>,
    /// Who acts in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// What it acts with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub toolset: Option<String>,
}

impl Subject {
    /// The levels that are set, from the top.
    fn levels(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let levels = [
            ("tenant", &self.tenant),
            ("workspace", &self.workspace),
            ("app", &self.app),
            ("workflow", &self.workflow),
            ("agent", &self.agent),
            ("toolset", &self.toolset),
        ];
        levels.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?)))
    }

    /// The paths under which budgets of it are kept: one for each level that is set, with those above it, in lower case. Levels that are
    /// not set are left out.
    pub fn scopes(&self) -> Vec<String> {
        let mut path = String::new();
        let scope = |(name, value): (&str, &str)| {
            if !path.is_empty() {
                path.push('/');
            }
            path.push_str(name);
            path.push(':');
            path.push_str(&value.to_lowercase());
            path.clone()
        };
        self.levels().map(scope).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_are_cumulative_and_in_lower_case() {
        let subject = Subject { tenant: Some("Acme".into()), agent: Some("X".into()), ..Subject::default() };
        assert_eq!(subject.scopes(), ["tenant:acme", "tenant:acme/agent:x"]);
        assert!(Subject::default().scopes().is_empty());
    }
}
