//! Content blocks as parts of an OpenAI message: texts, images and files. What has no such form becomes text.

use std::{borrow::Cow, fmt};

use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};

use super::{
    decode::{missing, wrong},
    messages::Seen,
};
use crate::chat::{Problem, reply::PARAGRAPH};

/// A content block as far as it is looked at.
#[derive(Debug, Deserialize)]
pub(super) struct Block<'a> {
    #[serde(borrow, rename = "type", default)]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    text: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) thinking: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) name: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) input: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) tool_use_id: Option<Cow<'a, str>>,
    #[serde(default)]
    pub(super) is_error: Option<bool>,
    #[serde(borrow, default)]
    pub(super) content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    source: Option<&'a RawValue>,
    #[serde(borrow, default)]
    title: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    context: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    tool_name: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    tool: Option<&'a RawValue>,
    /// The whole block.
    #[serde(skip)]
    raw: &'a str,
}

/// The content of an OpenAI message.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Content<'a> {
    /// A string as the client wrote it.
    Raw(&'a RawValue),
    /// A text.
    Text(String),
    /// Texts and other things.
    Parts(Vec<Part>),
}

/// One part of a content.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Part {
    Text { text: String },
    ImageUrl { image_url: Image },
    File { file: File },
}

#[derive(Debug, Serialize)]
pub(super) struct Image {
    url: String,
}

#[derive(Debug, Serialize)]
pub(super) struct File {
    filename: String,
    file_data: String,
}

impl Part {
    pub(super) fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }

    pub(super) fn is_text(&self) -> bool {
        matches!(self, Self::Text { .. })
    }
}

/// Parts as one content: text where all of them are.
pub(super) fn content(parts: Vec<Part>) -> Content<'static> {
    if !parts.iter().all(Part::is_text) {
        return Content::Parts(parts);
    }
    let text = |part| match part {
        Part::Text { text } => text,
        Part::ImageUrl { .. } | Part::File { .. } => String::new(),
    };
    let mut texts: Vec<String> = parts.into_iter().map(text).collect();
    // The rule is one text, which is not copied.
    Content::Text(if texts.len() == 1 { texts.pop().unwrap_or_default() } else { texts.join(PARAGRAPH) })
}

/// Where a block stands.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    /// Its message; the system prompt without one.
    message: Option<usize>,
    /// The block in it.
    block: Option<usize>,
    /// The block in that one.
    inner: Option<usize>,
    /// In how many blocks it stands.
    depth: usize,
}

const DEPTH_MAX: usize = 3;

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.message {
            None => write!(f, "system")?,
            Some(message) => write!(f, "messages.{message}.content")?,
        }
        if let Some(block) = self.block {
            write!(f, ".{block}")?;
        }
        if let Some(inner) = self.inner {
            write!(f, ".content.{inner}")?;
        }
        Ok(())
    }
}

impl Place {
    /// The system prompt.
    pub(super) const SYSTEM: Self = Self { message: None, block: None, inner: None, depth: 0 };

    /// The content of the message at `index`.
    pub(super) fn message(index: usize) -> Self {
        Self { message: Some(index), ..Self::SYSTEM }
    }

    fn at(self, index: usize) -> Self {
        let depth = self.depth + 1;
        match self.block {
            None => Self { block: Some(index), depth, ..self },
            Some(_) => Self { inner: Some(index), depth, ..self },
        }
    }

    /// A field of the block.
    pub(super) fn field(self, name: &str) -> String {
        format!("{self}.{name}")
    }
}

/// The blocks in `list`, each with its place.
pub(super) fn blocks<'a>(list: &'a str, place: Place) -> Result<Vec<(Block<'a>, Place)>, Problem> {
    let list: Vec<&'a RawValue> =
        serde_json::from_str(list).map_err(|_| wrong(&place.to_string(), "a string or a list of content blocks"))?;
    let block = |(index, raw): (usize, &'a RawValue)| {
        let place = place.at(index);
        let block = serde_json::from_str(raw.get()).map_err(|_| wrong(&place.to_string(), "a content block"))?;
        let block = Block { raw: raw.get(), ..block };
        if block.kind.is_empty() { Err(missing(&place.field("type"))) } else { Ok((block, place)) }
    };
    list.into_iter().enumerate().map(block).collect()
}

impl Block<'_> {
    /// Its type.
    pub(super) fn kind(&self) -> &str {
        &self.kind
    }

    /// It as a part of a message. A type that nobody knows is shown as it is written, without what only Anthropic can read.
    pub(super) fn part(&self, place: Place, seen: &mut Seen) -> Result<Part, Problem> {
        match self.kind() {
            "text" => self.text.as_deref().map(Part::text).ok_or_else(|| missing(&place.field("text"))),
            "image" => self.image(place),
            "document" => self.document(place, seen),
            "search_result" => self.search_result(place, seen),
            "tool_reference" => Ok(self.mention(self.tool_name.as_deref(), true, seen)),
            "tool_addition" => Ok(self.mention(self.referenced().as_deref(), true, seen)),
            "tool_removal" => Ok(self.mention(self.referenced().as_deref(), false, seen)),
            "mid_conv_system" => Ok(Part::text(reminder(&self.inner_text(place, seen)?))),
            _ => {
                let mut block: Value = serde_json::from_str(self.raw).unwrap_or_default();
                conceal(&mut block);
                Ok(Part::text(block.to_string()))
            }
        }
    }

    /// From here on the model is offered a tool, or no longer.
    fn mention(&self, name: Option<&str>, offered: bool, seen: &mut Seen) -> Part {
        let name = name.unwrap_or_default();
        seen.tools.push((name.to_owned(), offered));
        Part::text(format!("The tool `{name}` {}.", if offered { "can be called now" } else { "can no longer be called" }))
    }

    /// The name of the tool that is added or removed.
    fn referenced(&self) -> Option<String> {
        #[derive(Deserialize)]
        struct Reference {
            name: String,
        }
        serde_json::from_str::<Reference>(self.tool?.get()).ok().map(|reference| reference.name)
    }

    fn image(&self, place: Place) -> Result<Part, Problem> {
        let url = match self.source(place)? {
            Source { kind, media_type: Some(media), data: Some(data), .. } if kind == "base64" => format!("data:{media};base64,{data}"),
            Source { kind, url: Some(url), .. } if kind == "url" => url.into_owned(),
            _ => return Err(wrong(&place.field("source"), "an image in base64 or at a URL")),
        };
        Ok(Part::ImageUrl { image_url: Image { url } })
    }

    fn document(&self, place: Place, seen: &mut Seen) -> Result<Part, Problem> {
        let text = match self.source(place)? {
            Source { kind, data: Some(data), .. } if kind == "text" => data.into_owned(),
            Source { kind, url: Some(url), .. } if kind == "url" => url.into_owned(),
            Source { kind, content: Some(content), .. } if kind == "content" => text_of(content, place, seen)?,
            Source { kind, media_type: Some(media), data: Some(data), .. } if kind == "base64" => {
                let filename = self.title.as_deref().unwrap_or("document").to_owned();
                return Ok(Part::File { file: File { filename, file_data: format!("data:{media};base64,{data}") } });
            }
            _ => return Err(wrong(&place.field("source"), "a text, a list of blocks, a URL or a file in base64")),
        };
        let lines = [self.title.as_deref(), self.context.as_deref(), Some(text.as_str())];
        Ok(Part::text(lines.into_iter().flatten().collect::<Vec<_>>().join("\n")))
    }

    fn search_result(&self, place: Place, seen: &mut Seen) -> Result<Part, Problem> {
        let source: Option<Cow<'_, str>> = self.source.and_then(|source| serde_json::from_str(source.get()).ok());
        let text = self.inner_text(place, seen)?;
        let lines = [self.title.as_deref(), source.as_deref(), Some(text.as_str())];
        Ok(Part::text(lines.into_iter().flatten().collect::<Vec<_>>().join("\n")))
    }

    fn inner_text(&self, place: Place, seen: &mut Seen) -> Result<String, Problem> {
        self.content.map_or(Ok(String::new()), |content| text_of(content, place, seen))
    }

    fn source(&self, place: Place) -> Result<Source<'_>, Problem> {
        let source = self.source.ok_or_else(|| missing(&place.field("source")))?;
        serde_json::from_str(source.get()).map_err(|_| wrong(&place.field("source"), "an object with a `type`"))
    }
}

#[derive(Deserialize)]
struct Source<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    media_type: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    data: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    url: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
}

/// The texts in a string or in a list of blocks.
fn text_of(content: &RawValue, place: Place, seen: &mut Seen) -> Result<String, Problem> {
    if content.get().starts_with('"') {
        return serde_json::from_str(content.get()).map_err(|_| wrong(&place.field("content"), "a string"));
    }
    let mut texts = Vec::new();
    for (block, place) in blocks(content.get(), place)? {
        // A block in a block in a block is none that the API has.
        if place.depth > DEPTH_MAX {
            return Err(wrong(&place.to_string(), "a block of text"));
        }
        if let Part::Text { text } = block.part(place, seen)? {
            texts.push(text);
        }
    }
    Ok(texts.join("\n"))
}

/// What the system says in mid-conversation, in the user's role: many chat templates refuse its own there.
pub(super) fn reminder(text: &str) -> String {
    format!("<system-reminder>\n{text}\n</system-reminder>")
}

/// Takes out what only Anthropic's servers can read.
fn conceal(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, _| !name.starts_with("encrypted_") && name != "cache_control");
            fields.values_mut().for_each(conceal);
        }
        Value::Array(elements) => elements.iter_mut().for_each(conceal),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
