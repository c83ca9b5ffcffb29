//! `toolgate report cost`: what was spent, by the traces and by the ledger.

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use anyhow::{Context, bail};
use chrono::Utc;
use clap::{Args, Subcommand, ValueEnum};

use super::{
    EXIT_CONFIGURATION, Settings,
    running::{self, Running},
    runtime, with_config,
};
use crate::{
    app,
    budget::ledger::Entry,
    config::{Config, budget::Books, env},
    report::{self, By, Call, Comparison, Counted, Ledger, MARGIN_MS, Page, Range, Source, Terms},
    secret::Secret,
    trace::Sink,
};

#[derive(Debug, Subcommand)]
pub(super) enum Report {
    /// What was spent, by the traces and by the ledger; exits 1 if they disagree, 2 if they cannot be read.
    Cost(Cost),
}

#[derive(Debug, Args)]
pub(super) struct Cost {
    /// From when on: a day in UTC like 2026-11-22, a time of RFC 3339, or how long ago, like 24h or 7d
    #[arg(long, value_name = "TIME", value_parser = time)]
    since: Option<u64>,
    /// Until before when, said the same way [default: now]
    #[arg(long, value_name = "TIME", value_parser = time)]
    until: Option<u64>,
    /// What the calls are grouped by
    #[arg(long, value_enum, default_value_t)]
    by: Group,
    /// Leave out calls that were not made: refused ones, rehearsals, models that could not be asked
    #[arg(long)]
    executed_only: bool,
    /// Write JSON
    #[arg(long)]
    json: bool,
    /// The key of an administrator, where a toolgate that runs has the books [env: TOOLGATE_ADMIN_KEY]
    #[arg(long)]
    key: Option<String>,
    /// A trace to read in the place of the configured one; `-` is standard input
    #[arg(long, value_name = "FILE")]
    trace: Vec<PathBuf>,
    #[command(flatten)]
    settings: Settings,
}

#[derive(Debug, Clone, Copy, Default, ValueEnum)]
enum Group {
    /// By the day in UTC
    #[default]
    Day,
    /// By the API key that asked
    Key,
    /// By model; all tools are one
    Model,
    /// By tool; all models are one
    Tool,
}

/// What is known of the books.
enum Known {
    Entries(Vec<Entry>, String),
    /// There are none, for this reason.
    Absent(String),
    /// There are some, but they cannot be read.
    Unread(String),
}

/// What was booked a moment ago is in the trace after so long at the latest, unless the disk is slow.
const SETTLED_AFTER: Duration = Duration::from_millis(200);

/// Does the command.
pub(super) fn run(Report::Cost(mut cost): Report) -> ExitCode {
    let settings = std::mem::take(&mut cost.settings);
    with_config(settings, |config| {
        Ok(cost.report(&config).unwrap_or_else(|error| {
            super::report(&mut io::stderr(), &[format!("{error:#}")]);
            ExitCode::from(EXIT_CONFIGURATION)
        }))
    })
}

fn time(text: &str) -> Result<u64, String> {
    report::at(text, now_ms())
}

fn now_ms() -> u64 {
    u64::try_from(Utc::now().timestamp_millis()).unwrap_or_default()
}

impl Cost {
    fn report(&self, config: &Config) -> anyhow::Result<ExitCode> {
        // What goes on while this reads would be in one of the two only.
        let range = Range { since_ms: self.since.unwrap_or_default(), until_ms: self.until.unwrap_or_else(now_ms) };
        let by = match self.by {
            Group::Day => By::Day,
            Group::Key => By::Key,
            Group::Model => By::Model,
            Group::Tool => By::Tool,
        };
        let terms = Terms { range, by, executed_only: self.executed_only };
        let (books, ledger, is_unread) = match books(config, self.key.clone(), range.widened(MARGIN_MS))? {
            Known::Entries(entries, place) => (Some(entries.into_iter().map(Call::from).collect()), Ledger::At(place), false),
            Known::Absent(why) => (None, Ledger::None(why), false),
            Known::Unread(why) => (None, Ledger::None(why), true),
        };
        std::thread::sleep(SETTLED_AFTER);
        let comparison = Comparison::new(terms, books);
        let mut traces = Traces { comparison, counted: Counted::default(), names: Vec::new(), notes: Vec::new(), is_cut: false };
        self.read(config, &mut traces)?;
        traces.comparison.finish();
        let page = Page { comparison: &traces.comparison, counted: traces.counted, traces: &traces.names, ledger, notes: &traces.notes };
        let text = if self.json { page.json().context("write JSON")? + "\n" } else { page.to_string() };
        // There is nobody to tell when the stream is closed.
        let _ = io::stdout().write_all(text.as_bytes());
        Ok(match traces.comparison.agrees() {
            // What was not read may be all that is missing.
            _ if is_unread || traces.is_cut => ExitCode::from(EXIT_CONFIGURATION),
            Some(false) => ExitCode::FAILURE,
            Some(true) | None => ExitCode::SUCCESS,
        })
    }

    /// Reads the traces that were named, or those of the configuration.
    fn read(&self, config: &Config, traces: &mut Traces) -> anyhow::Result<()> {
        for path in &self.trace {
            if path == Path::new("-") {
                traces.read(path, io::stdin().lock());
            } else {
                let source = Source::open(path).with_context(|| format!("read the trace {}", path.display()))?;
                traces.read(path, source.reader());
            }
        }
        if !self.trace.is_empty() {
            return Ok(());
        }
        let Sink::File(path) = config.trace_sink() else {
            bail!("no trace is written to a file (trace.sink): name one with --trace");
        };
        let sources = report::all_of(&path).with_context(|| format!("read the trace {}", path.display()))?;
        if sources.is_empty() {
            traces.notes.push(format!("there is no trace at {} yet", path.display()));
        }
        for source in sources {
            traces.read(&source.path.clone(), source.reader());
        }
        Ok(())
    }
}

/// The traces, as far as they were read.
struct Traces {
    comparison: Comparison,
    counted: Counted,
    names: Vec<String>,
    notes: Vec<String>,
    /// Whether one of them could not be read to its end.
    is_cut: bool,
}

impl Traces {
    fn read(&mut self, path: &Path, from: impl io::BufRead) {
        if let Err(error) = self.counted.read(from, &mut self.comparison) {
            self.notes.push(format!("{} could not be read to its end: {error}", path.display()));
            self.is_cut = true;
        }
        self.names.push(path.display().to_string());
    }
}

/// The lines of the books in `range`: of those that can be opened, else of those of the toolgate that runs, which is shown `key`.
fn books(config: &Config, key: Option<String>, range: Range) -> anyhow::Result<Known> {
    let runtime = runtime()?;
    let of_running = |why: &str| {
        let known = runtime.block_on(of_running(config, running::key(key, &env::Process), range));
        known.unwrap_or_else(|| Known::Unread(format!("it cannot be read: {why}")))
    };
    let place = match &config.budget.books {
        Books::Off => return Ok(Known::Absent("none is configured (budget.store)".to_owned())),
        Books::Memory => return Ok(of_running("it is in the memory of the toolgate that runs (budget.store)")),
        Books::File { path, .. } if !path.exists() => return Ok(Known::Absent(format!("there is none at {} yet", path.display()))),
        Books::File { path, .. } => path.display().to_string(),
        Books::Redis(_) => "redis".to_owned(),
    };
    let reading = async {
        match app::books(config) {
            Ok(Some(store)) => Ok(store.entries(range.since_ms, range.until_ms).await?),
            Ok(None) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    };
    Ok(match runtime.block_on(reading) {
        Ok(entries) => Known::Entries(entries, place),
        Err(error) => of_running(&format!("{error:#}")),
    })
}

/// The lines of the books of the toolgate that runs, if one does.
async fn of_running(config: &Config, key: Option<Secret>, range: Range) -> Option<Known> {
    let entries = async {
        let Some(running) = Running::find(config, key).await? else { return Ok(None) };
        let entries = running.entries(range.since_ms, range.until_ms).await?;
        Ok(Some(Known::Entries(entries, format!("the toolgate at {}", running.address()))))
    };
    entries.await.unwrap_or_else(|error: anyhow::Error| Some(Known::Unread(format!("{error:#}"))))
}
