//! How many tokens a request has, for a backend that cannot say.

use bytes::Bytes;
use serde_json::{Value, json};

use super::decode;
use crate::chat::Problem;

/// A token is about four bytes of English text or code in the vocabularies of today.
const TOKEN_BYTES: u64 = 4;

/// What an image costs at most, by Anthropic's own rule.
const IMAGE_TOKENS: u64 = 1_600;

/// About how many tokens the prompt of a request has: the bytes of all its words over four, and a fixed number for each image. Fails as
/// reading the request does.
pub fn estimate(body: &Bytes) -> Result<u64, Problem> {
    let request = decode::request(body)?.request;
    let parts = [&request.messages, &request.tools_json];
    let weights = parts.into_iter().filter_map(|json| serde_json::from_slice(json).ok()).map(|json| weight(&json));
    let weight = weights.fold(Weight::default(), Weight::with);
    Ok((weight.bytes.div_ceil(TOKEN_BYTES) + weight.images * IMAGE_TOKENS).max(1))
}

/// The JSON of a count.
pub fn count(tokens: u64) -> Bytes {
    json!({"input_tokens": tokens}).to_string().into()
}

#[derive(Default)]
struct Weight {
    bytes: u64,
    images: u64,
}

impl Weight {
    fn with(self, other: Self) -> Self {
        Self { bytes: self.bytes + other.bytes, images: self.images + other.images }
    }
}

fn weight(json: &Value) -> Weight {
    let bytes = |length: usize| Weight { bytes: u64::try_from(length).unwrap_or(u64::MAX), images: 0 };
    match json {
        Value::String(text) if text.starts_with("data:") && text.contains(";base64,") => Weight { bytes: 0, images: 1 },
        Value::String(text) => bytes(text.len()),
        Value::Array(elements) => elements.iter().map(weight).fold(Weight::default(), Weight::with),
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| weight(value).with(bytes(name.len()))).fold(Weight::default(), Weight::with)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => bytes(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(body: &Value) -> u64 {
        estimate(&Bytes::from(body.to_string())).unwrap()
    }

    #[test]
    fn words_and_images_count() {
        let words = |words: &str| tokens(&json!({"messages": [{"role": "user", "content": words}]}));
        let (short, long) = (words("hello"), words(&"hello ".repeat(1000)));
        assert!((1..20).contains(&short) && (1_450..1_600).contains(&long), "{short} {long}");
        let source = json!({"type": "base64", "media_type": "image/png", "data": "A".repeat(400_000)});
        let image = tokens(&json!({"messages": [{"role": "user", "content": [{"type": "image", "source": source}]}]}));
        assert!((IMAGE_TOKENS..IMAGE_TOKENS + 40).contains(&image), "{image}");
        assert!(estimate(&Bytes::from_static(b"{}")).is_err());
    }
}
