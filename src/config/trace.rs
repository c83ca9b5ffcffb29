//! `[trace]`: where what happened is written.

use toml::Value;

use super::{keys::Keys, units};
use crate::trace::{Config, Sink};

/// The trace.
pub(super) fn resolve(keys: &mut Keys<'_>) -> Config {
    Config {
        // Who has tools run wants to know what they did, and who counts costs what they were for; a plain proxy that makes a folder would be a surprise.
        sink: keys.take("trace.sink", Sink::Auto, sink),
        // Arguments are what users work on.
        is_verbose: keys.take("trace.verbose", false, units::flag),
        // Some 100,000 lines: a day of much work, and still quick to search.
        bytes_max: keys.take("trace.max_bytes", 64 << 20, units::bytes),
        // A working week, with the file that is written.
        kept_max: keys.take("trace.keep", 4, |value| {
            units::count(value, 0, 1000).and_then(|count| usize::try_from(count).map_err(|error| error.to_string()))
        }),
    }
}

fn sink(value: &Value) -> Result<Sink, units::Expected> {
    let typed = units::text(value)?;
    Ok(match typed.trim() {
        "" => return Err("must be the path of a file, \"stdout\", \"stderr\", \"off\" or \"auto\"".to_owned()),
        "auto" => Sink::Auto,
        "off" => Sink::Off,
        "stdout" | "-" => Sink::Stdout,
        "stderr" => Sink::Stderr,
        path => Sink::File(path.into()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sink_is_a_word_or_a_path() {
        let read = |typed: &str| sink(&Value::from(typed));
        assert_eq!(read("-"), Ok(Sink::Stdout));
        assert_eq!(read("stderr"), Ok(Sink::Stderr));
        assert_eq!(read("off"), Ok(Sink::Off));
        assert_eq!(read("./stdout"), Ok(Sink::File("./stdout".into())));
        assert!(read(" ").is_err());
        assert!(sink(&Value::from(true)).is_err());
    }

    #[test]
    fn nothing_is_written_by_default_unless_tools_are_run_or_books_are_kept_here() {
        let sink = |file: &str| crate::config::from_text(file, &std::collections::HashMap::<String, String>::new()).0.trace_sink();
        let file = Sink::File("logs/traces.jsonl".into());
        assert_eq!((sink(""), Sink::Auto.settled(true)), (Sink::Off, file.clone()));
        assert_eq!((sink("[[price]]\nmodel = \"*\"\noutput = 1"), sink("[budget]\nstore = \"memory\"")), (file.clone(), file));
        assert_eq!(sink("[budget]\nstore = \"memory\"\n[trace]\nsink = \"stderr\""), Sink::Stderr);
    }
}
