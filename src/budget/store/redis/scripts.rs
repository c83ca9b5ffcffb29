//! The operations as scripts, each put together from the parts it shares with others.

use std::sync::LazyLock;

use ::redis::Script;

use crate::budget::{
    Unit,
    amount::AMOUNT_MAX,
    ledger::{EXTENSIONS_MAX, KEPT_MS, SWEEP_MAX},
};

/// How long the answer to a commit or an event is kept: thirty days. A cost waits in the journal of its process until that comes back, be
/// it days later, and is booked once all the same.
pub(super) const BOOKED_KEPT_MS: u64 = 30 * 24 * 3600 * 1000;
/// How long it is known what became of a reservation that is settled: seven days.
pub(super) const SETTLED_KEPT_MS: u64 = 7 * 24 * 3600 * 1000;
/// How long a line of the books is kept: what is asked of them is told by year and by month.
const ENTRIES_KEPT_MS: u64 = 400 * 24 * 3600 * 1000;

macro_rules! script {
    ($($part:literal),+) => {
        LazyLock::new(|| Script::new(&[&numbers(), include_str!("prelude.lua"), $(include_str!($part)),+].concat()))
    };
}

pub(super) static RESERVE: LazyLock<Script> = script!("lines.lua", "reservation.lua", "reserve.lua");
pub(super) static DECIDE: LazyLock<Script> = script!("lines.lua", "decide.lua");
pub(super) static COMMIT: LazyLock<Script> = script!("reservation.lua", "charge.lua", "commit.lua");
pub(super) static RELEASE: LazyLock<Script> = script!("reservation.lua", "release.lua");
pub(super) static EXTEND: LazyLock<Script> = script!("reservation.lua", "extend.lua");
pub(super) static EVENT: LazyLock<Script> = script!("lines.lua", "charge.lua", "event.lua");
pub(super) static EXPIRE: LazyLock<Script> = script!("reservation.lua", "expire.lua");
pub(super) static ADMINISTER: LazyLock<Script> = script!("administer.lua");

/// The numbers of the rules, which the scripts have from here.
fn numbers() -> String {
    let units: Vec<_> = Unit::ALL.iter().map(|unit| format!("'{}'", unit.as_str())).collect();
    format!(
        "local KEPT_MS, BOOKED_KEPT_MS, SETTLED_KEPT_MS, SWEEP_MAX, EXTENSIONS_MAX, AMOUNT_MAX, ENTRIES_KEPT_MS = \
         {KEPT_MS}, {BOOKED_KEPT_MS}, {SETTLED_KEPT_MS}, {SWEEP_MAX}, {EXTENSIONS_MAX}, {AMOUNT_MAX}, {ENTRIES_KEPT_MS}\nlocal UNITS = {{ {} }}\n",
        units.join(", ")
    )
}
