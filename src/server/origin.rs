//! Web pages that may not have tools run: browsers let every page send requests to this machine, and only withhold the answer from it.
//!
//! A page cannot hide where it comes from, since browsers send `Origin` with every POST (Fetch standard, "Origin header"). Programs send
//! none, and those built as pages of their own have a scheme of their own, which no page of the web has.
//!
//! A page whose name was made to lead to this machine (DNS rebinding) may read what it GETs, and sends no `Origin` with that. Its `Host` is
//! that name still.

use std::net::IpAddr;

use hyper::{
    Uri,
    header::{HOST, HeaderMap, ORIGIN},
    http::uri::Authority,
};

use super::State;
use crate::chat::{Problem, problem::Kind};

/// Fails when the request comes from a web page that is neither of this machine nor among `allowed`.
pub(super) fn check(headers: &HeaderMap, allowed: &[String]) -> Result<(), Problem> {
    let Some(origin) = headers.get(ORIGIN) else { return Ok(()) };
    let origin = origin.to_str().unwrap_or("null");
    if is_harmless(origin) || allowed.iter().any(|known| known.eq_ignore_ascii_case(origin)) {
        return Ok(());
    }
    let message = format!("Pages of {origin} may not have anything done here: see `mcp.allowed_origins`.");
    Err(Problem::new(Kind::Forbidden, message).with_code("origin_not_allowed"))
}

/// Fails when what `state` tells of MCP servers is for this machine only, and is asked for by a name that is not this machine's.
pub(super) fn check_reader(headers: &HeaderMap, state: &State) -> Result<(), Problem> {
    if state.toolbox.is_none() { Ok(()) } else { check_reader_here(headers, state) }
}

/// Fails when toolgate is for this machine only, and is asked by a name that is not this machine's.
pub(super) fn check_reader_here(headers: &HeaderMap, state: &State) -> Result<(), Problem> {
    if !state.config.listen.ip().is_loopback() {
        return Ok(());
    }
    check_host(headers, &state.config.origins)
}

/// Fails when the request asks for a host that has a name, other than this machine's and those of `allowed`.
fn check_host(headers: &HeaderMap, allowed: &[String]) -> Result<(), Problem> {
    // Browsers always say it.
    let Some(host) = headers.get(HOST) else { return Ok(()) };
    let authority: Option<Authority> = host.to_str().ok().and_then(|host| host.parse().ok());
    let host = authority.as_ref().map(|authority| authority.host().to_ascii_lowercase()).unwrap_or_default();
    let is_allowed =
        |origin: &String| origin.parse::<Uri>().is_ok_and(|origin| origin.host().is_some_and(|known| known.eq_ignore_ascii_case(&host)));
    if is_here(&host) || address(&host).is_some() || allowed.iter().any(is_allowed) {
        return Ok(());
    }
    let message = "This is told to who asks for it by an address or as localhost: see `mcp.allowed_origins`.";
    Err(Problem::new(Kind::Forbidden, message).with_code("host_not_allowed"))
}

/// Whether `origin` is this machine or no page of the web.
fn is_harmless(origin: &str) -> bool {
    let Some((scheme, _)) = origin.split_once("://") else { return false };
    if !matches!(scheme, "http" | "https") {
        return true;
    }
    let uri: Option<Uri> = origin.parse().ok();
    let host = uri.as_ref().and_then(Uri::host).unwrap_or_default();
    is_here(host) || address(host).is_some_and(|address| address.is_loopback())
}

/// Whether the name `host` is this machine's.
fn is_here(host: &str) -> bool {
    host == "localhost" || host.ends_with(".localhost")
}

fn address(host: &str) -> Option<IpAddr> {
    host.trim_start_matches('[').trim_end_matches(']').parse().ok()
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
    fn readers_know_where_they_ask() {
        let passes = |host: &str| {
            let headers = HeaderMap::from_iter([(HOST, HeaderValue::from_str(host).unwrap())]);
            check_host(&headers, &["https://chat.example.com:8443".to_owned()]).is_ok()
        };
        for host in ["localhost:8081", "LOCALHOST", "a.localhost", "127.0.0.1:8081", "[::1]:8081", "10.0.0.7", "chat.example.com"] {
            assert!(passes(host), "{host}");
        }
        for host in ["evil.example.com:8081", "localhost.example.com", "127.0.0.1.example.com", "", "a b"] {
            assert!(!passes(host), "{host}");
        }
        assert!(check_host(&HeaderMap::new(), &[]).is_ok());
    }

    #[test]
    fn others_are_allowed_by_name() {
        assert!(passes("https://chat.example.com", &["https://chat.example.com"]));
        assert!(!passes("https://chat.example.com:8443", &["https://chat.example.com"]));
    }
}
