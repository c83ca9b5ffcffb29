//! One reply weighed: the answer, or what to tell the model about it. Pure; the attempts around it keep the count.

use serde_json::{json, value::RawValue};

use super::{
    Reasoning,
    nudge::{self, Complaint},
    rescue, respond,
    terms::Terms,
    validate::{self, Finding},
};
use crate::chat::{
    Call, FinishReason, Message, Reply, ToolChoice,
    call::Rejected,
    id,
    reply::PARAGRAPH,
    report::{Attempt, Fault},
};

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
    /// Of the reply that it is.
    pub(super) timings: Option<Box<RawValue>>,
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
    /// The tool whose arguments are wrong.
    pub(super) tool: Option<String>,
    /// Whether the reply made more than one call for the client.
    pub(super) had_several_calls: bool,
    /// The answer if there is no further attempt: the text, where text is what the model wrote.
    pub(super) fallback: Option<Answer>,
}

/// Why a reply was stopped that would have gone on for nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stuck {
    /// It said the same over and over.
    Repeats,
    /// It was more text than is held.
    TooLong,
}

impl Correction {
    /// Of a call that was shown already: it cannot be corrected.
    fn of_shown(detail: String) -> Self {
        Self { fault: Fault::Arguments, detail, messages: Vec::new(), tool: None, had_several_calls: false, fallback: None }
    }
}

/// Judges `reply`, and notes what was read out of it or rewritten in `note`.
pub(super) fn judge(mut reply: Reply, stuck: Option<Stuck>, terms: Terms<'_>, note: &mut Attempt) -> Verdict {
    split_unopened_reasoning(&mut reply, terms);
    if terms.goes_on && terms.shown.text == 0 && !reply.calls.is_empty() {
        reply.content.clear();
    }
    let cut = reply.finish.filter(|reason| matches!(reason, FinishReason::Length | FinishReason::ContentFilter));
    if terms.request.tool_choice == ToolChoice::None {
        let cut = stuck.map(|_| FinishReason::Length).or(cut);
        return Verdict::Accept(Answer { cut, ..all_as_text(reply) });
    }
    match stuck {
        Some(Stuck::Repeats) => return judge_repetition(reply, terms, note),
        Some(Stuck::TooLong) => return judge_text(reply, terms),
        None => {}
    }
    if let Some(reason) = cut
        && !(reason == FinishReason::Length && terms.is_padded_call(&reply))
    {
        return what_there_is(reply, reason, terms, note);
    }
    let said = rescue_calls(&mut reply, terms, note);
    if reply.calls.is_empty() {
        return judge_text(reply, terms);
    }
    judge_calls(reply, said, terms, note)
}

impl Terms<'_> {
    /// Whether `reply` is a call written as text and nothing but white space behind it.
    ///
    /// With `tool_choice: "required"` llama-server forbids the end of the text until its own form of a call comes. A model that wrote its
    /// call in another form then goes on with line breaks up to the limit: all that is cut off are more of them.
    pub(super) fn is_padded_call(&self, reply: &Reply) -> bool {
        let padded = reply.calls.is_empty() && reply.content.ends_with(char::is_whitespace);
        let alone = |rescued: rescue::Rescued| rescued.content.trim().is_empty();
        padded && self.guardrails.rescue && self.call_is_due() && rescue::rescue(&reply.content, 0, self.offer).is_some_and(alone)
    }

    /// Whether `call`, which is complete, would have to be corrected.
    pub(super) fn is_bad(&self, call: &Call) -> bool {
        matches!(examine(&mut call.clone(), false, *self, &mut Attempt::default()), Judged::Bad(_))
    }

    /// Whether `call`, which is complete, is one for the client.
    pub(super) fn is_good(&self, call: &Call) -> bool {
        matches!(examine(&mut call.clone(), false, *self, &mut Attempt::default()), Judged::Good)
    }
}

/// Where the template had opened the model's reasoning, only its end is seen, and only when the reply is whole.
fn split_unopened_reasoning(reply: &mut Reply, terms: Terms<'_>) {
    let thoughts = terms.unopened_reasoning(reply, terms.shown.text);
    if terms.config.reasoning == Reasoning::Drop {
        reply.content.drain(..thoughts);
    } else {
        let told: String = reply.content.drain(..thoughts).collect();
        reply.reasoning.push_str(rescue::reasoning::without_tag(&told));
    }
    reply.calls_at = reply.calls_at.map(|at| at.saturating_sub(thoughts));
}

/// A reply that was cut off: no call is read out of its text or corrected, and a call that is not whole is not handed on, because
/// clients complete cut arguments by guessing.
fn what_there_is(mut reply: Reply, reason: FinishReason, terms: Terms<'_>, note: &mut Attempt) -> Verdict {
    let is_respond = |call: &Call| terms.offer.is_respond(&call.name);
    let (spoken, mut calls): (Vec<_>, Vec<_>) = reply.calls.drain(..).partition(is_respond);
    let is_whole = |call: &Call| match terms.guardrails.validate {
        true => validate::check(call, terms.offer, terms.named()) == Finding::Valid,
        false => serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(&call.arguments).is_ok(),
    };
    if let Some(broken) = calls.iter().take(terms.shown.calls).find(|call| !is_whole(call)) {
        return Verdict::Correct(Correction::of_shown(format!("the call of `{}` was cut off", broken.name)));
    }
    if let Some(broken) = calls.iter().find(|call| !is_whole(call)) {
        note.detail = Some(format!("a call of `{}` was cut off and is left out", broken.name));
    }
    calls.retain(is_whole);
    if !terms.request.parallel_tool_calls {
        calls.truncate(1);
    }
    let messages = spoken.iter().filter_map(|call| respond::message(&call.arguments)).collect();
    Verdict::Accept(Answer { calls, cut: Some(reason), ..text(reply, messages) })
}

/// A reply that says the same over and over is cut off where that was seen. What was shown of it stays the answer.
fn judge_repetition(reply: Reply, terms: Terms<'_>, note: &mut Attempt) -> Verdict {
    let messages = nudge::for_repetition(&reply.content, terms.offer, terms.named(), terms.text_is_welcome());
    let detail = "the reply repeated itself".to_owned();
    match what_there_is(reply, FinishReason::Length, terms, note) {
        Verdict::Accept(answer) if !terms.shown.any() && terms.guardrails.nudge => {
            let fallback = Some(answer).filter(|answer| !answer.content.is_empty() && terms.named().is_none());
            Verdict::Correct(Correction { fault: Fault::Repetition, detail, messages, tool: None, had_several_calls: false, fallback })
        }
        verdict => {
            note.detail.get_or_insert(detail);
            verdict
        }
    }
}

/// Tools were withheld: what looks like a call is text.
fn all_as_text(mut reply: Reply) -> Answer {
    let as_text = |call: Call| json!({"name": call.name, "arguments": call.arguments}).to_string();
    let calls = reply.calls.drain(..).map(as_text).collect();
    text(reply, calls)
}

/// What `reply` says in words, with `more` where its calls began. Log probabilities stay only where nothing is added.
fn text(reply: Reply, more: Vec<String>) -> Answer {
    let (content, logprobs) = if more.is_empty() {
        (reply.content, reply.logprobs)
    } else {
        let (before, after) = reply.content.split_at_checked(reply.calls_at.unwrap_or(reply.content.len())).unwrap_or_default();
        let parts = std::iter::once(before).chain(more.iter().map(String::as_str)).chain(std::iter::once(after));
        let parts: Vec<&str> = parts.filter(|part| !part.trim().is_empty()).collect();
        (parts.join(PARAGRAPH), Vec::new())
    };
    Answer { reasoning: reply.reasoning, content, refusal: reply.refusal, logprobs, timings: reply.timings, ..Answer::default() }
}

/// Replaces text that is calls by the calls. Returns what was said, in case they come to nothing.
fn rescue_calls(reply: &mut Reply, terms: Terms<'_>, note: &mut Attempt) -> Option<Answer> {
    if !reply.calls.is_empty() || !terms.guardrails.rescue {
        return None;
    }
    let rescued = rescue::rescue(&reply.content, terms.shown.text, terms.offer)?;
    note.form = Some(rescued.form.as_str());
    note.rescued = rescued.calls.iter().map(|call| call.name.clone()).collect();
    let with_id = |call: rescue::Call| Call { id: id::mint("call_"), name: call.name, arguments: call.arguments };
    reply.calls = rescued.calls.into_iter().map(with_id).collect();
    let around = if terms.goes_on && terms.shown.text == 0 { String::new() } else { rescued.content };
    let content = std::mem::replace(&mut reply.content, around);
    // They spell the text that is gone.
    reply.logprobs.clear();
    Some(Answer { reasoning: reply.reasoning.clone(), content, timings: reply.timings.clone(), ..Answer::default() })
}

fn judge_text(reply: Reply, terms: Terms<'_>) -> Verdict {
    let answer = text(reply, Vec::new());
    if terms.text_is_welcome() || !answer.refusal.is_empty() {
        return Verdict::Accept(answer);
    }
    let messages = nudge::for_text(&answer.content, terms.offer, terms.named());
    let detail = "text where a tool call was due".to_owned();
    Verdict::Correct(Correction { fault: Fault::Text, detail, messages, tool: None, had_several_calls: false, fallback: Some(answer) })
}

/// What was found about one call.
#[derive(Debug)]
enum Judged {
    /// A call of `respond` that says this.
    Says(String),
    /// A call that may be made.
    Good,
    /// A wrong one.
    Bad(Complaint),
}

fn judge_calls(mut reply: Reply, said: Option<Answer>, terms: Terms<'_>, note: &mut Attempt) -> Verdict {
    let mut calls: Vec<(Call, Judged)> = Vec::with_capacity(reply.calls.len());
    let mut made = 0;
    for mut call in reply.calls.drain(..) {
        let is_made = !terms.offer.is_respond(&call.name);
        let is_shown = is_made && made < terms.shown.calls;
        made += usize::from(is_made);
        let judged = examine(&mut call, is_shown, terms, note);
        calls.push((call, judged));
    }
    let made = calls.iter().filter(|(call, _)| !terms.offer.is_respond(&call.name)).take(terms.shown.calls);
    if let Some(bad @ (_, Judged::Bad(complaint))) = made.into_iter().find(|(_, judged)| matches!(judged, Judged::Bad(_))) {
        note.rejected.extend(rejected(bad));
        return Verdict::Correct(Correction::of_shown(complaint.what.clone()));
    }
    drop_what_need_not_be_right(&mut calls, terms);
    note.rejected = calls.iter().filter(|(call, _)| !terms.offer.is_respond(&call.name)).filter_map(rejected).collect();
    drop_what_came_too_late(&mut calls, terms, note);
    let complaints = calls.iter().filter_map(|(_, judged)| match judged {
        Judged::Bad(complaint) => Some(complaint),
        Judged::Says(_) | Judged::Good => None,
    });
    // An unknown tool is the graver fault: it decides which budget is spent.
    let gravest = complaints.min_by_key(|complaint| complaint.fault != Fault::UnknownTool);
    let Some((fault, detail, tool)) = gravest.map(|complaint| (complaint.fault, complaint.what.clone(), complaint.tool.clone())) else {
        return Verdict::Accept(as_answer(reply, calls));
    };
    let had_several_calls = calls.iter().filter(|(call, _)| !terms.offer.is_respond(&call.name)).count() > 1;
    let messages = nudge::for_calls(&reply.content, calls.into_iter().map(|(call, judged)| (call, judged.complaint())));
    Verdict::Correct(Correction { fault, detail, messages, tool, had_several_calls, fallback: said })
}

/// What the trace tells of a wrong call.
fn rejected((call, judged): &(Call, Judged)) -> Option<Rejected> {
    let Judged::Bad(complaint) = judged else { return None };
    let is_unknown = complaint.fault == Fault::UnknownTool;
    Some(Rejected { tool: call.name.clone(), arguments: call.arguments.clone(), is_unknown, error: complaint.what.clone() })
}

impl Judged {
    fn complaint(self) -> Option<Complaint> {
        match self {
            Self::Bad(complaint) => Some(complaint),
            Self::Says(_) | Self::Good => None,
        }
    }
}

/// Judges one call, and rewrites its arguments where that loses nothing. What was shown cannot be rewritten.
fn examine(call: &mut Call, is_shown: bool, terms: Terms<'_>, note: &mut Attempt) -> Judged {
    // `respond` is ours: whatever can be read of it is said, without the schema.
    if terms.offer.is_respond(&call.name)
        && let Some(message) = respond::message(&call.arguments)
    {
        return Judged::Says(message);
    }
    if !terms.guardrails.validate && !terms.offer.is_respond(&call.name) {
        return Judged::Good;
    }
    match validate::check(call, terms.offer, terms.named()) {
        Finding::Valid => Judged::Good,
        Finding::Repaired(repair) if is_shown => Judged::Bad(Complaint::arguments(&call.name, &repair.complaint)),
        Finding::Repaired(repair) => {
            if repair.was_broken {
                note.repaired.push(call.name.clone());
            }
            note.coerced.extend(repair.coerced.iter().map(|change| format!("{} {change}", call.name)));
            call.arguments = repair.arguments;
            match respond::message(&call.arguments) {
                Some(message) if terms.offer.is_respond(&call.name) => Judged::Says(message),
                _ => Judged::Good,
            }
        }
        Finding::Unknown => Judged::Bad(Complaint::unknown_tool(&call.name, terms.offer, terms.named())),
        Finding::Arguments(how) => Judged::Bad(Complaint::arguments(&call.name, &how)),
    }
}

/// Where the client wants one call, the first good one is it, and the others need not be right. Beside a good call, a `respond` that says
/// nothing is no loss.
fn drop_what_need_not_be_right(calls: &mut Vec<(Call, Judged)>, terms: Terms<'_>) {
    let Some(first) = calls.iter().position(|(_, judged)| matches!(judged, Judged::Good)) else { return };
    let mut at = 0;
    calls.retain(|(call, judged)| {
        let is_first = at == first;
        at += 1;
        let wanted = terms.request.parallel_tool_calls && !terms.offer.is_respond(&call.name);
        is_first || wanted || matches!(judged, Judged::Says(_))
    });
}

/// What `respond` says is shown as it comes, unless a call before it was wrong. From there on the answer stands, as it does from a call
/// that was shown, and a wrong call behind it is left out.
fn drop_what_came_too_late(calls: &mut Vec<(Call, Judged)>, terms: Terms<'_>, note: &mut Attempt) {
    let speaks = |(_, judged): &(Call, Judged)| matches!(judged, Judged::Says(message) if !message.trim().is_empty());
    let is_bad = |(_, judged): &(Call, Judged)| matches!(judged, Judged::Bad(_));
    let stands = match calls.iter().position(speaks) {
        Some(spoken) => terms.shown.spoke || !calls.iter().take(spoken).any(is_bad),
        None => terms.shown.calls > 0,
    };
    if !stands {
        return;
    }
    if let Some((_, Judged::Bad(complaint))) = calls.iter().find(|call| is_bad(call)) {
        note.detail = Some(format!("left out beside the answer: {}", complaint.what));
    }
    calls.retain(|call| !is_bad(call));
}

/// Good calls as the client sees them: what `respond` says becomes content.
fn as_answer(reply: Reply, calls: Vec<(Call, Judged)>) -> Answer {
    let (mut messages, mut made) = (Vec::new(), Vec::new());
    for (call, judged) in calls {
        match judged {
            Judged::Says(message) => messages.push(message),
            Judged::Good | Judged::Bad(_) => made.push(call),
        }
    }
    Answer { calls: made, ..text(reply, messages) }
}
