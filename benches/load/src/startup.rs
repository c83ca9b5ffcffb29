//! How long a server takes from its start to the first request that it answers.

use std::{
    path::Path,
    process::Stdio,
    time::{Duration, Instant},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    process::Command,
    time::{sleep, timeout},
};

use crate::Result;

/// Starts `program serve` in front of `backend`, asks `GET /health/live` every millisecond until it
/// says 200, and stops it.
///
/// Fails if that takes more than ten seconds. The process is killed on every way out, also when
/// the future is dropped.
pub async fn measure(program: &Path, backend: &str) -> Result<Duration> {
    let port = crate::free_ports(1)?.pop().ok_or("no free port")?;
    let start = Instant::now();
    let mut child = Command::new(program)
        .arg("serve")
        .env("TOOLGATE_BACKEND_URL", backend)
        .env("TOOLGATE_LISTEN", format!("127.0.0.1:{port}"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()?;
    let answered = async {
        while !is_live(port).await {
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(PATIENCE, answered).await?;
    let elapsed = start.elapsed();
    child.kill().await?;
    Ok(elapsed)
}

async fn is_live(port: u16) -> bool {
    let request = format!("GET /health/live HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n\r\n");
    let mut status = [0; OK.len()];
    let ask = async {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
        stream.write_all(request.as_bytes()).await?;
        stream.read_exact(&mut status).await
    };
    ask.await.is_ok() && status == *OK
}

const OK: &[u8; 12] = b"HTTP/1.1 200";

const PATIENCE: Duration = Duration::from_secs(10);
