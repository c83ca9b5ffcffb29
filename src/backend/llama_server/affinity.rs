//! Which slot a conversation keeps to: one that follows from how it begins, so that nothing has to be remembered.

use std::hash::{DefaultHasher, Hash, Hasher};

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::wire::openai::Scalar;

/// The slot, of so many, of the conversation in `messages`, a JSON array. `None` where there is nothing to choose.
///
/// A conversation is told by its messages up to the user's first: they stay the same in all its turns, and those before it alone are the
/// same in many conversations.
pub(super) fn slot(messages: &[u8], slots: u64) -> Option<u64> {
    #[derive(Deserialize)]
    struct Message<'a> {
        #[serde(borrow, default)]
        role: Scalar<'a>,
    }
    if slots < 2 {
        return None;
    }
    let messages: Vec<&RawValue> = serde_json::from_slice(messages).ok()?;
    let is_users = |message: &&RawValue| serde_json::from_str(message.get()).is_ok_and(|Message { role }| role.is("user"));
    let first = messages.iter().position(is_users)?;
    let mut hasher = DefaultHasher::new();
    messages.iter().take(first + 1).for_each(|message| message.get().hash(&mut hasher));
    Some(hasher.finish() % slots)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYSTEM: &str = r#"{"role":"system","content":"be kind"}"#;

    #[test]
    fn a_conversation_keeps_its_slot_as_it_grows() {
        let begin = format!(r#"[{SYSTEM},{{"role":"user","content":"hi"}}"#);
        let grown = format!(r#"{begin},{{"role":"assistant","content":"hello"}},{{"role":"user","content":"bye"}}]"#);
        assert_eq!(slot(format!("{begin}]").as_bytes(), 7), slot(grown.as_bytes(), 7));
        assert!(slot(grown.as_bytes(), 7).is_some());
    }

    #[test]
    fn conversations_spread_over_all_slots() {
        let of = |n: usize| slot(format!(r#"[{SYSTEM},{{"role":"user","content":"question {n}"}}]"#).as_bytes(), 4).unwrap();
        let mut hits = [0; 4];
        (0..400).for_each(|n| hits[usize::try_from(of(n)).unwrap()] += 1);
        assert!(hits.iter().all(|hits| *hits > 50), "{hits:?}");
    }

    #[test]
    fn where_there_is_no_choice_none_is_made() {
        let user = br#"[{"role":"user","content":"hi"}]"#;
        for (messages, slots) in [(&user[..], 1), (user, 0), (b"[]", 4), (br#"[{"role":"system"}]"#, 4), (b"{", 4), (b"[3]", 4)] {
            assert_eq!(slot(messages, slots), None);
        }
    }
}
