//! What another process takes of the machine, from `/proc`.

use std::{fs, time::Duration};

use crate::Result;

/// What the kernel counts as resident of process `pid`, in KiB.
pub fn resident_kib(pid: u32) -> Result<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let kib = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .and_then(|value| value.trim().strip_suffix("kB"))
        .ok_or("no VmRSS in the process status")?;
    Ok(kib.trim().parse()?)
}

/// The processor time that process `pid` has used, its own and the kernel's on its behalf.
pub fn cpu_time(pid: u32) -> Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name stands in brackets and may hold spaces.
    let (_, fields) = stat.rsplit_once(')').ok_or("no name in the process stat")?;
    let ticks = fields.split_whitespace().skip(11).take(2).map(str::parse::<u64>).sum::<std::result::Result<u64, _>>()?;
    Ok(Duration::from_millis(ticks * TICK_MS))
}

/// The unit of `/proc`'s times, the same on all common machines.
const TICK_MS: u64 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_running_process_takes_memory_and_time() {
        let own = std::process::id();
        assert!(resident_kib(own).unwrap() > 100.0);
        assert!(cpu_time(own).unwrap() < Duration::from_secs(3600));
    }
}
