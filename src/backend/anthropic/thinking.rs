//! How long the model thinks, and what that leaves for the reply.

use std::borrow::Cow;

use serde::Deserialize;

use super::{Config, ThinkBy};
use crate::wire::{anthropic::request::Thinking, text::Text};

/// The least that the API lets a model think.
const BUDGET_MIN: u64 = 1024;

/// What was decided.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Plan<'a> {
    pub(super) thinking: Option<Thinking<'a>>,
    pub(super) effort: Option<&'static str>,
    /// The limit of the reply, thinking included.
    pub(super) max_tokens: u64,
}

impl Plan<'_> {
    /// Whether the model thinks.
    pub(super) fn thinks(&self) -> bool {
        matches!(self.thinking, Some(Thinking::Enabled { .. } | Thinking::Adaptive { .. }))
    }
}

/// What the client says about it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Wish<'a> {
    /// OpenAI's `reasoning_effort`, as JSON.
    pub(super) effort: Option<&'a [u8]>,
    /// Anthropic's `thinking`, as JSON.
    pub(super) thinking: Option<&'a [u8]>,
    /// llama-server's `thinking_budget_tokens`.
    pub(super) budget: Option<u64>,
    /// How long the reply may be.
    pub(super) limit: Option<u64>,
}

/// What becomes of `wish`. Where the conversation does not `let_think`, or the limit leaves no room, there is no budget.
pub(super) fn plan<'a>(wish: Wish<'a>, lets_think: bool, config: &Config) -> Plan<'a> {
    let max_tokens = wish.limit.unwrap_or(config.max_tokens);
    let thinking = wish.thinking.and_then(given).or_else(|| by_budget(wish, config.thinking)).or_else(|| by_effort(wish, config.thinking));
    let effort = match (&thinking, wish.effort) {
        (Some(Thinking::Adaptive { .. }), Some(effort)) => effort_level(effort),
        _ => None,
    };
    let Some(Thinking::Enabled { budget_tokens, display }) = thinking else { return Plan { thinking, effort, max_tokens } };
    // Where the client sets no limit, thinking takes nothing from the reply.
    let max_tokens = if wish.limit.is_none() { max_tokens.saturating_add(budget_tokens) } else { max_tokens };
    let budget_tokens = budget_tokens.min(max_tokens.saturating_sub(1));
    let has_room = lets_think && budget_tokens >= BUDGET_MIN;
    Plan { thinking: has_room.then_some(Thinking::Enabled { budget_tokens, display }), effort, max_tokens }
}

fn given(json: &[u8]) -> Option<Thinking<'_>> {
    #[derive(Deserialize)]
    struct Given<'a> {
        #[serde(borrow, rename = "type")]
        kind: Text<'a>,
        #[serde(default)]
        budget_tokens: Option<u64>,
        #[serde(borrow, default)]
        display: Option<Text<'a>>,
    }
    let Given { kind, budget_tokens, display } = serde_json::from_slice(json).ok()?;
    let display = display.map(|display| display.0);
    match kind.0.as_ref() {
        "enabled" => Some(Thinking::Enabled { budget_tokens: budget_tokens.unwrap_or(BUDGET_MIN).max(BUDGET_MIN), display }),
        "adaptive" => Some(Thinking::Adaptive { display }),
        "disabled" => Some(Thinking::Disabled),
        _ => None,
    }
}

/// A budget of none is what it is without a word.
fn by_budget(wish: Wish<'_>, by: ThinkBy) -> Option<Thinking<'static>> {
    match (wish.budget?, by) {
        (0, _) => None,
        (budget, ThinkBy::Budget) => Some(Thinking::Enabled { budget_tokens: budget.max(BUDGET_MIN), display: None }),
        (_, ThinkBy::Effort) => Some(SUMMARIZED),
    }
}

/// Models that think by effort hide it unless they are asked.
const SUMMARIZED: Thinking<'static> = Thinking::Adaptive { display: Some(Cow::Borrowed("summarized")) };

fn by_effort(wish: Wish<'_>, by: ThinkBy) -> Option<Thinking<'static>> {
    let word: Text<'_> = serde_json::from_slice(wish.effort?).ok()?;
    let budget = match (word.0.as_ref(), by) {
        ("none", ThinkBy::Effort) => return Some(Thinking::Disabled),
        // Without a word about it there is none.
        ("none", ThinkBy::Budget) => return None,
        (_, ThinkBy::Effort) => return Some(SUMMARIZED),
        ("minimal" | "low", ThinkBy::Budget) => BUDGET_MIN,
        ("medium", ThinkBy::Budget) => 4 << 10,
        ("high", ThinkBy::Budget) => 16 << 10,
        ("xhigh" | "max", ThinkBy::Budget) => 32 << 10,
        _ => return None,
    };
    // A part of a tight limit is left for the reply.
    let most = wish.limit.map_or(budget, |limit| (limit / 2).max(BUDGET_MIN));
    Some(Thinking::Enabled { budget_tokens: budget.min(most), display: None })
}

fn effort_level(effort: &[u8]) -> Option<&'static str> {
    let word: Text<'_> = serde_json::from_slice(effort).ok()?;
    match word.0.as_ref() {
        "minimal" | "low" => Some("low"),
        "medium" => Some("medium"),
        "high" => Some("high"),
        "xhigh" => Some("xhigh"),
        "max" => Some("max"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(wish: (&str, &str, Option<u64>), by: ThinkBy, expected: (&str, u64)) {
        let (effort, thinking, limit) = wish;
        let field = |json: &'static str| (!json.is_empty()).then_some(json.as_bytes());
        let (effort, thinking): (&'static str, &'static str) = (String::from(effort).leak(), String::from(thinking).leak());
        let config = Config { thinking: by, ..Config::default() };
        let plan = plan(Wish { effort: field(effort), thinking: field(thinking), limit, budget: None }, true, &config);
        let written = serde_json::to_string(&(&plan.thinking, plan.effort)).unwrap();
        assert_eq!((written.as_str(), plan.max_tokens), expected, "{wish:?}");
    }

    #[test]
    fn effort_becomes_a_budget_below_the_limit() {
        let by = ThinkBy::Budget;
        let enabled = |budget: u64| format!(r#"[{{"type":"enabled","budget_tokens":{budget}}},null]"#);
        check(("", "", None), by, ("[null,null]", 4096));
        check((r#""none""#, "", Some(50)), by, ("[null,null]", 50));
        check((r#""low""#, "", None), by, (&enabled(1024), 4096 + 1024));
        check((r#""high""#, "", Some(4000)), by, (&enabled(2000), 4000));
        check((r#""high""#, "", Some(1025)), by, (&enabled(1024), 1025));
        check((r#""high""#, "", Some(1024)), by, ("[null,null]", 1024));
        check((r#""of course""#, "", None), by, ("[null,null]", 4096));
    }

    #[test]
    fn effort_is_a_level_for_models_that_know_no_budget() {
        let adaptive = |effort: &str| format!(r#"[{{"type":"adaptive","display":"summarized"}},"{effort}"]"#);
        check((r#""minimal""#, "", None), ThinkBy::Effort, (&adaptive("low"), 4096));
        check((r#""high""#, "", Some(9)), ThinkBy::Effort, (&adaptive("high"), 9));
        check((r#""none""#, "", None), ThinkBy::Effort, (r#"[{"type":"disabled"},null]"#, 4096));
    }

    #[test]
    fn a_budget_of_local_servers_is_one() {
        let thinking = |budget: u64, by: ThinkBy| {
            let wish = Wish { budget: Some(budget), limit: Some(9000), ..Wish::default() };
            serde_json::to_string(&plan(wish, true, &Config { thinking: by, ..Config::default() }).thinking).unwrap()
        };
        assert_eq!(thinking(0, ThinkBy::Budget), "null");
        assert_eq!(thinking(500, ThinkBy::Budget), r#"{"type":"enabled","budget_tokens":1024}"#);
        assert_eq!(thinking(20_000, ThinkBy::Budget), r#"{"type":"enabled","budget_tokens":8999}"#);
        assert_eq!(thinking(500, ThinkBy::Effort), r#"{"type":"adaptive","display":"summarized"}"#);
    }

    #[test]
    fn the_clients_own_words_come_first() {
        for by in [ThinkBy::Budget, ThinkBy::Effort] {
            let own = r#"{"type":"enabled","budget_tokens":3000,"display":"omitted"}"#;
            check((r#""low""#, own, Some(5000)), by, (&format!("[{},null]", own), 5000));
            check(("", own, Some(2000)), by, (&format!("[{},null]", own.replace("3000", "1999")), 2000));
            check(("", own, None), by, (&format!("[{},null]", own), 7096));
            check((r#""max""#, r#"{"type":"adaptive"}"#, None), by, (r#"[{"type":"adaptive"},"max"]"#, 4096));
            check((r#""max""#, r#"{"type":"disabled"}"#, None), by, (r#"[{"type":"disabled"},null]"#, 4096));
        }
    }
}
