//! The attempts of one turn: ask, judge, correct, ask again, until there is an answer or the retries are used up.

use std::sync::Arc;

use async_stream::try_stream;
use bytes::Bytes;
use futures_core::Stream;

use super::{
    Config, Error, Guardrails, constrain,
    hearing::{Hearing, Outcome},
    history as messages,
    hold::Hold,
    judge::{self, Answer, Correction, Verdict},
    offer::{Cache, Offer},
    refusal::{self, Refusal},
    rescue,
    terms::{Shown, Terms},
    truncation,
};
use crate::{
    backend::{self, Backend, Served},
    budget::{Meter, Pass},
    chat::{
        Event, FinishReason, Message, Meta, Reply, Report, Request, ToolChoice, Usage,
        report::{Attempt, Fault, Guardrail, HaltReason, Truncation},
    },
    trace,
};

/// Asks one backend under the guardrails.
pub struct Engine {
    backend: Arc<dyn Backend>,
    pub(super) config: Config,
    offers: Cache,
}

impl Engine {
    /// An engine in front of `backend`.
    pub fn new(backend: Arc<dyn Backend>, config: Config) -> Self {
        Self { backend, config, offers: Cache::default() }
    }

    /// The guardrails that are on unless a request switches them off.
    pub fn guardrails(&self) -> Guardrails {
        self.config.guardrails
    }

    /// Whether the model reads any of its past reasoning again.
    pub fn replays_reasoning(&self) -> bool {
        self.config.reasoning_replay != messages::Replay::None
    }

    /// The events of the answer to `request`: one complete reply, each text as soon as it is certain. `Settled` comes first where
    /// nothing was certain before the end. Ends after the first error. Dropping it ends the upstream call. `watch` is asked before
    /// every attempt and told of it.
    pub fn complete(
        self: &Arc<Self>,
        request: Arc<Request>,
        guardrails: Guardrails,
        watch: Watch,
    ) -> impl Stream<Item = Result<Event, Error>> + Send + use<> {
        let mut attempts = Attempts::new(Arc::clone(self), request, guardrails, watch);
        try_stream! {
            loop {
                let prompt = match attempts.admitted().await {
                    Ok(prompt) => prompt,
                    Err(denial) => {
                        for event in attempts.halt(denial)? {
                            yield event;
                        }
                        break;
                    }
                };
                let mut events = attempts.engine.backend.stream(prompt);
                let mut hearing = Hearing::new(attempts.terms(), attempts.is_forced);
                while !hearing.is_over() && let Some(event) = attempts.next(&mut events).await {
                    attempts.hear(&event);
                    for shown in attempts.show(&mut hearing, event) {
                        yield shown;
                    }
                }
                hearing.catch_up(&mut events).await;
                // Stops the model where it still speaks.
                drop(events);
                let Some((answer, hold)) = attempts.judge(hearing.finish())? else { continue };
                for event in attempts.tell(answer, &hold) {
                    yield event;
                }
                break;
            }
        }
    }
}

/// Who is asked before an attempt, and told of it.
#[derive(Debug, Default)]
pub struct Watch {
    /// Whether there is something left for it.
    pub meter: Meter,
    /// What traces it.
    pub turn: trace::Turn,
}

/// What is carried from one attempt to the next.
pub(super) struct Attempts {
    pub(super) engine: Arc<Engine>,
    pub(super) request: Arc<Request>,
    pub(super) guardrails: Guardrails,
    pub(super) offer: Arc<Offer>,
    pub(super) corrections: Vec<Message>,
    pub(super) history: Vec<Attempt>,
    /// What was done to the client's messages.
    pub(super) changes: Vec<String>,
    pub(super) exhausted: bool,
    /// The last reply, if it was text.
    pub(super) fallback: Option<Answer>,
    /// Replies so far that were text or named an unknown tool.
    pub(super) retries: u32,
    /// Replies so far with wrong arguments.
    pub(super) tool_errors: u32,
    pub(super) usage: Usage,
    /// Of the first reply: one answer has one id, however often the model was asked.
    pub(super) meta: Option<Meta>,
    /// Whether the answer has begun.
    pub(super) started: bool,
    /// Whether text of an earlier reply was shown.
    pub(super) goes_on: bool,
    /// Counts what the attempts cost.
    pub(super) meter: Meter,
    /// What lets the attempt through that is made now.
    pub(super) pass: Pass,
    /// What traces the attempts. Below the pass, so that it is dropped after it and tells what that came to.
    pub(super) turn: trace::Turn,
    /// Whether the form of the reply that is awaited is forced.
    pub(super) is_forced: bool,
    /// Whether the backend refused to force a form in this request.
    pub(super) is_unforced: bool,
    /// Whether the tools' schemas go up reduced.
    pub(super) is_reduced: bool,
    /// Whether the reply that was corrected made several calls: a form has room for one.
    pub(super) had_several_calls: bool,
    /// The tool whose arguments were wrong last.
    pub(super) pinned: Option<String>,
    pub(super) truncated: Option<Truncation>,
    /// The backend that answered.
    pub(super) served: Served,
    /// Whether a required call is asked for by its form from the beginning.
    pub(super) form_when_required: bool,
    /// The ceiling that the last attempt's reply was held to.
    pub(super) held_by: Option<HaltReason>,
}

impl Attempts {
    fn new(engine: Arc<Engine>, request: Arc<Request>, guardrails: Guardrails, watch: Watch) -> Self {
        let offer = engine.offers.offer(&request, guardrails.respond);
        let needs = engine.backend.needs(&request);
        // What is asked for as text comes as text.
        let guardrails = Guardrails { rescue: guardrails.rescue || (needs.prompt_tools && !request.tools.is_empty()), ..guardrails };
        let policy = messages::Policy { reasoning: engine.config.reasoning_replay, strict_alternation: needs.strict_alternation };
        let (request, changes) = with_sound_messages(request, policy);
        Self {
            engine,
            request,
            guardrails,
            offer,
            corrections: Vec::new(),
            history: Vec::new(),
            changes,
            exhausted: false,
            fallback: None,
            retries: 0,
            tool_errors: 0,
            usage: Usage::default(),
            meta: None,
            started: false,
            goes_on: false,
            meter: watch.meter,
            pass: Pass::default(),
            turn: watch.turn,
            is_forced: false,
            is_unforced: false,
            is_reduced: false,
            had_several_calls: false,
            pinned: None,
            truncated: None,
            served: Served::default(),
            form_when_required: needs.form_when_required,
            held_by: None,
        }
    }

    pub(super) fn terms(&self) -> Terms<'_> {
        Terms {
            request: &self.request,
            offer: &self.offer,
            config: &self.engine.config,
            guardrails: self.guardrails,
            is_last: !self.guardrails.nudge || self.retries >= self.engine.config.max_retries || self.history.len() >= self.retries_max(),
            goes_on: self.goes_on,
            shown: Shown::default(),
        }
    }

    /// What is shown of `event`, led in by the reply's own beginning.
    fn show(&mut self, hearing: &mut Hearing, event: Result<Event, backend::Error>) -> impl Iterator<Item = Event> + use<> {
        let shown = hearing.take(event, self.terms());
        let begun = if shown.is_empty() { None } else { self.begin(hearing.meta()) };
        begun.into_iter().chain(shown)
    }

    /// The beginning of the answer, once.
    pub(super) fn begin(&mut self, meta: &Meta) -> Option<Event> {
        (!std::mem::replace(&mut self.started, true)).then(|| Event::Started(self.meta.clone().unwrap_or_else(|| meta.clone())))
    }

    /// The answer, or `None` when the model is to be asked again. Fails when the backend failed, or when the model was asked often enough
    /// and calls wrongly still.
    fn judge(&mut self, outcome: Outcome) -> Result<Option<(Answer, Hold)>, Error> {
        self.settle(&outcome);
        let earlier = self.history.len();
        let failed = outcome.reply.as_ref().err().map(Error::with_cause);
        let judged = self.weigh(outcome);
        let note = self.history.get(earlier).filter(|note| !note.refused);
        // A refusal that is itself a reply has been judged as one.
        let failed = failed.filter(|_| note.is_none());
        self.turn.end(note, failed.as_deref(), matches!(judged, Ok(None)));
        judged
    }

    fn weigh(&mut self, outcome: Outcome) -> Result<Option<(Answer, Hold)>, Error> {
        let Outcome { reply, stuck, hold } = outcome;
        let shown = hold.shown();
        let reply = match reply {
            Ok(reply) => reply,
            Err(error) if shown.any() => return Err(error),
            Err(error) => match refusal::read(&error) {
                Refusal::Grammar if self.asks_for_less() => return Ok(None),
                // As text it would be the end of one at best: it is a call, or something to correct.
                Refusal::Unparsed(said) if !self.terms().text_is_welcome() || rescue::rescue(&said, 0, &self.offer).is_some() => {
                    Reply { content: said, finish: Some(FinishReason::Stop), ..Reply::default() }
                }
                _ if self.goes_on => return Err(error),
                _ => return Ok(Some((self.settle_for_text(error)?, hold))),
            },
        };
        // What was left out was what the backend stumbled over.
        if self.is_unforced {
            self.offer.note_form_refused();
        }
        if self.is_reduced {
            self.offer.note_schemas_refused();
        }
        self.usage += reply.usage;
        self.notice_truncation(reply.usage);
        self.meta.get_or_insert_with(|| reply.meta.clone());
        let mut note = Attempt { forced: self.is_forced, latency: self.turn.elapsed(), usage: reply.usage, ..Attempt::default() };
        let correction = match judge::judge(reply, stuck, Terms { shown, ..self.terms() }, &mut note) {
            Verdict::Accept(answer) => {
                self.history.push(note);
                return Ok(Some((answer, hold)));
            }
            Verdict::Correct(correction) => correction,
        };
        note.fault = Some(correction.fault);
        note.detail = Some(correction.detail.clone());
        self.history.push(note);
        Ok(self.correct(correction, shown)?.map(|answer| (answer, hold)))
    }

    fn correct(&mut self, correction: Correction, shown: Shown) -> Result<Option<Answer>, Error> {
        tracing::debug!(attempt = self.history.len(), fault = ?correction.fault, "reply needs correction");
        // A call that was shown stands.
        if shown.calls == 0 && self.may_retry(correction.fault) {
            self.corrections.extend(correction.messages);
            self.pinned = correction.tool;
            self.had_several_calls = correction.had_several_calls;
            self.fallback = correction.fallback;
            self.goes_on |= shown.any();
            return Ok(None);
        }
        self.exhausted = true;
        let failure = || Error::RetriesExhausted { report: self.report(), last_fault: correction.detail };
        correction.fallback.map(Some).ok_or_else(failure)
    }

    fn notice_truncation(&mut self, usage: Usage) {
        let tools = match (&self.request.tool_choice, &self.offer.json) {
            (ToolChoice::None, _) => &Bytes::new(),
            (_, Some(json)) => json,
            (_, None) => &self.request.tools_json,
        };
        if let Some(truncation) = truncation::of(&self.request.messages, tools, usage) {
            tracing::warn!(?truncation, "the backend did not read the prompt to its end: its context is too small");
            self.truncated = Some(truncation);
        }
    }

    /// Leaves out what the backend's grammar may have stumbled over: the forced form, then what is unusual in the tools' schemas. Returns
    /// whether there was something to leave out. What a backend refused once it is not asked again.
    fn asks_for_less(&mut self) -> bool {
        if self.is_forced {
            tracing::warn!("the backend cannot force the form of a call: going on without it");
            self.is_unforced = true;
            return true;
        }
        if self.is_reduced || constrain::has_own_form(&self.request) || self.request.tool_choice == ToolChoice::None {
            return false;
        }
        self.is_reduced = true;
        let left_out = self.offer.left_out();
        tracing::warn!(?left_out, "the backend cannot build a grammar from the tools' schemas: going on without what is unusual in them");
        true
    }

    /// The text of the last attempt, when the backend refuses the corrected prompt: it is our corrections that made it too long.
    fn settle_for_text(&mut self, error: Error) -> Result<Answer, Error> {
        let refused = matches!(&error, Error::Backend(backend::Error::Status(refusal)) if matches!(refusal.status, 400 | 413));
        let text = self.fallback.take().filter(|_| refused);
        let Some(text) = text else { return Err(error) };
        self.history.push(Attempt {
            refused: true,
            detail: Some("the backend refused the corrected prompt".to_owned()),
            ..Attempt::default()
        });
        self.exhausted = true;
        Ok(text)
    }

    /// Counts the fault. A budget of n stands n faults; the calls in all are bounded apart, so that two kinds of fault in turn do not
    /// add up.
    fn may_retry(&mut self, fault: Fault) -> bool {
        let config = &self.engine.config;
        match fault {
            Fault::Text | Fault::UnknownTool | Fault::Repetition => self.retries += 1,
            Fault::Arguments => self.tool_errors += 1,
        }
        self.guardrails.nudge
            && self.retries <= config.max_retries
            && self.tool_errors <= config.max_tool_errors
            && self.history.len() <= self.retries_max()
    }

    fn retries_max(&self) -> usize {
        usize::try_from(self.engine.config.max_retries).unwrap_or(usize::MAX)
    }

    pub(super) fn report(&self) -> Report {
        let any = |found: fn(&Attempt) -> bool| self.history.last().is_some_and(found);
        let guardrail = if self.exhausted {
            Guardrail::Exhausted
        } else if self.history.len() > 1 {
            Guardrail::Nudged
        } else if any(|attempt| !attempt.repaired.is_empty() || !attempt.coerced.is_empty()) {
            Guardrail::Repaired
        } else if any(|attempt| !attempt.rescued.is_empty()) {
            Guardrail::Rescued
        } else {
            Guardrail::Clean
        };
        let (attempts, history) = (self.history.clone(), self.changes.clone());
        Report { guardrail, attempts, history, truncated: self.truncated, cost: self.meter.cost(), ..Report::default() }
    }

    /// The answer as events.
    fn tell(&mut self, answer: Answer, hold: &Hold) -> Vec<Event> {
        let mut report = self.report();
        report.halt_reason = self.held_by.filter(|_| answer.cut == Some(FinishReason::Length));
        // They belong to a reply that stands as it was said, not to one that others led up to.
        let logprobs = if report.guardrail == Guardrail::Clean { answer.logprobs } else { Vec::new() };
        let finish = match answer.cut {
            Some(reason) => reason,
            None if answer.calls.is_empty() => FinishReason::Stop,
            None => FinishReason::ToolCalls,
        };
        let mut events = vec![Event::Settled(report)];
        events.extend(self.begin(&Meta::default()));
        let say = |text: String, event: fn(String) -> Event| (!text.is_empty()).then(|| event(text));
        events.extend(say(answer.reasoning, Event::Reasoning));
        events.extend(logprobs.into_iter().map(Event::Logprobs));
        events.extend(say(hold.rest(&self.terms().joined(answer.content)), Event::Content));
        events.extend(say(answer.refusal, Event::Refusal));
        events.extend(answer.calls.into_iter().skip(hold.shown().calls).map(Event::CallStarted));
        events.extend(answer.timings.map(Event::Timings));
        events.extend([Event::Finished(finish), Event::Usage(self.usage)]);
        events
    }
}

/// `request` with its messages repaired, if they need to be, and what was done to them.
fn with_sound_messages(request: Arc<Request>, policy: messages::Policy) -> (Arc<Request>, Vec<String>) {
    let Some((repaired, changes)) = messages::repaired(&request.messages, policy) else { return (request, Vec::new()) };
    for change in &changes {
        tracing::debug!(message = change.message, change = change.what, "history repaired");
    }
    (Arc::new(request.with_messages(repaired)), changes.iter().map(ToString::to_string).collect())
}
