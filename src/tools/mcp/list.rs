//! The list of a server's tools, page after page.

use std::{borrow::Cow, collections::HashSet, sync::Arc};

use rmcp::model::{ClientRequest, ListToolsRequest, ListToolsResult, PaginatedRequestParams, ServerResult, Tool};
use serde::Deserialize;
use serde_json::Value;

use super::{Connection, Error, output::clipped};
use crate::tools::definition::{self, Annotations, Definition};

/// More pages than this of one list are a server that does not end.
const PAGES_MAX: usize = 256;
/// More tools than this no model chooses from.
const TOOLS_MAX: usize = 4096;
/// No tool has a longer name: the names of all are held and compared for every request.
const NAME_BYTES_MAX: usize = 256;
/// How much of a name that is no good is logged.
const NAME_LOGGED_BYTES_MAX: usize = 64;
/// What all definitions of a server may take: 8 KiB each.
const DEFINITIONS_BYTES_MAX: usize = 32 << 20;

/// All tools of the server. A name that comes twice is the first one's.
pub(super) async fn all(connection: &Connection) -> Result<Vec<Definition>, Error> {
    let server = &connection.0.server;
    if connection.0.peer.peer_info().is_some_and(|info| info.capabilities.tools.is_none()) {
        return Ok(Vec::new());
    }
    let mut list = List::default();
    let mut cursors = HashSet::new();
    let mut cursor = None;
    for _ in 0..PAGES_MAX {
        // Past rmcp's own cache: whoever asks here has a reason.
        let params = PaginatedRequestParams::default().with_cursor(cursor);
        let request = ListToolsRequest { method: Default::default(), params: Some(params), extensions: Default::default() };
        let page = read(server, connection.ask(ClientRequest::ListToolsRequest(request), None).await?)?;
        let mut tools = page.tools.into_iter().filter(|tool| has_short_name(server, tool));
        if !tools.all(|tool| list.add(described(server, tool))) {
            tracing::warn!(%server, kept = list.tools.len(), "MCP server has too many tools, the rest is left out");
            return Ok(list.tools);
        }
        let Some(next) = page.next_cursor else { return Ok(list.tools) };
        if !cursors.insert(next.clone()) {
            tracing::warn!(%server, "the pages of the MCP server's list of tools go round in circles");
            return Ok(list.tools);
        }
        cursor = Some(next);
    }
    Err(Error::Protocol(format!("its list of tools has more than {PAGES_MAX} pages")))
}

#[derive(Default)]
struct List {
    tools: Vec<Definition>,
    names: HashSet<String>,
    bytes: usize,
}

impl List {
    /// Whether there was room for it.
    fn add(&mut self, tool: Definition) -> bool {
        let bytes = self.bytes + tool.name.len() + tool.description.len() + tool.schema.len();
        if self.tools.len() == TOOLS_MAX || bytes > DEFINITIONS_BYTES_MAX {
            return false;
        }
        if self.names.insert(tool.name.clone()) {
            self.bytes = bytes;
            self.tools.push(tool);
        }
        true
    }
}

/// One page. A tool that is not as it should be does not hide the others.
fn read(server: &str, page: ServerResult) -> Result<ListToolsResult, Error> {
    let page = match page {
        ServerResult::ListToolsResult(page) => return Ok(page),
        ServerResult::CustomResult(page) => page.0,
        _ => return Err(Error::Protocol("what it answered is no list of tools".to_owned())),
    };
    let Ok(page) = serde_json::from_value::<Page>(page) else {
        return Err(Error::Protocol("what it answered is no list of tools".to_owned()));
    };
    let sound = |tool: Value| match Tool::deserialize(&tool) {
        Ok(tool) => Some(tool),
        Err(error) => {
            let name = tool.get("name").and_then(Value::as_str).map(|name| clipped(name, NAME_LOGGED_BYTES_MAX));
            tracing::warn!(server, name, %error, "a tool of the MCP server is not as it should be and is left out");
            None
        }
    };
    let mut list = ListToolsResult::with_all_items(page.tools.into_iter().filter_map(sound).collect());
    list.next_cursor = page.next_cursor;
    Ok(list)
}

/// Whether the name of `tool` is one that can be held.
fn has_short_name(server: &str, tool: &Tool) -> bool {
    let bytes = tool.name.len();
    if bytes > NAME_BYTES_MAX {
        let name = clipped(&tool.name, NAME_LOGGED_BYTES_MAX);
        tracing::warn!(server, name, bytes, max = NAME_BYTES_MAX, "a tool of the MCP server has too long a name and is left out");
    }
    bytes <= NAME_BYTES_MAX
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page {
    tools: Vec<Value>,
    next_cursor: Option<String>,
}

fn described(server: &Arc<str>, tool: Tool) -> Definition {
    let annotations = tool.annotations.as_ref().map_or_else(Annotations::default, |said| Annotations {
        read_only: said.read_only_hint == Some(true),
        destructive: said.destructive_hint != Some(false),
        idempotent: said.idempotent_hint == Some(true),
        open_world: said.open_world_hint != Some(false),
    });
    Definition {
        server: Arc::clone(server),
        name: tool.name.into_owned(),
        description: tool.description.or(tool.title.map(Cow::Owned)).unwrap_or_default().into_owned(),
        schema: definition::schema(Arc::unwrap_or_clone(tool.input_schema)),
        annotations,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn page(page: Value) -> Result<Vec<String>, Error> {
        let result = serde_json::from_value(page).unwrap();
        read("test", result).map(|page| page.tools.into_iter().map(|tool| tool.name.into_owned()).collect())
    }

    #[test]
    fn a_broken_tool_does_not_hide_the_others() {
        let sound = json!({"name": "a", "inputSchema": {"type": "object"}});
        assert_eq!(page(json!({"tools": [sound]})).unwrap(), ["a"]);
        assert_eq!(page(json!({"tools": [{"name": "b"}, sound, {"name": 1, "inputSchema": {}}, 5]})).unwrap(), ["a"]);
        assert!(page(json!({"tools": 5})).is_err());
        assert!(page(json!({"content": []})).is_err());
    }

    #[test]
    fn a_tool_with_an_endless_name_is_left_out() {
        let tool = |bytes: usize| Tool::new("n".repeat(bytes), "", serde_json::Map::new());
        assert!(has_short_name("test", &tool(NAME_BYTES_MAX)));
        assert!(!has_short_name("test", &tool(NAME_BYTES_MAX + 1)));
    }

    #[test]
    fn a_list_has_an_end_and_each_name_once() {
        let tool = |name: &str, bytes: usize| Definition {
            server: "s".into(),
            name: name.to_owned(),
            description: String::new(),
            schema: vec![b' '; bytes].into(),
            annotations: Annotations::default(),
        };
        let mut list = List::default();
        assert!(list.add(tool("a", 1)) && list.add(tool("a", 2)) && list.add(tool("b", 3)));
        assert_eq!(list.tools.iter().map(|tool| tool.schema.len()).collect::<Vec<_>>(), [1, 3]);
        assert!(!list.add(tool("c", DEFINITIONS_BYTES_MAX)));
    }
}
