//! What the body of a request asks of a model, as far as it costs something; nothing else of it is read.

use bytes::Bytes;

use crate::{
    budget::{Ask, estimate},
    wire::object::{Object, elements},
};

/// What a path makes a model do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    /// It writes, as long as `max_tokens` lets it.
    Completes,
    /// It reads, and writes no text.
    Reads,
    /// Nobody knows.
    Other,
}

/// What is asked.
#[derive(Debug)]
pub(super) struct Asked {
    /// The model, empty where none is named.
    pub(super) model: String,
    /// How many replies are wanted.
    pub(super) replies: u64,
    prompt_tokens: u64,
    /// How long all replies may be together, where that is said.
    max_tokens: Option<u64>,
    /// The fields that say how long one reply may be, and what they say; nothing where that cannot be read.
    limits: Vec<(&'static str, Option<u64>)>,
    /// A field that is read here and stands there more than once: servers differ in which they read.
    pub(super) repeated: Option<&'static str>,
    work: Work,
}

/// The fields that say how long a reply may be.
const LIMITS: [&str; 3] = ["max_completion_tokens", "max_tokens", "n_predict"];
/// The fields that say how many replies are made for each prompt; of several the largest counts.
const REPLIES: [&str; 2] = ["n", "best_of"];
/// What is behind these makes no model write.
const READS: [&str; 9] = ["embeddings", "embedding", "rerank", "reranking", "score", "classify", "moderations", "audio", "images"];

impl Work {
    /// What the path below `/v1/` stands for.
    pub(super) fn of(path: &str) -> Self {
        let path = path.trim_start_matches("/v1/");
        if path.ends_with("completions") {
            Self::Completes
        } else if path.split('/').next().is_some_and(|first| READS.contains(&first)) {
            Self::Reads
        } else {
            Self::Other
        }
    }
}

impl Asked {
    /// Reads `body`. What is no JSON object is taken for one piece of media.
    pub(super) fn read(body: &[u8], work: Work) -> Self {
        let object = std::str::from_utf8(body).ok().and_then(Object::read);
        let prompt_tokens = if object.is_some() { estimate::prompt_tokens(&[body]) } else { estimate::MEDIA_TOKENS };
        let object = object.unwrap_or_default();
        let limits: Vec<_> = LIMITS.iter().filter_map(|name| Some((*name, serde_json::from_str(object.get(name)?).ok()))).collect();
        let of_each = REPLIES.iter().filter_map(|name| count(object.get(name)?)).max().unwrap_or(1).max(1);
        let replies = of_each.saturating_mul(prompts(&object));
        // One that cannot be read (-1 stands for no limit) leaves it open.
        let limit = limits.iter().map(|(_, limit)| *limit).collect::<Option<Vec<u64>>>().and_then(|limits| limits.into_iter().max());
        let repeated = ["model"].into_iter().chain(LIMITS).chain(REPLIES).find(|name| object.repeats(name));
        let max_tokens = limit.map(|limit| limit.saturating_mul(replies)).or((work == Work::Reads).then_some(0));
        Self { model: object.text("model").unwrap_or_default(), replies, prompt_tokens, max_tokens, limits, repeated, work }
    }

    /// The question whether it may be asked.
    pub(super) fn ask(&self) -> Ask<'_> {
        Ask { model: &self.model, prompt_tokens: self.prompt_tokens, max_tokens: self.max_tokens }
    }

    /// The fields that hold all replies together to `most` tokens, with what they must say. None where that is no less than was asked for,
    /// and where there is no such field.
    pub(super) fn held_to(&self, most: Option<u64>) -> Vec<(&'static str, u64)> {
        let Some(most) = most.filter(|most| self.max_tokens.is_none_or(|asked| *most < asked)) else { return Vec::new() };
        let of_each = (most / self.replies).max(1);
        match (&self.limits[..], self.work) {
            ([], Work::Completes) => vec![("max_tokens", of_each)],
            (limits, _) => limits.iter().map(|(name, limit)| (*name, limit.map_or(of_each, |limit| of_each.min(limit)))).collect(),
        }
    }
}

/// `body` with these `fields`.
pub(super) fn with_fields(body: &Bytes, fields: &[(&'static str, u64)]) -> Bytes {
    let object = std::str::from_utf8(body).ok().and_then(Object::read);
    let Some(mut object) = object.filter(|_| !fields.is_empty()) else { return body.clone() };
    for (name, value) in fields {
        object.set(name, value.to_string());
    }
    object.json().into()
}

/// A number of things, however it is written: some servers take `4.0` and `"4"` for 4.
fn count(json: &str) -> Option<u64> {
    let number: f64 = json.trim_matches('"').parse().ok()?;
    (number > 0.0).then(|| number.ceil().to_string().parse().unwrap_or(u64::MAX))
}

/// How many prompts there are: a text or a list of tokens is one, a list of those is several.
fn prompts(object: &Object<'_>) -> u64 {
    let prompts = object.get("prompt").and_then(|prompt| elements(prompt)).unwrap_or_default();
    let is_of_tokens = prompts.first().is_some_and(|first| first.starts_with(|c: char| c.is_ascii_digit()));
    if is_of_tokens { 1 } else { u64::try_from(prompts.len()).unwrap_or(u64::MAX).max(1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_written_is_read_from_the_top() {
        let check = |body: &str, path: &str, replies: u64, max_tokens: Option<u64>| {
            let asked = Asked::read(body.as_bytes(), Work::of(path));
            assert_eq!((asked.replies, asked.max_tokens), (replies, max_tokens), "{body}");
        };
        check(r#"{"prompt":"a","max_tokens":5}"#, "/v1/completions", 1, Some(5));
        check(r#"{"prompt":"a","max_tokens":5,"n":2,"best_of":3}"#, "/v1/completions", 3, Some(15));
        check(r#"{"prompt":["a","b"],"max_tokens":5,"n":2}"#, "/v1/completions", 4, Some(20));
        check(r#"{"prompt":[1,2,3],"n_predict":5}"#, "/v1/completions", 1, Some(5));
        check(r#"{"prompt":[[1,2],[3]],"n_predict":-1}"#, "/v1/completions", 2, None);
        check(r#"{"messages":[{"max_tokens":9}],"n":2,"max_tokens":4,"max_completion_tokens":5}"#, "/v1/chat/completions", 2, Some(10));
        check(r#"{"input":"a"}"#, "/v1/embeddings", 1, Some(0));
        check("no JSON", "/v1/audio/transcriptions", 1, Some(0));
        check(r#"{"x":1,"n":0}"#, "/v1/x", 1, None);
        check(r#"{"prompt":"a","max_tokens":5,"n":4.0}"#, "/v1/completions", 4, Some(20));
        check(r#"{"prompt":"a","max_tokens":5,"n":"4"}"#, "/v1/completions", 4, Some(20));
        check(r#"{"prompt":"a","max_tokens":16,"n_predict":-1}"#, "/v1/completions", 1, None);
        check(r#"{"prompt":"a","max_tokens":16,"n_predict":1e9}"#, "/v1/completions", 1, None);
        check(r#"{"prompt":"a","max_tokens":16,"n_predict":null}"#, "/v1/completions", 1, Some(16));
    }

    #[test]
    fn a_reply_is_held_by_the_fields_that_are_there() {
        let check = |body: &'static str, path: &str, most: u64, expected: &str| {
            let asked = Asked::read(body.as_bytes(), Work::of(path));
            let body = with_fields(&Bytes::from_static(body.as_bytes()), &asked.held_to(Some(most)));
            assert_eq!(body, expected);
        };
        check(r#"{ "n_predict":5 }"#, "/v1/completions", 5, r#"{ "n_predict":5 }"#);
        check(r#"{ "n_predict":5 , "x":1e2}"#, "/v1/completions", 4, r#"{"n_predict":4,"x":1e2}"#);
        check(
            r#"{"max_tokens":50,"max_completion_tokens":3,"n":2}"#,
            "/v1/chat/completions",
            20,
            r#"{"max_tokens":10,"max_completion_tokens":3,"n":2}"#,
        );
        check(r#"{"prompt":"a"}"#, "/v1/completions", 7, r#"{"prompt":"a","max_tokens":7}"#);
        check(r#"{"max_tokens":5,"n_predict":-1}"#, "/v1/completions", 7, r#"{"max_tokens":5,"n_predict":7}"#);
        check(r#"{"input":"a"}"#, "/v1/unknown", 7, r#"{"input":"a"}"#);
        check("no JSON", "/v1/completions", 7, "no JSON");
    }

    #[test]
    fn pictures_are_no_text() {
        let body = format!(r#"{{"input":"data:image/png;base64,{}"}}"#, "A".repeat(1 << 20));
        assert!(Asked::read(body.as_bytes(), Work::Reads).prompt_tokens < 2 * estimate::MEDIA_TOKENS);
    }
}
