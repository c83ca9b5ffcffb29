use std::{
    collections::HashMap,
    sync::atomic::{AtomicUsize, Ordering},
};

use bytes::Bytes;
use futures_util::{FutureExt, future::BoxFuture};
use serde::Deserialize;
use serde_json::{Map, json};

use super::{
    embed::{Error, Hashing, Side, Vector},
    *,
};
use crate::{
    budget::access::Access,
    chat::Servers,
    tools::{
        catalog::{Ask, Snapshot},
        config::{Named, Policy},
        definition::Annotations,
    },
};

/// Knows the vectors of some texts, and fails about any other.
#[derive(Debug, Default)]
struct Script {
    vectors: HashMap<String, Vec<f64>>,
    asked: AtomicUsize,
}

impl Script {
    fn of(vectors: &[(&str, &[f64])]) -> Arc<Self> {
        let vectors = vectors.iter().map(|(text, vector)| ((*text).to_owned(), vector.to_vec())).collect();
        Arc::new(Self { vectors, asked: AtomicUsize::new(0) })
    }
}

impl Embedder for Script {
    fn embed<'a>(&'a self, _: Side, texts: &'a [&'a str]) -> BoxFuture<'a, Result<Vec<Option<Vector>>, Error>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let vector = |text: &&str| self.vectors.get(*text).map(|numbers| Vector::new(numbers)).ok_or(Error::Status(500));
        Box::pin(std::future::ready(texts.iter().map(vector).collect()))
    }
}

fn definition(server: &str, name: &str, description: &str, schema: &Value) -> Arc<Definition> {
    Arc::new(Definition {
        server: server.into(),
        name: name.to_owned(),
        description: description.to_owned(),
        schema: Bytes::from(schema.to_string()),
        annotations: Annotations::default(),
    })
}

fn candidate(server: &str, description: &str) -> Candidate {
    Candidate { definition: definition(server, "lookup", description, &json!({})), is_up: true }
}

fn select(selector: &Selector, message: &str, candidates: &[Candidate]) -> Selection {
    let question = Question { message, arguments: &json!({}), recent: &[] };
    selector.select(question, candidates).now_or_never().expect("nothing waits").expect("there are candidates")
}

/// One line of the labelled set.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    id: String,
    servers: Vec<Server>,
    down: Vec<String>,
    message: String,
    call: Call,
    recent: Vec<String>,
    /// `server.tool`, in groups.
    #[serde(default)]
    overlaps: Vec<Vec<String>>,
    /// What the embedder makes of texts; it fails about others. Words are compared where there is none.
    vectors: Option<HashMap<String, Vec<f64>>>,
    expected: Expected,
    why: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Server {
    id: String,
    tools: Vec<Tool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Tool {
    name: String,
    description: String,
    schema: Value,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Call {
    name: String,
    arguments: Map<String, Value>,
}

#[derive(Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
struct Expected {
    server: String,
    rule: String,
    alternatives: Vec<String>,
}

impl Case {
    /// Who may serve the call, by the catalog.
    fn candidates(&self) -> Vec<Candidate> {
        let tools = self.servers.iter().flat_map(|server| {
            let tool = |tool: &Tool| (definition(&server.id, &tool.name, &tool.description, &tool.schema), Policy::Allow);
            server.tools.iter().map(tool).collect::<Vec<_>>()
        });
        let named = |name: &String| {
            let (server, tool) = name.split_once('.').unwrap();
            Named { server: server.to_owned(), tool: tool.to_owned() }
        };
        let overlaps = self.overlaps.iter().map(|group| group.iter().map(named).collect()).collect();
        let offer = Snapshot::new(tools.collect(), overlaps).offer(Ask {
            servers: &Servers::Attached,
            access: &Access::default(),
            taken: &[],
            seen: &[],
        });
        let candidates = offer.find(&self.call.name).map(|entry| entry.candidates.clone()).unwrap_or_default();
        let is_up = |definition: &Definition| !self.down.iter().any(|id| **id == *definition.server);
        candidates.into_iter().map(|definition| Candidate { is_up: is_up(&definition), definition }).collect()
    }

    fn decided(&self) -> Expected {
        let embedder: Arc<dyn Embedder> = match &self.vectors {
            Some(vectors) => Arc::new(Script { vectors: vectors.clone(), ..Script::default() }),
            None => Arc::new(Hashing),
        };
        let arguments = Value::Object(self.call.arguments.clone());
        let question = Question { message: &self.message, arguments: &arguments, recent: &self.recent };
        let candidates = self.candidates();
        let selector = Selector::with(embedder);
        let selection = selector.select(question, &candidates).now_or_never().unwrap();
        let Some(selection) = selection else {
            let rule = Rule::NoCandidate.as_str().to_owned();
            return Expected { server: crate::chat::call::NO_SERVER.to_owned(), rule, alternatives: Vec::new() };
        };
        assert_eq!(selection.others.len() + 1, candidates.len(), "{}: somebody is missing", self.id);
        let server = selection.definition.server.to_string();
        Expected { server, rule: selection.rule.as_str().to_owned(), alternatives: selection.alternatives }
    }
}

#[test]
fn every_labelled_case_is_decided_as_labelled() {
    let cases: Vec<Case> =
        include_str!("../../../tests/eval/selection.jsonl").lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    assert!(cases.len() >= 60, "{} cases", cases.len());
    let mut ids: Vec<&str> = cases.iter().map(|case| case.id.as_str()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), cases.len(), "an id is there twice");
    let misses: Vec<String> = cases
        .iter()
        .map(|case| (case, case.decided()))
        .filter(|(case, decided)| *decided != case.expected)
        .map(|(case, decided)| format!("{}: {decided:?} instead of {:?}: {}", case.id, case.expected, case.why))
        .collect();
    assert!(misses.is_empty(), "{} of {} cases miss:\n{}", misses.len(), cases.len(), misses.join("\n"));
}

#[test]
fn every_rule_is_labelled() {
    let cases = include_str!("../../../tests/eval/selection.jsonl");
    let rules = [
        Rule::NoCandidate,
        Rule::SingleCandidate,
        Rule::ExplicitMention,
        Rule::ArgumentType,
        Rule::SessionRecency,
        Rule::CosineSimilarity,
        Rule::PriorityOrder,
    ];
    for rule in rules {
        let labelled =
            cases.lines().map(|line| serde_json::from_str::<Case>(line).unwrap()).filter(|case| case.expected.rule == rule.as_str());
        assert!(labelled.count() >= 3, "{}", rule.as_str());
    }
}

#[test]
fn nobody_serves_what_nobody_has() {
    let question = Question { message: "", arguments: &json!({}), recent: &[] };
    assert!(Selector::new(embed::Config::Hashing).select(question, &[]).now_or_never().unwrap().is_none());
}

#[test]
fn arguments_that_are_no_object_say_nothing() {
    let schema = json!({"type": "null"});
    let of = |server: &str, schema: &Value| Candidate { definition: definition(server, "lookup", "", schema), is_up: true };
    let candidates = [of("a", &json!({"type": "object"})), of("b", &schema)];
    let question = Question { message: "", arguments: &Value::Null, recent: &[] };
    let selection = Selector::new(embed::Config::Hashing).select(question, &candidates).now_or_never().unwrap().unwrap();
    assert_eq!(selection.rule, Rule::PriorityOrder);
}

#[test]
fn a_failing_embedder_is_told_of_and_both_sides_are_compared_by_words() {
    // It knows the message, not the descriptions: half of it would be no comparison.
    let script = Script::of(&[("city weather", &[1.0, 0.0])]);
    let selector = Selector::with(script);
    let selection = select(&selector, "city weather", &[candidate("a", "stock prices"), candidate("b", "city weather")]);
    assert_eq!((&*selection.definition.server, selection.rule), ("b", Rule::CosineSimilarity));
    assert!(selection.note.unwrap().contains("status 500"));
}

#[test]
fn nothing_is_noted_where_nothing_is_wrong() {
    let script = Script::of(&[("m", &[1.0, 0.0]), ("x", &[0.0, 1.0]), ("y", &[1.0, 0.0])]);
    let selection = select(&Selector::with(script), "m", &[candidate("a", "x"), candidate("b", "y")]);
    assert_eq!((&*selection.definition.server, selection.rule, selection.note), ("b", Rule::CosineSimilarity, None));
}

#[test]
fn the_embedder_is_not_asked_where_it_cannot_decide() {
    let script = Script::of(&[]);
    let selector = Selector::with(Arc::clone(&script) as Arc<dyn Embedder>);
    let same = [candidate("a", "x"), candidate("b", "x")];
    for (message, candidates) in
        [("m", &same[..]), (" \n", &[candidate("a", "x"), candidate("b", "y")]), ("use b", &same), ("m", &same[..1])]
    {
        assert_eq!(select(&selector, message, candidates).note, None, "{message}");
    }
    assert_eq!(script.asked.load(Ordering::Relaxed), 0);
}

#[test]
fn who_was_named_and_is_down_is_known() {
    let down = |server: &str| Candidate { is_up: false, ..candidate(server, "x") };
    let named = |message: &str, candidates: &[Candidate]| {
        let selector = Selector::new(embed::Config::Hashing);
        select(&selector, message, candidates).named_but_down.map(|id| id.to_string())
    };
    assert_eq!(named("use b", &[candidate("a", "x"), down("b")]), Some("b".to_owned()));
    // Nobody was named, somebody else was, both were, or nobody stepped back.
    assert_eq!(named("use it", &[candidate("a", "x"), down("b")]), None);
    assert_eq!(named("use a", &[candidate("a", "x"), down("b")]), None);
    assert_eq!(named("use a or b", &[candidate("a", "x"), down("b")]), None);
    assert_eq!(named("use b", &[down("a"), down("b")]), None);
}

#[test]
fn the_same_question_has_the_same_answer() {
    let candidates: Vec<Candidate> = (0..20).map(|n| candidate(&format!("server-{n}"), &format!("about {}", n % 3))).collect();
    let answer = || {
        let selection = select(&Selector::new(embed::Config::Hashing), "about 1 and 2", &candidates);
        (selection.definition.server.to_string(), selection.rule, selection.alternatives)
    };
    let first = answer();
    assert!((0..20).all(|_| answer() == first));
}
