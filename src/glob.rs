//! Names with `*` in them.

/// Whether `text` is what `pattern` says, where `*` stands for any characters, none included.
pub fn matches(pattern: &str, text: &str) -> bool {
    let Some((before, after)) = pattern.split_once('*') else { return pattern == text };
    let Some(rest) = text.strip_prefix(before) else { return false };
    let ends = rest.char_indices().map(|(at, _)| at).chain([rest.len()]);
    ends.into_iter().any(|at| rest.get(at..).is_some_and(|rest| matches(after, rest)))
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn a_star_stands_for_any_characters() {
        for (pattern, text) in [("*", ""), ("a*", "a"), ("a*c", "abc"), ("*.*", "a.b"), ("gpt-*-mini", "gpt-4o-mini"), ("ä*", "äö")] {
            assert!(matches(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [("", "a"), ("a", "A"), ("a*c", "ab"), ("*b", "a")] {
            assert!(!matches(pattern, text), "{pattern} {text}");
        }
    }
}
