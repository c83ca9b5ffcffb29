//! Keeps one server connected: connects, lists its tools, renews the list, and begins again with a back-off when it fails.
//!
//! There is never more than one connection to a server: the old one is closed, and its process has ended or was killed, before the next
//! one begins.

use std::{
    hash::{BuildHasher, Hasher, RandomState},
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{sync::mpsc, time::sleep};

use super::{
    config::Config,
    definition::Definition,
    mcp::{Connection, Error, Limits, News},
    server::{Server, State, View},
};
use crate::resilience::tasks::Tasks;

/// The wait after a first failure; it doubles with each that follows.
const RETRY_FIRST: Duration = Duration::from_millis(500);
/// The longest wait between two attempts.
const RETRY_MAX: Duration = Duration::from_secs(30);
/// A connection that stood for so long was a sound one: the next failure is a first one again.
const STOOD: Duration = Duration::from_secs(10);
/// Changes of a list that follow one another this fast are read in one go.
const SETTLE: Duration = Duration::from_millis(100);
/// The longest wait for that: a server that announces a change whenever it is asked for its list is not asked without end.
const SETTLE_MAX: Duration = Duration::from_secs(30);
/// A change announced so soon after the list was read, beyond the wait before, follows from the reading.
const RECURRING: Duration = Duration::from_secs(1);
/// A server that leaves so many lists in a row unanswered hangs, and is started again.
const UNANSWERED_MAX: u32 = 3;
/// How long a connection gets: half of it to finish its calls, the other half to close; then it is dropped, and its process killed.
const CLOSE_GRACE: Duration = Duration::from_secs(8);

/// Supervises `server` until `tasks` end. `changed` is told whenever what is known of it changed.
pub(super) async fn supervise(server: Arc<Server>, config: Arc<Config>, tasks: Tasks, changed: impl Fn() + Send + Sync) {
    let supervisor = Supervisor { server: &server, config: &config, changed: &changed };
    let mut backoff = Backoff::default();
    loop {
        let (news, mut heard) = mpsc::channel(1);
        let limits = Limits { message_bytes_max: config.message_bytes_max };
        let opened = tokio::select! {
            opened = Connection::open(&server.config, limits, &config.variables, &tasks, news) => opened,
            () = tasks.ending() => return,
        };
        let failed = match opened {
            Ok(connection) => {
                let begun = Instant::now();
                let failed = tokio::select! {
                    failed = supervisor.attend(&connection, &mut heard) => Some(failed),
                    () = tasks.ending() => None,
                };
                supervisor.lose(failed.as_ref());
                connection.close(CLOSE_GRACE).await;
                let Some(failed) = failed else { return };
                backoff.ended(connection.has_answered() || begun.elapsed() >= STOOD);
                failed
            }
            Err(failed) => {
                supervisor.lose(Some(&failed));
                failed
            }
        };
        let wait = backoff.next();
        tracing::debug!(server = server.config.id, error = %failed, retry_s = wait.as_secs_f64(), "MCP server is not connected");
        tokio::select! {
            () = supervisor.pause(wait) => {}
            () = tasks.ending() => return,
        }
    }
}

struct Supervisor<'a, F> {
    server: &'a Server,
    config: &'a Config,
    changed: &'a F,
}

impl<F: Fn()> Supervisor<'_, F> {
    /// Lists and listens until the connection fails. A list that fails while the connection stands leaves the old one in place.
    async fn attend(&self, connection: &Connection, heard: &mut mpsc::Receiver<News>) -> Error {
        let known = self.server.view();
        self.publish(View { connection: Some(connection.clone()), ..(*known).clone() });
        let ended = connection.ended();
        tokio::pin!(ended);
        let (mut failures, mut unanswered) = (0, 0);
        let mut settling = Settling::default();
        loop {
            let listed = tokio::select! {
                listed = connection.list(self.server.config.timeout) => listed,
                error = &mut ended => return error,
            };
            let renew = match listed {
                Ok(tools) => {
                    (failures, unanswered) = (0, 0);
                    self.list(connection, tools);
                    renewal(self.config, connection.announces())
                }
                Err(error) => {
                    failures += 1;
                    unanswered = if matches!(error, Error::Timeout(_)) { unanswered + 1 } else { 0 };
                    if connection.is_closed() || unanswered >= UNANSWERED_MAX || matches!(error, Error::AuthNeeded(_)) {
                        return error;
                    }
                    self.keep(connection, &error);
                    growing(failures)
                }
            };
            let listed = Instant::now();
            let settle = tokio::select! {
                error = &mut ended => return error,
                Some(_) = heard.recv() => settling.after(listed.elapsed()),
                () = self.server.wanted() => SETTLE,
                () = rest(renew, self.config.list_ttl, || connection.announces()) => continue,
            };
            tokio::select! {
                error = &mut ended => return error,
                () = self.pause(settle) => {}
            }
            // What was said meanwhile is read with it; what is said from then on is heard again.
            let _ = heard.try_recv();
        }
    }

    /// The server has these tools now.
    fn list(&self, connection: &Connection, tools: Vec<Definition>) {
        let state = if tools.is_empty() { State::Empty } else { State::Ready };
        let (listed, connection) = (Some(Instant::now()), Some(connection.clone()));
        let known = self.server.view();
        // The same list stays the same: nothing is made anew of it.
        let tools = if *known.tools == *tools { Arc::clone(&known.tools) } else { tools.into() };
        self.publish(View { state, reason: None, tools, listed, connection });
    }

    /// What tools it has now is not known, though it is connected.
    fn keep(&self, connection: &Connection, error: &Error) {
        let known = self.server.view();
        let age = known.listed.map(|listed| listed.elapsed());
        let state = match known.state {
            State::Ready | State::Empty if age.is_some_and(|age| age < self.config.stale_after) => known.state,
            _ => state_without(error, &known),
        };
        let reason = Some(format!("its tools cannot be listed: {error}"));
        self.publish(View { state, reason, connection: Some(connection.clone()), ..(*known).clone() });
    }

    /// The server cannot be reached, or is not to be any more.
    fn lose(&self, error: Option<&Error>) {
        let known = self.server.view();
        let (state, reason) = match error {
            Some(error) => (state_without(error, &known), Some(reason(error))),
            None => (known.state, Some("toolgate is about to end".to_owned())),
        };
        self.publish(View { state, reason, connection: None, ..(*known).clone() });
    }

    fn publish(&self, view: View) {
        let before = self.server.view();
        if before.state != view.state {
            let (server, state, tools) = (&self.server.config.id, view.state.as_str(), view.tools.len());
            match &view.reason {
                Some(reason) => tracing::warn!(server, state, tools, reason, "MCP server"),
                None => tracing::info!(server, state, tools, "MCP server"),
            }
        }
        self.server.publish(view);
        (self.changed)();
    }

    /// Waits for `wait`, and less where somebody wants the server.
    async fn pause(&self, wait: Duration) {
        let floor = wait.min((wait / 4).max(RETRY_FIRST));
        sleep(floor).await;
        tokio::select! {
            () = sleep(wait - floor) => {}
            () = self.server.wanted() => {}
        }
    }
}

/// Why a server is not connected: who reads it knows that it is not.
fn reason(error: &Error) -> String {
    match error {
        Error::Unreachable(why) => why.clone(),
        other => other.to_string(),
    }
}

/// How a server is that cannot be asked, or does not say what it has.
fn state_without(error: &Error, known: &View) -> State {
    match error {
        Error::AuthNeeded(_) => State::AuthNeeded,
        _ if known.tools.is_empty() => State::Broken,
        _ => State::Stale,
    }
}

/// After how long a list is read again. Where a server announces its changes that is a precaution: it must not become stale.
fn renewal(config: &Config, announces: bool) -> Duration {
    let latest = config.stale_after / 2;
    if announces { latest } else { config.list_ttl.min(latest) }
}

/// Waits for `wait`, looking every `step` whether the server still announces its changes: where it ceased to, the list is due at once.
async fn rest(wait: Duration, step: Duration, announces: impl Fn() -> bool) {
    let (announced, mut left) = (announces(), wait);
    while !left.is_zero() {
        let step = step.max(SETTLE).min(left);
        sleep(step).await;
        left -= step;
        if announced && !announces() {
            return;
        }
    }
}

/// How long changes gather before the list is read.
#[derive(Debug, Default)]
struct Settling(Duration);

impl Settling {
    /// The wait for a change that was announced so long after the list was read: it doubles while that recurs.
    fn after(&mut self, quiet: Duration) -> Duration {
        let recurs = quiet < self.0 + RECURRING;
        self.0 = if recurs { (self.0 * 2).clamp(SETTLE, SETTLE_MAX) } else { SETTLE };
        self.0
    }
}

/// The wait after so many failures in a row.
fn growing(failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(RETRY_MAX.as_secs().ilog2() + 2);
    (RETRY_FIRST * 2_u32.pow(doublings)).min(RETRY_MAX)
}

/// Counts failures in a row.
#[derive(Debug, Default)]
struct Backoff {
    failures: u32,
    /// Whether the connection that failed last was a sound one.
    was_sound: bool,
}

impl Backoff {
    /// A connection ended. After a sound one the count begins again, and the next attempt is made at once.
    fn ended(&mut self, was_sound: bool) {
        self.was_sound = was_sound;
    }

    /// How long to wait now: between half of the due time and all of it, so that what failed at once is not begun again at once.
    fn next(&mut self) -> Duration {
        if std::mem::take(&mut self.was_sound) {
            self.failures = 0;
            return Duration::ZERO;
        }
        self.failures = self.failures.saturating_add(1);
        let wait = growing(self.failures);
        // The standard library draws its keys at random.
        let drawn = RandomState::new().build_hasher().finish() % 1000;
        wait / 2 + wait / 2000 * u32::try_from(drawn).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_a_limit() {
        let waits: Vec<u128> = (1..=9).map(|failures| growing(failures).as_millis()).collect();
        assert_eq!(waits, [500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000, 30_000]);
        assert_eq!(growing(u32::MAX), RETRY_MAX);
    }

    #[test]
    fn a_server_that_announces_a_change_after_every_list_is_asked_ever_less() {
        let mut settling = Settling::default();
        let waits: Vec<u128> = (0..11).map(|_| settling.after(Duration::from_millis(150)).as_millis()).collect();
        assert_eq!(waits, [100, 200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000]);
        assert_eq!(settling.after(Duration::from_secs(60)), SETTLE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_ceases_to_announce_is_listed_within_the_time_of_a_list() {
        let (hour, minute) = (Duration::from_secs(3600), Duration::from_secs(60));
        let begun = tokio::time::Instant::now();
        rest(hour, minute, || begun.elapsed() < minute * 3 / 2).await;
        assert_eq!(begun.elapsed(), minute * 2);
        let begun = tokio::time::Instant::now();
        rest(hour, minute, || true).await;
        assert_eq!(begun.elapsed(), hour);
        rest(minute, Duration::ZERO, || false).await;
        assert_eq!(begun.elapsed(), hour + minute);
    }

    #[test]
    fn a_wait_is_between_half_and_all_of_what_is_due() {
        let mut backoff = Backoff::default();
        for due in [500, 1000, 2000, 4000] {
            let due = Duration::from_millis(due);
            let wait = backoff.next();
            assert!(wait >= due / 2 && wait <= due, "{wait:?} of {due:?}");
        }
    }

    #[test]
    fn after_a_sound_connection_the_next_attempt_is_made_at_once() {
        let mut backoff = Backoff::default();
        (0..5).for_each(|_| _ = backoff.next());
        backoff.ended(true);
        assert_eq!(backoff.next(), Duration::ZERO);
        // What follows is a first failure.
        assert!(backoff.next() <= RETRY_FIRST);
    }
}
