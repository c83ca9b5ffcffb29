//! What only an Ollama has settings for.

use toml::Value;

use crate::backend::ollama::{self, NumCtx};
use crate::config::{keys::Keys, units};

/// The settings of the Ollama whose table is at `path`.
pub(super) fn resolve(keys: &mut Keys<'_>, path: &str) -> ollama::Config {
    let at = |key: &str| format!("{path}.{key}");
    ollama::Config {
        // A prompt that does not fit is cut without a word, and the tools are the first to go.
        num_ctx: keys.take(&at("num_ctx"), NumCtx::Need, num_ctx),
        // What the model was made for.
        think: keys.take(&at("think"), None, |value| think(value).map(Some)),
        // The server's own: five minutes, unless OLLAMA_KEEP_ALIVE says otherwise.
        keep_alive: keys.take(&at("keep_alive"), None, |value| keep_alive(value).map(Some)),
    }
}

fn num_ctx(value: &Value) -> Result<NumCtx, String> {
    let is_word = value.as_str().is_some_and(|word| word.parse::<u32>().is_err());
    if is_word {
        units::word(value, &[("auto", NumCtx::Need), ("server", NumCtx::Server)]).map_err(|error| format!("{error}, or a number of tokens"))
    } else {
        units::count(value, 1, 1 << 30).map(NumCtx::Fixed)
    }
}

fn think(value: &Value) -> Result<String, String> {
    let word = match value {
        Value::Boolean(think) => think.to_string(),
        _ => units::text(value)?,
    };
    let is_known = matches!(word.as_str(), "true" | "false" | "low" | "medium" | "high" | "max");
    if is_known { Ok(word) } else { Err("must be true, false, \"low\", \"medium\", \"high\" or \"max\"".to_owned()) }
}

/// A duration as Go writes it, such as `10m` or `-1s`, or a number of seconds.
fn keep_alive(value: &Value) -> Result<String, String> {
    let typed = match value {
        Value::Integer(seconds) => seconds.to_string(),
        _ => units::text(value)?,
    };
    let amount = typed.strip_prefix('-').unwrap_or(&typed);
    let unit = amount.trim_start_matches(|c: char| c.is_ascii_digit());
    let has_digits = unit.len() < amount.len();
    if has_digits && matches!(unit, "" | "s" | "m" | "h") {
        return Ok(typed);
    }
    Err("must be a duration such as \"10m\", or -1 for ever".to_owned())
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashMap};

    use super::*;

    fn resolved(file: &str) -> Result<ollama::Config, Vec<String>> {
        let env = HashMap::new();
        let mut keys = Keys::new(file.parse().unwrap(), &env, BTreeMap::new());
        let config = resolve(&mut keys, "backend");
        let problems: Vec<_> = keys.finish().iter().map(ToString::to_string).collect();
        if problems.is_empty() { Ok(config) } else { Err(problems) }
    }

    #[test]
    fn settings_are_taken_as_people_write_them() {
        let check = |line: &str, expected: ollama::Config| assert_eq!(resolved(&format!("[backend]\n{line}")), Ok(expected), "{line}");
        let unset = || ollama::Config { num_ctx: NumCtx::Need, think: None, keep_alive: None };
        check("", unset());
        check("num_ctx = \"auto\"", unset());
        check("num_ctx = \"server\"", ollama::Config { num_ctx: NumCtx::Server, ..unset() });
        check("num_ctx = 8192", ollama::Config { num_ctx: NumCtx::Fixed(8192), ..unset() });
        check("num_ctx = \"8192\"", ollama::Config { num_ctx: NumCtx::Fixed(8192), ..unset() });
        check("think = false", ollama::Config { think: Some("false".into()), ..unset() });
        check("think = \"low\"", ollama::Config { think: Some("low".into()), ..unset() });
        check("keep_alive = \"10m\"", ollama::Config { keep_alive: Some("10m".into()), ..unset() });
        check("keep_alive = -1", ollama::Config { keep_alive: Some("-1".into()), ..unset() });
    }

    #[test]
    fn mistakes_are_told() {
        for (line, path) in [
            ("num_ctx = 0", "backend.num_ctx: "),
            ("num_ctx = \"much\"", "backend.num_ctx: "),
            ("think = \"hard\"", "backend.think: "),
            ("keep_alive = \"long\"", "backend.keep_alive: "),
            ("keep_alive = \"-\"", "backend.keep_alive: "),
            ("keep_alive = \"5 m\"", "backend.keep_alive: "),
        ] {
            let problems = resolved(&format!("[backend]\n{line}")).unwrap_err();
            assert!(problems.len() == 1 && problems[0].starts_with(path), "{line}: {problems:?}");
        }
    }
}
