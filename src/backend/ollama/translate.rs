//! Lines of Ollama's chat into events.

use std::{collections::VecDeque, sync::Arc};

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use super::refusal;
use crate::{
    backend::{Error, Target, stream},
    chat::{Call, Event, FinishReason, Meta, Request, Usage, id},
    wire::{
        ollama::{Line, Logprob, Message, ToolCall, seconds_since_1970},
        text::Text,
    },
};

/// Reads the lines of one stream and queues what they say.
pub(super) struct Translator {
    target: Arc<Target>,
    request: Arc<Request>,
    events: VecDeque<Event>,
    started: bool,
    called: bool,
    done: bool,
}

impl stream::Translator for Translator {
    /// Takes one line. What follows the last one says nothing.
    fn read(&mut self, line: &[u8]) -> Result<(), Error> {
        if self.done {
            return Ok(());
        }
        let read: Line<'_> = serde_json::from_slice(line).map_err(|_| Error::Protocol("a line is no chat response"))?;
        if read.error.is_some() {
            let refusal = self.target.refusal_in_stream(line, self.request.credential.as_ref());
            return Err(refusal::explained(refusal, &self.request.model));
        }
        self.start(&read);
        let is_last = read.done == Some(true);
        let cost = is_last.then(|| (timings(&read), usage(&read)));
        self.message(read.message, read.logprobs);
        if let Some((timings, usage)) = cost {
            self.done = true;
            self.events.extend(timings.map(Event::Timings));
            self.events.push_back(Event::Finished(self.finish_reason(read.done_reason)));
            self.events.push_back(Event::Usage(usage));
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
        if self.done { Ok(()) } else { Err(Error::Protocol(CUT_OFF)) }
    }
}

impl Translator {
    pub(super) fn new(target: Arc<Target>, request: Arc<Request>) -> Self {
        Self { target, request, events: VecDeque::new(), started: false, called: false, done: false }
    }

    fn start(&mut self, line: &Line<'_>) {
        if self.started {
            return;
        }
        self.started = true;
        self.events.push_back(Event::Started(Meta {
            created: line.created_at.as_ref().and_then(|time| seconds_since_1970(&time.0)),
            model: line.model.as_ref().map(|model| model.0.as_ref().to_owned()),
            ..Meta::default()
        }));
    }

    fn message(&mut self, message: Option<Message<'_>>, logprobs: Option<Vec<Logprob<'_>>>) {
        let Message { content, thinking, tool_calls } = message.unwrap_or_default();
        let said = |text: Option<Text<'_>>| text.map(Text::into_string).filter(|text| !text.is_empty());
        match said(thinking) {
            // OpenAI counts the text's tokens only.
            Some(thought) => self.events.push_back(Event::Reasoning(thought)),
            None => self.events.extend(logprobs.as_deref().and_then(in_openai_words).map(Event::Logprobs)),
        }
        self.events.extend(said(content).map(Event::Content));
        for call in tool_calls.unwrap_or_default() {
            self.called = true;
            self.events.push_back(Event::CallStarted(whole(call)));
        }
    }

    /// A reply that was cut off is that first of all. `load` and `unload` answer a request without messages.
    fn finish_reason(&self, word: Option<Text<'_>>) -> FinishReason {
        match word.as_ref().map(|word| word.0.as_ref()) {
            Some("length") => FinishReason::Length,
            _ if self.called => FinishReason::ToolCalls,
            _ => FinishReason::Stop,
        }
    }
}

fn usage(line: &Line<'_>) -> Usage {
    let prompt_tokens = line.prompt_eval_count.unwrap_or(0);
    Usage {
        prompt_tokens,
        completion_tokens: line.eval_count.unwrap_or(0),
        cached_tokens: line.prompt_eval_cached_count.unwrap_or(0).min(prompt_tokens),
        reasoning_tokens: 0,
        cache_write_tokens: 0,
    }
}

/// The durations under Ollama's names, in nanoseconds.
fn timings(line: &Line<'_>) -> Option<Box<RawValue>> {
    let durations = Durations {
        total_duration: line.total_duration?,
        load_duration: line.load_duration,
        prompt_eval_duration: line.prompt_eval_duration,
        eval_duration: line.eval_duration,
    };
    to_raw_value(&durations).ok()
}

#[derive(Serialize)]
struct Durations {
    total_duration: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    load_duration: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_eval_duration: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    eval_duration: Option<u64>,
}

/// Ollama ends the body like this too when a model says the same token more than thirty times.
const CUT_OFF: &str = "the stream ended before the answer was complete, as it does when Ollama stops a model that repeats itself";

fn whole(call: ToolCall<'_>) -> Call {
    let (name, arguments) = call.function.map_or((None, None), |function| (function.name, function.arguments));
    let id = call.id.map(Text::into_string).filter(|id| !id.is_empty());
    Call {
        id: id.unwrap_or_else(|| id::mint("call_")),
        name: name.map(Text::into_string).unwrap_or_default(),
        arguments: arguments.map_or_else(|| "{}".to_owned(), arguments_text),
    }
}

/// Arguments by Ollama's book are an object; what passes for it may send them as a string, as OpenAI does.
fn arguments_text(raw: &RawValue) -> String {
    match raw.get() {
        "null" => "{}".to_owned(),
        text if text.starts_with('"') => serde_json::from_str::<Text<'_>>(text).map(Text::into_string).unwrap_or_default(),
        object => object.to_owned(),
    }
}

/// An entry of OpenAI's `logprobs`, in which no field may be missing.
#[derive(Serialize)]
struct Entry<'a> {
    token: &'a RawValue,
    logprob: &'a RawValue,
    bytes: Option<&'a RawValue>,
    top_logprobs: Vec<Likely<'a>>,
}

#[derive(Serialize)]
struct Likely<'a> {
    token: &'a RawValue,
    logprob: &'a RawValue,
    bytes: Option<&'a RawValue>,
}

impl<'a> From<&'a Logprob<'_>> for Entry<'a> {
    fn from(Logprob { token, logprob, bytes, top_logprobs }: &'a Logprob<'_>) -> Self {
        Self { token, logprob, bytes: *bytes, top_logprobs: top_logprobs.iter().flatten().map(Likely::from).collect() }
    }
}

impl<'a> From<&'a Logprob<'_>> for Likely<'a> {
    fn from(Logprob { token, logprob, bytes, .. }: &'a Logprob<'_>) -> Self {
        Self { token, logprob, bytes: *bytes }
    }
}

#[derive(Serialize)]
struct Logprobs<'a> {
    content: Vec<Entry<'a>>,
}

fn in_openai_words(logprobs: &[Logprob<'_>]) -> Option<Box<RawValue>> {
    if logprobs.is_empty() {
        return None;
    }
    to_raw_value(&Logprobs { content: logprobs.iter().map(Entry::from).collect() }).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{
        backend::{Slot, stream::Translator as _, target},
        chat::Reply,
        secret::Secret,
        upstream,
        wire::ndjson::Decoder,
    };

    const SECOND: std::time::Duration = std::time::Duration::from_secs(1);

    fn target() -> Arc<Target> {
        let api_key = Some(Secret::new("Bearer sk-abcdefgh"));
        let config = target::Config { url: "http://127.0.0.1:1".parse().unwrap(), api_key, slot: Slot::Authorization };
        Arc::new(Target::new(
            config,
            upstream::Config { connect_timeout: SECOND, first_byte_timeout: SECOND, idle_timeout: SECOND, total_timeout: SECOND },
        ))
    }

    fn events(chunks: &[&[u8]]) -> Result<Vec<Event>, Error> {
        let (mut decoder, mut translator) = (Decoder::new(1 << 20), Translator::new(target(), Arc::default()));
        let mut events = Vec::new();
        for chunk in chunks {
            decoder.push(chunk);
            while let Some(line) = decoder.next_line().unwrap() {
                translator.read(line)?;
            }
        }
        if let Some(rest) = decoder.rest() {
            translator.read(rest)?;
        }
        while let Some(event) = translator.next() {
            events.push(event);
        }
        translator.finish()?;
        Ok(events)
    }

    fn reply(stream: &str) -> Reply {
        let mut reply = Reply::default();
        events(&[stream.as_bytes()]).unwrap().into_iter().for_each(|event| reply.add(event));
        reply
    }

    const DONE: &str = r#"{"done":true,"done_reason":"stop"}"#;

    #[test]
    fn a_reply_is_told_in_its_parts() {
        let reply = reply(concat!(
            r#"{"model":"tiny:latest","created_at":"2026-09-17T15:42:59.7Z","message":{"role":"assistant","content":"","thinking":"Hm"},"done":false}"#,
            "\n",
            r#"{"model":"tiny:latest","message":{"role":"assistant","content":"It is "}}"#,
            "\n",
            r#"{"message":{"role":"assistant","content":"sunny"}}"#,
            "\r\n\n",
            r#"{"message":{"role":"assistant","content":""},"done":true,"done_reason":"stop","prompt_eval_count":10,"prompt_eval_cached_count":4,"eval_count":5,"total_duration":9,"eval_duration":7}"#,
        ));
        assert_eq!((reply.meta.model.as_deref(), reply.meta.created, &reply.meta.id), (Some("tiny:latest"), Some(1_789_659_779), &None));
        assert_eq!((reply.reasoning.as_str(), reply.content.as_str(), reply.finish), ("Hm", "It is sunny", Some(FinishReason::Stop)));
        assert_eq!(reply.timings.unwrap().get(), r#"{"total_duration":9,"eval_duration":7}"#);
        assert_eq!(
            reply.usage,
            Usage { prompt_tokens: 10, completion_tokens: 5, cached_tokens: 4, reasoning_tokens: 0, cache_write_tokens: 0 }
        );
    }

    #[test]
    fn calls_are_whole_and_have_ids() {
        let reply = reply(&format!(
            "{}\n{}\n{DONE}\n",
            r#"{"message":{"tool_calls":[{"id":"call_x","function":{"index":0,"name":"a","arguments":{"b":18446744073709551616,"a":"\u003c"}}},{"function":{"name":"b"}}]}}"#,
            r#"{"message":{"tool_calls":[{"id":"","function":{"name":"c","arguments":"{\"x\":1}"}},{"function":{"name":"d","arguments":null}}]}}"#
        ));
        let calls: Vec<(&str, &str)> = reply.calls.iter().map(|call| (call.name.as_str(), call.arguments.as_str())).collect();
        assert_eq!(calls, [("a", r#"{"b":18446744073709551616,"a":"\u003c"}"#), ("b", "{}"), ("c", r#"{"x":1}"#), ("d", "{}")]);
        assert_eq!((reply.calls[0].id.as_str(), reply.finish), ("call_x", Some(FinishReason::ToolCalls)));
        assert!(reply.calls.iter().skip(1).all(|call| call.id.len() == "call_".len() + 16));
    }

    #[test]
    fn ends_are_told_apart() {
        let check = |end: &str, expected: FinishReason| assert_eq!(reply(end).finish, Some(expected), "{end}");
        check(r#"{"done":true,"done_reason":"length"}"#, FinishReason::Length);
        check(r#"{"done":true,"done_reason":"load"}"#, FinishReason::Stop);
        check(r#"{"done":true,"done_reason":"unload"}"#, FinishReason::Stop);
        check(r#"{"done":true}"#, FinishReason::Stop);
        let call = r#"{"message":{"tool_calls":[{"function":{"name":"a"}}]},"done":true,"done_reason":"REASON"}"#;
        check(&call.replace("REASON", "length"), FinishReason::Length);
        check(&call.replace("REASON", "stop"), FinishReason::ToolCalls);
        check(&format!("{DONE}\n{{\"error\":\"late\"}}\nnonsense"), FinishReason::Stop);
        assert_eq!(reply(DONE).usage, Usage::default());
    }

    #[test]
    fn what_breaks_off_is_no_answer() {
        let check = |stream: &str| assert!(matches!(events(&[stream.as_bytes()]), Err(Error::Protocol(_))), "{stream}");
        check("");
        check("{\"message\":{\"content\":\"half\"}}\n");
        check("{\"message\":{\"content\":\"half");
        check("<html>");
        check("[]");
    }

    #[test]
    fn an_error_in_the_middle_is_told_without_credentials() {
        let stream = "{\"message\":{\"content\":\"half\"}}\n{\"error\":\"the runner saw sk-abcdefgh and died\"}\n";
        let Err(Error::Status(refusal)) = events(&[stream.as_bytes()]) else { panic!("no refusal") };
        assert_eq!((refusal.status, refusal.body.message.as_deref()), (502, Some("the runner saw [secret] and died")));
    }

    #[test]
    fn log_probabilities_have_every_field() {
        let reply = reply(&format!(
            "{}\n{}\n{DONE}",
            r#"{"message":{"thinking":"no"},"logprobs":[{"token":"no","logprob":-1}]}"#,
            r#"{"message":{"content":"a"},"logprobs":[{"token":"a","logprob":-0.5,"bytes":[97],"top_logprobs":[{"token":"b","logprob":-2}]},{"token":"c","logprob":-3}]}"#
        ));
        assert_eq!(reply.logprobs.len(), 1);
        assert_eq!(
            reply.logprobs[0].get(),
            concat!(
                r#"{"content":[{"token":"a","logprob":-0.5,"bytes":[97],"top_logprobs":[{"token":"b","logprob":-2,"bytes":null}]},"#,
                r#"{"token":"c","logprob":-3,"bytes":null,"top_logprobs":[]}]}"#
            )
        );
    }

    proptest! {
        #[test]
        fn the_cuts_do_not_matter(cuts in proptest::collection::vec(0usize..400, 0..8)) {
            let stream = concat!(
                "{\"model\":\"m\",\"message\":{\"content\":\"caf\u{e9} \"}}\r\n",
                "{\"message\":{\"thinking\":\"\u{1f914}\"}}\n\n",
                "{\"message\":{\"tool_calls\":[{\"id\":\"c\",\"function\":{\"name\":\"f\",\"arguments\":{\"a\":[1,2]}}}]}}\n",
                "{\"done\":true,\"done_reason\":\"stop\",\"eval_count\":3}",
            ).as_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().filter(|cut| *cut < stream.len()).collect();
            cuts.sort_unstable();
            let mut chunks = Vec::new();
            let mut from = 0;
            for cut in cuts {
                chunks.push(&stream[from..cut]);
                from = cut;
            }
            chunks.push(&stream[from..]);
            prop_assert_eq!(format!("{:?}", events(&chunks).unwrap()), format!("{:?}", events(&[stream]).unwrap()));
        }
    }
}
