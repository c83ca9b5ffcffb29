//! Calls about which the client is asked, and what it answers.
//!
//! The client sees such a call as one of a tool of its own, named for the server and the tool. It answers with a tool result: `approve` or
//! `deny`. What is made then is the call that was kept, never what comes back from the client, and it is made once: whoever takes the
//! approval out of the store makes it, and what came of it is remembered for requests that tell the same again.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::shelf::Shelf;
use crate::{
    chat::Call,
    tools::{Chosen, catalog},
};

/// A call that waits for an approval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Asked {
    /// The id of the server that serves it.
    pub(super) server: String,
    /// The tool, as the server calls it.
    pub(super) tool: String,
    /// The tool, as the model calls it.
    pub(super) name: String,
    /// The hash of the tool's definition: what was approved is that tool and no other.
    pub(super) definition: String,
    /// The arguments.
    pub(super) arguments: Map<String, Value>,
}

/// What came back from the client about one of them.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Decision {
    /// The id of the call that the client saw.
    pub(super) id: String,
    /// The id that the model gave it.
    pub(super) call_id: String,
    /// The call.
    pub(super) asked: Asked,
    /// What the client said.
    pub(super) words: String,
}

/// What the client wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The call may be made.
    Approve,
    /// It may not, and the model is told this.
    Refuse(String),
}

/// How far an approved call is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum State {
    /// It is being made.
    Running,
    /// It was made: the content of its tool message, as JSON.
    Over(String),
}

/// What the model is told of an approval that nobody acted upon when it came.
pub(super) const IS_OVER: &str = "Not called: the approval is over. Call the tool again if it is still wanted.";
/// What the model is told of an approval in a request that may not use the tools.
pub(super) const IS_OFF: &str = "Not called: these tools are switched off.";
/// What the model is told of an approved call of which nothing is kept, or that another request makes without coming to an end.
pub(super) const IS_UNKNOWN: &str =
    "The user approved this call. It is not known whether it was made and what came of it: look before calling the tool again.";

/// What is recorded of a call that the client did not approve. Its words are the model's alone.
pub(super) const NOT_APPROVED: &str = "Not called: the user did not approve it.";

/// The longest legal name of a function.
const NAME_MAX: usize = 64;
/// How long another request is waited for that makes the same call: as long as a call takes that is no hanging one.
const ELSEWHERE_MAX: Duration = Duration::from_secs(60);
/// How often it is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// So long may stand between the taking of an approval and the note that its call is made.
const UNNOTED_MAX: Duration = Duration::from_secs(1);

impl Asked {
    /// The call that was `chosen`.
    pub(super) fn of(chosen: &Chosen) -> Self {
        let definition = &chosen.selection.definition;
        Self {
            server: definition.server.to_string(),
            tool: definition.name.clone(),
            name: chosen.proposal.entry.name.clone(),
            definition: definition.hash(),
            arguments: chosen.proposal.arguments.clone(),
        }
    }

    /// The call as the client sees it. It has none of the names that are taken: the client would run its own tool.
    pub(super) fn shown(&self, id: String, is_taken: impl Fn(&str) -> bool) -> Call {
        let arguments = Value::Object(self.arguments.clone()).to_string();
        let name = catalog::qualified(&self.server, &self.tool);
        let others = (2_u32..).map(|n| {
            let suffix = format!("_{n}");
            // These names are ASCII.
            let kept: String = name.chars().take(NAME_MAX - suffix.len()).collect();
            kept + &suffix
        });
        let name = std::iter::once(name.clone()).chain(others).find(|name| !is_taken(name)).unwrap_or_default();
        Call { id, name, arguments }
    }
}

/// What `words` say. Whatever is no approval is a refusal.
pub(super) fn verdict(words: &str) -> Verdict {
    let words = words.trim();
    if words.eq_ignore_ascii_case("approve") {
        return Verdict::Approve;
    }
    Verdict::Refuse(if words.is_empty() || words.eq_ignore_ascii_case("deny") {
        "Not called: the user denied it.".to_owned()
    } else {
        format!("Not called: the user did not approve it, and said: {words}")
    })
}

/// Opens an approval for the call that the client sees as `id`.
pub(super) async fn open(shelf: &Shelf, id: &str, ttl: Duration) {
    shelf.put(&token(id), "1".into(), ttl).await;
}

/// Takes the approval. Of several who try it at once one succeeds.
pub(super) async fn take(shelf: &Shelf, id: &str) -> bool {
    shelf.take(&token(id)).await.is_some()
}

/// Whether nobody took the approval yet.
pub(super) async fn is_open(shelf: &Shelf, id: &str) -> bool {
    shelf.get(&token(id)).await.is_some()
}

/// Notes how far the call is.
pub(super) async fn note(shelf: &Shelf, id: &str, state: &State, ttl: Duration) {
    shelf.put(&place(id), json!(state).to_string().into(), ttl).await;
}

/// How far the call is, `None` when nothing is known.
pub(super) async fn state(shelf: &Shelf, id: &str) -> Option<State> {
    let kept = shelf.get(&place(id)).await?;
    serde_json::from_slice(&kept).ok()
}

/// Waits until `by` for what comes of a call that another request makes. Returns the content of its tool message.
pub(super) async fn elsewhere(shelf: &Shelf, id: &str, by: Instant) -> String {
    let begun = Instant::now();
    let by = by.min(begun + ELSEWHERE_MAX);
    loop {
        match state(shelf, id).await {
            Some(State::Over(content)) => return content,
            Some(State::Running) if Instant::now() >= by => return json!(IS_UNKNOWN).to_string(),
            None if Instant::now() >= by.min(begun + UNNOTED_MAX) => return json!(IS_UNKNOWN).to_string(),
            Some(State::Running) | None => tokio::time::sleep(LOOK_EVERY).await,
        }
    }
}

fn token(id: &str) -> String {
    format!("approval:{id}")
}

fn place(id: &str) -> String {
    format!("approved:{id}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn empty() -> Shelf {
        Shelf::alone(1 << 20)
    }

    #[test]
    fn only_the_word_approves() {
        for words in ["approve", " Approve\n", "APPROVE"] {
            assert_eq!(verdict(words), Verdict::Approve, "{words}");
        }
        for words in ["deny", "", "yes", "approved", "approve it", "\"approve\"", "do not approve", "Error: approve"] {
            let Verdict::Refuse(told) = verdict(words) else { panic!("{words}") };
            assert!(told.starts_with("Not called:"), "{told}");
        }
        assert_eq!(verdict("use /tmp"), Verdict::Refuse("Not called: the user did not approve it, and said: use /tmp".to_owned()));
    }

    #[test]
    fn a_call_is_never_shown_under_the_name_of_a_tool_of_the_client() {
        let asked = |tool: &str| Asked {
            server: "fs".to_owned(),
            tool: tool.to_owned(),
            name: tool.to_owned(),
            definition: String::new(),
            arguments: Map::new(),
        };
        let name = |asked: &Asked, taken: &[&str]| asked.shown(String::new(), |name| taken.contains(&name)).name;
        assert_eq!(name(&asked("rm"), &["rm"]), "fs__rm");
        assert_eq!(name(&asked("rm"), &["fs__rm"]), "fs__rm_2");
        assert_eq!(name(&asked("rm"), &["fs__rm", "fs__rm_2"]), "fs__rm_3");
        let long = asked(&"x".repeat(60));
        let whole = name(&long, &[]);
        let other = name(&long, &[&whole]);
        assert_eq!((whole.len(), other.len()), (64, 64));
        assert_ne!(whole, other);
    }

    #[tokio::test]
    async fn an_approval_is_taken_once() {
        let shelf = empty();
        open(&shelf, "a", MINUTE).await;
        assert_eq!((take(&shelf, "a").await, take(&shelf, "a").await), (true, false));
        assert!(!take(&shelf, "b").await);
    }

    #[tokio::test(start_paused = true)]
    async fn who_comes_second_waits_for_the_first() {
        let shelf = empty();
        let by = Instant::now() + MINUTE;
        note(&shelf, "a", &State::Running, MINUTE).await;
        let first = async {
            tokio::time::sleep(MINUTE / 4).await;
            note(&shelf, "a", &State::Over("\"done\"".to_owned()), MINUTE).await;
        };
        let (waited, ()) = tokio::join!(elsewhere(&shelf, "a", by), first);
        assert_eq!(waited, "\"done\"");
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_for_another_has_an_end() {
        let shelf = empty();
        let begun = Instant::now();
        assert_eq!(elsewhere(&shelf, "a", begun + MINUTE).await, json!(IS_UNKNOWN).to_string());
        assert!(begun.elapsed() < 2 * UNNOTED_MAX);
        note(&shelf, "a", &State::Running, 10 * MINUTE).await;
        assert_eq!(elsewhere(&shelf, "a", begun + 5 * MINUTE).await, json!(IS_UNKNOWN).to_string());
        assert!(begun.elapsed() < 2 * ELSEWHERE_MAX);
    }
}
