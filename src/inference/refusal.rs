//! What a backend's refusal says about the way it was asked, as far as that can be mended.

use super::Error;
use crate::backend;

/// What can be made of a failed upstream call.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// A schema cannot be turned into a grammar, or no form can be forced.
    Grammar,
    /// The model spoke, and the server could not read it: this is all that it wrote, or nothing where the server tells less.
    Unparsed(String),
    /// Nothing.
    Other,
}

/// Reads `error`.
///
/// llama-server (build 11434) answers 400 with "failed to parse grammar" or "JSON schema error at …" before it asks the model, and 500 with
/// "Failed to parse input at pos …: …" when the model has spoken. vLLM and others name the field or the grammar backend.
pub(super) fn read(error: &Error) -> Refusal {
    let Error::Backend(backend::Error::Status(refusal)) = error else { return Refusal::Other };
    let message = refusal.body.message.as_deref().unwrap_or_default();
    if refusal.status >= 500
        && let Some((_, said)) = message.split_once(UNPARSED)
    {
        // Only from its beginning to its end can a call be read out of it: what stands in the middle may be another's argument.
        let whole = said.strip_prefix(FROM_THE_BEGINNING).filter(|said| !said.ends_with('…'));
        return Refusal::Unparsed(whole.unwrap_or_default().trim_start().to_owned());
    }
    let message = message.to_ascii_lowercase();
    let is_grammar = matches!(refusal.status, 400 | 422 | 501) && GRAMMAR.iter().any(|word| message.contains(word));
    if is_grammar { Refusal::Grammar } else { Refusal::Other }
}

const UNPARSED: &str = "Failed to parse input";
const FROM_THE_BEGINNING: &str = " at pos 0:";

/// Words that only a refused grammar, schema or form is told in.
const GRAMMAR: [&str; 6] = ["grammar", "json schema", "json_schema", "response_format", "output_config", "unable to generate parser"];

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(status: u16, message: &str) -> Refusal {
        let mut refusal = backend::Refusal { status, body: Default::default(), retry_after: None };
        refusal.body.message = Some(message.to_owned());
        read(&Error::Backend(backend::Error::Status(Box::new(refusal))))
    }

    #[test]
    fn refusals_are_told_apart() {
        assert_eq!(refused(400, "Failed to initialize samplers: failed to parse grammar"), Refusal::Grammar);
        assert_eq!(refused(400, "JSON schema error at #/properties/a: cannot resolve $ref"), Refusal::Grammar);
        assert_eq!(refused(400, "response_format is not supported"), Refusal::Grammar);
        assert_eq!(refused(400, "output_config.format.schema: too many optional parameters"), Refusal::Grammar);
        assert_eq!(refused(400, "the request exceeds the available context size"), Refusal::Other);
        assert_eq!(refused(429, "grammar school is full"), Refusal::Other);
        let said = Refusal::Unparsed("<tool_call>{\"a\": 1}".to_owned());
        assert_eq!(refused(500, "Failed to parse input at pos 0: <tool_call>{\"a\": 1}"), said);
        assert_eq!(refused(500, "Failed to parse input at pos 12: {\"a\": 1}"), Refusal::Unparsed(String::new()));
    }
}
