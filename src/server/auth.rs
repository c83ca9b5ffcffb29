//! Who asks: the key in a request's head, and what it stands for.
//!
//! A key is shown as `Authorization: Bearer` or in `x-api-key`, as Anthropic's clients do; where both are sent, either may hold it. Where
//! there are keys, everyone shows one, on this machine too, and no credential of a client goes any further. The paths that tell whether
//! toolgate lives are open, and tell strangers nothing else. So are the questions that browsers ask before a request (CORS preflights),
//! which cannot carry a key.

use std::{sync::Arc, time::SystemTime};

use hyper::{
    Method, Request,
    body::{Body, Incoming},
    header::{ACCESS_CONTROL_REQUEST_METHOD, EXPECT},
};

use super::{body, headers};
use crate::{
    budget::{Account, Keys, keys::Wrong},
    chat::{self, Problem, problem::Kind},
    secret::Secret,
};

/// Who sent a request.
#[derive(Debug)]
pub(super) struct Caller {
    /// On whose account it is.
    pub(super) account: Arc<Account>,
    /// The credential that a backend without a key of its own gets; none where toolgate has keys, which are nobody else's business.
    pub(super) credential: Option<Secret>,
    /// Whether a key is needed and was not shown.
    pub(super) is_stranger: bool,
}

/// Who sent `request`. Fails where a key is needed and it shows none that is good.
pub(super) fn identify(keys: &Keys, request: &Request<Incoming>) -> Result<Caller, Problem> {
    if keys.is_empty() {
        let credential = headers::credential(request.headers());
        return Ok(Caller { account: Arc::clone(keys.anonymous()), credential, is_stranger: false });
    }
    match find(keys, request) {
        Ok(account) => Ok(Caller { account, credential: None, is_stranger: false }),
        Err(_) if is_open(request) => Ok(Caller { account: Arc::clone(keys.anonymous()), credential: None, is_stranger: true }),
        Err(problem) => Err(problem),
    }
}

/// The account of the first key that is good.
fn find(keys: &Keys, request: &Request<Incoming>) -> Result<Arc<Account>, Problem> {
    let now = SystemTime::now();
    let mut wrong = None;
    for shown in headers::shown_keys(request.headers()) {
        match keys.find(shown, now) {
            Ok(account) => return Ok(account),
            Err(Wrong::Expired) => wrong = Some(Wrong::Expired),
            Err(Wrong::Unknown) => wrong = wrong.or(Some(Wrong::Unknown)),
        }
    }
    let (message, code) = match wrong {
        None => ("No API key was sent: send one as `Authorization: Bearer KEY` or as `x-api-key: KEY`.", "invalid_api_key"),
        Some(Wrong::Unknown) => ("The API key is not known here.", "invalid_api_key"),
        Some(Wrong::Expired) => ("The API key has expired.", "api_key_expired"),
    };
    Err(Problem::new(Kind::Unauthorized, message).with_code(code))
}

/// Whether nobody needs a key for `request`.
fn is_open(request: &Request<Incoming>) -> bool {
    let is_preflight = || request.method() == Method::OPTIONS && request.headers().contains_key(ACCESS_CONTROL_REQUEST_METHOD);
    matches!(request.uri().path(), "/health" | "/health/live" | "/health/ready") || (is_preflight() && request.body().is_end_stream())
}

/// Ends `request`, which nobody answers for.
pub(super) async fn turn_away(request: Request<Incoming>) {
    // Who waits to be told that the body is wanted is told by the answer that it is not.
    if !request.headers().contains_key(EXPECT) {
        body::discard(request.into_body()).await;
    }
}

/// Fails where `account` may not use `model`; an empty name is that of whatever the backend has.
pub(super) fn check_model(account: &Account, model: &str) -> Result<(), Problem> {
    if account.allows_model(model) {
        return Ok(());
    }
    let message = match model {
        "" => "This API key may use certain models only, and the request names none.".to_owned(),
        model => format!("This API key may not use the model `{model}`."),
    };
    Err(Problem { param: Some("model".to_owned()), ..Problem::new(Kind::Forbidden, message).with_code("model_not_allowed") })
}

/// The same for every model that `request` names: of two that are written a backend may read the other.
pub(super) fn check_models(account: &Account, request: &chat::Request) -> Result<(), Problem> {
    if account.models.is_empty() {
        return Ok(());
    }
    check_model(account, &request.model)?;
    let named = request.fields.iter().filter(|(name, _)| name == "model");
    let mut named = named.map(|(_, value)| serde_json::from_slice::<String>(value).unwrap_or_default());
    named.try_for_each(|model| check_model(account, &model))
}
