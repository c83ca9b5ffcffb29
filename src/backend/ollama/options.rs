//! Ollama's `options`: how the model is sampled and run.

use std::borrow::Cow;

use bytes::{BufMut, Bytes, BytesMut};

use super::encode::{field, given};
use crate::{
    backend::Prompt,
    wire::{fields, text::Text},
};

/// The fields of requests that are options, and their names there. Of two that mean the same the first counts.
const NAMES: [(&str, &str); 25] = [
    ("temperature", "temperature"),
    ("top_p", "top_p"),
    ("top_k", "top_k"),
    ("min_p", "min_p"),
    ("typical_p", "typical_p"),
    ("tfs_z", "tfs_z"),
    ("seed", "seed"),
    ("stop", "stop"),
    ("max_completion_tokens", "num_predict"),
    ("max_tokens", "num_predict"),
    ("num_predict", "num_predict"),
    ("num_keep", "num_keep"),
    ("frequency_penalty", "frequency_penalty"),
    ("presence_penalty", "presence_penalty"),
    ("repeat_penalty", "repeat_penalty"),
    ("repetition_penalty", "repeat_penalty"),
    ("repeat_last_n", "repeat_last_n"),
    ("penalize_newline", "penalize_newline"),
    ("mirostat", "mirostat"),
    ("mirostat_tau", "mirostat_tau"),
    ("mirostat_eta", "mirostat_eta"),
    ("num_ctx", "num_ctx"),
    ("num_batch", "num_batch"),
    ("num_gpu", "num_gpu"),
    ("num_thread", "num_thread"),
];

/// The options of one upstream call, a JSON object; `None` where there are none. What the client itself writes into `options` stands.
pub(super) fn encode(prompt: &Prompt, num_ctx: Option<u32>) -> Option<Bytes> {
    let request = &prompt.request;
    let own = given(request, "options").and_then(|options| fields::object(options).ok()).unwrap_or_default();
    let mut options: Vec<(Cow<'_, str>, Bytes)> = Vec::with_capacity(8);
    for (name, option) in NAMES {
        let Some(value) = given(request, name) else { continue };
        if own.iter().any(|(known, _)| known == option) || options.iter().any(|(known, _)| known == option) {
            continue;
        }
        let replaced = prompt.sampling.iter().find(|(replaced, _)| *replaced == name).map(|(_, value)| value);
        let value = replaced.unwrap_or(value);
        options.push((Cow::Borrowed(option), if option == "stop" { list(value) } else { value.clone() }));
    }
    options.extend(own.into_iter().map(|(name, value)| (Cow::Owned(name), value)));
    if let Some(num_ctx) = num_ctx.filter(|_| options.iter().all(|(known, _)| known != "num_ctx")) {
        options.push((Cow::Borrowed("num_ctx"), num_ctx.to_string().into()));
    }
    if options.is_empty() {
        return None;
    }
    let mut json = BytesMut::with_capacity(256);
    json.put_slice(b"{");
    for (name, value) in &options {
        field(&mut json, name, value);
    }
    json.put_slice(b"}");
    Some(json.freeze())
}

/// Whether the client itself says how long the context is to be.
pub(super) fn sets_num_ctx(prompt: &Prompt) -> bool {
    let in_options = || given(&prompt.request, "options").and_then(|options| fields::object(options).ok()).unwrap_or_default();
    given(&prompt.request, "num_ctx").is_some() || in_options().iter().any(|(name, _)| name == "num_ctx")
}

/// How many tokens the reply may have, where the client says so.
pub(super) fn reply_tokens_max(prompt: &Prompt) -> Option<u64> {
    let fields = ["max_completion_tokens", "max_tokens", "num_predict"];
    fields.iter().find_map(|name| serde_json::from_slice(given(&prompt.request, name)?).ok())
}

/// OpenAI takes one stop word as a string, Ollama only a list.
fn list(stop: &Bytes) -> Bytes {
    if serde_json::from_slice::<Text<'_>>(stop).is_err() {
        return stop.clone();
    }
    let mut list = BytesMut::with_capacity(stop.len() + 2);
    list.put_slice(b"[");
    list.put_slice(stop);
    list.put_slice(b"]");
    list.freeze()
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        backend::{Offered, Served},
        chat::Request,
    };

    pub(in super::super) fn request(body: &str) -> Request {
        Request { fields: fields::object(&Bytes::copy_from_slice(body.as_bytes())).unwrap(), ..Request::default() }
    }

    pub(in super::super) fn prompt(body: &str) -> Prompt {
        let request = Arc::new(request(body));
        Prompt {
            request,
            offered: Offered::AsRequested,
            corrections: Vec::new(),
            form: None,
            sampling: Vec::new(),
            served: Served::default(),
        }
    }

    fn check(prompt: &Prompt, num_ctx: Option<u32>, expected: Option<&str>) {
        let options = encode(prompt, num_ctx);
        assert_eq!(options.as_deref().map(|options| std::str::from_utf8(options).unwrap()), expected);
    }

    #[test]
    fn every_sampling_field_has_its_place() {
        for (name, option) in NAMES.iter().filter(|(name, _)| *name != "stop") {
            check(&prompt(&format!(r#"{{"{name}":1.50}}"#)), None, Some(&format!(r#"{{"{option}":1.50}}"#)));
        }
        check(&prompt(r#"{"stop":"a\n"}"#), None, Some(r#"{"stop":["a\n"]}"#));
        check(&prompt(r#"{"stop":["a","b"]}"#), None, Some(r#"{"stop":["a","b"]}"#));
        check(&prompt(r#"{"temperature":null,"model":"m"}"#), None, None);
    }

    #[test]
    fn the_first_of_two_names_counts() {
        check(&prompt(r#"{"max_tokens":1,"max_completion_tokens":2}"#), None, Some(r#"{"num_predict":2}"#));
        check(&prompt(r#"{"max_tokens":1,"max_completion_tokens":null}"#), None, Some(r#"{"num_predict":1}"#));
    }

    #[test]
    fn the_clients_own_options_stand() {
        let own = prompt(r#"{"temperature":1,"top_k":3,"options":{"temperature":0.5,"num_ctx":8192,"new":[1]}}"#);
        check(&own, Some(4096), Some(r#"{"top_k":3,"temperature":0.5,"num_ctx":8192,"new":[1]}"#));
        check(&prompt(r#"{"options":{}}"#), None, None);
        check(&prompt(r#"{"options":7}"#), Some(4096), Some(r#"{"num_ctx":4096}"#));
        check(&prompt(r#"{"num_ctx":16384}"#), Some(4096), Some(r#"{"num_ctx":16384}"#));
        assert!(sets_num_ctx(&own) && sets_num_ctx(&prompt(r#"{"num_ctx":1}"#)) && !sets_num_ctx(&prompt(r#"{"options":{}}"#)));
    }

    #[test]
    fn an_attempt_shifts_the_sampling() {
        let shifted = Prompt { sampling: vec![("seed", Bytes::from_static(b"2"))], ..prompt(r#"{"seed":1,"top_p":0.5}"#) };
        check(&shifted, None, Some(r#"{"top_p":0.5,"seed":2}"#));
    }
}
