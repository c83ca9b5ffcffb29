//! Which addresses may be connected to, asked at the moment of connecting: what a name resolved to before says nothing about now.

use std::{
    future::Future,
    io,
    net::{IpAddr, SocketAddr},
    pin::Pin,
    task::{Context, Poll},
    vec,
};

use hyper_util::client::legacy::connect::dns::{GaiResolver, Name};
use tower_service::Service;

/// Says why an address must not be connected to, in a few words, and nothing about one that may.
#[derive(Debug, Clone, Copy)]
pub struct Guard(pub fn(IpAddr) -> Option<&'static str>);

/// An address that must not be connected to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the address {address} is refused: {reason}")]
pub struct Forbidden {
    address: IpAddr,
    reason: &'static str,
}

impl Guard {
    pub(super) fn check(self, address: IpAddr) -> Result<(), Forbidden> {
        (self.0)(address).map_or(Ok(()), |reason| Err(Forbidden { address, reason }))
    }
}

/// The system's resolver, whose answers are checked.
#[derive(Clone)]
pub(super) struct Resolver {
    system: GaiResolver,
    guard: Option<Guard>,
}

impl Resolver {
    pub(super) fn new(guard: Option<Guard>) -> Self {
        Self { system: GaiResolver::new(), guard }
    }
}

impl Service<Name> for Resolver {
    type Response = vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.system.poll_ready(cx)
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let guard = self.guard;
        let resolving = self.system.call(name);
        Box::pin(async move {
            let addresses: Vec<SocketAddr> = resolving.await?.collect();
            if let Some(guard) = guard {
                // One bad address among good ones is reason enough not to trust the name.
                addresses.iter().try_for_each(|address| guard.check(address.ip())).map_err(io::Error::other)?;
            }
            Ok(addresses.into_iter())
        })
    }
}
