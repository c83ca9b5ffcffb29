//! What it costs to choose one of several servers, by the rule that comes last: the message is searched for every id, the arguments are
//! checked against every schema, and every description is compared with the message.

use std::{hint::black_box, sync::Arc};

use bytes::Bytes;
use criterion::{Criterion, criterion_group, criterion_main};
use serde_json::json;
use toolgate::tools::{
    definition::{Annotations, Definition},
    selector::{Candidate, Question, Selector, embed},
};

fn candidate(number: usize) -> Candidate {
    let schema = json!({"type": "object", "required": ["path"], "additionalProperties": false, "properties": {
        "path": {"type": "string"}, "head": {"type": "integer"}, "tail": {"type": "integer"}, "number": {"const": number},
    }});
    let definition = Definition {
        server: format!("server-{number}").into(),
        name: "read_file".to_owned(),
        description: format!("Reads a file of place {number} and returns what is in it as text, or the first or last lines of it."),
        schema: Bytes::from(schema.to_string()),
        annotations: Annotations::default(),
    };
    Candidate { definition: Arc::new(definition), is_up: true }
}

fn bench(criterion: &mut Criterion) {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_time().build() else { return };
    let selector = Selector::new(embed::Config::Hashing);
    let arguments = json!({"path": "README.md", "head": 20});
    let message = "Please read the file README.md and tell me in two sentences what this project is about, and how I start it.";
    let question = Question { message, arguments: &arguments, recent: &[] };
    for count in [1, 2, 20] {
        let candidates: Vec<Candidate> = (0..count).map(candidate).collect();
        criterion.bench_function(&format!("select, {count} candidates"), |bencher| {
            bencher.iter(|| runtime.block_on(selector.select(black_box(question), &candidates)).map(|selection| selection.rule));
        });
    }
}

criterion_group!(benches, bench);
criterion_main!(benches);
