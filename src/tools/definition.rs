//! A tool as its server describes it.

use std::sync::Arc;

use bytes::Bytes;
use sha2::{Digest, Sha256};

/// One tool of one server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Definition {
    /// The id of the server that has it.
    pub server: Arc<str>,
    /// What the server calls it.
    pub name: String,
    /// What it does, for the model.
    pub description: String,
    /// The JSON schema of its arguments, an object.
    pub schema: Bytes,
    /// What the server says about its effects.
    pub annotations: Annotations,
}

/// What a server says about the effects of a tool. It is a promise, not a guarantee.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Annotations {
    /// It changes nothing.
    pub read_only: bool,
    /// Calling it twice is as good as once.
    pub idempotent: bool,
}

impl Annotations {
    /// Whether a call may be made again when it is unclear whether it was made.
    pub fn may_repeat(self) -> bool {
        self.read_only || self.idempotent
    }
}

impl Definition {
    /// SHA-256 of what the model is told of it: name, description and schema, 64 hexadecimal digits.
    pub fn hash(&self) -> String {
        let mut hasher = Sha256::new();
        for part in [self.name.as_bytes(), self.description.as_bytes(), &self.schema] {
            // Its length keeps the parts apart.
            hasher.update(part.len().to_le_bytes());
            hasher.update(part);
        }
        hex(&hasher.finalize())
    }
}

/// `bytes` in hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
