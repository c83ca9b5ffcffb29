//! A scripted MCP server with one tool, `get_weather`, which answers at once: the messages. [`super`] serves them as streamable HTTP
//! under `/mcp`, the binary `mocktool` over standard input and output.

use serde_json::{Value, json};

/// What is said to `message`; nothing to one that wants no answer.
pub fn answer(message: &Value) -> Option<Value> {
    let id = message.get("id").filter(|id| !id.is_null())?;
    let result = match message["method"].as_str()? {
        "initialize" => json!({
            "protocolVersion": VERSION,
            "capabilities": {"tools": {"listChanged": true}},
            "serverInfo": {"name": "mock", "version": "1"},
        }),
        "ping" => json!({}),
        "tools/list" => json!({"tools": [{
            "name": "get_weather",
            "description": "Weather of a city",
            "inputSchema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
            "annotations": {"readOnlyHint": true},
        }]}),
        "tools/call" => json!({"content": [{"type": "text", "text": WEATHER}]}),
        _ => return Some(json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "no such method"}})),
    };
    Some(json!({"jsonrpc": "2.0", "id": id, "result": result}))
}

/// What the tool says.
pub const WEATHER: &str = "18 degrees and sunny";

const VERSION: &str = "2025-11-25";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_wants_no_answer_gets_none() {
        assert_eq!(answer(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})), None);
        let answered = |method: &str| answer(&json!({"jsonrpc": "2.0", "id": 7, "method": method})).unwrap();
        assert_eq!(answered("tools/call")["result"]["content"][0]["text"], WEATHER);
        assert_eq!(answered("server/discover")["error"]["code"], -32601);
    }
}
