//! Where the trace goes and how much of it is kept.

use std::path::PathBuf;

/// The settings of the trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Where lines go.
    pub sink: Sink,
    /// Whether lines hold the arguments of calls.
    pub is_verbose: bool,
    /// How long the file grows before it is put aside.
    pub bytes_max: usize,
    /// How many files that were put aside are kept.
    pub kept_max: usize,
}

/// Where lines go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sink {
    /// To [`FILE`] where toolgate runs tools itself or keeps books of costs, else nowhere.
    Auto,
    /// Nowhere.
    Off,
    /// To the end of this file. Its folder is made.
    File(PathBuf),
    /// To standard output.
    Stdout,
    /// To standard error, among the log.
    Stderr,
}

/// The file that is written unless another is named.
pub const FILE: &str = "logs/traces.jsonl";

impl Sink {
    /// What `self` comes to where there is something to write that somebody will look for, or not.
    #[must_use]
    pub fn settled(self, has_use: bool) -> Self {
        match self {
            Self::Auto if has_use => Self::File(FILE.into()),
            Self::Auto => Self::Off,
            known => known,
        }
    }
}
