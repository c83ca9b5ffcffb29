//! One reply weighed: the answer, or what to tell the model about it. Pure; the attempts around it keep the count.

use super::{
    Guardrails, nudge,
    offer::Offer,
    rescue, respond,
    validate::{self, Finding},
};
use crate::chat::{
    Call, FinishReason, Message, Reply, Request, ToolChoice, id,
    report::{Attempt, Fault},
};
use serde_json::{json, value::RawValue};

/// By what a reply is judged.
#[derive(Debug, Clone, Copy)]
pub(super) struct Terms<'a> {
    pub(super) request: &'a Request,
    pub(super) offer: &'a Offer,
    pub(super) guardrails: Guardrails,
}

/// What to do with a reply.
#[derive(Debug)]
pub(super) enum Verdict {
    /// It is the answer.
    Accept(Answer),
    /// It is wrong.
    Correct(Correction),
}

/// What the client gets.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) reasoning: String,
    pub(super) content: String,
    pub(super) refusal: String,
    pub(super) calls: Vec<Call>,
    /// Only where they belong to the content as it stands.
    pub(super) logprobs: Vec<Box<RawValue>>,
    /// The reply was cut off, by its length or by a filter.
    pub(super) cut: Option<FinishReason>,
}

/// What is wrong with a reply.
#[derive(Debug)]
pub(super) struct Correction {
    pub(super) fault: Fault,
    /// The complaint, for the report.
    pub(super) detail: String,
    /// The transcript's next messages.
    pub(super) messages: Vec<Message>,
    /// The answer if there is no further attempt; calls have none.
    pub(super) fallback: Option<Answer>,
}

/// Judges `reply`, and notes what was read out of it or rewritten in `note`.
pub(super) fn judge(mut reply: Reply, terms: Terms<'_>, note: &mut Attempt) -> Verdict {
    let cut = reply.finish.filter(|reason| matches!(reason, FinishReason::Length | FinishReason::ContentFilter));
    if let Some(reason) = cut
        && !is_call_then_white_space(&reply, reason, terms)
    {
        return Verdict::Accept(what_there_is(reply, reason, terms));
    }
    if terms.request.tool_choice == ToolChoice::None {
        return Verdict::Accept(as_text(reply));
    }
    if reply.calls.is_empty() && terms.guardrails.rescue {
        rescue_calls(&mut reply, terms.offer, note);
    }
    if reply.calls.is_empty() {
        return judge_text(reply, terms);
    }
    judge_calls(reply, terms, note)
}

/// A reply that was cut off: no call is read out of its text or corrected, and a call that is not whole is not handed on, because
/// clients complete cut arguments by guessing.
fn what_there_is(mut reply: Reply, reason: FinishReason, terms: Terms<'_>) -> Answer {
    let offer = terms.offer;
    let (spoken, calls): (Vec<_>, Vec<_>) = reply.calls.drain(..).partition(|call| offer.is_respond(&call.name));
    let messages = spoken.iter().map(|call| respond::cut_message(&call.arguments));
    let content = paragraphs(std::iter::once(reply.content).chain(messages));
    let whole = |call: &Call| !terms.guardrails.validate || validate::check(call, offer, named(terms.request)) == Finding::Valid;
    Answer {
        reasoning: reply.reasoning,
        content,
        refusal: reply.refusal,
        calls: calls.into_iter().filter(whole).collect(),
        logprobs: if spoken.is_empty() { reply.logprobs } else { Vec::new() },
        cut: Some(reason),
    }
}

/// Tools were withheld: what looks like a call is text.
fn as_text(mut reply: Reply) -> Answer {
    let calls = reply.calls.drain(..).map(|call| json!({"name": call.name, "arguments": call.arguments}).to_string());
    let calls: Vec<String> = calls.collect();
    let content = if calls.is_empty() { reply.content } else { paragraphs(std::iter::once(reply.content).chain(calls)) };
    Answer { reasoning: reply.reasoning, content, refusal: reply.refusal, logprobs: reply.logprobs, ..Answer::default() }
}

/// With `tool_choice: "required"` llama-server forbids the end of the text until its own form of a call comes. A model that wrote its
/// call in another form then goes on with line breaks up to the limit: all that was cut off are more of them.
fn is_call_then_white_space(reply: &Reply, reason: FinishReason, terms: Terms<'_>) -> bool {
    let padded = reply.content.ends_with(char::is_whitespace) && reply.calls.is_empty();
    reason == FinishReason::Length
        && padded
        && terms.guardrails.rescue
        && rescue::rescue(&reply.content, terms.offer).is_some_and(|rescued| rescued.content.trim().is_empty())
}

fn rescue_calls(reply: &mut Reply, offer: &Offer, note: &mut Attempt) {
    let Some(rescued) = rescue::rescue(&reply.content, offer) else { return };
    note.form = Some(rescued.form.as_str());
    note.rescued = rescued.calls.iter().map(|call| call.name.clone()).collect();
    let with_id = |call: rescue::Call| Call { id: id::mint("call_"), name: call.name, arguments: call.arguments };
    reply.calls = rescued.calls.into_iter().map(with_id).collect();
    reply.content = rescued.content;
    // They spell the text that is gone.
    reply.logprobs.clear();
}

fn judge_text(reply: Reply, terms: Terms<'_>) -> Verdict {
    let answer = Answer {
        reasoning: reply.reasoning,
        content: reply.content,
        refusal: reply.refusal,
        logprobs: reply.logprobs,
        ..Answer::default()
    };
    let call_is_due = terms.offer.responds || terms.request.tool_choice != ToolChoice::Auto;
    if !call_is_due || !terms.guardrails.nudge || !answer.refusal.is_empty() {
        return Verdict::Accept(answer);
    }
    let messages = nudge::for_text(&answer.content, terms.offer, named(terms.request));
    Verdict::Correct(Correction {
        fault: Fault::Text,
        detail: "text where a tool call was due".to_owned(),
        messages,
        fallback: Some(answer),
    })
}

fn judge_calls(mut reply: Reply, terms: Terms<'_>, note: &mut Attempt) -> Verdict {
    let mut complaints = examine(&mut reply.calls, terms, note);
    if !terms.request.parallel_tool_calls {
        keep_first(&mut reply.calls, &mut complaints, terms.offer);
    }
    let wrong = complaints.iter().flatten();
    let Some((fault, detail)) = wrong.min_by_key(|(fault, _)| *fault != Fault::UnknownTool).cloned() else {
        return Verdict::Accept(split_respond(reply, terms.offer));
    };
    let told: Vec<_> = complaints.into_iter().map(|complaint| complaint.map(|(_, text)| text)).collect();
    let messages = nudge::for_calls(&reply.content, &reply.calls, &told);
    Verdict::Correct(Correction { fault, detail, messages, fallback: None })
}

type Complaint = Option<(Fault, String)>;

/// What is wrong with each call; rewrites arguments where that loses nothing.
fn examine(calls: &mut [Call], terms: Terms<'_>, note: &mut Attempt) -> Vec<Complaint> {
    if !terms.guardrails.validate {
        return vec![None; calls.len()];
    }
    let named = named(terms.request);
    let mut complaint = |call: &mut Call| match validate::check(call, terms.offer, named) {
        Finding::Valid => None,
        Finding::Repaired(arguments) => {
            // No text at all is how some servers write a call without arguments.
            if !call.arguments.trim().is_empty() {
                note.repaired.push(call.name.clone());
            }
            call.arguments = arguments;
            None
        }
        Finding::Unknown => Some((Fault::UnknownTool, nudge::unknown_tool(&call.name, terms.offer, named))),
        Finding::Arguments(complaint) => Some((Fault::Arguments, nudge::arguments(&call.name, &complaint))),
    };
    calls.iter_mut().map(&mut complaint).collect()
}

/// Keeps the first correct call, and `respond`, which is not one to the client. Without a correct call all stay, to be corrected.
fn keep_first(calls: &mut Vec<Call>, complaints: &mut Vec<Complaint>, offer: &Offer) {
    let is_right = |(call, complaint): (&Call, &Complaint)| complaint.is_none() && !offer.is_respond(&call.name);
    let Some(first) = calls.iter().zip(complaints.iter()).position(is_right) else { return };
    let pairs = std::mem::take(calls).into_iter().zip(std::mem::take(complaints)).enumerate();
    let kept = pairs.filter(|(at, (call, complaint))| *at == first || (complaint.is_none() && offer.is_respond(&call.name)));
    (*calls, *complaints) = kept.map(|(_, pair)| pair).unzip();
}

/// Correct calls as the client sees them: what `respond` says becomes content.
fn split_respond(mut reply: Reply, offer: &Offer) -> Answer {
    let (spoken, calls): (Vec<_>, Vec<_>) = reply.calls.drain(..).partition(|call| offer.is_respond(&call.name));
    let messages = spoken.into_iter().map(|call| respond::message(&call.arguments).unwrap_or(call.arguments));
    let messages: Vec<String> = messages.collect();
    let (content, logprobs) = if messages.is_empty() {
        (reply.content, reply.logprobs)
    } else {
        (paragraphs(std::iter::once(reply.content).chain(messages)), Vec::new())
    };
    Answer { reasoning: reply.reasoning, content, refusal: reply.refusal, calls, logprobs, cut: None }
}

/// The parts that say something, a blank line between them. A single part keeps its white space.
fn paragraphs(parts: impl Iterator<Item = String>) -> String {
    let parts: Vec<String> = parts.filter(|part| !part.trim().is_empty()).collect();
    match <[String; 1]>::try_from(parts) {
        Ok([only]) => only,
        Err(parts) => parts.iter().map(|part| part.trim()).collect::<Vec<_>>().join("\n\n"),
    }
}

fn named(request: &Request) -> Option<&str> {
    match &request.tool_choice {
        ToolChoice::Named(name) => Some(name),
        ToolChoice::Auto | ToolChoice::None | ToolChoice::Required => None,
    }
}
