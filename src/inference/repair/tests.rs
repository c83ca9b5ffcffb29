use std::time::{Duration, Instant};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::repair;

fn check(written: &str, expected: &str) {
    assert_eq!(repair(written).as_deref(), Some(expected), "{written}");
}

fn refuse(texts: &[&str]) {
    for written in texts {
        assert_eq!(repair(written), None, "{written}");
    }
}

#[test]
fn an_object_stays_as_it_is() {
    for whole in
        ["{}", " {\"a\" : 1.10}\n", r#"{"a":"it's // no # comment, 'True'","b":[“]}"#.replace("[“]", "\"“\"").as_str(), r#"{"a":1,"a":2}"#]
    {
        check(whole, whole);
    }
}

#[test]
fn commas_too_many_are_dropped() {
    check("{\"a\":1,}", "{\"a\":1}");
    check("{\"a\":[1,2 , ],\n}", "{\"a\":[1,2]}");
    refuse(&["{,}", "{\"a\":1,,}", "{,\"a\":1}", "{\"a\":[,]}", "{\"a\":[1,,2]}", "{\"a\":1},"]);
}

#[test]
fn quotes_of_any_kind_are_quotes() {
    check("{'city': 'Paris'}", r#"{"city":"Paris"}"#);
    check("{“city”: “Paris”}", r#"{"city":"Paris"}"#);
    check("{„city“: ‘Paris’}", r#"{"city":"Paris"}"#);
    check(r#"{'say': 'a "b" \'c\' \"d\"'}"#, r#"{"say":"a \"b\" 'c' \"d\""}"#);
    check(r#"{'a': "it's", "b": "“so”",}"#, r#"{"a":"it's","b":"“so”"}"#);
    check("{'a': '', }", r#"{"a":""}"#);
}

#[test]
fn quotes_with_two_readings_are_refused() {
    refuse(&[
        "{'a': 'it's'}",
        r#"{"a": "he said "hi" to"}"#,
        r#"{"a": "{"b": 1}"}"#,
        r#"{"a": ""Paris""}"#,
        r#"{"a": """Paris"""}"#,
        "{“a\": \"b\"}",
        "{\"a”: \"b\"}",
        "{\"a\": [“b\", “c”]}",
        "{\"a\": “he said “hi” to”}",
        "{\"a\": ‘it's’}",
        "{\"a\": ‘it’s’}",
        "{\"a\": `b`}",
        r#"{"a": "b" "c"}"#,
        r#"{"a": "b" + "c"}"#,
        "{\"a\": 'b', 'c'}",
        "{\"css\": \"color: \"#fff\"\"\n}",
        "{\"a\": \"say \"// now\"\n}",
    ]);
}

#[test]
fn keys_need_no_quotes() {
    check("{city: \"Paris\", max_n: 3, $x-1: [], ü: {}}", r#"{"city":"Paris","max_n":3,"$x-1":[],"ü":{}}"#);
    check("{1: 2, None: 3}", r#"{"1":2,"None":3}"#);
    refuse(&["{a b: 1}", "{a}", "{a=1}", "{a 1}", "{: 1}", "{-a: 1}", "{a.b: 1}", "{[1]: 2}", "{\"a\" 1}", "{\"a\"}"]);
}

#[test]
fn values_do() {
    refuse(&["{\"a\": Paris}", "{\"a\": }", "{\"a\":", "{\"a\": tru", "{\"a\": yes}", "{\"a\": undefined}", "{\"a\": TRUE}"]);
    refuse(&["{\"a\": 1 \"b\": 2}", "{\"a\": 1 b: 2}", "{\"a\": [1 2]}", "{\"a\": 2024-01-01}", "{\"a\": 5 km}"]);
}

#[test]
fn literals_are_those_of_json_and_python() {
    check("{'a': True, 'b': False, 'c': None, 'd': true, 'e': null}", r#"{"a":true,"b":false,"c":null,"d":true,"e":null}"#);
    refuse(&["{'a': NaN}", "{'a': Infinity}", "{'a': -inf}", "{'a': Truest}", "{'a': (1, 2)}", "{'a': {1, 2}}", "{'a': f'x'}"]);
}

#[test]
fn numbers_keep_their_spelling() {
    check("{a: 1.10, b: -2e+3, c: 12345678901234567890123}", r#"{"a":1.10,"b":-2e+3,"c":12345678901234567890123}"#);
    refuse(&["{a: 01}", "{a: .5}", "{a: 5.}", "{a: +1}", "{a: 0x1F}", "{a: 1_000}", "{a: 1e999}", "{a: -}", "{a: 1,5}", "{a: 3-4}"]);
}

#[test]
fn comments_are_dropped() {
    check("{\"a\": 1, // the first\n\"b\": /* 2? */ 3} // end", r#"{"a":1,"b":3}"#);
    check("# weather\n{\"a\": 1 # one\n# two\n}", r#"{"a":1}"#);
    check("/* {} */{/**/a/**/:/**/1/**/,/**/}/**/", r#"{"a":1}"#);
    refuse(&["{\"a\": 1 /* }", "{\"a\": #fff\n}", "{\"a\": [1, #b,\n2]}", "{\"a\": 1} / x", "// {\"a\": 1}"]);
}

#[test]
fn what_a_comment_may_have_taken_is_not_made_up() {
    refuse(&["{\"a\": 1 // x}", "{\"a\": 1 // x, \"b\": 2}\n", "{\"a\": [1 # x]}"]);
}

#[test]
fn line_breaks_and_tabs_in_strings_are_escaped() {
    check("{\"a\": \"x\ny\r\n\tz\u{1}\"}", r#"{"a":"x\ny\r\n\tz\u0001"}"#);
}

#[test]
fn escapes_are_those_of_json() {
    check(r#"{'a': "\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00"}"#, r#"{"a":"\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00"}"#);
    refuse(&[r#"{"a": "C:\dir"}"#, r#"{"a": "\d+"}"#, r#"{"a": "\u12"}"#, r#"{"a": "\u12g4"}"#, r#"{a: "\ud83d"}"#, "{\"a\": \"x\\\ny\"}"]);
}

#[test]
fn closers_missing_at_the_end_are_added() {
    check("{\"a\": {\"b\": [1, {\"c\": 2", r#"{"a":{"b":[1,{"c":2}]}}"#);
    check("{\"city\": \"Paris", r#"{"city":"Paris"}"#);
    check("{\"a\": [\"b\", 'c", r#"{"a":["b","c"]}"#);
    check("{\"a\": []", r#"{"a":[]}"#);
    refuse(&["", " ", "{", "{\"a\": [", "{\"a\": {", "{\"a\": 1,", "{\"a\": 1, \"b", "{\"a\": 1, \"b\"", "{\"a\": -", "{\"a\": \""]);
}

#[test]
fn a_string_without_end_may_have_taken_more_than_its_quote() {
    refuse(&[
        "{\"a\": \"b}",
        "{\"a\": [\"b]",
        "{\"a\": \"b, \"c\": \"d\"}",
        "{\"a\": \"b, 'c': 'd'",
        "{\"a\": \"b,",
        "{\"a\": \"b ",
        "{\"a\": \"b\\",
    ]);
    refuse(&["{\"a\": \"fn f() {\n  1\n", "{\"a\": \"b\nc", "```json\n{\"a\": \"b\n```"]);
}

#[test]
fn closers_in_the_middle_are_not() {
    refuse(&["{\"a\": [1, 2}", "{\"a\": [{\"b\": 1]}", "{\"a\": {\"b\": 1]", "{\"a\": 1]"]);
}

#[test]
fn closing_braces_left_over_at_the_end_are_dropped() {
    check("{\"a\": {\"b\": 1}}}\n}", r#"{"a":{"b":1}}"#);
    refuse(&["{\"a\": 1}}, \"b\": 2}", "{\"a\": 1}]", "{\"a\": 1}{\"b\": 2}", "{\"a\": 1} {", "\"a\": 1}", "}{"]);
}

#[test]
fn an_object_in_a_string_is_that_object() {
    check(r#""{\"a\": 1}""#, r#"{"a": 1}"#);
    check(r#""\"{\\\"a\\\": 1}\"""#, r#"{"a": 1}"#);
    check(r#""{'a': True}""#, r#"{"a":true}"#);
    check(r#"'{"a": "b"}'"#, r#"{"a": "b"}"#);
    check("`{\"a\": \"it's\"}`", r#"{"a": "it's"}"#);
    refuse(&[r#""x""#, r#""""#, r#""[1]""#, "'x'", r#"'{"a": "C:\\new"}'"#, r#""{\"a\": 1}"#, "'", "\"", "`"]);
    refuse(&[&(0..3).fold("{\"a\":1}".to_owned(), |text, _| json!(text).to_string())]);
}

#[test]
fn a_fence_around_it_is_dropped() {
    check("```json\n{\"a\": 1,}\n```\n", r#"{"a":1}"#);
    check(" ```\n{\"a\": 1}```", r#"{"a":1}"#);
    check("```json{\"a\": 1}", r#"{"a":1}"#);
    check("{\"a\": 1}\n```", r#"{"a":1}"#);
    refuse(&["```json\n{\"a\": 1\n```", "```json\n```", "```{\"a\": 1}``` so", "Here: ```{\"a\": 1}```"]);
}

#[test]
fn what_is_no_object_is_refused() {
    refuse(&["no", "null", "3", "[1]", "[{\"a\": 1}]", "I cannot call this.", "Sure! {\"a\": 1}", "{\"a\": 1} is it", "json {\"a\": 1}"]);
}

#[test]
fn nesting_is_as_deep_as_the_parser_reads() {
    let nested = |depth: usize| "{a:".repeat(depth) + "1";
    assert!(repair(&nested(127)).is_some());
    refuse(&[&nested(128)]);
}

#[test]
fn time_is_linear() {
    let (size, limit) = if cfg!(debug_assertions) { (1 << 16, 2000) } else { (1 << 20, 100) };
    let heads = ["", "{\"a\":", "{a:'", "{a:“", "{a:1", "{a:[", "{", "'", "\"", "```", "{}"];
    let units = [
        "{", "[", "}", "\"", "\\", "\\\\", "'", "`", "/*", "/**/", "//", "//\n", "# ", "#\n", "#", " ", "\n", ",", "1,", ",1", "a", "é",
        "{a:1},", "\"a\":1,", "\\u0041", "\u{1}", "“", "\"{", "0", "{\"a\":", "true,", "-",
    ];
    for (head, unit) in heads.iter().flat_map(|head| units.map(|unit| (head, unit))) {
        let text = (*head).to_owned() + &unit.repeat(size / unit.len());
        let start = Instant::now();
        let _ = repair(&text);
        let took = start.elapsed();
        assert!(took < Duration::from_millis(limit), "{took:?} for {head} and {unit}");
    }
}

/// Any JSON value, not too deep.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[ -~é\n\t“’]{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::hash_map("[a-z]{1,3}", inner, 0..4).prop_map(|map| map.into_iter().collect()),
        ]
    })
}

fn object() -> impl Strategy<Value = Value> {
    proptest::collection::hash_map("[a-z]{1,3}", value(), 1..4).prop_map(|map| map.into_iter().collect())
}

/// `value` as a model might write it; the bits of `style` choose how.
fn sloppy(value: &Value, style: u8, out: &mut String) {
    let has = |bit: u8| style & (1 << bit) != 0;
    let space = ["", " ", " /* { */ ", " // it's }\n", " # [\n"][usize::from(style % 5)];
    out.push_str(space);
    match value {
        Value::Null => out.push_str(if has(0) { "None" } else { "null" }),
        Value::Bool(true) => out.push_str(if has(0) { "True" } else { "true" }),
        Value::Bool(false) => out.push_str(if has(0) { "False" } else { "false" }),
        Value::Number(number) => out.push_str(&number.to_string()),
        Value::String(text) => {
            let quote = if has(1) { '\'' } else { '"' };
            let text = text.replace('\\', "\\\\").replace(quote, &format!("\\{quote}"));
            out.push_str(&format!("{quote}{text}{quote} "));
        }
        Value::Array(elements) => {
            out.push('[');
            for (at, element) in elements.iter().enumerate() {
                out.push_str(if at > 0 { "," } else { "" });
                sloppy(element, style, out);
            }
            out.push_str(if has(2) && !elements.is_empty() { ",]" } else { "]" });
        }
        Value::Object(members) => {
            out.push('{');
            for (at, (key, member)) in members.iter().enumerate() {
                out.push_str(if at > 0 { "," } else { "" });
                out.push_str(&if has(3) { key.clone() } else { format!("'{key}'") });
                out.push(':');
                sloppy(member, style, out);
            }
            out.push_str(if has(2) && !members.is_empty() { ",}" } else { "}" });
        }
    }
    out.push_str(space);
}

fn strings<'v>(value: &'v Value, found: &mut Vec<&'v str>) {
    match value {
        Value::String(text) => found.push(text),
        Value::Array(elements) => elements.iter().for_each(|element| strings(element, found)),
        Value::Object(members) => members.iter().for_each(|(key, member)| {
            found.push(key);
            strings(member, found);
        }),
        _ => {}
    }
}

proptest! {
    #[test]
    fn valid_json_is_never_changed(object in object(), is_pretty: bool) {
        let text = if is_pretty { format!("{object:#}") } else { object.to_string() };
        prop_assert_eq!(repair(&text), Some(text));
    }

    #[test]
    fn an_object_survives_sloppy_writing(object in object(), style: u8) {
        let mut written = String::new();
        sloppy(&object, style, &mut written);
        let repaired = repair(&written).map(|text| serde_json::from_str::<Value>(&text).unwrap());
        prop_assert_eq!(repaired, Some(object), "{}", written);
    }

    #[test]
    fn what_is_cut_is_refused_or_keeps_what_came(object in object(), cut: prop::sample::Index) {
        let text = object.to_string();
        let cut = text.get(..text.floor_char_boundary(cut.index(text.len()))).unwrap();
        let Some(repaired) = repair(cut) else { return Ok(()) };
        let beginning = repaired.trim_end_matches(['}', ']', '"']);
        prop_assert!(text.starts_with(beginning), "{} from {}", repaired, cut);
    }

    #[test]
    fn garbage_is_refused_or_every_string_was_written(text in "[{}\\[\\]:,'\"“”/*# a1e\n-]{0,24}|\\{a:[{}\\[\\]:,'\"“”`/*# a1TNone\n-]{0,16}") {
        let Some(repaired) = repair(&text) else { return Ok(()) };
        let value: Value = serde_json::from_str(&repaired).unwrap();
        prop_assert!(value.is_object());
        let mut found = Vec::new();
        strings(&value, &mut found);
        for string in found {
            prop_assert!(text.contains(string), "{} from {}", repaired, text);
        }
    }
}
