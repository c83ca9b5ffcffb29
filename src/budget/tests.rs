//! What lets calls through, over a ledger in memory: what is reserved before a call is what is charged or given back after it.

use std::{sync::Arc, time::Duration};

use super::{
    Account, Amount, Ask, Denial, Gate, Meter, Pass, Policy, Store, Unit,
    access::Tool,
    denial::Reason,
    ledger::{Caps, Entry, Overage, Terms},
    policy::{Ceilings, Limit, Who, Window},
    price::{ModelPrice, Prices, ToolPrice},
    store::memory::Memory,
};
use crate::{
    chat::{Usage, report::HaltReason},
    resilience::tasks::Tasks,
};

/// 100 microcents for a token that is read, 1000 for one that is written; 500 for a call of `fs.*`, and 2 risk points.
fn prices() -> Prices {
    let model =
        ModelPrice { pattern: "m".to_owned(), input: 100_000_000, cached_input: 100_000_000, cache_write: 0, output: 1_000_000_000 };
    Prices { models: vec![model], tools: vec![ToolPrice { pattern: "fs.*".to_owned(), call: 500, risk: 2 }] }
}

struct Bench {
    gate: Gate,
    store: Arc<Store>,
}

fn bench(change: impl FnOnce(&mut Policy)) -> Bench {
    let mut policy = Policy { prices: prices(), ..Policy::default() };
    change(&mut policy);
    let store = Arc::new(Store::Memory(Memory::default()));
    Bench { gate: Gate::new(policy, Some(Arc::clone(&store)), Tasks::default()), store }
}

fn ceilings(change: impl FnOnce(&mut Ceilings)) -> Bench {
    bench(|policy| change(&mut policy.ceilings))
}

fn limited(limit: Limit) -> Bench {
    bench(|policy| policy.limits = vec![limit])
}

fn limit(who: Who, window: Window, unit: Unit, amount: u64) -> Limit {
    Limit { who, tool: None, kind: None, window, amount: Amount::new(unit, amount) }
}

impl Bench {
    fn meter(&self) -> Meter {
        self.meter_of("k", "s")
    }

    fn meter_of(&self, key: &str, session: &str) -> Meter {
        let account = Account { key: key.to_owned(), ..Account::anonymous() };
        self.gate.meter(&Arc::new(account), "r", session)
    }

    /// What is reserved in all budgets.
    async fn reserved(&self) -> u64 {
        self.store.balances().await.unwrap().iter().map(|(_, _, balance)| balance.reserved).sum()
    }

    /// What the account has used of `unit`.
    async fn spent(&self, unit: Unit) -> u64 {
        let balances = self.store.balances().await.unwrap();
        balances.iter().find(|(scope, of, _)| scope == "tenant:local" && *of == unit).map_or(0, |(.., balance)| balance.spent)
    }

    async fn entries(&self) -> Vec<Entry> {
        self.store.entries(0, u64::MAX).await.unwrap()
    }

    async fn caps(&self, caps: Caps) {
        let terms = Terms { allocated: Some(1_000_000_000), caps: Some(caps), ..Terms::default() };
        self.store.allocate("tenant:local", Unit::Credits, &terms).await.unwrap();
    }
}

fn ask(prompt_tokens: u64, max_tokens: Option<u64>) -> Ask<'static> {
    Ask { model: "m", prompt_tokens, max_tokens }
}

const READ: Tool<'static> =
    Tool { server: "fs", name: "read", is_read_only: true, is_destructive: false, is_idempotent: true, is_open_world: false };
const DELETE: Tool<'static> = Tool { name: "delete", is_read_only: false, is_destructive: true, ..READ };

fn usage(prompt_tokens: u64, completion_tokens: u64) -> Usage {
    Usage { prompt_tokens, completion_tokens, ..Usage::default() }
}

fn reason<T: std::fmt::Debug>(outcome: Result<T, Denial>) -> Reason {
    outcome.unwrap_err().reason
}

fn begun(mut pass: Pass) -> Pass {
    pass.begin();
    pass
}

#[tokio::test]
async fn the_worst_case_is_reserved_and_the_real_cost_charged() {
    let bench = bench(|_| {});
    let meter = bench.meter();
    let pass = begun(meter.model(ask(10, Some(50))).await.unwrap());
    // Money, tokens and the call itself.
    assert_eq!(bench.reserved().await, (10 * 100 + 50 * 1000) + 60 + 1);
    assert_eq!((pass.max_tokens(), meter.cost()), (None, None), "what is asked for is within all bounds");
    assert_eq!(pass.spend(usage(9, 4)), Some(9 * 100 + 4 * 1000));
    assert_eq!((bench.reserved().await, bench.spent(Unit::UsdMicrocents).await, bench.spent(Unit::Tokens).await), (0, 4900, 13));
    assert_eq!((meter.cost(), bench.entries().await.len()), (Some(4900), 1));
}

#[tokio::test]
async fn a_pass_is_settled_whatever_becomes_of_it() {
    let bench = bench(|_| {});
    let pass = async || bench.meter().model(ask(10, Some(50))).await.unwrap();
    let spent = async || (bench.reserved().await, bench.spent(Unit::UsdMicrocents).await, bench.spent(Unit::Credits).await);
    // Never begun.
    drop(pass().await);
    assert_eq!(spent().await, (0, 0, 0));
    // Begun, and certainly never sent.
    let mut undone = begun(pass().await);
    undone.undo();
    drop(undone);
    assert_eq!(spent().await, (0, 0, 0));
    // Begun, and nothing heard: the prompt.
    drop(begun(pass().await));
    assert_eq!(spent().await, (0, 1000, 1));
    // Left in the middle: what was heard, by pieces or by bytes.
    let mut heard = begun(pass().await);
    heard.hear(1);
    heard.hear(19);
    let cost = heard.cost();
    drop(heard);
    assert_eq!((spent().await, cost.get()), ((0, 1000 + 1000 + 5000, 2), Some(6000)));
    // A reply that was not counted is charged by what came of it.
    assert_eq!(begun(pass().await).spend(Usage::default()), Some(1000));
    // More than was reserved has happened all the same.
    assert_eq!(begun(pass().await).spend(usage(10, 90)), Some(91_000));
    assert_eq!(spent().await, (0, 7000 + 1000 + 91_000, 4));
}

#[tokio::test]
async fn a_cost_that_is_rejected_is_charged_as_far_as_it_was_reserved() {
    let bench = bench(|policy| policy.overage = Overage::Reject);
    begun(bench.meter().model(ask(10, Some(50))).await.unwrap()).spend(usage(10, 90));
    assert_eq!((bench.reserved().await, bench.spent(Unit::UsdMicrocents).await), (0, 51_000));
}

#[tokio::test]
async fn a_ceiling_lowers_the_reply_and_then_ends_the_run() {
    let bench = ceilings(|ceilings| ceilings.usd = Some(100_000));
    let meter = bench.meter();
    let first = begun(meter.model(ask(100, None)).await.unwrap());
    assert_eq!((first.max_tokens(), first.lowered_by()), (Some(90), Some(HaltReason::CostCeiling)));
    assert_eq!(reason(meter.model(ask(0, None)).await), Reason::Spent(HaltReason::CostCeiling), "all is put aside for the first");
    assert_eq!(reason(meter.tool(&READ, "c").await), Reason::Spent(HaltReason::CostCeiling));
    first.spend(usage(100, 30));
    let second = meter.model(ask(100, Some(40))).await.unwrap();
    assert_eq!((second.max_tokens(), second.lowered_by()), (None, None), "10,000 and 40,000 of the 60,000 that are left");
    drop(second);
    // 15 tokens are no reply, but one that was asked for so short is.
    assert_eq!(reason(meter.model(ask(450, Some(40))).await), Reason::Spent(HaltReason::CostCeiling));
    assert!(meter.model(ask(450, Some(15))).await.is_ok());
}

#[tokio::test]
async fn tokens_calls_and_time_have_ceilings() {
    let tokens = ceilings(|ceilings| ceilings.tokens = Some(100));
    let held = tokens.meter().model(ask(60, Some(50))).await.unwrap();
    assert_eq!((held.max_tokens(), held.lowered_by()), (Some(40), Some(HaltReason::TokenCeiling)));
    assert_eq!(reason(tokens.meter().model(ask(90, None)).await), Reason::Spent(HaltReason::TokenCeiling));
    assert_eq!(reason(tokens.meter().model(ask(101, Some(0))).await), Reason::Spent(HaltReason::TokenCeiling), "a prompt counts too");

    let calls = ceilings(|ceilings| ceilings.calls = Some(2));
    let meter = calls.meter();
    drop(meter.tool(&READ, "never sent").await.unwrap());
    for call in ["a", "b"] {
        drop(begun(meter.tool(&READ, call).await.unwrap()));
    }
    assert_eq!(reason(meter.tool(&READ, "c").await), Reason::Spent(HaltReason::CallQuota));
    assert_eq!(calls.spent(Unit::Credits).await, 2);

    let time = ceilings(|ceilings| ceilings.deadline = Some(Duration::ZERO));
    assert_eq!(reason(time.meter().model(ask(1, None)).await), Reason::Spent(HaltReason::RequestDeadline));
    assert_eq!((time.reserved().await, time.entries().await.len()), (0, 0));
}

#[tokio::test]
async fn what_is_not_bounded_is_not_held() {
    let bench = bench(|policy| policy.prices = Prices::default());
    assert_eq!(bench.meter().model(ask(10, None)).await.unwrap().max_tokens(), None);
    let counted = limited(limit(Who::EachKey, Window::Day, Unit::Tokens, 1_000_000));
    assert_eq!(counted.meter().model(ask(10, None)).await.unwrap().max_tokens(), Some(8192));
    // As a way to say that there is no limit.
    assert!(bench.meter().model(ask(10, Some(u64::MAX))).await.is_ok());
    assert!(!Gate::default().meter(&Arc::new(Account::anonymous()), "r", "s").is_on());
}

#[tokio::test]
async fn limits_count_who_what_and_when() {
    let narrow = Limit { kind: Some("tool.destructive".to_owned()), ..limit(Who::EachSession, Window::Hour, Unit::Credits, 1) };
    let bench = limited(narrow);
    begun(bench.meter().tool(&DELETE, "a").await.unwrap()).end();
    assert_eq!(reason(bench.meter().tool(&DELETE, "b").await), Reason::Spent(HaltReason::CallQuota));
    assert!(bench.meter().tool(&READ, "c").await.is_ok(), "of another kind");
    assert!(bench.meter().model(ask(1, Some(1))).await.is_ok());
    assert!(bench.meter_of("k", "other").tool(&DELETE, "d").await.is_ok(), "of another conversation");
    assert!(bench.meter_of("other", "s").tool(&DELETE, "d").await.is_ok(), "of another key's conversation of that name");

    let risk = limited(Limit { tool: Some("fs.d*".to_owned()), ..limit(Who::Everyone, Window::Day, Unit::RiskPoints, 3) });
    begun(risk.meter().tool(&DELETE, "a").await.unwrap()).end();
    assert!(risk.meter().tool(&DELETE, "b").await.is_err(), "2 of 3 points are taken");
    assert!(risk.meter().tool(&READ, "b").await.is_ok());
}

#[tokio::test]
async fn limits_of_a_request_are_its_own() {
    let bench = limited(Limit { tool: Some("fs.*".to_owned()), ..limit(Who::EachKey, Window::Request, Unit::Credits, 1) });
    let meter = bench.meter();
    let running = meter.tool(&READ, "a").await.unwrap();
    let denial = meter.tool(&READ, "b").await.unwrap_err();
    assert_eq!(denial.to_string(), "One request may make 1 calls of this kind, and has made them.");
    assert!(bench.meter().tool(&READ, "b").await.is_ok(), "another request");
    drop(running);
    assert!(meter.tool(&READ, "b").await.is_ok(), "the first was never made");

    let tokens = limited(limit(Who::Everyone, Window::Request, Unit::Tokens, 100));
    let held = tokens.meter().model(ask(60, None)).await.unwrap();
    assert_eq!((held.max_tokens(), held.lowered_by()), (Some(40), Some(HaltReason::TokenCeiling)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn requests_that_come_at_once_do_not_use_the_same() {
    // A worst case is 51,000: there is room for seven of them.
    let bench = Arc::new(limited(limit(Who::EachKey, Window::Day, Unit::UsdMicrocents, 7 * 51_000 + 50_999)));
    let asking = (0..40).map(|_| {
        let bench = Arc::clone(&bench);
        tokio::task::spawn_blocking(move || futures_util::FutureExt::now_or_never(bench.meter().model(ask(10, Some(50)))).unwrap())
    });
    let asked: Vec<_> = futures_util::future::join_all(asking).await.into_iter().map(Result::unwrap).collect();
    assert_eq!(asked.iter().filter(|asked| asked.is_ok()).count(), 7);
    drop(asked);
    assert_eq!(bench.reserved().await, 0);
}

#[tokio::test]
async fn each_call_has_a_reservation_of_its_own_even_under_the_same_id() {
    let bench = bench(|_| {});
    let meter = bench.meter();
    let (one, two) = (begun(meter.tool(&READ, "call_1").await.unwrap()), begun(meter.tool(&READ, "call_1").await.unwrap()));
    let other_request = begun(bench.meter().tool(&READ, "call_1").await.unwrap());
    drop((one, two, other_request));
    assert_eq!((bench.spent(Unit::UsdMicrocents).await, bench.entries().await.len()), (1500, 3));
}

#[tokio::test(start_paused = true)]
async fn what_a_budget_asks_for_is_kept_to_before_the_call() {
    let capped = async |caps: Caps| {
        let bench = bench(|_| {});
        bench.caps(caps).await;
        bench
    };
    // An allowlist decides alone, and is about tools.
    let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let bench = capped(Caps { tool_allowlist: list(&["fs.read"]), tool_denylist: list(&["fs.read"]), ..Caps::default() }).await;
    assert!(bench.meter().tool(&READ, "a").await.is_ok() && bench.meter().model(ask(1, None)).await.is_ok());
    assert_eq!(reason(bench.meter().tool(&DELETE, "a").await), Reason::Forbidden);
    assert_eq!(bench.reserved().await, 0);

    let bench = capped(Caps { max_tokens: Some(20), ..Caps::default() }).await;
    let told = async |asked| bench.meter().model(ask(1, asked)).await.unwrap().max_tokens();
    assert_eq!((told(None).await, told(Some(30)).await, told(Some(10)).await), (Some(20), Some(20), None));

    let bench = capped(Caps { cooldown_ms: Some(5000), ..Caps::default() }).await;
    let begun = tokio::time::Instant::now();
    let pass = bench.meter().tool(&READ, "a").await.unwrap();
    assert_eq!(begun.elapsed().as_secs(), 5);
    drop(pass);
    let meter = bench.meter();
    assert!(tokio::time::timeout(Duration::from_secs(1), meter.tool(&READ, "b")).await.is_err());
    assert_eq!(bench.reserved().await, 0, "who does not wait for the pause makes no call");
}

#[tokio::test]
async fn a_budget_counts_calls_down() {
    let bench = bench(|_| {});
    bench.caps(Caps { max_steps_remaining: Some(2), ..Caps::default() }).await;
    let meter = bench.meter();
    drop(meter.tool(&READ, "never sent").await.unwrap());
    let (one, two) = (meter.tool(&READ, "a").await.unwrap(), meter.tool(&READ, "b").await.unwrap());
    assert_eq!(reason(meter.tool(&READ, "c").await), Reason::Spent(HaltReason::CallQuota));
    drop((begun(one), begun(two)));
    assert_eq!(reason(meter.model(ask(1, Some(1))).await), Reason::Spent(HaltReason::CallQuota));
    assert_eq!((bench.reserved().await, bench.spent(Unit::Credits).await), (0, 2));
}

#[tokio::test]
async fn a_rehearsal_puts_nothing_aside() {
    let bench = limited(limit(Who::Everyone, Window::Day, Unit::UsdMicrocents, 499));
    assert_eq!(bench.meter().would_refuse(&READ).await.map(|denial| denial.reason), Some(Reason::Spent(HaltReason::CostCeiling)));
    let bench = self::bench(|_| {});
    assert_eq!(bench.meter().would_refuse(&READ).await, None);
    assert!(bench.store.balances().await.unwrap().is_empty() && bench.entries().await.is_empty());

    bench.caps(Caps { tool_denylist: vec!["fs.read".to_owned()], ..Caps::default() }).await;
    assert_eq!(bench.meter().would_refuse(&READ).await.map(|denial| denial.reason), Some(Reason::Forbidden));
    assert_eq!(bench.meter().would_refuse(&DELETE).await, None);
    bench.caps(Caps { max_steps_remaining: Some(0), ..Caps::default() }).await;
    assert_eq!(bench.meter().would_refuse(&READ).await.map(|denial| denial.reason), Some(Reason::Spent(HaltReason::CallQuota)));
    assert_eq!(bench.reserved().await, 0);
}

/// Makes a call on a ledger that is gone for a while, of a policy that lets it, which costs 6000.
async fn made_while_gone(bench: &Bench) {
    let Store::Memory(memory) = &*bench.store else { panic!("another store") };
    memory.set_gone(true);
    let pass = begun(bench.meter().model(ask(10, Some(50))).await.unwrap());
    memory.set_gone(false);
    pass.spend(usage(10, 5));
}

#[tokio::test]
async fn a_cost_that_is_told_afterwards_is_in_the_books_whatever_the_policy_of_overages() {
    let of = |overage| bench(|policy| (policy.overage, policy.fails_open) = (overage, true));
    let rejecting = of(Overage::Reject);
    made_while_gone(&rejecting).await;
    assert_eq!((rejecting.spent(Unit::UsdMicrocents).await, rejecting.entries().await.len()), (6000, 1));

    // More than may be owed: as much as there is.
    let owing = of(Overage::AllowWithOverdraft);
    let terms = Terms { allocated: Some(4000), overdraft_limit: Some(1000), ..Terms::default() };
    owing.store.allocate("tenant:local", Unit::UsdMicrocents, &terms).await.unwrap();
    made_while_gone(&owing).await;
    assert_eq!((owing.spent(Unit::UsdMicrocents).await, owing.entries().await.len()), (4000, 1));
}

#[tokio::test]
async fn a_ledger_that_is_gone_closes_or_opens_the_gate() {
    let gone = |fails_open| {
        let bench = bench(|policy| policy.fails_open = fails_open);
        let Store::Memory(memory) = &*bench.store else { panic!("another store") };
        memory.set_gone(true);
        bench
    };
    let closed = gone(false);
    assert_eq!(reason(closed.meter().model(ask(10, Some(50))).await), Reason::Unavailable);
    assert_eq!(closed.meter().would_refuse(&READ).await.map(|denial| denial.reason), Some(Reason::Unavailable));

    let open = gone(true);
    assert_eq!(open.meter().would_refuse(&READ).await, None);
    tokio::time::pause();
    begun(open.meter().model(ask(10, Some(50))).await.unwrap()).spend(usage(10, 5));
    drop(open.meter().tool(&READ, "never sent").await.unwrap());
    tokio::time::sleep(Duration::from_secs(3)).await;
    let Store::Memory(memory) = &*open.store else { panic!("another store") };
    memory.set_gone(false);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!((open.spent(Unit::UsdMicrocents).await, open.entries().await.len()), (6000, 1), "it is booked once it can be");
}
