//! `toolgate budget`: what is left of budgets, and changing them.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use super::{
    Settings,
    running::{self, Books},
    runtime, with_config,
};
use crate::{
    budget::{
        Amount, Change, Unit,
        amount::UNLIMITED,
        change, keys,
        ledger::{Status, Terms},
        statement::{self, Line},
    },
    config::{Config, env},
};
use anyhow::{Context, anyhow, bail};
use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(super) enum Budget {
    /// Show what is in budgets, and what is left of them.
    Show {
        /// That one and those below it, such as tenant:acme; all of them where it is absent
        scope: Option<String>,
        /// Those that count for the shown key, which needs to be no administrator's
        #[arg(long, conflicts_with = "scope")]
        own: bool,
        #[command(flatten)]
        asking: Asking,
    },
    /// Make a budget, or change how much is in it in all.
    Allocate {
        /// Whose it is: tenant:acme/app:chat
        scope: String,
        /// How much: "5 USD", "100000 tokens", "20 calls", "10 risk", "unlimited USD"
        amount: Option<String>,
        /// How much debt may be made: "1 USD"
        #[arg(long, value_name = "AMOUNT", required_unless_present = "amount")]
        overdraft: Option<String>,
        #[command(flatten)]
        asking: Asking,
    },
    /// Put something into a budget; debt is paid first.
    Fund {
        /// Whose it is: tenant:acme/app:chat
        scope: String,
        /// How much: "5 USD", "100000 tokens"
        amount: String,
        /// Under one key it is put in once, however often this is run
        #[arg(long, value_name = "KEY")]
        idempotency_key: Option<String>,
        #[command(flatten)]
        asking: Asking,
    },
    /// Let nothing be taken from budgets for now.
    Freeze(Which),
    /// Let it be taken again.
    Unfreeze(Which),
    /// Let nothing be taken from budgets, never again.
    Close(Which),
}

#[derive(Debug, Args)]
pub(super) struct Which {
    /// Whose they are: tenant:acme/app:chat
    scope: String,
    /// The one that counts USD, tokens, calls or risk; all of the scope where it is absent
    #[arg(long)]
    unit: Option<String>,
    #[command(flatten)]
    asking: Asking,
}

#[derive(Debug, Args)]
pub(super) struct Asking {
    /// The key of an administrator; others on this machine may see what is typed here [env: TOOLGATE_ADMIN_KEY]
    #[arg(long)]
    key: Option<String>,
    /// Print JSON, as `GET /budget` answers
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    settings: Settings,
}

/// What a command asks for.
enum Wanted {
    Shown { scope: Option<String>, own: bool },
    Done(Change),
}

/// Does `command`.
pub(super) fn run(command: Budget) -> ExitCode {
    let (asking, wanted) = read(command);
    let Asking { key, json, settings } = asking;
    with_config(settings, |config| {
        let key = running::key(key, &env::Process);
        let lines = runtime()?.block_on(answer(&config, key, wanted?))?;
        let told = if json { statement::json(&lines) + "\n" } else { table(&lines) };
        io::stdout().write_all(told.as_bytes()).context("print the budgets")?;
        Ok(ExitCode::SUCCESS)
    })
}

async fn answer(config: &Config, key: Option<crate::secret::Secret>, wanted: Wanted) -> anyhow::Result<Vec<Line>> {
    let books = Books::open(config, key).await?;
    match wanted {
        Wanted::Shown { own: true, .. } => books.own().await,
        Wanted::Shown { scope, .. } => books.balances(scope.as_deref()).await,
        Wanted::Done(change) => {
            let again = match &change {
                Change::Fund { key, .. } => {
                    format!("where it is not known whether it was done: it is done once with --idempotency-key {key}")
                }
                Change::Allocate { .. } | Change::Status { .. } => "it can be asked for again".to_owned(),
            };
            books.change(&change).await.context(again)
        }
    }
}

fn read(command: Budget) -> (Asking, anyhow::Result<Wanted>) {
    match command {
        Budget::Show { scope, own, asking } => {
            let scope = scope.map(|scope| change::read_scope(&scope)).transpose();
            (asking, scope.map(|scope| Wanted::Shown { scope, own }).map_err(Into::into))
        }
        Budget::Allocate { scope, amount, overdraft, asking } => (asking, allocation(&scope, amount, overdraft).map(Wanted::Done)),
        Budget::Fund { scope, amount, idempotency_key, asking } => (asking, payment(&scope, &amount, idempotency_key).map(Wanted::Done)),
        Budget::Freeze(which) => switched(which, Status::Frozen),
        Budget::Unfreeze(which) => switched(which, Status::Active),
        Budget::Close(which) => switched(which, Status::Closed),
    }
}

fn switched(which: Which, status: Status) -> (Asking, anyhow::Result<Wanted>) {
    let Which { scope, unit, asking } = which;
    let known = |word: String| Unit::of_word(&word).ok_or_else(|| anyhow!("--unit must be USD, tokens, calls or risk"));
    let change = change::read_scope(&scope)
        .map_err(Into::into)
        .and_then(|scope| Ok(Change::Status { scope, unit: unit.map(known).transpose()?, status }));
    (asking, change.map(Wanted::Done))
}

fn allocation(scope: &str, amount: Option<String>, overdraft: Option<String>) -> anyhow::Result<Change> {
    let [allocated, overdraft] = [amount, overdraft].map(|typed| typed.map(|typed| read_amount(&typed)).transpose());
    let (allocated, overdraft) = (allocated?, overdraft?);
    let unit = match (allocated, overdraft) {
        (Some(one), Some(other)) if one.unit != other.unit => bail!("a budget and its overdraft are counted in the same unit"),
        (Some(one), _) | (None, Some(one)) => one.unit,
        (None, None) => bail!("say how much, such as \"5 USD\""),
    };
    let amount = |amount: Amount| amount.amount;
    let terms = Terms { allocated: allocated.map(amount), overdraft_limit: overdraft.map(amount), caps: None };
    Ok(Change::Allocate { scope: change::read_scope(scope)?, unit, terms })
}

fn payment(scope: &str, amount: &str, key: Option<String>) -> anyhow::Result<Change> {
    let key = match key {
        Some(key) => key,
        // As hard to meet by chance as a key is.
        None => keys::fresh().context("make an idempotency key")?.expose().replacen("tg_", "fund_", 1),
    };
    Ok(Change::Fund { scope: change::read_scope(scope)?, amount: read_amount(amount)?, key })
}

fn read_amount(typed: &str) -> anyhow::Result<Amount> {
    let expected = "is no amount: it is such as \"5 USD\", \"100000 tokens\", \"20 calls\" or \"10 risk\", below 2^53, money in microcents";
    Amount::parse(typed).ok_or_else(|| anyhow!("`{typed}` {expected}"))
}

/// The budgets as people read them.
fn table(lines: &[Line]) -> String {
    let head = ["BUDGET", "UNIT", "ALLOCATED", "SPENT", "RESERVED", "DEBT", "LEFT", "STATE", "UNTIL"].map(str::to_owned);
    let rows: Vec<[String; COLUMNS]> = std::iter::once(head).chain(lines.iter().map(row)).collect();
    let mut widths = [0; COLUMNS];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let mut text = String::new();
    for row in &rows {
        let cells =
            row.iter().zip(widths).enumerate().map(|(column, (cell, width))| {
                if NUMBERS.contains(&column) { format!("{cell:>width$}") } else { format!("{cell:width$}") }
            });
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

const COLUMNS: usize = 9;
/// The columns that hold numbers.
const NUMBERS: std::ops::Range<usize> = 2..7;

fn row(line: &Line) -> [String; COLUMNS] {
    let number = |amount: u64| line.unit.number(amount);
    let left = line.remaining.map(|left| {
        let sign = if left < 0 { "-" } else { "" };
        format!("{sign}{}", number(left.unsigned_abs()))
    });
    let state = match (line.status, line.is_over_limit) {
        (Status::Closed, _) => "closed",
        (Status::Frozen, _) => "frozen",
        (Status::Active, true) => "over its limit",
        (Status::Active, false) => "active",
    };
    [
        line.scope.clone(),
        line.unit.word().to_owned(),
        line.allocated.map_or_else(|| UNLIMITED.to_owned(), number),
        number(line.spent),
        number(line.reserved),
        number(line.debt),
        left.unwrap_or_else(|| UNLIMITED.to_owned()),
        state.to_owned(),
        line.until.clone().unwrap_or_default(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::ledger::Balance;

    #[test]
    fn a_table_is_read_by_people() {
        let balance = Balance { allocated: 500_000_000, spent: 31_000, debt: 1, ..Balance::default() };
        let lines = [
            Line::new("tenant:acme".to_owned(), Unit::UsdMicrocents, balance),
            Line::new("tenant:acme/app:chat".to_owned(), Unit::Tokens, Balance { spent: 12, ..Balance::unlimited() }),
        ];
        let expected = "\
BUDGET                UNIT    ALLOCATED    SPENT  RESERVED        DEBT        LEFT  STATE   UNTIL
tenant:acme           USD           5.0  0.00031       0.0  0.00000001  4.99968999  active
tenant:acme/app:chat  tokens  unlimited       12         0           0   unlimited  active
";
        assert_eq!(table(&lines), expected);
    }
}
