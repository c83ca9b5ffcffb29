//! `[[backend]]` and `[[model]]`: the model servers, and the names by which clients ask for models.

use std::{collections::HashSet, time::Duration};

use hyper::Uri;
use toml::Value;

use super::{keys::Keys, kind, units};
use crate::{
    backend::{
        self, Tools,
        router::{self, Candidate},
        target,
    },
    resilience::{breaker, bulkhead},
    secret::Secret,
};

const SECOND: Duration = Duration::from_secs(1);

/// Every backend and every model that is named. There is always one backend at least.
pub(super) fn resolve(keys: &mut Keys<'_>) -> router::Config {
    let tables = keys.tables("backend");
    let tables = if tables.is_empty() { vec!["backend".to_owned()] } else { tables };
    let is_only = tables.len() == 1;
    let mut backends: Vec<backend::Config> = tables.iter().map(|path| backend(keys, path, is_only)).collect();
    check_names(keys, &tables, &backends);
    let models = keys.tables("model").iter().map(|path| model(keys, path, &backends)).collect::<Vec<_>>();
    // Where nothing else is said, the first backend is asked for whatever clients ask for; with tables of models, only for those.
    if models.is_empty()
        && is_only
        && let Some(only) = backends.first_mut()
    {
        only.is_default = true;
    }
    let config = router::Config { backends, models };
    for fault in config.faults() {
        keys.fault("model", fault);
    }
    config
}

fn backend(keys: &mut Keys<'_>, path: &str, is_only: bool) -> backend::Config {
    let at = |key: &str| format!("{path}.{key}");
    let kind = kind::resolve(keys, path);
    let name = keys.take(&at("name"), None, |value| units::text(value).and_then(name).map(Some));
    if name.is_none() && !is_only {
        keys.fault(at("name"), "is missing: every backend needs one where there are several");
    }
    let default_url = Uri::from_static(kind.default_url());
    backend::Config {
        name: name.unwrap_or_else(|| kind.as_str().to_owned()),
        target: target::Config { url: keys.take(&at("url"), default_url, url), api_key: api_key(keys, &at("api_key")), slot: kind.slot() },
        kind,
        is_default: keys.take(&at("default"), false, units::flag),
        tools: keys.take(&at("tools"), Tools::Auto, |value| {
            units::word(value, &[("auto", Tools::Auto), ("native", Tools::Native), ("prompt", Tools::Prompt)])
        }),
        // Most templates take messages as they come, and more is told by not joining them.
        strict_alternation: keys.take(&at("strict_alternation"), false, units::flag),
        // It changes answers unasked.
        recommended_sampling: keys.take(&at("recommended_sampling"), false, units::flag),
        bulkhead: bulkhead(keys, path),
        // Soon enough to come back to one that was restarted.
        probe_every: keys.take(&at("probe_every"), Some(10 * SECOND), units::duration_or_off),
        breaker: breaker::Config {
            // A server that failed so often in a row will fail the next one too.
            failures_max: keys.take(&at("breaker_failures"), 5, |value| units::count(value, 0, 1 << 20)),
            // As long as a model takes to load, at first.
            open_for: keys.take(&at("breaker_open"), 10 * SECOND, units::duration),
        },
    }
}

fn bulkhead(keys: &mut Keys<'_>, path: &str) -> Option<bulkhead::Config> {
    let at = |key: &str| format!("{path}.{key}");
    let count = |value: &Value| units::count(value, 0, 1 << 20).map(|count| usize::try_from(count).unwrap_or(usize::MAX));
    // Model servers have slots and a queue of their own.
    let inside_max = keys.take(&at("max_concurrent"), 0, count);
    // Each waits for all before it: who comes later is better told to come again.
    let waiting_max = keys.take(&at("max_queue"), 64, count);
    // Longer than an answer usually takes, shorter than clients wait.
    let wait_max = keys.take(&at("queue_timeout"), 60 * SECOND, units::duration);
    (inside_max > 0).then_some(bulkhead::Config { inside_max, waiting_max, wait_max })
}

fn model(keys: &mut Keys<'_>, path: &str, backends: &[backend::Config]) -> router::Model {
    let at = |key: &str| format!("{path}.{key}");
    let model = keys.take(&at("name"), String::new(), units::text);
    if model.is_empty() {
        keys.fault(at("name"), "is missing: it is what clients ask for");
    }
    let first = || backends.first().map(|_| Candidate { backend: 0, model: model.clone(), weight: 1 }).into_iter().collect();
    let default = if backends.len() == 1 { first() } else { Vec::new() };
    let candidates = keys.take(&at("backends"), default, |value| candidates(value, &model, backends));
    if candidates.is_empty() {
        keys.fault(at("backends"), "is missing: it lists the backends that have the model");
    }
    router::Model {
        aliases: keys.take(&at("aliases"), Vec::new(), units::texts),
        fallbacks: keys.take(&at("fallbacks"), Vec::new(), units::texts),
        sampling: sampling(keys, &at("sampling")),
        name: model,
        candidates,
    }
}

/// Each a backend's name, or a table with the model's name there and its share.
fn candidates(value: &Value, model: &str, backends: &[backend::Config]) -> Result<Vec<Candidate>, String> {
    let expected =
        || "must be a list of backends' names, or of tables such as { backend = \"gpu\", model = \"qwen3:8b\", weight = 2 }".to_owned();
    let known = |name: &str| {
        let names = || backends.iter().map(|backend| backend.name.as_str()).collect::<Vec<_>>().join(", ");
        backends.iter().position(|backend| backend.name == name).ok_or_else(|| format!("there is no backend `{name}`, only {}", names()))
    };
    let candidate = |entry: &Value| {
        if let Some(name) = entry.as_str() {
            return Ok(Candidate { backend: known(name)?, model: model.to_owned(), weight: 1 });
        }
        let table = entry.as_table().ok_or_else(expected)?;
        if let Some(key) = table.keys().find(|key| !matches!(key.as_str(), "backend" | "model" | "weight")) {
            return Err(format!("`{key}` is not a setting of a model's backend"));
        }
        let name = table.get("backend").and_then(Value::as_str).ok_or_else(expected)?;
        let model = table.get("model").map_or_else(|| Ok(model.to_owned()), units::text)?;
        let weight = table.get("weight").map_or(Ok(1), |weight| units::count(weight, 0, 1000))?;
        Ok(Candidate { backend: known(name)?, model, weight })
    };
    value.as_array().ok_or_else(expected)?.iter().map(candidate).collect()
}

/// The fields of a request that a model gets where the client does not set them.
fn sampling(keys: &mut Keys<'_>, path: &str) -> Vec<(String, bytes::Bytes)> {
    let mut sampling = Vec::new();
    for (name, value) in keys.take_table(path) {
        // What says how a reply comes is the client's alone.
        let is_clients = ["model", "messages", "stream", "stream_options", "n"].contains(&name.as_str()) || name.starts_with("tool");
        match serde_json::to_vec(&value) {
            _ if is_clients => keys.fault(format!("{path}.{name}"), "is for clients to say"),
            Ok(json) if !name.contains('.') && !value.is_datetime() => sampling.push((name, json.into())),
            _ => keys.fault(format!("{path}.{name}"), "must be a number, a string, a boolean or a list"),
        }
    }
    sampling
}

fn check_names(keys: &mut Keys<'_>, tables: &[String], backends: &[backend::Config]) {
    let mut seen = HashSet::new();
    for (path, backend) in tables.iter().zip(backends) {
        if !seen.insert(backend.name.as_str()) {
            keys.fault(format!("{path}.name"), format!("`{}` is the name of another backend", backend.name));
        }
    }
    let defaults: Vec<&str> = backends.iter().filter(|backend| backend.is_default).map(|backend| backend.name.as_str()).collect();
    if defaults.len() > 1 {
        keys.fault("backend", format!("only one can be the default, not {}", defaults.join(" and ")));
    }
}

pub(super) fn name(name: String) -> Result<String, String> {
    let is_plain = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    if is_plain { Ok(name) } else { Err("must be made of letters, digits, `-`, `_` and `.`".to_owned()) }
}

/// The address without `/v1`, which people write since clients want it.
pub(super) fn url(value: &Value) -> Result<Uri, String> {
    let typed = units::text(value)?;
    let trimmed = typed.trim().trim_end_matches('/');
    let trimmed = trimmed.strip_suffix("/v1").unwrap_or(trimmed);
    let uri: Uri = trimmed.parse().map_err(|error| format!("is not a URL: {error}"))?;
    match (uri.scheme_str(), uri.authority()) {
        (Some("http" | "https"), Some(authority)) if !authority.as_str().contains('@') => {}
        (Some("http" | "https"), Some(_)) => return Err("must not hold a password: use api_key".to_owned()),
        _ => return Err("must begin with http:// or https://, such as \"http://127.0.0.1:8080\"".to_owned()),
    }
    if uri.query().is_some() {
        return Err("must not hold a query".to_owned());
    }
    Ok(uri)
}

/// The key at `path`, or the one in the variable that it names as `${VARIABLE}`.
pub(super) fn api_key(keys: &mut Keys<'_>, path: &str) -> Option<Secret> {
    let typed = keys.take(path, None, |value| units::text(value).map(Some))?;
    let key = match typed.trim().strip_prefix("${").and_then(|name| name.strip_suffix('}')) {
        None if typed.contains("${") => Err("must be a key, or ${VARIABLE} and nothing else".to_owned()),
        None => Ok(typed),
        Some(name) => keys.variable(name).ok_or_else(|| format!("the environment variable {name} is not set")),
    };
    match key.and_then(|key| bearer(&key)) {
        Ok(key) => Some(key),
        Err(fault) => {
            keys.fault(path, fault);
            None
        }
    }
}

fn bearer(key: &str) -> Result<Secret, String> {
    let key = key.trim();
    if key.is_empty() || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("must be one or more visible ASCII characters".to_owned());
    }
    Ok(Secret::new(&format!("Bearer {key}")))
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashMap};

    use super::*;

    #[test]
    fn a_url_is_taken_as_people_write_it() {
        let check = |typed: &str, expected: Option<&str>| {
            let uri = url(&Value::from(typed)).ok().map(|uri| uri.to_string());
            assert_eq!(uri.as_deref(), expected, "{typed}");
        };
        check("http://127.0.0.1:8080", Some("http://127.0.0.1:8080/"));
        check("http://127.0.0.1:8080/v1/", Some("http://127.0.0.1:8080/"));
        check("https://host/api/v1", Some("https://host/api"));
        check("127.0.0.1:8080", None);
        check("ftp://host", None);
        check("http://user:pass@host", None);
        check("http://host/?a=b", None);
    }

    fn resolved(file: &str, env: &[(&str, &str)]) -> Result<router::Config, Vec<String>> {
        let env: HashMap<String, String> = env.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let mut keys = Keys::new(file.parse().unwrap(), &env, BTreeMap::new());
        let config = resolve(&mut keys);
        let problems: Vec<_> = keys.finish().iter().map(ToString::to_string).collect();
        if problems.is_empty() { Ok(config) } else { Err(problems) }
    }

    #[test]
    fn one_backend_takes_every_name() {
        for file in ["", "[backend]\nurl = \"http://h:1\"", "[[backend]]\nurl = \"http://h:1\""] {
            let config = resolved(file, &[]).unwrap();
            assert!(config.backends[0].is_default && config.models.is_empty(), "{file}");
        }
        let config = resolved("[[backend]]\nurl = \"http://h:1\"", &[("TOOLGATE_BACKEND_URL", "http://h:2")]).unwrap();
        assert_eq!(config.backends[0].target.url, "http://h:2/");
    }

    #[test]
    fn several_backends_and_models() {
        let file = r#"
            [[backend]]
            name = "gpu"
            url = "http://gpu:8080"
            api_key = "${GPU_KEY}"
            max_concurrent = 1
            [[backend]]
            name = "cpu"
            kind = "openai"
            url = "http://cpu:8000"
            [[model]]
            name = "small"
            aliases = ["gpt-4o"]
            backends = ["gpu", { backend = "cpu", model = "qwen", weight = 3 }]
            sampling = { temperature = 0.5, stop = ["x"] }
        "#;
        let config = resolved(file, &[("GPU_KEY", "secret-key")]).unwrap();
        assert_eq!(config.backends[0].target.api_key, Some(Secret::new("Bearer secret-key")));
        assert_eq!(config.backends[0].bulkhead.unwrap().inside_max, 1);
        assert!(!config.backends[0].is_default && matches!(config.backends[1].kind, backend::Kind::OpenAi(_)));
        let model = &config.models[0];
        let candidate = |backend, model: &str, weight| Candidate { backend, model: model.to_owned(), weight };
        assert_eq!(model.candidates, [candidate(0, "small", 1), candidate(1, "qwen", 3)]);
        let sampling: Vec<_> = model.sampling.iter().map(|(name, value)| (name.as_str(), value.as_ref())).collect();
        assert_eq!(sampling, [("stop", &b"[\"x\"]"[..]), ("temperature", b"0.5")]);
    }

    #[test]
    fn a_table_counts_though_it_is_empty() {
        let problems = resolved("[[backend]]\n[[backend]]\nname = \"a\"\n[[model]]", &[]).unwrap_err();
        for expected in ["backend[0].name: is missing", "model.name: is missing"] {
            assert!(problems.iter().any(|problem| problem.starts_with(expected)), "{expected}: {problems:#?}");
        }
    }

    #[test]
    fn sampling_is_what_a_client_may_leave_open() {
        for wrong in ["stream = true", "n = 2", "response_format = { type = \"text\" }"] {
            let problems = resolved(&format!("[[model]]\nname = \"m\"\nsampling = {{ {wrong} }}"), &[]).unwrap_err();
            assert!(problems.iter().all(|problem| problem.starts_with("model.sampling.")), "{problems:?}");
        }
    }

    #[test]
    fn every_mistake_is_told_at_once() {
        let file = r#"
            [[backend]]
            name = "a"
            kind = "lama"
            url = "localhost:8080"
            default = true
            [[backend]]
            name = "a"
            api_key = "${NO_SUCH_KEY}"
            default = true
            typo = 1
            [[model]]
            name = "m"
            backends = ["b"]
            fallbacks = ["n"]
            [[model]]
            name = "n"
            backends = ["a"]
            fallbacks = ["m"]
        "#;
        let problems = resolved(file, &[("TOOLGATE_BACKEND_URL", "http://h")]).unwrap_err();
        let expected = [
            ("backend[0].kind: ", "\"llama_server\""),
            ("backend[0].url: ", "http://"),
            ("backend[1].api_key: ", "NO_SUCH_KEY"),
            ("backend[1].typo: ", "is not a setting"),
            ("backend[1].name: ", "another backend"),
            ("backend: ", "only one can be the default"),
            ("backend.url: ", "TOOLGATE_BACKEND_URL"),
            ("model[0].backends: ", "no backend `b`"),
            ("model[0].backends: ", "is missing"),
            ("model: ", "a loop"),
        ];
        for (path, part) in expected {
            assert!(problems.iter().any(|problem| problem.starts_with(path) && problem.contains(part)), "{path} {part}: {problems:#?}");
        }
        assert_eq!(problems.len(), expected.len(), "{problems:#?}");
    }
}
