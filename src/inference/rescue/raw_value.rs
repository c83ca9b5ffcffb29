//! Values that stand as raw text between tags: where each ends, found in linear time.

use std::ops::Range;

/// What is known about the raw values of a text.
#[derive(Default)]
pub(super) struct RawValues {
    nexts: Vec<Next>,
}

/// The next place of one fixed string, remembered so that asking in rising order is linear.
struct Next {
    needle: &'static str,
    asked: usize,
    found: Option<usize>,
}

/// One way of writing raw values.
struct Tag {
    opening: &'static str,
    closing: &'static str,
    /// What cannot stand in a value: after these, a closing tag is another value's.
    foreign: [&'static str; 2],
}

impl RawValues {
    /// Where the value whose tag is at `at` is closed, if by its own tag: the positions before and
    /// behind the closing tag.
    pub(super) fn closing(&mut self, text: &str, at: usize) -> Option<Range<usize>> {
        let rest = text.as_bytes().get(at..)?;
        let tag = TAGS.iter().find(|tag| rest.starts_with(tag.opening.as_bytes()))?;
        let inside = at + tag.opening.len();
        let closing = self.next(text, inside, tag.closing)?;
        let is_own = tag.foreign.iter().all(|foreign| self.next(text, inside, foreign).is_none_or(|other| closing < other));
        is_own.then(|| closing..closing + tag.closing.len())
    }

    fn next(&mut self, text: &str, at: usize, needle: &'static str) -> Option<usize> {
        let index = self.nexts.iter().position(|next| next.needle == needle);
        let index = index.unwrap_or_else(|| {
            self.nexts.push(Next { needle, asked: usize::MAX, found: None });
            self.nexts.len() - 1
        });
        self.nexts.get_mut(index)?.from(text, at)
    }
}

impl Next {
    fn from(&mut self, text: &str, at: usize) -> Option<usize> {
        let is_current = self.asked <= at && self.found.is_none_or(|found| at <= found);
        if !is_current {
            let rest = text.get(at..).unwrap_or_default();
            (self.asked, self.found) = (at, rest.find(self.needle).map(|offset| at + offset));
        }
        self.found
    }
}

const TAGS: [Tag; 6] = [
    Tag { opening: "<parameter=", closing: "</parameter>", foreign: ["<parameter=", "<function="] },
    Tag { opening: "<arg_value>", closing: "</arg_value>", foreign: ["<arg_value>", "<arg_key>"] },
    Tag { opening: "<parameter name=", closing: "</parameter>", foreign: ["<parameter name=", "<invoke name="] },
    Tag { opening: "<antml:parameter name=", closing: "</antml:parameter>", foreign: ["<antml:parameter name=", "<antml:invoke name="] },
    Tag {
        opening: "<steptml:parameter name=",
        closing: "</steptml:parameter>",
        foreign: ["<steptml:parameter name=", "<steptml:invoke name="],
    },
    Tag {
        opening: "<｜DSML｜parameter name=",
        closing: "</｜DSML｜parameter>",
        foreign: ["<｜DSML｜parameter name=", "<｜DSML｜invoke name="],
    },
];
