//! A bulkhead: at most so many at once, some more in a queue, first come, first served.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The limits of a bulkhead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// How many may be inside at once.
    pub inside_max: usize,
    /// How many may wait.
    pub waiting_max: usize,
    /// How long one may wait.
    pub wait_max: Duration,
}

/// Bounds how many use a peer at once.
#[derive(Debug)]
pub struct Bulkhead {
    config: Config,
    places: Arc<Semaphore>,
    waiting: AtomicUsize,
}

/// A place inside. Dropping it gives it to who has waited longest.
#[derive(Debug)]
pub struct Place {
    _permit: OwnedSemaphorePermit,
}

/// Why there is no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Full {
    /// As many wait as may.
    #[error("{0} requests wait already")]
    Queue(usize),
    /// The wait took too long.
    #[error("no place within {} s", .0.as_secs_f64())]
    Wait(Duration),
}

impl Bulkhead {
    /// An empty one.
    pub fn new(config: Config) -> Self {
        Self { config, places: Arc::new(Semaphore::new(config.inside_max)), waiting: AtomicUsize::new(0) }
    }

    /// A place, if there is one at once. Nobody who waits is overtaken.
    pub fn try_enter(&self) -> Option<Place> {
        Arc::clone(&self.places).try_acquire_owned().ok().map(|permit| Place { _permit: permit })
    }

    /// A place, at once or after a wait. Fails when too many wait already, and when the wait takes too long. Dropping the future leaves
    /// the queue.
    pub async fn enter(&self) -> Result<Place, Full> {
        if let Some(place) = self.try_enter() {
            return Ok(place);
        }
        let _waiting = Waiting::begin(&self.waiting, self.config.waiting_max)?;
        let place = tokio::time::timeout(self.config.wait_max, Arc::clone(&self.places).acquire_owned()).await;
        // The semaphore is never closed.
        let permit = place.ok().and_then(Result::ok).ok_or(Full::Wait(self.config.wait_max))?;
        Ok(Place { _permit: permit })
    }

    /// How many are inside and how many wait.
    pub fn load(&self) -> (usize, usize) {
        (self.config.inside_max.saturating_sub(self.places.available_permits()), self.waiting.load(Ordering::Relaxed))
    }
}

/// One who waits.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn begin(waiting: &'a AtomicUsize, max: usize) -> Result<Self, Full> {
        let more = |count: usize| (count < max).then_some(count + 1);
        waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).map_err(Full::Queue)?;
        Ok(Self(waiting))
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{FutureExt, future::join};

    use super::*;

    const WAIT_MAX: Duration = Duration::from_secs(10);

    fn bulkhead(waiting_max: usize) -> Bulkhead {
        Bulkhead::new(Config { inside_max: 1, waiting_max, wait_max: WAIT_MAX })
    }

    #[tokio::test]
    async fn a_full_queue_refuses() {
        let bulkhead = bulkhead(1);
        let inside = bulkhead.enter().await.unwrap();
        let mut second = Box::pin(bulkhead.enter());
        assert!(second.as_mut().now_or_never().is_none());
        assert_eq!(bulkhead.enter().await.unwrap_err(), Full::Queue(1));
        assert_eq!(bulkhead.load(), (1, 1));
        drop(inside);
        drop(second.await.unwrap());
        assert_eq!(bulkhead.load(), (0, 0));
    }

    #[tokio::test]
    async fn first_come_first_served() {
        let bulkhead = bulkhead(2);
        let inside = bulkhead.enter().await.unwrap();
        let order = std::sync::Mutex::new(Vec::new());
        let enter = |number: u32| {
            let (bulkhead, order) = (&bulkhead, &order);
            async move {
                let _place = bulkhead.enter().await.unwrap();
                order.lock().unwrap().push(number);
            }
        };
        let mut both = Box::pin(join(enter(1), enter(2)));
        assert!(both.as_mut().now_or_never().is_none());
        drop(inside);
        both.await;
        assert_eq!(*order.lock().unwrap(), [1, 2]);
    }

    #[tokio::test]
    async fn who_leaves_the_queue_takes_no_place() {
        let bulkhead = bulkhead(1);
        let inside = bulkhead.enter().await.unwrap();
        let mut gone = Box::pin(bulkhead.enter());
        assert!(gone.as_mut().now_or_never().is_none());
        drop(gone);
        assert_eq!(bulkhead.load(), (1, 0));
        drop(inside);
        assert!(bulkhead.enter().await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_has_an_end() {
        let bulkhead = bulkhead(1);
        let _inside = bulkhead.enter().await.unwrap();
        assert_eq!(bulkhead.enter().await.unwrap_err(), Full::Wait(WAIT_MAX));
        assert_eq!(bulkhead.load(), (1, 0));
    }
}
