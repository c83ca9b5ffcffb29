//! How many tokens an answer tells that it took, where nothing else of it is read.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Delta, Groq, Scalar, Usage};

/// Adds up what is told in an answer, in one piece or in many.
#[derive(Debug, Default)]
pub struct Tally {
    usage: Usage,
    /// What llama-server tells of each choice, which it counts apart: its usage is that of the first.
    choices: Vec<(Option<u64>, Timings)>,
}

/// What llama-server counts for one choice.
#[derive(Debug, Clone, Copy)]
struct Timings {
    prompt: u64,
    cached: u64,
    predicted: u64,
}

/// More choices than anybody asks for at once.
const CHOICES_MAX: usize = 128;

impl Tally {
    /// Reads the payload of one event of a stream. Returns whether it says some more of a reply; what nobody understands does.
    pub fn event(&mut self, payload: &[u8]) -> bool {
        let payload = payload.trim_ascii();
        if matches!(payload, b"" | b"null" | b"[DONE]") {
            return false;
        }
        let Ok(event) = serde_json::from_slice::<Event<'_>>(payload) else { return true };
        let choices = event.choices.as_deref().unwrap_or_default();
        let of_groq = event.x_groq.as_ref().and_then(|groq| groq.usage);
        for usage in choices.iter().filter_map(|choice| choice.usage).chain(of_groq).chain(event.usage) {
            self.usage(Usage::read(usage));
        }
        if let Some(timings) = event.timings.and_then(|timings| Timings::read(timings.get().as_bytes())) {
            self.choice(choices.first().map(|choice| choice.index.count().unwrap_or_default()), timings);
        }
        event.choices.is_none() || choices.iter().any(Choice::says_something)
    }

    /// Reads the fields `usage` and `timings` of a whole answer that has so many `choices`.
    pub fn whole(&mut self, usage: Option<&[u8]>, timings: Option<&[u8]>, choices: u64) {
        if let Some(usage) = usage.and_then(|usage| serde_json::from_slice::<&RawValue>(usage).ok()) {
            self.usage(Usage::read(usage));
        }
        let Some(mut timings) = timings.and_then(Timings::read) else { return };
        // Of the others nothing is told: they are taken to be as long as the first.
        if self.usage.completion_tokens.is_none_or(|tokens| tokens <= timings.predicted) {
            timings.predicted = timings.predicted.saturating_mul(choices.max(1));
        }
        self.choice(None, timings);
    }

    /// All that was told.
    pub fn total(&self) -> Usage {
        let predicted = self.choices.iter().map(|(_, timings)| timings.predicted).reduce(u64::saturating_add);
        // All choices have one prompt, and only the first has it read.
        let prompt = self.choices.iter().map(|(_, timings)| timings.prompt).max();
        let cached = self.choices.iter().map(|(_, timings)| timings.cached).min();
        let Usage { prompt_tokens, completion_tokens, cached_tokens, reasoning_tokens } = self.usage;
        Usage {
            prompt_tokens: prompt_tokens.or(prompt),
            completion_tokens: completion_tokens.max(predicted),
            cached_tokens: cached_tokens.or(cached),
            reasoning_tokens,
        }
    }

    /// Counts grow: some servers tell them in every event.
    fn usage(&mut self, told: Usage) {
        let known = self.usage;
        self.usage = Usage {
            prompt_tokens: known.prompt_tokens.max(told.prompt_tokens),
            completion_tokens: known.completion_tokens.max(told.completion_tokens),
            cached_tokens: known.cached_tokens.max(told.cached_tokens),
            reasoning_tokens: known.reasoning_tokens.max(told.reasoning_tokens),
        };
    }

    /// What is told of the choice `index`; without one, of one more.
    fn choice(&mut self, index: Option<u64>, told: Timings) {
        let known = self.choices.iter().position(|(known, _)| index.is_some() && *known == index);
        if let Some((_, timings)) = known.and_then(|at| self.choices.get_mut(at)) {
            *timings = told;
        } else if self.choices.len() < CHOICES_MAX {
            self.choices.push((index, told));
        }
    }
}

impl Timings {
    /// Reads llama-server's `timings`, `None` where it counts nothing.
    fn read(json: &[u8]) -> Option<Self> {
        #[derive(Deserialize)]
        struct Wire<'a> {
            #[serde(borrow, default)]
            prompt_n: Scalar<'a>,
            #[serde(borrow, default)]
            cache_n: Scalar<'a>,
            #[serde(borrow, default)]
            predicted_n: Scalar<'a>,
        }
        let wire: Wire<'_> = serde_json::from_slice(json).ok()?;
        let cached = wire.cache_n.count().unwrap_or_default();
        // What came from the cache was not read.
        Some(Self {
            prompt: wire.prompt_n.count()?.saturating_add(cached),
            cached,
            predicted: wire.predicted_n.count().unwrap_or_default(),
        })
    }
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow, default)]
    choices: Option<Vec<Choice<'a>>>,
    #[serde(borrow, default)]
    usage: Option<&'a RawValue>,
    #[serde(borrow, default)]
    timings: Option<&'a RawValue>,
    #[serde(borrow, default)]
    x_groq: Option<Groq<'a>>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(borrow, default)]
    index: Scalar<'a>,
    #[serde(borrow, default)]
    delta: Option<Delta<'a>>,
    /// What a text completion has in place of a delta.
    #[serde(borrow, default)]
    text: Scalar<'a>,
    #[serde(borrow, default)]
    usage: Option<&'a RawValue>,
}

impl Choice<'_> {
    fn says_something(&self) -> bool {
        let of_delta = |delta: &Delta<'_>| {
            let said =
                [&delta.content, &delta.reasoning_content, &delta.reasoning, &delta.thinking, &delta.reasoning_details, &delta.refusal];
            said.into_iter().flatten().any(|said| !said.is_empty()) || delta.tool_calls.as_ref().is_some_and(|calls| !calls.is_empty())
        };
        self.text.text().is_some() || self.delta.as_ref().is_some_and(of_delta)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(tally: &Tally) -> [Option<u64>; 3] {
        let usage = tally.total();
        [usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens]
    }

    #[test]
    fn events_that_say_something_are_told_apart() {
        let check = |payload: &str, expected: bool| assert_eq!(Tally::default().event(payload.as_bytes()), expected, "{payload}");
        check(r#"{"choices":[{"delta":{"content":"a"}}]}"#, true);
        check(r#"{"choices":[{"delta":{"role":"assistant","content":""}}]}"#, false);
        check(r#"{"choices":[{"delta":{"tool_calls":[{"index":0}]}}]}"#, true);
        check(r#"{"choices":[{"index":0,"text":"a"}]}"#, true);
        check(r#"{"choices":[],"usage":{"prompt_tokens":1}}"#, false);
        check(r#"{"type":"delta"}"#, true);
        check("what is this", true);
        check("[DONE]", false);
    }

    #[test]
    fn usage_is_taken_from_wherever_it_is_told() {
        let check = |payloads: &[&str], expected: [Option<u64>; 3]| {
            let mut tally = Tally::default();
            for payload in payloads {
                tally.event(payload.as_bytes());
            }
            assert_eq!(told(&tally), expected, "{payloads:?}");
        };
        check(&[r#"{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}"#], [Some(3), Some(2), None]);
        check(&[r#"{"choices":[],"x_groq":{"usage":{"prompt_tokens":3}}}"#], [Some(3), None, None]);
        let counting = |n: u64| format!(r#"{{"choices":[{{"index":0}}],"usage":{{"prompt_tokens":3,"completion_tokens":{n}}}}}"#);
        check(&[&counting(1), &counting(2)], [Some(3), Some(2), None]);
        // llama-server's, once a choice or with every token.
        let timings =
            |index: u64, n: u64| format!(r#"{{"choices":[{{"index":{index}}}],"timings":{{"prompt_n":4,"cache_n":6,"predicted_n":{n}}}}}"#);
        check(&[&timings(0, 5)], [Some(10), Some(5), Some(6)]);
        check(&[&timings(0, 1), &timings(1, 1), &timings(0, 5), &timings(1, 7)], [Some(10), Some(12), Some(6)]);
        check(&["{}", "[]", r#"{"usage":null,"timings":3}"#], [None; 3]);
    }

    #[test]
    fn a_whole_answer_of_llama_server_counts_its_first_choice_only() {
        let check = |usage: &str, timings: Option<&str>, choices: u64, expected: [Option<u64>; 3]| {
            let mut tally = Tally::default();
            tally.whole(Some(usage.as_bytes()), timings.map(str::as_bytes), choices);
            assert_eq!(told(&tally), expected, "{usage}");
        };
        let usage = r#"{"prompt_tokens":10,"completion_tokens":5}"#;
        let timings = Some(r#"{"prompt_n":10,"predicted_n":5}"#);
        check(usage, None, 3, [Some(10), Some(5), None]);
        check(usage, timings, 1, [Some(10), Some(5), Some(0)]);
        check(usage, timings, 3, [Some(10), Some(15), Some(0)]);
        check(r#"{"prompt_tokens":10,"completion_tokens":14}"#, timings, 3, [Some(10), Some(14), Some(0)]);
        check("nothing", None, 1, [None; 3]);
    }
}
