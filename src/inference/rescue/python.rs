//! Python's calls and literals, as far as models write tool calls with them: literal arguments only.

use serde_json::Value;

use super::scan::{is_name_byte, run, scalar_end};
use crate::inference::repair;

/// A call whose arguments are literals.
pub(super) struct Call<'t> {
    pub(super) name: &'t str,
    pub(super) positional: Vec<Literal>,
    pub(super) keywords: Vec<(&'t str, Literal)>,
}

/// The value of a literal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Literal {
    /// A string's text.
    Text(String),
    /// Anything else, as JSON text.
    Json(String),
}

/// The JSON text of a text that is one literal.
pub(super) fn to_json(text: &str) -> Option<String> {
    let mut reader = Reader::new(text, 0);
    let literal = reader.literal(0)?;
    reader.skip_space();
    (reader.at == text.len()).then(|| literal.into_json())
}

/// Reads Python from a position of a text.
pub(super) struct Reader<'t> {
    text: &'t str,
    pub(super) at: usize,
}

// === impl Literal ===

impl Literal {
    pub(super) fn into_json(self) -> String {
        match self {
            Self::Text(text) => Value::from(text).to_string(),
            Self::Json(json) => json,
        }
    }
}

// === impl Reader ===

impl<'t> Reader<'t> {
    pub(super) fn new(text: &'t str, at: usize) -> Self {
        Self { text, at }
    }

    pub(super) fn skip_space(&mut self) {
        self.at += run(self.text.as_bytes(), self.at, |byte| byte.is_ascii_whitespace());
    }

    /// Steps over `token`, if it stands here or behind white space.
    pub(super) fn eat(&mut self, token: &str) -> bool {
        let before = self.at;
        self.skip_space();
        let is_there = self.rest().starts_with(token);
        self.at = if is_there { self.at + token.len() } else { before };
        is_there
    }

    /// Reads `name(…)`.
    pub(super) fn call(&mut self) -> Option<Call<'t>> {
        self.skip_space();
        let name = self.name()?;
        let (mut positional, mut keywords) = (Vec::new(), Vec::new());
        if !self.rest().starts_with('(') {
            return None;
        }
        self.at += 1;
        while !self.eat(")") {
            match self.keyword() {
                Some(key) => keywords.push((key, self.literal(0)?)),
                // Python has none behind a keyword either.
                None if keywords.is_empty() => positional.push(self.literal(0)?),
                None => return None,
            }
            if !self.eat(",") && !self.next_is(")") {
                return None;
            }
        }
        Some(Call { name, positional, keywords })
    }

    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn next_is(&mut self, token: &str) -> bool {
        self.skip_space();
        self.rest().starts_with(token)
    }

    fn name(&mut self) -> Option<&'t str> {
        let name = self.rest().get(..run(self.text.as_bytes(), self.at, is_name_byte))?;
        self.at += name.len();
        name.starts_with(|char: char| char.is_ascii_alphabetic() || char == '_').then_some(name)
    }

    /// The key of `key=`, stepped over.
    fn keyword(&mut self) -> Option<&'t str> {
        self.skip_space();
        let before = self.at;
        let key = self.name();
        if key.is_some() && self.eat("=") && !self.rest().starts_with('=') {
            return key;
        }
        self.at = before;
        None
    }

    fn literal(&mut self, depth: usize) -> Option<Literal> {
        self.skip_space();
        let rest = self.rest();
        match *rest.as_bytes().first()? {
            _ if depth > DEPTH_MAX => None,
            b'"' | b'\'' => self.string().map(Literal::Text),
            b'[' => self.sequence("]", depth),
            b'(' => self.sequence(")", depth),
            b'{' => self.dictionary(depth),
            b'-' | b'0'..=b'9' => {
                let end = scalar_end(self.text.as_bytes(), self.at)?;
                let number = self.text.get(self.at..end)?;
                self.at = end;
                // What else Python takes for a part of a number makes it another one.
                (!self.rest().starts_with(|char: char| char.is_alphanumeric() || matches!(char, '.' | '_')))
                    .then(|| Literal::Json(number.to_owned()))
            }
            _ => {
                let name = self.name()?;
                Some(Literal::Json(repair::literal(name)?.to_owned()))
            }
        }
    }

    /// A list, or a tuple, which becomes one.
    fn sequence(&mut self, closing: &str, depth: usize) -> Option<Literal> {
        self.at += 1;
        let mut items = Vec::new();
        while !self.eat(closing) {
            items.push(self.literal(depth + 1)?.into_json());
            if !self.eat(",") && !self.next_is(closing) {
                return None;
            }
        }
        Some(Literal::Json(format!("[{}]", items.join(","))))
    }

    fn dictionary(&mut self, depth: usize) -> Option<Literal> {
        self.at += 1;
        let mut members = super::arguments::Members::default();
        while !self.eat("}") {
            let Literal::Text(key) = self.literal(depth + 1)? else { return None };
            if !self.eat(":") {
                return None;
            }
            members.insert(&key, self.literal(depth + 1)?.into_json());
            if !self.eat(",") && !self.next_is("}") {
                return None;
            }
        }
        Some(Literal::Json(members.to_json()))
    }

    /// A string in one or three quotes of either kind. Models break lines in those in one, too.
    fn string(&mut self) -> Option<String> {
        let rest = self.rest();
        let quote = ["\"\"\"", "'''", "\"", "'"].into_iter().find(|quote| rest.starts_with(quote))?;
        self.at += quote.len();
        let mut string = String::new();
        loop {
            let rest = self.rest();
            let plain = rest.find([quote.chars().next()?, '\\'])?;
            string.push_str(rest.get(..plain)?);
            self.at += plain;
            if self.rest().starts_with(quote) {
                self.at += quote.len();
                return Some(string);
            }
            let char = if self.rest().starts_with('\\') { self.escape()? } else { self.next_char() };
            string.extend(char);
        }
    }

    /// The character that an escape stands for; none for one that continues a line.
    fn escape(&mut self) -> Option<Option<char>> {
        self.at += 1;
        Some(Some(match self.next_char()? {
            'n' => '\n',
            't' => '\t',
            'r' => '\r',
            'x' => char::from_u32(self.hex(2)?)?,
            'u' => self.utf16()?,
            'U' => char::from_u32(self.hex(8)?)?,
            char @ ('\\' | '\'' | '"' | '/') => char,
            '\n' => return Some(None),
            // Python keeps the backslash of an escape that it does not know; who writes one means something else.
            _ => return None,
        }))
    }

    /// A character in one or two units of UTF-16; Python has only the first, and JSON both.
    fn utf16(&mut self) -> Option<char> {
        let first = u16::try_from(self.hex(4)?).ok()?;
        let mut units = vec![first];
        if (0xd800..0xdc00).contains(&first) && self.rest().starts_with("\\u") {
            self.at += 2;
            units.push(u16::try_from(self.hex(4)?).ok()?);
        }
        char::decode_utf16(units).next()?.ok()
    }

    fn hex(&mut self, digits: usize) -> Option<u32> {
        let written = self.rest().get(..digits).filter(|written| written.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
        self.at += digits;
        u32::from_str_radix(written, 16).ok()
    }

    fn next_char(&mut self) -> Option<char> {
        let char = self.rest().chars().next()?;
        self.at += char.len_utf8();
        Some(char)
    }
}

/// Deeper than arguments are; each level is a call of a function here.
const DEPTH_MAX: usize = 32;

#[cfg(test)]
mod tests {
    use super::to_json;

    #[test]
    fn literals() {
        let check = |python: &str, json: Option<&str>| assert_eq!(to_json(python).as_deref(), json, "{python}");
        check("'a\"b'", Some(r#""a\"b""#));
        check(r#""it's\n\x41\u00e9\ud83d\ude00""#, Some("\"it's\\nAé😀\""));
        check("'''a 'b'\nc'''", Some(r#""a 'b'\nc""#));
        check("''", Some("\"\""));
        check("[1, -2.5, True, null, ('a', [],),]", Some(r#"[1,-2.5,true,null,["a",[]]]"#));
        check("{'a': {'b': None}, \"c\": 'd'}", Some(r#"{"a":{"b":null},"c":"d"}"#));
        check("{'a': 1, 'a': 2}", Some(r#"{"a":2}"#));
        check("{1: 2}", None);
        check("{'a'}", None);
        check("1_000", None);
        check("0x10", None);
        check("01", None);
        check("1.", None);
        check("x", None);
        check("f'x'", None);
        check("'a' 'b'", None);
        check(r"'\d'", None);
        check("'open", None);
        check("[1", None);
        check(&"[".repeat(1000), None);
        check("datetime(2024, 1, 1)", None);
    }
}
