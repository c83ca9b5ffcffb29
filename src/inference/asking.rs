//! Asking: what the model is asked in an attempt, whether it may be asked, and what that cost.

use std::{sync::Arc, time::Instant};

use bytes::Bytes;
use futures_util::StreamExt;

use super::{Constrain, Error, attempt::Attempts, constrain, hearing::Outcome, offer::Offer, resample};
use crate::{
    backend::{self, Events, Offered, Prompt},
    budget::{Ask, Denial, denial::Reason, estimate},
    chat::{Event, FinishReason, Meta, Request, ToolChoice, report::HaltReason},
};

/// The fields that say how long a reply may be; the last is llama-server's own, which it prefers to the others.
const LIMITS: [&str; 3] = ["max_completion_tokens", "max_tokens", "n_predict"];
/// The one that all servers know.
const LIMIT: &str = "max_tokens";

impl Attempts {
    /// What the model is asked now, if it may be asked: what that costs at most is put aside.
    pub(super) async fn admitted(&mut self) -> Result<Prompt, Denial> {
        let mut prompt = self.prompt();
        if self.meter.is_on() {
            let asked = length(&self.request);
            let ask = Ask { model: &self.request.model, prompt_tokens: prompt_tokens(&prompt), max_tokens: asked };
            // Apart, so that a stream that asks nobody has no room for it.
            self.pass = Box::pin(self.meter.model(ask)).await?;
            self.held_by = self.pass.lowered_by();
            if let Some(most) = self.pass.max_tokens() {
                hold(Arc::make_mut(&mut prompt.request), most);
            }
            self.pass.begin();
        }
        self.turn.ask(self.pass.cost());
        Ok(prompt)
    }

    /// What the backend says next. The end of the request's time is the end of what it says.
    pub(super) async fn next(&mut self, events: &mut Events) -> Option<Result<Event, backend::Error>> {
        let Some(deadline) = self.meter.deadline() else { return events.next().await };
        if self.held_by == Some(HaltReason::RequestDeadline) {
            return None;
        }
        let coming = if Instant::now() < deadline { tokio::time::timeout_at(deadline.into(), events.next()).await.ok() } else { None };
        coming.unwrap_or_else(|| {
            self.held_by = Some(HaltReason::RequestDeadline);
            Some(Ok(Event::Finished(FinishReason::Length)))
        })
    }

    /// Some of the reply came.
    pub(super) fn hear(&mut self, event: &Result<Event, backend::Error>) {
        match event {
            Ok(Event::Content(text) | Event::Reasoning(text) | Event::Refusal(text)) => self.pass.hear(text.len()),
            Ok(Event::CallArguments { fragment, .. }) => self.pass.hear(fragment.len()),
            Ok(Event::CallStarted(call)) => self.pass.hear(call.name.len() + call.arguments.len()),
            _ => {}
        }
    }

    /// Charges the attempt that `outcome` is of.
    pub(super) fn settle(&mut self, outcome: &Outcome) {
        let mut pass = std::mem::take(&mut self.pass);
        match &outcome.reply {
            Ok(reply) => drop(pass.spend(reply.usage)),
            Err(error) => {
                pass.hear(unparsed_bytes(error));
                // Who broke off with an error spoke before.
                if is_unmade(error) && !pass.has_heard() {
                    pass.undo();
                    self.turn.undo();
                }
                pass.end();
            }
        }
    }

    /// The end of an answer for which the model may not be asked again: what there is of it. Fails where nothing was done for it at all, and
    /// where nobody could say whether it may.
    pub(super) fn halt(&mut self, denial: Denial) -> Result<Vec<Event>, Error> {
        let Reason::Spent(reason) = denial.reason else { return Err(Error::Denied(denial)) };
        if !self.meter.is_used() {
            return Err(Error::Denied(denial));
        }
        let answer = self.fallback.take().unwrap_or_default();
        self.exhausted |= !self.history.is_empty();
        let mut report = self.report();
        report.halt_reason = Some(reason);
        let mut events = vec![Event::Settled(report)];
        events.extend(self.begin(&Meta::default()));
        // What was shown stands; after it, only what comes on top.
        let content = if self.goes_on { String::new() } else { answer.content };
        events.extend((!content.is_empty()).then_some(Event::Content(content)));
        events.extend([Event::Finished(FinishReason::Length), Event::Usage(self.usage)]);
        Ok(events)
    }

    /// What the model is asked now.
    fn prompt(&mut self) -> Prompt {
        self.is_reduced = self.is_reduced || self.offer.refuses_schemas();
        let json = self.offer.json.as_ref();
        let offered = match (&self.request.tool_choice, json) {
            (ToolChoice::None, _) => Offered::Withheld,
            _ if self.is_reduced => Offer::reduced(json.unwrap_or(&self.request.tools_json)).map_or(Offered::AsRequested, Offered::Instead),
            (_, Some(json)) => Offered::Instead(json.clone()),
            (_, None) => Offered::AsRequested,
        };
        let form = self.form();
        self.is_forced = form.is_some();
        let served = if self.goes_on { self.served.bound() } else { self.served.clone() };
        let sampling = resample::sampling(&self.request, self.engine.config.retry_sampling, self.history.len());
        let (request, corrections) = (Arc::clone(&self.request), self.corrections.clone());
        Prompt { request, offered, corrections, form, sampling, served }
    }

    /// The form that the reply is forced into, if any: never beside one that the client wants.
    fn form(&self) -> Option<Bytes> {
        let choice = &self.request.tool_choice;
        let is_required = matches!(choice, ToolChoice::Required | ToolChoice::Named(_)) && !self.had_several_calls;
        let wanted = match self.engine.config.constrain {
            Constrain::Never => false,
            Constrain::OnRetry => (!self.history.is_empty() && !self.had_several_calls) || (self.form_when_required && is_required),
            Constrain::Always => !self.had_several_calls,
        };
        // Where text is an answer, and there is no tool to say it with, a form would forbid it.
        let must_call = self.offer.responds || self.terms().call_is_due();
        let may = self.guardrails.validate && !matches!(choice, ToolChoice::None | ToolChoice::Other) && !self.is_unforced;
        if wanted && may && must_call && !constrain::has_own_form(&self.request) { self.offer.form(self.pinned.as_deref()) } else { None }
    }
}

/// How long a reply may be by what `request` says. Servers differ in which field they read, so the largest counts, and one that cannot be
/// read (-1 stands for no limit) leaves it open.
fn length(request: &Request) -> Option<u64> {
    let said = LIMITS.into_iter().filter(|name| request.field(name).is_some_and(|value| &value[..] != b"null"));
    let lengths: Option<Vec<u64>> = said.map(|name| given_limit(request, name)).collect();
    lengths?.into_iter().max()
}

/// How long `request` says in `field` that a reply may be.
fn given_limit(request: &Request, field: &str) -> Option<u64> {
    serde_json::from_slice::<Option<u64>>(request.field(field)?).ok().flatten()
}

/// Holds the reply to `most` tokens, in each field that says something of its length.
fn hold(request: &mut Request, most: u64) {
    let names: Vec<&str> = LIMITS.into_iter().filter(|name| request.field(name).is_some()).collect();
    for name in if names.is_empty() { vec![LIMIT] } else { names } {
        let held = given_limit(request, name).map_or(most, |given| given.min(most));
        request.set_field(name, held.to_string().into());
    }
}

/// How many tokens the model reads at most.
fn prompt_tokens(prompt: &Prompt) -> u64 {
    let tools = match &prompt.offered {
        Offered::AsRequested => &prompt.request.tools_json,
        Offered::Instead(tools) => tools,
        Offered::Withheld => &Bytes::new(),
    };
    let corrections = prompt.corrections.iter().map(|message| message.text_bytes()).sum::<usize>();
    // Some services tell it to the model as words.
    let form = prompt.request.field("response_format").map(AsRef::as_ref).unwrap_or_default();
    estimate::prompt_tokens(&[&prompt.request.messages, tools, form]).saturating_add(estimate::text_tokens(corrections))
}

/// How much the model said in a reply that the server could not read.
fn unparsed_bytes(error: &Error) -> usize {
    match error {
        Error::Backend(error) => error.unparsed().map_or(0, str::len),
        Error::ReplyTooLong(_) | Error::RetriesExhausted { .. } | Error::Denied(_) => 0,
    }
}

/// Whether the model certainly was not asked, or refused to answer.
fn is_unmade(error: &Error) -> bool {
    match error {
        Error::Backend(error) => error.is_unmade(),
        Error::ReplyTooLong(_) | Error::RetriesExhausted { .. } | Error::Denied(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asking(fields: &[(&str, &'static str)]) -> Request {
        let fields = fields.iter().map(|(name, value)| ((*name).to_owned(), Bytes::from_static(value.as_bytes()))).collect();
        Request { fields, ..Request::default() }
    }

    #[test]
    fn a_length_that_cannot_be_read_leaves_it_open() {
        assert_eq!(length(&asking(&[("max_tokens", "16"), ("n_predict", "null")])), Some(16));
        assert_eq!(length(&asking(&[("max_tokens", "16"), ("max_completion_tokens", "20")])), Some(20));
        for open in ["-1", "1e9", "16.0", "\"900\""] {
            assert_eq!(length(&asking(&[("max_tokens", "16"), ("n_predict", open)])), None, "{open}");
        }
        assert_eq!(length(&asking(&[])), None);
    }

    #[test]
    fn every_length_is_held_and_none_is_raised() {
        let mut request = asking(&[("max_tokens", "16"), ("n_predict", "-1")]);
        hold(&mut request, 100);
        assert_eq!(request.fields, asking(&[("max_tokens", "16"), ("n_predict", "100")]).fields);
        let mut request = asking(&[]);
        hold(&mut request, 100);
        assert_eq!(request.fields, asking(&[("max_tokens", "100")]).fields);
    }
}
