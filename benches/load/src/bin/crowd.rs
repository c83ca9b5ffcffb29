//! `crowd DIRECT_URL TOOLGATE_URL TOOLGATE_PID [STREAMS]`
//!
//! Many readers at once, 1000 unless told, of models that speak slowly: whether all get the whole
//! answer, how late the words come, and what memory each stream takes of toolgate. For comparison, the
//! same readers ask the model server itself.
//!
//! A figure that falls short is no failure; a stream that fails is.

use std::{
    env,
    time::{Duration, Instant},
};

use tokio::{pin, select, time::interval};
use toolgate_load::{
    Result,
    load::Target,
    paced::{self, Crowd, Heard, Pace, Reader},
    process,
    report::{self, Goal},
    sample::percentile,
};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let args: Vec<String> = env::args().skip(1).collect();
    let [direct, toolgate, pid, count @ ..] = args.as_slice() else {
        return Err("usage: crowd DIRECT_URL TOOLGATE_URL TOOLGATE_PID [STREAMS]".into());
    };
    let chat = |url: &String| Target::parse(&format!("{url}/v1/chat/completions"));
    let (direct, toolgate, pid) = (chat(direct)?, chat(toolgate)?, pid.parse()?);
    let count = count.first().map_or(Ok(1000), |count| count.parse())?;

    report::progress(&format!("{count} streams, direct"));
    let alone = paced::crowd(&direct, &PACE.question(false), PACE, count, EVERY).await;
    report::progress(&format!("{count} streams through toolgate"));
    // One answer first, so that what every process needs once does not count.
    Reader::new(&toolgate, &WARM_UP.question(true), WARM_UP).hear().await?;
    let idle_kib = process::resident_kib(pid)?;
    let (start, cpu_before) = (Instant::now(), process::cpu_time(pid)?);
    let (guarded, peak_kib) = watched(&toolgate, count, pid).await?;
    let cpu_share = (process::cpu_time(pid)? - cpu_before).as_secs_f64() / start.elapsed().as_secs_f64();
    report::progress_end();
    print(&[("direct", &alone), ("toolgate", &guarded)], count);
    let each_kib = (peak_kib - idle_kib) / f64::from(count);
    println!("resident memory of toolgate: {:.1} MiB idle, {:.1} MiB at most", idle_kib / 1024.0, peak_kib / 1024.0);
    println!("processor time of toolgate: {:.0} % of one core", cpu_share * 100.0);

    let failed = guarded.errors.len();
    report::print_goals(&[
        Goal::below("many slow streams, failed", 1.0, Some(failed as f64)),
        Goal::below("many slow streams, memory of each (KiB)", 64.0, Some(each_kib)),
    ]);
    match guarded.errors.first().or(alone.errors.first()) {
        Some(error) => Err(format!("{failed} streams through toolgate failed, {} direct ones: {error}", alone.errors.len()).into()),
        None => Ok(()),
    }
}

/// The crowd, and the most memory that was resident meanwhile.
async fn watched(toolgate: &Target, count: u32, pid: u32) -> Result<(Crowd, f64)> {
    let question = PACE.question(true);
    let crowd = paced::crowd(toolgate, &question, PACE, count, EVERY);
    pin!(crowd);
    let mut tick = interval(Duration::from_millis(250));
    let mut peak_kib: f64 = 0.0;
    loop {
        select! {
            crowd = &mut crowd => return Ok((crowd, peak_kib)),
            _ = tick.tick() => peak_kib = peak_kib.max(process::resident_kib(pid)?),
        }
    }
}

fn print(crowds: &[(&str, &Crowd)], count: u32) {
    println!("\nlate: by how much the latest word of a stream came after its time");
    println!(
        "{:<26} {:<12} {:>11} {:>11} {:>14} {:>7}",
        format!("{count} streams at once"),
        "through",
        "late p50 ms",
        "late p99 ms",
        "largest gap ms",
        "failed"
    );
    for (name, crowd) in crowds {
        let late = |p| ms(percentile(crowd.heard.iter().map(|heard| heard.late), p));
        let gap = ms(percentile(crowd.heard.iter().map(|heard: &Heard| heard.gap), 1.0));
        let failed = crowd.errors.len();
        println!("{:<26} {name:<12} {:>11.1} {:>11.1} {gap:>14.1} {failed:>7}", "", late(0.5), late(0.99));
    }
}

fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

const fn slow(words: usize) -> Pace {
    Pace { words, pause: Duration::from_millis(100) }
}

/// Long enough that all streams are open for ten seconds together.
const PACE: Pace = slow(110);

const WARM_UP: Pace = slow(2);

/// Between two requests. Readers come one by one, and a burst of all words at once would be no model's.
const EVERY: Duration = Duration::from_millis(1);
