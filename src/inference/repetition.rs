//! Finds a reply that repeats itself without end: small models get stuck in a sentence, a list or a run of one token.
//!
//! Bytes stand for tokens, four for one, so that the outcome does not depend on the pieces in which a reply comes.

/// The longest cycle that is looked for: 64 tokens of four bytes.
const CYCLE_BYTES_MAX: usize = 64 * 4;

/// Follows one text.
#[derive(Debug)]
pub(super) struct Repetition {
    /// The end of the text, as much as is looked at.
    tail: Vec<u8>,
    /// How much is looked at: so many of the longest cycles; 0 when nothing is to be found.
    span: usize,
    /// How much came since the last look.
    unseen: usize,
}

impl Repetition {
    /// Looks for cycles of which the same one fills as much text as `cycles` of the longest would; never finds any with 0.
    pub(super) fn new(cycles: usize) -> Self {
        Self { tail: Vec::new(), span: cycles.saturating_mul(CYCLE_BYTES_MAX), unseen: 0 }
    }

    /// Takes the next piece. Returns how much of it came before the repetition was seen, if it was.
    pub(super) fn push(&mut self, piece: &[u8]) -> Option<usize> {
        if self.span == 0 {
            return None;
        }
        let mut at = 0;
        while at < piece.len() {
            let next = piece.len().min(at + CYCLE_BYTES_MAX - self.unseen);
            self.tail.extend_from_slice(piece.get(at..next).unwrap_or_default());
            self.unseen += next - at;
            at = next;
            if self.unseen == CYCLE_BYTES_MAX {
                self.unseen = 0;
                if self.is_cycle() {
                    return Some(at);
                }
            }
        }
        None
    }

    /// Another text begins.
    pub(super) fn restart(&mut self) {
        self.tail.clear();
        self.unseen = 0;
    }

    /// Whether the tail is one cycle over and over.
    fn is_cycle(&mut self) -> bool {
        let Some(surplus) = self.tail.len().checked_sub(self.span) else { return false };
        self.tail.drain(..surplus);
        let (tail, length) = (self.tail.as_slice(), self.tail.len());
        // A text has a cycle where it equals itself, moved by that cycle's length.
        (1..=CYCLE_BYTES_MAX).any(|cycle| tail.get(cycle..) == tail.get(..length - cycle))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen_after(text: &str, piece: usize) -> Option<usize> {
        let (mut repetition, mut before) = (Repetition::new(8), 0);
        for piece in text.as_bytes().chunks(piece) {
            if let Some(at) = repetition.push(piece) {
                return Some(before + at);
            }
            before += piece.len();
        }
        None
    }

    #[test]
    fn cycles_are_seen_whatever_the_pieces() {
        let sentence = "I will now call the tool. ";
        let stuck = format!("Well, {}", sentence.repeat(200));
        let seen = seen_after(&stuck, 1).unwrap();
        assert!((8 * CYCLE_BYTES_MAX..10 * CYCLE_BYTES_MAX).contains(&seen), "{seen}");
        for piece in [2, 3, 7, 100, 5000] {
            assert_eq!(seen_after(&stuck, piece), Some(seen));
        }
        assert!(seen_after(&"\n".repeat(3000), 1).is_some());
    }

    #[test]
    fn what_goes_on_is_no_cycle() {
        let list: String = (0..500).map(|n| format!("- item {n}\n")).collect();
        assert_eq!(seen_after(&list, 3), None);
        assert_eq!(seen_after(&"-".repeat(1500), 3), None);
        let long_cycle: String = ('a'..='z').map(|c| c.to_string().repeat(20)).collect();
        assert_eq!(seen_after(&long_cycle.repeat(20), 3), None);
    }

    #[test]
    fn it_can_be_switched_off() {
        assert_eq!(Repetition::new(0).push("x".repeat(10_000).as_bytes()), None);
    }
}
