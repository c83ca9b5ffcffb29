//! A reply whose form was forced: one JSON object that is a call, read as that call while it comes.
//!
//! The form is `{"name": …, "arguments": {…}}`, in that order: see `constrain`. A backend may ignore what was asked for; what does not have
//! the form stays text.

use crate::{chat::Call, chat::Event};

/// Reads one reply.
#[derive(Debug, Default)]
pub(super) struct Reader {
    state: State,
    /// What was said before it could be told what it is.
    held: String,
    /// How many calls the backend made by itself before this one.
    calls_before: usize,
    /// Whether this one was told.
    told: bool,
}

#[derive(Debug, Default)]
enum State {
    /// Before the arguments.
    #[default]
    Head,
    /// In the arguments.
    Arguments { depth: usize, in_string: bool, escaped: bool },
    /// Behind them.
    Tail,
    /// It is text.
    Text,
}

/// What the beginning of an object is.
enum Head {
    /// A call of this tool, whose arguments begin at that byte.
    Call(String, usize),
    /// It can be told only when more is there.
    Open,
    /// No call.
    Other,
}

impl Reader {
    /// What `event` says, with text read as a call. Some of it may come with a later event.
    pub(super) fn read(&mut self, event: Event) -> Vec<Event> {
        match event {
            Event::Content(text) if !matches!(self.state, State::Text) => self.content(text),
            event @ Event::Finished(_) => self.held().into_iter().chain([event]).collect(),
            event @ Event::CallStarted(_) if !self.told => {
                self.calls_before += 1;
                self.held().into_iter().chain([event]).collect()
            }
            Event::CallArguments { index, fragment } if self.told && index >= self.calls_before => {
                vec![Event::CallArguments { index: index + 1, fragment }]
            }
            event => vec![event],
        }
    }

    fn content(&mut self, text: String) -> Vec<Event> {
        let mut events = Vec::new();
        let mut rest = text;
        if matches!(self.state, State::Head) {
            self.held.push_str(&rest);
            match head(&self.held) {
                Head::Open => return events,
                Head::Other => {
                    self.state = State::Text;
                    return self.held().into_iter().collect();
                }
                Head::Call(name, at) => {
                    self.told = true;
                    events.push(Event::CallStarted(Call { id: String::new(), name, arguments: String::new() }));
                    rest = self.held.split_off(at);
                    self.held.clear();
                    self.state = State::Arguments { depth: 0, in_string: false, escaped: false };
                }
            }
        }
        rest.truncate(self.arguments_end(&rest));
        if !rest.is_empty() {
            events.push(Event::CallArguments { index: self.calls_before, fragment: rest });
        }
        events
    }

    /// How much of `text` is arguments.
    fn arguments_end(&mut self, text: &str) -> usize {
        let State::Arguments { depth, in_string, escaped } = &mut self.state else { return 0 };
        for (at, byte) in text.bytes().enumerate() {
            match byte {
                _ if *escaped => *escaped = false,
                b'\\' if *in_string => *escaped = true,
                b'"' => *in_string = !*in_string,
                _ if *in_string => {}
                b'{' | b'[' => *depth += 1,
                b'}' | b']' if *depth == 1 => {
                    self.state = State::Tail;
                    return at + 1;
                }
                b'}' | b']' => *depth = depth.saturating_sub(1),
                _ => {}
            }
        }
        text.len()
    }

    /// Whether the call is whole. What follows is not read: the end of the object, or what a backend says that ignores the form.
    pub(super) fn is_whole(&self) -> bool {
        matches!(self.state, State::Tail)
    }

    fn held(&mut self) -> Option<Event> {
        let held = std::mem::take(&mut self.held);
        (!held.is_empty()).then_some(Event::Content(held))
    }
}

/// Reads `{"name": "…", "arguments": {`.
fn head(text: &str) -> Head {
    let mut rest = text;
    for token in ["{", "\"name\"", ":"] {
        match after(rest, token) {
            Ok(behind) => rest = behind,
            Err(head) => return head,
        }
    }
    let mut names = serde_json::Deserializer::from_str(rest).into_iter::<String>();
    let name = match names.next() {
        Some(Ok(name)) => name,
        Some(Err(error)) if !error.is_eof() => return Head::Other,
        _ => return Head::Open,
    };
    rest = rest.get(names.byte_offset()..).unwrap_or_default();
    for token in [",", "\"arguments\"", ":"] {
        match after(rest, token) {
            Ok(behind) => rest = behind,
            Err(head) => return head,
        }
    }
    let rest = rest.trim_start();
    match rest.bytes().next() {
        None => Head::Open,
        Some(b'{') => Head::Call(name, text.len() - rest.len()),
        Some(_) => Head::Other,
    }
}

/// What stands behind `token` and the white space before it.
fn after<'t>(text: &'t str, token: &str) -> Result<&'t str, Head> {
    let text = text.trim_start();
    match text.strip_prefix(token) {
        Some(behind) => Ok(behind),
        None if token.starts_with(text) => Err(Head::Open),
        None => Err(Head::Other),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::chat::{FinishReason, Reply};

    fn read<'t>(pieces: impl IntoIterator<Item = &'t str>) -> (String, Vec<(String, String)>) {
        let (mut reader, mut reply) = (Reader::default(), Reply::default());
        let events = pieces.into_iter().map(|piece| Event::Content(piece.to_owned()));
        for event in events.chain([Event::Finished(FinishReason::Stop)]) {
            reader.read(event).into_iter().for_each(|event| reply.add(event));
        }
        (reply.content, reply.calls.into_iter().map(|call| (call.name, call.arguments)).collect())
    }

    #[test]
    fn the_form_is_a_call_and_all_else_is_text() {
        let call = |text: &str, name: &str, arguments: &str| {
            assert_eq!(read([text]), (String::new(), vec![(name.to_owned(), arguments.to_owned())]), "{text}");
        };
        call(r#"{"name":"f","arguments":{}}"#, "f", "{}");
        call(" {\n \"name\" : \"f\" ,\n \"arguments\" : {\"a\": [\"}\\\"\", {}]}\n}\n", "f", r#"{"a": ["}\"", {}]}"#);
        call(r#"{"name":"f","arguments":{"a": 1"#, "f", r#"{"a": 1"#);
        let text = |text: &str| assert_eq!(read([text]), (text.to_owned(), vec![]), "{text}");
        text("plain");
        text("");
        text(r#"{"name":"f"}"#);
        text(r#"{"name":"f","arguments":3}"#);
        text(r#"{"arguments":{},"name":"f"}"#);
        text(r#"{"name":"f","argu"#);
        call(r#"{"name":"f","arguments":{},"id":"x"} and more"#, "f", "{}");
    }

    proptest! {
        #[test]
        fn pieces_do_not_matter(tail in "[a}{\" ]{0,4}", value in "[a\"\\\\{}é]{0,6}", size in 1usize..9) {
            let arguments = serde_json::json!({"a": value, "b": [{}]}).to_string();
            let text = format!("{{ \"name\": \"f\", \"arguments\": {arguments} }}{tail}");
            let characters: Vec<String> = text.chars().map(String::from).collect();
            let pieces: Vec<String> = characters.chunks(size).map(|piece| piece.concat()).collect();
            prop_assert_eq!(read(pieces.iter().map(String::as_str)), (String::new(), vec![("f".to_owned(), arguments)]));
        }
    }
}
