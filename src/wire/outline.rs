//! The fields at the top of a JSON object, found while its bytes pass: an answer of megabytes is looked through, and nothing is kept of it
//! but the few short values that are asked for.

/// Looks for fields in the object whose bytes it is shown, however they are cut. What is no object has no fields.
#[derive(Debug)]
pub struct Outline {
    names: &'static [&'static str],
    /// By name, what was found: of a repeated name the last.
    found: Vec<Option<Vec<u8>>>,
    /// The containers that are open.
    depth: usize,
    text: Text,
    /// The name at the top that was read last, with its closing quote.
    name: Vec<u8>,
    /// What there is of the value at the top that is being read.
    value: Option<Value>,
    /// How long the string was that was read last.
    string_bytes: u64,
    text_bytes: u64,
}

/// A value, with the colon before it.
#[derive(Debug, Default)]
struct Value {
    /// Which field it is of, where it is to be kept.
    of: Option<usize>,
    bytes: Vec<u8>,
}

/// Whether what is read is part of a string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Text {
    Outside,
    Inside,
    /// Behind a backslash.
    Escaped,
}

/// A longer value is not kept: counts are short.
const VALUE_BYTES_MAX: usize = 8 << 10;
/// A longer name is none that anybody looks for.
const NAME_BYTES_MAX: usize = 64;

impl Outline {
    /// One that looks for the fields of these names.
    pub fn new(names: &'static [&'static str]) -> Self {
        Self {
            names,
            found: vec![None; names.len()],
            depth: 0,
            text: Text::Outside,
            name: Vec::new(),
            value: None,
            string_bytes: 0,
            text_bytes: 0,
        }
    }

    /// Reads on.
    pub fn push(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while let Some(byte) = rest.first() {
            let length = if self.text == Text::Outside {
                self.structure(*byte);
                1
            } else {
                self.string(rest)
            };
            let Some((run, after)) = rest.split_at_checked(length) else { return };
            if let Some(value) = &mut self.value {
                value.push(run);
            }
            rest = after;
        }
    }

    /// The JSON text of the field `name`, once it was read whole.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        let at = self.names.iter().position(|known| *known == name)?;
        self.found.get(at)?.as_deref()
    }

    /// How many bytes the strings below the top have so far, names apart.
    pub fn text_bytes(&self) -> u64 {
        self.text_bytes
    }

    /// Takes one byte outside of strings.
    fn structure(&mut self, byte: u8) {
        match byte {
            b'"' => {
                self.text = Text::Inside;
                self.string_bytes = 0;
                if self.is_at_name() {
                    self.name.clear();
                }
            }
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => {
                if self.depth == 1 {
                    self.end_value();
                }
                self.depth = self.depth.saturating_sub(1);
            }
            b',' if self.depth == 1 => self.end_value(),
            b':' => {
                if self.depth > 1 {
                    self.text_bytes = self.text_bytes.saturating_sub(self.string_bytes);
                } else if self.is_at_name() {
                    self.begin_value();
                }
            }
            _ => {}
        }
    }

    /// Takes what there is of a string in `rest`. Returns how long that is.
    fn string(&mut self, rest: &[u8]) -> usize {
        let length = if self.text == Text::Escaped {
            self.text = Text::Inside;
            1
        } else if let Some(at) = memchr::memchr2(b'"', b'\\', rest) {
            self.text = if rest.get(at) == Some(&b'"') { Text::Outside } else { Text::Escaped };
            at + 1
        } else {
            rest.len()
        };
        if self.is_at_name() && self.name.len() <= NAME_BYTES_MAX {
            self.name.extend(rest.iter().take(length.min(NAME_BYTES_MAX)));
        }
        if self.depth > 1 {
            let bytes = u64::try_from(length).unwrap_or(u64::MAX);
            self.string_bytes = self.string_bytes.saturating_add(bytes);
            self.text_bytes = self.text_bytes.saturating_add(bytes);
        }
        length
    }

    /// Whether a string that stands here is a name at the top.
    fn is_at_name(&self) -> bool {
        self.depth == 1 && self.value.is_none()
    }

    fn begin_value(&mut self) {
        let name = self.name.strip_suffix(b"\"").unwrap_or_default();
        let of = self.names.iter().position(|known| known.as_bytes() == name);
        self.value = Some(Value { of, bytes: Vec::new() });
    }

    fn end_value(&mut self) {
        let Some(Value { of: Some(of), bytes }) = self.value.take() else { return };
        if let (Some(found), Some(value)) = (self.found.get_mut(of), bytes.strip_prefix(b":")) {
            *found = Some(value.to_vec());
        }
    }
}

impl Value {
    fn push(&mut self, bytes: &[u8]) {
        if self.of.is_none() {
            return;
        }
        if self.bytes.len() + bytes.len() > VALUE_BYTES_MAX {
            *self = Self::default();
            return;
        }
        self.bytes.extend_from_slice(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pieces: &[&[u8]]) -> (Option<String>, Option<String>, u64) {
        let mut outline = Outline::new(&["usage", "timings"]);
        pieces.iter().for_each(|piece| outline.push(piece));
        let text = |name| outline.get(name).map(|value| String::from_utf8(value.to_vec()).unwrap());
        (text("usage"), text("timings"), outline.text_bytes())
    }

    /// Checks it whole and cut at every byte.
    fn check(json: &str, usage: Option<&str>, timings: Option<&str>) {
        let whole = read(&[json.as_bytes()]);
        assert_eq!((whole.0.as_deref(), whole.1.as_deref()), (usage, timings), "{json}");
        for at in 0..=json.len() {
            let (front, back) = json.as_bytes().split_at(at);
            assert_eq!(read(&[front, back]), whole, "{json} cut at {at}");
        }
        let bytes: Vec<&[u8]> = json.as_bytes().chunks(1).collect();
        assert_eq!(read(&bytes), whole, "{json}");
    }

    #[test]
    fn fields_at_the_top_are_found_wherever_they_stand() {
        check(r#"{"usage":{"a":1},"x":[1,2]}"#, Some(r#"{"a":1}"#), None);
        check(r#"{"x":["a,b",{"c":"d"}],"usage":{"a":{"b":[1]}},"timings":3}"#, Some(r#"{"a":{"b":[1]}}"#), Some("3"));
        check(r#"{"x":"\\","usage":"\"}","timings":null}"#, Some(r#""\"}""#), Some("null"));
        check(r#"{"usage":1,"usage":2}"#, Some("2"), None);
    }

    #[test]
    fn names_elsewhere_are_not_taken_for_them() {
        check(r#"{"x":{"usage":1},"y":[{"timings":2}],"z":"usage"}"#, None, None);
        check(r#"{"x":"\"usage\":1,","usages":1,"\\usage":2}"#, None, None);
        check(r#"[{"usage":1},"usage"]"#, None, None);
        check(r#"{"usage":{"a":"#, None, None);
        for nothing in ["", "usage", "}}]],:\"usage\":1", "\"usage\":1"] {
            check(nothing, None, None);
        }
    }

    #[test]
    fn what_is_long_is_not_kept() {
        let long = "x".repeat(2 * VALUE_BYTES_MAX);
        let json = format!(r#"{{"usage":"{long}","{long}":"{long}","timings":{{"{long}":1}},"usage":7}}"#);
        let (usage, timings, _) = read(&[json.as_bytes()]);
        assert_eq!((usage.as_deref(), timings), (Some("7"), None));
    }

    #[test]
    fn texts_are_measured_without_names() {
        let check = |json: &str, expected: u64| assert_eq!(read(&[json.as_bytes()]).2, expected, "{json}");
        // Each with its closing quote.
        check(r#"{"id":"abc","choices":[{"message":{"content":"12345"}}]}"#, 6);
        check(r#"{"a":["b","c"]}"#, 4);
        check(r#"{"a":[1.5,2.5]}"#, 0);
    }
}
