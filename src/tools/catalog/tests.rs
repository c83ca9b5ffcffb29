use serde_json::{Value, json};

use super::*;
use crate::tools::definition::Annotations;

fn tool(server: &str, name: &str) -> Arc<Definition> {
    Arc::new(Definition {
        server: server.into(),
        name: name.to_owned(),
        description: format!("{name} of {server}."),
        schema: json!({"type": "object", "properties": {name: {"type": "string"}}}).to_string().into(),
        annotations: Annotations::default(),
    })
}

fn snapshot(tools: &[(&str, &str)]) -> Snapshot {
    Snapshot::new(tools.iter().map(|(server, name)| (tool(server, name), Policy::Allow)).collect(), Vec::new())
}

fn own(names: &[&str]) -> Vec<chat::Tool> {
    names.iter().map(|name| chat::Tool { name: (*name).to_owned(), parameters: Bytes::new() }).collect()
}

fn texts(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn offered(snapshot: &Snapshot, servers: &Servers, taken: &[&str], seen: &[&str]) -> Offer {
    snapshot.offer(Ask { servers, access: &Access::default(), taken: &own(taken), seen: &texts(seen) })
}

fn names(offer: &Offer) -> Vec<&str> {
    offer.entries.iter().map(|entry| &*entry.name).collect()
}

fn only(ids: &[&str]) -> Servers {
    Servers::Only(texts(ids))
}

#[test]
fn one_entry_a_name_in_the_order_of_the_servers() {
    let snapshot = snapshot(&[("files", "read"), ("files", "list"), ("web", "read"), ("web", "search")]);
    let offer = offered(&snapshot, &Servers::Attached, &[], &[]);
    assert_eq!(names(&offer), ["read", "list", "search"]);
    let servers: Vec<&str> = offer.find("read").unwrap().candidates.iter().map(|candidate| &*candidate.server).collect();
    assert_eq!(servers, ["files", "web"]);
    assert!(offer.find("write").is_none());
}

#[test]
fn the_json_is_what_the_entries_say() {
    let snapshot = snapshot(&[("files", "read"), ("web", "se\"arch")]);
    let offer = offered(&snapshot, &Servers::Attached, &[], &[]);
    let json: Value = serde_json::from_slice(&offer.json(b"")).unwrap();
    for (tool, entry) in json.as_array().unwrap().iter().zip(offer.entries.iter()) {
        let schema: Value = serde_json::from_slice(&entry.schema).unwrap();
        let function = json!({"name": entry.name, "description": entry.description, "parameters": schema});
        assert_eq!(*tool, json!({"type": "function", "function": function}));
    }
    assert_eq!(json.as_array().unwrap().len(), 2);
    assert_eq!(offer.tools().count(), 2);
    assert!(offer.json(b"[ {\"a\" : 1} ]").starts_with(b"[{\"a\" : 1},{\"type\""));
    for nothing in ["", "null", "[]"] {
        assert_eq!(offer.json(nothing.as_bytes()), offer.json(b""), "{nothing}");
    }
    assert_eq!(Offer::default().json(b"null"), "[]");
}

#[test]
fn an_ordinary_request_shares_what_is_ready() {
    let snapshot = snapshot(&[("files", "read"), ("web", "search")]);
    let first = offered(&snapshot, &Servers::Attached, &[], &[]);
    let second = offered(&snapshot, &Servers::Attached, &["mine"], &["read", "search"]);
    assert!(Arc::ptr_eq(&first.entries, &second.entries));
    assert_eq!(first.json(b"").as_ptr(), second.json(b"null").as_ptr());
}

#[test]
fn names_are_legal_and_no_two_are_the_same() {
    let long = "x".repeat(80);
    let tools =
        [("s", "a.b"), ("s", "a_b"), ("t", "a b"), ("t", "respond"), ("t", &long), ("u", &long), ("u", ""), ("v", "s__a_b"), ("w", "a.b")];
    let snapshot = snapshot(&tools);
    let offer = offered(&snapshot, &Servers::Attached, &[], &[]);
    let names = names(&offer);
    assert_eq!(names.len(), 7);
    for (at, name) in names.iter().enumerate() {
        assert!((1..=64).contains(&name.len()) && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-'), "{name}");
        assert!(!names[..at].contains(name) && *name != "respond", "{name}");
    }
    assert_eq!((names[1], names[3]), ("a_b", "t__respond"));
    // What another tool is called in full is nobody's name.
    assert_eq!(names[6], "v__s__a_b");
}

#[test]
fn a_name_made_to_collide_becomes_another() {
    let crafted = name::legal("a.b");
    let snapshot = snapshot(&[("s", "a.b"), ("evil", &crafted)]);
    let offer = offered(&snapshot, &Servers::Attached, &[], &[]);
    assert_eq!(names(&offer), [crafted.clone(), format!("evil__{crafted}")]);
}

#[test]
fn the_clients_tool_keeps_its_name() {
    let snapshot = snapshot(&[("files", "read"), ("files", "list"), ("web", "read")]);
    let check = |taken: &[&str], expected: &[&str]| {
        let offer = offered(&snapshot, &Servers::Attached, taken, &[]);
        assert_eq!(names(&offer)[1..], expected[1..], "{taken:?}");
        assert!(names(&offer)[0].starts_with(expected[0]) && !taken.contains(&names(&offer)[0]), "{offer:?}");
        assert_eq!(offer.find(names(&offer)[0]).unwrap().candidates.len(), 2);
        let json: Value = serde_json::from_slice(&offer.json(b"")).unwrap();
        assert_eq!(json[0]["function"]["name"], names(&offer)[0]);
    };
    check(&["read"], &["files__read", "list"]);
    check(&["read", "other"], &["files__read", "list"]);
    check(&["read", "files__read"], &["files__read_", "list"]);
    check(&["files__read"], &["read", "list"]);
}

#[test]
fn a_request_may_use_the_tools_of_some_servers_only() {
    let snapshot = snapshot(&[("files", "read"), ("web", "read"), ("web", "search")]);
    let check = |servers: Servers, expected: &[(&str, &[&str])]| {
        let offer = offered(&snapshot, &servers, &[], &[]);
        let found: Vec<(&str, Vec<&str>)> =
            offer.entries.iter().map(|entry| (&*entry.name, entry.candidates.iter().map(|known| &*known.server).collect())).collect();
        let expected: Vec<(&str, Vec<&str>)> = expected.iter().map(|(name, servers)| (*name, servers.to_vec())).collect();
        assert_eq!(found, expected, "{servers:?}");
    };
    check(only(&["web"]), &[("read", &["web"]), ("search", &["web"])]);
    check(only(&["files"]), &[("read", &["files"])]);
    check(only(&["web", "files"]), &[("read", &["files", "web"]), ("search", &["web"])]);
    check(only(&[]), &[]);
    check(Servers::Off, &[]);
    let narrowed = offered(&snapshot, &only(&["web"]), &["read"], &[]);
    assert_eq!(names(&narrowed), ["web__read", "search"]);
    assert_eq!(narrowed.entries[0].description, "read of web.");
}

#[test]
fn a_conversation_keeps_its_order() {
    let before = snapshot(&[("files", "read"), ("web", "search"), ("time", "now")]);
    let mut seen = Vec::new();
    offered(&before, &Servers::Attached, &[], &[]).remember_in(&mut seen);
    assert_eq!(seen, ["read", "search", "now"]);
    let check = |snapshot: &Snapshot, seen: &mut Vec<String>, expected: &[&str]| {
        let offer = snapshot.offer(Ask { servers: &Servers::Attached, access: &Access::default(), taken: &[], seen });
        assert_eq!(names(&offer), expected);
        let json: Value = serde_json::from_slice(&offer.json(b"")).unwrap();
        let shown: Vec<&str> = json.as_array().unwrap().iter().map(|tool| tool["function"]["name"].as_str().unwrap()).collect();
        assert_eq!(shown, expected);
        offer.remember_in(seen);
    };
    // A tool that is gone keeps its place, and a new one comes last wherever its server stands.
    check(&snapshot(&[("files", "write"), ("files", "read"), ("time", "now")]), &mut seen, &["read", "now", "write"]);
    assert_eq!(seen, ["read", "search", "now", "write"]);
    check(
        &snapshot(&[("time", "now"), ("web", "search"), ("files", "write"), ("files", "read")]),
        &mut seen,
        &["read", "search", "now", "write"],
    );
}

#[test]
fn what_is_remembered_of_a_conversation_is_bounded() {
    let mut seen: Vec<String> = (0..3000).map(|n| format!("gone_{n}")).collect();
    seen.insert(1500, "read".to_owned());
    offered(&snapshot(&[("files", "list"), ("files", "read")]), &Servers::Attached, &[], &[]).remember_in(&mut seen);
    assert_eq!(seen.len(), 1024 + 2);
    assert_eq!((&*seen[0], &*seen[1025], &*seen[1024]), ("read", "list", "gone_2999"));
}

#[test]
fn what_is_denied_or_withheld_is_not_shown_but_keeps_its_name() {
    let listed = |server: &str, name: &str, policy: Policy, withheld: bool| Listed { withheld, ..(tool(server, name), policy).into() };
    let tools = vec![
        listed("files", "a.b", Policy::Deny, false),
        listed("files", "read", Policy::Allow, true),
        listed("web", "read", Policy::Allow, false),
        listed("web", "ask", Policy::Ask, false),
    ];
    let snapshot = Snapshot::new(tools, Vec::new());
    let offer = offered(&snapshot, &Servers::Attached, &[], &[]);
    assert_eq!(names(&offer), ["read", "ask"]);
    assert_eq!(offer.entries[0].description, "read of web.");
    let rows: Vec<(&str, bool, usize)> = snapshot.rows().map(|row| (row.name, row.shown.is_some(), row.tools.len())).collect();
    assert_eq!(rows, [(&*name::legal("a.b"), false, 1), ("read", true, 2), ("ask", true, 1)]);
}

#[test]
fn a_server_that_lists_a_tool_twice_has_it_once() {
    let snapshot = snapshot(&[("files", "read"), ("files", "read")]);
    assert_eq!(snapshot.len(), 1);
    assert_eq!(offered(&snapshot, &Servers::Attached, &[], &[]).entries[0].candidates.len(), 1);
}

#[test]
fn tools_that_the_configuration_calls_alternatives_serve_for_each_other() {
    let named = |server: &str, tool: &str| Named { server: server.to_owned(), tool: tool.to_owned() };
    let overlaps = vec![vec![named("files", "read"), named("web", "get"), named("gone", "read")]];
    let tools = [("files", "read"), ("web", "get"), ("web", "read")].map(|(server, name)| (tool(server, name), Policy::Allow));
    let snapshot = Snapshot::new(tools.to_vec(), overlaps);
    let candidates = |servers: &Servers, name: &str| -> Vec<String> {
        let offer = offered(&snapshot, servers, &[], &[]);
        offer.find(name).unwrap().candidates.iter().map(|known| format!("{}.{}", known.server, known.name)).collect()
    };
    assert_eq!(candidates(&Servers::Attached, "read"), ["files.read", "web.read", "web.get"]);
    assert_eq!(candidates(&Servers::Attached, "get"), ["web.get", "files.read"]);
    assert_eq!(candidates(&only(&["web"]), "get"), ["web.get"]);
    assert_eq!(candidates(&only(&["web"]), "read"), ["web.read"]);
    // The schema is that of the tools of the name: the others' arguments have other names.
    let offer = offered(&snapshot, &Servers::Attached, &[], &[]);
    assert!(!String::from_utf8_lossy(&offer.find("get").unwrap().schema).contains("read"));
}

#[test]
fn an_account_is_offered_what_it_may_use() {
    use crate::budget::access::Pattern;

    let snapshot = snapshot(&[("files", "read"), ("files", "write"), ("web", "read"), ("web", "search")]);
    let access = |allow: &[&str], deny: &[&str]| {
        let patterns = |texts: &[&str]| texts.iter().map(|text| Pattern::parse(text).unwrap()).collect();
        Access { allow: patterns(allow), deny: patterns(deny), within: None }
    };
    let offered = |access: &Access, servers: &Servers| {
        let offer = snapshot.offer(Ask { servers, access, taken: &[], seen: &[] });
        let servers = |entry: &Arc<Entry>| entry.candidates.iter().map(|it| it.server.to_string()).collect::<Vec<_>>().join("+");
        offer.entries.iter().map(|entry| format!("{}@{}", entry.name, servers(entry))).collect::<Vec<_>>().join(" ")
    };
    let attached = &Servers::Attached;
    assert_eq!(offered(&access(&[], &[]), attached), "read@files+web write@files search@web");
    let narrow = access(&["*.read", "web.*"], &["web.read"]);
    // The second time it is ready.
    for _ in 0..2 {
        assert_eq!(offered(&narrow, attached), "read@files search@web");
    }
    assert_eq!(snapshot.narrowed.lock().unwrap().len(), 1);
    assert_eq!(offered(&narrow, &Servers::Only(vec!["web".to_owned()])), "search@web");
    assert_eq!(offered(&access(&["none.*"], &[]), attached), "");
    let shown = snapshot.offer(Ask { servers: attached, access: &narrow, taken: &own(&["search"]), seen: &[] });
    assert_eq!(names(&shown), ["read", "web__search"]);
    let told = &shown.find("read").unwrap().description;
    assert!(!told.contains("web"), "{told}");
}
