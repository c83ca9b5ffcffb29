//! `compare --direct URL [--nginx URL] [--nginx-tuned URL] [--toolgate URL --pid PID --bin PATH]
//! [--round-ms MS]`
//!
//! Puts the same load on the model server itself and on the proxies in front of it, in turn, since
//! the machine may be shared: ratios of the same minute hold, absolute figures do not. Prints a
//! table for each measurement and at the end one line for each of toolgate's targets, which ask for
//! a share of the plain nginx's rate; the share of the tuned one's stands beside it.
//!
//! A figure that falls short is no failure; a request that fails is.

use std::{env, path::PathBuf, process::ExitCode, time::Duration};

use tokio::{
    select,
    signal::unix::{SignalKind, signal},
};
use toolgate_load::{
    Result,
    load::Target,
    report::{self, Goal},
};

mod measure;
mod table;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run().await {
        Ok(0) => ExitCode::SUCCESS,
        Ok(errors) => {
            eprintln!("compare: {errors} requests failed");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("compare: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<u64> {
    let setup = Setup::parse(env::args().skip(1))?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    // A signal drops the measurement, and with it every process that it started.
    select! {
        errors = compare(&setup) => errors,
        _ = terminate.recv() => Err("terminated".into()),
        _ = interrupt.recv() => Err("interrupted".into()),
    }
}

/// Measures and prints everything, and returns how many requests failed.
async fn compare(setup: &Setup) -> Result<u64> {
    let mut goals = Vec::new();
    let mut errors = 0;
    table::print_rates_head();
    for case in measure::cases() {
        let rates = measure::rates(setup, &case).await?;
        table::print_rates(&case, &rates);
        errors += rates.iter().map(|rate| rate.errors).sum::<u64>();
        let of_plain = measure::ratio(&rates, Name::Toolgate, Name::Nginx);
        let of_tuned = measure::ratio(&rates, Name::Toolgate, Name::NginxTuned);
        goals.push(Goal::at_least(case.goal, case.ratio_min, of_plain, of_tuned));
    }
    let (latency_errors, added_us) = measure::added_latency(setup).await?;
    let memory = measure::memory(setup).await?;
    let startup_ms = measure::startup(setup).await?;
    errors += latency_errors + memory.as_ref().map_or(0, |memory| memory.errors);
    table::print_details(&added_us, memory.as_ref(), startup_ms);

    let toolgate_us = added_us.iter().find(|(name, _)| *name == Name::Toolgate).map(|(_, us)| *us);
    let peak_mib = memory.map(|memory| memory.peak_mib);
    goals.push(Goal::below("guarded call, added at the median (µs)", 500.0, toolgate_us));
    goals.push(Goal::below("memory at 64 connections (MiB)", 30.0, peak_mib));
    goals.push(Goal::below("start to first request (ms)", 100.0, startup_ms));
    report::print_goals(&goals);
    Ok(errors)
}

/// What is measured, as the command line says.
struct Setup {
    targets: Vec<(Name, Target)>,
    direct_url: String,
    pid: Option<u32>,
    program: Option<PathBuf>,
    round: Duration,
}

/// The ways to the model server.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Name {
    Direct,
    /// With just what forwards requests: a connection to the model server for each.
    Nginx,
    /// With connections to the model server that stay open.
    NginxTuned,
    Toolgate,
}

// === impl Setup ===

impl Setup {
    fn parse(mut args: impl Iterator<Item = String>) -> Result<Self> {
        let mut setup =
            Self { targets: Vec::new(), direct_url: String::new(), pid: None, program: None, round: Duration::from_millis(700) };
        while let Some(flag) = args.next() {
            let value = args.next().ok_or_else(|| format!("{flag} needs a value"))?;
            match flag.as_str() {
                "--direct" => {
                    setup.add(Name::Direct, &value)?;
                    setup.direct_url = value;
                }
                "--nginx" => setup.add(Name::Nginx, &value)?,
                "--nginx-tuned" => setup.add(Name::NginxTuned, &value)?,
                "--toolgate" => setup.add(Name::Toolgate, &value)?,
                "--pid" => setup.pid = Some(value.parse()?),
                "--bin" => setup.program = Some(value.into()),
                "--round-ms" => setup.round = Duration::from_millis(value.parse()?),
                _ => return Err(format!("unknown flag {flag}").into()),
            }
        }
        if setup.direct_url.is_empty() {
            return Err("--direct URL is needed".into());
        }
        Ok(setup)
    }

    fn target(&self, wanted: Name) -> Option<&Target> {
        self.targets.iter().find(|(name, _)| *name == wanted).map(|(_, target)| target)
    }

    fn add(&mut self, name: Name, base_url: &str) -> Result<()> {
        let target = Target::parse(&format!("{base_url}/v1/chat/completions"))?;
        self.targets.push((name, target));
        Ok(())
    }
}

// === impl Name ===

impl Name {
    fn label(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Nginx => "nginx",
            Self::NginxTuned => "nginx, tuned",
            Self::Toolgate => "toolgate",
        }
    }
}
