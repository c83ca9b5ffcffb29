//! Calls written as `<function=name><parameter=key>value</parameter></function>`.
//!
//! The format of Qwen3-Coder's chat template: values are raw text with a newline on either side,
//! typed only by the tool's schema. Llama 3.1's template has `<function=name>{…}</function>`, the
//! JSON being the arguments; it is read here too.

use std::collections::HashMap;

use serde_json::Value;

use crate::inference::offer::{Offer, Tool};

use super::page::Page;
use super::scan::{run, skip_space};
use super::unit::Unit;
use super::{Call, arguments};

/// Reads the function element at `mark`; none unless it is closed.
pub(super) fn read(page: &mut Page<'_>, mark: usize, offer: &Offer) -> Option<Unit> {
    let (name, inside) = tag(page, mark, FUNCTION)?;
    let tool = offer.find(name)?;
    let (arguments, body_end) = json_body(page, inside).or_else(|| parameters(page, inside, tool))?;
    let end = page.after(skip_space(page.bytes(), body_end), FUNCTION_END)?;
    let call = Call { name: tool.name.clone(), arguments };
    Some(Unit { span: mark..end, calls: vec![call] })
}

/// The value and the end of a tag such as `<function=value>`.
fn tag<'t>(page: &Page<'t>, at: usize, opening: &str) -> Option<(&'t str, usize)> {
    let start = page.after(at, opening)?;
    let end = start + run(page.bytes(), start, |byte| !matches!(byte, b'<' | b'>' | b'\n'));
    (page.byte(end) == Some(b'>')).then(|| (page.slice(start..end).trim(), end + 1))
}

fn json_body(page: &mut Page<'_>, inside: usize) -> Option<(String, usize)> {
    let start = skip_space(page.bytes(), inside);
    let end = match page.byte(start)? {
        b'{' | b'[' => page.container_end(start)?,
        b'<' => return None,
        _ => start + run(page.bytes(), start, |byte| byte != b'<'),
    };
    let written = page.slice(start..end).trim_end();
    arguments::is_json(written).then(|| (arguments::from_json(written), end))
}

/// The parameters from `at` on as an object in the order written; a repeated key's last value
/// counts, as in JSON.
fn parameters(page: &mut Page<'_>, mut at: usize, tool: &Tool) -> Option<(String, usize)> {
    let (mut keys, mut values) = (HashMap::new(), Vec::new());
    loop {
        at = skip_space(page.bytes(), at);
        let Some((key, inside)) = tag(page, at, PARAMETER) else {
            break;
        };
        let (end, next) = value_end(page, at, inside)?;
        let value = (key, json_value(without_newlines(page.slice(inside..end)), key, tool));
        match keys.get(key).and_then(|&index: &usize| values.get_mut(index)) {
            Some(known) => *known = value,
            None => {
                keys.insert(key, values.len());
                values.push(value);
            }
        }
        at = next;
    }
    let members = values.iter().map(|(key, value)| format!("{}:{value}", Value::from(*key)));
    Some((format!("{{{}}}", members.collect::<Vec<_>>().join(",")), at))
}

/// Where the value ends and where reading goes on. A value without its own closing tag ends at the
/// next parameter or at the function's end; one with it may hold `</function>` as data.
fn value_end(page: &mut Page<'_>, parameter: usize, inside: usize) -> Option<(usize, usize)> {
    if let Some(closing) = page.parameter_closing(parameter) {
        return Some((closing, closing + "</parameter>".len()));
    }
    let mut at = inside;
    loop {
        at += run(page.bytes(), at, |byte| byte != b'<');
        page.byte(at)?;
        if page.after(at, PARAMETER).or_else(|| page.after(at, FUNCTION_END)).is_some() {
            return Some((at, at));
        }
        if page.after(at, FUNCTION).is_some() {
            return None;
        }
        at += 1;
    }
}

fn without_newlines(value: &str) -> &str {
    let value = value.strip_prefix("\r\n").or(value.strip_prefix('\n')).unwrap_or(value);
    value.strip_suffix("\r\n").or(value.strip_suffix('\n')).unwrap_or(value)
}

/// The value's own text where it is JSON of a type that the schema names; otherwise a string.
fn json_value(text: &str, key: &str, tool: &Tool) -> String {
    let schema = tool.parameters.get("properties").and_then(|properties| properties.get(key));
    let types = match schema.and_then(|schema| schema.get("type")) {
        Some(Value::Array(types)) => types.iter().filter_map(Value::as_str).collect(),
        Some(Value::String(one)) => vec![one.as_str()],
        _ => Vec::new(),
    };
    let parsed = || serde_json::from_str::<Value>(text).ok();
    // Where text is allowed, only a null that the schema also allows is not text.
    let is_text = types.is_empty() || (types.contains(&"string") && text.trim() != "null");
    let is_typed = !is_text && parsed().is_some_and(|value| types.iter().any(|it| is_of(&value, it)));
    if is_typed { text.trim().to_owned() } else { Value::from(text).to_string() }
}

fn is_of(value: &Value, schema_type: &str) -> bool {
    match value {
        Value::Null => schema_type == "null",
        Value::Bool(_) => schema_type == "boolean",
        Value::Number(number) => {
            let is_whole = || number.as_f64().is_some_and(|number| number.fract() == 0.0);
            schema_type == "number" || (schema_type == "integer" && is_whole())
        }
        Value::String(_) => false,
        Value::Array(_) => schema_type == "array",
        Value::Object(_) => schema_type == "object",
    }
}

const FUNCTION: &str = "<function=";
const FUNCTION_END: &str = "</function>";
const PARAMETER: &str = "<parameter=";
