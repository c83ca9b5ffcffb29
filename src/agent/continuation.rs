//! What the client does not see of a turn that it has a part in: kept until the client comes back with its results.
//!
//! The calls that such a turn shows have ids that name the record. A model's own ids repeat from one conversation to the next; an id of
//! ours is found again, and where nothing is kept under it any more, it tells so.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{approval::Asked, shelf::Shelf, transcript::Transcript};
use crate::chat::{Call, id};

/// What stands in the client's place of a run that went on behind its back.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Record {
    /// The turns before the one that the client sees a part of: a JSON array of messages.
    pub(super) before: Box<RawValue>,
    /// What the model said in that one, with all its calls.
    pub(super) assistant: Box<RawValue>,
    /// Its calls, in the model's order.
    pub(super) calls: Vec<Kept>,
}

/// One call of a kept turn.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Kept {
    /// The id that the model gave it.
    pub(super) id: String,
    /// Who answers it.
    pub(super) answer: Answer,
}

/// Who answers a call.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Answer {
    /// It was answered: the content of its tool message, as JSON.
    Hidden(String),
    /// The client does.
    Client,
    /// The client says whether it may be made.
    Asked(Box<Asked>),
}

/// The id of a call that belongs to a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark<'a> {
    /// The record's id.
    pub(super) record: &'a str,
    /// The call's place in it.
    pub(super) place: usize,
    /// Whether the client was asked for its approval.
    pub(super) is_asked: bool,
}

/// How marked ids begin. OpenAI's are `call_` and 24 letters and digits; these are no longer.
pub(super) const PREFIX: &str = "call_tg";
const RECORD_LENGTH: usize = 16;

/// The largest record that is kept: as long as a whole request may be by default. What is longer comes back in none.
const RECORD_BYTES_MAX: usize = 16 << 20;

/// An id for a record.
pub(super) fn new_record() -> String {
    id::mint("")
}

impl<'a> Mark<'a> {
    /// What `id` says, `None` when it is not one of ours.
    pub(super) fn read(id: &'a str) -> Option<Self> {
        let (record, place) = id.strip_prefix(PREFIX)?.split_once('_')?;
        let (place, is_asked) = place.strip_suffix('a').map_or((place, false), |place| (place, true));
        let is_record = record.len() == RECORD_LENGTH && record.bytes().all(|byte| byte.is_ascii_hexdigit());
        let place = place.parse().ok().filter(|_| is_record)?;
        Some(Self { record, place, is_asked })
    }

    /// The id.
    pub(super) fn id(self) -> String {
        let Self { record, place, is_asked } = self;
        format!("{PREFIX}{record}_{place}{}", if is_asked { "a" } else { "" })
    }
}

impl Record {
    /// The record of a turn that said `content` and made `calls`, each with who answers it, at the end of `transcript`.
    pub(super) fn new(transcript: Option<&Transcript>, assistant: String, calls: Vec<(Call, Answer)>) -> Option<Self> {
        let before = transcript.map_or_else(|| "[]".to_owned(), Transcript::hidden);
        Some(Self {
            before: RawValue::from_string(before).ok()?,
            assistant: RawValue::from_string(assistant).ok()?,
            calls: calls.into_iter().map(|(call, answer)| Kept { id: call.id, answer }).collect(),
        })
    }

    /// Keeps it as `record` for `ttl`. Whether it could be.
    pub(super) async fn save(&self, shelf: &Shelf, record: &str, ttl: std::time::Duration) -> bool {
        let Ok(kept) = serde_json::to_vec(self) else { return false };
        if kept.len() > RECORD_BYTES_MAX {
            tracing::warn!(bytes = kept.len(), "what the client does not see of a turn is too long to be kept");
            return false;
        }
        shelf.put(&place(record), kept.into(), ttl).await;
        true
    }

    /// The one that is kept as `record`. It is kept for `ttl` from now on, unless nothing is to be touched.
    pub(super) async fn load(shelf: &Shelf, record: &str, ttl: Option<std::time::Duration>) -> Option<Self> {
        let place = place(record);
        let kept = shelf.get(&place).await?;
        let read = serde_json::from_slice(&kept).ok();
        if let Some(ttl) = ttl {
            shelf.put(&place, kept, ttl).await;
        }
        read
    }
}

fn place(record: &str) -> String {
    format!("continuation:{record}")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn an_id_says_whose_it_is() {
        let check = |id: &str, expected: Option<(&str, usize, bool)>| {
            let read = Mark::read(id);
            assert_eq!(read.map(|mark| (mark.record, mark.place, mark.is_asked)), expected, "{id}");
            read.inspect(|mark| assert_eq!(mark.id(), id));
        };
        check("call_tg0123456789abcdef_0", Some(("0123456789abcdef", 0, false)));
        check("call_tg0123456789abcdef_12a", Some(("0123456789abcdef", 12, true)));
        check("call_tg0123456789abcdef_", None);
        check("call_tg0123456789abcdef_x", None);
        check("call_tg0123456789abcde_0", None);
        check("call_tg0123456789abcdeg_0", None);
        check("call_1", None);
        check("", None);
    }

    #[tokio::test]
    async fn a_record_is_kept_as_it_was() {
        let shelf = Shelf::alone(1 << 20);
        let call = Call { id: "call_1".to_owned(), name: "f".to_owned(), arguments: "{}".to_owned() };
        let calls = vec![(call.clone(), Answer::Hidden("\"r\"".to_owned())), (call, Answer::Client)];
        let record = Record::new(None, "{ \"role\":\"assistant\"}".to_owned(), calls).unwrap();
        let id = new_record();
        assert!(record.save(&shelf, &id, MINUTE).await);
        let read = Record::load(&shelf, &id, Some(MINUTE)).await.unwrap();
        assert_eq!((read.before.get(), read.assistant.get()), ("[]", "{ \"role\":\"assistant\"}"));
        assert!(matches!(&read.calls[..], [Kept { answer: Answer::Hidden(_), .. }, Kept { id, answer: Answer::Client }] if id == "call_1"));
        assert!(Record::load(&shelf, &new_record(), None).await.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_record_that_is_read_lives_on() {
        let shelf = Shelf::alone(1 << 20);
        let record = Record::new(None, "{}".to_owned(), Vec::new()).unwrap();
        record.save(&shelf, "a", MINUTE).await;
        tokio::time::advance(MINUTE / 2).await;
        assert!(Record::load(&shelf, "a", Some(MINUTE)).await.is_some());
        tokio::time::advance(MINUTE * 3 / 4).await;
        assert!(Record::load(&shelf, "a", None).await.is_some(), "a rehearsal reads it and leaves it");
        tokio::time::advance(MINUTE / 2).await;
        assert!(Record::load(&shelf, "a", None).await.is_none());
    }

    #[tokio::test]
    async fn a_record_that_is_too_long_is_not_kept() {
        let shelf = Shelf::alone(1 << 30);
        let record = Record::new(None, format!("\"{}\"", "x".repeat(RECORD_BYTES_MAX)), Vec::new()).unwrap();
        assert!(!record.save(&shelf, "a", MINUTE).await);
        assert!(Record::load(&shelf, "a", None).await.is_none());
    }
}
