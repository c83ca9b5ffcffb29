//! `mocktool`: the scripted MCP server of `toolgate_load::mock::tools` over standard input and output.

use std::io::{self, BufRead, Write};

use toolgate_load::{Result, mock::tools};

fn main() -> Result<()> {
    let mut out = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        if let Some(answer) = tools::answer(&serde_json::from_str(&line?)?) {
            writeln!(out, "{answer}")?;
            out.flush()?;
        }
    }
    Ok(())
}
