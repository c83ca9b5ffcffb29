//! One upstream reply read to its end, within a limit.

use super::Error;
use crate::{
    backend::Events,
    chat::{Call, Event, Reply, id},
};
use futures_util::StreamExt;
use std::collections::HashSet;

/// White space at the end of a text after which it is asked whether there is enough. Deep indentation stays below it.
const WHITE_SPACE_MAX: usize = 256;

/// Reads `events` to their end, or until nothing but white space comes and what was said is `enough`, which stops the model; what it costs
/// is not known then. The reply's calls have distinct ids. Fails with the first error among the events, or when the reply exceeds
/// `bytes_max`.
pub(super) async fn reply(mut events: Events, bytes_max: usize, enough: impl Fn(&Reply) -> bool) -> Result<Reply, Error> {
    let mut reply = Reply::default();
    let mut room = bytes_max;
    let mut ask_at = WHITE_SPACE_MAX;
    while let Some(event) = events.next().await {
        let event = event?;
        room = room.checked_sub(size(&event)).ok_or(Error::ReplyTooLong(bytes_max))?;
        reply.add(event);
        let padding = reply.content.len() - reply.content.trim_end().len();
        if padding < WHITE_SPACE_MAX {
            ask_at = WHITE_SPACE_MAX;
        } else if padding >= ask_at {
            if enough(&reply) {
                tracing::debug!("reply ended: nothing but white space comes");
                break;
            }
            // Asking reads the whole text: twice as much white space must come before the next time.
            ask_at = padding * 2;
        }
    }
    give_ids(&mut reply.calls);
    Ok(reply)
}

fn size(event: &Event) -> usize {
    match event {
        Event::Reasoning(text) | Event::Content(text) | Event::Refusal(text) => text.len(),
        Event::CallStarted(call) => size_of::<Call>() + call.id.len() + call.name.len() + call.arguments.len(),
        Event::CallArguments { fragment, .. } => fragment.len(),
        Event::Logprobs(raw) => raw.get().len(),
        Event::Started(_) | Event::Finished(_) | Event::Usage(_) | Event::Settled(_) => 0,
    }
}

/// A call without an id, or with that of an earlier one, gets its own: a client answers calls by id.
fn give_ids(calls: &mut [Call]) {
    let mut seen = HashSet::new();
    for call in calls {
        if call.id.is_empty() || seen.contains(&call.id) {
            call.id = id::mint("call_");
        }
        seen.insert(call.id.clone());
    }
}
