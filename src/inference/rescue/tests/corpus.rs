//! Runs the cases in `tests/corpus/`: one file per form, each case a text with what is read from it.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use crate::inference::offer::{Offer, Tool};
use crate::inference::rescue::{Rescued, rescue, suffix::Suffix};

/// A file of the corpus.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Corpus {
    /// The form as which the calls of its cases are read.
    form: String,
    case: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    text: String,
    /// The tools that are offered; all of `tools.json` where it is not said.
    tools: Option<Vec<String>>,
    /// Each as `name arguments`; none where the text is nothing but text.
    #[serde(default)]
    calls: Vec<String>,
    /// The text around the calls.
    #[serde(default)]
    content: String,
    /// The form, where it is not the file's.
    form: Option<String>,
}

/// Fewer cases say little about a dialect.
const CASES_MIN: usize = 12;

#[test]
fn corpus() {
    let mut failures = Vec::new();
    for (path, corpus) in files() {
        let file = path.file_stem().unwrap().to_string_lossy().into_owned();
        assert!(corpus.case.len() >= CASES_MIN, "{file} has {} cases", corpus.case.len());
        for case in corpus.case {
            let found = rescue(&case.text, 0, &offer(case.tools.as_deref()));
            let form = found.as_ref().map(|found| found.form.as_str().to_owned());
            let content = found.as_ref().map(|found| found.content.clone()).unwrap_or_default();
            let calls = found.map(|found| found.calls).unwrap_or_default();
            let calls: Vec<_> = calls.iter().map(|call| format!("{} {}", call.name, call.arguments)).collect();
            let expected_form = (!case.calls.is_empty()).then(|| case.form.unwrap_or(corpus.form.clone()));
            if (&calls, &content, &form) != (&case.calls, &case.content, &expected_form) {
                failures.push(format!("{file}: {}\n  {calls:?}\n  {content:?} {form:?}", case.name));
            }
        }
    }
    assert!(failures.is_empty(), "{} failed:\n{}", failures.len(), failures.join("\n"));
}

/// Nothing of a call is let go while the text runs.
#[test]
fn calls_are_held_in_a_running_text() {
    let mut failures = Vec::new();
    for (path, corpus) in files() {
        for case in corpus.case.iter().filter(|case| !case.calls.is_empty()) {
            let offer = offer(case.tools.as_deref());
            let mut suffix = Suffix::new(1 << 16);
            let mut text = String::new();
            for character in case.text.chars() {
                text.push(character);
                suffix.advance(&text, &offer);
            }
            let (whole, held) = (rescue(&text, 0, &offer), rescue(&text, suffix.free(), &offer));
            let calls = |rescued: Option<Rescued>| rescued.map(|rescued| rescued.calls);
            // A name that nobody offered is shown before the marker behind it comes.
            let is_offered = |call: &String| offer.find(call.split(' ').next().unwrap()).is_some();
            if calls(whole) != calls(held) && case.calls.iter().all(is_offered) {
                failures.push(format!("{}: {} {:?}", path.display(), case.name, text.split_at(suffix.free())));
            }
        }
    }
    assert!(failures.is_empty(), "{} failed:\n{}", failures.len(), failures.join("\n"));
}

/// A form without a row or without cases would be one that nobody knows.
#[test]
fn every_form_is_described() {
    let table = include_str!("../../../../docs/dialects.md");
    for (path, corpus) in files() {
        let file = path.file_name().unwrap().to_string_lossy().into_owned();
        assert!(table.contains(&format!("`{file}`")), "{file}");
        assert!(table.contains(&format!("| `{}` |", corpus.form)), "{}", corpus.form);
    }
}

/// The files of the corpus, in the order of their names.
fn files() -> Vec<(PathBuf, Corpus)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<_> = paths.filter(|path| path.extension().is_some_and(|extension| extension == "toml")).collect();
    paths.sort();
    let parse = |path: &PathBuf| toml::from_str(&std::fs::read_to_string(path).unwrap());
    paths.into_iter().map(|path| (path.clone(), parse(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())))).collect()
}

/// The tools of `tools.json`, or those of them that are named.
fn offer(named: Option<&[String]>) -> Offer {
    let tools: Vec<Value> = serde_json::from_str(include_str!("../../../../tests/corpus/tools.json")).unwrap();
    let tools = tools.into_iter().map(|tool| Tool::new(tool["name"].as_str().unwrap().to_owned(), tool["parameters"].clone()));
    let is_named = |tool: &Tool| named.is_none_or(|named| named.contains(&tool.name));
    Offer::of(tools.filter(is_named).collect())
}
