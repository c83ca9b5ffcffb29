//! `freeport [COUNT]`: prints ports of the loopback interface that are free now, one a line.

use std::env;

use toolgate_load::Result;

fn main() -> Result<()> {
    let count = env::args().nth(1).map_or(Ok(1), |count| count.parse())?;
    for port in toolgate_load::free_ports(count)? {
        println!("{port}");
    }
    Ok(())
}
