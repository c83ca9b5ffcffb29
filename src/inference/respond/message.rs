//! The text of `message` read out of arguments while they arrive, cut anywhere: in the middle of an escape, of a surrogate pair, of a
//! character. Once something was read, more input only adds to it.

/// Reads the first string named `message` at the top of a JSON object.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    state: State,
    /// How deep in objects and arrays; 1 is the top of the arguments.
    depth: usize,
    /// The key that is being read or was read last, at the top only.
    key: Vec<u8>,
    /// Bytes of the message that are not yet whole characters.
    partial: Vec<u8>,
    /// What stands behind a quote of which it is not clear whether it ends the message.
    behind_quote: Vec<u8>,
    /// The first half of a surrogate pair.
    high: Option<u16>,
    /// What was read since it was taken last.
    text: String,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum State {
    /// Between tokens.
    #[default]
    Outside,
    /// In a key at the top.
    Key,
    /// Behind a key at the top; `true` once the colon was seen.
    AfterKey(bool),
    /// In a string that nobody wants; `true` after a backslash.
    Skipped(bool),
    /// In a key at the top, after a backslash.
    KeyEscape,
    /// In the message.
    Message,
    /// Behind a quote in the message, which ends it if a brace, or a comma and a key, follow: `true` once the comma was seen.
    Quote(bool),
    /// In the message, after a backslash.
    Escape,
    /// In the message, after `\u` and so many digits with this value.
    Unicode(u8, u16),
    /// The message has ended, or will not come.
    Done,
}

impl Reader {
    /// Takes the next piece of the arguments.
    pub(crate) fn push(&mut self, piece: &str) {
        for byte in piece.bytes() {
            if self.state == State::Done {
                break;
            }
            self.state = self.step(byte);
        }
        self.flush();
    }

    /// What was read of the message since this was asked last.
    pub(crate) fn take(&mut self) -> String {
        std::mem::take(&mut self.text)
    }

    fn step(&mut self, byte: u8) -> State {
        match self.state {
            State::Outside => self.outside(byte),
            State::Key => match byte {
                b'"' => State::AfterKey(false),
                b'\\' => State::KeyEscape,
                _ => {
                    self.key.push(byte);
                    State::Key
                }
            },
            // A key that needs an escape is not `message`.
            State::KeyEscape => {
                self.key.push(0);
                State::Key
            }
            State::AfterKey(colon) => self.after_key(byte, colon),
            State::Skipped(true) => State::Skipped(false),
            State::Skipped(false) => match byte {
                b'\\' => State::Skipped(true),
                b'"' => State::Outside,
                _ => State::Skipped(false),
            },
            State::Message => self.message(byte),
            State::Quote(comma) => self.quote(byte, comma),
            State::Escape => self.escape(byte),
            State::Unicode(digits, value) => self.unicode(byte, digits, value),
            State::Done => State::Done,
        }
    }

    fn outside(&mut self, byte: u8) -> State {
        match byte {
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            b'"' if self.depth == 1 => {
                self.key.clear();
                return State::Key;
            }
            b'"' => return State::Skipped(false),
            _ => {}
        }
        State::Outside
    }

    fn after_key(&mut self, byte: u8, colon: bool) -> State {
        match byte {
            b':' => State::AfterKey(true),
            b' ' | b'\t' | b'\n' | b'\r' => State::AfterKey(colon),
            b'"' if colon && self.key == b"message" => State::Message,
            b'"' if colon => State::Skipped(false),
            _ => self.outside(byte),
        }
    }

    fn message(&mut self, byte: u8) -> State {
        match byte {
            b'\\' => return State::Escape,
            b'"' => {
                self.unpair();
                self.behind_quote.clear();
                return State::Quote(false);
            }
            _ => {
                self.unpair();
                self.partial.push(byte);
            }
        }
        State::Message
    }

    /// A quote that a model forgot to escape does not end the message.
    fn quote(&mut self, byte: u8, comma: bool) -> State {
        match byte {
            b' ' | b'\t' | b'\n' | b'\r' => {}
            b'}' => return State::Done,
            b'"' if comma => return State::Done,
            b',' if !comma => {
                self.behind_quote.push(byte);
                return State::Quote(true);
            }
            _ => {
                self.partial.push(b'"');
                self.partial.append(&mut self.behind_quote);
                return self.message(byte);
            }
        }
        self.behind_quote.push(byte);
        State::Quote(comma)
    }

    fn escape(&mut self, byte: u8) -> State {
        let character = match byte {
            b'u' => return State::Unicode(0, 0),
            b'n' => b'\n',
            b't' => b'\t',
            b'r' => b'\r',
            b'b' => 8,
            b'f' => 12,
            other => other,
        };
        self.unpair();
        self.partial.push(character);
        State::Message
    }

    fn unicode(&mut self, byte: u8, digits: u8, value: u16) -> State {
        let Some(digit) = char::from(byte).to_digit(16).and_then(|digit| u16::try_from(digit).ok()) else {
            // No escape at all, as in `C:\\users` with a single backslash: it is meant as it stands.
            self.unpair();
            self.partial.extend_from_slice(b"\\u");
            if digits > 0 {
                self.partial.extend_from_slice(format!("{value:0width$x}", width = usize::from(digits)).as_bytes());
            }
            return self.message(byte);
        };
        let value = value << 4 | digit;
        if digits < 3 {
            return State::Unicode(digits + 1, value);
        }
        self.unit(value);
        State::Message
    }

    /// One UTF-16 unit from an escape.
    fn unit(&mut self, unit: u16) {
        match (self.high.take(), unit) {
            (Some(high), 0xDC00..=0xDFFF) => {
                let pair = char::decode_utf16([high, unit]).next();
                self.character(pair.and_then(Result::ok).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            (lone, unit) => {
                if lone.is_some() {
                    self.character(char::REPLACEMENT_CHARACTER);
                }
                match unit {
                    0xD800..=0xDBFF => self.high = Some(unit),
                    _ => self.character(char::from_u32(unit.into()).unwrap_or(char::REPLACEMENT_CHARACTER)),
                }
            }
        }
    }

    /// A half that stayed alone.
    fn unpair(&mut self) {
        if self.high.take().is_some() {
            self.character(char::REPLACEMENT_CHARACTER);
        }
    }

    fn character(&mut self, character: char) {
        let mut bytes = [0; 4];
        self.partial.extend_from_slice(character.encode_utf8(&mut bytes).as_bytes());
    }

    /// Moves the whole characters among the bytes to the text.
    fn flush(&mut self) {
        let whole = match std::str::from_utf8(&self.partial) {
            Ok(text) => text.len(),
            Err(error) => error.valid_up_to(),
        };
        let rest = self.partial.split_off(whole);
        if let Ok(text) = String::from_utf8(std::mem::replace(&mut self.partial, rest)) {
            self.text.push_str(&text);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(pieces: &[&str]) -> String {
        let mut reader = Reader::default();
        pieces.iter().for_each(|piece| reader.push(piece));
        reader.take()
    }

    #[test]
    fn reads_the_message_and_nothing_else() {
        let check = |arguments: &str, expected: &str| assert_eq!(read(&[arguments]), expected, "{arguments}");
        check(r#"{"message": "all of it", "more": "x"}"#, "all of it");
        check(r#"{"tone":"kind","n":1,"list":["message"],"o":{"message":"inner"},"message":"it"}"#, "it");
        check(r#"{"message":"an \"escape\" \n \\ \/ \u00e9 \ud83d\ude00"}"#, "an \"escape\" \n \\ / é 😀");
        check(r#"{"message":"lone \ud83d and \ude00 halves \ud83d"}"#, "lone \u{fffd} and \u{fffd} halves \u{fffd}");
        check(r#"{"message":"C:\users\u00zz"}"#, r"C:\users\u00zz");
        check(r#"{"message":"half of i"#, "half of i");
        check(r#"{"message":"He said "hi" and "bye""}"#, r#"He said "hi" and "bye""#);
        check(r#"{"message":"one "two", three" , "x":"y"}"#, r#"one "two", three"#);
        check(r#"{"message":"the end",}"#, "the end");
        check(r#"{"message":"a cut one \u00"#, "a cut one ");
        check(r#"{"message":"a smile \ud83d\ude"#, "a smile ");
        check(r#"{"message":"back\"#, "back");
        check(r#"{"message":3,"x":"message"}"#, "");
        check(r#"{"m\u0065ssage":"x"}"#, "");
        check(r#"["message","x"]"#, "");
        check(r#""message""#, "");
        check("", "");
    }

    proptest! {
        #[test]
        fn cuts_do_not_matter_and_serde_agrees(message in "\\PC{0,20}|[\\n\"\\\\😀é]{0,8}", escape in any::<bool>(), at in 0usize..200, and in 0usize..200) {
            let mut arguments = serde_json::json!({"a": [1, {"message": 0}], "message": message}).to_string();
            if escape {
                arguments = arguments.chars().map(|c| if c.is_ascii() { c.to_string() } else {
                    let mut units = [0; 2];
                    c.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")).collect()
                }).collect();
            }
            let cut = |at: usize| (0..=at.min(arguments.len())).rev().find(|at| arguments.is_char_boundary(*at)).unwrap();
            let (first, second) = (cut(at.min(and)), cut(at.max(and)));
            let (rest, last) = arguments.split_at(second);
            let (start, middle) = rest.split_at(first);
            prop_assert_eq!(read(&[start, middle, last]), message);
        }
    }
}
