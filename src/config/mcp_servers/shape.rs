//! The shapes of the file: where its servers stand.
//!
//! `{"mcpServers": {id: {…}}}` is that of Claude Desktop, Cursor and many others, `{"servers": {id: {…}}}` that of VS Code, and
//! `{"servers": [{"id" or "name": id, …}]}` a list.

use std::{fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::{Value, value::RawValue};

/// A server as it is written.
pub(super) struct Written {
    /// Where it stands in the file.
    pub(super) at: String,
    /// What it is called; what is wrong with that.
    pub(super) id: Result<String, String>,
    /// Its settings.
    pub(super) fields: Value,
}

/// The servers of a file, in their order. Fails when it is not JSON or has none of the shapes.
pub(super) fn written(text: &str) -> Result<Vec<Written>, String> {
    // Some editors begin a file with it.
    let text = text.trim_start_matches('\u{feff}');
    let members: Pairs<Box<RawValue>> = serde_json::from_str(text).map_err(|error| format!("is not a JSON object: {error}"))?;
    let mut lists = members.0.into_iter().filter(|(name, _)| name == "mcpServers" || name == "servers");
    match (lists.next(), lists.next()) {
        (Some((name, list)), None) => servers(&name, list.get()),
        (None, _) => Err("has neither `mcpServers` nor `servers`".to_owned()),
        (Some((first, _)), Some((second, _))) => Err(format!("has `{first}` and `{second}`: which servers are meant?")),
    }
}

fn servers(name: &str, list: &str) -> Result<Vec<Written>, String> {
    if let Ok(Pairs(named)) = serde_json::from_str::<Pairs<Value>>(list) {
        let written = |(id, fields): (String, Value)| Written { at: format!("{name}.{id}"), id: Ok(id), fields };
        return Ok(named.into_iter().map(written).collect());
    }
    let listed: Vec<Value> = serde_json::from_str(list).map_err(|_| format!("{name}: must be an object or a list of servers"))?;
    let written = |(index, mut fields): (usize, Value)| Written { at: format!("{name}[{index}]"), id: id(&mut fields), fields };
    Ok(listed.into_iter().enumerate().map(written).collect())
}

/// A name beside an id is for people.
fn id(fields: &mut Value) -> Result<String, String> {
    let Some(fields) = fields.as_object_mut() else { return Err("must be an object".to_owned()) };
    let name = fields.shift_remove("name");
    match fields.shift_remove("id").or(name) {
        Some(Value::String(id)) => Ok(id),
        Some(_) => Err("its id must be a string".to_owned()),
        None => Err("has neither `id` nor `name`".to_owned()),
    }
}

/// An object whose members are kept as they stand, those of the same name too.
struct Pairs<T>(Vec<(String, T)>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Pairs<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Members(PhantomData))
    }
}

struct Members<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Members<T> {
    type Value = Pairs<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut pairs = Vec::new();
        while let Some(pair) = map.next_entry()? {
            pairs.push(pair);
        }
        Ok(Pairs(pairs))
    }
}
