//! The store as one account sees it: what another keeps there is out of its reach, whatever names the two give it.

use std::{borrow::Cow, sync::Arc, time::Duration};

use bytes::Bytes;

use crate::{budget::Account, store::Store};

/// An account's own part of a store. Cloning it shares the store.
#[derive(Debug, Clone)]
pub(super) struct Shelf {
    store: Arc<Store>,
    /// What its keys begin with; those of who needed no key are as they are.
    prefix: Option<Arc<str>>,
}

impl Shelf {
    /// That of `account` in `store`.
    pub(super) fn new(store: &Arc<Store>, account: &Account) -> Self {
        let prefix = account.owner().map(|owner| format!("of:{owner}:").into());
        Self { store: Arc::clone(store), prefix }
    }

    /// As [`Store::get`].
    pub(super) async fn get(&self, key: &str) -> Option<Bytes> {
        self.store.get(&self.own(key)).await
    }

    /// As [`Store::put`].
    pub(super) async fn put(&self, key: &str, value: Bytes, ttl: Duration) {
        self.store.put(&self.own(key), value, ttl).await;
    }

    /// As [`Store::take`].
    pub(super) async fn take(&self, key: &str) -> Option<Bytes> {
        self.store.take(&self.own(key)).await
    }

    fn own<'a>(&self, key: &'a str) -> Cow<'a, str> {
        match &self.prefix {
            None => Cow::Borrowed(key),
            Some(prefix) => Cow::Owned(format!("{prefix}{key}")),
        }
    }
}

#[cfg(test)]
impl Shelf {
    /// That of somebody who needed no key, in a memory of its own.
    pub(super) fn alone(bytes_max: usize) -> Self {
        Self::new(&Arc::new(Store::new(crate::store::Config { bytes_max, redis: None })), &Account::anonymous())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{budget::Subject, store};

    const MINUTE: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn nobody_reaches_what_another_keeps() {
        let store = Arc::new(Store::new(store::Config { bytes_max: 1 << 20, redis: None }));
        let account =
            |key: &str, scope: &str| Account { key: key.to_owned(), subject: Subject::of_scope(scope).unwrap(), ..Account::anonymous() };
        let shelf = |account: &Account| Shelf::new(&store, account);
        let (first, second) = (account("a", "tenant:acme"), account("b", "tenant:acme"));
        shelf(&first).put("k", "first".into(), MINUTE).await;
        assert_eq!(shelf(&first).get("k").await.as_deref(), Some(&b"first"[..]));
        for other in [&second, &account("a", "tenant:other"), &Account::anonymous()] {
            assert_eq!((shelf(other).get("k").await, shelf(other).take("k").await), (None, None), "{other:?}");
        }
        // Those who need no key find what was kept before there were accounts.
        store.put("k", "old".into(), MINUTE).await;
        assert_eq!(shelf(&Account::anonymous()).take("k").await.as_deref(), Some(&b"old"[..]));
    }
}
