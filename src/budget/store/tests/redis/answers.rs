//! The scripts answer what the rules answer, word for word and to the last digit.

use std::sync::Arc;

use proptest::{option, prelude::*, sample::Index, test_runner::TestRunner};

use super::{
    super::opened::{Place, at, key, since_begin},
    server::Server,
};
use crate::budget::{
    Amount, Store, Subject, Unit,
    amount::AMOUNT_MAX,
    ledger::{Action, Caps, Event, Overage, Quota, Request, Status, Terms},
};

const UNITS: [Unit; 3] = [Unit::Tokens, Unit::UsdMicrocents, Unit::Credits];
const SCOPES: [&str; 4] = ["tenant:t", "tenant:t/agent:ä\"b\\", "app:x", "quota:q"];
const DAY_MS: u64 = 24 * 3600 * 1000;
const LIVES: u32 = 200;

#[derive(Debug, Clone)]
enum Step {
    Reserve(Asked),
    /// An earlier one again, as it was, or with another time to live.
    Again(Index, bool),
    Decide(Asked),
    Commit(Index, Vec<Amount>),
    Release(Index),
    Extend(Index, u64),
    Event(Asked),
    Expire(u64),
    Allocate(usize, usize, Terms),
    Fund(usize, Amount),
    SetStatus(usize, usize, Status),
}

#[derive(Debug, Clone)]
struct Asked {
    subject: usize,
    amounts: Vec<Amount>,
    quotas: Vec<Quota>,
    opens: bool,
    overage: Overage,
    ttl_ms: u64,
}

/// Small ones, and of tokens the largest that there are: no debt is made of those, and so nothing is beyond what both keep exactly.
fn amount(unit: Unit) -> BoxedStrategy<Amount> {
    let small = 0u64..300;
    let amount = if unit == Unit::Tokens { prop_oneof![3 => small, 1 => AMOUNT_MAX - 3..=AMOUNT_MAX + 1].boxed() } else { small.boxed() };
    amount.prop_map(move |amount| Amount::new(unit, amount)).boxed()
}

/// Each unit at most once.
fn amounts() -> impl Strategy<Value = Vec<Amount>> {
    let maybe = |unit| option::weighted(0.6, amount(unit));
    (maybe(UNITS[0]), maybe(UNITS[1]), maybe(UNITS[2])).prop_map(|(a, b, c)| [b, a, c].into_iter().flatten().collect())
}

fn quotas() -> impl Strategy<Value = Vec<Quota>> {
    // Some may be forgotten soon.
    let quota = |unit, scope: &'static str| {
        let made = (0u64..1500, 0u64..90_000).prop_map(move |(allocated, after)| Quota {
            scope: scope.to_owned(),
            unit,
            allocated,
            until_ms: since_begin(after) - DAY_MS,
        });
        option::weighted(0.3, made)
    };
    (quota(UNITS[2], SCOPES[3]), quota(UNITS[2], "quota:r"), quota(UNITS[1], SCOPES[3]))
        .prop_map(|(a, b, c)| [a, b, c].into_iter().flatten().collect())
}

fn overage() -> impl Strategy<Value = Overage> {
    prop_oneof![Just(Overage::Reject), Just(Overage::AllowIfAvailable), Just(Overage::AllowWithOverdraft)]
}

fn asked() -> impl Strategy<Value = Asked> {
    (0usize..4, amounts(), quotas(), proptest::bool::weighted(0.2), overage(), 0u64..60_000)
        .prop_map(|(subject, amounts, quotas, opens, overage, ttl_ms)| Asked { subject, amounts, quotas, opens, overage, ttl_ms })
}

fn terms(unit: usize) -> impl Strategy<Value = Terms> {
    let caps = prop_oneof![
        Just(Caps::default()),
        (1u64..1 << 60).prop_map(|max_tokens| Caps {
            max_tokens: Some(max_tokens),
            tool_denylist: vec!["a/\"ü".to_owned()],
            ..Caps::default()
        }),
    ];
    let limit = if UNITS[unit] == Unit::Tokens { 0u64..1 } else { 0u64..400 };
    (option::of(amount(UNITS[unit])), option::of(limit), option::of(caps)).prop_map(|(allocated, overdraft_limit, caps)| Terms {
        allocated: allocated.map(|amount| amount.amount.saturating_mul(if amount.amount < 300 { 5 } else { 1 })),
        overdraft_limit,
        caps,
    })
}

fn step() -> impl Strategy<Value = Step> {
    let which = any::<Index>;
    let status = prop_oneof![6 => Just(Status::Active), 2 => Just(Status::Frozen), 1 => Just(Status::Closed)];
    let place = (0usize..4, 0usize..3);
    prop_oneof![
        8 => asked().prop_map(Step::Reserve),
        1 => (which(), any::<bool>()).prop_map(|(which, same)| Step::Again(which, same)),
        2 => asked().prop_map(Step::Decide),
        6 => (which(), amounts()).prop_map(|(which, actuals)| Step::Commit(which, actuals)),
        2 => which().prop_map(Step::Release),
        2 => (which(), 0u64..60_000).prop_map(|(which, by_ms)| Step::Extend(which, by_ms)),
        3 => asked().prop_map(Step::Event),
        2 => (0u64..20_000).prop_map(Step::Expire),
        5 => place.clone().prop_flat_map(|(scope, unit)| terms(unit).prop_map(move |terms| Step::Allocate(scope, unit, terms))),
        1 => place.clone().prop_flat_map(|(scope, unit)| amount(UNITS[unit]).prop_map(move |amount| Step::Fund(scope, amount))),
        1 => (place, status).prop_map(|((scope, unit), status)| Step::SetStatus(scope, unit, status)),
    ]
}

fn subject(which: usize) -> Subject {
    let named = |name: &str| Some(name.to_owned());
    match which {
        0 => Subject { tenant: named("T"), ..Subject::default() },
        1 => Subject { tenant: named("t"), agent: named("Ä\"b\\"), ..Subject::default() },
        2 => Subject { app: named("x"), ..Subject::default() },
        _ => Subject::default(),
    }
}

fn request(asked: Asked) -> Request {
    let Asked { subject: which, amounts, quotas, opens, overage, ttl_ms } = asked;
    Request {
        idempotency_key: key(),
        subject: subject(which),
        action: Action { kind: "tool.read".to_owned(), name: "a \"b\"/ü\u{1}".to_owned(), ..Action::default() },
        estimates: amounts,
        quotas,
        opens,
        ttl_ms,
        grace_period_ms: 5_000,
        overage_policy: overage,
    }
}

fn event(asked: Asked) -> Event {
    let Request { idempotency_key, subject, action, estimates, quotas, opens, overage_policy, .. } = request(asked);
    Event { idempotency_key, subject, action, actuals: estimates, quotas, opens, overage_policy }
}

/// The two that must not differ.
struct Both {
    rules: Store,
    scripts: Store,
    now_ms: u64,
    requests: Vec<Request>,
    ids: Vec<String>,
}

macro_rules! same {
    ($both:expr, $operation:ident($($argument:expr),*)) => {{
        let expected = $both.rules.$operation($($argument),*).await;
        let answered = $both.scripts.$operation($($argument),*).await;
        assert_eq!(answered, expected);
        answered
    }};
}

impl Both {
    async fn take(&mut self, step: Step) {
        match step {
            Step::Reserve(asked) => self.reserve(request(asked)).await,
            Step::Again(which, is_same) if !self.requests.is_empty() => {
                let mut again = which.get(&self.requests).clone();
                again.ttl_ms += u64::from(!is_same);
                self.reserve(again).await;
            }
            Step::Decide(asked) => drop(same!(self, decide(&request(asked.clone())))),
            Step::Event(asked) => {
                let event = event(asked);
                drop(same!(self, event(&event)));
                drop(same!(self, event(&event)));
            }
            Step::Expire(by_ms) => {
                self.now_ms += by_ms;
                at(self.now_ms);
                drop(same!(self, expire()));
                // What the first gave back may be forgotten now.
                drop(same!(self, expire()));
            }
            Step::Allocate(scope, unit, terms) => drop(same!(self, allocate(SCOPES[scope], UNITS[unit], &terms))),
            Step::Fund(scope, amount) => {
                // The same again is the same, and the same elsewhere is refused.
                let key = format!("{amount:?}");
                drop(same!(self, fund(SCOPES[scope], amount, &key)));
            }
            Step::SetStatus(scope, unit, status) => drop(same!(self, set_status(SCOPES[scope], UNITS[unit], status))),
            Step::Commit(..) | Step::Release(_) | Step::Extend(..) => self.settle(step).await,
            Step::Again(..) => {}
        }
    }

    async fn reserve(&mut self, request: Request) {
        let reserved = same!(self, reserve(&request));
        self.ids.extend(reserved.map(|reserved| reserved.reservation_id));
        self.requests.push(request);
    }

    async fn settle(&mut self, step: Step) {
        // One that nobody knows is among them.
        self.ids.push("rsv_0".to_owned());
        let (first, second) = (key(), key());
        // Twice the same, then another.
        for key in [&first, &first, &second] {
            match &step {
                Step::Commit(which, actuals) => drop(same!(self, commit(which.get::<String>(&self.ids), key, actuals))),
                Step::Release(which) => drop(same!(self, release(which.get::<String>(&self.ids), key))),
                Step::Extend(which, by_ms) => drop(same!(self, extend(which.get::<String>(&self.ids), key, *by_ms))),
                _ => {}
            }
        }
        self.ids.pop();
    }
}

#[test]
#[ignore = "needs a redis-server, see tests/real/test.sh"]
fn real_redis_answers_what_the_rules_answer() {
    let server: Arc<Server> = Server::shared();
    let mut runner = TestRunner::new(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(LIVES) });
    let runtime = super::super::runtime();
    let live = |steps: Vec<Step>| async {
        let (rules, scripts) = (Place::Memory.empty().await.store, Place::Redis.empty().await.store);
        let mut both = Both { rules, scripts, now_ms: 0, requests: Vec::new(), ids: Vec::new() };
        for step in steps {
            both.take(step).await;
            drop(same!(both, balances()));
        }
        drop(same!(both, entries(0, u64::MAX)));
    };
    runner
        .run(&proptest::collection::vec(step(), 1..60), |steps| {
            runtime.block_on(live(steps));
            Ok(())
        })
        .unwrap();
    drop(server);
}
