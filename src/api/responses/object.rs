//! JSON put together from pieces that are JSON already, so that what the client wrote stays as it wrote it.

/// A JSON object under construction.
#[derive(Debug, Default)]
pub(super) struct Object(String);

impl Object {
    /// The object with one more field; `value` is JSON, `name` needs no escape.
    #[must_use]
    pub(super) fn with(mut self, name: &str, value: &str) -> Self {
        self.0.push(if self.0.is_empty() { '{' } else { ',' });
        self.0.push('"');
        self.0.push_str(name);
        self.0.push_str("\":");
        self.0.push_str(value);
        self
    }

    /// The same for a field that may be absent.
    #[must_use]
    pub(super) fn with_some(self, name: &str, value: Option<&str>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    /// The same for a text that is no JSON yet.
    #[must_use]
    pub(super) fn with_text(self, name: &str, text: &str) -> Self {
        self.with(name, &string(text))
    }

    /// The object with the fields of another, of which `inside` is all between its braces.
    #[must_use]
    pub(super) fn with_inside(mut self, inside: &str) -> Self {
        if !inside.is_empty() {
            self.0.push(if self.0.is_empty() { '{' } else { ',' });
            self.0.push_str(inside);
        }
        self
    }

    /// The JSON of the whole.
    pub(super) fn json(mut self) -> String {
        self.0.push_str(if self.0.is_empty() { "{}" } else { "}" });
        self.0
    }
}

/// `text` as a JSON string.
pub(super) fn string(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// A JSON array of `elements`, which are JSON.
pub(super) fn array<T: AsRef<str>>(elements: impl IntoIterator<Item = T>) -> String {
    let mut list = String::from("[");
    for element in elements {
        if list.len() > 1 {
            list.push(',');
        }
        list.push_str(element.as_ref());
    }
    list.push(']');
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_become_json() {
        assert_eq!(Object::default().json(), "{}");
        let object = Object::default().with("a", "[ 1 ]").with_some("b", None).with_text("c", "\"x\"\n");
        assert_eq!(object.json(), r#"{"a":[ 1 ],"c":"\"x\"\n"}"#);
        assert_eq!(Object::default().with_inside("\"a\":1").with_inside("").with_inside("\"b\":2").json(), r#"{"a":1,"b":2}"#);
        assert_eq!(array(["1", "{}"]), "[1,{}]");
        assert_eq!(array(Vec::<String>::new()), "[]");
    }
}
