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
pub struct Props {
    /// How many tokens the context of one slot holds.
    pub context_length: Option<u64>,
    /// How many prompts it works on at a time.
    pub slots: Option<u64>,
    /// Whether the model's template has a place for tools. Where it has none, the server describes them in its own words.
    pub takes_tools: Option<bool>,
    /// Whether the model takes images.
    pub sees: bool,
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
    /// When the server was asked last, and did not say.
    failed: Option<Instant>,
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
            let (props, failed) = {
                let state = self.state();
                (state.props.clone(), state.failed)
            };
            if props.is_some() || failed.is_some_and(|at| at.elapsed() < PAUSE) {
                return props;
            }
            self.refresh(target).await.ok()
        };
        // Noted before, since one who has waited long enough leaves without a word.
        let props = tokio::time::timeout(PATIENCE, asking).await.ok().flatten();
        if props.is_none() {
            self.state().failed.get_or_insert_with(Instant::now);
        }
        props
    }

    /// Asks the server anew.
    pub(super) async fn refresh(&self, target: &Target) -> Result<Arc<Props>, Error> {
        let json: Value = target.ask(PATH, PATIENCE_FOR_ITSELF).await?;
        let props = Arc::new(Props::read(&json));
        *self.state() = State { props: Some(Arc::clone(&props)), failed: None };
        Ok(props)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // It is whole after any panic: it is replaced, never changed in steps.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
