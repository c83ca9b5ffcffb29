//! Which servers a user speaks of.
//!
//! A server is spoken of where its id stands as a whole word, in whatever case. Letters and digits make words, and so do `-`, `_` and `.`
//! between them: `my-server` is not spoken of in `my-server-2`, nor `git` in `git-hub` or `git.md`, but `git` is in "with git.". An id that
//! is part of a longer one that is spoken of, as `git` in `git hub`, is not.

use std::ops::Range;

/// The ids of `servers` that `message` speaks of, in the order of `servers`.
pub fn mentioned<'a>(message: &str, servers: &[&'a str]) -> Vec<&'a str> {
    let message = normalised(message);
    let places: Vec<(&str, Vec<Range<usize>>)> = servers.iter().map(|id| (*id, places(&message, &normalised(id)))).collect();
    let is_part = |id: &str, place: &Range<usize>| {
        let longer = |other: &Range<usize>| other.len() > place.len() && other.start <= place.start && place.end <= other.end;
        places.iter().any(|(other, found)| *other != id && found.iter().any(longer))
    };
    let is_mentioned = |(id, found): &&(&'a str, Vec<Range<usize>>)| found.iter().any(|place| !is_part(id, place));
    places.iter().filter(is_mentioned).map(|(id, _)| *id).collect()
}

/// Where `id` stands in `message` as a whole word.
fn places(message: &str, id: &str) -> Vec<Range<usize>> {
    if id.is_empty() {
        return Vec::new();
    }
    let is_whole = |place: &Range<usize>| {
        let (before, after) = (message.get(..place.start).unwrap_or_default(), message.get(place.end..).unwrap_or_default());
        !goes_on(before.chars().rev()) && !goes_on(after.chars())
    };
    message.match_indices(id).map(|(at, found)| at..at + found.len()).filter(is_whole).collect()
}

/// Whether the word goes on in `chars`, the nearest first.
fn goes_on(chars: impl Iterator<Item = char>) -> bool {
    let mut chars = chars.skip_while(|c| matches!(c, '-' | '_' | '.'));
    chars.next().is_some_and(|c| c.is_alphanumeric() && !is_written_without_spaces(c))
}

/// Whether words of its script follow one another without spaces, or have endings attached: there, an id in Latin letters stands beside them.
fn is_written_without_spaces(c: char) -> bool {
    matches!(c, '\u{0e00}'..='\u{0eff}' | '\u{1780}'..='\u{17ff}' | '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}'
        | '\u{ac00}'..='\u{d7af}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

/// In lower case, with single spaces.
fn normalised(text: &str) -> String {
    let mut normalised = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        if !normalised.is_empty() {
            normalised.push(' ');
        }
        normalised.push_str(&word.to_lowercase());
    }
    normalised
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(message: &str, servers: &[&str], expected: &[&str]) {
        assert_eq!(mentioned(message, servers), expected, "{message:?}");
    }

    #[test]
    fn an_id_is_a_whole_word_in_any_case() {
        check("Read it on GitHub please", &["github", "files"], &["github"]);
        check("github", &["github"], &["github"]);
        for message in
            ["(github)", "`github`:", "GITHUB's", "use github.", "_github_", "**github**", "- github", "github—or not", "github/x"]
        {
            check(message, &["github"], &["github"]);
        }
        for message in ["ghost", "agh", "gh2", "2gh", "ghé", "", " ", "g h"] {
            check(message, &["gh"], &[]);
        }
        check("ask Über", &["über"], &["über"]);
    }

    #[test]
    fn hyphens_dots_and_underscores_belong_to_a_word() {
        check("on my-server", &["my-server"], &["my-server"]);
        check("on my-server-2, please", &["my-server", "my-server-2"], &["my-server-2"]);
        check("on MY.server_v1.", &["my.server_v1", "my", "server_v1"], &["my.server_v1"]);
        check("git-hub has it", &["git"], &[]);
        check("git-hub has it", &["git", "hub", "git-hub"], &["git-hub"]);
        check("see github.com and memory.md", &["github", "memory"], &[]);
        check("call github__read_file", &["github"], &[]);
        check("pre-github", &["github"], &[]);
        check("I mean github... or files?", &["github", "files"], &["github", "files"]);
        check("--github", &["github"], &["github"]);
    }

    #[test]
    fn an_id_within_a_longer_one_is_not_meant() {
        check("ask git hub", &["git", "git hub"], &["git hub"]);
        check("ask git\n  hub", &["git", "git hub"], &["git hub"]);
        check("ask git hub, not git", &["git", "git hub"], &["git", "git hub"]);
        check("ask work/git", &["git", "work/git"], &["work/git"]);
    }

    #[test]
    fn scripts_without_spaces_do_not_hide_an_id() {
        check("用github读取文件", &["github"], &["github"]);
        check("github에서 읽어줘", &["github"], &["github"]);
        check("мойgithub", &["github"], &[]);
    }

    #[test]
    fn an_id_of_odd_characters_is_only_text() {
        check("use c++ now", &["c++"], &["c++"]);
        check("a.b", &["a+b", "a.b", "(", ""], &["a.b"]);
        check("axb", &["a.b"], &[]);
    }
}
