//! Gives arguments the types that are due, where nothing is lost by it.
//!
//! The schema's own validator says which values do not fit and what was due in their place, references and alternatives included. **So a
//! value that fits is never touched**, and its spelling stays.
//!
//! **Nothing is guessed.** Where two types could be meant, or where the outcome still does not fit, nothing is changed at all.

mod edit;

#[cfg(test)]
mod tests;

use jsonschema::{JsonType, ValidationError, Validator, error::TypeKind, error::ValidationErrorKind as Kind};
use serde_json::{Number, Value};

use self::edit::{Edit, Edits};
use super::repair;

/// Arguments that were changed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Coerced {
    pub(super) arguments: String,
    /// The changes, each with its JSON path.
    pub(super) changes: Vec<String>,
}

/// Changes `text`, an object that `validator` refuses, into one that it accepts.
pub(super) fn coerce(text: &str, validator: &Validator) -> Option<Coerced> {
    let mut coerced = Coerced { arguments: text.to_owned(), changes: Vec::new() };
    for _ in 0..ROUNDS_MAX {
        let value: Value = serde_json::from_str(&coerced.arguments).ok()?;
        let mut edits = Edits::default();
        for (count, error) in validator.iter_errors(&value).enumerate() {
            if count == ERRORS_MAX {
                return None;
            }
            // What has no remedy may follow from what has one; in the end all must fit.
            edits.merge(remedy(&error, &value).unwrap_or_default())?;
        }
        coerced.changes.extend(edits.told(&value));
        coerced.arguments = edits.applied_to(&coerced.arguments)?;
        let value: Value = serde_json::from_str(&coerced.arguments).ok()?;
        if value.is_object() && validator.is_valid(&value) {
            return Some(coerced.bounded());
        }
    }
    None
}

impl Coerced {
    /// With no more changes than anybody reads.
    fn bounded(mut self) -> Self {
        let more = self.changes.len().saturating_sub(CHANGES_MAX);
        if more > 0 {
            self.changes.truncate(CHANGES_MAX);
            self.changes.push(format!("and {more} more"));
        }
        self
    }
}

/// What would right `error`, if exactly one thing would.
fn remedy(error: &ValidationError<'_>, root: &Value) -> Option<Edits> {
    let (place, value) = (error.instance_path().as_str(), error.instance().as_ref());
    let edit = match error.kind() {
        Kind::AnyOf { context } | Kind::OneOfNotValid { context } => {
            return one_of(context.iter().filter_map(|errors| remedies(errors, root)));
        }
        Kind::Type { .. } | Kind::Enum { .. } | Kind::Constant { .. } if value.is_null() => without(place, root),
        Kind::Type { kind } => one_of(types(kind).filter_map(|due| converted(value, due))),
        Kind::Enum { options } => option(value, options.as_array()?),
        Kind::Constant { expected_value } => option(value, std::slice::from_ref(expected_value.as_ref())),
        _ => None,
    };
    edit.map(|edit| Edits::one(place, edit))
}

/// What would right all of `errors`, those of one alternative.
fn remedies(errors: &[ValidationError<'_>], root: &Value) -> Option<Edits> {
    let mut edits = Edits::default();
    for error in errors {
        edits.merge(remedy(error, root)?)?;
    }
    Some(edits)
}

/// The one outcome of several ways.
fn one_of<T: PartialEq>(mut outcomes: impl Iterator<Item = T>) -> Option<T> {
    let first = outcomes.next()?;
    outcomes.all(|other| other == first).then_some(first)
}

fn types(kind: &TypeKind) -> impl Iterator<Item = JsonType> {
    let (one, several) = match kind {
        TypeKind::Single(one) => (Some(*one), None),
        TypeKind::Multiple(several) => (None, Some(*several)),
    };
    one.into_iter().chain(several.into_iter().flatten())
}

/// Models write null for what they leave out. If it is required, its absence is the next error.
fn without(place: &str, root: &Value) -> Option<Edit> {
    let (parent, _) = place.rsplit_once('/')?;
    root.pointer(parent)?.is_object().then_some(Edit::Remove)
}

/// Makes `value` the type that is due, if it then says the same.
fn converted(value: &Value, due: JsonType) -> Option<Edit> {
    match (due, value) {
        (JsonType::Integer, Value::String(text)) => number(text).filter(|number| !number.is_f64()).map(Edit::replace),
        (JsonType::Number, Value::String(text)) => number(text).map(Edit::replace),
        // Older drafts of JSON Schema do not count 3.0 as an integer.
        (JsonType::Integer, Value::Number(number)) => number.as_f64().filter(is_whole).map(|number| Edit::replace(format!("{number:.0}"))),
        (JsonType::Boolean, Value::String(text)) => repair::literal(text).filter(|literal| *literal != "null").map(Edit::replace),
        // How a fraction was spelled is not known any more: 1.10 may be a version.
        (JsonType::String, Value::Number(number)) if !number.is_f64() => Some(Edit::replace(Value::String(number.to_string()))),
        (JsonType::Object, Value::String(text)) => repair::repair(text).map(Edit::replace),
        (JsonType::Array, Value::String(text)) if is_list(text) => Some(Edit::replace(text)),
        (JsonType::Array, Value::String(text)) => is_one_thing(text).then_some(Edit::Wrap),
        (JsonType::Array, Value::Bool(_) | Value::Number(_) | Value::Object(_)) => Some(Edit::Wrap),
        _ => None,
    }
}

/// The number that `text` is the usual spelling of; any other spelling may be meant, as in a telephone number.
fn number(text: &str) -> Option<Number> {
    serde_json::from_str(text).ok().filter(|number: &Number| number.to_string() == text)
}

/// Up to 2⁵³ every whole number has its own float.
fn is_whole(number: &f64) -> bool {
    number.fract() == 0.0 && number.abs() < 9_007_199_254_740_992.0
}

fn is_list(text: &str) -> bool {
    serde_json::from_str::<Vec<Value>>(text).is_ok()
}

/// Whether a text where a list is due is certainly one element of it.
fn is_one_thing(text: &str) -> bool {
    !text.trim().is_empty() && !text.trim_start().starts_with(['[', '(', '{']) && !text.contains([',', ';', '\n'])
}

/// The one of `options` that `value` spells, but for capitals.
fn option(value: &Value, options: &[Value]) -> Option<Edit> {
    let written = spelled(value)?.to_lowercase();
    let mut alike = options.iter().filter(|option| spelled(option).is_some_and(|option| option.to_lowercase() == written));
    alike.next().filter(|_| alike.next().is_none()).map(Edit::replace)
}

fn spelled(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) => Some(value.to_string()),
        Value::Number(number) if !number.is_f64() => Some(value.to_string()),
        _ => None,
    }
}

/// A list in a string in an object in a string is as deep as it has been seen.
const ROUNDS_MAX: usize = 4;

/// With more, the model has misunderstood; and each takes its time.
const ERRORS_MAX: usize = 1000;

/// Changes that are told; a list may hold hundreds.
const CHANGES_MAX: usize = 20;
