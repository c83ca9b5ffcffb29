//! `/tools`: the tools of all MCP servers as one list, those that no model sees too.

use std::collections::HashMap;

use bytes::Bytes;
use hyper::{Response, StatusCode};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::{
    budget::{Account, access::Access},
    chat::{Problem, Servers, problem::Kind},
    server::{State, reply},
    tools::{
        Ask, Toolbox,
        catalog::{Listed, Row},
        server::State as ServerState,
    },
};

#[derive(Serialize)]
struct List<'a> {
    count: usize,
    tools: Vec<Tool<'a>>,
}

/// What a model knows as one tool.
#[derive(Serialize)]
struct Tool<'a> {
    name: &'a str,
    description: &'a str,
    input_schema: Option<&'a RawValue>,
    servers: Vec<Place<'a>>,
}

/// The tool on one server.
#[derive(Serialize)]
struct Place<'a> {
    server: &'a str,
    tool: &'a str,
    tags: &'a [String],
    state: ServerState,
    annotations: Annotations,
    policy: &'static str,
    hash: &'a str,
    changed: bool,
    withheld: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Annotations {
    read_only_hint: bool,
    destructive_hint: bool,
    idempotent_hint: bool,
    open_world_hint: bool,
}

/// The list as `account` may use it, or what of it one server has, which `?server=` names.
pub(in crate::server) fn list(state: &State, query: Option<&str>, account: &Account) -> Result<Response<reply::Body>, Problem> {
    let wanted = query.into_iter().flat_map(|query| query.split('&')).find_map(|pair| pair.strip_prefix("server="));
    let servers = state.toolbox.as_ref().map(|toolbox| toolbox.servers()).unwrap_or_default();
    if let Some(wanted) = wanted
        && !servers.iter().any(|server| server.config.id == wanted)
    {
        let message = format!("There is no MCP server `{wanted}`.");
        return Err(Problem::new(Kind::NotFound, message).with_code("mcp_server_not_found"));
    }
    let body = state
        .toolbox
        .as_ref()
        .map_or_else(|| write(&List { count: 0, tools: Vec::new() }), |toolbox| merged(toolbox, wanted, &account.tools));
    Ok(reply::json(StatusCode::OK, body))
}

/// What is known of a server beside its tools.
type Known<'a> = HashMap<&'a str, (&'a [String], ServerState)>;

fn merged(toolbox: &Toolbox, wanted: Option<&str>, access: &Access) -> Bytes {
    let catalog = toolbox.snapshot();
    let known: Known<'_> =
        toolbox.servers().iter().map(|server| (&*server.config.id, (&*server.config.tags, server.view().state))).collect();
    // What others may use is not told of, in the descriptions either.
    let narrowed = (!access.is_open()).then(|| catalog.offer(Ask { servers: &Servers::Attached, access, taken: &[], seen: &[] }));
    let mut rows: Vec<Row<'_>> = catalog.rows().collect();
    if let Some(offer) = &narrowed {
        for row in &mut rows {
            row.tools.retain(|listed| access.allows(&listed.definition.for_rules()));
            row.shown = offer.find(row.name);
        }
    }
    let tools: Vec<Tool<'_>> = rows.iter().filter_map(|row| tool(row, &known, wanted)).collect();
    write(&List { count: tools.len(), tools })
}

fn tool<'a>(row: &Row<'a>, known: &Known<'a>, wanted: Option<&str>) -> Option<Tool<'a>> {
    let is_wanted = |listed: &&&Listed| wanted.is_none_or(|wanted| wanted == &*listed.definition.server);
    let servers: Vec<Place<'_>> = row.tools.iter().filter(is_wanted).map(|listed| place(listed, known)).collect();
    let first = row.tools.first().filter(|_| !servers.is_empty())?;
    // One that no model sees is told of as its first server tells.
    let (description, schema) = match row.shown {
        Some(entry) => (&*entry.description, &entry.schema),
        None => (&*first.definition.description, &first.definition.schema),
    };
    Some(Tool { name: row.name, description, input_schema: serde_json::from_slice(schema).ok(), servers })
}

fn place<'a>(listed: &'a Listed, known: &Known<'a>) -> Place<'a> {
    let definition = &listed.definition;
    let (tags, state) = known.get(&*definition.server).copied().unwrap_or_default();
    let said = definition.annotations;
    let annotations = Annotations {
        read_only_hint: said.read_only,
        destructive_hint: said.destructive,
        idempotent_hint: said.idempotent,
        open_world_hint: said.open_world,
    };
    Place {
        server: &definition.server,
        tool: &definition.name,
        tags,
        state,
        annotations,
        policy: listed.policy.as_str(),
        hash: &listed.hash,
        changed: listed.changed,
        withheld: listed.withheld,
    }
}

fn write(list: &List<'_>) -> Bytes {
    // Text and raw JSON always serialise.
    serde_json::to_vec(list).unwrap_or_default().into()
}
