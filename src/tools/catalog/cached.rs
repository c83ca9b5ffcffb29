//! The lists of the servers in the store, so that a start needs no server to know its tools.
//!
//! A list that was kept is offered at once, as one that may be stale; the first connection brings the present one.

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use crate::{
    store::Store,
    tools::{
        config::{Server, Transport},
        definition::{Annotations, Definition, hex},
    },
};

/// Lists that outlive the process.
#[derive(Debug, Clone)]
pub struct Cache {
    store: Arc<Store>,
}

/// How long a list is kept: old ones are offered too, and renewed behind it. What is forgotten is the list of a server that is gone.
const KEPT_FOR: Duration = Duration::from_hours(30 * 24);

/// A list that was kept.
#[derive(Debug)]
pub struct Cached {
    /// The tools.
    pub tools: Vec<Definition>,
    /// How long ago they were listed.
    pub age: Duration,
}

/// A list as it is kept.
#[derive(Serialize, Deserialize)]
struct Kept<'a> {
    /// Seconds since 1970.
    listed_at: u64,
    #[serde(borrow)]
    tools: Vec<Tool<'a>>,
}

#[derive(Serialize, Deserialize)]
struct Tool<'a> {
    name: String,
    description: String,
    #[serde(borrow)]
    schema: &'a RawValue,
    read_only: bool,
    destructive: bool,
    idempotent: bool,
    open_world: bool,
}

impl Cache {
    /// Lists in `store`.
    pub fn new(store: Arc<Store>) -> Self {
        Self { store }
    }

    /// The list of `server` that was kept, if one was.
    pub async fn load(&self, server: &Server) -> Option<Cached> {
        let kept = self.store.get(&key(server)).await?;
        let kept: Kept<'_> = serde_json::from_slice(&kept).ok()?;
        let id: Arc<str> = server.id.as_str().into();
        let definition = |tool: Tool<'_>| Definition {
            server: Arc::clone(&id),
            name: tool.name,
            description: tool.description,
            schema: tool.schema.get().to_owned().into(),
            annotations: Annotations {
                read_only: tool.read_only,
                destructive: tool.destructive,
                idempotent: tool.idempotent,
                open_world: tool.open_world,
            },
        };
        let age = Duration::from_secs(now().saturating_sub(kept.listed_at));
        Some(Cached { tools: kept.tools.into_iter().map(definition).collect(), age })
    }

    /// Keeps `tools`, which `server` has now. A store that ends with the process is spared.
    pub async fn save(&self, server: &Server, tools: &[Definition]) {
        if !self.store.outlives_the_process() {
            return;
        }
        let tool = |definition: &'_ Definition| -> Option<(String, Box<RawValue>)> {
            let schema = String::from_utf8(definition.schema.to_vec()).ok()?;
            Some((definition.name.clone(), RawValue::from_string(schema).ok()?))
        };
        let schemas: Vec<_> = tools.iter().map(tool).collect();
        let tools = tools.iter().zip(&schemas).filter_map(|(definition, schema)| {
            let (name, schema) = schema.as_ref()?;
            let Annotations { read_only, destructive, idempotent, open_world } = definition.annotations;
            Some(Tool {
                name: name.clone(),
                description: definition.description.clone(),
                schema,
                read_only,
                destructive,
                idempotent,
                open_world,
            })
        });
        let kept = Kept { listed_at: now(), tools: tools.collect() };
        // Text and raw JSON always serialise.
        let Ok(kept) = serde_json::to_vec(&kept) else { return };
        self.store.put(&key(server), kept.into(), KEPT_FOR).await;
    }
}

/// Where the list of `server` is: by its id and by how it is reached, with the names of variables and headers and without their values,
/// which are or hold secrets.
fn key(server: &Server) -> String {
    let mut hasher = Sha256::new();
    let mut add = |part: &str| {
        // Its length keeps the parts apart.
        hasher.update((part.len() as u64).to_le_bytes());
        hasher.update(part);
    };
    match &server.transport {
        Transport::Stdio { command, args, env, cwd } => {
            add("stdio");
            add(command);
            args.iter().for_each(|arg| add(arg.text()));
            add("env");
            env.keys().for_each(|name| add(name));
            cwd.iter().for_each(|cwd| add(&cwd.to_string_lossy()));
        }
        Transport::Http { url, headers, .. } => {
            add("http");
            add(url.text());
            headers.keys().for_each(|name| add(name));
        }
    }
    format!("tools:{}:{}", server.id, hex(&hasher.finalize()))
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::secret::Template;

    fn server(args: &[&str], env: &[(&str, &str)]) -> Server {
        let env: BTreeMap<String, Template> = env.iter().map(|(name, value)| ((*name).to_owned(), Template::new(value))).collect();
        let args = args.iter().map(|arg| Template::new(arg)).collect();
        let transport = Transport::Stdio { command: "npx".to_owned(), args, env, cwd: None };
        Server { id: "files".to_owned(), transport, tags: Vec::new(), concurrent_max: 1, timeout: Duration::from_secs(1) }
    }

    #[test]
    fn a_list_belongs_to_how_its_server_is_started() {
        let first = key(&server(&["a", "b"], &[("TOKEN", "${T}")]));
        let check = |other: Server, same: bool| assert_eq!(first == key(&other), same, "{other:?}");
        check(server(&["a", "b"], &[("TOKEN", "a literal secret")]), true);
        check(server(&["ab"], &[("TOKEN", "${T}")]), false);
        check(server(&["a", "b"], &[]), false);
        check(Server { id: "other".to_owned(), ..server(&["a", "b"], &[("TOKEN", "${T}")]) }, false);
        assert!(first.starts_with("tools:files:"), "{first}");
    }
}
