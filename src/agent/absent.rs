//! Words for the model about MCP servers that were asked for and have no tools to offer now: it cannot know that they exist.

use bytes::Bytes;
use serde_json::{Value, json, value::RawValue};

use super::transcript;
use crate::{budget::access::Access, chat::Servers, tools::Toolbox};

/// What is wrong with the servers that `servers` names or that the user's last message speaks of, one sentence each. A server whose tools
/// `access` does not allow does not exist.
pub(super) fn sentences(toolbox: &Toolbox, access: &Access, servers: &Servers, messages: &[u8]) -> Vec<String> {
    let mut absent = toolbox.without_tools();
    absent.retain(|health| access.reaches(&health.server));
    let is_named = |id: &str| matches!(servers, Servers::Only(ids) if ids.iter().any(|known| known == id));
    if absent.is_empty() || matches!(servers, Servers::Off) {
        return Vec::new();
    }
    let ids: Vec<&str> = absent.iter().map(|health| health.server.as_str()).collect();
    let spoken_of = crate::tools::selector::mentioned(&transcript::last_words(messages), &ids);
    let is_meant = |id: &str| match servers {
        Servers::Only(_) => is_named(id),
        Servers::Attached | Servers::Off => spoken_of.contains(&id),
    };
    let sentence = |health: &crate::tools::Health| {
        let why = health.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
        format!("The MCP server {} has no tools to offer now ({}{why}).", health.server, health.state.as_str())
    };
    absent.iter().filter(|health| is_meant(&health.server)).map(sentence).collect()
}

/// `messages` with `sentences` at the end of what the user said last. `None` where the user said nothing.
pub(super) fn told(messages: &[u8], sentences: &[String]) -> Option<Bytes> {
    let all: Vec<&RawValue> = serde_json::from_slice(messages).ok()?;
    let is_users = |raw: &&RawValue| {
        let message: Option<Value> = serde_json::from_str(raw.get()).ok();
        message.is_some_and(|message| message.get("role").is_some_and(|role| role == "user"))
    };
    let at = all.iter().rposition(is_users)?;
    let mut message: Value = serde_json::from_str(all.get(at)?.get()).ok()?;
    let told = format!("[{}]", sentences.join(" "));
    match message.get_mut("content")? {
        Value::String(text) => text.push_str(&format!("\n\n{told}")),
        Value::Array(parts) => parts.push(json!({"type": "text", "text": told})),
        _ => return None,
    }
    let message = message.to_string();
    let texts = all.iter().enumerate().map(|(index, raw)| if index == at { message.as_str() } else { raw.get() });
    Some(format!("[{}]", texts.collect::<Vec<_>>().join(",")).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_user_said_last_ends_in_it() {
        let check = |messages: &str, expected: Option<&str>| {
            assert_eq!(told(messages.as_bytes(), &["Gone.".to_owned()]).as_deref(), expected.map(str::as_bytes), "{messages}");
        };
        check(
            r#"[{"role":"user","content":"a"},{"role":"assistant","content":"b" }]"#,
            Some("[{\"role\":\"user\",\"content\":\"a\\n\\n[Gone.]\"},{\"role\":\"assistant\",\"content\":\"b\" }]"),
        );
        check(r#"[{"role":"user","content":[]}]"#, Some(r#"[{"role":"user","content":[{"type":"text","text":"[Gone.]"}]}]"#));
        check(r#"[{"role":"system","content":"a"}]"#, None);
    }
}
