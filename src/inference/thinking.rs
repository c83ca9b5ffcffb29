//! Reasoning that a backend leaves in the content, behind `<think>` or a like tag, told apart from it as it comes.
//!
//! Only at the beginning of a reply: that is where models think, and a tag further on may as well be what the answer is about.

use super::rescue::reasoning::TAGS;
use crate::chat::Event;

/// Tells the content of one reply apart.
#[derive(Debug)]
pub(super) struct Splitter {
    state: State,
    /// What may be white space before a tag, or the beginning of one.
    held: String,
}

#[derive(Debug, Clone, Copy)]
enum State {
    /// Before the first word. `true` behind reasoning: white space there belongs to nobody.
    Start(bool),
    /// In reasoning, up to this tag.
    Thinking(&'static str),
    /// In the text.
    Text,
}

/// No model writes more white space in front of its reasoning.
const BLANK_BYTES_MAX: usize = 256;

/// What a text begins with.
enum Found {
    /// A tag of so many bytes.
    Tag(usize, State),
    /// Perhaps a tag.
    Perhaps,
    /// No tag.
    Nothing,
}

impl Default for Splitter {
    fn default() -> Self {
        Self { state: State::Start(false), held: String::new() }
    }
}

impl Splitter {
    /// What `event` says, told apart. Some of it may come with a later event.
    pub(super) fn split(&mut self, event: Event) -> Vec<Event> {
        match event {
            Event::Content(text) if matches!(self.state, State::Text) => vec![Event::Content(text)],
            Event::Content(text) => self.content(&text),
            // These may come between any two pieces of the content.
            event @ (Event::Logprobs(_) | Event::Started(_) | Event::Usage(_) | Event::Timings(_) | Event::Reasoning(_)) => vec![event],
            event => self.flush().into_iter().chain([event]).collect(),
        }
    }

    fn content(&mut self, text: &str) -> Vec<Event> {
        let mut events = Vec::new();
        self.held.push_str(text);
        loop {
            match self.state {
                State::Text => {
                    events.extend(self.flush());
                    return events;
                }
                State::Start(after_reasoning) => {
                    let blank = self.held.len() - self.held.trim_start().len();
                    match opening(self.held.get(blank..).unwrap_or_default()) {
                        Found::Perhaps if blank <= BLANK_BYTES_MAX => return events,
                        Found::Tag(length, state) => {
                            self.held.drain(..blank + length);
                            self.state = state;
                        }
                        Found::Perhaps | Found::Nothing => {
                            self.held.drain(..if after_reasoning { blank } else { 0 });
                            self.state = State::Text;
                        }
                    }
                }
                State::Thinking(closing) => {
                    let (thought, found) = up_to(&self.held, closing);
                    if thought > 0 {
                        events.push(Event::Reasoning(self.held.drain(..thought).collect()));
                    }
                    let Found::Tag(length, state) = found else { return events };
                    self.held.drain(..length);
                    self.state = state;
                }
            }
        }
    }

    /// What is still held.
    fn flush(&mut self) -> Option<Event> {
        let held = std::mem::take(&mut self.held);
        match self.state {
            _ if held.is_empty() => None,
            State::Thinking(_) => Some(Event::Reasoning(held)),
            State::Start(true) if held.trim().is_empty() => None,
            State::Start(_) | State::Text => Some(Event::Content(held)),
        }
    }
}

/// What stands behind the reasoning at the beginning of a whole text; `None` when it begins with none.
pub(super) fn behind_reasoning(text: &str) -> Option<&str> {
    let mut behind = None;
    let mut rest = text.trim_start();
    while let Found::Tag(length, State::Thinking(closing)) = opening(rest) {
        let thought = rest.get(length..).unwrap_or_default();
        rest = match up_to(thought, closing) {
            (at, Found::Tag(length, _)) => thought.get(at + length..).unwrap_or_default().trim_start(),
            _ => "",
        };
        behind = Some(rest);
    }
    behind
}

fn opening(text: &str) -> Found {
    if text.is_empty() {
        return Found::Perhaps;
    }
    let tag = TAGS.iter().find(|(opening, _)| has_prefix(text, opening));
    if let Some(&(opening, closing)) = tag {
        return Found::Tag(opening.len(), State::Thinking(closing));
    }
    if TAGS.iter().any(|(opening, _)| has_prefix(opening, text)) { Found::Perhaps } else { Found::Nothing }
}

/// How much stands before the closing tag, or before what may be the beginning of it.
fn up_to(text: &str, closing: &str) -> (usize, Found) {
    let starts = text.char_indices().map(|(at, _)| at).filter(|at| closing.as_bytes().first() == text.as_bytes().get(*at));
    for at in starts {
        let rest = text.get(at..).unwrap_or_default();
        if has_prefix(rest, closing) {
            return (at, Found::Tag(closing.len(), State::Start(true)));
        }
        if has_prefix(closing, rest) {
            return (at, Found::Perhaps);
        }
    }
    (text.len(), Found::Perhaps)
}

fn has_prefix(text: &str, prefix: &str) -> bool {
    text.as_bytes().get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix.as_bytes()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::chat::{FinishReason, Reply};

    fn told_apart<'t>(pieces: impl IntoIterator<Item = &'t str>) -> (String, String) {
        let (mut splitter, mut reply) = (Splitter::default(), Reply::default());
        let events = pieces.into_iter().map(|piece| Event::Content(piece.to_owned()));
        for event in events.chain([Event::Finished(FinishReason::Stop)]) {
            splitter.split(event).into_iter().for_each(|event| reply.add(event));
        }
        (reply.reasoning, reply.content)
    }

    #[test]
    fn reasoning_stands_at_the_beginning() {
        let check = |text: &str, reasoning: &str, content: &str| {
            assert_eq!(told_apart([text]), (reasoning.to_owned(), content.to_owned()), "{text}");
        };
        check("<think>why</think>\n\nhi\n", "why", "hi\n");
        check("\n<think>why</think>hi", "why", "hi");
        check("<THINK>a < b</Think>hi", "a < b", "hi");
        check("[THINK]why[/THINK]hi", "why", "hi");
        check("<think>a</think>\n<think>b</think> c", "ab", "c");
        check("<think>never closed </th", "never closed </th", "");
        check("<think></think>", "", "");
        check("<think></think> ", "", "");
        check("  text <think>x</think>", "", "  text <think>x</think>");
        check("<thin air>", "", "<thin air>");
        check("<thin", "", "<thin");
        check(" ", "", " ");
    }

    proptest! {
        #[test]
        fn pieces_do_not_matter(text in "( |\n|<think>|</think>|<thi|a|é|<){0,8}", size in 1usize..9) {
            let characters: Vec<String> = text.chars().map(String::from).collect();
            let pieces: Vec<String> = characters.chunks(size).map(|piece| piece.concat()).collect();
            prop_assert_eq!(told_apart(pieces.iter().map(String::as_str)), told_apart([text.as_str()]));
        }
    }
}
