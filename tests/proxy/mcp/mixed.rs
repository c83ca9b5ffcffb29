//! Replies that call tools of the client and of MCP servers, and the client's way back.

use serde_json::{Value, json};
use toolgate::inference::ToolArguments;

use super::bench::{Bench, done, explained, follow, lookup, names, streamed, tools};
use crate::{
    harness::{Reply, events, fold, message, question},
    responses,
};

const WEATHER: (&str, &str) = ("get_weather", r#"{"city":"Paris"}"#);
const LOOKUP: (&str, &str) = ("lookup", r#"{"q":"a"}"#);

fn both() -> Reply {
    Reply::calls(&[LOOKUP, WEATHER]).saying("Both.")
}

fn is_ours(call: &Value) -> bool {
    call["id"].as_str().unwrap().starts_with("call_tg")
}

#[tokio::test]
async fn the_client_gets_its_own_calls_and_the_model_reads_all_results() {
    let bench = Bench::new([both(), done()], tools()).await;
    let answer = bench.proxy.ask(&question()).await;
    let message = answer.message();
    assert_eq!((names(&message), answer.finish_reason().as_str()), (vec!["get_weather"], "tool_calls"));
    assert!(is_ours(&message["tool_calls"][0]), "{message}");
    assert_eq!((bench.calls(), bench.upstream.calls()), (1, 1), "it was run at once, and the model was not asked again");

    let next = bench.proxy.ask(&follow(&question(), &message, &["sunny"])).await;
    assert_eq!((next.content().as_str(), next.header("x-toolgate-continuation")), ("Done.", ""));
    let expected = [
        "user What is the weather in Paris?",
        "assistant call_1=lookup,call_2=get_weather Both.",
        r#"tool call_1 lookup {"q": "a"}"#,
        "tool call_2 sunny",
    ];
    assert_eq!(bench.outline(1), expected);
    assert_eq!(bench.calls(), 1, "and not run again");
}

#[tokio::test]
async fn a_stream_shows_the_clients_calls_alone() {
    let bench = Bench::new([both(), done()], tools()).await;
    let answer = bench.proxy.ask(&streamed(question())).await;
    assert!(!answer.text().contains("lookup"), "{}", answer.text());
    let whole = fold(&events(&answer.body));
    assert_eq!((whole["finish_reason"].as_str(), names(&whole["message"])), (Some("tool_calls"), vec!["get_weather"]));
    bench.proxy.ask(&follow(&question(), &whole["message"], &["sunny"])).await;
    assert_eq!(
        bench.outline(1)[1..],
        ["assistant call_1=lookup,call_2=get_weather Both.", r#"tool call_1 lookup {"q": "a"}"#, "tool call_2 sunny"]
    );
}

#[tokio::test]
async fn turns_before_a_call_of_the_client_are_put_back() {
    let replies = [lookup().saying("Looking."), Reply::calls(&[WEATHER]).saying("And the weather."), done()];
    let bench = Bench::new(replies, tools()).await;
    let message = bench.proxy.ask(&question()).await.message();
    assert_eq!(message["content"], "Looking.\n\nAnd the weather.");
    // What the client holds is all the text in one message; the model said it in two.
    bench.proxy.ask(&follow(&question(), &message, &["sunny"])).await;
    let expected = [
        "assistant call_1=lookup Looking.",
        r#"tool call_1 lookup {"q": "a"}"#,
        "assistant call_1=get_weather And the weather.",
        "tool call_1 sunny",
    ];
    assert_eq!(bench.outline(2)[1..], expected);
    // The model read the same before: what its backend keeps of the prompt holds.
    let (before, after) = (bench.read(1), bench.read(2));
    assert_eq!(after[..before.len()], before);
}

#[tokio::test]
async fn several_turns_of_one_history_and_a_retry_find_all_of_it() {
    let bench = Bench::new([both(), both(), done(), done()], tools()).await;
    let first = bench.proxy.ask(&question()).await.message();
    let second_request = follow(&question(), &first, &["sunny"]);
    let second = bench.proxy.ask(&second_request).await.message();
    assert_ne!(first["tool_calls"][0]["id"], second["tool_calls"][0]["id"]);
    let third_request = follow(&second_request, &second, &["rainy"]);
    for _ in 0..2 {
        assert_eq!(bench.proxy.ask(&third_request).await.content(), "Done.");
    }
    let turn = |weather: &str| {
        let calls = "assistant call_1=lookup,call_2=get_weather Both.".to_owned();
        [calls, r#"tool call_1 lookup {"q": "a"}"#.to_owned(), format!("tool call_2 {weather}")]
    };
    assert_eq!(bench.outline(2)[1..], [turn("sunny"), turn("rainy")].concat());
    assert_eq!(bench.outline(3), bench.outline(2), "a request that is sent again finds the same");
}

#[tokio::test]
async fn what_is_lost_is_told_and_the_run_goes_on() {
    let bench = Bench::new([both()], tools()).await;
    let message = bench.proxy.ask(&question()).await.message();
    let request = follow(&question(), &message, &["sunny"]);
    for request in [request.clone(), streamed(request)] {
        // Another process, which knows nothing.
        let other = Bench::new([done()], tools()).await;
        let answer = explained(&other, &request).await;
        assert_eq!((answer.status, answer.header("x-toolgate-continuation")), (200, "lost"), "{}", answer.text());
        assert!(answer.text().contains("is lost") && answer.text().contains("Done."), "{}", answer.text());
        assert_eq!(other.read(0).len(), 3);
        assert_eq!(other.read(0)[2]["content"], "sunny");
    }
}

#[tokio::test]
async fn a_call_that_nothing_stands_behind_keeps_the_models_id() {
    let bench = Bench::new([Reply::calls(&[WEATHER]), done()], tools()).await;
    let message = bench.proxy.ask(&question()).await.message();
    assert_eq!(message["tool_calls"][0]["id"], "call_1");
    let next = bench.proxy.ask(&follow(&question(), &message, &["sunny"])).await;
    assert_eq!((next.content().as_str(), next.header("x-toolgate-continuation")), ("Done.", ""));
}

#[tokio::test]
async fn live_calls_have_the_right_places() {
    let reply = || Reply::calls(&[WEATHER, LOOKUP, ("add", r#"{"a":1,"b":2}"#)]).in_tokens_of(3);
    let live = |config: &mut toolgate::config::Config| config.inference.tool_arguments = ToolArguments::Live;
    let bench = Bench::with([reply(), done()], tools(), live).await;
    let answer = bench.proxy.ask(&streamed(question())).await;
    assert!(!answer.text().contains("lookup"), "{}", answer.text());
    let whole = fold(&events(&answer.body));
    assert_eq!(names(&whole["message"]), ["get_weather", "add"]);
    assert_eq!(whole["message"]["tool_calls"][1]["function"]["arguments"], r#"{"a":1,"b":2}"#);
    let next = bench.proxy.ask(&follow(&question(), &whole["message"], &["sunny", "3"])).await;
    assert_eq!((next.content().as_str(), bench.calls()), ("Done.", 1));
    let expected =
        ["assistant call_1=get_weather,call_2=lookup,call_3=add", "tool call_1 sunny", r#"tool call_2 lookup {"q": "a"}"#, "tool call_3 3"];
    assert_eq!(bench.outline(1)[1..], expected);
}

#[tokio::test]
async fn a_live_call_that_nothing_stands_behind_is_not_lost() {
    let live = |config: &mut toolgate::config::Config| config.inference.tool_arguments = ToolArguments::Live;
    let bench = Bench::with([Reply::calls(&[WEATHER]), done()], tools(), live).await;
    let whole = fold(&events(&bench.proxy.ask(&streamed(question())).await.body));
    let next = bench.proxy.ask(&follow(&question(), &whole["message"], &["sunny"])).await;
    assert_eq!((next.content().as_str(), next.header("x-toolgate-continuation")), ("Done.", ""));
    assert_eq!(bench.outline(1)[1..], ["assistant call_1=get_weather", "tool call_1 sunny"]);
}

#[tokio::test]
async fn messages_find_their_way_back() {
    let bench = Bench::new([lookup().saying("Looking."), both(), done()], tools()).await;
    let answer = bench.proxy.message(&message()).await.json();
    let blocks = answer["content"].as_array().unwrap();
    let kinds: Vec<&str> = blocks.iter().map(|block| block["type"].as_str().unwrap()).collect();
    assert_eq!((kinds, answer["stop_reason"].as_str()), (vec!["text", "tool_use"], Some("tool_use")));
    let mut next = message();
    let result = json!({"type": "tool_result", "tool_use_id": blocks[1]["id"], "content": "sunny"});
    let more = [json!({"role": "assistant", "content": blocks}), json!({"role": "user", "content": [result]})];
    next["messages"].as_array_mut().unwrap().extend(more);
    assert_eq!(bench.proxy.message(&next).await.json()["content"][0]["text"], "Done.");
    let expected = [
        "assistant call_1=lookup Looking.",
        r#"tool call_1 lookup {"q": "a"}"#,
        "assistant call_1=lookup,call_2=get_weather Both.",
        r#"tool call_1 lookup {"q": "a"}"#,
        "tool call_2 sunny",
    ];
    assert_eq!(bench.outline(2)[1..], expected);
}

#[tokio::test]
async fn responses_find_their_way_back() {
    for stream in [false, true] {
        let bench = Bench::new([lookup().saying("Looking.").thinking("Hm."), both().thinking("Ah."), done()], tools()).await;
        let mut request = responses::question();
        request["stream"] = json!(stream);
        let response = responses::respond(&bench.proxy, &request).await;
        let items = response["output"].as_array().unwrap().clone();
        assert_eq!(items.iter().filter(|item| item["type"] == "function_call").count(), 1);
        let call = items.last().unwrap().clone();
        let mut input = vec![json!({"role": "user", "content": request["input"]})];
        input.extend(items);
        input.push(json!({"type": "function_call_output", "call_id": call["call_id"], "output": "sunny"}));
        (request["input"], request["stream"]) = (json!(input), json!(false));
        let response = responses::respond(&bench.proxy, &request).await;
        assert_eq!(responses::texts(&response), "Done.");
        let expected = [
            "assistant call_1=lookup Looking.",
            r#"tool call_1 lookup {"q": "a"}"#,
            "assistant call_1=lookup,call_2=get_weather Both.",
            r#"tool call_1 lookup {"q": "a"}"#,
            "tool call_2 sunny",
        ];
        assert_eq!(bench.outline(2)[1..], expected, "streamed: {stream}");
    }
}

#[tokio::test]
async fn a_live_call_of_an_mcp_tool_that_is_wrong_is_told_to_the_model() {
    for wrong in [r#"{"q":7}"#, r#"{"q":"#] {
        let live = |config: &mut toolgate::config::Config| config.inference.tool_arguments = ToolArguments::Live;
        let bench = Bench::with([Reply::call("lookup", wrong).in_tokens_of(3), lookup(), done()], tools(), live).await;
        let answer = bench.proxy.ask(&streamed(question())).await;
        assert_eq!(fold(&events(&answer.body))["message"]["content"], "Done.", "{wrong}");
        assert_eq!((bench.calls(), bench.upstream.calls()), (1, 3), "nobody saw it, so it can be made anew");
    }
}
