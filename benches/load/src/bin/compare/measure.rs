//! The measurements: rates and latencies over several rounds, memory, start.

use std::time::Duration;

use tokio::{pin, select, time::interval};
use toolgate_load::{
    Result,
    load::{self, Limit, Question, Target},
    process, report,
    sample::{Sample, median},
    startup,
};

use crate::{Name, Setup};

/// One kind of request.
pub(crate) struct Case {
    pub(crate) title: &'static str,
    /// Its line among the targets.
    pub(crate) goal: &'static str,
    /// The least share of the plain nginx's rate that toolgate is to reach.
    pub(crate) ratio_min: f64,
    question: Question,
    /// What every right answer holds.
    marker: &'static str,
}

/// The medians of one target's rounds.
pub(crate) struct Rate {
    pub(crate) name: Name,
    pub(crate) per_second: f64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) errors: u64,
}

/// Resident memory of toolgate.
pub(crate) struct Memory {
    /// The most that was seen while 64 connections were busy.
    pub(crate) peak_mib: f64,
    /// One second after the load.
    pub(crate) after_mib: f64,
    pub(crate) errors: u64,
}

/// The cases in the order of the table.
pub(crate) fn cases() -> [Case; 3] {
    let question = |model: &str, with_tools, stream| Question { model: model.to_owned(), with_tools, stream, system_bytes: 200 };
    [
        Case {
            title: "passed through",
            goal: "passed-through rate, of nginx",
            ratio_min: 0.8,
            question: question("text-32", false, false),
            marker: "w31",
        },
        Case {
            title: "passed through, streamed",
            goal: "passed-through rate, streamed, of nginx",
            ratio_min: 0.8,
            question: question("text-32", false, true),
            marker: "w31",
        },
        guarded(),
    ]
}

/// Measures every target over [`ROUNDS`] rounds, one after the other within each.
pub(crate) async fn rates(setup: &Setup, case: &Case) -> Result<Vec<Rate>> {
    let samples = rounds(setup, case, CONNECTIONS).await?;
    Ok(samples.iter().map(|(name, samples)| Rate::new(*name, samples)).collect())
}

/// The rate of `name` as a share of `base`'s; `None` if one of them was not measured.
pub(crate) fn ratio(rates: &[Rate], name: Name, base: Name) -> Option<f64> {
    let rate = |wanted: Name| rates.iter().find(|rate| rate.name == wanted);
    Some(rate(name)?.per_second / rate(base)?.per_second)
}

/// How many microseconds each proxy adds to the median of a guarded request on one connection,
/// and how many requests failed.
pub(crate) async fn added_latency(setup: &Setup) -> Result<(u64, Vec<(Name, f64)>)> {
    let samples = rounds(setup, &guarded(), 1).await?;
    let errors = samples.iter().flat_map(|(_, samples)| samples).map(|sample| sample.errors).sum();
    let medians = |wanted: Name| -> Vec<f64> {
        let of_target = samples.iter().filter(|(name, _)| *name == wanted);
        of_target.flat_map(|(_, samples)| samples).map(p50_us).collect()
    };
    let direct = medians(Name::Direct);
    let mut added = Vec::new();
    for (name, _) in samples.iter().filter(|(name, _)| *name != Name::Direct) {
        // Round by round, so that a slow spell of the machine cancels out.
        let own = medians(*name);
        let differences = own.iter().zip(&direct).map(|(own, direct)| own - direct);
        added.push((*name, median(differences.collect())));
    }
    Ok((errors, added))
}

/// Loads toolgate over 64 connections with every case and watches its memory; `None` if it is
/// not measured here.
pub(crate) async fn memory(setup: &Setup) -> Result<Option<Memory>> {
    let (Some(target), Some(pid)) = (setup.target(Name::Toolgate), setup.pid) else {
        return Ok(None);
    };
    let mut memory = Memory { peak_mib: 0.0, after_mib: 0.0, errors: 0 };
    for case in cases() {
        report::progress(&format!("memory, {MANY_CONNECTIONS} connections, {}", case.title));
        let body = case.question.body();
        let limit = Limit::after(MEMORY_LOAD);
        let load = load::run(target, &body, MANY_CONNECTIONS, limit);
        let mut tick = interval(Duration::from_millis(50));
        pin!(load);
        let sample = loop {
            select! {
                sample = &mut load => break sample,
                _ = tick.tick() => memory.peak_mib = memory.peak_mib.max(process::resident_kib(pid)? / 1024.0),
            }
        };
        memory.errors += sample.errors;
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    memory.after_mib = process::resident_kib(pid)? / 1024.0;
    Ok(Some(memory))
}

/// The median of several starts in milliseconds; `None` without a program to start.
pub(crate) async fn startup(setup: &Setup) -> Result<Option<f64>> {
    let Some(program) = &setup.program else {
        return Ok(None);
    };
    let mut starts_ms = Vec::new();
    for start in 1..=STARTS {
        report::progress(&format!("start {start} of {STARTS}"));
        let elapsed = startup::measure(program, &setup.direct_url).await?;
        starts_ms.push(elapsed.as_secs_f64() * 1e3);
    }
    Ok(Some(median(starts_ms)))
}

// === impl Rate ===

impl Rate {
    fn new(name: Name, samples: &[Sample]) -> Self {
        let middle = |figure: fn(&Sample) -> f64| median(samples.iter().map(figure).collect());
        Self {
            name,
            per_second: middle(Sample::per_second),
            p50_us: middle(p50_us),
            p99_us: middle(|sample| micros(sample.percentile(|timing| timing.total, 0.99))),
            errors: samples.iter().map(|sample| sample.errors).sum(),
        }
    }
}

fn guarded() -> Case {
    Case {
        title: "guarded tool call",
        goal: "guarded tool calls, of nginx",
        ratio_min: 0.6,
        question: Question { model: "tool".to_owned(), with_tools: true, stream: false, system_bytes: 200 },
        marker: "get_weather",
    }
}

/// Every target's samples, one for each round; the targets take turns.
async fn rounds(setup: &Setup, case: &Case, connections: usize) -> Result<Vec<(Name, Vec<Sample>)>> {
    let body = case.question.body();
    for (name, target) in &setup.targets {
        check(*name, target, case).await?;
        let warm_up = Limit::after(WARM_UP);
        load::run(target, &body, connections, warm_up).await;
    }
    let mut samples: Vec<_> = setup.targets.iter().map(|(name, _)| (*name, Vec::new())).collect();
    for round in 1..=ROUNDS {
        let title = case.title;
        report::progress(&format!("{title}, connections: {connections}, round {round} of {ROUNDS}"));
        for ((_, target), (_, samples)) in setup.targets.iter().zip(&mut samples) {
            let limit = Limit::after(setup.round);
            samples.push(load::run(target, &body, connections, limit).await);
        }
    }
    Ok(samples)
}

/// Asks once, because fast wrong answers are worth nothing.
async fn check(name: Name, target: &Target, case: &Case) -> Result<()> {
    let answer =
        load::ask_once(target, &case.question.body()).await.map_err(|error| format!("{}, {}: {error}", name.label(), case.title))?;
    let answer = String::from_utf8_lossy(&answer);
    if !answer.contains(case.marker) {
        return Err(format!("{}, {}: unexpected answer {answer}", name.label(), case.title).into());
    }
    Ok(())
}

fn p50_us(sample: &Sample) -> f64 {
    micros(sample.percentile(|timing| timing.total, 0.5))
}

fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

/// Many short rounds rather than few long ones: what else the machine does meanwhile then spoils
/// a minority of them, for every target alike.
const ROUNDS: usize = 7;

/// How long each case keeps the connections busy while memory is watched.
const MEMORY_LOAD: Duration = Duration::from_secs(2);

const STARTS: usize = 5;

/// As many as toolgate's targets are set for.
const CONNECTIONS: usize = 4;

const MANY_CONNECTIONS: usize = 64;

/// Enough to open connections and fill caches.
const WARM_UP: Duration = Duration::from_millis(300);
