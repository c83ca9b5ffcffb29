//! `/budget`: what is left of budgets, and what administrators do to them.

mod entries;

use hyper::{HeaderMap, Method, Request, Response, StatusCode, body::Incoming};
use serde_json::json;

use crate::{
    budget::{
        Account, Change, Store,
        change::{self, OPERATIONS, Wrong},
        ledger::{Code, Error},
        statement::{self, Line},
    },
    chat::{Problem, problem::Kind},
    server::{State, auth::Caller, body, origin, query, reply, router},
};

/// Answers for every path below `/budget`.
pub(in crate::server) async fn answer(state: &State, request: Request<Incoming>, caller: Caller) -> Result<Response<reply::Body>, Problem> {
    let (head, incoming) = request.into_parts();
    let is_get = head.method == Method::GET || head.method == Method::HEAD;
    let path = head.uri.path();
    let operation = path.strip_prefix("/budget/").filter(|operation| OPERATIONS.contains(operation));
    let query = query::pairs(head.uri.query());
    if operation.is_none() {
        // A connection with an unread body on it cannot be used again.
        body::collect(incoming, &state.config).await?;
        return match path {
            "/budget" if is_get => show(state, &head.headers, &caller.account, &query).await,
            "/budget/entries" if is_get => entries::list(state, &head.headers, &caller.account, &query).await,
            "/budget" | "/budget/entries" => Err(router::wrong_method("GET, HEAD")),
            path => Err(router::nothing_at(&head.method, path)),
        };
    }
    let body = body::collect(incoming, &state.config).await?;
    match operation {
        Some(operation) if head.method == Method::POST => {
            origin::check(&head.headers, &state.config.origins)?;
            check_admin(&caller.account)?;
            let change = Change::read(operation, &body)?;
            let lines = change.make(books(state)?).await.map_err(|error| refused(error, operation))?;
            tracing::info!(key = caller.account.key, operation, change = ?change, "budgets were changed");
            Ok(balances(&lines))
        }
        _ => Err(router::wrong_method("POST")),
    }
}

/// The asker's own balances; with `scope` or `all`, for administrators, those of others.
async fn show(state: &State, headers: &HeaderMap, account: &Account, query: &query::Pairs) -> Result<Response<reply::Body>, Problem> {
    origin::check_reader_here(headers, state)?;
    let (scope, session) = (query.get("scope"), query.get("session"));
    let all = match query.get("all") {
        None | Some("false") => false,
        Some("true") => true,
        Some(_) => return Err(Problem::invalid("all", "all must be true or false.")),
    };
    let lines = if scope.is_some() || all {
        check_admin(account)?;
        let scope = scope.map(change::read_scope).transpose()?;
        statement::all(books(state)?, scope.as_deref()).await
    } else {
        statement::own(books(state)?, state.gate.policy(), account, session).await
    };
    Ok(balances(&lines.map_err(|error| refused(error, "show"))?))
}

fn balances(lines: &[Line]) -> Response<reply::Body> {
    reply::json(StatusCode::OK, statement::json(lines).into())
}

fn books(state: &State) -> Result<&Store, Problem> {
    let none = || {
        Problem::new(Kind::NotFound, "No books are kept here: there is neither a price nor a limit, and budget.store is not set.")
            .with_code("no_budget")
    };
    state.gate.store().map(|store| &**store).ok_or_else(none)
}

fn check_admin(account: &Account) -> Result<(), Problem> {
    if account.is_admin {
        return Ok(());
    }
    let message = "Only a key with `admin = true` may see the budgets of others and change budgets.";
    Err(Problem::new(Kind::Forbidden, message).with_code("admin_required"))
}

/// A no of the ledger in the protocol's terms.
fn refused(error: Error, operation: &str) -> Problem {
    let refusal = match error {
        Error::Refused(refusal) => refusal,
        Error::Store(error) => {
            tracing::error!(error = &error as &dyn std::error::Error, "the ledger cannot be asked");
            let message = "The ledger of budgets cannot be asked now.";
            return Problem::new(Kind::NotReady, message).with_code("budget_unavailable");
        }
    };
    let code = json!(refusal.code).as_str().map(str::to_lowercase).unwrap_or_default();
    match refusal.code {
        // All that can be wrong by now is a sum.
        Code::InvalidRequest => Problem::invalid(if operation == "fund" { "amount" } else { "allocated" }, refusal.message),
        Code::NotFound => Problem::new(Kind::NotFound, refusal.message).with_code(&code),
        _ => Problem::new(Kind::Conflict, refusal.message).with_code(&code),
    }
}

impl From<Wrong> for Problem {
    fn from(wrong: Wrong) -> Self {
        Self { param: wrong.param.map(str::to_owned), ..Self::new(Kind::Invalid, wrong.message) }
    }
}
