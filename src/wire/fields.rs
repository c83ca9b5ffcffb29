//! A JSON object cut into raw pieces: order, big numbers and the client's spelling survive, and no value is copied.

use std::fmt;

use bytes::Bytes;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The fields of the object in `body`, in order, each value a slice of `body`. A repeated name appears as often as it was
/// written. Fails when `body` is not one JSON object.
pub fn object(body: &Bytes) -> serde_json::Result<Vec<(String, Bytes)>> {
    let mut reader = serde_json::Deserializer::from_slice(body);
    let fields = (&mut reader).deserialize_map(Fields(body))?;
    reader.end()?;
    Ok(fields)
}

/// `raw` as a slice of `whole`, which it was read from.
pub fn slice(whole: &Bytes, raw: &RawValue) -> Bytes {
    whole.slice_ref(raw.get().as_bytes())
}

struct Fields<'a>(&'a Bytes);

impl<'de> Visitor<'de> for Fields<'de> {
    type Value = Vec<(String, Bytes)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = Vec::with_capacity(12);
        while let Some((name, raw)) = map.next_entry::<String, &'de RawValue>()? {
            fields.push((name, slice(self.0, raw)));
        }
        Ok(fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_order_spelling_and_big_numbers() {
        let body = Bytes::from_static(br#" {"b": 1e2 , "a":[ 18446744073709551616 ],"b":"\u00e9"} "#);
        let fields = object(&body).unwrap();
        let spelled: Vec<_> = fields.iter().map(|(k, v)| (k.as_str(), std::str::from_utf8(v).unwrap())).collect();
        assert_eq!(spelled, [("b", "1e2"), ("a", "[ 18446744073709551616 ]"), ("b", r#""\u00e9""#)]);
    }

    #[test]
    fn refuses_what_is_no_object() {
        for bad in ["[]", "3", "", "{", r#"{"a":1} x"#, "{\"a\":\"\u{1}\"}"] {
            assert!(object(&Bytes::copy_from_slice(bad.as_bytes())).is_err(), "{bad}");
        }
    }
}
