//! Histories as clients send them, and what the model reads.

use serde_json::{Map, json};

use super::*;
use crate::{
    agent::approval::{Asked, IS_OFF, IS_OVER, IS_UNKNOWN},
    agent::continuation::new_record,
    chat::Call,
};

const MINUTE: Duration = Duration::from_secs(60);
const READING: Reading<'static> = Reading { ttl: Some(MINUTE), may_call: true, servers: &Servers::Attached };

fn call(id: &str, name: &str) -> Call {
    Call { id: id.to_owned(), name: name.to_owned(), arguments: "{}".to_owned() }
}

fn asked() -> Asked {
    let text = str::to_owned;
    Asked { server: text("fs"), tool: text("rm"), name: text("rm"), definition: text("h"), arguments: Map::new() }
}

/// A record of a turn that looked something up, then made these calls.
async fn record(shelf: &Shelf, answers: Vec<Answer>) -> String {
    let calls: Vec<Call> = (0..answers.len()).map(|n| call(&format!("m{n}"), &format!("f{n}"))).collect();
    let record = Record {
        before: RawValue::from_string(json!([{"role": "assistant", "content": "Looking."}]).to_string()).unwrap(),
        assistant: RawValue::from_string(transcript::assistant("Both.", "", &calls)).unwrap(),
        calls: Vec::new(),
    };
    let kept = Record::new(None, record.assistant.get().to_owned(), calls.into_iter().zip(answers).collect()).unwrap();
    let id = new_record();
    assert!(Record { before: record.before, ..kept }.save(shelf, &id, MINUTE).await);
    id
}

fn id(record: &str, place: usize, is_asked: bool) -> String {
    Mark { record, place, is_asked }.id()
}

fn shown(ids: &[&str]) -> Value {
    let call = |id: &&str| json!({"id": id, "type": "function", "function": {"name": "x", "arguments": "{}"}});
    json!({"role": "assistant", "content": "Looking.\n\nBoth.", "tool_calls": ids.iter().map(call).collect::<Vec<_>>()})
}

fn result(id: &str, content: &str) -> Value {
    json!({"role": "tool", "tool_call_id": id, "content": content})
}

async fn restored(shelf: &Shelf, messages: Value) -> Option<Restored> {
    restore(shelf, &messages.to_string().into(), READING).await
}

/// Role and content, or ids, of each message.
fn outline(messages: &[u8]) -> Vec<String> {
    let messages: Vec<Value> = serde_json::from_slice(messages).unwrap();
    let line = |message: &Value| {
        let calls: Vec<&str> = message["tool_calls"].as_array().into_iter().flatten().map(|call| call["id"].as_str().unwrap()).collect();
        let id = message["tool_call_id"].as_str().unwrap_or_default();
        format!("{} {}{id} {}", message["role"].as_str().unwrap(), calls.join(","), message["content"].as_str().unwrap_or_default())
    };
    messages.iter().map(line).collect()
}

fn empty() -> Shelf {
    Shelf::alone(1 << 20)
}

fn hidden(content: &str) -> Answer {
    Answer::Hidden(json!(content).to_string())
}

#[tokio::test]
async fn hidden_calls_and_results_are_put_back_in_the_models_order() {
    let shelf = empty();
    let record = record(&shelf, vec![hidden("h0"), Answer::Client, hidden("h2"), Answer::Client]).await;
    let (b, d) = (id(&record, 1, false), id(&record, 3, false));
    let user = json!({"role": "user", "content": "q"});
    // The client's results come in another order than its calls.
    let restored = restored(&shelf, json!([user, shown(&[&b, &d]), result(&d, "rd"), result(&b, "rb"), user])).await.unwrap();
    assert!(!restored.is_lost && restored.decisions().next().is_none());
    let expected = [
        "user  q",
        "assistant  Looking.",
        "assistant m0,m1,m2,m3 Both.",
        "tool m0 h0",
        "tool m1 rb",
        "tool m2 h2",
        "tool m3 rd",
        "user  q",
    ];
    assert_eq!(outline(&restored.messages([])), expected);
}

#[tokio::test]
async fn several_turns_of_one_history_are_restored() {
    let shelf = empty();
    let (one, two) = (record(&shelf, vec![hidden("h"), Answer::Client]).await, record(&shelf, vec![Answer::Client]).await);
    let (a, b) = (id(&one, 1, false), id(&two, 0, false));
    let history = json!([shown(&[&a]), result(&a, "ra"), shown(&[&b]), result(&b, "rb"), result("call_1", "x")]);
    let restored = restored(&shelf, history).await.unwrap();
    let lines = outline(&restored.messages([])).join("|");
    let turn =
        "assistant  Looking.|assistant m0,m1 Both.|tool m0 h|tool m1 ra|assistant  Looking.|assistant m0 Both.|tool m0 rb|tool call_1 x";
    assert_eq!(lines, turn);
}

#[tokio::test]
async fn a_client_that_shows_each_call_apart_is_understood() {
    let shelf = empty();
    let record = record(&shelf, vec![Answer::Client, hidden("h"), Answer::Client]).await;
    let (a, c) = (id(&record, 0, false), id(&record, 2, false));
    let text = |text: &str| json!({"role": "assistant", "content": text});
    let history = json!([text("Looking."), text("Both. "), shown(&[&a]), shown(&[&c]), result(&a, "ra"), result(&c, "rc")]);
    let restored = restored(&shelf, history).await.unwrap();
    let expected = ["assistant  Looking.", "assistant m0,m1,m2 Both.", "tool m0 ra", "tool m1 h", "tool m2 rc"];
    assert_eq!(outline(&restored.messages([])), expected);
}

#[tokio::test]
async fn what_is_lost_stays_as_it_is() {
    let shelf = empty();
    let (a, b, c) = (id("0123456789abcdef", 1, false), id("0123456789abcdef", 2, true), id("0123456789abcdef", 3, true));
    let history = json!([shown(&[&a, &b, &c]), result(&a, "ra"), result(&b, "approve"), result(&c, "deny")]);
    let restored = restored(&shelf, history).await.unwrap();
    assert!(restored.is_lost && restored.decisions().next().is_none(), "nothing is run");
    let lines = outline(&restored.messages([]));
    assert_eq!(lines[1], format!("tool {a} ra"));
    assert_eq!(lines[2], format!("tool {b} {IS_UNKNOWN}"));
    assert_eq!(lines[3], format!("tool {c} Not called: the user denied it."));
}

#[tokio::test]
async fn a_history_without_a_part_in_anything_is_not_touched() {
    let shelf = empty();
    assert!(restored(&shelf, json!([shown(&["call_1"]), result("call_1", "r")])).await.is_none());
    // Somebody speaks of an id.
    assert!(restored(&shelf, json!([{"role": "user", "content": id("0123456789abcdef", 0, false)}])).await.is_none());
    for broken in ["", "[", "{}", "[3, \"call_tg\"]", "[null, {\"tool_calls\": \"call_tg\"}]"] {
        assert!(restore(&shelf, &Bytes::copy_from_slice(broken.as_bytes()), READING).await.is_none(), "{broken}");
    }
}

#[tokio::test]
async fn a_decision_waits_until_something_came_of_it() {
    let shelf = empty();
    let record = record(&shelf, vec![Answer::Asked(Box::new(asked())), hidden("h")]).await;
    let a = id(&record, 0, true);
    let history = json!([shown(&[&a]), result(&a, " Approve ")]);
    let waiting = restored(&shelf, history.clone()).await.unwrap();
    let decisions: Vec<&Decision> = waiting.decisions().collect();
    assert_eq!((decisions.len(), decisions[0].id.as_str(), decisions[0].words.as_str()), (1, a.as_str(), " Approve "));
    let told = |restored: &Restored, content: &str| outline(&restored.messages([json!(content).to_string()]));
    let expected = ["assistant  Looking.", "assistant m0,m1 Both.", "tool m0 gone", "tool m1 h"];
    assert_eq!(told(&waiting, "gone"), expected);

    approval::open(&shelf, &a, MINUTE).await;
    let off = restore(&shelf, &history.to_string().into(), Reading { may_call: false, ..READING }).await.unwrap();
    assert!(off.decisions().next().is_none());
    assert_eq!(outline(&off.messages([]))[2], format!("tool m0 {IS_OFF}"));
    for (server, expected) in [("fs", 1), ("other", 0)] {
        let servers = &Servers::Only(vec![server.to_owned()]);
        let narrowed = restore(&shelf, &history.to_string().into(), Reading { servers, ..READING }).await.unwrap();
        assert_eq!(narrowed.decisions().count(), expected, "{server}");
    }

    approval::note(&shelf, &a, &State::Over("\"done\"".to_owned()), MINUTE).await;
    let known = restored(&shelf, history).await.unwrap();
    assert!(known.decisions().next().is_none(), "it is not decided again");
    assert_eq!(outline(&known.messages([]))[2], "tool m0 done");
}

#[tokio::test]
async fn a_decision_of_the_past_runs_nothing() {
    let shelf = empty();
    let record = record(&shelf, vec![Answer::Asked(Box::new(asked())), Answer::Asked(Box::new(asked()))]).await;
    let (a, b) = (id(&record, 0, true), id(&record, 1, true));
    let said = json!({"role": "assistant", "content": "It is done."});
    let history = |words: &str| json!([shown(&[&a, &b]), result(&a, words), result(&b, words), said]);
    approval::open(&shelf, &a, MINUTE).await;
    let past = restored(&shelf, history("approve")).await.unwrap();
    assert!(past.decisions().next().is_none());
    let lines = outline(&past.messages([]));
    assert_eq!(lines[2..4], [format!("tool m0 {IS_OVER}"), format!("tool m1 {IS_UNKNOWN}")]);
    assert!(approval::take(&shelf, &a).await, "it is not spent by that");
    approval::note(&shelf, &a, &State::Running, MINUTE).await;
    let lines = outline(&restored(&shelf, history("approve")).await.unwrap().messages([]));
    assert_eq!(lines[2], format!("tool m0 {IS_UNKNOWN}"));
    let denied = outline(&restored(&shelf, history("deny")).await.unwrap().messages([]));
    assert_eq!(denied[3], "tool m1 Not called: the user denied it.");
}

#[tokio::test(start_paused = true)]
async fn what_came_of_a_decision_is_known_as_long_as_its_record() {
    let shelf = empty();
    let record = record(&shelf, vec![Answer::Asked(Box::new(asked()))]).await;
    let a = id(&record, 0, true);
    approval::note(&shelf, &a, &State::Over("\"done\"".to_owned()), MINUTE).await;
    let history = json!([shown(&[&a]), result(&a, "approve")]);
    for _ in 0..3 {
        tokio::time::advance(MINUTE * 3 / 4).await;
        let known = restored(&shelf, history.clone()).await.unwrap();
        assert_eq!(outline(&known.messages([]))[2], "tool m0 done");
    }
}
