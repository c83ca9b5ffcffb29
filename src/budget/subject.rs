//! On whose account something is done, from the tenant down to the set of tools.

use serde::{Deserialize, Serialize};

use super::ledger::{Code, Refusal};

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

/// The longest value of a level, in characters.
const VALUE_CHARS_MAX: usize = 128;

impl Subject {
    /// Fails when no level is set, or one to what would make the path of another.
    pub(super) fn check(&self) -> Result<(), Refusal> {
        let wrong = |message: String| Err(Refusal::new(Code::InvalidRequest, message));
        if self.levels().next().is_none() {
            return wrong("A subject has one level at least.".to_owned());
        }
        let is_wrong = |value: &str| {
            !(1..=VALUE_CHARS_MAX).contains(&value.chars().count())
                || value.contains(|char: char| matches!(char, '/' | ':') || char.is_control())
        };
        match self.levels().find(|(_, value)| is_wrong(value)) {
            Some((name, value)) => wrong(format!("`{value}` cannot be a {name}: 1 to {VALUE_CHARS_MAX} characters, no `/` and no `:`.")),
            None => Ok(()),
        }
    }

    /// The subject whose deepest scope is `path`, such as `tenant:acme/app:chat`; `None` when that is none.
    pub fn of_scope(path: &str) -> Option<Self> {
        let mut subject = Self::default();
        let mut last = 0;
        for part in path.split('/') {
            let (name, value) = part.split_once(':')?;
            let levels = [
                ("tenant", &mut subject.tenant),
                ("workspace", &mut subject.workspace),
                ("app", &mut subject.app),
                ("workflow", &mut subject.workflow),
                ("agent", &mut subject.agent),
                ("toolset", &mut subject.toolset),
            ];
            let (place, (_, level)) = levels.into_iter().enumerate().find(|(_, (known, _))| *known == name)?;
            // From the top, each once.
            if place < last || level.is_some() {
                return None;
            }
            last = place;
            *level = Some(value.to_owned());
        }
        subject.check().is_ok().then_some(subject)
    }

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
    fn a_path_is_read_back() {
        let check = |path: &str, scopes: &[&str]| {
            let read = Subject::of_scope(path).map(|subject| subject.scopes()).unwrap_or_default();
            assert_eq!(read, scopes, "{path}");
        };
        check("tenant:acme/agent:x", &["tenant:acme", "tenant:acme/agent:x"]);
        check("app:chat", &["app:chat"]);
        for wrong in ["", "acme", "key:acme", "agent:x/tenant:acme", "tenant:a/tenant:b", "tenant:", "tenant:a:b"] {
            check(wrong, &[]);
        }
    }

    #[test]
    fn scopes_are_cumulative_and_in_lower_case() {
        let subject = Subject { tenant: Some("Acme".into()), agent: Some("X".into()), ..Subject::default() };
        assert_eq!(subject.scopes(), ["tenant:acme", "tenant:acme/agent:x"]);
        assert!(Subject::default().scopes().is_empty());
    }
}
