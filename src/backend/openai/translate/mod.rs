//! Chat completion chunks into events, forgiving what servers leave out, put elsewhere or say in their own words.

#[cfg(test)]
mod tests;

use std::{borrow::Cow, collections::VecDeque, sync::Arc};

use serde_json::value::RawValue;

use super::calls::Calls;
use crate::{
    backend::{Error, Target, stream},
    chat::{Event, FinishReason, Meta, Request, Usage},
    wire::openai::{self, Choice, Chunk, Delta, Said, Scalar, Voice},
};

/// Reads the payloads of one stream and queues what they say.
pub(in crate::backend) struct Translator {
    target: Arc<Target>,
    request: Arc<Request>,
    events: VecDeque<Event>,
    started: bool,
    /// Whether anything of the reply was said.
    spoken: bool,
    finished: bool,
    done: bool,
    calls: Calls,
    usage: Usage,
}

impl stream::Translator for Translator {
    fn read(&mut self, payload: &[u8]) -> Result<(), Error> {
        match payload.trim_ascii() {
            // Some servers keep the connection alive with empty events.
            b"" | b"null" => return Ok(()),
            b"[DONE]" => {
                self.done = true;
                return Ok(());
            }
            // Google's errors are in a list.
            [b'[', ..] => return Err(self.refused(payload)),
            _ => {}
        }
        let chunk: Chunk<'_> = serde_json::from_slice(payload).map_err(|_| Error::Protocol("a chunk is no chat completion chunk"))?;
        self.fail_for(&chunk, payload)?;
        let usage = chunk.usage;
        let of_groq = chunk.x_groq.as_ref().and_then(|groq| groq.usage);
        self.start(&chunk);
        for choice in chunk.choices.unwrap_or_default() {
            // One choice was asked for; a second one has nowhere to go.
            if choice.index.count().unwrap_or(0) == 0 {
                self.choice(choice)?;
            }
        }
        for usage in [of_groq, usage].into_iter().flatten() {
            self.usage(usage);
        }
        if let Some(timings) = chunk.timings.filter(|_| self.started) {
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
        Self {
            target,
            request,
            events: VecDeque::new(),
            started: false,
            spoken: false,
            finished: false,
            done: false,
            calls: Calls::default(),
            usage: Usage::default(),
        }
    }

    fn refused(&self, error: &[u8]) -> Error {
        self.target.refusal_in_stream(error, self.request.credential.as_ref())
    }

    /// Fails when the payload is an error, or has one beside what it says.
    fn fail_for(&self, chunk: &Chunk<'_>, payload: &[u8]) -> Result<(), Error> {
        let of_groq = chunk.x_groq.as_ref().and_then(|groq| groq.error);
        let nested = chunk.choices.iter().flatten().find_map(|choice| choice.error).or(of_groq);
        if is_error(chunk.error) || (chunk.choices.is_none() && chunk.object.is("error")) {
            return Err(self.refused(payload));
        }
        match nested {
            Some(error) if is_error(nested) => Err(self.refused(error.get().as_bytes())),
            _ => Ok(()),
        }
    }

    /// The first chunk says what the completion is. Azure sends one before it that is about the prompt and says nothing.
    fn start(&mut self, chunk: &Chunk<'_>) {
        let says_nothing = chunk.choices.as_ref().is_none_or(Vec::is_empty) && chunk.id.text().is_none() && chunk.usage.is_none();
        if self.started || says_nothing {
            return;
        }
        self.started = true;
        let text = |text: &Scalar<'_>| text.text().map(Cow::into_owned);
        self.events.push_back(Event::Started(Meta {
            id: text(&chunk.id),
            created: chunk.created.count().filter(|seconds| *seconds > 0),
            model: text(&chunk.model),
            system_fingerprint: text(&chunk.system_fingerprint),
        }));
    }

    fn choice(&mut self, choice: Choice<'_>) -> Result<(), Error> {
        if let Some(logprobs) = choice.logprobs {
            self.events.push_back(Event::Logprobs(logprobs.to_owned()));
        }
        match (choice.delta, choice.message) {
            // Perplexity repeats in `message` all that was said so far.
            (Some(delta), _) => self.delta(delta),
            // The server did not stream, or repeats the whole at the end.
            (None, Some(message)) => {
                if !self.spoken {
                    self.delta(message);
                }
                self.done = true;
            }
            (None, None) => {}
        }
        if let Some(usage) = choice.usage {
            self.usage(usage);
        }
        match choice.finish_reason.text().as_deref().map(Finish::of) {
            None | Some(Finish::NotYet) => {}
            Some(Finish::Failed) => return Err(Error::Protocol("the server gave up the answer")),
            Some(Finish::Reason(_)) if self.finished => {}
            Some(Finish::Reason(reason)) => {
                self.finished = true;
                self.events.push_back(Event::Finished(reason));
            }
        }
        Ok(())
    }

    fn delta(&mut self, delta: Delta<'_>) {
        let before = self.events.len();
        // Where one server fills two of these, they say the same.
        let reasoning = [delta.reasoning_content, delta.reasoning, delta.thinking, delta.reasoning_details];
        if let Some(reasoning) = reasoning.into_iter().flatten().find(|said| !said.is_empty()) {
            self.say(reasoning, Voice::Thinking, Event::Content);
        }
        if let Some(content) = delta.content {
            self.say(content, Voice::Aloud, Event::Content);
        }
        if let Some(refusal) = delta.refusal {
            self.say(refusal, Voice::Aloud, Event::Refusal);
        }
        for piece in delta.tool_calls.unwrap_or_default() {
            self.events.extend(self.calls.read(piece));
        }
        self.spoken |= self.events.len() > before;
    }

    fn say(&mut self, said: Said<'_>, voice: Voice, aloud: fn(String) -> Event) {
        said.tell(voice, &mut |voice, text| {
            self.events.push_back(match voice {
                Voice::Aloud => aloud(text),
                Voice::Thinking => Event::Reasoning(text),
            });
        });
    }

    /// Counts are of the whole reply so far. Some servers send them with every chunk, some of them only in one.
    fn usage(&mut self, raw: &RawValue) {
        let (told, mut usage) = (openai::Usage::read(raw), self.usage);
        for (count, told) in [
            (&mut usage.prompt_tokens, told.prompt_tokens),
            (&mut usage.completion_tokens, told.completion_tokens),
            (&mut usage.cached_tokens, told.cached_tokens),
            (&mut usage.reasoning_tokens, told.reasoning_tokens),
        ] {
            *count = told.filter(|told| *told > 0).unwrap_or(*count);
        }
        if usage != self.usage && self.started {
            self.usage = usage;
            self.events.push_back(Event::Usage(usage));
        }
    }
}

fn is_error(error: Option<&RawValue>) -> bool {
    error.is_some_and(|error| !matches!(error.get(), "null" | "false" | "\"\"" | "{}"))
}

/// What a finish reason says.
enum Finish {
    /// Nothing: some gateways send an empty word with every chunk.
    NotYet,
    Reason(FinishReason),
    /// The reply was not brought to an end.
    Failed,
}

impl Finish {
    fn of(word: &str) -> Self {
        match word {
            "" | "null" => Self::NotYet,
            // What is behind a gateway may say it in the words of its vendor.
            "length" | "model_length" | "max_tokens" | "MAX_TOKENS" => Self::Reason(FinishReason::Length),
            "tool_calls" | "function_call" => Self::Reason(FinishReason::ToolCalls),
            "content_filter" | "SAFETY" | "sensitive" => Self::Reason(FinishReason::ContentFilter),
            // OpenRouter; vLLM and SGLang; DeepSeek; Zhipu.
            "error" | "abort" | "insufficient_system_resource" | "network_error" => Self::Failed,
            _ => Self::Reason(FinishReason::Stop),
        }
    }
}
