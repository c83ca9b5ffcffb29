//! Arguments that are almost right: rewritten where nothing is lost by it, and never guessed.

use serde_json::{Value, json};
use toolgate::{config::Config, inference::ToolArguments};

use crate::harness::{Answer, Proxy, Reply, Upstream, events, fold, paris, proxy_before, question, question_with};

/// The explained answer to a first reply that calls `name`, and how often the model was asked.
async fn explained(name: &str, arguments: &str) -> (Answer, usize) {
    let (proxy, upstream) = proxy_before([Reply::call(name, arguments), paris()]).await;
    let answer = proxy.ask_with(&question(), &[("x-toolgate-explain", "1")]).await;
    (answer, upstream.calls())
}

#[tokio::test]
async fn almost_json_is_repaired_without_a_word_to_the_model() {
    for almost in
        ["{'city': 'Paris'}", "{city: \"Paris\",}", "{\"city\": \"Paris\"", "```json\n{\"city\": \"Paris\"}\n```", "{\"city\":\"Paris\"}}"]
    {
        let (answer, calls) = explained("get_weather", almost).await;
        assert_eq!((answer.outcome(), calls), ((200, "repaired", "1"), 1), "{almost}");
        let arguments: Value = serde_json::from_str(&answer.calls()[0].1).unwrap();
        assert_eq!(arguments, json!({"city": "Paris"}), "{almost}");
        assert_eq!(answer.json()["toolgate"], json!({"guardrail": "repaired", "attempts": [{"repaired": ["get_weather"]}]}));
    }
}

#[tokio::test]
async fn a_type_is_changed_where_nothing_is_lost() {
    let (answer, calls) = explained("add", r#"{"a":"1","b":2}"#).await;
    assert_eq!((answer.outcome(), answer.calls()[0].1.as_str(), calls), ((200, "repaired", "1"), r#"{"a":1,"b":2}"#, 1));
    assert_eq!(answer.json()["toolgate"]["attempts"], json!([{"coerced": ["add /a: \"1\" to 1"]}]));
    let (answer, _) = explained("add", "{a: 1, b: '2'}").await;
    assert_eq!(answer.calls()[0].1, r#"{"a":1,"b":2}"#);
    assert_eq!(answer.json()["toolgate"]["attempts"], json!([{"repaired": ["add"], "coerced": ["add /b: \"2\" to 2"]}]));
}

#[tokio::test]
async fn a_type_is_not_guessed() {
    for unclear in [r#"{"a":"one","b":2}"#, r#"{"a":1.5,"b":2}"#, r#"{"a":null,"b":2}"#, r#"{"a":"1","c":2}"#] {
        let (answer, calls) = explained("add", unclear).await;
        assert_eq!((answer.outcome(), calls), ((200, "nudged", "2"), 2), "{unclear}");
        assert_eq!(answer.json()["toolgate"]["attempts"][0]["coerced"], Value::Null, "what was not changed is not told");
    }
}

#[tokio::test]
async fn what_respond_says_is_repaired_too() {
    for (almost, said) in [("{'message': 'It is sunny.'}", "It is sunny."), (r#"{"message": 7}"#, "7")] {
        let (answer, calls) = explained("respond", almost).await;
        assert_eq!((answer.content(), answer.calls().len(), answer.finish_reason().as_str(), calls), (said.to_owned(), 0, "stop", 1));
    }
}

#[tokio::test]
async fn what_could_mean_two_things_is_for_the_model_to_say() {
    for unclear in ["{", "{\"city\":", "{\"city\": Paris}", "{'city': 'it's'}", "Paris", "{\"city\": \"Paris\", }, \"days\": 3"] {
        let (answer, calls) = explained("get_weather", unclear).await;
        assert_eq!((answer.outcome(), calls), ((200, "nudged", "2"), 2), "{unclear}");
        assert_eq!(answer.json()["toolgate"]["attempts"][0]["fault"], "arguments");
    }
}

#[tokio::test]
async fn a_valid_call_keeps_its_bytes() {
    let odd = "{ \"city\" : \"Par\\u0069s\", \"n\":1.10,\n\"n\":12345678901234567890123 }";
    let (answer, _) = explained("get_weather", odd).await;
    assert_eq!((answer.outcome(), answer.calls()[0].1.as_str()), ((200, "clean", "1"), odd));
}

#[tokio::test]
async fn a_stream_carries_the_repaired_arguments() {
    let (proxy, _upstream) = proxy_before([Reply::call("get_weather", "{'city': 'Paris'}").in_tokens_of(3)]).await;
    let whole = fold(&events(&proxy.ask(&question_with(json!({"stream": true}))).await.body));
    assert_eq!(whole["message"]["tool_calls"][0]["function"]["arguments"], r#"{"city":"Paris"}"#);
}

#[tokio::test]
async fn a_call_read_out_of_text_is_repaired_too() {
    let text = r#"{"name":"get_weather","arguments":"{'city': 'Paris'}"}"#;
    let (proxy, _upstream) = proxy_before([Reply::text(text)]).await;
    let answer = proxy.ask_with(&question(), &[("x-toolgate-explain", "1")]).await;
    assert_eq!((answer.outcome(), answer.calls()[0].1.as_str()), ((200, "repaired", "1"), r#"{"city":"Paris"}"#));
    assert_eq!(answer.json()["toolgate"]["attempts"], json!([{"rescued": ["get_weather"], "form": "json", "repaired": ["get_weather"]}]));
}

#[tokio::test]
async fn what_was_cut_off_is_not_closed() {
    for cut in ["{\"city\": \"Par", "{\"city\": \"Paris\"", "{'city': 'Paris'}", "{\"city\": 7}"] {
        let (proxy, upstream) = proxy_before([Reply::call("get_weather", cut).finishing("length")]).await;
        let answer = proxy.ask(&question()).await;
        assert_eq!((answer.calls().len(), answer.finish_reason().as_str(), upstream.calls()), (0, "length", 1), "{cut}");
    }
}

#[tokio::test]
async fn what_was_shown_is_not_rewritten() {
    for wrong in ["{\"city\": \"Paris\",}", "{\"city\": 7}"] {
        let upstream = Upstream::saying([Reply::call("get_weather", wrong).in_tokens_of(3)]).await;
        let live = |config: &mut Config| config.inference.tool_arguments = ToolArguments::Live;
        let proxy = Proxy::start_with(&upstream, live).await;
        let answer = proxy.ask(&question_with(json!({"stream": true}))).await;
        assert!(answer.text().contains("\"error\"") && !answer.text().contains("[DONE]"), "{}", answer.text());
        assert_eq!(upstream.calls(), 1);
    }
}

#[tokio::test]
async fn nothing_is_repaired_with_validation_off() {
    let (proxy, _upstream) = proxy_before([Reply::call("get_weather", "{'city': 'Paris'}")]).await;
    let answer = proxy.ask_with(&question(), &[("x-toolgate-disable", "validate")]).await;
    assert_eq!((answer.outcome(), answer.calls()[0].1.as_str()), ((200, "clean", "1"), "{'city': 'Paris'}"));
}
