//! JSON in one form only, so that equal values have equal bytes.

use std::fmt::Write;

use serde_json::{Number, Value};
use sha2::{Digest, Sha256};

/// SHA-256 of the canonical JSON of `arguments`, 64 hexadecimal digits. The form is that of RFC 8785: keys in the order of their UTF-16
/// code units, nothing between tokens, numbers as ECMAScript writes them. Other than there, whole numbers beyond 2⁵³ keep all digits.
pub fn arguments_hash(arguments: &Value) -> String {
    let mut text = String::new();
    write_value(&mut text, arguments);
    let mut hash = String::with_capacity(64);
    for byte in Sha256::digest(text.as_bytes()) {
        // Writing to a string cannot fail.
        let _ = write!(hash, "{byte:02x}");
    }
    hash
}

fn write_value(text: &mut String, value: &Value) {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_unstable_by(|(a, _), (b, _)| a.encode_utf16().cmp(b.encode_utf16()));
            text.push('{');
            for (at, (name, value)) in fields.into_iter().enumerate() {
                separate(text, at);
                write_string(text, name);
                text.push(':');
                write_value(text, value);
            }
            text.push('}');
        }
        Value::Array(elements) => {
            text.push('[');
            for (at, element) in elements.iter().enumerate() {
                separate(text, at);
                write_value(text, element);
            }
            text.push(']');
        }
        Value::Number(number) => write_number(text, number),
        Value::String(string) => write_string(text, string),
        Value::Bool(_) | Value::Null => text.push_str(&value.to_string()),
    }
}

fn separate(text: &mut String, at: usize) {
    if at > 0 {
        text.push(',');
    }
}

/// serde_json escapes what RFC 8785 does, in the same way.
fn write_string(text: &mut String, string: &str) {
    text.push_str(&Value::from(string).to_string());
}

fn write_number(text: &mut String, number: &Number) {
    // Writing to a string cannot fail.
    let _ = match number.as_f64().filter(|_| number.is_f64()) {
        None => write!(text, "{number}"),
        Some(0.0) => write!(text, "0"),
        Some(float) if (1e-6..1e21).contains(&float.abs()) => write!(text, "{float}"),
        // The shortest digits in both languages; only the sign of the exponent is ECMAScript's own.
        Some(float) => {
            let written = format!("{float:e}");
            let signed = if written.contains("e-") { written } else { written.replace('e', "e+") };
            write!(text, "{signed}")
        }
    };
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn canonical(value: &Value) -> String {
        let mut text = String::new();
        write_value(&mut text, value);
        text
    }

    #[test]
    fn the_hash_is_the_one_that_another_program_computes() {
        // python: hashlib.sha256(json.dumps(arguments, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()).hexdigest()
        let hashes = [
            (r#"{"path":"README.md"}"#, "7d6441497d2a000b8143602a7817c90abe7db88e139f89c062a1c36cfe0ad9d6"),
            (r#"{}"#, "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"),
            (r#"{"b": [1, true, null], "a": {"z": "é", "y": -3}}"#, "451a802e5979dd873493255863e60972d20786bc1d8231d6cc987263fb79aadb"),
            (r#"{"text":"line\nbreak \"quoted\" 読む"}"#, "64f8c836c2676cfcc38aba2f89457c945063d86efdde89d285e5010143221636"),
        ];
        for (arguments, expected) in hashes {
            assert_eq!(arguments_hash(&serde_json::from_str(arguments).unwrap()), expected, "{arguments}");
        }
    }

    #[test]
    fn order_and_spacing_do_not_count() {
        let value = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        let (a, b) =
            (value(r#"{"b": {"d": 1, "c": [2, {"f": 1, "e": 2}]}, "a": null}"#), value(r#"{"a":null,"b":{"c":[2,{"e":2,"f":1}],"d":1}}"#));
        assert_eq!(arguments_hash(&a), arguments_hash(&b));
        assert_ne!(arguments_hash(&json!([1, 2])), arguments_hash(&json!([2, 1])));
        assert_ne!(arguments_hash(&json!({"a": 1})), arguments_hash(&json!({"a": "1"})));
    }

    #[test]
    fn keys_are_sorted_by_their_code_units() {
        // U+1F600 is D83D DE00 in UTF-16 and so comes before U+FB33, though its code point is higher.
        assert_eq!(canonical(&json!({"\u{fb33}": 1, "\u{1f600}": 2, "a": 3, "": 4})), "{\"\":4,\"a\":3,\"\u{1f600}\":2,\"\u{fb33}\":1}");
    }

    #[test]
    fn numbers_are_written_as_ecmascript_does() {
        // node: JSON.stringify(number)
        for (number, expected) in [
            ("1.0", "1"),
            ("-0.0", "0"),
            ("1.5", "1.5"),
            ("0.1", "0.1"),
            ("1e21", "1e+21"),
            ("1e20", "100000000000000000000"),
            ("123456789012345680000.0", "123456789012345680000"),
            ("1e-6", "0.000001"),
            ("1e-7", "1e-7"),
            ("0.000001234", "0.000001234"),
            ("-2.5e-8", "-2.5e-8"),
            ("1.7976931348623157e308", "1.7976931348623157e+308"),
            ("5e-324", "5e-324"),
            ("1E3", "1000"),
            ("4.35", "4.35"),
            ("9007199254740993.0", "9007199254740992"),
            ("0", "0"),
            ("-7", "-7"),
        ] {
            assert_eq!(canonical(&serde_json::from_str(number).unwrap()), expected, "{number}");
        }
        // Beyond 2^53 a double would forget digits.
        assert_eq!(canonical(&json!(u64::MAX)), "18446744073709551615");
    }

    #[test]
    fn strings_are_escaped_as_little_as_may_be() {
        assert_eq!(
            canonical(&json!("\u{8}\t\n\u{c}\r\"\\\u{1}\u{1f}/é\u{7f}\u{2028}")),
            "\"\\b\\t\\n\\f\\r\\\"\\\\\\u0001\\u001f/é\u{7f}\u{2028}\""
        );
    }
}
