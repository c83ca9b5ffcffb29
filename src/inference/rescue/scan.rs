//! Lexical steps through JSON: where a string, a scalar or white space ends.
//!
//! The grammar is RFC 8259's, as strict as serde_json's; nothing here allocates or recurses.

/// The end of the string whose opening quote is at `at`; `None` when it is broken or unfinished.
pub(super) fn string_end(bytes: &[u8], at: usize) -> Option<usize> {
    let mut at = at + 1;
    loop {
        match bytes.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += escape_len(bytes.get(at + 1..)?)?,
            0..0x20 => return None,
            _ => at += 1,
        }
    }
}

/// The end of the string, number or literal at `at`.
pub(super) fn scalar_end(bytes: &[u8], at: usize) -> Option<usize> {
    let rest = bytes.get(at..)?;
    match rest.first()? {
        b'"' => string_end(bytes, at),
        b'-' | b'0'..=b'9' => number_end(bytes, at),
        _ => LITERALS.iter().find(|literal| rest.starts_with(literal)).map(|it| at + it.len()),
    }
}

/// The first position from `at` on that is no JSON white space.
pub(super) fn skip_space(bytes: &[u8], at: usize) -> usize {
    at + run(bytes, at, |byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r'))
}

/// How many bytes from `at` on satisfy `accept`.
pub(super) fn run(bytes: &[u8], at: usize, accept: impl Fn(u8) -> bool) -> usize {
    let rest = bytes.get(at..).unwrap_or_default();
    rest.iter().take_while(|byte| accept(**byte)).count()
}

/// Whether a byte may stand in a tool's name.
pub(super) fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')
}

fn escape_len(after_backslash: &[u8]) -> Option<usize> {
    match after_backslash.first()? {
        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Some(2),
        b'u' => after_backslash.get(1..5)?.iter().all(u8::is_ascii_hexdigit).then_some(6),
        _ => None,
    }
}

fn number_end(bytes: &[u8], at: usize) -> Option<usize> {
    let digits = |at| run(bytes, at, |byte| byte.is_ascii_digit());
    let mut at = at + usize::from(bytes.get(at) == Some(&b'-'));
    at += match bytes.get(at)? {
        b'0' => 1,
        b'1'..=b'9' => digits(at),
        _ => return None,
    };
    if bytes.get(at) == Some(&b'.') {
        at += 1 + Some(digits(at + 1)).filter(|&count| count > 0)?;
    }
    if matches!(bytes.get(at), Some(b'e' | b'E')) {
        at += 1 + usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
        at += Some(digits(at)).filter(|&count| count > 0)?;
    }
    Some(at)
}

const LITERALS: [&[u8]; 3] = [b"true", b"false", b"null"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalars_end_where_serde_says() {
        let check = |text: &str, valid: bool| {
            let ours = scalar_end(text.as_bytes(), 0) == Some(text.len());
            assert_eq!(ours, valid, "{text}");
            assert_eq!(serde_json::from_str::<serde_json::Value>(text).is_ok(), valid, "{text}");
        };
        check("0", true);
        check("-12.50e+3", true);
        check("7E2", true);
        check("01", false);
        check("1.", false);
        check("1e", false);
        check("-", false);
        check(".5", false);
        check("true", true);
        check("nul", false);
        check(r#""a\"\\\/\b\u00e9 é""#, true);
        check(r#""\x""#, false);
        check(r#""\u12g4""#, false);
        check("\"a\nb\"", false);
        check("\"open", false);
        check("\"open\\", false);
    }
}
