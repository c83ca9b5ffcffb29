//! Which models and tools may be used at all.

use std::sync::Arc;

use crate::glob;

/// A tool as the rules see it.
#[derive(Debug, Clone, Copy)]
pub struct Tool<'a> {
    /// The id of its server.
    pub server: &'a str,
    /// Its name there.
    pub name: &'a str,
    /// It changes nothing.
    pub is_read_only: bool,
    /// It may destroy something.
    pub is_destructive: bool,
    /// Calling it twice is as good as once.
    pub is_idempotent: bool,
    /// It deals with who knows whom.
    pub is_open_world: bool,
}

impl Tool<'_> {
    /// The name by which rules, prices and limits know it: `server.tool`.
    pub fn full_name(&self) -> String {
        format!("{}.{}", self.server, self.name)
    }

    /// What kind of thing a call of it is: `tool.read`, `tool.write` or `tool.destructive`.
    pub fn kind(&self) -> &'static str {
        match (self.is_read_only, self.is_destructive) {
            (true, _) => "tool.read",
            (false, false) => "tool.write",
            (false, true) => "tool.destructive",
        }
    }
}

/// What some tools have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pattern {
    /// A name of this form: `server.tool` with `*` for any characters.
    Name(String),
    /// They change nothing: `@read_only`.
    ReadOnly,
    /// They may destroy something: `@destructive`.
    Destructive,
    /// They may be called twice: `@idempotent`.
    Idempotent,
    /// They deal with who knows whom: `@open_world`.
    OpenWorld,
}

impl Pattern {
    /// The pattern that `text` spells; `None` for an annotation that there is not.
    pub fn parse(text: &str) -> Option<Self> {
        match text.strip_prefix('@') {
            None => Some(Self::Name(text.to_owned())),
            Some("read_only") => Some(Self::ReadOnly),
            Some("destructive") => Some(Self::Destructive),
            Some("idempotent") => Some(Self::Idempotent),
            Some("open_world") => Some(Self::OpenWorld),
            Some(_) => None,
        }
    }

    fn matches(&self, tool: &Tool<'_>) -> bool {
        match self {
            Self::Name(pattern) => glob::matches(pattern, &tool.full_name()),
            Self::ReadOnly => tool.is_read_only,
            Self::Destructive => tool.is_destructive && !tool.is_read_only,
            Self::Idempotent => tool.is_idempotent,
            Self::OpenWorld => tool.is_open_world,
        }
    }
}

/// Which tools may be used.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Access {
    /// Those that may; where it is empty, all.
    pub allow: Vec<Pattern>,
    /// Those that may not, whatever else is said.
    pub deny: Vec<Pattern>,
    /// What anybody may use, which is no more here.
    pub within: Option<Arc<Access>>,
}

impl Access {
    /// Whether all tools may be used.
    pub fn is_open(&self) -> bool {
        self.allow.is_empty() && self.deny.is_empty() && self.within.as_ref().is_none_or(|within| within.is_open())
    }

    /// Whether `tool` may be used.
    pub fn allows(&self, tool: &Tool<'_>) -> bool {
        let is_among = |patterns: &[Pattern]| patterns.iter().any(|pattern| pattern.matches(tool));
        let may_anybody = || self.within.as_ref().is_none_or(|within| within.allows(tool));
        (self.allow.is_empty() || is_among(&self.allow)) && !is_among(&self.deny) && may_anybody()
    }

    /// Whether there may be a tool of `server` that may be used, by the names alone: what its tools are is not known.
    pub fn reaches(&self, server: &str) -> bool {
        let has_some = |pattern: &Pattern| match pattern {
            Pattern::Name(name) => match name.split_once('.') {
                Some((of, _)) => glob::matches(of, server),
                None => name.contains('*'),
            },
            Pattern::ReadOnly | Pattern::Destructive | Pattern::Idempotent | Pattern::OpenWorld => true,
        };
        let has_all = |pattern: &Pattern| match pattern {
            Pattern::Name(name) => name == "*" || name.strip_suffix(".*").is_some_and(|of| glob::matches(of, server)),
            Pattern::ReadOnly | Pattern::Destructive | Pattern::Idempotent | Pattern::OpenWorld => false,
        };
        let may_anybody = || self.within.as_ref().is_none_or(|within| within.reaches(server));
        (self.allow.is_empty() || self.allow.iter().any(has_some)) && !self.deny.iter().any(has_all) && may_anybody()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_reached_where_a_tool_of_it_may_be_allowed() {
        let check = |allow: &[&str], deny: &[&str], expected: bool| {
            let read = |texts: &[&str]| texts.iter().map(|text| Pattern::parse(text).unwrap()).collect::<Vec<_>>();
            let access = Access { allow: read(allow), deny: read(deny), within: None };
            let within = Access { within: Some(Arc::new(access.clone())), ..Access::default() };
            assert_eq!((access.reaches("fs"), within.reaches("fs")), (expected, expected), "{allow:?} {deny:?}");
        };
        check(&[], &[], true);
        check(&["fs.read"], &["fs.write", "@destructive"], true);
        check(&["@read_only"], &[], true);
        check(&["f*"], &[], true);
        check(&["web.*"], &[], false);
        check(&[], &["fs.*"], false);
        check(&["fs.read"], &["*"], false);
    }

    #[test]
    fn what_is_denied_is_denied_whatever_is_allowed() {
        let read =
            Tool { server: "fs", name: "read", is_read_only: true, is_destructive: true, is_idempotent: false, is_open_world: false };
        let write = Tool { name: "write", is_read_only: false, ..read };
        let patterns = |texts: &[&str]| texts.iter().map(|text| Pattern::parse(text).unwrap()).collect();
        let check = |allow: &[&str], deny: &[&str], expected: (bool, bool)| {
            let access = Access { allow: patterns(allow), deny: patterns(deny), within: None };
            assert_eq!((access.allows(&read), access.allows(&write)), expected, "{allow:?} {deny:?}");
        };
        check(&[], &[], (true, true));
        check(&["fs.*"], &["@destructive"], (true, false));
        check(&["@read_only"], &[], (true, false));
        check(&["web.*"], &[], (false, false));
        check(&["fs.read"], &["*"], (false, false));
        let within = |allow: &[&str]| Some(Arc::new(Access { allow: patterns(allow), ..Access::default() }));
        let both = Access { allow: patterns(&["fs.*"]), within: within(&["@read_only"]), ..Access::default() };
        assert_eq!((both.allows(&read), both.allows(&write), both.is_open()), (true, false, false));
        assert!(Access { within: within(&[]), ..Access::default() }.is_open());
        assert_eq!(Pattern::parse("@harmless"), None);
        assert_eq!((read.kind(), write.kind()), ("tool.read", "tool.destructive"));
    }
}
