//! Accepts connections until told to stop, then lets the running requests finish.

use std::{future::Future, sync::Arc, time::Duration};

use hyper_util::server::graceful::GracefulShutdown;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
};
use tokio_util::task::TaskTracker;

use super::{State, connection};

/// After a failed accept, such as for want of file descriptors: long enough for some connection to end.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// Serves `listener` until `shutdown` is ready. Then the socket is closed at once, and requests that run have the configured grace
/// to finish. Returns how many connections were still open at the end of it; dropping the runtime cuts them.
pub async fn serve(listener: TcpListener, state: Arc<State>, shutdown: impl Future<Output = ()>) -> usize {
    let tasks = TaskTracker::new();
    let graceful = GracefulShutdown::new();
    let places = Arc::new(Semaphore::new(state.config.connections_max));
    tokio::pin!(shutdown);
    loop {
        let (stream, place) = tokio::select! {
            () = &mut shutdown => break,
            accepted = accept(&listener, &places) => accepted,
        };
        let connection = graceful.watch(connection::serve(stream, Arc::clone(&state)));
        tasks.spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "connection ended");
            }
            drop(place);
        });
    }
    drop(listener);
    tasks.close();
    tracing::info!(open = tasks.len(), grace_s = state.config.shutdown_grace.as_secs_f64(), "shutting down");
    let finished = async {
        graceful.shutdown().await;
        tasks.wait().await;
    };
    // Past the grace, what is left is cut; the count says how much that was.
    let _ = tokio::time::timeout(state.config.shutdown_grace, finished).await;
    tasks.len()
}

/// The next connection and its place. The place is taken first: what cannot be served waits in the kernel's queue.
async fn accept(listener: &TcpListener, places: &Arc<Semaphore>) -> (TcpStream, tokio::sync::OwnedSemaphorePermit) {
    loop {
        // The semaphore is never closed.
        let Ok(place) = Arc::clone(places).acquire_owned().await else { std::future::pending().await };
        match listener.accept().await {
            Ok((stream, _)) => return (stream, place),
            Err(error) => {
                tracing::error!(%error, "accept failed");
                tokio::time::sleep(ACCEPT_RETRY).await;
            }
        }
    }
}
