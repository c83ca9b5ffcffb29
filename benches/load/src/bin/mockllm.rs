//! `mockllm [PORT]`: a scripted model server on the loopback interface, 9000 unless told.
//!
//! The request's `model` names the script, see `toolgate_load::mock::script`. Port 0 takes a free
//! one; the address is printed. With `MOCK_RECORD` in the environment, `GET /last` shows the last
//! chat request.

use std::{env, sync::Arc};

use tokio::net::TcpListener;
use toolgate_load::{
    Result,
    mock::{self, Backend},
};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let port: u16 = env::args().nth(1).map_or(Ok(9000), |port| port.parse())?;
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    println!("mockllm on {}", listener.local_addr()?);
    let is_recording = env::var_os("MOCK_RECORD").is_some();
    mock::serve(listener, Arc::new(Backend::new(is_recording))).await;
    Ok(())
}
