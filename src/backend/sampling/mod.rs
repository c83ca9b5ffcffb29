//! How a request is sampled that does not say so itself: by its route, or by what the model's maker recommends.
//!
//! The recommendations are in `recommended.toml`, each with its source. They are for the models that their makers published; one that others
//! made of them under a name that still bears the family's is taken for one of the family.

mod name;

#[cfg(test)]
mod tests;

use std::sync::LazyLock;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::Number;

use self::name::{Pattern, Word};
use crate::chat::Request;

/// Fields of a request in the words of OpenAI and llama-server, with their values as JSON.
pub type Sampling = Vec<(String, Bytes)>;

/// What the maker of a family of models recommends.
#[derive(Debug)]
pub struct Recommendation {
    /// The family.
    pub family: String,
    /// What is recommended.
    pub sampling: Sampling,
    /// Where that was published.
    pub source: String,
    patterns: Vec<Pattern>,
    /// Words that are in no name of the family.
    except: Vec<Word>,
}

/// What is recommended for `model`, whose name may be a server's, a repository's or a file's.
pub fn recommended(model: &str) -> Option<&'static Recommendation> {
    best(&TABLE, model)
}

/// `request` with those of `defaults` that it does not set, null being as good as absent; of two for one field the first counts. `None`
/// when nothing is missing.
pub fn filled<'d>(request: &Request, defaults: impl IntoIterator<Item = &'d (String, Bytes)>) -> Option<Request> {
    let mut fields = None;
    for (name, value) in defaults {
        let known = fields.as_ref().unwrap_or(&request.fields);
        if is_set(known, name) {
            continue;
        }
        let fields = fields.get_or_insert_with(|| request.fields.clone());
        fields.retain(|(known, _)| known != name);
        fields.push((name.clone(), value.clone()));
    }
    fields.map(|fields| Request { fields, ..request.clone() })
}

/// Whether `fields` set what `name` sets, under any of its names.
fn is_set(fields: &[(String, Bytes)], name: &str) -> bool {
    let is_it = |known: &str| known == name || (REPEAT_PENALTY.contains(&known) && REPEAT_PENALTY.contains(&name));
    fields.iter().any(|(known, value)| is_it(known) && value.as_ref() != b"null")
}

/// The names of one penalty: llama-server's and Ollama's, and vLLM's.
const REPEAT_PENALTY: [&str; 2] = ["repeat_penalty", "repetition_penalty"];

// It is part of the program: the tests read it.
static TABLE: LazyLock<Vec<Recommendation>> = LazyLock::new(|| read(include_str!("recommended.toml")).unwrap_or_default());

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    except: Vec<String>,
    model: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    family: String,
    patterns: Vec<String>,
    #[serde(default)]
    except: Vec<String>,
    source: String,
    temperature: Option<f64>,
    top_p: Option<f64>,
    top_k: Option<u32>,
    min_p: Option<f64>,
    presence_penalty: Option<f64>,
    repeat_penalty: Option<f64>,
}

fn read(text: &str) -> Result<Vec<Recommendation>, toml::de::Error> {
    let file: File = toml::from_str(text)?;
    let except = |entry: &Entry| file.except.iter().chain(&entry.except).map(|word| Word::of(word)).collect();
    let patterns = |entry: &Entry| entry.patterns.iter().map(|pattern| Pattern::of(pattern)).collect();
    let model = |entry: Entry| Recommendation {
        sampling: entry.sampling(),
        patterns: patterns(&entry),
        except: except(&entry),
        family: entry.family,
        source: entry.source,
    };
    Ok(file.model.into_iter().map(model).collect())
}

impl Entry {
    fn sampling(&self) -> Sampling {
        let decimal = |value: Option<f64>| value.and_then(Number::from_f64);
        let fields = [
            ("temperature", decimal(self.temperature)),
            ("top_p", decimal(self.top_p)),
            ("top_k", self.top_k.map(Number::from)),
            ("min_p", decimal(self.min_p)),
            ("presence_penalty", decimal(self.presence_penalty)),
            ("repeat_penalty", decimal(self.repeat_penalty)),
        ];
        fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?.to_string().into()))).collect()
    }
}

/// The entry whose pattern fits best.
fn best<'t>(table: &'t [Recommendation], model: &str) -> Option<&'t Recommendation> {
    let name = name::parts(model.trim_end_matches('/').rsplit(['/', '\\']).next().unwrap_or(model));
    let fits = |entry: &&Recommendation| !entry.except.iter().any(|word| word.end_in(&name).is_some());
    let length = |entry: &Recommendation| entry.patterns.iter().filter(|pattern| pattern.fits(&name)).map(Pattern::length).max();
    table.iter().filter(fits).filter_map(|entry| Some((length(entry)?, entry))).max_by_key(|(length, _)| *length).map(|(_, entry)| entry)
}
