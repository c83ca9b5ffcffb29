//! Checks that no text takes more than linear time, by repeating what is costly to each part.

use std::time::{Duration, Instant};

use super::rescue;
use super::tests::offer;

#[test]
fn time_is_linear() {
    let (size, limit) = if cfg!(debug_assertions) { (1 << 15, 1000) } else { (1 << 20, 100) };
    let mut slow = Vec::new();
    for unit in HOSTILE {
        for head in [
            "",
            "{\"a\":",
            "<function=save>",
            "[TOOL_CALLS]",
            "<think>x</think>",
            "ping",
            "{\"name\":\"ping\",\"args\":{}}",
            "x {\"name\":\"ping\",\"args\":{}} a ``` x",
            EVERY_TOKEN,
        ] {
            let text = head.to_owned() + &unit.repeat(size / unit.len());
            let start = Instant::now();
            let _ = rescue(&text, 0, &offer());
            let took = start.elapsed();
            if took >= Duration::from_millis(limit) {
                slow.push(format!("{took:?} for {head} and {unit}"));
            }
        }
    }
    assert!(slow.is_empty(), "{}", slow.join("\n"));
}

/// Wakes every reader, and is no call.
const EVERY_TOKEN: &str = "[TOOL_CALLS] <|message|> <｜tool <|tool <tool_call> invoke name= [ARGS] >>> Action Input: : <function= ( ``` { ";

const HOSTILE: &[&str] = &[
    "{}",
    "}\"json{\"a\":\"{\"name\":\"ping\"",
    "}{",
    "{",
    "[",
    "<",
    "\"",
    "`",
    "```",
    "\n",
    " ",
    "}",
    "{\"",
    "{\"a\":\"",
    "[\":{\",",
    "[{\"a\":1},",
    "<function=",
    "<function=save>",
    "<function=save><parameter=path>",
    "<parameter=path>",
    "<parameter=a></parameter>",
    "<function=ping></function> x ",
    "[TOOL_CALLS]",
    "[TOOL_CALLS]ping{",
    "[TOOL_CALLS]ping",
    "ping[ARGS]",
    "ping[ARGS]{} x ",
    "{\"name\":",
    "{\"name\":\"ping\"}",
    "`{\"name\":\"ping\"} x ",
    "{\"name\":\"save\",\"args\":{\"a\":",
    "{\"args\":{x ",
    "<tool_call>",
    "{\"name\":\"ping\"}<tool_call>```",
    "<think>",
    "[THINK",
    "</think>{",
    "a ``` x",
    "{\"name\":\"ping\",\"args\":{}} x ",
    "{\"name\":\"ping\",\"args\":{}}```json ",
    "<function=ping>{}",
    "<function=ping>{}```",
    "{\"calls\":[",
    "{\"calls\":[{\"name\":\"other\"}]},",
    "[1,[{}],",
    "<tool_call>{\"name\":\"other\"}",
    "<|im_end|>",
    "[CALL_ID]x[ARGS]{}",
    ">{",
    "functools[",
    "(",
    "(a",
    "'",
    "Action:",
    "Action: ping\nAction Input: {\"a\":",
    "Action: ping\nAction Input: {} ",
    "Action:\n",
    "                Action: ping",
    "<tool_call>name: ping",
    "<｜",
    "<｜tool▁call▁begin｜>",
    "<｜tool▁call▁begin｜>ping<｜tool▁sep｜>",
    "<｜tool▁call▁begin｜>ping<｜tool▁sep｜>{} ",
    "<|",
    "<|tool_call_begin|>ping:0<|tool_call_argument_begin|>{",
    "<|channel|>",
    "<|channel|>x to=ping<|message|>",
    "<|channel|>analysis<|message|>",
    "<|start|>assistant to=ping",
    "<tool_call>ping",
    "<tool_call>ping<arg_key>a</arg_key>",
    "<arg_key>a</arg_key><arg_value>",
    "<arg_value>",
    "<invoke name=\"ping\">",
    "<invoke name=\"ping\"><parameter name=\"a\">",
    "<parameter name=\"a\">",
    "[ping(",
    "[ping(a=\"",
    "[ping(a='[ping(b=\"",
    "[ping(a=[",
    "[ping(),",
    "ping(),",
    "ping(a=1)\n",
    "```python\nping(a=1)\n",
    "```\n",
    "```\nname: ping\n",
    "<tool_call>\nname: ping\n",
    "<tool_call>\nname: ping\narguments:\n  a: 1\n",
    ">>>",
    ">>>ping\n{",
    ">>>ping\n{} x ",
    ">",
    "A",
    "<thought>",
    "</thought>",
    "<tool_call>ping(a='''",
];
