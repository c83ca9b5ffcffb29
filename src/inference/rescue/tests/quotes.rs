//! What is quoted or thought, and what is meant.

use super::check;

#[test]
fn quotes() {
    let call = r#"{"name":"ping","args":{}}"#;
    check(&format!("Send `{call}` to it."), "none");
    check(&format!("Send ``{call}`` to it."), "none");
    check(&format!("`{call}`, `{call}`"), "none");
    check(&format!("With `ping` now: {call}"), "ping {} | With `ping` now:");
    check(&format!("It`s {call}"), "ping {} | It`s");
    check(&format!("For Example: {call}"), "none");
    check(&format!("E.g.\n{call} {call}"), "none");
    check(&format!("Tools such as {call}"), "none");
    check(&format!("I need more information: {call}"), "ping {} | I need more information:");
    check(&format!("An example.\nNow I ask.\n{call}"), "ping {} | An example.\nNow I ask.");
    check(r#"{"name":"save","args":{"path":"example"}} {"name":"ping"}"#, r#"save {"path":"example"} + ping {}"#);
    check(&format!("{call}\n{}", "é".repeat(160)), &format!("ping {{}} | {}", "é".repeat(160)));
    check(&format!("{call}\n{}", "é".repeat(161)), "none");
    check(&format!("{}\n{call}", "a ".repeat(200)), &format!("ping {{}} | {}", "a ".repeat(200).trim()));
    check("For example ping[ARGS]{}", "none");
}

#[test]
fn reasoning() {
    check("<think>{\"name\":\"save\"}</think>{\"name\":\"ping\"}", "ping {}");
    check("<THINKING>save[ARGS]{}</thinking>\nOk {\"name\":\"ping\",\"args\":{}}", "ping {} | Ok");
    check("[THINK]a[/THINK][TOOL_CALLS]ping{}", "ping {}");
    check("<think>{\"name\":\"ping\"}", "none");
    check("maybe {\"name\":\"save\"}</think>{\"name\":\"ping\"}", "ping {}");
    check("{\"name\":\"ping\"}</think>", "none");
    check("{\"name\":\"ping\"} <think>more", "ping {}");
    check("a <function=save><parameter=path> </think><function=save><parameter=path>b</parameter></function>", r#"save {"path":"b"}"#);
    check("<function=save><parameter=path>a</think>b</parameter></function>", r#"save {"path":"a</think>b"}"#);
}

/// The usual lead-ins and explanations of small models were once taken for quotes.
#[test]
fn meant_calls() {
    let call = r#"{"name":"ping","args":{}}"#;
    let long = "This function call will return the current weather. ".repeat(4);
    let long = long.trim();
    let lead = "Here is the function call in the required JSON format:";
    check(&format!("{lead}\n\n```json\n{call}\n```"), &format!("ping {{}} | {lead}"));
    let lead = "It looks like you want the weather. I'll check:";
    check(&format!("{lead}\n{call}"), &format!("ping {{}} | {lead}"));
    check(&format!("`{call}`"), "ping {}");
    check(&format!("``{call}``\n"), "ping {}");
    check("`{\"name\":\"ping\"}`", "ping {}");
    check(&format!("`{call}` is it"), "none");
    check(&format!("```json\n{call}\n```\n\n{long}"), &format!("ping {{}} | {long}"));
    check(&format!("<tool_call>\n{call}\n</tool_call>\n{long}"), &format!("ping {{}} | {long}"));
    check(&format!("[TOOL_CALLS]ping{{}}\n{long}"), &format!("ping {{}} | {long}"));
    check(&format!("<function=ping></function>\n{long}"), &format!("ping {{}} | {long}"));
    check(&format!("ping[ARGS]{{}}\n{long}"), "none");
    check(&format!("{call}\n{long}"), "none");
    check(&format!("Here is an example of a call:\n```json\n{call}\n```"), "none");
    check(&format!("For instance:\n<tool_call>{call}</tool_call>"), "none");
}

#[test]
fn what_only_looks_like_a_call() {
    check("```json\n[{\"name\":\"ping\",\"description\":\"Checks the host\",\"parameters\":{}}]\n```", "none");
    check(r#"{"name":"ping","arguments":null,"parameters":{"a":1},"args":{"b":2}}"#, "none");
    check(r#"{"name":"save","arguments":{},"path":"x"}"#, "none");
    check("[{\"name\":\"id\",\"type\":\"integer\"},{\"name\":\"ping\",\"type\":\"string\"}]", "none");
    check("Action: save\nAction Input: None", "none");
    check(r#"payload = {"name":"ping","arguments":{}}"#, "none");
    check(r#"curl http://h -d '{"name":"ping","arguments":{}}'"#, "none");
    check(
        r#"[{"role":"user","content":"hi"},{"role":"assistant","tool_calls":[{"type":"function","function":{"name":"ping","arguments":"{}"}}]}]"#,
        "none",
    );
}

#[test]
fn nothing_behind_a_result_that_was_made_up() {
    let call = r#"<tool_call>{"name":"ping","arguments":{}}</tool_call>"#;
    check(&format!("{call}\n<tool_response>{{\"name\":\"ping\",\"arguments\":{{}}}}</tool_response>\n{call}"), "ping {}");
    check("<tool_response>{\"name\":\"ping\",\"arguments\":{}}</tool_response>", "none");
    // In an argument it is data.
    let written = r#"{"name":"save","arguments":{"path":"<tool_response>"}}"#;
    check(written, r#"save {"path":"<tool_response>"}"#);
}
