//! The tools of a request as function tools, and under which name each came: a call of it goes back in the form that it came in.
//!
//! A namespace is flattened, since a chat completion knows none. A custom tool, whose input is free text, becomes a function of one text.
//! Tools that OpenAI's own servers run are left out: nobody here could run them.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::object::{Object, array, string};
use crate::{
    chat::{self, Problem},
    wire::{fields, text::Text},
};

/// The form of a tool's calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// `function_call`.
    Function,
    /// `custom_tool_call`.
    Custom,
    /// `local_shell_call`.
    LocalShell,
}

/// A tool that a model may be offered.
#[derive(Debug, Clone)]
pub(super) struct Tool {
    pub(super) kind: Kind,
    /// The client's name for it.
    pub(super) name: String,
    /// The namespace that it came in.
    pub(super) namespace: Option<String>,
    /// What the model sees: its name, which no other tool has, and its schema.
    pub(super) seen: chat::Tool,
    /// The chat completion's tool object.
    json: String,
}

/// The tools of one request.
#[derive(Debug, Clone, Default)]
pub(super) struct Tools {
    list: Vec<Tool>,
    /// The tools object by object as they are repeated to the client.
    pub(super) echo: Vec<String>,
}

impl Tools {
    /// Reads JSON arrays of tools, each with its place in the request. Those of the first are repeated to the client. Fails with a `param`
    /// where one tool is to blame.
    pub(super) fn read(lists: &[(String, Bytes)]) -> Result<Self, Problem> {
        let (mut declared, mut echo) = (Vec::new(), Vec::new());
        for (number, (at, list)) in lists.iter().enumerate() {
            let wrong = |_| Problem::invalid(at, format!("`{at}` must be a list of tools."));
            let elements: Vec<&RawValue> = serde_json::from_slice(list).map_err(wrong)?;
            for (index, raw) in elements.into_iter().enumerate() {
                let known = declared.len();
                declare((list, raw), None, &format!("{at}[{index}]"), &mut declared)?;
                let new = declared.get(known..).filter(|new| !new.is_empty() && number == 0);
                echo.extend(new.map(|new| repeated(raw, new)));
            }
        }
        let names = unique_names(&declared);
        let list = declared.iter().zip(names).map(|(tool, name)| tool.build(name)).collect();
        Ok(Self { list, echo })
    }

    /// The tool that the model knows as `name`.
    pub(super) fn seen_as(&self, name: &str) -> Option<&Tool> {
        self.list.iter().find(|tool| tool.seen.name == name)
    }

    /// The tool that the client knows as `name`, in `namespace` if it says one.
    pub(super) fn known_as(&self, name: &str, namespace: Option<&str>) -> Option<&Tool> {
        let is_it = |tool: &&Tool| tool.name == name && namespace.is_none_or(|namespace| tool.namespace.as_deref() == Some(namespace));
        let plain = self.list.iter().find(|tool| tool.name == name && tool.namespace.as_deref() == namespace);
        plain.or_else(|| self.list.iter().find(is_it))
    }

    /// The name that the model saw on a past call.
    pub(super) fn seen_name<'t>(&'t self, name: &'t str, namespace: Option<&str>) -> &'t str {
        self.known_as(name, namespace).map_or(name, |tool| tool.seen.name.as_str())
    }

    /// The tool of this kind, of which there is one at most.
    pub(super) fn of_kind(&self, kind: Kind) -> Option<&Tool> {
        self.list.iter().find(|tool| tool.kind == kind)
    }

    /// The chat completion's `tools` and what is in it, only those that `is_allowed`; `None` when there are none.
    pub(super) fn offer(&self, is_allowed: impl Fn(&Tool) -> bool) -> Option<(Bytes, Vec<chat::Tool>)> {
        let offered: Vec<&Tool> = self.list.iter().filter(|tool| is_allowed(tool)).collect();
        let json = array(offered.iter().map(|tool| tool.json.as_str()));
        (!offered.is_empty()).then(|| (Bytes::from(json), offered.iter().map(|tool| tool.seen.clone()).collect()))
    }
}

/// A tool as it was declared.
struct Declared<'a> {
    kind: Kind,
    name: String,
    namespace: Option<String>,
    /// The list that it is an element of.
    list: &'a Bytes,
    fields: Fields<'a>,
}

#[derive(Deserialize)]
struct Fields<'a> {
    #[serde(borrow, rename = "type", default)]
    kind: Option<Text<'a>>,
    #[serde(borrow, default)]
    name: Option<Text<'a>>,
    #[serde(borrow, default)]
    description: Option<&'a RawValue>,
    #[serde(borrow, default)]
    parameters: Option<&'a RawValue>,
    #[serde(borrow, default)]
    strict: Option<&'a RawValue>,
    #[serde(borrow, default)]
    format: Option<&'a RawValue>,
    #[serde(borrow, default)]
    tools: Option<Vec<&'a RawValue>>,
}

/// Adds the tools in `raw`: one, those of a namespace, or none where it is of a kind that is left out.
fn declare<'a>(
    (list, raw): (&'a Bytes, &'a RawValue),
    namespace: Option<&str>,
    at: &str,
    to: &mut Vec<Declared<'a>>,
) -> Result<(), Problem> {
    let no_tool = |_| Problem::invalid(at, format!("`{at}` is not a tool object."));
    let mut fields: Fields<'a> = serde_json::from_str(raw.get()).map_err(no_tool)?;
    let kind = fields.kind.as_ref().map_or("function", |kind| kind.0.as_ref());
    let name = fields.name.as_ref().map(|name| name.0.as_ref().to_owned()).filter(|name| !name.is_empty());
    let nameless = || Problem::invalid(format!("{at}.name"), format!("`{at}.name` is missing."));
    let kind = match kind {
        "function" => Kind::Function,
        "custom" => Kind::Custom,
        "local_shell" if namespace.is_none() => {
            to.push(Declared { kind: Kind::LocalShell, name: LOCAL_SHELL.to_owned(), namespace: None, list, fields });
            return Ok(());
        }
        "namespace" if namespace.is_none() => {
            let name = name.ok_or_else(nameless)?;
            for (index, raw) in fields.tools.take().unwrap_or_default().into_iter().enumerate() {
                declare((list, raw), Some(&name), &format!("{at}.tools[{index}]"), to)?;
            }
            return Ok(());
        }
        hosted => {
            tracing::debug!(tool = hosted, "a tool that only its vendor could run is left out");
            return Ok(());
        }
    };
    let namespace = namespace.map(str::to_owned);
    to.push(Declared { kind, name: name.ok_or_else(nameless)?, namespace, list, fields });
    Ok(())
}

impl Declared<'_> {
    fn build(&self, seen: String) -> Tool {
        let Fields { description, parameters, strict, .. } = &self.fields;
        let (schema, strict) = match self.kind {
            Kind::Function => (parameters.map(|raw| fields::slice(self.list, raw)).unwrap_or_default(), strict.map(RawValue::get)),
            Kind::Custom => (Bytes::from_static(FREE_TEXT.as_bytes()), None),
            Kind::LocalShell => (Bytes::from_static(SHELL_COMMAND.as_bytes()), None),
        };
        let description = match self.kind {
            Kind::Function => description.map(|raw| raw.get().to_owned()),
            Kind::Custom => Some(string(&self.custom_description())),
            Kind::LocalShell => Some(string("Runs a command in the user's shell and returns its output.")),
        };
        let text = std::str::from_utf8(&schema).ok().filter(|schema| !schema.is_empty());
        let function = Object::default().with_text("name", &seen).with_some("description", description.as_deref());
        let function = function.with_some("parameters", text).with_some("strict", strict).json();
        let json = Object::default().with("type", "\"function\"").with("function", &function).json();
        let seen = chat::Tool { name: seen, parameters: schema };
        Tool { kind: self.kind, name: self.name.clone(), namespace: self.namespace.clone(), seen, json }
    }

    /// What the model is told of a custom tool, with the grammar of its input where there is one.
    fn custom_description(&self) -> String {
        #[derive(Deserialize)]
        struct Format {
            #[serde(default)]
            syntax: Option<String>,
            #[serde(default)]
            definition: Option<String>,
        }
        let text = |raw: Option<&RawValue>| raw.and_then(|raw| serde_json::from_str::<String>(raw.get()).ok()).unwrap_or_default();
        let said = text(self.fields.description);
        let format = self.fields.format.and_then(|raw| serde_json::from_str::<Format>(raw.get()).ok());
        let Some((definition, syntax)) = format.and_then(|format| Some((format.definition?, format.syntax))) else { return said };
        let syntax = syntax.unwrap_or_default();
        format!("{said}\n\nThe input follows this {syntax} grammar:\n{definition}").trim_start().to_owned()
    }
}

/// A name for each tool. A tool of a namespace has its own where no other tool has that one, since a small model writes a short name
/// better; else the namespace is put before it.
fn unique_names(declared: &[Declared<'_>]) -> Vec<String> {
    let is_taken = |name: &str, taken: &[String]| taken.iter().any(|known| known == name);
    let occurs = |name: &str| declared.iter().filter(|tool| tool.name == name).count();
    // A plain function keeps its name whatever else there is.
    let keeps = |tool: &Declared<'_>| tool.kind == Kind::Function && tool.namespace.is_none();
    let mut taken: Vec<String> = declared.iter().filter(|tool| keeps(tool)).map(|tool| tool.name.clone()).collect();
    let mut names = Vec::with_capacity(declared.len());
    for tool in declared {
        if keeps(tool) {
            names.push(tool.name.clone());
            continue;
        }
        let full = match &tool.namespace {
            Some(namespace) if occurs(&tool.name) > 1 => format!("{}__{}", namespace.trim_end_matches('_'), tool.name),
            _ => tool.name.clone(),
        };
        let numbered = (2..).map(|number| format!("{full}_{number}"));
        let name = std::iter::once(full.clone()).chain(numbered).find(|name| !is_taken(name, &taken)).unwrap_or_default();
        taken.push(name.clone());
        names.push(name);
    }
    names
}

/// A tool as it is repeated to the client. A function has all its fields, those it was sent without too.
fn repeated(raw: &RawValue, declared: &[Declared<'_>]) -> String {
    match declared {
        [Declared { kind: Kind::Function, namespace: None, fields, name, .. }] => {
            let or_null = |raw: Option<&RawValue>| raw.map_or("null", RawValue::get).to_owned();
            let function = Object::default().with("type", "\"function\"").with_text("name", name);
            let function = function.with("description", &or_null(fields.description)).with("parameters", &or_null(fields.parameters));
            function.with("strict", &or_null(fields.strict)).json()
        }
        _ => raw.get().to_owned(),
    }
}

const LOCAL_SHELL: &str = "local_shell";

/// The schema of a custom tool's only argument.
const FREE_TEXT: &str = r#"{"type":"object","properties":{"input":{"type":"string","description":"The whole input, as plain text."}},"required":["input"],"additionalProperties":false}"#;

/// The schema of a command for the local shell, after the `action` of its calls.
const SHELL_COMMAND: &str = concat!(
    r#"{"type":"object","properties":{"command":{"type":"array","items":{"type":"string"},"description":"The program and its arguments."},"#,
    r#""working_directory":{"type":"string"},"timeout_ms":{"type":"integer"}},"required":["command"]}"#
);

#[cfg(test)]
mod tests {
    use super::*;

    fn read(list: &str) -> Result<Tools, Problem> {
        Tools::read(&[("tools".to_owned(), Bytes::copy_from_slice(list.as_bytes()))])
    }

    fn offered(list: &str) -> String {
        let (json, _) = read(list).unwrap().offer(|_| true).unwrap();
        String::from_utf8(json.to_vec()).unwrap()
    }

    #[test]
    fn a_function_keeps_its_schema_as_written() {
        assert_eq!(
            offered(r#"[{"type":"function","name":"f","strict":true,"parameters":{ "b":1e2 },"description":"d","defer_loading":true}]"#),
            r#"[{"type":"function","function":{"name":"f","description":"d","parameters":{ "b":1e2 },"strict":true}}]"#
        );
        assert_eq!(offered(r#"[{"name":"f","parameters":null}]"#), r#"[{"type":"function","function":{"name":"f"}}]"#);
        let tools = read(r#"[{"type":"function","name":"f","parameters":{ "b":1 }}]"#).unwrap();
        assert_eq!(tools.seen_as("f").unwrap().seen.parameters, "{ \"b\":1 }");
    }

    #[test]
    fn a_namespace_is_flattened_and_its_names_are_unique() {
        let names = |list: &str| read(list).unwrap().list.into_iter().map(|tool| tool.seen.name).collect::<Vec<_>>();
        let space =
            |name: &str, tool: &str| format!(r#"{{"type":"namespace","name":"{name}","tools":[{{"type":"function","name":"{tool}"}}]}}"#);
        let plain = |name: &str| format!(r#"{{"type":"function","name":"{name}"}}"#);
        assert_eq!(names(&format!("[{}]", space("n", "f"))), ["f"]);
        assert_eq!(names(&format!("[{},{}]", space("n", "f"), space("mcp__m__", "f"))), ["n__f", "mcp__m__f"]);
        assert_eq!(names(&format!("[{},{}]", space("n", "f"), plain("f"))), ["n__f", "f"]);
        assert_eq!(names(&format!("[{},{},{}]", space("n", "f"), plain("f"), plain("n__f"))), ["n__f_2", "f", "n__f"]);
        assert_eq!(names(r#"[{"type":"custom","name":"f"},{"name":"f"},{"type":"local_shell"}]"#), ["f_2", "f", "local_shell"]);
    }

    #[test]
    fn a_call_finds_the_tool_that_it_is_of() {
        let list = r#"[{"type":"namespace","name":"n","tools":[{"name":"f"}]},{"type":"namespace","name":"m","tools":[{"name":"f"},{"name":"g"}]}]"#;
        let tools = read(list).unwrap();
        let check = |name: &str, namespace: Option<&str>, seen: &str| assert_eq!(tools.seen_name(name, namespace), seen);
        check("f", Some("n"), "n__f");
        check("f", Some("m"), "m__f");
        check("g", Some("m"), "g");
        check("g", None, "g");
        check("gone", Some("n"), "gone");
        let tool = tools.seen_as("m__f").unwrap();
        assert_eq!((tool.name.as_str(), tool.namespace.as_deref()), ("f", Some("m")));
    }

    #[test]
    fn free_text_becomes_one_argument() {
        let list = r#"[{"type":"custom","name":"apply_patch","description":"Edits files.","format":{"type":"grammar","syntax":"lark","definition":"start: x"}}]"#;
        let json = offered(list);
        assert!(json.contains(r#""description":"Edits files.\n\nThe input follows this lark grammar:\nstart: x""#), "{json}");
        assert!(json.contains(r#""required":["input"]"#), "{json}");
        assert!(offered(r#"[{"type":"custom","name":"c","description":"d","format":{"type":"text"}}]"#).contains(r#""description":"d""#));
        serde_json::from_str::<serde_json::Value>(&offered(r#"[{"type":"local_shell"}]"#)).unwrap();
    }

    #[test]
    fn tools_of_a_vendor_are_left_out() {
        let tools = read(r#"[{"type":"web_search"},{"type":"mcp","server_label":"x"},{"type":"function","name":"f"}]"#).unwrap();
        assert_eq!(tools.list.len(), 1);
        assert_eq!(tools.echo, [r#"{"type":"function","name":"f","description":null,"parameters":null,"strict":null}"#]);
        assert!(read(r#"[{"type":"web_search"}]"#).unwrap().offer(|_| true).is_none());
    }

    #[test]
    fn faults_are_named() {
        let check = |list: &str, param: &str| assert_eq!(read(list).unwrap_err().param.as_deref(), Some(param), "{list}");
        check("3", "tools");
        check("[3]", "tools[0]");
        check(r#"[{"type":"function"}]"#, "tools[0].name");
        check(r#"[{"type":"function","function":{"name":"f"}}]"#, "tools[0].name");
        check(r#"[{"type":"custom","name":""}]"#, "tools[0].name");
        check(r#"[{"type":"namespace","tools":[]}]"#, "tools[0].name");
        check(r#"[{"type":"namespace","name":"n","tools":[{"type":"function"}]}]"#, "tools[0].tools[0].name");
        check(r#"[{"type":"namespace","name":"n","tools":3}]"#, "tools[0]");
    }
}
