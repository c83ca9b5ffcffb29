//! From the lists of the servers to the tools of a snapshot: who decides about each, and whether it is what it was.
//!
//! A list is looked at once: what was made of it stands until the server gives another, or pins were accepted.

use std::sync::Arc;

use super::{Listed, pins::Pins};
use crate::tools::{
    config::{Changed, Policy},
    definition::Definition,
};

/// The lists of the servers, as last looked at.
#[derive(Debug)]
pub struct Lists {
    changed: Changed,
    known: Vec<Known>,
}

/// What was made of one server's list.
#[derive(Debug)]
struct Known {
    tools: Arc<[Definition]>,
    listed: Vec<Listed>,
}

impl Lists {
    /// No lists yet; a tool that changed is treated as `changed` says.
    pub fn new(changed: Changed) -> Self {
        Self { changed, known: Vec::new() }
    }

    /// Takes `lists`, one a server in the order of the servers. Returns their tools, or `None` when they are what they were.
    pub fn take(
        &mut self,
        lists: impl Iterator<Item = Arc<[Definition]>>,
        pins: &Pins,
        policy: impl Fn(&Definition) -> Policy,
    ) -> Option<Vec<Listed>> {
        let mut is_new = false;
        for (at, tools) in lists.enumerate() {
            if self.known.get(at).is_some_and(|known| Arc::ptr_eq(&known.tools, &tools)) {
                continue;
            }
            is_new = true;
            let listed = tools.iter().map(|tool| self.look_at(tool, pins, policy(tool))).collect();
            let known = Known { tools, listed };
            match self.known.get_mut(at) {
                Some(place) => *place = known,
                None => self.known.push(known),
            }
        }
        is_new.then(|| self.known.iter().flat_map(|known| known.listed.iter().cloned()).collect())
    }

    /// Looks at everything anew next time.
    pub fn forget(&mut self) {
        self.known.clear();
    }

    fn look_at(&self, tool: &Definition, pins: &Pins, policy: Policy) -> Listed {
        let listed = Listed::from((Arc::new(tool.clone()), policy));
        let changed = pins.check(&tool.server, &tool.name, &listed.hash);
        Listed { changed, withheld: changed && self.changed == Changed::Withhold, ..listed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::definition::Annotations;

    fn list(description: &str) -> Arc<[Definition]> {
        let definition = Definition {
            server: "files".into(),
            name: "read".to_owned(),
            description: description.to_owned(),
            schema: "{}".into(),
            annotations: Annotations::default(),
        };
        vec![definition].into()
    }

    #[test]
    fn a_list_is_looked_at_once() {
        let pins = Pins::load(None);
        let mut lists = Lists::new(Changed::Report);
        let list = list("Reads.");
        let take = |lists: &mut Lists| lists.take([Arc::clone(&list)].into_iter(), &pins, |_| Policy::Allow).map(|tools| tools.len());
        assert_eq!((take(&mut lists), take(&mut lists)), (Some(1), None));
        lists.forget();
        assert_eq!(take(&mut lists), Some(1));
    }

    #[test]
    fn a_tool_that_changed_is_reported_and_withheld_by_policy() {
        let check = |policy: Changed, withheld: bool| {
            let pins = Pins::load(None);
            let mut lists = Lists::new(policy);
            let mut take = |description: &str| {
                let tools = lists.take([list(description)].into_iter(), &pins, |_| Policy::Allow).unwrap();
                (tools[0].changed, tools[0].withheld)
            };
            assert_eq!(take("Reads."), (false, false));
            assert_eq!(take("Reads, and tells others."), (true, withheld));
            assert_eq!(take("Reads."), (false, false), "as it was");
        };
        check(Changed::Report, false);
        check(Changed::Withhold, true);
    }
}
