//! What stands behind the `?` of a path.

/// Names and values, decoded.
#[derive(Debug, Default)]
pub(super) struct Pairs(Vec<(String, String)>);

/// Those of `query`, in its order.
pub(super) fn pairs(query: Option<&str>) -> Pairs {
    Pairs(form_urlencoded::parse(query.unwrap_or_default().as_bytes()).into_owned().collect())
}

impl Pairs {
    /// The first value called `name`.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_decoded() {
        let query = pairs(Some("scope=tenant%3Aacme/app:chat&scope=b&all&session=a+b%20c"));
        assert_eq!((query.get("scope"), query.get("all"), query.get("session")), (Some("tenant:acme/app:chat"), Some(""), Some("a b c")));
        assert_eq!(pairs(None).get("scope"), None);
    }
}
