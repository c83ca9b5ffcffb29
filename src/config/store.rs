//! `[store]`: what outlives a request.

use std::time::Duration;

use toml::Value;

use super::{keys::Keys, units};
use crate::{
    secret::{Secret, Template},
    store::{Config, Redis},
};

pub(super) fn resolve(keys: &mut Keys<'_>) -> Config {
    // Conversations and lists of tools of a busy day.
    let bytes_max = keys.take("store.max_memory", 64 << 20, units::bytes);
    // Apart from what others keep in the same Redis.
    let prefix = keys.take("store.redis_prefix", "toolgate:".to_owned(), units::text);
    // Many times what one in the same network takes; a request waits no longer for one that does not answer.
    let timeout = keys.take("store.redis_timeout", Duration::from_millis(250), units::duration);
    let redis = filled(keys, "store.redis");
    let password = filled(keys, "store.redis_password");
    let redis = redis.and_then(|url| match Redis::new(with_password(&url, password.as_ref()), prefix, timeout) {
        Ok(redis) => Some(redis),
        Err(invalid) => {
            keys.fault("store.redis", invalid.to_string());
            None
        }
    });
    Config { bytes_max, redis }
}

/// The text at `path` with its `${NAME}`s filled in from the environment.
pub(super) fn filled(keys: &mut Keys<'_>, path: &str) -> Option<Secret> {
    let template = keys.take(path, None, |value: &Value| units::text(value).map(|text| Some(Template::new(&text))))?;
    match template.fill(&|name| keys.variable(name)) {
        Ok(secret) => Some(secret),
        Err(unset) => {
            keys.fault(path, unset.to_string());
            None
        }
    }
}

/// `url` with `password` where it has none of its own.
fn with_password(url: &Secret, password: Option<&Secret>) -> Secret {
    let Some(password) = password else { return url.clone() };
    let Some((scheme, rest)) = url.expose().split_once("://").filter(|(_, rest)| !rest.contains('@')) else { return url.clone() };
    Secret::new(&format!("{scheme}://:{}@{rest}", escaped(password.expose())))
}

/// `text` as a part of an address.
fn escaped(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~');
    text.bytes().map(|byte| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::config::from_text;

    fn resolved(file: &str) -> Result<Config, Vec<String>> {
        let env = HashMap::from([("REDIS_PASSWORD".to_owned(), "p@ss/wörd".to_owned())]);
        let (config, problems) = from_text(file, &env);
        if problems.is_empty() { Ok(config.store) } else { Err(problems.iter().map(ToString::to_string).collect()) }
    }

    fn redis(url: &str) -> Option<Redis> {
        Redis::new(Secret::new(url), "toolgate:".to_owned(), Duration::from_millis(250)).ok()
    }

    #[test]
    fn a_password_comes_from_the_environment() {
        let expected = redis("redis://:p%40ss%2Fw%C3%B6rd@cache:6379/1");
        let config = resolved("[store]\nredis = \"redis://cache:6379/1\"\nredis_password = \"${REDIS_PASSWORD}\"");
        assert_eq!(config.unwrap().redis, expected);
        let own = resolved("[store]\nredis = \"redis://me:mine@cache\"\nredis_password = \"${REDIS_PASSWORD}\"");
        assert_eq!(own.unwrap().redis, redis("redis://me:mine@cache"));
        assert_eq!(resolved("").unwrap().redis, None);
    }

    #[test]
    fn what_cannot_be_used_is_told_with_its_path() {
        let check = |file: &str, path: &str| {
            let problems = resolved(file).unwrap_err();
            assert!(problems.len() == 1 && problems[0].starts_with(path), "{problems:?}");
        };
        check("[store]\nredis = \"cache:6379\"", "store.redis: ");
        check("[store]\nredis = \"redis://${NO_SUCH_HOST}\"", "store.redis: ");
        check("[store]\nredis = \"redis://cache\"\nredis_password = \"${NO_SUCH_PASSWORD}\"", "store.redis_password: ");
    }
}
