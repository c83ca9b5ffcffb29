//! A streamed message into events. Its blocks are numbered across texts, thinking and calls; the calls get numbers of their own.
//!
//! A signature of thinking and what the server hides of it have no place among the events: they are dropped. So is what the server's own
//! tools do.

use std::{collections::VecDeque, sync::Arc};

use crate::{
    backend::{Error, Target, stream::Translator as Translate},
    chat::{Call, Event, FinishReason, Meta, Usage},
    secret::Secret,
    wire::{
        anthropic::{
            status_of,
            stream::{self, Block, Delta, Start},
        },
        text::Text,
    },
};

/// Reads the payloads of one stream and queues what they say.
pub(super) struct Translator {
    target: Arc<Target>,
    caller: Option<Secret>,
    events: VecDeque<Event>,
    usage: stream::Usage,
    /// The calls that have begun and not ended.
    open: Vec<OpenCall>,
    /// How many calls have begun.
    calls: usize,
    started: bool,
    finished: bool,
    done: bool,
}

/// A call whose arguments are still to come.
struct OpenCall {
    /// The server's number of the block.
    block: Option<usize>,
    /// Its number among the calls.
    index: usize,
    /// The arguments that came with its beginning: they count where no others follow.
    input: String,
}

impl Translator {
    pub(super) fn new(target: Arc<Target>, caller: Option<Secret>) -> Self {
        Self {
            target,
            caller,
            events: VecDeque::new(),
            usage: stream::Usage::default(),
            open: Vec::new(),
            calls: 0,
            started: false,
            finished: false,
            done: false,
        }
    }

    fn start(&mut self, message: Option<Start<'_>>) {
        if let Some(usage) = message.as_ref().and_then(|message| message.usage) {
            self.usage.update(usage);
        }
        if !std::mem::replace(&mut self.started, true) {
            let (id, model) = message.map_or((None, None), |message| (message.id, message.model));
            let meta = Meta { id: id.map(Text::into_string), model: model.map(Text::into_string), ..Meta::default() };
            self.events.push_back(Event::Started(meta));
        }
    }

    /// Nothing is said before the beginning, whatever the server leaves out.
    fn say(&mut self, event: Event) {
        if !self.started {
            self.start(None);
        }
        self.events.push_back(event);
    }

    fn begin(&mut self, block: Option<usize>, content: Option<Block<'_>>) {
        // A server that does not end its blocks begins another of the same number.
        self.end(block);
        let Some(content) = content else { return };
        match content.kind.as_ref().map_or("", |kind| kind.0.as_ref()) {
            "text" => self.text(content.text, Event::Content),
            "thinking" => self.text(content.thinking, Event::Reasoning),
            "tool_use" => {
                let (id, name) = (content.id.map(Text::into_string), content.name.map(Text::into_string));
                let call = Call { id: id.unwrap_or_default(), name: name.unwrap_or_default(), arguments: String::new() };
                self.say(Event::CallStarted(call));
                let input = content.input.map(|input| input.get()).filter(|input| *input != "null").unwrap_or("{}");
                self.open.push(OpenCall { block, index: self.calls, input: input.to_owned() });
                self.calls += 1;
            }
            // Hidden thinking, and what the server's own tools do.
            _ => {}
        }
    }

    fn text(&mut self, text: Option<Text<'_>>, event: fn(String) -> Event) {
        if let Some(text) = text.map(Text::into_string).filter(|text| !text.is_empty()) {
            self.say(event(text));
        }
    }

    /// A delta has one of these fields. Arguments of a block that is no call are those of the server's own tools.
    fn more(&mut self, block: Option<usize>, delta: Option<Delta<'_>>) {
        let Some(delta) = delta else { return };
        self.text(delta.text, Event::Content);
        self.text(delta.thinking, Event::Reasoning);
        let fragment = delta.partial_json.map(Text::into_string).filter(|fragment| !fragment.is_empty());
        let call = self.open.iter_mut().find(|call| call.block == block);
        if let (Some(fragment), Some(call)) = (fragment, call) {
            call.input.clear();
            let index = call.index;
            self.say(Event::CallArguments { index, fragment });
        }
    }

    /// Ends the block. A call whose arguments did not come in pieces has those that it began with.
    fn end(&mut self, block: Option<usize>) {
        let ended: Vec<OpenCall> = self.open.extract_if(.., |call| call.block == block).collect();
        ended.into_iter().for_each(|call| self.settle(call));
    }

    fn settle(&mut self, call: OpenCall) {
        if !call.input.is_empty() {
            self.say(Event::CallArguments { index: call.index, fragment: call.input });
        }
    }

    /// A message from a server that did not stream.
    fn whole(&mut self, message: stream::Event<'_>) {
        self.start(Some(Start { id: message.id, model: message.model, usage: message.usage }));
        for block in message.content.unwrap_or_default() {
            self.begin(None, Some(block));
        }
        if let Some(reason) = message.stop_reason {
            self.finished_for(finish_reason(&reason.0));
        }
        self.stop();
    }

    fn message(&mut self, delta: Option<Delta<'_>>, usage: Option<stream::Usage>) {
        self.usage.update(usage.unwrap_or_default());
        let Some(delta) = delta else { return };
        let Some(reason) = delta.stop_reason else { return };
        let explanation = delta.stop_details.and_then(|details| details.explanation);
        if reason.0 == "refusal" {
            self.text(explanation, Event::Refusal);
        }
        self.finished_for(finish_reason(&reason.0));
    }

    fn finished_for(&mut self, reason: FinishReason) {
        // Blocks end before the message does.
        std::mem::take(&mut self.open).into_iter().for_each(|call| self.settle(call));
        if !std::mem::replace(&mut self.finished, true) {
            self.say(Event::Finished(reason));
        }
    }

    fn stop(&mut self) {
        if std::mem::replace(&mut self.done, true) {
            return;
        }
        self.finished_for(if self.calls > 0 { FinishReason::ToolCalls } else { FinishReason::Stop });
        self.events.push_back(Event::Usage(counts(self.usage)));
    }

    /// An error inside the stream. It has no status but its type's.
    fn refusal(&self, payload: &[u8]) -> Error {
        let mut error = self.target.refusal_in_stream(payload, self.caller.as_ref());
        if let Error::Status(refusal) = &mut error
            && refusal.body.status.is_none()
            && let Some(status) = refusal.body.kind.as_deref().and_then(status_of)
        {
            refusal.status = status;
        }
        error
    }
}

impl Translate for Translator {
    fn read(&mut self, payload: &[u8]) -> Result<(), Error> {
        // Some gateways end every stream like OpenAI's.
        if payload == b"[DONE]" {
            return Ok(());
        }
        let event: stream::Event<'_> =
            serde_json::from_slice(payload).map_err(|_| Error::Protocol("an event is none of a streamed message"))?;
        if event.error.is_some() {
            return Err(self.refusal(payload));
        }
        match event.kind.as_ref().map_or("", |kind| kind.0.as_ref()) {
            "message" => self.whole(event),
            "message_start" => self.start(event.message),
            "content_block_start" => self.begin(event.index, event.content_block),
            "content_block_delta" => self.more(event.index, event.delta),
            "content_block_stop" => self.end(event.index),
            "message_delta" => self.message(event.delta, event.usage),
            "message_stop" => self.stop(),
            // `ping`, and what newer versions add.
            _ => {}
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
        if self.done { Ok(()) } else { Err(Error::Protocol("the stream ended before the answer was complete")) }
    }
}

fn finish_reason(word: &str) -> FinishReason {
    match word {
        // A paused turn is no whole reply: the server wants to be asked to go on.
        "max_tokens" | "model_context_window_exceeded" | "pause_turn" => FinishReason::Length,
        "tool_use" => FinishReason::ToolCalls,
        "refusal" => FinishReason::ContentFilter,
        _ => FinishReason::Stop,
    }
}

/// In OpenAI's words the cached tokens are among those of the prompt.
fn counts(usage: stream::Usage) -> Usage {
    Usage {
        prompt_tokens: usage.prompt_tokens(),
        completion_tokens: usage.output_tokens.unwrap_or(0),
        cached_tokens: usage.cache_read_input_tokens.unwrap_or(0),
        reasoning_tokens: usage.output_tokens_details.and_then(|details| details.thinking_tokens).unwrap_or(0),
        cache_write_tokens: usage.cache_creation_input_tokens.unwrap_or(0),
    }
}

#[cfg(test)]
mod tests;
