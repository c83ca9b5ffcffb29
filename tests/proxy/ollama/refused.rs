//! What an Ollama refuses is told in words that say what to do.

use serde_json::{Value, json};

use super::{chats, proxy_before, proxy_with, refusal};
use crate::harness::{Reply, chat, question};

/// The status, the error's code and its sentence.
async fn told(reply: Reply, request: &Value) -> (u16, String, String) {
    // The tools are shown whatever the model declares.
    let (proxy, upstream) = proxy_with([reply], "tools = \"native\"").await;
    let answer = proxy.ask(request).await;
    assert_eq!(chats(&upstream).len(), 1, "there is nothing to try again");
    let error = answer.error();
    let text = |key: &str| error[key].as_str().unwrap_or_default().to_owned();
    (answer.status, text("code"), text("message"))
}

#[tokio::test]
async fn a_model_that_is_not_there() {
    for request in [question(), chat()] {
        let (status, code, message) = told(refusal(404, "model 'tiny' not found"), &request).await;
        assert_eq!((status, code.as_str()), (404, "model_not_found"));
        assert!(message.contains("`ollama pull tiny`"), "{message}");
    }
}

#[tokio::test]
async fn a_model_without_tools() {
    let (status, code, message) = told(refusal(400, "registry.ollama.ai/library/tiny:latest does not support tools"), &question()).await;
    assert_eq!((status, code.as_str()), (400, "tools_not_supported"));
    assert!(message.contains("tools = \"prompt\""), "{message}");
}

#[tokio::test]
async fn a_model_that_cannot_think() {
    let mut request = chat();
    request["think"] = json!(true);
    let (status, code, _) = told(refusal(400, "\"tiny\" does not support thinking"), &request).await;
    assert_eq!((status, code.as_str()), (400, "thinking_not_supported"));
}

#[tokio::test]
async fn a_model_that_does_not_fit_into_memory() {
    let said = "model requires more system memory (9.1 GiB) than is available (2.0 GiB)";
    let (status, code, message) = told(refusal(500, said), &question()).await;
    assert_eq!((status, code.as_str()), (500, "model_not_loaded"));
    assert!(message.contains(said) && message.contains("num_ctx"), "{message}");
}

#[tokio::test]
async fn what_is_no_ollama() {
    for reply in [Reply::body(200, "text/html", "<html>secret</html>"), Reply::body(200, "application/x-ndjson", "<html>secret</html>")] {
        let (proxy, _upstream) = proxy_before([reply]).await;
        let answer = proxy.ask(&question()).await;
        assert_eq!((answer.status, &answer.error()["code"]), (502, &json!("backend_protocol_error")));
        assert!(!answer.text().contains("secret"));
    }
}
