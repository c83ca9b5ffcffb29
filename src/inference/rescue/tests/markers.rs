//! Calls written with tokens and tags of their own.

use super::check;

#[test]
fn mistral() {
    check(r#"[TOOL_CALLS]ping{"a":"}"}"#, r#"ping {"a":"}"}"#);
    check(r#"[TOOL_CALLS]io.read-file_2 {"a":1}[TOOL_CALLS]ping{}"#, r#"io.read-file_2 {"a":1} + ping {}"#);
    check(r#"[TOOL_CALLS]ping[ARGS]{"a":1}"#, r#"ping {"a":1}"#);
    check(r#"Ok. [TOOL_CALLS]ping[CALL_ID]x9Y[ARGS]{"a":1} save[ARGS]{}"#, r#"ping {"a":1} + save {} | Ok."#);
    check(r#"[TOOL_CALLS] [{"name":"ping","arguments":{}},{"name":"save","arguments":{"size":1}}]"#, r#"ping {} + save {"size":1}"#);
    check(r#"[TOOL_CALLS]other{"a":1}"#, r#"other {"a":1}"#);
    check(r#"[TOOL_CALLS]ping{"a":1"#, "none");
    check(r#"[TOOL_CALLS]ping{"a":"[TOOL_CALLS]save{}"}"#, r#"ping {"a":"[TOOL_CALLS]save{}"}"#);
}

#[test]
fn rehearsal() {
    check(r#"ping[ARGS]{"a":1}"#, r#"ping {"a":1}"#);
    check(r#"First ping[ARGS]{} then io.read-file_2[ARGS] {"b":"}"}"#, r#"ping {} + io.read-file_2 {"b":"}"} | First then"#);
    check(r#"other[ARGS]{"name":"ping","arguments":{}}"#, r#"other {"name":"ping","arguments":{}}"#);
    check(r#"ping[ARGS]{"a":"#, "none");
    check(r#"ping[ARGS]{"name":"save","arguments":{}}"#, r#"ping {"name":"save","arguments":{}}"#);
}

#[test]
fn qwen_xml() {
    let save = |key: &str, value: &str, expected: &str| {
        let text = format!("<function=save><parameter={key}>\n{value}\n</parameter></function>");
        check(&text, &format!("save {{\"{key}\":{expected}}}"));
    };
    save("path", "42", "\"42\"");
    save("path", "\n a\n", "\"\\n a\\n\"");
    save("path", "a </function> b", "\"a </function> b\"");
    save("size", "42", "42");
    save("size", "12345678901234567890123", "12345678901234567890123");
    save("size", "4.5", "\"4.5\"");
    save("size", "007", "\"007\"");
    save("ratio", "4.50", "4.50");
    save("force", "true", "true");
    save("force", "True", "true");
    save("tags", "[1, \"</x>\"]", "[1, \"</x>\"]");
    save("meta", "{\"b\": 1, \"a\": 2}", "{\"b\": 1, \"a\": 2}");
    save("meta", "[1]", "\"[1]\"");
    save("limit", "null", "null");
    save("limit", "5", "5");
    save("limit", "many", "\"many\"");
    save("note", "5", "\"5\"");
    save("note", "null", "null");
    save("odd", "5", "\"5\"");
    save("unknown", "5", "\"5\"");
    check("<tool_call>\n<function=ping>\n</function>\n</tool_call>", "ping {}");
    check("Go.\n<tool_call><function=ping></function></tool_call>", "ping {} | Go.");
    check("<function=save><parameter=size>1<parameter=path>x</function>", r#"save {"size":1,"path":"x"}"#);
    check(
        "<function=save><parameter=size>1</function><function=save><parameter=size>2</parameter></function>",
        r#"save {"size":1} + save {"size":2}"#,
    );
    check("<function=save><parameter=size>1</parameter><parameter=size>2</parameter></function>", r#"save {"size":2}"#);
    check(r#"<function=ping>{"a": "</function>"}</function>"#, r#"ping {"a": "</function>"}"#);
    check(r#"<function=ping>{"a": 1</function>"#, "none");
    check("<function=ping>hello</function>", "none");
    check("<function=other><parameter=a>{\"name\":\"ping\"}</parameter></function>", r#"other {"a":"{\"name\":\"ping\"}"}"#);
}

/// Validation says which tools there are, where a text would only be said to be none.
#[test]
fn marked_calls_have_any_name() {
    check(r#"<tool_call>{"name":"other","arguments":{"a":1}}</tool_call>"#, r#"other {"a":1}"#);
    check(r#"<tool_call>{"name":"other"}</tool_call>"#, "other {}");
    check(r#"<|python_tag|>{"name":"other","parameters":{}}; {"name":"ping","parameters":{}}<|eom_id|>"#, "other {} + ping {}");
    check("<tool_call>\n{\"name\":\"other\",\"args\":{}}\n{\"name\":\"more\",\"args\":{}}\n</tool_call>", "other {} + more {}");
    check("<tool_call>```json\n{\"name\":\"other\",\"args\":{}}\n```</tool_call>", "other {}");
    let (known, unknown) =
        ("<tool_call>{\"name\":\"ping\",\"args\":{}}</tool_call>", "<tool_call>{\"name\":\"other\",\"args\":{}}</tool_call>");
    check(&format!("Ok {known}\n{unknown}"), "ping {} + other {} | Ok");
    check(&format!("Ok {unknown} then {known}."), "other {} + ping {} | Ok then .");
    check(r#"<tool_call></tool_call>{"name":"other","args":{}}"#, "none");
    check(r#"The <tool_call> tag: {"name":"other","args":{}}"#, "none");
    check(r#"<tool_call>{"name":"other","parameters":{"type":"object","properties":{}}}</tool_call>"#, "none");
    check("[TOOL_CALLS]other{}", "other {}");
    check(r#"[TOOL_CALLS][{"name":"ping","arguments":{}},{"name":"other"}]"#, "ping {} + other {}");
    check(r#"[TOOL_CALLS]other{} ping{} more[ARGS]{} word {"a":1}"#, r#"other {} + ping {} + more {} | word {"a":1}"#);
    check("other[ARGS]{} ping[ARGS]{}", "other {} + ping {}");
    check("other[CALL_ID]x9Y[ARGS]{}", "other {}");
    check("[ARGS]{}", "none");
    check("<function=other></function><function=ping></function>", "other {} + ping {}");
    check("<function=other><parameter=n>5</parameter></function>", r#"other {"n":"5"}"#);
    check("<function=not a name></function>", "none");
    check(r#"functools[{"name":"other","arguments":{}}]"#, "other {}");
}

#[test]
fn a_name_and_arguments_as_the_whole_text() {
    check(r#"ping{"a":1}"#, r#"ping {"a":1}"#);
    check("<tool_call>\nfunctions.ping\n{\"a\":1}\n</tool_call>", r#"ping {"a":1}"#);
    check("```json\nio.read-file_2{}\n```", "io.read-file_2 {}");
    check(r#"ping{"a":1} ok"#, "none");
    check(r#"I say ping{"a":1}"#, "none");
    check(r#"other{"a":1}"#, "none");
    check(r#"ping{"a":1"#, "none");
    check("ping\n{\"name\":\"save\",\"arguments\":{}}", "save {} | ping");
}

#[test]
fn a_function_without_its_end_tag() {
    check("<function=save><parameter=size>1</parameter>", r#"save {"size":1}"#);
    check("<tool_call>\n<function=save>\n<parameter=size>\n1\n</parameter>\n</tool_call><|im_end|>", r#"save {"size":1}"#);
    check(r#"Ok <function=ping>{"a":1}"#, r#"ping {"a":1} | Ok"#);
    check(r#"<function=ping>{"a":1} and"#, "none");
    check(r#"<function=ping>{"name":"save","arguments":{}} and"#, "none");
    check("<function=save><parameter=size>1</parameter>\nand", "none");
    check("<function=save><parameter=size>1", "none");
    check("<function=save><parameter=size>1</parameter><parameter=path>x", "none");
    check("<function=ping>", "none");
    check("<function=ping>12", "none");
}

#[test]
fn typed_parameters() {
    let pick = |key: &str, value: &str, expected: &str| {
        let text = format!("<function=pick><parameter={key}>{value}</parameter></function>");
        check(&text, &format!("pick {{\"{key}\":{expected}}}"));
    };
    pick("by_ref", "5", "5");
    pick("by_ref", "x", "\"x\"");
    pick("maybe", "5", "5");
    pick("maybe", "None", "null");
    pick("maybe", "true", "\"true\"");
    pick("one", "{\"a\": 1}", "{\"a\": 1}");
    pick("one", "False", "false");
    pick("one", "None", "\"None\"");
    pick("circle", "5", "\"5\"");
    pick("lost", "5", "\"5\"");
    pick("texts", "5", "\"5\"");
    pick("texts", "None", "null");
}
