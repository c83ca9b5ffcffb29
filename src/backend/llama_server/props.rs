//! What the server says about itself at `GET /props`, asked once for each of its starts.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde_json::Value;
use tokio::time::Instant;

use crate::backend::{Error, Target};

const PATH: &str = "/props";
/// So long a request may wait for what makes it a little faster. The answer is at hand, even while the model speaks.
const PATIENCE: Duration = Duration::from_millis(250);
/// So long nobody asks again a server that did not say.
const PAUSE: Duration = Duration::from_secs(10);
/// Those who want the answer for its own sake have more time.
const PATIENCE_FOR_ITSELF: Duration = Duration::from_secs(2);

/// What is known of one start of a server. What an older build does not tell is `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Props {
    /// How many tokens the context of one slot holds.
    pub(super) context_length: Option<u64>,
    /// How many prompts it works on at a time.
    pub(super) slots: Option<u64>,
    /// Whether the model's template has a place for tools. Where it has none, the server describes them in its own words.
    pub(super) takes_tools: Option<bool>,
    /// Whether the model takes images.
    pub(super) sees: bool,
}

impl Props {
    fn read(json: &Value) -> Self {
        let count = |place: &str| json.pointer(place).and_then(Value::as_u64).filter(|count| *count > 0);
        let flag = |place: &str| json.pointer(place).and_then(Value::as_bool);
        let caps = flag("/chat_template_caps/supports_tools").max(flag("/chat_template_caps/supports_tool_calls"));
        // Builds without capabilities show a second template where the model has one for tools.
        let second = json.get("chat_template_tool_use").and_then(Value::as_str).map(|_| true);
        Self {
            context_length: count("/default_generation_settings/n_ctx"),
            slots: count("/total_slots"),
            takes_tools: caps.or(second),
            sees: flag("/modalities/vision").unwrap_or(false),
        }
    }
}

/// The props of the server's present start, as far as they are known.
#[derive(Debug, Default)]
pub(super) struct Known {
    state: Mutex<State>,
    /// Held by the one who asks.
    asking: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    props: Option<Arc<Props>>,
    /// When the server was asked last. It is noted before, since one who has waited long enough leaves without a word.
    asked: Option<Instant>,
}

impl State {
    /// Whether it is time to ask, which is taken to be done then.
    fn may_ask(&mut self, now: Instant) -> bool {
        let may_ask = self.asked.is_none_or(|at| now.saturating_duration_since(at) >= PAUSE);
        if may_ask {
            self.asked = Some(now);
        }
        may_ask
    }
}

impl Known {
    /// What is known now.
    pub(super) fn get(&self) -> Option<Arc<Props>> {
        self.state().props.clone()
    }

    /// The server went away: what it says next may be something else.
    pub(super) fn forget(&self) {
        *self.state() = State::default();
    }

    /// What is known, asked for if need be: soon, and by one for all.
    pub(super) async fn ask(&self, target: &Target) -> Option<Arc<Props>> {
        if let Some(props) = self.get() {
            return Some(props);
        }
        let asking = async {
            let _one = self.asking.lock().await;
            let (props, may_ask) = {
                let mut state = self.state();
                (state.props.clone(), state.props.is_none() && state.may_ask(Instant::now()))
            };
            if may_ask { self.refresh(target).await.ok() } else { props }
        };
        tokio::time::timeout(PATIENCE, asking).await.ok().flatten()
    }

    /// Asks the server anew.
    pub(super) async fn refresh(&self, target: &Target) -> Result<Arc<Props>, Error> {
        let json: Value = target.ask(PATH, PATIENCE_FOR_ITSELF).await?;
        let props = Arc::new(Props::read(&json));
        *self.state() = State { props: Some(Arc::clone(&props)), asked: None };
        Ok(props)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // It is whole after any panic: it is replaced, never changed in steps.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_known_builds_say_is_read() {
        let b11434 = json!({
            "default_generation_settings": {"n_ctx": 2048}, "total_slots": 4, "modalities": {"vision": true},
            "chat_template_caps": {"supports_tools": false, "supports_tool_calls": false},
        });
        let expected = Props { context_length: Some(2048), slots: Some(4), takes_tools: Some(false), sees: true };
        assert_eq!(Props::read(&b11434), expected);
        let older = json!({"total_slots": 1, "chat_template": "x", "chat_template_tool_use": "y"});
        assert_eq!(Props::read(&older), Props { slots: Some(1), takes_tools: Some(true), ..Props::default() });
        for nothing in [json!({}), json!([]), json!({"total_slots": -1, "default_generation_settings": {"n_ctx": 0}, "modalities": 3})] {
            assert_eq!(Props::read(&nothing), Props::default());
        }
    }

    #[test]
    fn a_server_that_does_not_say_is_asked_again_after_each_pause() {
        let (mut state, begun) = (State::default(), Instant::now());
        let asked: Vec<u64> = (0..30).filter(|second| state.may_ask(begun + Duration::from_secs(*second))).collect();
        assert_eq!(asked, [0, 10, 20]);
    }
}
