//! Which backends answer for which name: pure look-up over what the configuration says.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;

/// A model that clients ask for by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Model {
    /// Its name.
    pub name: String,
    /// Other names of it.
    pub aliases: Vec<String>,
    /// Who has it: the first is asked first, unless weights say otherwise.
    pub candidates: Vec<Candidate>,
    /// The models, by name, that answer when no candidate can.
    pub fallbacks: Vec<String>,
    /// Fields that a request gets where it does not set them.
    pub sampling: Vec<(String, Bytes)>,
}

/// A backend that has a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Its place among the backends.
    pub backend: usize,
    /// What the model is called there.
    pub model: String,
    /// Its share of the conversations, beside those of the others. With 0 it only stands in.
    pub weight: u32,
}

/// One candidate of a route, with what a request to it gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stop {
    pub(super) candidate: Candidate,
    pub(super) sampling: Vec<(String, Bytes)>,
}

/// The names and what is behind them.
#[derive(Debug, Default)]
pub(super) struct Table {
    by_name: HashMap<String, usize>,
    models: Vec<Model>,
}

impl Table {
    pub(super) fn new(models: Vec<Model>) -> Self {
        let mut by_name = HashMap::new();
        for (index, model) in models.iter().enumerate() {
            for name in names(model) {
                by_name.entry(name.to_owned()).or_insert(index);
            }
        }
        Self { by_name, models }
    }

    /// The models in the order of the configuration.
    pub(super) fn models(&self) -> &[Model] {
        &self.models
    }

    /// Who is asked for `name`, in order: the model's candidates, then those of its fallbacks. Which of the candidates with a share comes
    /// first is the same for a `conversation` each time, so that its prompt cache holds. `None` when there is no such model.
    pub(super) fn route(&self, name: &str, conversation: impl FnOnce() -> u64) -> Option<Vec<Stop>> {
        let index = *self.by_name.get(name)?;
        let mut stops = Vec::new();
        let mut seen = HashSet::new();
        self.collect(index, &mut seen, &mut stops);
        let own = self.models.get(index).map_or(0, |model| model.candidates.len());
        if let Some(own) = stops.get_mut(..own).filter(|own| own.len() > 1) {
            draw(own, conversation);
        }
        Some(stops)
    }

    fn collect(&self, index: usize, seen: &mut HashSet<usize>, stops: &mut Vec<Stop>) {
        let Some(model) = self.models.get(index).filter(|_| seen.insert(index)) else { return };
        let stop = |candidate: &Candidate| Stop { candidate: candidate.clone(), sampling: model.sampling.clone() };
        stops.extend(model.candidates.iter().map(stop));
        for name in &model.fallbacks {
            if let Some(index) = self.by_name.get(name) {
                self.collect(*index, seen, stops);
            }
        }
    }
}

/// Moves the candidate whose share `conversation` falls into to the front. Equal weights are an order and no shares.
fn draw(stops: &mut [Stop], conversation: impl FnOnce() -> u64) {
    let weights: Vec<u64> = stops.iter().map(|stop| u64::from(stop.candidate.weight)).collect();
    let total: u64 = weights.iter().sum();
    if total == 0 || weights.windows(2).all(|pair| pair.first() == pair.last()) {
        return;
    }
    let mut ticket = conversation() % total;
    for (place, weight) in weights.into_iter().enumerate() {
        if ticket < weight {
            if let Some(until) = stops.get_mut(..=place) {
                until.rotate_right(1);
            }
            return;
        }
        ticket -= weight;
    }
}

fn names(model: &Model) -> impl Iterator<Item = &str> {
    [model.name.as_str()].into_iter().chain(model.aliases.iter().map(String::as_str))
}

/// What is wrong with `models`, one sentence each: a name twice, a fallback that is none or leads back.
pub(super) fn faults(models: &[Model]) -> Vec<String> {
    let mut faults = Vec::new();
    let mut owners: HashMap<&str, &str> = HashMap::new();
    for model in models {
        for name in names(model) {
            if let Some(owner) = owners.insert(name, &model.name) {
                faults.push(format!("`{name}` names both `{owner}` and `{}`", model.name));
            }
        }
    }
    for model in models {
        for name in model.fallbacks.iter().filter(|name| !owners.contains_key(name.as_str())) {
            faults.push(format!("the fallback `{name}` of `{}` is no model", model.name));
        }
    }
    faults.extend(loops(models));
    faults
}

/// The fallbacks that lead back to where they start, each loop told once.
fn loops(models: &[Model]) -> Vec<String> {
    let table = Table::new(models.to_vec());
    let mut told = HashSet::new();
    let mut faults = Vec::new();
    for start in 0..models.len() {
        let mut path = vec![start];
        if table.leads_back(start, &mut path, &mut HashSet::from([start])) {
            let mut members = path.clone();
            members.sort_unstable();
            if told.insert(members) {
                let names: Vec<&str> = path.iter().filter_map(|index| models.get(*index)).map(|model| model.name.as_str()).collect();
                faults.push(format!("the fallbacks {} → {} are a loop", names.join(" → "), names.first().unwrap_or(&"")));
            }
        }
    }
    faults
}

impl Table {
    /// Whether the fallbacks behind the last of `path` lead back to `start`; `path` is then the way.
    fn leads_back(&self, start: usize, path: &mut Vec<usize>, seen: &mut HashSet<usize>) -> bool {
        let last = path.last().and_then(|index| self.models.get(*index));
        for next in last.into_iter().flat_map(|model| &model.fallbacks).filter_map(|name| self.by_name.get(name)) {
            if *next == start {
                return true;
            }
            if seen.insert(*next) {
                path.push(*next);
                if self.leads_back(start, path, seen) {
                    return true;
                }
                path.pop();
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(name: &str, backends: &[(usize, u32)], fallbacks: &[&str]) -> Model {
        let candidate = |(backend, weight): &(usize, u32)| Candidate { backend: *backend, model: name.to_owned(), weight: *weight };
        Model {
            name: name.to_owned(),
            aliases: vec![format!("{name}-alias")],
            candidates: backends.iter().map(candidate).collect(),
            fallbacks: fallbacks.iter().map(|name| (*name).to_owned()).collect(),
            sampling: Vec::new(),
        }
    }

    fn route(table: &Table, name: &str, conversation: u64) -> Vec<usize> {
        table.route(name, || conversation).unwrap().iter().map(|stop| stop.candidate.backend).collect()
    }

    #[test]
    fn candidates_come_in_order_and_fallbacks_behind_them() {
        let table = Table::new(vec![model("a", &[(0, 1), (1, 1)], &["b", "c"]), model("b", &[(2, 1)], &["c"]), model("c", &[(3, 1)], &[])]);
        assert_eq!(route(&table, "a", 7), [0, 1, 2, 3]);
        assert_eq!(route(&table, "b-alias", 7), [2, 3]);
        assert!(table.route("d", || 0).is_none());
    }

    #[test]
    fn weights_are_shares_of_the_conversations() {
        let table = Table::new(vec![model("a", &[(0, 3), (1, 1), (2, 0)], &["b"]), model("b", &[(9, 5)], &[])]);
        let firsts: Vec<usize> = (0..8).map(|conversation| route(&table, "a", conversation)[0]).collect();
        assert_eq!(firsts, [0, 0, 0, 1, 0, 0, 0, 1]);
        assert_eq!(route(&table, "a", 3), [1, 0, 2, 9]);
    }

    #[test]
    fn faults_are_told() {
        let check = |models: &[Model], expected: &[&str]| assert_eq!(faults(models), expected);
        check(&[model("a", &[(0, 1)], &["b"]), model("b", &[(0, 1)], &[])], &[]);
        check(&[model("a", &[(0, 1)], &["x"])], &["the fallback `x` of `a` is no model"]);
        let twice = Model { aliases: vec!["a".to_owned()], ..model("b", &[(0, 1)], &[]) };
        check(&[model("a", &[(0, 1)], &[]), twice], &["`a` names both `a` and `b`"]);
        let around = [model("a", &[(0, 1)], &["b"]), model("b", &[(0, 1)], &["c-alias"]), model("c", &[(0, 1)], &["a"])];
        check(&around, &["the fallbacks a → b → c → a are a loop"]);
        check(&[model("a", &[(0, 1)], &["a"])], &["the fallbacks a → a are a loop"]);
    }

    #[test]
    fn a_loop_does_not_hang_the_look_up() {
        let table = Table::new(vec![model("a", &[(0, 1)], &["b"]), model("b", &[(1, 1)], &["a"])]);
        assert_eq!(route(&table, "a", 0), [0, 1]);
    }
}
