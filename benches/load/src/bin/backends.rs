//! `backends DIRECT_URL TOOLGATE_URL OLLAMA_TOOLGATE_URL FAILOVER_TOOLGATE_URL`
//!
//! What it costs a guarded call that the model server is Ollama, and that a first backend refuses connections. One connection asks each
//! way in turn: the scripted `/api/chat` itself, toolgate before the same script as chat completions and as Ollama, and toolgate with two
//! backends of which nobody listens at the first. Prints the medians and one line for each of toolgate's targets.
//!
//! A figure that falls short is no failure; a request that fails is.

use std::{env, time::Duration};

use toolgate_load::{
    Result,
    load::{self, Limit, Question, Target},
    report::{self, Goal},
    sample::{Sample, median},
};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let urls: Vec<String> = env::args().skip(1).collect();
    let [direct, toolgate, ollama, failover] = urls.as_slice() else {
        return Err("usage: backends DIRECT_URL TOOLGATE_URL OLLAMA_TOOLGATE_URL FAILOVER_TOOLGATE_URL".into());
    };
    let mut ways = [
        // What toolgate asks there streams.
        Way::new("/api/chat itself", &format!("{direct}/api/chat"), true)?,
        Way::new("chat completions", &format!("{toolgate}/v1/chat/completions"), false)?,
        Way::new("Ollama", &format!("{ollama}/v1/chat/completions"), false)?,
        Way::new("first refuses", &format!("{failover}/v1/chat/completions"), false)?,
    ];
    for way in &mut ways {
        way.check().await?;
    }
    for round in 1..=ROUNDS {
        report::progress(&format!("backends, round {round} of {ROUNDS}"));
        for way in &mut ways {
            way.run().await?;
        }
    }
    report::progress_end();
    print(&ways);
    Ok(())
}

/// One way to an answer, and its median round by round.
struct Way {
    name: &'static str,
    target: Target,
    question: Question,
    p50_us: Vec<f64>,
}

impl Way {
    fn new(name: &'static str, url: &str, stream: bool) -> Result<Self> {
        let question = Question { model: "tool".to_owned(), with_tools: true, stream, system_bytes: 200 };
        Ok(Self { name, target: Target::parse(url)?, question, p50_us: Vec::new() })
    }

    /// Asks once, because fast wrong answers are worth nothing.
    async fn check(&self) -> Result<()> {
        let answer = load::ask_once(&self.target, &self.question.body()).await.map_err(|error| format!("{}: {error}", self.name))?;
        let answer = String::from_utf8_lossy(&answer);
        if answer.contains("get_weather") { Ok(()) } else { Err(format!("{}: unexpected answer {answer}", self.name).into()) }
    }

    async fn run(&mut self) -> Result<()> {
        let sample = load::run(&self.target, &self.question.body(), 1, Limit::after(ROUND)).await;
        if sample.errors > 0 {
            return Err(format!("{}: {} requests failed", self.name, sample.errors).into());
        }
        self.p50_us.push(p50_us(&sample));
        Ok(())
    }

    /// What this way takes longer than `base` at the median, round by round, so that a slow spell of the machine cancels out.
    fn added_us(&self, base: &Self) -> f64 {
        median(self.p50_us.iter().zip(&base.p50_us).map(|(own, base)| own - base).collect())
    }
}

fn print(ways: &[Way; 4]) {
    println!("\n{:<26} {:<18} {:>9}", "guarded call", "behind toolgate", "p50 us");
    for way in ways {
        println!("{:<26} {:<18} {:>9.0}", "", way.name, median(way.p50_us.clone()));
    }
    let [direct, completions, ollama, failover] = ways;
    report::print_goals(&[
        Goal::below("guarded call before Ollama, added in all (ms)", 0.2, Some(ollama.added_us(direct) / 1e3)),
        Goal::below("the same, beside one before llama-server (ms)", 0.2, Some(ollama.added_us(completions) / 1e3)),
        Goal::below("first backend refuses connections, added (ms)", 5.0, Some(failover.added_us(completions) / 1e3)),
    ]);
}

fn p50_us(sample: &Sample) -> f64 {
    sample.percentile(|timing| timing.total, 0.5).as_secs_f64() * 1e6
}

/// An odd number, so that the median is one that was measured.
const ROUNDS: usize = 7;

const ROUND: Duration = Duration::from_millis(500);
