//! One attempt of a call: whether the server is to be asked now, a place among its calls, and its answer.

use std::{
    hash::{BuildHasher, Hasher, RandomState},
    time::{Duration, Instant},
};

use super::{
    Toolbox,
    definition::Definition,
    execute::Proposal,
    mcp::{self, Connection, Output},
    server::{Passage, Server},
};
use crate::{
    budget::{Denial, Pass},
    resilience::{breaker::Phase, bulkhead::Full},
};

/// Why an attempt came to nothing.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// Its breaker is open, or another call is the trial.
    #[error("the server failed too often of late and is left alone for a while")]
    Resting,
    /// There is no place.
    #[error("the server has as many calls as it may have: {0}")]
    Busy(Full),
    /// The run ended before there was a place.
    #[error("the server had no place for it before the time of the run was up")]
    Late,
    /// There is nothing left for it.
    #[error(transparent)]
    Denied(Denial),
    /// The client left.
    #[error("nobody waits for it any more")]
    Left,
    /// The server was asked, or was not there to be asked.
    #[error(transparent)]
    Call(mcp::Error),
}

impl Error {
    /// Whether the call certainly was not carried out.
    pub(super) fn is_unsent(&self) -> bool {
        match self {
            Self::Resting | Self::Busy(_) | Self::Late | Self::Denied(_) | Self::Left => true,
            Self::Call(error) => error.is_unsent(),
        }
    }

    /// Whether another server may do better with the same call.
    pub(super) fn is_of_this_server(&self) -> bool {
        self.is_unsent() && !matches!(self, Self::Late | Self::Denied(_) | Self::Left)
    }

    /// Whether the same server may do better after a while, where calling it twice does harm unless it `may_repeat`. A credential does not
    /// appear in a second, and what broke the protocol will do so again.
    pub(super) fn passes(&self, may_repeat: bool) -> bool {
        match self {
            Self::Resting | Self::Busy(_) | Self::Late | Self::Denied(_) | Self::Left => false,
            Self::Call(mcp::Error::AuthNeeded(_) | mcp::Error::Protocol(_)) => false,
            Self::Call(error) if is_callers(error) => false,
            Self::Call(error) => error.never_left() || (error.is_transport() && may_repeat),
        }
    }

    /// How long the server wants to be left alone.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        if let Self::Call(error) = self { error.retry_after() } else { None }
    }

    /// One word for traces.
    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::Resting => "breaker_open",
            Self::Busy(_) => "busy",
            Self::Late => "late",
            Self::Denied(_) => "budget",
            Self::Left => "client_left",
            Self::Call(error) => error.word(),
        }
    }
}

impl Toolbox {
    /// Asks `server` once, with `pass`, which is asked for where there is none yet. The breaker is asked before a place is waited for, so
    /// that nobody queues for a server that is left alone, and again once there is one, since only a call that is about to be sent may be
    /// the trial. A server that went away is waited for until `by`.
    pub(super) async fn attempt(
        &self,
        server: &Server,
        definition: &Definition,
        (proposal, pass): (&Proposal, &mut Option<Pass>),
        by: Instant,
    ) -> Result<Output, Error> {
        if server.phase() == Phase::Open {
            return Err(Error::Resting);
        }
        let _place = tokio::select! {
            biased;
            () = proposal.progress.closed() => return Err(Error::Left),
            place = tokio::time::timeout_at(proposal.deadline.into(), server.place()) => place.map_err(|_| Error::Late)?.map_err(Error::Busy)?,
        };
        if Instant::now() >= proposal.deadline {
            return Err(Error::Late);
        }
        let standing = tokio::time::timeout_at(proposal.deadline.into(), self.standing(server, by)).await;
        let Some(connection) = standing.ok().flatten() else {
            server.refresh();
            let view = server.view();
            let why = view.reason.clone().unwrap_or_else(|| "it is not connected".to_owned());
            return Err(Error::Call(mcp::Error::Unreachable(why)));
        };
        if pass.is_none() {
            *pass = Some(admitted(proposal, definition).await?);
        }
        let now = Instant::now();
        // Even a call that gets no time would be sent.
        if now >= proposal.deadline {
            return Err(Error::Late);
        }
        let Some(passage) = server.enter() else { return Err(Error::Resting) };
        let by = proposal.deadline.min(now + server.timeout());
        if let Some(pass) = pass {
            pass.begin();
        }
        let answer = connection.call(&definition.name, proposal.arguments.clone(), by, proposal.progress.clone()).await;
        let had_its_time = by == now + server.timeout();
        tell(passage, answer.as_ref().err(), had_its_time);
        answer.map_err(Error::Call)
    }

    /// The connection to `server`, as soon as there is one that stands, until `by`.
    async fn standing(&self, server: &Server, by: Instant) -> Option<Connection> {
        if server.view().connection.is_none() {
            // Somebody waits for it now.
            server.refresh();
        }
        loop {
            let changed = self.changed.notified();
            let standing = self.connection(server, by).await.filter(|connection| !connection.is_closed());
            if standing.is_some() || Instant::now() >= by {
                return standing;
            }
            // After it, whatever there is.
            let _ = tokio::time::timeout_at(by.into(), changed).await;
        }
    }
}

/// What lets the call through. A budget may ask for a pause, for which nobody waits who has left or has no time.
async fn admitted(proposal: &Proposal, definition: &Definition) -> Result<Pass, Error> {
    let tool = definition.for_rules();
    let asking = tokio::time::timeout_at(proposal.deadline.into(), proposal.meter.tool(&tool, &proposal.call_id));
    let admitted = tokio::select! {
        biased;
        () = proposal.progress.closed() => return Err(Error::Left),
        admitted = asking => admitted.map_err(|_| Error::Late)?.map_err(Error::Denied)?,
    };
    Ok(admitted.telling(proposal.cost.clone()))
}

/// Tells the breaker what the end of a call says about the server: nothing, where it was given less than its time, no credential or an old
/// session.
fn tell(passage: Passage<'_>, error: Option<&mcp::Error>, had_its_time: bool) {
    match error {
        Some(mcp::Error::AuthNeeded(_) | mcp::Error::Expired) => {}
        Some(error) if is_callers(error) => passage.tell(true),
        Some(mcp::Error::Timeout(_)) if !had_its_time => {}
        Some(error) => passage.tell(!error.is_transport()),
        None => passage.tell(true),
    }
}

/// Whether it is the call that the server finds fault with, and not the server that has one.
fn is_callers(error: &mcp::Error) -> bool {
    matches!(error, mcp::Error::Status { code: 400..=407 | 409..=428 | 430..=499, .. })
}

/// Between half of `wait` and all of it: those who wait shall not ask all at once.
pub(super) fn jittered(wait: Duration) -> Duration {
    const STEPS: u32 = 1000;
    // The standard library draws its keys at random.
    let drawn = RandomState::new().build_hasher().finish() % u64::from(STEPS + 1);
    wait / 2 + wait / 2 / STEPS * u32::try_from(drawn).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_stays_in_its_bounds_and_varies() {
        let wait = Duration::from_millis(500);
        let drawn: Vec<Duration> = (0..50).map(|_| jittered(wait)).collect();
        assert!(drawn.iter().all(|drawn| (wait / 2..=wait).contains(drawn)), "{drawn:?}");
        assert!(drawn.iter().any(|other| *other != drawn[0]));
    }

    #[test]
    fn what_is_tried_again_does_no_harm() {
        use mcp::Error as Mcp;
        let unreachable = || Error::Call(Mcp::Unreachable(String::new()));
        let status = |code| Error::Call(Mcp::Status { code, said: String::new(), retry_after: None });
        let timeout = || Error::Call(Mcp::Timeout(Duration::ZERO));
        // The error; again where it may change something; again where it may be repeated; by another server.
        let cases = [
            (unreachable(), true, true, true),
            (Error::Call(Mcp::Lost), false, true, false),
            (timeout(), false, true, false),
            (Error::Call(Mcp::Refused(String::new())), false, false, false),
            (Error::Call(Mcp::Protocol(String::new())), false, false, false),
            (Error::Call(Mcp::AuthNeeded(String::new())), false, false, true),
            (status(503), false, true, false),
            (status(429), true, true, true),
            (status(400), false, false, false),
            (Error::Resting, false, false, true),
            (Error::Busy(Full::Queue(1)), false, false, true),
            (Error::Late, false, false, false),
            (Error::Left, false, false, false),
        ];
        for (error, harmful, harmless, elsewhere) in cases {
            assert_eq!((error.passes(false), error.passes(true), error.is_of_this_server()), (harmful, harmless, elsewhere), "{error:?}");
        }
    }
}
