//! Every call gets arguments that are an object, an id of its own and a result; every result gets a call.
//!
//! A turn is one or more assistant messages with calls in a row, and what follows up to the next of them. Calls and results are matched
//! within it: first by id, then those that are left in their order.

mod call;

use std::collections::{HashMap, HashSet, VecDeque};

use self::call::Call;
use super::{
    Change,
    message::{Message, Role},
};
use crate::wire::{
    content::joined,
    object::{array, elements, encoded},
};

/// `list` with its calls and results in order.
pub(super) fn repair<'a>(list: Vec<Message<'a>>, changes: &mut Vec<Change>) -> Vec<Message<'a>> {
    if !list.iter().any(|message| message.has_calls || message.role == Role::Tool) {
        return list;
    }
    let mut repaired = Vec::with_capacity(list.len());
    let mut turn = Turn::default();
    for message in list {
        if !message.has_calls {
            turn.rest.push(message);
            continue;
        }
        if !turn.rest.is_empty() {
            std::mem::take(&mut turn).settle(&mut repaired, changes);
        }
        turn.calling.push(message);
    }
    turn.settle(&mut repaired, changes);
    repaired
}

/// One turn. What stands before the first call is one that calls nothing.
#[derive(Default)]
struct Turn<'a> {
    calling: Vec<Message<'a>>,
    rest: Vec<Message<'a>>,
}

impl<'a> Turn<'a> {
    /// Repairs the turn and puts its messages at the end of `list`.
    fn settle(mut self, list: &mut Vec<Message<'a>>, changes: &mut Vec<Change>) {
        // Calls at the very end are not past: their results may be yet to come. It is for the backend to say that they are missing.
        if self.rest.is_empty() {
            list.append(&mut self.calling);
            return;
        }
        let run = self.rest.iter().take_while(|message| message.role == Role::Tool).count();
        let mut calls = self.mended_calls(changes);
        self.match_results(&mut calls, changes);
        let added = calls.iter().filter(|call| !call.is_answered).map(|call| no_result(call, changes)).collect();
        self.write(&calls);
        // Results stand directly behind their calls; what turned out to be none is moved behind them.
        let after = self.rest.split_off(run);
        let (results, texts) = self.rest.into_iter().partition(|message| message.role == Role::Tool);
        for mut messages in [self.calling, results, added, texts, after] {
            list.append(&mut messages);
        }
    }

    fn mended_calls(&self, changes: &mut Vec<Change>) -> Vec<Call<'a>> {
        let mut calls: Vec<Call<'a>> = self.calling.iter().flat_map(Call::all_of).collect();
        let mut taken = HashSet::new();
        for call in &mut calls {
            call.mend_type(changes);
            call.mend_arguments(changes);
            // An id that an earlier call of the turn has is the earlier one's; other turns may have it too.
            let is_free = call.given_id.is_some_and(|id| taken.insert(id));
            call.mend_id(is_free, changes);
        }
        calls
    }

    /// Points each result to its call. Results without a call become texts of the user.
    fn match_results(&mut self, calls: &mut [Call<'a>], changes: &mut Vec<Change>) {
        let results: Vec<&mut Message<'a>> = self.rest.iter_mut().filter(|message| message.role == Role::Tool).collect();
        let ids: Vec<Option<&'a str>> = results.iter().map(|result| result.fields.spelled("tool_call_id")).collect();
        let called: Vec<Option<&'a str>> = calls.iter().map(|call| call.given_id).collect();
        let known: HashSet<String> = calls.iter().map(|call| call.id.to_string()).collect();
        for ((result, id), answered) in results.into_iter().zip(&ids).zip(matched(&called, &ids)) {
            match answered.and_then(|call| calls.get_mut(call)) {
                Some(call) => answer(result, call, changes),
                // One more result of an answered call.
                None if id.is_some_and(|id| known.contains(id)) => {}
                None => make_text(result, changes),
            }
        }
    }

    /// Puts the changed calls into their messages.
    fn write(&mut self, calls: &[Call<'a>]) {
        let mut messages = self.calling.iter_mut();
        for own in calls.chunk_by(|a, b| a.message == b.message).filter(|own| own.iter().any(|call| call.is_changed)) {
            let is_theirs = |message: &&mut Message<'a>| own.first().is_some_and(|call| call.message == message.index);
            let Some(message) = messages.by_ref().find(is_theirs) else { continue };
            let spelled = message.fields.spelled("tool_calls").and_then(elements).unwrap_or_default();
            let json: Vec<_> = own.iter().zip(spelled).map(|(call, spelled)| call.json(spelled)).collect();
            message.set("tool_calls", array(json.iter().map(AsRef::as_ref)));
        }
    }
}

/// For each result the place of the call that it answers, from the ids of both: the next call with its id; where no call has it, the next
/// that is left. A second result of one call answers no other.
fn matched(calls: &[Option<&str>], results: &[Option<&str>]) -> Vec<Option<usize>> {
    if calls == results && calls.iter().all(Option::is_some) {
        return (0..calls.len()).map(Some).collect();
    }
    let mut by_id: HashMap<&str, VecDeque<usize>> = HashMap::new();
    for (place, id) in calls.iter().enumerate() {
        id.map(|id| by_id.entry(id).or_default().push_back(place));
    }
    let mut answers: Vec<Option<usize>> = results.iter().map(|id| by_id.get_mut((*id)?)?.pop_front()).collect();
    let answered: HashSet<usize> = answers.iter().copied().flatten().collect();
    let mut left = (0..calls.len()).filter(|place| !answered.contains(place));
    let is_lost = |id: &Option<&str>| id.is_none_or(|id| !by_id.contains_key(id));
    for (answer, _) in answers.iter_mut().zip(results).filter(|(answer, id)| answer.is_none() && is_lost(id)) {
        *answer = left.next();
    }
    answers
}

fn answer(result: &mut Message<'_>, call: &mut Call<'_>, changes: &mut Vec<Change>) {
    call.is_answered = true;
    if result.fields.get("tool_call_id") != Some(&call.id) {
        result.set("tool_call_id", call.id.to_string());
        changes.push(result.change("result given its call's id"));
    }
    if let Some(broken) = &call.broken {
        let content = joined([result.content(), &encoded(&told(broken))]);
        result.set("content", content);
        changes.push(result.change("broken arguments of its call told"));
    }
}

/// What the model reads where a call has no result.
fn no_result<'a>(call: &Call<'_>, changes: &mut Vec<Change>) -> Message<'a> {
    let none = encoded("No result was given.");
    let content = call.broken.as_ref().map(|broken| joined([none.as_str(), &encoded(&told(broken))]));
    let mut result = Message::added(call.message, Role::Tool, content.unwrap_or(none));
    result.set("tool_call_id", call.id.to_string());
    changes.push(result.change("missing result added"));
    result
}

/// The arguments stand with the result and not with the call: what the assistant seems to have said, the model imitates.
fn told(broken: &str) -> String {
    format!("The arguments of this call were no JSON object: {broken}")
}

fn make_text(result: &mut Message<'_>, changes: &mut Vec<Change>) {
    let lead = match result.fields.text("name") {
        Some(name) => format!("Result of `{name}`:"),
        None => "Result of a tool call:".to_owned(),
    };
    changes.push(result.change("result without a call made a user message"));
    *result = Message::added(result.index, Role::User, joined([encoded(&lead).as_str(), result.content()]));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_matched_by_id_and_then_in_order() {
        // An id of one letter each, a blank for none.
        let check = |calls: &str, results: &str, expected: &[Option<usize>]| {
            let ids = |letters: &str| {
                letters.split("").filter(|id| !id.is_empty()).map(|id| (id != " ").then(|| id.to_owned())).collect::<Vec<_>>()
            };
            let (calls, results) = (ids(calls), ids(results));
            let calls: Vec<Option<&str>> = calls.iter().map(Option::as_deref).collect();
            let results: Vec<Option<&str>> = results.iter().map(Option::as_deref).collect();
            assert_eq!(matched(&calls, &results), expected, "{calls:?} {results:?}");
        };
        check("ab", "ab", &[Some(0), Some(1)]);
        check("ab", "ba", &[Some(1), Some(0)]);
        check("aa", "aa", &[Some(0), Some(1)]);
        check("  ", "  ", &[Some(0), Some(1)]);
        check("ab", " a", &[Some(1), Some(0)]);
        check("abc", "xb", &[Some(0), Some(1)]);
        check("a", "aa", &[Some(0), None]);
        check("", "a", &[None]);
    }
}
