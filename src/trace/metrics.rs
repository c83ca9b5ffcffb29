//! Counts of what happened, for Prometheus. Counting is one look-up and one addition; nothing is summed up before somebody asks.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicUsize, Ordering},
};

use prometheus_client::{
    encoding::{EncodeLabelSet, text},
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

use crate::chat::{CallRecord, Report, call::NO_SERVER, report::Fault};

/// All counts of one process.
#[derive(Debug)]
pub struct Metrics {
    /// Held while it is asked: what is known only then is set and read in one go.
    registry: Mutex<Registry>,
    states: Family<ServerState, Gauge>,
    tools: Family<Server, Gauge>,
    changed: Family<Server, Gauge>,
    calls: Family<Call, Counter>,
    /// How many combinations of calls were seen, those beyond the limit each time.
    known: AtomicUsize,
    seconds: Family<Server, Histogram, fn() -> Histogram>,
    runs: Family<Run, Counter>,
    attempts: Family<Attempt, Counter>,
    halts: Family<Halt, Counter>,
    dropped: Counter,
}

/// What is known of a server at the moment of asking.
#[derive(Debug, Clone, Copy)]
pub struct ServerGauge<'a> {
    /// Its id.
    pub server: &'a str,
    /// How it is, one of the states that are told.
    pub state: &'static str,
    /// How many tools it has.
    pub tools: usize,
    /// How many of them changed.
    pub changed: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ServerState {
    server: String,
    state: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Server {
    server: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Call {
    server: String,
    tool: String,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Run {
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Halt {
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Attempt {
    fault: &'static str,
}

/// How many combinations of server, tool and outcome are counted apart: a server may have a new name for its tool every day.
const CALLS_MAX: usize = 4096;
/// The tool of the calls beyond them.
const OTHERS: &str = "-";

/// From a call within this machine to the longest that anybody waits for.
fn seconds() -> Histogram {
    Histogram::new([0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 120.0])
}

impl Default for Metrics {
    fn default() -> Self {
        let metrics = Self {
            registry: Mutex::default(),
            states: Family::default(),
            tools: Family::default(),
            changed: Family::default(),
            calls: Family::default(),
            known: AtomicUsize::new(0),
            seconds: Family::new_with_constructor(seconds),
            runs: Family::default(),
            attempts: Family::default(),
            halts: Family::default(),
            dropped: Counter::default(),
        };
        let mut registry = Registry::with_prefix("toolgate");
        registry.register("mcp_server_state", "1 for the state in which an MCP server is, 0 for the others", metrics.states.clone());
        registry.register("mcp_tools", "Tools of an MCP server", metrics.tools.clone());
        registry.register("tools_changed", "Tools whose definition is not the one that was accepted", metrics.changed.clone());
        registry.register("tool_calls", "Calls of tools by outcome", metrics.calls.clone());
        registry.register("tool_call_seconds", "How long calls of tools took, retries included", metrics.seconds.clone());
        registry.register("runs", "Answers to requests by outcome", metrics.runs.clone());
        registry.register("model_attempts", "Replies of models by what was wrong with them", metrics.attempts.clone());
        registry.register("halts", "Answers that a limit or a budget ended, and requests that one refused", metrics.halts.clone());
        registry.register("trace_dropped", "Records that the trace had no room for", metrics.dropped.clone());
        Self { registry: Mutex::new(registry), ..metrics }
    }
}

impl Metrics {
    /// Counts a call of a tool.
    pub fn call(&self, record: &CallRecord) {
        let outcome = match record {
            CallRecord { dry_run: true, .. } => "dry_run",
            CallRecord { success: true, .. } => "success",
            CallRecord { executed: false, .. } => "rejected",
            _ => "error",
        };
        // The name of a tool that no server has is the model's invention.
        let tool = if record.server == NO_SERVER { OTHERS } else { &record.tool };
        let mut labels = Call { server: record.server.clone(), tool: tool.to_owned(), outcome };
        if self.calls.get(&labels).is_none() && self.known.fetch_add(1, Ordering::Relaxed) >= CALLS_MAX {
            OTHERS.clone_into(&mut labels.tool);
        }
        self.calls.get_or_create(&labels).inc();
        if record.executed {
            let latency = std::time::Duration::from_millis(record.latency_ms);
            self.seconds.get_or_create(&Server { server: labels.server }).observe(latency.as_secs_f64());
        }
    }

    /// Counts the replies that an answer took, and the limit that ended it.
    pub fn attempts(&self, report: &Report) {
        if let Some(reason) = report.halt_reason {
            self.halts.get_or_create(&Halt { reason: reason.as_str() }).inc();
        }
        for attempt in &report.attempts {
            let fault = match attempt.fault {
                None => "none",
                Some(Fault::Text) => "text",
                Some(Fault::UnknownTool) => "unknown_tool",
                Some(Fault::Arguments) => "arguments",
                Some(Fault::Repetition) => "repetition",
            };
            self.attempts.get_or_create(&Attempt { fault }).inc();
        }
    }

    /// Counts a run that ended in `outcome`.
    pub fn run(&self, outcome: &'static str) {
        self.runs.get_or_create(&Run { outcome }).inc();
    }

    /// Everything as Prometheus reads it, with what is known now: the `servers`, each in one of `states`, and how many records were `dropped`.
    pub fn text<'a>(&self, servers: impl Iterator<Item = ServerGauge<'a>>, states: &[&'static str], dropped: u64) -> String {
        let registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        for gauge in servers {
            for state in states {
                let labels = ServerState { server: gauge.server.to_owned(), state };
                self.states.get_or_create(&labels).set(i64::from(gauge.state == *state));
            }
            let labels = Server { server: gauge.server.to_owned() };
            self.tools.get_or_create(&labels).set(count(gauge.tools));
            self.changed.get_or_create(&labels).set(count(gauge.changed));
        }
        self.dropped.inc_by(dropped.saturating_sub(self.dropped.get()));
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = text::encode(&mut text, &registry);
        text
    }
}

fn count(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat::report;

    fn lines(metrics: &Metrics, of: &str) -> Vec<String> {
        let text = metrics.text(std::iter::empty(), &[], 0);
        text.lines().filter(|line| line.starts_with(of)).map(str::to_owned).collect()
    }

    fn call(server: &str, tool: &str) -> CallRecord {
        CallRecord {
            server: server.to_owned(),
            tool: tool.to_owned(),
            executed: true,
            success: true,
            latency_ms: 30,
            ..CallRecord::default()
        }
    }

    #[test]
    fn calls_are_counted_by_outcome() {
        let metrics = Metrics::default();
        for record in [
            call("files", "read"),
            call("files", "read"),
            CallRecord { success: false, ..call("files", "read") },
            CallRecord { success: false, executed: false, ..call("files", "read") },
            CallRecord { executed: false, dry_run: true, ..call("files", "read") },
            CallRecord { success: false, executed: false, ..call("-", "what the model invented") },
        ] {
            metrics.call(&record);
        }
        let mut counted = lines(&metrics, "toolgate_tool_calls_total");
        counted.sort();
        let line = |server: &str, tool: &str, outcome: &str, count: u32| {
            format!("toolgate_tool_calls_total{{server=\"{server}\",tool=\"{tool}\",outcome=\"{outcome}\"}} {count}")
        };
        let expected = [
            line("-", "-", "rejected", 1),
            line("files", "read", "dry_run", 1),
            line("files", "read", "error", 1),
            line("files", "read", "rejected", 1),
            line("files", "read", "success", 2),
        ];
        assert_eq!(counted, expected);
        assert_eq!(lines(&metrics, "toolgate_tool_call_seconds_count"), ["toolgate_tool_call_seconds_count{server=\"files\"} 3"]);
        assert_eq!(
            lines(&metrics, "toolgate_tool_call_seconds_bucket{le=\"0.02\"").len()
                + lines(&metrics, "toolgate_tool_call_seconds_bucket{le=\"0.05\"").len(),
            2
        );
    }

    #[test]
    fn names_that_never_end_fill_no_memory() {
        let metrics = Metrics::default();
        for n in 0..CALLS_MAX + 100 {
            metrics.call(&call("wild", &n.to_string()));
        }
        metrics.call(&call("wild", "0"));
        assert_eq!(lines(&metrics, "toolgate_tool_calls_total").len(), CALLS_MAX + 1);
        assert_eq!(
            lines(&metrics, "toolgate_tool_calls_total{server=\"wild\",tool=\"-\""),
            ["toolgate_tool_calls_total{server=\"wild\",tool=\"-\",outcome=\"success\"} 100"]
        );
        assert_eq!(lines(&metrics, "toolgate_tool_calls_total{server=\"wild\",tool=\"0\"").len(), 1);
    }

    #[test]
    fn servers_are_as_they_are_when_asked() {
        let metrics = Metrics::default();
        let states = ["ready", "broken"];
        let gauge = |state| ServerGauge { server: "a \"b\"", state, tools: 3, changed: 1 };
        metrics.text([gauge("ready")].into_iter(), &states, 0);
        let text = metrics.text([gauge("broken")].into_iter(), &states, 7);
        for line in [
            "toolgate_mcp_server_state{server=\"a \\\"b\\\"\",state=\"ready\"} 0",
            "toolgate_mcp_server_state{server=\"a \\\"b\\\"\",state=\"broken\"} 1",
            "toolgate_mcp_tools{server=\"a \\\"b\\\"\"} 3",
            "toolgate_tools_changed{server=\"a \\\"b\\\"\"} 1",
            "toolgate_trace_dropped_total 7",
        ] {
            assert!(text.lines().any(|known| known == line), "{line} is not in\n{text}");
        }
        assert!(text.ends_with("# EOF\n"));
    }

    #[test]
    fn replies_are_counted_by_fault() {
        let metrics = Metrics::default();
        let attempts = vec![report::Attempt { fault: Some(Fault::Text), ..report::Attempt::default() }, report::Attempt::default()];
        metrics.attempts(&Report { attempts, ..Report::default() });
        metrics.run("completed");
        assert_eq!(lines(&metrics, "toolgate_model_attempts_total").len(), 2);
        assert_eq!(lines(&metrics, "toolgate_runs_total"), ["toolgate_runs_total{outcome=\"completed\"} 1"]);
    }
}
