//! A redis-server for the tests, ended when the last who uses it is done.

use std::{
    net::TcpListener,
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex, PoisonError, Weak},
    time::{Duration, Instant},
};

use ::redis::{Client, cmd};

use crate::{budget::store::redis::Redis, redis::Config, secret::Secret};

const PATIENCE: Duration = Duration::from_secs(10);

/// A running one. Its password is there so that a test can look for it where it must not be.
pub(in super::super) struct Server {
    child: Option<Child>,
    port: u16,
    options: Vec<String>,
}

impl Server {
    /// One that all tests share which keep nothing beyond their end.
    pub(in super::super) fn shared() -> Arc<Self> {
        static RUNNING: Mutex<Weak<Server>> = Mutex::new(Weak::new());
        let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        running.upgrade().unwrap_or_else(|| {
            let server = Arc::new(Self::start(&["--appendonly", "no"]));
            *running = Arc::downgrade(&server);
            server
        })
    }

    /// One with options of its own.
    pub(in super::super) fn start(options: &[&str]) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let options = options.iter().map(|&option| option.to_owned()).collect();
        let mut server = Self { child: None, port, options };
        server.begin();
        server
    }

    /// Starts it, at the address it had before, if any.
    pub(in super::super) fn begin(&mut self) {
        #[expect(clippy::disallowed_methods, reason = "a test is no part of the program")]
        let program = std::env::var("REDIS_SERVER").unwrap_or_else(|_| "redis-server".to_owned());
        let mut command = Command::new(program);
        command.args(["--port", &self.port.to_string(), "--bind", "127.0.0.1", "--save", "", "--requirepass", "p@ss"]);
        self.child = Some(command.args(&self.options).stdout(Stdio::null()).spawn().unwrap());
        let begun = Instant::now();
        // It listens before it has read its file.
        while !self.is_ready() {
            assert!(begun.elapsed() < PATIENCE, "redis-server does not start");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn is_ready(&self) -> bool {
        let connected = Client::open(self.url()).unwrap().get_connection();
        connected.is_ok_and(|mut connection| cmd("PING").exec(&mut connection).is_ok())
    }

    /// Ends it as the kernel ends what it kills.
    pub(in super::super) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Stops it where it is, as a machine that hangs.
    pub(in super::super) fn stop(&self) {
        self.signal("STOP");
    }

    /// Lets it go on.
    pub(in super::super) fn go_on(&self) {
        self.signal("CONT");
    }

    fn signal(&self, name: &str) {
        let id = self.child.as_ref().unwrap().id().to_string();
        assert!(Command::new("kill").args([&format!("-{name}"), &id]).status().unwrap().success());
    }

    pub(in super::super) fn url(&self) -> String {
        format!("redis://:p%40ss@127.0.0.1:{}", self.port)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A ledger in the Redis at `url`, under `prefix`. A test waits longer than a request: its machine does much else.
pub(in super::super) fn ledger(url: &str, prefix: &str) -> Redis {
    ledger_within(url, prefix, PATIENCE)
}

pub(in super::super) fn ledger_within(url: &str, prefix: &str, timeout: Duration) -> Redis {
    Redis::new(Config::new(Secret::new(url), prefix.to_owned(), timeout).unwrap())
}
