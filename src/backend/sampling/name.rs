//! Names of models, and the patterns by which their families are known.

/// Words that stand in a name in this order.
#[derive(Debug)]
pub(super) struct Pattern(pub(super) Vec<Word>);

impl Pattern {
    pub(super) fn of(text: &str) -> Self {
        Self(text.split(' ').map(Word::of).collect())
    }

    pub(super) fn fits(&self, name: &[Part]) -> bool {
        let mut rest = Some(name);
        for word in &self.0 {
            rest = rest.and_then(|rest| rest.get(word.end_in(rest)?..));
        }
        rest.is_some()
    }

    pub(super) fn length(&self) -> usize {
        self.0.iter().map(|word| word.0.len()).sum()
    }
}

/// Parts that stand in a name one behind the other.
#[derive(Debug)]
pub(super) struct Word(pub(super) Vec<Part>);

impl Word {
    pub(super) fn of(text: &str) -> Self {
        Self(parts(text))
    }

    /// Where the word ends that stands whole in `name`: `gemma3` is not in `gemma3n`, nor is `3b` in `a3b`.
    pub(super) fn end_in(&self, name: &[Part]) -> Option<usize> {
        let is_whole = |at: usize| name.get(at).is_none_or(|part| part.begins);
        let is_at = |at: &usize| name.get(*at..).is_some_and(|rest| self.0.iter().zip(rest).all(|(own, other)| own.text == other.text));
        let last = name.len().checked_sub(self.0.len())?;
        (0..=last).find(|at| is_whole(*at) && is_at(at) && is_whole(at + self.0.len())).map(|at| at + self.0.len())
    }
}

/// A run of letters or a number.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) text: String,
    /// Whether it stands at the beginning or behind something that is neither.
    pub(super) begins: bool,
}

/// The parts of a name, in small letters; a version 4.0 is 4.
pub(super) fn parts(name: &str) -> Vec<Part> {
    let (mut parts, mut rest, mut begins) = (Vec::<Part>::new(), name, true);
    while let Some(first) = rest.chars().next() {
        let length = if first.is_ascii_digit() { number_length(rest) } else { run_length(rest, char::is_alphabetic) };
        let (part, behind) = rest.split_at_checked(length.max(first.len_utf8())).unwrap_or((rest, ""));
        rest = behind;
        if length > 0 {
            let text = part.strip_suffix(".0").filter(|_| first.is_ascii_digit()).unwrap_or(part).to_lowercase();
            parts.push(Part { text, begins });
        }
        begins = length == 0;
    }
    parts
}

/// The length of the number at the start of `text`, with a point only between digits.
fn number_length(text: &str) -> usize {
    let digits = |text: &str| run_length(text, |c| c.is_ascii_digit());
    let whole = digits(text);
    let behind_point = text.get(whole..).and_then(|rest| rest.strip_prefix('.')).map_or(0, digits);
    if behind_point > 0 { whole + 1 + behind_point } else { whole }
}

fn run_length(text: &str, belongs: impl Fn(char) -> bool) -> usize {
    text.find(|c| !belongs(c)).unwrap_or(text.len())
}
