//! What toolgate's benchmark runs on: a scripted model server, a closed-loop load generator, and
//! the measurement of a program's start. The binaries are thin:
//!
//! - `mockllm` serves [`mock`],
//! - `load` runs [`load`] once and prints one JSON line,
//! - `compare` runs it against several targets in turn and prints the tables,
//! - `pace` and `crowd` read [`paced`] streams, one at a time and a thousand at once,
//! - `loops` has toolgate run a tool, of `mocktool` or of the model server's own `/mcp`,
//! - `freeport` prints ports that nobody listens on.
//!
//! All of it talks to the loopback interface only, and each is single-threaded, so that on two
//! cores the proxy under test competes with as little as possible.

use std::{error, io, net::TcpListener, result};

pub mod load;
pub mod mock;
pub mod paced;
pub mod process;
pub mod report;
pub mod sample;
pub mod startup;

/// A benchmark only reports its errors, so one boxed type is enough.
pub type Error = Box<dyn error::Error + Send + Sync>;

/// The result of everything that can fail here.
pub type Result<T> = result::Result<T, Error>;

/// Asks the kernel for `count` different ports of the loopback interface that are free now.
///
/// Nothing keeps them free afterwards; take them into use soon.
pub fn free_ports(count: usize) -> io::Result<Vec<u16>> {
    // All listeners live until the end, or the kernel could hand out one port twice.
    let listeners = (0..count).map(|_| TcpListener::bind(("127.0.0.1", 0))).collect::<io::Result<Vec<_>>>()?;
    listeners.iter().map(|listener| Ok(listener.local_addr()?.port())).collect()
}
