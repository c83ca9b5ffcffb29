//! The keys that clients show, and who they stand for. Of a key only its SHA-256 is known.

use std::{fmt, sync::Arc, time::SystemTime};

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq;

use super::{Account, access::Access};
use crate::secret::Secret;

/// All keys that there are. Cloning it shares the accounts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keys {
    known: Vec<(Digest, Arc<Account>)>,
    /// On whose account things are done where there is no key.
    anonymous: Arc<Account>,
}

/// The SHA-256 of a key. It is not printed: that of a key which somebody thought up can be guessed from it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest([u8; 32]);

/// Why a key opens nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Wrong {
    /// It is none of ours.
    #[error("the key is not known")]
    Unknown,
    /// It was one of ours.
    #[error("the key has expired")]
    Expired,
}

/// How keys of toolgate's own making begin, so that people and scanners know one when they see it.
const PREFIX: &str = "tg_";

/// A new key that nobody can guess: 32 random bytes. Fails where the system has none to give.
pub fn fresh() -> Result<Secret, getrandom::Error> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)?;
    Ok(Secret::new(&(PREFIX.to_owned() + &BASE64_URL_SAFE_NO_PAD.encode(bytes))))
}

/// How a digest begins when it is written.
const SCHEME: &str = "sha256:";

/// What is longer is no key, and is not looked at: a request should cost nothing before it is known whose it is.
const SECRET_BYTES_MAX: usize = 1024;

impl Keys {
    /// The keys whose digests are `known`, each with whom it stands for.
    pub fn new(known: Vec<(Digest, Account)>) -> Self {
        Self { known: known.into_iter().map(|(digest, account)| (digest, Arc::new(account))).collect(), ..Self::default() }
    }

    /// The same keys and the same who needed none, none of whom may use a tool that `access` does not allow.
    #[must_use]
    pub fn within(self, access: &Access) -> Self {
        if access.is_open() {
            return self;
        }
        let access = Arc::new(access.clone());
        let narrow = |account: Arc<Account>| {
            let mut account = Arc::unwrap_or_clone(account);
            account.tools.within = Some(Arc::clone(&access));
            Arc::new(account)
        };
        Self {
            known: self.known.into_iter().map(|(digest, account)| (digest, narrow(account))).collect(),
            anonymous: narrow(self.anonymous),
        }
    }

    /// Whether there is none, and nobody needs one.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Whether one of them is an administrator's.
    pub fn has_admin(&self) -> bool {
        self.known.iter().any(|(_, account)| account.is_admin)
    }

    /// The account of somebody who needed no key.
    pub fn anonymous(&self) -> &Arc<Account> {
        &self.anonymous
    }

    /// Whom the key `secret` stands for. Every key is compared, each in a time that tells nothing of it. Fails for one that is not known,
    /// and for one that has expired by `now`.
    pub fn find(&self, secret: &str, now: SystemTime) -> Result<Arc<Account>, Wrong> {
        if secret.len() > SECRET_BYTES_MAX {
            return Err(Wrong::Unknown);
        }
        let shown = Digest::of(secret);
        let mut found = None;
        for (digest, account) in &self.known {
            if bool::from(digest.0.ct_eq(&shown.0)) {
                found = Some(account);
            }
        }
        let account = found.ok_or(Wrong::Unknown)?;
        if account.expires.is_some_and(|expires| expires <= now) {
            return Err(Wrong::Expired);
        }
        Ok(Arc::clone(account))
    }
}

impl Default for Keys {
    /// No key, so that nobody needs one.
    fn default() -> Self {
        Self { known: Vec::new(), anonymous: Arc::new(Account::anonymous()) }
    }
}

impl Digest {
    /// That of `secret`.
    pub fn of(secret: &str) -> Self {
        Self(Sha256::digest(secret).into())
    }

    /// The one that `text` spells: `sha256:` and 64 hexadecimal digits. `None` for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix(SCHEME)?;
        if digits.len() != 64 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        let mut digest = [0; 32];
        for (byte, pair) in digest.iter_mut().zip(digits.as_bytes().chunks(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
        }
        Some(Self(digest))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(SCHEME)?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[digest]")
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn account(key: &str, expires: Option<SystemTime>) -> Account {
        Account { key: key.to_owned(), expires, ..Account::anonymous() }
    }

    #[test]
    fn a_key_is_found_by_what_it_hashes_to() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(100);
        let (soon, past) = (Some(now + Duration::from_secs(1)), Some(now));
        let known = [("tg_a", account("a", None)), ("tg_b", account("b", soon)), ("tg_c", account("c", past))];
        let keys = Keys::new(known.map(|(secret, account)| (Digest::of(secret), account)).into());
        let check = |secret: &str, expected: Result<&str, Wrong>| {
            let found = keys.find(secret, now).map(|account| account.key.clone());
            assert_eq!(found, expected.map(str::to_owned), "{secret}");
        };
        check("tg_a", Ok("a"));
        check("tg_b", Ok("b"));
        check("tg_c", Err(Wrong::Expired));
        check("tg_A", Err(Wrong::Unknown));
        check("", Err(Wrong::Unknown));
        check(&"x".repeat(SECRET_BYTES_MAX + 1), Err(Wrong::Unknown));
        assert!(!keys.is_empty() && Keys::default().is_empty());
        assert_eq!(Keys::default().find("", now), Err(Wrong::Unknown));
    }

    #[test]
    fn a_fresh_key_can_be_sent_and_is_like_no_other() {
        let (one, other) = (fresh().unwrap(), fresh().unwrap());
        let random = one.expose().strip_prefix(PREFIX).unwrap();
        assert!(random.len() == 43 && random.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)));
        assert_ne!(one, other);
    }

    #[test]
    fn a_digest_is_written_as_other_programs_write_it() {
        // printf abc | sha256sum
        let written = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(Digest::of("abc").to_string(), written);
        assert_eq!(Digest::parse(written), Some(Digest::of("abc")));
        assert_eq!(Digest::parse(&written.to_uppercase().replace("SHA256", "sha256")), Some(Digest::of("abc")));
        let (digits, short) = (written.replace("sha256:", ""), written.replace("ad", ""));
        for wrong in ["", "sha256:", "abc", &digits, &short, "sha256:+a+a+a+a+a+a+a+a+a+a+a+a+a+a+a+a+a+a+a+a+a+a+a+a+a+a+a+a+a+a+a+a"] {
            assert_eq!(Digest::parse(wrong), None, "{wrong}");
        }
        assert_eq!(format!("{:?}", Digest::of("abc")), "[digest]");
    }
}
