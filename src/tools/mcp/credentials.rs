//! What a server was given, and is not to be quoted with.

use std::sync::Arc;

use super::Error;
use crate::{
    secret::Secret,
    tools::config::{Server, Variables},
};

/// The credentials of one server. Cloning it shares them.
#[derive(Debug, Clone)]
pub(super) struct Credentials(Arc<(Server, Variables)>);

impl Credentials {
    pub(super) fn of(server: &Server, variables: &Variables) -> Self {
        Self(Arc::new((server.clone(), variables.clone())))
    }

    /// `text` without them.
    pub(super) fn redact(&self, text: &str) -> String {
        self.now().iter().fold(text.to_owned(), |text, secret| secret.redact(&text))
    }

    /// `error` without them.
    pub(super) fn hide(&self, error: Error) -> Error {
        error.redacted(&self.now())
    }

    /// Looked up each time, as they are when a request is made.
    fn now(&self) -> Vec<Secret> {
        let (server, variables) = &*self.0;
        server.credentials(variables)
    }
}
