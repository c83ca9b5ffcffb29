//! What the model is told about a wrong reply: the exact end of the second upstream request.

use serde_json::{Value, json};

use crate::harness::{Reply, paris, proxy_before, question};

/// The messages of the second attempt after the client's own, when the first reply is `wrong`.
async fn correction(wrong: Reply) -> Vec<Value> {
    let (proxy, upstream) = proxy_before([wrong, paris()]).await;
    let answer = proxy.ask(&question()).await;
    assert_eq!(answer.outcome(), (200, "nudged", "2"));
    let [first, second] = &upstream.requests()[..] else { panic!("two attempts") };
    // Only the transcript's end differs, so that the backend's prompt cache fits, and the form that is forced.
    let common = first.text().find("}],\"tools\"").unwrap() + 1;
    assert_eq!(first.text()[..common], second.text()[..common]);
    let tail = first.text()[common + 1..].to_owned();
    let unforced = match second.text().split_once(",\"response_format\":") {
        Some((before, form)) => format!("{before}{}", form.split_at(form.find(",\"stream\":true").unwrap()).1),
        None => second.text().to_owned(),
    };
    assert!(unforced.ends_with(&tail), "{unforced}");
    second.json()["messages"].as_array().unwrap()[1..].to_vec()
}

fn assistant(content: &str, calls: &[(&str, &str, &str)]) -> Value {
    let call = |(id, name, arguments): &(&str, &str, &str)| json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}});
    let calls: Vec<Value> = calls.iter().map(call).collect();
    json!({"role": "assistant", "content": content, "tool_calls": calls})
}

fn result(id: &str, content: &str) -> Value {
    json!({"role": "tool", "tool_call_id": id, "content": content})
}

const NOT_RUN: &str = "Not run, because another call beside it was wrong. Fix the other call first and send this one again with it.";
const UNKNOWN: &str = "Error: there is no tool `wether`. Call one of these tools instead: `get_weather`, `add`, `respond`.";

#[tokio::test]
async fn text_is_answered_by_the_user() {
    let said = "That was text, but a tool call is needed. Call one of these tools now: `get_weather`, `add`, `respond`. \
                To say something to the user, call `respond` with the text as `message`.";
    let expected = [json!({"role": "assistant", "content": "It is\nsunny."}), json!({"role": "user", "content": said})];
    assert_eq!(correction(Reply::text("It is\nsunny.")).await, expected);
}

#[tokio::test]
async fn a_reply_without_content_is_answered_too() {
    for wrong in [Reply::reasoning("hm, hm"), Reply::text("")] {
        let messages = correction(wrong).await;
        assert_eq!((&messages[0], messages.len()), (&json!({"role": "assistant", "content": ""}), 2));
        assert_eq!(messages[1]["role"], "user");
    }
}

#[tokio::test]
async fn an_unknown_tool_is_answered_with_the_known_ones() {
    let expected = [assistant("", &[("call_1", "wether", r#"{"city":"Paris"}"#)]), result("call_1", UNKNOWN)];
    assert_eq!(correction(Reply::call("wether", r#"{"city":"Paris"}"#)).await, expected);
}

#[tokio::test]
async fn bad_arguments_are_answered_with_path_and_violation() {
    let said =
        "Error: the arguments of `add` are wrong: /b: \"two\" is not of type \"integer\". Call `add` again with corrected arguments.";
    let expected = [assistant("", &[("call_1", "add", r#"{"a":1,"b":"two"}"#)]), result("call_1", said)];
    assert_eq!(correction(Reply::call("add", r#"{"a":1,"b":"two"}"#)).await, expected);
}

#[tokio::test]
async fn a_missing_argument_is_answered_by_its_name() {
    let messages = correction(Reply::call("add", r#"{"a":1}"#)).await;
    let said = messages[1]["content"].as_str().unwrap();
    assert!(said.contains("at the top: \"b\" is a required property"), "{said}");
}

#[tokio::test]
async fn arguments_that_are_no_json_are_quoted_and_not_sent_back_as_arguments() {
    let messages = correction(Reply::call("add", "{a: 1")).await;
    assert_eq!(messages[0], assistant("", &[("call_1", "add", "{}")]));
    let said = messages[1]["content"].as_str().unwrap();
    assert!(said.contains("no valid JSON") && said.contains("{a: 1"), "{said}");
}

#[tokio::test]
async fn every_call_of_a_turn_gets_its_own_result() {
    let calls = [
        ("call_1", "get_weather", r#"{"city":"Paris"}"#),
        ("call_2", "wether", "{}"),
        ("call_3", "add", r#"{"a":1,"b":"two"}"#),
        ("call_4", "respond", r#"{"message":"hi"}"#),
    ];
    let wrong = Reply::calls(&calls.map(|(_, name, arguments)| (name, arguments))).saying("Both:");
    let messages = correction(wrong).await;
    assert_eq!(messages[..3], [assistant("Both:", &calls), result("call_1", NOT_RUN), result("call_2", UNKNOWN)]);
    assert!(messages[3]["content"].as_str().unwrap().contains("/b"), "{}", messages[3]);
    assert_eq!(messages[4], result("call_4", NOT_RUN));
}

#[tokio::test]
async fn corrections_add_up() {
    let replies = [Reply::text("words"), Reply::call("wether", "{}"), Reply::call("add", "[]"), paris()];
    let (proxy, upstream) = proxy_before(replies).await;
    assert_eq!(proxy.ask(&question()).await.outcome(), (200, "nudged", "4"));
    let requests = upstream.requests();
    for pair in requests.windows(2) {
        let (earlier, later) = (pair[0].json()["messages"].clone(), pair[1].json()["messages"].clone());
        let (earlier, later) = (earlier.as_array().unwrap(), later.as_array().unwrap());
        assert_eq!(&later[..earlier.len()], &earlier[..]);
        assert_eq!(later.len(), earlier.len() + 2);
    }
    let roles: Vec<_> = requests[3].json()["messages"].as_array().unwrap().iter().map(|m| m["role"].as_str().unwrap().to_owned()).collect();
    assert_eq!(roles, ["user", "assistant", "user", "assistant", "tool", "assistant", "tool"]);
}
