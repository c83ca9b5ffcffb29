//! Calls: guarded as those of a chat completion are, and given back in the form of the client's tool.

use serde_json::{Value, json};
use toolgate::inference::{ToolArguments, history::Replay};

use super::{calls, fold::fold, question, question_with, respond, stream, texts};
use crate::harness::{Proxy, Reply, Upstream, paris, proxy_before};

#[tokio::test]
async fn a_call_is_an_item_with_an_id_of_its_own() {
    for streamed in [false, true] {
        let (proxy, upstream) = proxy_before([paris()]).await;
        let response = respond(&proxy, &question_with(json!({"stream": streamed}))).await;
        assert_eq!(calls(&response), [json!(["get_weather", r#"{"city":"Paris"}"#])]);
        let item = &response["output"][0];
        assert_eq!((&item["type"], &item["call_id"], &item["status"]), (&json!("function_call"), &json!("call_1"), &json!("completed")));
        assert!(item["id"].as_str().unwrap().starts_with("fc_"));
        assert_eq!(response["usage"]["total_tokens"], 15);
        let sent = upstream.only_request().json();
        assert_eq!(sent["tools"][0]["function"]["name"], "get_weather");
        assert_eq!(sent["messages"], json!([{"role": "user", "content": "What is the weather in Paris?"}]));
    }
}

#[tokio::test]
async fn a_call_written_as_text_is_read() {
    let text = r#"<tool_call>{"name": "get_weather", "arguments": {"city": "Paris"}}</tool_call>"#;
    let (proxy, _upstream) = proxy_before([Reply::text(text)]).await;
    let response = fold(&stream(&proxy, &question()).await.body);
    assert_eq!(calls(&response), [json!(["get_weather", r#"{"city": "Paris"}"#])]);
    assert_eq!(texts(&response), "");
}

#[tokio::test]
async fn wrong_arguments_are_corrected_unseen() {
    let (proxy, upstream) = proxy_before([Reply::call("get_weather", r#"{"town":"Paris"}"#), paris()]).await;
    let answer = stream(&proxy, &question()).await;
    assert_eq!((answer.outcome(), upstream.calls()), ((200, "nudged", "2"), 2));
    assert!(!answer.text().contains("town"));
    assert_eq!(calls(&fold(&answer.body)), [json!(["get_weather", r#"{"city":"Paris"}"#])]);
}

#[tokio::test]
async fn several_calls_are_several_items() {
    for streamed in [false, true] {
        let reply = Reply::calls(&[("get_weather", r#"{"city":"Paris"}"#), ("add", r#"{"a":1,"b":2}"#)]);
        let (proxy, _upstream) = proxy_before([reply]).await;
        let response = respond(&proxy, &question_with(json!({"stream": streamed}))).await;
        assert_eq!(calls(&response), [json!(["get_weather", r#"{"city":"Paris"}"#]), json!(["add", r#"{"a":1,"b":2}"#])]);
        assert_eq!(response["status"], "completed");
    }
}

#[tokio::test]
async fn a_custom_tool_gets_its_input_as_it_is() {
    let tools = json!([{"type": "custom", "name": "apply_patch", "description": "Edits files."}]);
    for streamed in [false, true] {
        let (proxy, upstream) = proxy_before([Reply::call("apply_patch", r#"{"input":"*** Begin \"x\"\n+é"}"#)]).await;
        let response = respond(&proxy, &question_with(json!({"stream": streamed, "tools": tools}))).await;
        let item = &response["output"][0];
        assert_eq!((&item["type"], &item["name"]), (&json!("custom_tool_call"), &json!("apply_patch")));
        assert_eq!(item["input"], "*** Begin \"x\"\n+é");
        let seen = upstream.only_request().json();
        assert_eq!(seen["tools"][0]["function"]["parameters"]["required"], json!(["input"]));
    }
}

#[tokio::test]
async fn a_custom_tool_without_input_is_corrected() {
    let tools = json!([{"type": "custom", "name": "apply_patch"}]);
    let (proxy, upstream) =
        proxy_before([Reply::call("apply_patch", r#"{"patch":"x"}"#), Reply::call("apply_patch", r#"{"input":"x"}"#)]).await;
    let response = respond(&proxy, &question_with(json!({"tools": tools}))).await;
    assert_eq!((&response["output"][0]["input"], upstream.calls()), (&json!("x"), 2));
}

#[tokio::test]
async fn a_call_of_a_namespace_names_it() {
    let inner = |name: &str| json!({"type": "function", "name": name, "parameters": {"type": "object"}});
    let tools = json!([
        {"type": "namespace", "name": "agents", "description": "d", "tools": [inner("spawn"), inner("wait")]},
        {"type": "namespace", "name": "mcp__git__", "description": "d", "tools": [inner("wait")]},
        {"type": "web_search"},
    ]);
    let replies = [Reply::calls(&[("spawn", "{}"), ("agents__wait", "{}"), ("mcp__git__wait", "{}")])];
    let (proxy, upstream) = proxy_before(replies).await;
    let response = respond(&proxy, &question_with(json!({"tools": tools}))).await;
    let named: Vec<_> = response["output"].as_array().unwrap().iter().map(|item| json!([item["namespace"], item["name"]])).collect();
    assert_eq!(named, [json!(["agents", "spawn"]), json!(["agents", "wait"]), json!(["mcp__git__", "wait"])]);
    let seen = upstream.only_request().json();
    let seen: Vec<_> = seen["tools"].as_array().unwrap().iter().map(|tool| &tool["function"]["name"]).collect();
    assert_eq!(seen, ["spawn", "agents__wait", "mcp__git__wait", "respond"]);
}

#[tokio::test]
async fn a_local_shell_gets_an_action() {
    let (proxy, _upstream) = proxy_before([Reply::call("local_shell", r#"{"command":["ls","-l"]}"#)]).await;
    let response = fold(&stream(&proxy, &question_with(json!({"tools": [{"type": "local_shell"}]}))).await.body);
    let item = &response["output"][0];
    assert_eq!(
        (&item["type"], &item["action"]),
        (&json!("local_shell_call"), &json!({"type": "exec", "command": ["ls", "-l"], "env": {}}))
    );
}

#[tokio::test]
async fn the_history_of_a_task_goes_up_as_one_turn() {
    let upstream = Upstream::saying([Reply::call("respond", r#"{"message":"18 degrees."}"#)]).await;
    let proxy = Proxy::start_with(&upstream, |config| config.inference.reasoning_replay = Replay::KeepLast).await;
    let input = json!([
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Paris?"}]},
        {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "I look it up."}]},
        {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "get_weather", "arguments": "{\"city\":\"Paris\"}", "status": "completed"},
        {"type": "function_call_output", "call_id": "call_1", "output": "18"},
    ]);
    let response = respond(&proxy, &question_with(json!({"input": input, "instructions": "Be short."}))).await;
    assert_eq!(texts(&response), "18 degrees.");
    let call = json!({"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": "{\"city\":\"Paris\"}"}});
    assert_eq!(
        upstream.only_request().json()["messages"],
        json!([
            {"role": "system", "content": "Be short."},
            {"role": "user", "content": "Paris?"},
            {"role": "assistant", "content": "", "reasoning_content": "I look it up.", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "call_1", "content": "18"},
        ])
    );
}

#[tokio::test]
async fn a_named_tool_is_the_only_one_offered() {
    let (proxy, upstream) = proxy_before([Reply::call("add", r#"{"a":1,"b":2}"#)]).await;
    let choice = json!({"type": "function", "name": "add"});
    let response = respond(&proxy, &question_with(json!({"tool_choice": choice}))).await;
    assert_eq!((calls(&response).len(), &response["tool_choice"]), (1, &choice));
    assert_eq!(upstream.only_request().json()["tools"].as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn calls_that_are_shown_as_they_come_are_done_when_they_are_certain() {
    let upstream =
        Upstream::saying([Reply::calls(&[("get_weather", r#"{"city":"Paris"}"#), ("add", r#"{"a":1,"b":2}"#)]).in_tokens_of(3)]).await;
    let proxy = Proxy::start_with(&upstream, |config| config.inference.tool_arguments = ToolArguments::Live).await;
    let answer = stream(&proxy, &question()).await;
    assert_eq!(calls(&fold(&answer.body)).len(), 2);
    let deltas = answer.text().matches("event: response.function_call_arguments.delta").count();
    assert!(deltas > 4, "{deltas}");
    let order: Vec<usize> = ["output_item.done", "\"name\":\"add\""].iter().map(|part| answer.text().find(part).unwrap()).collect();
    assert!(order[0] > order[1], "the second call begins before the first is done");
}

#[tokio::test]
async fn a_call_that_turns_out_wrong_was_never_done() {
    let upstream = Upstream::saying([Reply::call("get_weather", r#"{"city":7}"#).in_tokens_of(3)]).await;
    let proxy = Proxy::start_with(&upstream, |config| config.inference.tool_arguments = ToolArguments::Live).await;
    let answer = stream(&proxy, &question()).await;
    let kinds: Vec<Value> = super::fold::events(&answer.body).into_iter().map(|event| event["type"].clone()).collect();
    assert!(kinds.contains(&json!("response.output_item.added")) && !kinds.contains(&json!("response.output_item.done")), "{kinds:?}");
    assert_eq!(kinds[kinds.len() - 2..], [json!("error"), json!("response.failed")]);
}
