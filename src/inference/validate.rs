//! Whether a call is one that may be made: an offered name, and arguments that its schema accepts.

use serde_json::Value;

use super::{
    coerce::{self, Coerced},
    offer::Offer,
    repair::repair,
};
use crate::chat::Call;

/// What was found about one call.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Finding {
    /// It may be made.
    Valid,
    /// It may be made with arguments that say the same and are right.
    Repaired(Repair),
    /// No such tool is offered.
    Unknown,
    /// The arguments are wrong; the text says how, for the model.
    Arguments(String),
}

/// Arguments that had to be rewritten.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Repair {
    /// As they should have been.
    pub(super) arguments: String,
    /// They were no JSON object.
    pub(super) was_broken: bool,
    /// The values whose type was changed, each with its JSON path.
    pub(super) coerced: Vec<String>,
    /// What is wrong with them as they were, for where they cannot be rewritten any more.
    pub(super) complaint: String,
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
    let text = call.arguments.as_str();
    let Some((arguments, repaired)) = object(text) else { return Finding::Arguments(no_object(text)) };
    let was_broken = repaired.is_some() && !text.trim().is_empty();
    let violations = tool.schema().violations(&arguments);
    let complaint = match &violations {
        Some(violations) if was_broken => format!("{}; besides, {violations}", no_object(text)),
        Some(violations) => violations.clone(),
        None if was_broken => no_object(text),
        None => String::new(),
    };
    match (violations, repaired) {
        (None, None) => Finding::Valid,
        (None, Some(arguments)) => Finding::Repaired(Repair { arguments, was_broken, coerced: Vec::new(), complaint }),
        (Some(_), repaired) => match tool.schema().coerced(repaired.as_deref().unwrap_or(text)) {
            Some(Coerced { arguments, changes }) => Finding::Repaired(Repair { arguments, was_broken, coerced: changes, complaint }),
            None => Finding::Arguments(complaint),
        },
    }
}

/// The arguments as an object, and their text when it had to change. No text at all means no arguments.
fn object(text: &str) -> Option<(Value, Option<String>)> {
    if text.trim().is_empty() {
        return Some((Value::Object(serde_json::Map::new()), Some("{}".to_owned())));
    }
    if let Ok(value @ Value::Object(_)) = serde_json::from_str(text) {
        return Some((value, None));
    }
    let repaired = repair(text)?;
    Some((serde_json::from_str(&repaired).ok()?, Some(repaired)))
}

/// Why `text` is not the JSON of an object.
fn no_object(text: &str) -> String {
    match serde_json::from_str(text) {
        Err(error) => format!("they are no valid JSON ({error}): `{}`", excerpt(text)),
        Ok(Value::String(_)) => format!("they must be a JSON object, not a string: `{}`", excerpt(text)),
        Ok(_) => format!("they must be a JSON object: `{}`", excerpt(text)),
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

    /// `arguments`, which are refused, with the types that are due.
    fn coerced(&self, arguments: &str) -> Option<Coerced> {
        coerce::coerce(arguments, self.0.as_ref()?)
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
        let Finding::Arguments(complaint) = finding(city(), r#"{"city":[3]}"#) else { panic!("accepted") };
        assert!(complaint.contains("/city"), "{complaint}");
        let Finding::Arguments(complaint) = finding(city(), "{}") else { panic!("accepted") };
        assert!(complaint.contains("city"), "{complaint}");
    }

    #[test]
    fn arguments_must_be_an_object() {
        for bad in ["[1]", "3", "null", "\"x\"", "{\"city\":", "no"] {
            assert!(matches!(finding(json!({}), bad), Finding::Arguments(_)), "{bad}");
        }
    }

    fn repaired(parameters: Value, arguments: &str) -> String {
        match finding(parameters, arguments) {
            Finding::Repaired(repair) => repair.arguments,
            other => panic!("{arguments}: {other:?}"),
        }
    }

    #[test]
    fn almost_an_object_is_repaired() {
        assert_eq!(repaired(json!({}), ""), "{}");
        assert_eq!(repaired(city(), r#""{\"city\":\"Paris\"}""#), r#"{"city":"Paris"}"#);
        assert_eq!(repaired(city(), "{city: 'Paris',}"), r#"{"city":"Paris"}"#);
    }

    #[test]
    fn types_are_changed_where_nothing_is_lost() {
        assert_eq!(repaired(city(), r#"{"city": 75001}"#), r#"{"city":"75001"}"#);
        let Finding::Repaired(repair) = finding(city(), "{'city': 75001}") else { panic!("refused") };
        let complaint = "they are no valid JSON (key must be a string at line 1 column 2): `{'city': 75001}`; \
                         besides, /city: 75001 is not of type \"string\"";
        let coerced = vec!["/city: 75001 to \"75001\"".to_owned()];
        let arguments = r#"{"city":"75001"}"#.to_owned();
        assert_eq!(repair, Repair { arguments, was_broken: true, coerced, complaint: complaint.to_owned() });
    }

    #[test]
    fn a_repaired_object_must_fit_the_schema() {
        let Finding::Arguments(complaint) = finding(city(), "{'town': 'Paris'}") else { panic!("accepted") };
        assert!(complaint.contains("no valid JSON") && complaint.contains("{'town'") && complaint.contains("\"city\""), "{complaint}");
        let Finding::Arguments(complaint) = finding(city(), "") else { panic!("accepted") };
        assert!(!complaint.contains("JSON"), "{complaint}");
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
