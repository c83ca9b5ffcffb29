//! Names that OpenAI's function calling allows: letters, digits, `_` and `-`, 64 at most. What is cut or changed ends in a digest of what
//! it was, so that it becomes the same every time and no two become one.

use sha2::{Digest, Sha256};

use crate::tools::definition::hex;

/// The longest legal name.
const LENGTH_MAX: usize = 64;
/// How many hexadecimal digits tell two names apart that were cut or changed to the same.
const SUFFIX: usize = 8;
/// What stands between a server and its tool.
const BETWEEN: &str = "__";

/// Names that no tool of a server gets, since the guardrails have a tool of that name.
pub(super) const RESERVED: [&str; 1] = ["respond"];

/// The name of `tool` with its server's in front: `server__tool`. No two tools have the same, but for those whose digests are.
pub fn qualified(server: &str, tool: &str) -> String {
    let name = format!("{server}{BETWEEN}{tool}");
    // `a__b` and `c` would read as `a` and `b__c`.
    let is_ambiguous = server.contains(BETWEEN) || server.ends_with('_');
    if is_ambiguous { with_digest(&name, &format!("{server}\0{tool}")) } else { legal(&name) }
}

/// `name` made legal; the same name always becomes the same.
pub(super) fn legal(name: &str) -> String {
    let is_legal = !name.is_empty() && name.len() <= LENGTH_MAX && name.chars().all(is_legal);
    if is_legal { name.to_owned() } else { with_digest(name, name) }
}

/// `name`, or what it becomes where that name `is_taken`.
pub(super) fn free(name: String, is_taken: impl Fn(&str) -> bool) -> String {
    // The second try is free but for one in four thousand million.
    let others = (1_u32..).map(|n| with_digest(&name, &format!("{name}\0{n}")));
    std::iter::once(name.clone()).chain(others).find(|name| !is_taken(name)).unwrap_or_default()
}

fn is_legal(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}

/// The beginning of `name` with a digest of `whole` behind it.
fn with_digest(name: &str, whole: &str) -> String {
    let kept: String = name.chars().map(|c| if is_legal(c) { c } else { '_' }).take(LENGTH_MAX - SUFFIX - 1).collect();
    let digest = hex(&Sha256::digest(whole.as_bytes()));
    let suffix: String = digest.chars().take(SUFFIX).collect();
    format!("{kept}_{suffix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_legal_name(name: &str) -> bool {
        (1..=LENGTH_MAX).contains(&name.len()) && name.chars().all(is_legal)
    }

    #[test]
    fn a_legal_name_stays() {
        for name in ["a", "read_file", "get-weather", "A_9", &"x".repeat(64)] {
            assert_eq!(legal(name), name);
        }
    }

    #[test]
    fn any_name_becomes_legal_and_stays_apart_from_others() {
        let long = "x".repeat(65);
        let longer = format!("{long}y");
        let names = ["", "a.b", "a b", "a/b", "ä", "日本語", "a_b", &long, &longer, &"ü".repeat(64), "\0", "a\"b"];
        let made: Vec<String> = names.iter().map(|name| legal(name)).collect();
        for (at, name) in made.iter().enumerate() {
            assert!(is_legal_name(name), "{name}");
            assert!(!made[..at].contains(name), "{name} twice");
        }
        assert_eq!(legal(&long), legal(&long));
    }

    #[test]
    fn a_server_and_its_tool_are_told_from_others() {
        assert_eq!(qualified("github", "read_file"), "github__read_file");
        let pairs = [("a__b", "c"), ("a", "b__c"), ("a_", "b"), ("a", "_b"), ("a", "__b"), ("a__", "b"), ("a.b", "c"), ("a_b", "c")];
        let made: Vec<String> = pairs.iter().map(|(server, tool)| qualified(server, tool)).collect();
        for (at, name) in made.iter().enumerate() {
            assert!(is_legal_name(name), "{name}");
            assert!(!made[..at].contains(name), "{name} twice");
        }
    }

    #[test]
    fn a_taken_name_becomes_another() {
        let first = free("a".to_owned(), |name| name == "a");
        assert!(is_legal_name(&first) && first.starts_with("a_"), "{first}");
        let second = free("a".to_owned(), |name| name == "a" || name == first);
        assert!(is_legal_name(&second) && second != first);
        assert!(is_legal_name(&free("x".repeat(64), |name| name.len() == 64 && name.ends_with('x'))));
    }
}
