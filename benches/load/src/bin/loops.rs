//! `loops DIRECT_URL TOOLGATE_URL HTTP_TOOLGATE_URL STDIO_TOOLGATE_URL`
//!
//! What it costs that toolgate runs a tool itself. The model calls one tool and then answers. A client that runs the tool asks twice: the
//! model server itself, and through toolgate. Where toolgate runs it, the client asks once: over an MCP server on streamable HTTP, which
//! is in the model server's process, and over one that is a child process. Then a hundred clients ask at once. Prints the medians and one
//! line for each of toolgate's targets.
//!
//! A figure that falls short is no failure; a request that fails is.

use std::{env, time::Duration};

use hyper::body::Bytes;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use toolgate_load::{
    Result,
    load::{self, Conversation, Limit, Target},
    mock::tools::WEATHER,
    report::{self, Goal},
    sample::{Sample, median, percentile},
};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let urls: Vec<String> = env::args().skip(1).collect();
    let [direct, toolgate, http, stdio] = urls.as_slice() else {
        return Err("usage: loops DIRECT_URL TOOLGATE_URL HTTP_TOOLGATE_URL STDIO_TOOLGATE_URL".into());
    };
    let mut ways = [
        // What toolgate asks there streams.
        Way::new("two calls, direct", direct, twice(true))?,
        Way::new("two calls", toolgate, twice(false))?,
        Way::new("loop, MCP over HTTP", http, once())?,
        Way::new("loop, over stdio", stdio, once())?,
    ];
    for way in &mut ways {
        way.check().await?;
    }
    for round in 1..=ROUNDS {
        report::progress(&format!("loops, round {round} of {ROUNDS}"));
        for way in &mut ways {
            way.run().await?;
        }
    }
    let mut crowds = Vec::new();
    for way in ways.iter().skip(2) {
        report::progress(&format!("{CROWD} loops at once, {}", way.name));
        crowds.push(way.crowd().await?);
    }
    report::progress_end();
    print(&ways, &crowds);
    let failed: u64 = crowds.iter().map(|crowd| crowd.errors).sum();
    if failed > 0 { Err(format!("{failed} loops failed").into()) } else { Ok(()) }
}

/// One way to an answer, and its median round by round.
struct Way {
    name: &'static str,
    target: Target,
    bodies: Vec<Bytes>,
    p50_us: Vec<f64>,
}

impl Way {
    fn new(name: &'static str, url: &str, bodies: Vec<Bytes>) -> Result<Self> {
        Ok(Self { name, target: Target::parse(&format!("{url}/v1/chat/completions"))?, bodies, p50_us: Vec::new() })
    }

    /// Asks until the tool's server is there, because fast wrong answers are worth nothing.
    async fn check(&self) -> Result<()> {
        let until = Instant::now() + PATIENCE;
        loop {
            let mut answer = Bytes::new();
            for body in &self.bodies {
                answer = load::ask_once(&self.target, body).await.map_err(|error| format!("{}: {error}", self.name))?;
            }
            let answer = String::from_utf8_lossy(&answer);
            // A run that called no tool has not said so before its end.
            if answer.contains(LAST_WORD) && !answer.contains("get_weather") {
                return Ok(());
            }
            if Instant::now() > until {
                return Err(format!("{}: unexpected answer {answer}", self.name).into());
            }
            sleep(Duration::from_millis(50)).await;
        }
    }

    async fn run(&mut self) -> Result<()> {
        let mut conversation = Conversation::new(&self.target, &self.bodies);
        let until = Instant::now() + ROUND;
        let mut took = Vec::new();
        while Instant::now() < until {
            took.push(conversation.hold().await.map_err(|error| format!("{}: {error}", self.name))?);
        }
        self.p50_us.push(percentile(took.into_iter(), 0.5).as_secs_f64() * 1e6);
        Ok(())
    }

    /// Many ask at once, each a few times.
    async fn crowd(&self) -> Result<Sample> {
        let body = self.bodies.first().ok_or("nothing to ask")?;
        let limit = Limit { requests: CROWD * 10, time: PATIENCE };
        Ok(load::run(&self.target, body, CROWD, limit).await)
    }

    /// What this way takes longer than `base` at the median, round by round, so that a slow spell of the machine cancels out.
    fn added_ms(&self, base: &Self) -> f64 {
        median(self.p50_us.iter().zip(&base.p50_us).map(|(own, base)| own - base).collect()) / 1e3
    }
}

/// The question, whose text tells the model what to say: it calls the tool, and then answers.
fn question() -> Value {
    let script = json!([
        {"calls": [{"name": "get_weather", "arguments": {"city": "Paris"}}]},
        {"calls": [{"name": "respond", "arguments": {"message": LAST_WORD}}]},
    ]);
    json!({"role": "user", "content": script.to_string()})
}

/// The two requests of a client that runs the tool.
fn twice(stream: bool) -> Vec<Bytes> {
    let parameters = json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]});
    let function = json!({"name": "get_weather", "description": "Weather of a city", "parameters": parameters});
    let call = json!({"id": "c0", "type": "function", "function": {"name": "get_weather", "arguments": r#"{"city":"Paris"}"#}});
    let messages = [
        question(),
        json!({"role": "assistant", "content": null, "tool_calls": [call]}),
        json!({"role": "tool", "tool_call_id": "c0", "content": WEATHER}),
    ];
    let body = |messages: &[Value]| {
        let tools = json!([{"type": "function", "function": function}]);
        json!({"model": "script", "stream": stream, "messages": messages, "tools": tools}).to_string().into()
    };
    let [question, ..] = &messages;
    vec![body(std::slice::from_ref(question)), body(&messages)]
}

/// The one request where toolgate runs the tool.
fn once() -> Vec<Bytes> {
    vec![json!({"model": "script", "messages": [question()]}).to_string().into()]
}

fn print(ways: &[Way; 4], crowds: &[Sample]) {
    println!("\n{:<26} {:<22} {:>9}", "one tool call", "", "p50 us");
    for way in ways {
        println!("{:<26} {:<22} {:>9.0}", "", way.name, median(way.p50_us.clone()));
    }
    let [direct, guarded, http, stdio] = ways;
    for (way, crowd) in [http, stdio].into_iter().zip(crowds) {
        let p99_ms = crowd.percentile(|timing| timing.total, 0.99).as_secs_f64() * 1e3;
        println!("{:<26} {:<22} {:>9.0} a second, p99 {p99_ms:.1} ms", format!("{CROWD} loops at once"), way.name, crowd.per_second());
    }
    let failed: u64 = crowds.iter().map(|crowd| crowd.errors).sum();
    report::print_goals(&[
        Goal::below("loop of one call over HTTP, added to two calls (ms)", 1.5, Some(http.added_ms(direct))),
        Goal::below("loop of one call over stdio, added to two calls (ms)", 1.5, Some(stdio.added_ms(direct))),
        Goal::below("the same over HTTP, beside two calls by toolgate (ms)", 1.5, Some(http.added_ms(guarded))),
        Goal::below("many loops at once, failed", 1.0, Some(failed as f64)),
    ]);
}

/// What the model says at the end.
const LAST_WORD: &str = "Sunny";

/// An odd number, so that the median is one that was measured.
const ROUNDS: usize = 7;

const ROUND: Duration = Duration::from_millis(500);

const CROWD: usize = 100;

/// For a server that is not there yet, and for a crowd.
const PATIENCE: Duration = Duration::from_secs(20);
