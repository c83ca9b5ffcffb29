//! Names that OpenAI's function calling allows: letters, digits, `_` and `-`, 64 at most.

use sha2::{Digest, Sha256};

use crate::tools::definition::hex;

/// The longest legal name.
const LENGTH_MAX: usize = 64;
/// How many hexadecimal digits tell two names apart that were cut or changed to the same.
const SUFFIX: usize = 8;

/// `name` made legal; the same name always becomes the same.
pub(super) fn legal(name: &str) -> String {
    let is_legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if !name.is_empty() && name.len() <= LENGTH_MAX && name.chars().all(is_legal) {
        return name.to_owned();
    }
    let kept: String = name.chars().map(|c| if is_legal(c) { c } else { '_' }).take(LENGTH_MAX - SUFFIX - 1).collect();
    let digest = hex(&Sha256::digest(name.as_bytes()));
    let suffix: String = digest.chars().take(SUFFIX).collect();
    format!("{kept}_{suffix}")
}

/// The name of `tool` with its server's in front.
pub fn qualified(server: &str, tool: &str) -> String {
    legal(&format!("{server}__{tool}"))
}
