//! Calls written `name[ARGS]{…}`.
//!
//! The form of Mistral's v13 tokenizer (model cards of Magistral and Devstral) when the
//! `[TOOL_CALLS]` token in front is lost or never written: the model rehearses the call as text.

use crate::inference::offer::Offer;

use super::Call;
use super::page::Page;
use super::scan::{is_name_byte, skip_space};
use super::unit::Unit;

/// Reads the call whose `[ARGS]` is at `mark`.
pub(super) fn read(page: &mut Page<'_>, mark: usize, offer: &Offer) -> Option<Unit> {
    let start = skip_space(page.bytes(), page.after(mark, "[ARGS]")?);
    if page.byte(start) != Some(b'{') {
        return None;
    }
    let before = page.bytes().get(..mark)?;
    let name_len = before.iter().rev().take_while(|byte| is_name_byte(**byte)).count();
    let tool = offer.find(page.slice(mark - name_len..mark))?;
    let end = page.container_end(start)?;
    let arguments = page.slice(start..end).to_owned();
    let call = Call { name: tool.name.clone(), arguments };
    Some(Unit { span: mark - name_len..end, calls: vec![call] })
}
