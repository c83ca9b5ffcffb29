//! Pieces of calls put in order, whatever a server leaves out: which call a piece belongs to, by its index, its id and its name.

use std::borrow::Cow;

use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use crate::{
    chat::{Call, Event},
    wire::openai::{CallDelta, Said, Scalar},
};

/// The calls of one reply so far: their places are the indices without gaps.
#[derive(Debug, Default)]
pub(super) struct Calls(Vec<Known>);

#[derive(Debug)]
struct Known {
    /// The server's index.
    index: Option<u64>,
    id: String,
    name: String,
    /// Kept where only they tell whether the call is whole.
    arguments: String,
}

impl Calls {
    /// What the next piece says, if anything.
    pub(super) fn read(&mut self, piece: CallDelta<'_>) -> Option<Event> {
        let (name, arguments) = piece.function.map_or((Scalar::Nothing, None), |function| (function.name, function.arguments));
        let (index, id) = (piece.index.count(), piece.id.into_string().unwrap_or_default());
        let name = name.into_string().unwrap_or_default();
        let fragment = arguments.map(fragment).unwrap_or_default();
        if let Some((at, known)) = self.place(index, &id, &name).and_then(|at| self.0.get_mut(at).map(|known| (at, known))) {
            known.keep(&fragment);
            return (!fragment.is_empty()).then(|| Event::CallArguments { index: at, fragment: fragment.into_owned() });
        }
        let mut known = Known { index, id: id.clone(), name: name.clone(), arguments: String::new() };
        known.keep(&fragment);
        self.0.push(known);
        Some(Event::CallStarted(Call { id, name, arguments: fragment.into_owned() }))
    }

    /// The call that a piece goes on with, `None` where it begins one.
    fn place(&self, index: Option<u64>, id: &str, name: &str) -> Option<usize> {
        let with_id = || self.0.iter().rposition(|known| !id.is_empty() && known.id == id);
        match (index, name) {
            (None, "") => with_id().or_else(|| self.0.len().checked_sub(1)),
            (None, _) => with_id(),
            (Some(_), "") => self.0.iter().rposition(|known| known.index == index),
            (Some(_), _) => self.0.iter().rposition(|known| known.index == index && known.goes_on(id, name)),
        }
    }
}

impl Known {
    /// Whether a piece of the same index that has a name is more of this call. By the book only the first one has. Some servers repeat it;
    /// others number all calls 0, and send each of them whole.
    fn goes_on(&self, id: &str, name: &str) -> bool {
        if !id.is_empty() {
            return self.id == id;
        }
        self.name == name && !self.is_whole()
    }

    fn is_whole(&self) -> bool {
        serde_json::from_str::<IgnoredAny>(&self.arguments).is_ok()
    }

    fn keep(&mut self, fragment: &str) {
        if self.id.is_empty() {
            self.arguments.push_str(fragment);
        }
    }
}

/// Arguments by the book are a JSON string; some servers send the object itself.
fn fragment(raw: &RawValue) -> Cow<'_, str> {
    match raw.get() {
        "null" => Cow::Borrowed(""),
        text if text.starts_with('"') => match serde_json::from_str(text) {
            Ok(Said::Text(text)) => text,
            Ok(_) | Err(_) => Cow::Borrowed(""),
        },
        object => Cow::Borrowed(object),
    }
}
