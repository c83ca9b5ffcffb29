//! Keeps `src/` true to the layer table in `src/lib.rs`.

#![expect(clippy::unwrap_used, clippy::string_slice, reason = "a test may panic")]

use std::{
    fs,
    path::{Path, PathBuf},
};

/// One row per module: what it may import. Rows are in the order a request travels, so every
/// name on the right must have a row further down.
const LAYERS: &[(&str, &[&str])] = &[
    ("eval", &["agent", "workflow", "inference", "backend", "chat", "trace"]),
    ("server", &["api", "agent", "tools", "backend", "budget", "resilience", "wire", "chat", "trace", "secret"]),
    ("report", &["budget", "chat"]),
    ("api", &["chat", "wire"]),
    ("agent", &["workflow", "inference", "tools", "budget", "context", "resilience", "wire", "chat", "trace", "store"]),
    ("workflow", &["chat"]),
    ("inference", &["budget", "context", "backend", "wire", "chat", "trace"]),
    ("context", &["chat"]),
    ("tools", &["budget", "upstream", "resilience", "wire", "chat", "trace", "store", "secret", "glob"]),
    ("budget", &["upstream", "redis", "resilience", "wire", "chat", "trace", "secret", "glob"]),
    ("backend", &["upstream", "resilience", "wire", "chat", "trace", "secret"]),
    ("upstream", &["resilience", "secret"]),
    ("trace", &["chat", "secret"]),
    ("store", &["redis", "secret"]),
    ("redis", &["secret"]),
    ("chat", &["secret"]),
    ("wire", &[]),
    ("resilience", &[]),
    ("secret", &[]),
    ("glob", &[]),
];
const MAX_LINES: usize = 400;
const DUMPING_GROUNDS: &[&str] = &["util", "utils", "helper", "helpers", "common", "misc", "manager"];

#[test]
fn imports_point_the_way_the_request_travels() {
    for (index, (module, allowed)) in LAYERS.iter().enumerate() {
        for target in *allowed {
            let row = LAYERS.iter().position(|(name, _)| name == target);
            assert!(row > Some(index), "{module} -> {target} points upstream");
        }
    }
    let mut wrong = Vec::new();
    for (module, file, text) in sources() {
        let Some((_, allowed)) = LAYERS.iter().find(|(name, _)| *name == module) else { continue };
        for target in imports(&text) {
            if target != module && !allowed.contains(&target.as_str()) {
                wrong.push(format!("{}: {module} -> {target}", file.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn files_are_short_named_for_their_subject_and_open_with_a_module_doc() {
    for (_, file, text) in sources() {
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        assert!(!DUMPING_GROUNDS.contains(&name.as_str()), "{}", file.display());
        assert!(text.starts_with("//!") || name == "tests", "{} has no module doc", file.display());
        assert!(text.lines().count() <= MAX_LINES || name == "tests", "{} is too long", file.display());
    }
}

/// The modules named behind `crate::`, alone or in braces: `crate::{agent, chat::{Event, Meta}}` names `agent` and `chat`.
fn imports(text: &str) -> Vec<String> {
    let word = |text: &str| text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    let mut found = Vec::new();
    for (at, path) in text.match_indices("crate::") {
        let rest = &text[at + path.len()..];
        if !rest.starts_with('{') {
            found.push(word(rest));
            continue;
        }
        let mut depth = 0;
        for (at, c) in rest.char_indices() {
            depth += match c {
                '{' => 1,
                '}' => -1,
                _ => 0,
            };
            if depth == 0 {
                break;
            }
            if depth == 1 && matches!(c, '{' | ',') {
                found.push(word(rest[at + 1..].trim_start()));
            }
        }
    }
    // A trailing comma names nothing.
    found.retain(|name| !name.is_empty());
    found
}

#[test]
fn imports_are_read_alone_and_in_braces() {
    let text = "use crate::wire; use crate::{\n    agent::{self, Run},\n    chat::Event,\n}; crate::secret::Secret";
    assert_eq!(imports(text), ["wire", "agent", "chat", "secret"]);
}

fn sources() -> Vec<(String, PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (mut stack, mut found) = (vec![root.clone()], Vec::new());
    while let Some(dir) = stack.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                stack.push(path)
            } else if path.extension().is_some_and(|e| e == "rs") {
                let module = path.strip_prefix(&root).unwrap().iter().next().unwrap();
                let module = module.to_string_lossy().trim_end_matches(".rs").to_owned();
                let text = fs::read_to_string(&path).unwrap();
                found.push((module, path, text));
            }
        }
    }
    found
}
