//! What a client is told when a request fails. The edge turns the kind into a status, the dialect writes the body.

use super::Report;

/// A failure in terms that a client can act on. It never holds a credential or a raw upstream body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Which kind of failure; decides the status.
    pub kind: Kind,
    /// One or two sentences for a person.
    pub message: String,
    /// The request's field that is at fault.
    pub param: Option<String>,
    /// A stable word for a program.
    pub code: Option<String>,
    /// The backend's own error type, which is kept when it gave one.
    pub upstream_type: Option<String>,
    /// The backend's `Retry-After`, verbatim.
    pub retry_after: Option<String>,
    /// What the guardrails tried, where the request got that far.
    pub report: Option<Box<Report>>,
}

/// The kinds of failure, from the caller's fault to the backend's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The request is wrong.
    Invalid,
    /// The body exceeds the limit.
    TooLarge,
    /// The body did not arrive in time.
    Slow,
    /// It is not known who asks.
    Unauthorized,
    /// Whoever asks may not have this done.
    Forbidden,
    /// Whoever asks has nothing left to have it done with.
    Spent,
    /// There is nothing at this path.
    NotFound,
    /// Things are not such that it could be done.
    Conflict,
    /// The path takes only these methods.
    Method(&'static str),
    /// The backend answered with this error status.
    Upstream(u16),
    /// The backend cannot be reached, or broke its word.
    Unreachable,
    /// The backend is there but not ready.
    NotReady,
    /// The backend took too long.
    Timeout,
    /// The model never produced a correct call.
    RetriesExhausted,
}

impl Problem {
    /// A problem of `kind` that says `message`, with nothing else known.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), param: None, code: None, upstream_type: None, retry_after: None, report: None }
    }

    /// The request's field `param` is wrong.
    pub fn invalid(param: impl Into<String>, message: impl Into<String>) -> Self {
        Self { param: Some(param.into()), ..Self::new(Kind::Invalid, message) }
    }

    /// The same with a stable code.
    #[must_use]
    pub fn with_code(self, code: &str) -> Self {
        Self { code: Some(code.to_owned()), ..self }
    }
}

/// A field that stands in a request more than once, where it matters which is meant: servers differ in which they read.
pub fn repeated(name: &str) -> Problem {
    Problem::invalid(name, format!("`{name}` stands in the request more than once.")).with_code("repeated_parameter")
}
