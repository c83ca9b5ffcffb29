//! Calls that come over and over: a model that goes round in circles is told so.

use std::collections::HashMap;

/// How often the same call is made in one run. A second time is a model that looks again after something changed, a third one that is not
/// sure; what follows is a circle.
const REPEATS_MAX: u32 = 3;

/// The calls of one run, counted by tool and arguments.
#[derive(Debug, Default)]
pub(super) struct Repeats(HashMap<(String, String), u32>);

impl Repeats {
    /// Counts a call. Fails with what the model is told when it was made often enough.
    pub(super) fn admit(&mut self, tool: &str, arguments_hash: &str) -> Result<(), String> {
        let made = self.0.entry((tool.to_owned(), arguments_hash.to_owned())).or_default();
        if *made >= REPEATS_MAX {
            return Err(format!(
                "Not called: {tool} was called {made} times with these very arguments. Use what it answered, call it with other arguments, \
                 or answer without it."
            ));
        }
        *made += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fourth_of_the_same_is_refused() {
        let mut repeats = Repeats::default();
        for _ in 0..REPEATS_MAX {
            assert_eq!(repeats.admit("f", "a"), Ok(()));
        }
        let told = repeats.admit("f", "a").unwrap_err();
        assert!(told.contains("f was called 3 times"), "{told}");
        assert_eq!((repeats.admit("f", "b"), repeats.admit("g", "a")), (Ok(()), Ok(())));
        // Refusals are not counted on.
        assert_eq!(repeats.admit("f", "a").unwrap_err(), told);
    }
}
