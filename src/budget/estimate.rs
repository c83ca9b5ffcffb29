//! How many tokens a prompt may have, before anybody has counted them.

use memchr::memmem;

/// Fewer bytes than most texts have to a token: English has about four, code and other scripts about three.
const BYTES_PER_TOKEN: u64 = 3;
/// What most texts have. Of what was heard the likely is charged, not the most.
const HEARD_BYTES_PER_TOKEN: u64 = 4;
/// What an image or a sound comes to: the most that the large services count for one image of ordinary size.
pub const MEDIA_TOKENS: u64 = 2_000;
/// What stands before the data of one.
const MEDIA: &[u8] = b";base64,";

/// How many tokens the JSON `parts` of a request come to at most, as far as can be told from their length.
pub fn prompt_tokens(parts: &[&[u8]]) -> u64 {
    parts.iter().map(|part| tokens(part)).fold(0, u64::saturating_add)
}

/// How many tokens so many `bytes` of text come to at most, as far as can be told.
pub fn text_tokens(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX).div_ceil(BYTES_PER_TOKEN)
}

/// How many tokens a reply had of which so many `pieces` came: most servers send each token as it comes, others several in one.
pub fn heard_tokens(pieces: u64, bytes: u64) -> u64 {
    pieces.max(bytes / HEARD_BYTES_PER_TOKEN)
}

fn tokens(json: &[u8]) -> u64 {
    let (mut media, mut data) = (0, 0);
    let mut from = 0;
    while let Some(at) = json.get(from..).and_then(|rest| memmem::find(rest, MEDIA)) {
        let begin = from + at + MEDIA.len();
        let length = json.get(begin..).and_then(|rest| memchr::memchr(b'"', rest)).unwrap_or_default();
        (media, data, from) = (media + 1, data + length, begin + length);
    }
    text_tokens(json.len().saturating_sub(data)).saturating_add(media * MEDIA_TOKENS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_not_text() {
        assert_eq!(prompt_tokens(&[b"", b"[]", b"abcd"]), 1 + 2);
        let image = format!(r#"{{"url":"data:image/png;base64,{}"}}"#, "A".repeat(1 << 20));
        let tokens = prompt_tokens(&[image.as_bytes()]);
        assert!((MEDIA_TOKENS..MEDIA_TOKENS + 20).contains(&tokens), "{tokens}");
        assert_eq!(prompt_tokens(&[b";base64,"]), MEDIA_TOKENS + 3);
    }
}
