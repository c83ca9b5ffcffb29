//! Whether a call is one that may be made: an offered name, and arguments that its schema accepts.

use serde_json::Value;

use super::offer::Offer;
use crate::chat::Call;

/// What was found about one call.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Finding {
    /// It may be made.
    Valid,
    /// It may be made with these arguments: the same ones, rid of a string around them.
    Repaired(String),
    /// No such tool is offered.
    Unknown,
    /// The arguments are wrong; the text says how, for the model.
    Arguments(String),
}

/// Violations named to the model; more than a few confuse it.
const VIOLATIONS_MAX: usize = 5;
/// How much of broken arguments is quoted.
const EXCERPT_CHARS: usize = 200;

/// Checks `call` against the `offer`. With `named`, only that tool may be called.
pub(super) fn check(call: &Call, offer: &Offer, named: Option<&str>) -> Finding {
    let Some(tool) = offer.find(&call.name) else { return Finding::Unknown };
    if named.is_some_and(|named| named != call.name) {
        return Finding::Unknown;
    }
    let (arguments, repaired) = match object(&call.arguments) {
        Ok(found) => found,
        Err(complaint) => return Finding::Arguments(complaint),
    };
    match tool.schema().violations(&arguments) {
        Some(violations) => Finding::Arguments(violations),
        None => repaired.map_or(Finding::Valid, Finding::Repaired),
    }
}

/// The arguments as an object, and their text when it had to change: no text at all means no arguments, and a JSON string that
/// holds an object is that object.
fn object(text: &str) -> Result<(Value, Option<String>), String> {
    if text.trim().is_empty() {
        return Ok((Value::Object(serde_json::Map::new()), Some("{}".to_owned())));
    }
    let value: Value = serde_json::from_str(text).map_err(|error| format!("they are no valid JSON ({error}): `{}`", excerpt(text)))?;
    match value {
        Value::Object(_) => Ok((value, None)),
        Value::String(inner) => match serde_json::from_str(&inner) {
            Ok(value @ Value::Object(_)) => Ok((value, Some(inner))),
            _ => Err(format!("they must be a JSON object, not a string: `{}`", excerpt(text))),
        },
        _ => Err(format!("they must be a JSON object: `{}`", excerpt(text))),
    }
}

fn excerpt(text: &str) -> String {
    let mut excerpt: String = text.chars().take(EXCERPT_CHARS).collect();
    if excerpt.len() < text.len() {
        excerpt.push_str(" …");
    }
    excerpt
}

/// A compiled JSON schema. What cannot be compiled accepts everything: an odd schema is the client's business, not a reason to
/// refuse the model's call.
#[derive(Debug)]
pub(super) struct Schema(Option<jsonschema::Validator>);

impl Schema {
    pub(super) fn compile(parameters: &Value) -> Self {
        if !matches!(parameters, Value::Object(_) | Value::Bool(_)) {
            return Self(None);
        }
        let mut parameters = parameters.clone();
        drop_empty_enums(&mut parameters);
        Self(jsonschema::options().with_retriever(AcceptRemote).build(&parameters).ok())
    }

    /// What is wrong with `arguments`, each with its JSON path; `None` when nothing is.
    fn violations(&self, arguments: &Value) -> Option<String> {
        let validator = self.0.as_ref()?;
        if validator.is_valid(arguments) {
            return None;
        }
        let line = |error: jsonschema::ValidationError<'_>| {
            let path = error.instance_path().to_string();
            let place = if path.is_empty() { "at the top" } else { &path };
            format!("{place}: {}", excerpt(&error.to_string()))
        };
        Some(validator.iter_errors(arguments).take(VIOLATIONS_MAX).map(line).collect::<Vec<_>>().join("; "))
    }
}

/// Stands in for a schema at another address: it is never fetched, and accepts everything.
struct AcceptRemote;

impl jsonschema::Retrieve for AcceptRemote {
    fn retrieve(&self, _: &jsonschema::Uri<String>) -> Result<Value, Box<dyn std::error::Error + Send + Sync>> {
        Ok(Value::Object(serde_json::Map::new()))
    }
}

/// Clients that fill an `enum` from a list send an empty one when the list is. Read literally, nothing would ever satisfy it.
fn drop_empty_enums(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            if fields.get("enum").and_then(Value::as_array).is_some_and(Vec::is_empty) {
                fields.remove("enum");
            }
            fields.values_mut().for_each(drop_empty_enums);
        }
        Value::Array(elements) => elements.iter_mut().for_each(drop_empty_enums),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::inference::offer::Tool;

    fn finding(parameters: Value, arguments: &str) -> Finding {
        let offer = Offer::of(vec![Tool::new("f".to_owned(), parameters)]);
        let call = Call { id: "c".into(), name: "f".into(), arguments: arguments.into() };
        check(&call, &offer, None)
    }

    fn city() -> Value {
        json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]})
    }

    #[test]
    fn arguments_must_fit_the_schema() {
        assert_eq!(finding(city(), r#"{"city":"Paris"}"#), Finding::Valid);
        let Finding::Arguments(complaint) = finding(city(), r#"{"city":3}"#) else { panic!("accepted") };
        assert!(complaint.contains("/city"), "{complaint}");
        let Finding::Arguments(complaint) = finding(city(), "{}") else { panic!("accepted") };
        assert!(complaint.contains("city"), "{complaint}");
    }

    #[test]
    fn arguments_must_be_an_object() {
        for bad in ["[1]", "3", "null", "\"x\"", "{\"city\":", "no"] {
            assert!(matches!(finding(json!({}), bad), Finding::Arguments(_)), "{bad}");
        }
        assert_eq!(finding(json!({}), ""), Finding::Repaired("{}".to_owned()));
        assert_eq!(finding(city(), r#""{\"city\":\"Paris\"}""#), Finding::Repaired(r#"{"city":"Paris"}"#.to_owned()));
    }

    #[test]
    fn odd_but_legal_schemas_accept() {
        let check = |parameters: Value| assert_eq!(finding(parameters.clone(), r#"{"a":"x"}"#), Finding::Valid, "{parameters}");
        check(Value::Null);
        check(json!(true));
        check(json!("what is this"));
        check(json!({"properties": {"a": {"type": ["string", "null"]}}}));
        check(json!({"properties": {"a": true}}));
        check(json!({"properties": {"a": {"enum": []}}}));
        check(json!({"properties": {"a": {"$ref": "https://example.com/schema.json"}}}));
        check(json!({"properties": {"a": {"$ref": "#/$defs/missing"}}}));
        check(json!({"properties": {"a": {"x-unknown": 1, "format": "no such format"}}}));
        check(json!({"type": "no such type"}));
        check(json!({"properties": {"a": {"pattern": "("}}}));
    }

    #[test]
    fn a_remote_reference_leaves_the_rest_in_force() {
        let schema = json!({"properties": {"a": {"$ref": "https://example.com/s.json"}}, "required": ["b"]});
        assert!(matches!(finding(schema, r#"{"a":1}"#), Finding::Arguments(_)));
    }
}
