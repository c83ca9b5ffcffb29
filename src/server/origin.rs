//! Web pages that may not have tools run: browsers let every page send requests to this machine, and only withhold the answer from it.
//!
//! A page cannot hide where it comes from, since browsers send `Origin` with every POST (Fetch standard, "Origin header"). Programs send
//! none, and those built as pages of their own have a scheme of their own, which no page of the web has.

use hyper::{
    Uri,
    header::{HeaderMap, ORIGIN},
};

use crate::chat::{Problem, problem::Kind};

/// Fails when the request comes from a web page that is neither of this machine nor among `allowed`.
pub(super) fn check(headers: &HeaderMap, allowed: &[String]) -> Result<(), Problem> {
    let Some(origin) = headers.get(ORIGIN) else { return Ok(()) };
    let origin = origin.to_str().unwrap_or("null");
    if is_harmless(origin) || allowed.iter().any(|known| known.eq_ignore_ascii_case(origin)) {
        return Ok(());
    }
    let message = format!("Pages of {origin} may not have tools run here: see `mcp.allowed_origins`.");
    Err(Problem::new(Kind::Forbidden, message).with_code("origin_not_allowed"))
}

/// Whether `origin` is this machine or no page of the web.
fn is_harmless(origin: &str) -> bool {
    let Some((scheme, _)) = origin.split_once("://") else { return false };
    if !matches!(scheme, "http" | "https") {
        return true;
    }
    let uri: Option<Uri> = origin.parse().ok();
    let host = uri.as_ref().and_then(Uri::host).unwrap_or_default();
    host == "localhost" || host.ends_with(".localhost") || is_loopback(host)
}

fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    bare.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    fn passes(origin: &str, allowed: &[&str]) -> bool {
        let headers = HeaderMap::from_iter([(ORIGIN, HeaderValue::from_str(origin).unwrap())]);
        let allowed: Vec<String> = allowed.iter().map(|origin| (*origin).to_owned()).collect();
        check(&headers, &allowed).is_ok()
    }

    #[test]
    fn programs_send_no_origin() {
        assert!(check(&HeaderMap::new(), &[]).is_ok());
    }

    #[test]
    fn only_pages_of_this_machine_have_tools_run() {
        for origin in ["http://localhost:3000", "http://127.0.0.1", "https://[::1]:8443", "http://chat.localhost", "app://obsidian.md"] {
            assert!(passes(origin, &[]), "{origin}");
        }
        for origin in ["http://example.com", "https://localhost.example.com", "http://127.0.0.1.example.com", "null", "http://10.0.0.7"] {
            assert!(!passes(origin, &[]), "{origin}");
        }
    }

    #[test]
    fn others_are_allowed_by_name() {
        assert!(passes("https://chat.example.com", &["https://chat.example.com"]));
        assert!(!passes("https://chat.example.com:8443", &["https://chat.example.com"]));
    }
}
