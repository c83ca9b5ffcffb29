//! `load URL MODEL [--tools] [--stream] [-c CONNECTIONS] [-n REQUESTS] [--system BYTES]`
//!
//! Closed-loop load against an OpenAI-compatible server. Prints one JSON line: requests a second,
//! errors, and microseconds to the first content (or tool name), to the end, and of the largest gap
//! between two chunks, as median and 99th percentile.

use std::{env, time::Duration};

use serde_json::{Value, json};
use toolgate_load::{
    Result,
    load::{self, Limit, Question, Target},
    sample::{Sample, Timing},
};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let args = Args { all: env::args().skip(1).collect() };
    let (Some(url), Some(model)) = (args.all.first(), args.all.get(1)) else {
        return Err("usage: load URL MODEL [--tools] [--stream] [-c CONNECTIONS] [-n REQUESTS] [--system BYTES]".into());
    };
    let question = Question {
        model: model.clone(),
        with_tools: args.has("--tools"),
        stream: args.has("--stream"),
        system_bytes: args.number("--system", 200)?,
    };
    let limit = Limit { requests: args.number("-n", 2000)?, time: Duration::from_secs(86_400) };
    let connections = args.number("-c", 8)?;
    let sample = load::run(&Target::parse(url)?, &question.body(), connections, limit).await;
    println!("{}", line(&sample));
    Ok(())
}

struct Args {
    all: Vec<String>,
}

impl Args {
    fn has(&self, flag: &str) -> bool {
        self.all.iter().any(|arg| arg == flag)
    }

    fn number(&self, flag: &str, default: usize) -> Result<usize> {
        let mut after = self.all.iter().skip_while(|arg| *arg != flag).skip(1);
        match (self.has(flag), after.next()) {
            (false, _) => Ok(default),
            (true, Some(number)) => Ok(number.parse()?),
            (true, None) => Err(format!("{flag} needs a number").into()),
        }
    }
}

fn line(sample: &Sample) -> Value {
    let us = |part: fn(&Timing) -> Duration, p| sample.percentile(part, p).as_micros() as u64;
    json!({
        "rps": sample.per_second().round(),
        "bad": sample.errors,
        "first_p50": us(|timing| timing.first, 0.5),
        "first_p99": us(|timing| timing.first, 0.99),
        "total_p50": us(|timing| timing.total, 0.5),
        "total_p99": us(|timing| timing.total, 0.99),
        "gap_p99": us(|timing| timing.gap, 0.99),
    })
}
