//! The rules, one function each, over candidates in the order of preference.

use std::sync::Arc;

use super::embed::{Embedder, Error, Side};
use crate::tools::definition::Definition;

/// How much nearer the best must be than the second.
const MARGIN: f64 = 0.05;
/// What sums of some thousand products lose: a lead of exactly the margin counts.
const ROUNDING: f64 = 1e-9;

/// The server that is the only one of `pool` among the `mentioned`; of its tools the first.
pub(super) fn mentioned(pool: &[&Arc<Definition>], mentioned: &[&str]) -> Option<usize> {
    let is_named = |definition: &&Arc<Definition>| mentioned.contains(&&*definition.server);
    let first = pool.iter().position(is_named)?;
    let server = &pool.get(first)?.server;
    pool.iter().filter(|definition| is_named(definition)).all(|definition| definition.server == *server).then_some(first)
}

/// The only one that `accepts` the arguments.
pub(super) fn accepting(pool: &[&Arc<Definition>], accepts: impl Fn(&Definition) -> bool) -> Option<usize> {
    let mut accepting = pool.iter().enumerate().filter(|(_, definition)| accepts(definition)).map(|(at, _)| at);
    let only = accepting.next()?;
    accepting.next().is_none().then_some(only)
}

/// The one whose server comes first in `recent`; of its tools the first.
pub(super) fn most_recent(pool: &[&Arc<Definition>], recent: &[String]) -> Option<usize> {
    recent.iter().find_map(|server| pool.iter().position(|definition| *definition.server == **server))
}

/// How near each of `descriptions` is to `message`; `None` for those that cannot be compared with it. Both sides come from one embedder.
pub(super) async fn similarities(embedder: &dyn Embedder, message: &str, descriptions: &[&str]) -> Result<Vec<Option<f64>>, Error> {
    // One after the other: descriptions are known as a rule, and the first question after an outage is asked alone.
    let query = embedder.embed(Side::Query, &[message]).await?.into_iter().next().flatten();
    let Some(query) = query else { return Ok(vec![None; descriptions.len()]) };
    let documents = embedder.embed(Side::Document, descriptions).await?;
    Ok(documents.into_iter().map(|document| query.cosine(&document?)).collect())
}

/// `pool` in the order of `similarities`, those without one last, where two have one and the best leads by the margin.
pub(super) fn nearest<'a>(pool: &[&'a Arc<Definition>], similarities: &[Option<f64>]) -> Option<Vec<&'a Arc<Definition>>> {
    let mut order: Vec<(&Arc<Definition>, Option<f64>)> = pool.iter().copied().zip(similarities.iter().copied()).collect();
    // Stable, and `None` is below every number: equals and those without one keep their order.
    order.sort_by(|(_, a), (_, b)| b.partial_cmp(a).unwrap_or(std::cmp::Ordering::Equal));
    let best = order.first()?.1?;
    let second = order.get(1)?.1?;
    (best - second >= MARGIN - ROUNDING).then(|| order.into_iter().map(|(definition, _)| definition).collect())
}

/// `pool` with `chosen` in front.
pub(super) fn first<'a>(pool: &[&'a Arc<Definition>], chosen: usize) -> Vec<&'a Arc<Definition>> {
    let others = pool.iter().enumerate().filter(|(at, _)| *at != chosen).map(|(_, definition)| *definition);
    pool.get(chosen).copied().into_iter().chain(others).collect()
}
