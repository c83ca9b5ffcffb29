//! OpenAI chunks into events, forgiving what servers leave out.

use std::{borrow::Cow, collections::VecDeque, sync::Arc};

use serde_json::value::RawValue;

use crate::{
    backend::{Error, Target, stream},
    chat::{Call, Event, FinishReason, Meta, Request, Usage},
    wire::openai::{CallDelta, Choice, Chunk, Delta, Text},
};

/// Reads the payloads of one stream and queues what they say.
pub(in crate::backend) struct Translator {
    target: Arc<Target>,
    request: Arc<Request>,
    events: VecDeque<Event>,
    started: bool,
    finished: bool,
    done: bool,
    /// The server's index and id of each call so far: their places here are the indices without gaps.
    calls: Vec<(Option<usize>, String)>,
}

impl stream::Translator for Translator {
    fn read(&mut self, payload: &[u8]) -> Result<(), Error> {
        if payload == b"[DONE]" {
            self.done = true;
            return Ok(());
        }
        let chunk: Chunk<'_> = serde_json::from_slice(payload).map_err(|_| Error::Protocol("a chunk is no chat completion chunk"))?;
        if chunk.error.is_some() {
            return Err(self.target.refusal_in_stream(payload, self.request.credential.as_ref()));
        }
        self.start(&chunk);
        for choice in chunk.choices.unwrap_or_default() {
            // One choice was asked for; a second one has nowhere to go.
            if choice.index.unwrap_or(0) == 0 {
                self.choice(choice);
            }
        }
        if let Some(usage) = chunk.usage {
            self.events.push_back(Event::Usage(counts(usage)));
        }
        if let Some(timings) = chunk.timings {
            self.events.push_back(Event::Timings(timings.to_owned()));
        }
        Ok(())
    }

    fn next(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn is_done(&self) -> bool {
        self.done
    }

    fn finish(&mut self) -> Result<(), Error> {
        match (self.finished, self.done) {
            (true, _) => {}
            // A server that says it is done but not why.
            (false, true) if self.started => self.events.push_back(Event::Finished(FinishReason::Stop)),
            (false, _) => return Err(Error::Protocol("the stream ended before the answer was complete")),
        }
        Ok(())
    }
}

impl Translator {
    /// A translator of the answer to `request`, given by `target`.
    pub(super) fn new(target: Arc<Target>, request: Arc<Request>) -> Self {
        Self { target, request, events: VecDeque::new(), started: false, finished: false, done: false, calls: Vec::new() }
    }

    fn start(&mut self, chunk: &Chunk<'_>) {
        if self.started {
            return;
        }
        self.started = true;
        let text = |text: &Option<Text<'_>>| text.as_ref().map(|text| text.0.as_ref().to_owned());
        self.events.push_back(Event::Started(Meta {
            id: text(&chunk.id),
            // Some servers send a fraction.
            created: chunk.created.map(|seconds| seconds as u64),
            model: text(&chunk.model),
            system_fingerprint: text(&chunk.system_fingerprint),
        }));
    }

    fn choice(&mut self, choice: Choice<'_>) {
        if let Some(logprobs) = choice.logprobs {
            self.events.push_back(Event::Logprobs(logprobs.to_owned()));
        }
        if let Some(delta) = choice.delta {
            self.delta(delta);
        }
        if let Some(reason) = choice.finish_reason.filter(|_| !self.finished) {
            self.finished = true;
            self.events.push_back(Event::Finished(finish_reason(&reason.0)));
        }
    }

    fn delta(&mut self, delta: Delta<'_>) {
        let say =
            |text: Option<Text<'_>>, event: fn(String) -> Event| text.map(Text::into_string).filter(|text| !text.is_empty()).map(event);
        self.events.extend(say(delta.reasoning_content, Event::Reasoning));
        self.events.extend(say(delta.content, Event::Content));
        self.events.extend(say(delta.refusal, Event::Refusal));
        for call in delta.tool_calls.unwrap_or_default() {
            self.call(call);
        }
    }

    /// A piece belongs to the last call of its index; without an index, a name begins a new call. Ollama sends every call with index 0 and
    /// an id of its own: a name with another id begins a new call too.
    fn call(&mut self, piece: CallDelta<'_>) {
        let (name, arguments) = piece.function.map_or((None, None), |function| (function.name, function.arguments));
        let id = piece.id.map(Text::into_string).unwrap_or_default();
        let known = match piece.index {
            Some(_) => {
                let goes_on = |known: &str| name.is_none() || id.is_empty() || id == known;
                self.calls.iter().rposition(|(index, known)| *index == piece.index && goes_on(known))
            }
            None if name.is_none() => self.calls.len().checked_sub(1),
            None => None,
        };
        let fragment = arguments.map(fragment).unwrap_or_default();
        match known {
            Some(_) if fragment.is_empty() => {}
            Some(index) => self.events.push_back(Event::CallArguments { index, fragment: fragment.into_owned() }),
            None => {
                self.calls.push((piece.index, id.clone()));
                self.events.push_back(Event::CallStarted(Call {
                    id,
                    name: name.map(Text::into_string).unwrap_or_default(),
                    arguments: fragment.into_owned(),
                }));
            }
        }
    }
}

/// Arguments by the book are a JSON string; some servers send the object itself.
fn fragment(raw: &RawValue) -> Cow<'_, str> {
    match raw.get() {
        "null" => Cow::Borrowed(""),
        text if text.starts_with('"') => serde_json::from_str::<Text<'_>>(text).map_or(Cow::Borrowed(""), |text| text.0),
        object => Cow::Borrowed(object),
    }
}

fn finish_reason(word: &str) -> FinishReason {
    match word {
        // What is behind a gateway may say it in the words of its vendor.
        "length" | "model_length" | "max_tokens" | "MAX_TOKENS" => FinishReason::Length,
        "tool_calls" | "function_call" => FinishReason::ToolCalls,
        "content_filter" => FinishReason::ContentFilter,
        _ => FinishReason::Stop,
    }
}

fn counts(usage: crate::wire::openai::Usage) -> Usage {
    Usage {
        prompt_tokens: usage.prompt_tokens.unwrap_or(0),
        completion_tokens: usage.completion_tokens.unwrap_or(0),
        cached_tokens: usage.prompt_tokens_details.and_then(|details| details.cached_tokens).unwrap_or(0),
        reasoning_tokens: usage.completion_tokens_details.and_then(|details| details.reasoning_tokens).unwrap_or(0),
    }
}
