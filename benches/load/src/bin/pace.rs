//! `pace DIRECT_URL TOOLGATE_URL [NGINX_URL]`
//!
//! What a single reader sees of a model that speaks at its own pace: when the first word comes and how
//! even the rest, from the model server itself and from the proxies, in turn; and how soon toolgate
//! asks again when the model calls a tool that does not exist. Prints the figures and at the end one
//! line for each of toolgate's targets.
//!
//! A figure that falls short is no failure; a request that fails is.

use std::{env, time::Duration};

use serde_json::Value;
use toolgate_load::{
    Result,
    load::{self, Question, Target},
    paced::{Heard, Pace, Reader},
    report::{self, Goal},
    sample::median,
};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let urls: Vec<String> = env::args().skip(1).collect();
    let [direct, toolgate, nginx @ ..] = urls.as_slice() else {
        return Err("usage: pace DIRECT_URL TOOLGATE_URL [NGINX_URL]".into());
    };
    let chat = |url: &String| Target::parse(&format!("{url}/v1/chat/completions"));
    // With tools toolgate's answer is a call of `respond`, which it shows as content.
    let mut ways = vec![Way::new("direct", &chat(direct)?, false), Way::new("toolgate", &chat(toolgate)?, true)];
    if let Some(nginx) = nginx.first() {
        ways.insert(1, Way::new("nginx", &chat(nginx)?, false));
    }
    hear(&mut ways).await?;
    let wastes = unknown_tool(&chat(toolgate)?, &Target::parse(&format!("{direct}/turns"))?).await?;
    print(&ways, &wastes);
    Ok(())
}

/// One way to the model server, and what a reader saw of it round by round.
struct Way {
    name: &'static str,
    reader: Reader,
    heard: Vec<Heard>,
}

/// What a call that cannot be answered cost.
struct Waste {
    /// From the arrival of its request to that of the next one, which asks again.
    asked_again_ms: f64,
    tokens: f64,
}

impl Way {
    fn new(name: &'static str, target: &Target, with_tools: bool) -> Self {
        Self { name, reader: Reader::new(target, &PACE.question(with_tools), PACE), heard: Vec::new() }
    }

    fn ms(&self, part: fn(&Heard) -> Duration) -> Vec<f64> {
        self.heard.iter().map(|heard| part(heard).as_secs_f64() * 1e3).collect()
    }

    /// What this way adds to `base`, round by round, so that a slow spell of the machine cancels out.
    fn added_ms(&self, base: &Self, part: fn(&Heard) -> Duration) -> Vec<f64> {
        self.ms(part).iter().zip(base.ms(part)).map(|(own, base)| own - base).collect()
    }
}

async fn hear(ways: &mut [Way]) -> Result<()> {
    for round in 1..=ROUNDS {
        report::progress(&format!("{} words, {} ms each, round {round} of {ROUNDS}", PACE.words, PACE.pause.as_millis()));
        for way in &mut *ways {
            let heard = way.reader.hear().await.map_err(|error| format!("{}: {error}", way.name))?;
            way.heard.push(heard);
        }
    }
    Ok(())
}

/// Has the model call a tool that does not exist, and asks the model server what it saw of that.
async fn unknown_tool(toolgate: &Target, turns: &Target) -> Result<Vec<Waste>> {
    let model = format!("unknown-{TOKENS}-d10");
    let question = Question { model, with_tools: true, stream: true, system_bytes: 200 };
    let mut wastes = Vec::new();
    for round in 1..=ROUNDS {
        report::progress(&format!("unknown tool, round {round} of {ROUNDS}"));
        let answer = load::ask_once(toolgate, &question.body()).await?;
        if !String::from_utf8_lossy(&answer).contains("get_weather") {
            return Err(format!("unknown tool: unexpected answer {}", String::from_utf8_lossy(&answer)).into());
        }
        let turns: Value = serde_json::from_slice(&load::ask_once(turns, &question.body()).await?)?;
        let figure = |turn: usize, key: &str| turns[turn][key].as_f64().ok_or("no figure from the model server");
        let asked_again_us = figure(1, "arrived_us")? - figure(0, "arrived_us")?;
        wastes.push(Waste { asked_again_ms: asked_again_us / 1e3, tokens: figure(0, "pieces")? });
    }
    Ok(wastes)
}

fn print(ways: &[Way], wastes: &[Waste]) {
    report::progress_end();
    let title = format!("{} words, {} ms each", PACE.words, PACE.pause.as_millis());
    println!(
        "\n{title:<26} {:<12} {:>13} {:>8} {:>14} {:>8} {:>8}",
        "through", "first word ms", "added", "largest gap ms", "added", "at most"
    );
    let [direct, .., toolgate] = ways else { return };
    for way in ways {
        let middle = |part: fn(&Heard) -> Duration| median(way.ms(part));
        let added = |part: fn(&Heard) -> Duration| way.added_ms(direct, part);
        let figures = format!("{:>13.2} {:>8.2} {:>14.2}", middle(first), median(added(first)), middle(gap));
        println!("{:<26} {:<12} {figures} {:>8.2} {:>8.2}", "", way.name, median(added(gap)), most(&added(gap)));
    }
    let again: Vec<f64> = wastes.iter().map(|waste| waste.asked_again_ms).collect();
    let tokens = most(&wastes.iter().map(|waste| waste.tokens).collect::<Vec<_>>());
    println!(
        "\nunknown tool, {TOKENS} tokens, 10 ms each: asked again after {:.1} ms, at most {:.1}, {tokens} tokens generated at most",
        median(again.clone()),
        most(&again)
    );

    let gaps = toolgate.added_ms(direct, gap);
    report::print_goals(&[
        Goal::below("first word, added at the median (ms)", 2.0, Some(median(toolgate.added_ms(direct, first)))),
        Goal::below("largest gap, added at the median (ms)", 5.0, Some(median(gaps.clone()))),
        Goal::below("largest gap, added at most (ms)", 5.0, Some(most(&gaps))),
        Goal::below("unknown tool, asked again at most after (ms)", GENERATION_MS / 10.0, Some(most(&again))),
        Goal::below("unknown tool, tokens generated at most", f64::from(TOKENS) / 10.0, Some(tokens)),
    ]);
}

fn first(heard: &Heard) -> Duration {
    heard.first
}

fn gap(heard: &Heard) -> Duration {
    heard.gap
}

fn most(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

/// A fast model on a desk.
const PACE: Pace = Pace { words: 50, pause: Duration::from_millis(10) };

/// An odd number, so that the median is one that was measured.
const ROUNDS: usize = 11;

/// The length of the call of an unknown tool, of which a tenth is allowed.
const TOKENS: u32 = 200;

/// What all of it would take.
const GENERATION_MS: f64 = 2000.0;
