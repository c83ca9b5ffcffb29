//! Reads almost-JSON once, front to back, and writes JSON as it goes.

use super::literal;

/// The JSON of the object that is written in `text`, alone or in a fence; `None` when its reading is not certain.
pub(super) fn read(text: &str) -> Option<String> {
    Reader { rest: text, json: String::with_capacity(text.len()), open: Vec::new(), is_after_comment: false }.read()
}

struct Reader<'t> {
    rest: &'t str,
    json: String,
    /// How the objects and arrays that are open will be closed, the innermost last.
    open: Vec<char>,
    /// Nothing but space stands between the last line comment and here.
    is_after_comment: bool,
}

/// What may come next.
#[derive(Clone, Copy)]
enum Due {
    /// A value.
    Value,
    /// The first member or element of what was just opened, or its end.
    First,
    /// The next one, or the end: a comma too many does no harm.
    Next,
    /// A comma or the end.
    Separator,
}

impl<'t> Reader<'t> {
    fn read(mut self) -> Option<String> {
        self.skip_opening_fence();
        self.skip_space()?;
        if self.peek() != Some('{') {
            return None;
        }
        let mut due = Due::Value;
        loop {
            self.skip_space()?;
            let Some(next) = self.peek() else { return self.closed_at_end(due) };
            due = match due {
                Due::Separator if next == ',' => {
                    self.skip(next);
                    Due::Next
                }
                Due::First | Due::Next | Due::Separator if self.open.last() == Some(&next) => {
                    self.skip(next);
                    self.json.push(next);
                    self.open.pop();
                    if self.open.is_empty() {
                        return self.ended();
                    }
                    Due::Separator
                }
                Due::Separator => return None,
                Due::First => self.member(next)?,
                Due::Next => {
                    self.json.push(',');
                    self.member(next)?
                }
                Due::Value => self.value(next)?,
            };
        }
    }

    /// A member's key, or an element.
    fn member(&mut self, next: char) -> Option<Due> {
        if self.open.last() == Some(&']') {
            return self.value(next);
        }
        match Quote::opened_by(next) {
            Some(quote) if self.string(next, quote)? => {}
            Some(_) => return None,
            None => self.bare_key()?,
        }
        self.skip_space()?;
        self.rest = self.rest.strip_prefix(':')?;
        self.json.push(':');
        Some(Due::Value)
    }

    fn bare_key(&mut self) -> Option<()> {
        let key = self.take_while(|c| c.is_alphanumeric() || matches!(c, '_' | '$' | '-'));
        if key.is_empty() || key.starts_with('-') {
            return None;
        }
        self.json.extend(["\"", key, "\""]);
        Some(())
    }

    fn value(&mut self, next: char) -> Option<Due> {
        if matches!(next, '{' | '[') {
            if self.open.len() == DEPTH_MAX {
                return None;
            }
            self.skip(next);
            self.json.push(next);
            self.open.push(if next == '{' { '}' } else { ']' });
            return Some(Due::First);
        }
        match Quote::opened_by(next) {
            Some(quote) => _ = self.string(next, quote)?,
            None => self.scalar()?,
        }
        Some(Due::Separator)
    }

    fn scalar(&mut self) -> Option<()> {
        let word = self.take_while(|c| c.is_alphanumeric() || matches!(c, '_' | '+' | '-' | '.'));
        let is_number = || serde_json::from_str::<serde_json::Number>(word).is_ok();
        let spelled = literal(word).or_else(|| is_number().then_some(word))?;
        self.json.push_str(spelled);
        Some(())
    }

    /// A string. Whether it was closed by a quote, and not by the end.
    fn string(&mut self, opening: char, quote: Quote) -> Option<bool> {
        self.skip(opening);
        self.json.push('"');
        let (mut last, mut has_breaks) = (opening, false);
        while let Some(next) = self.take() {
            if quote.is_closed_by(next) {
                self.json.push('"');
                // A comment has space before it. This is a quote inside a text, and the text goes on.
                return (!self.rest.starts_with(['/', '#'])).then_some(true);
            }
            match next {
                '\\' => self.escape()?,
                _ if quote.is_mixed_with(next) => return None,
                '"' => self.json.push_str("\\\""),
                '\0'..' ' => self.control(next),
                _ => self.json.push(next),
            }
            last = next;
            has_breaks |= next == '\n';
        }
        // With punctuation or several lines in it, more than a quote may be missing.
        if has_breaks || !last.is_alphanumeric() && !matches!(last, '.' | '!' | '?') {
            return None;
        }
        self.json.push('"');
        Some(false)
    }

    /// The escapes of JSON, and the one that all other languages agree on.
    fn escape(&mut self) -> Option<()> {
        match self.take()? {
            '\'' => self.json.push('\''),
            'u' => {
                let (digits, rest) = self.rest.split_at_checked(4)?;
                if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
                    return None;
                }
                self.rest = rest;
                self.json.extend(["\\u", digits]);
            }
            known @ ('"' | '\\' | '/' | 'b' | 'f' | 'n' | 'r' | 't') => self.json.extend(['\\', known]),
            _ => return None,
        }
        Some(())
    }

    fn control(&mut self, byte: char) {
        match byte {
            '\n' => self.json.push_str("\\n"),
            '\r' => self.json.push_str("\\r"),
            '\t' => self.json.push_str("\\t"),
            other => self.json.push_str(&format!("\\u{:04x}", u32::from(other))),
        }
    }

    /// The text is over before the object: closing brackets may be missing, and nothing else.
    fn closed_at_end(mut self, due: Due) -> Option<String> {
        // They may stand in the comment, and more with them.
        if !matches!(due, Due::Separator) || self.is_after_comment {
            return None;
        }
        self.json.extend(self.open.iter().rev());
        Some(self.json)
    }

    /// The object is over: closing braces may be left over, and nothing else.
    fn ended(mut self) -> Option<String> {
        self.skip_space()?;
        let rest = self.rest.trim_start_matches(|c| c == '}' || is_space(c));
        let rest = rest.strip_prefix(FENCE).unwrap_or(rest);
        rest.trim_start_matches(is_space).is_empty().then_some(self.json)
    }

    fn skip_opening_fence(&mut self) {
        if let Some(inside) = self.rest.trim_start_matches(is_space).strip_prefix(FENCE) {
            self.rest = inside.trim_start_matches(char::is_alphanumeric);
        }
    }

    /// Skips space and comments. Fails where a comment has no end.
    fn skip_space(&mut self) -> Option<()> {
        self.is_after_comment = false;
        loop {
            self.rest = self.rest.trim_start_matches(is_space);
            // Without a space it is a colour or a channel.
            let hashed = || self.rest.strip_prefix('#').filter(|comment| comment.starts_with(char::is_whitespace));
            if let Some(comment) = self.rest.strip_prefix("//").or_else(hashed) {
                self.rest = comment.split_once('\n').unwrap_or_default().1;
                self.is_after_comment = true;
            } else if let Some(comment) = self.rest.strip_prefix("/*") {
                self.rest = comment.split_once("*/")?.1;
            } else {
                return Some(());
            }
        }
    }

    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn take(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.skip(next);
        Some(next)
    }

    fn skip(&mut self, next: char) {
        self.rest = self.rest.strip_prefix(next).unwrap_or_default();
    }

    fn take_while(&mut self, is_part: impl Fn(char) -> bool) -> &'t str {
        let end = self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len());
        let (part, rest) = self.rest.split_at_checked(end).unwrap_or_default();
        self.rest = rest;
        part
    }
}

/// The quotes that a string stands in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Quote {
    Double,
    Single,
    CurlyDouble,
    CurlySingle,
}

impl Quote {
    fn opened_by(mark: char) -> Option<Self> {
        [Self::Double, Self::Single, Self::CurlyDouble, Self::CurlySingle].into_iter().find(|quote| quote.is_closed_by(mark))
    }

    /// Which curly quote opens and which one closes depends on the language.
    fn is_closed_by(self, mark: char) -> bool {
        match self {
            Self::Double => mark == '"',
            Self::Single => mark == '\'',
            Self::CurlyDouble => matches!(mark, '“' | '”' | '„'),
            Self::CurlySingle => matches!(mark, '‘' | '’' | '‚'),
        }
    }

    /// Whether `mark` in a curly string may as well be its end.
    fn is_mixed_with(self, mark: char) -> bool {
        match self {
            Self::Double | Self::Single => false,
            Self::CurlyDouble => mark == '"',
            Self::CurlySingle => mark == '\'',
        }
    }
}

fn is_space(c: char) -> bool {
    // A byte order mark is no space to Rust.
    c.is_whitespace() || c == '\u{feff}'
}

const FENCE: &str = "```";

/// serde_json refuses deeper nesting.
const DEPTH_MAX: usize = 127;
