//! What only a server of the Messages API has settings for.

use crate::backend::anthropic::{Config, ThinkBy};
use crate::config::{keys::Keys, units};

/// The settings of the server whose table is at `path`.
pub(super) fn resolve(keys: &mut Keys<'_>, path: &str) -> Config {
    let at = |key: &str| format!("{path}.{key}");
    Config {
        // Room for a page, or for a long call; it is no more than what every model allows.
        max_tokens: keys.take(&at("max_tokens"), 4096, |value| units::count(value, 1, 1 << 24).map(u64::from)),
        // A conversation is sent again with every turn. A server without a cache does not look at the marks.
        cache: keys.take(&at("cache"), true, units::flag),
        // What llama-server understands, and the models up to Claude 4.6.
        thinking: keys.take(&at("thinking"), ThinkBy::Budget, |value| {
            units::word(value, &[("budget", ThinkBy::Budget), ("effort", ThinkBy::Effort)])
        }),
        // A client that sets a temperature means it.
        sampling: keys.take(&at("sampling"), true, units::flag),
        // The API's forms say less than the schemas of tools, llama-server knows none, and a forced tool is forced as well.
        output_format: keys.take(&at("output_format"), false, units::flag),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashMap};

    use super::*;

    fn resolved(lines: &str) -> (Config, Vec<String>) {
        let env = HashMap::new();
        let mut keys = Keys::new(format!("[backend]\n{lines}").parse().unwrap(), &env, BTreeMap::new());
        let config = resolve(&mut keys, "backend");
        (config, keys.finish().iter().map(ToString::to_string).collect())
    }

    #[test]
    fn settings_are_taken_as_people_write_them() {
        assert_eq!(resolved(""), (Config::default(), Vec::new()));
        let all = "max_tokens = 100\ncache = false\nthinking = \"effort\"\nsampling = \"off\"\noutput_format = true";
        let set = Config { max_tokens: 100, cache: false, thinking: ThinkBy::Effort, sampling: false, output_format: true };
        assert_eq!(resolved(all), (set, Vec::new()));
    }

    #[test]
    fn mistakes_are_told() {
        for (line, path) in [("max_tokens = 0", "backend.max_tokens: "), ("thinking = \"hard\"", "backend.thinking: ")] {
            let (_, problems) = resolved(line);
            assert!(problems.len() == 1 && problems[0].starts_with(path), "{line}: {problems:?}");
        }
    }
}
