//! Fences, tags and prose: where the same text is a call and where it is none, and what is left of it.

use super::check;

#[test]
fn json_packaging() {
    check("```json\n{\"name\":\"ping\"}\n```", "ping {}");
    check("I'll check that.\n```json\n{\"name\":\"ping\"}\n```", "ping {} | I'll check that.");
    check("```{\"name\":\"ping\"}```\nDone soon.", "ping {} | Done soon.");
    check("<tool_call>\n{\"name\":\"ping\"}\n</tool_call>\n<tool_call>{\"name\":\"save\"}", "ping {} + save {}");
    check("```xml\n<tool_call>{\"name\":\"ping\"}</tool_call>\n```", "ping {}");
    check("<tool_call>```json\n{\"name\":\"ping\"}\n```</tool_call>", "ping {}");
    check("```json\n{\"name\":\"ping\"}\n```\n\n```json\n{\"name\":\"save\"}\n```\nOk", "ping {} + save {} | Ok");
    check("```py\nx = 1\n```\n{\"name\":\"ping\",\"args\":{}}", "ping {} | ```py\nx = 1\n```");
    check("```\n# run\n{\"name\":\"ping\"}\n```", "none");
    check("```json\n{\"name\":\"ping\"}", "ping {}");
    check("Sure, {\"name\":\"ping\",\"args\":{}} now", "ping {} | Sure, now");
}

#[test]
fn fences() {
    let call = r#"{"name":"ping","args":{}}"#;
    for label in ["", "json", "JSON", "jsonc", "json5", "xml", "tool_call", "tool_calls", "tool_code", "text", "plaintext"] {
        check(&format!("Ok\n```{label}\n{call}\n```"), "ping {} | Ok");
    }
    for label in ["python", "bash", "js", "markdown", "http"] {
        check(&format!("Ok\n```{label}\n{call}\n```"), "none");
        check(&format!("```{label}\n{call}\n```"), "none");
        check(&format!("```{label}\n<tool_call>{call}</tool_call>\n```"), "none");
    }
    check(&format!("```python\ncall = {call}\n```"), "none");
    check(&format!("```\ncall = {call}\n```"), "none");
    check(&format!("```bash\ncurl -d '{call}'\n```"), "none");
    check("```python\nx = '[TOOL_CALLS]ping{}'\n```", "none");
    check("```\nx = '<function=ping></function>'\n```", "none");
    check(&format!("```json\n{call}\n{{\"a\":1}}\n```"), "none");
    check(&format!("```json\n{call}\n{{\"name\":\"other\",\"args\":{{}}}}\n```"), "none");
    check(&format!("```json\n{call};\n{call},\n```"), "ping {} + ping {}");
    check(&format!("Sure! ```json\n{call}\n``` Done."), "ping {} | Sure! Done.");
    check(&format!("Sure! ```{call}``` Done."), "ping {} | Sure! Done.");
    check(&format!("````markdown\n```json\n{call}\n```\n````"), "none");
    check(&format!("```markdown\n```json\n{call}\n```\n```"), "none");
    check(&format!("Fences are ``` here.\n{call}"), "ping {} | Fences are ``` here.");
    check(&format!("```py\n1\n```\nThen:\n```json\n{call}\n```"), "ping {} | ```py\n1\n```\nThen:");
    check(&format!("```json\n{call}\n```\n```py\nx = {call}\n```"), &format!("ping {{}} | ```py\nx = {call}\n```"));
}

/// An object in the middle of a sentence once ran.
#[test]
fn sentences() {
    let call = r#"{"name":"ping","args":{}}"#;
    check(&format!("You should never send {call} to the server."), "none");
    check(&format!("I called {call} and it failed because of that."), "none");
    check(&format!("I called {call}, {call} and it failed."), "none");
    check(&format!("I called {call} and then {call}"), "none");
    check(&format!("curl -d '{call}' http://localhost:8081/"), "none");
    check("I called ping[ARGS]{} and it failed.", "none");
    check(&format!("Sure, {call} now"), "ping {} | Sure, now");
    check(&format!("Sure ({call})."), "ping {} | Sure ( ).");
    check(&format!("Sure: {call}, {call}."), "ping {} + ping {} | Sure: .");
    check(&format!("Sure, {call} {}", "a".repeat(17)), "none");
    check(&format!("Sure:\n{call} and then I go on."), "ping {} | Sure:\nand then I go on.");
    check(&format!("Sure: {call}\nI go on."), "ping {} | Sure:\nI go on.");
    check(&format!("Sure: {call}\nAs I said {call} is it."), &format!("ping {{}} | Sure:\nAs I said {call} is it."));
    check(&format!("Sure: <tool_call>{call}</tool_call> and I go on."), "ping {} | Sure: and I go on.");
}

#[test]
fn nothing_of_the_packing_is_left() {
    let call = r#"{"name":"ping","args":{}}"#;
    for token in ["<|eom_id|>", "<|eot_id|>", "<|im_end|>", "</s>", "<|/tool_call|>", "</tools>", ";"] {
        check(&format!("{call}{token}"), "ping {}");
        check(&format!("{call}\n{token}\n"), "ping {}");
    }
    check(&format!("<|tool_call|>[{call}]<|/tool_call|>"), "ping {}");
    check(&format!("<|python_tag|>{call}<|eom_id|>"), "ping {}");
    check(&format!("functools[{call}]"), "ping {}");
    check(&format!("Myfunctools[{call}]"), "ping {} | Myfunctools");
    check(&format!("<tools>\n{call}\n</tools>"), "ping {}");
    check(&format!("{{{call}}}"), "ping {}");
    check(&format!("{{\n{call}\n{call}\n}}"), "ping {} + ping {}");
    check(&format!("{call}; {call}, {call};"), "ping {} + ping {} + ping {}");
    check(&format!("{call}\nDone.<|im_end|>"), "ping {} | Done.");
    check(&format!("Is 1 < 2</s> {call}"), "ping {} | Is 1 < 2");
}
