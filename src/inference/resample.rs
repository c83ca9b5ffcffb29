//! The sampling of a retry: the same again would as likely go wrong again.

use bytes::Bytes;
use serde_json::Number;

use super::RetrySampling;
use crate::chat::Request;

/// The highest temperature that servers accept.
const TEMPERATURE_MAX: f64 = 2.0;

/// The fields that are changed about `request` after so many `retries`, where it says how to sample.
pub(super) fn sampling(request: &Request, step: RetrySampling, retries: usize) -> Vec<(&'static str, Bytes)> {
    let mut sampling = Vec::new();
    if retries == 0 || step == RetrySampling::default() {
        return sampling;
    }
    let number = |name| request.field(name).and_then(|raw| serde_json::from_slice::<Number>(raw).ok());
    if let Some(temperature) = number("temperature").and_then(|number| number.as_f64()) {
        let shifted = (temperature + step.temperature_step * retries as f64).clamp(temperature, TEMPERATURE_MAX.max(temperature));
        sampling.push(("temperature", shifted.to_string().into()));
    }
    if let Some(seed) = number("seed").and_then(|number| number.as_u64()) {
        let retries = u64::try_from(retries).unwrap_or(u64::MAX);
        sampling.push(("seed", seed.saturating_add(step.seed_step.saturating_mul(retries)).to_string().into()));
    }
    sampling
}
