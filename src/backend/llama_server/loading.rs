//! A server that is loading its model answers 503 until it is done. It is worth waiting for: nothing was read, and nothing else will do.

use std::{
    hash::{BuildHasher, Hasher, RandomState},
    time::Duration,
};

use tokio::time::Instant;

use crate::backend::{Error, Target, readiness::Readiness};

/// The first pause; each is twice as long as the one before.
const PAUSE_MIN: Duration = Duration::from_millis(100);
/// Later than this nobody shall notice that the model is there.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Whether `error` says that the model is being loaded. Other refusals with the same status are for the client.
pub(in crate::backend) async fn is_loading(error: &Error, target: &Target) -> bool {
    let Error::Status(refusal) = error else { return false };
    match &refusal.body.message {
        _ if refusal.status != 503 => false,
        // "Loading model", in all builds so far.
        Some(message) => ["loading", "model"].iter().all(|word| message.to_ascii_lowercase().contains(word)),
        // Some builds do not say why.
        None => matches!(target.readiness().await, Readiness::NotReady(_)),
    }
}

/// The patience of one request.
pub(in crate::backend) struct Patience {
    until: Instant,
    pause: Duration,
}

impl Patience {
    pub(in crate::backend) fn new(timeout: Duration) -> Self {
        Self { until: Instant::now() + timeout, pause: PAUSE_MIN }
    }

    /// Waits a little. Returns whether it is worth asking again.
    pub(in crate::backend) async fn wait(&mut self) -> bool {
        let Some(pause) = self.next_pause(Instant::now()) else { return false };
        tokio::time::sleep(jittered(pause)).await;
        true
    }

    /// The pause to make now, which ends before the patience does.
    fn next_pause(&mut self, now: Instant) -> Option<Duration> {
        let left = self.until.saturating_duration_since(now);
        let pause = self.pause.min(left);
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        (!pause.is_zero()).then_some(pause)
    }
}

/// Between half of `pause` and all of it: those who wait shall not ask all at once.
fn jittered(pause: Duration) -> Duration {
    const STEPS: u32 = 1000;
    // The standard library draws its keys at random.
    let drawn = RandomState::new().build_hasher().finish() % u64::from(STEPS);
    pause / 2 + pause / 2 / STEPS * u32::try_from(drawn).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_has_an_end_and_its_pauses_grow() {
        let mut now = Instant::now();
        let mut patience = Patience::new(Duration::from_millis(3_250));
        let mut pauses = Vec::new();
        while let Some(pause) = patience.next_pause(now) {
            now += pause;
            pauses.push(pause.as_millis());
        }
        // The last one may lack the moment between the patience's beginning and the first look at the clock.
        let last = pauses.pop();
        assert_eq!(pauses, [100, 200, 400, 800, 1000]);
        assert!(last.is_some_and(|last| (740..=751).contains(&last)), "{last:?}");
        assert_eq!(Patience::new(Duration::ZERO).next_pause(Instant::now()), None);
    }

    #[test]
    fn jitter_stays_in_its_bounds_and_varies() {
        let drawn: Vec<Duration> = (0..50).map(|_| jittered(PAUSE_MAX)).collect();
        assert!(drawn.iter().all(|pause| (PAUSE_MAX / 2..=PAUSE_MAX).contains(pause)));
        assert!(drawn.iter().any(|pause| *pause != drawn[0]));
    }
}
