//! Where a server may be: the rules for its URL and for the addresses that its name resolves to.
//!
//! The configuration is the operator's, and servers on this machine or in its network are the rule: loopback and private addresses are
//! fine. What is refused are the addresses that only this machine's own link knows, where clouds hand out their credentials.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use hyper::Uri;

/// Where clouds keep credentials, beside the link-local addresses.
const METADATA_V4: [Ipv4Addr; 3] = [Ipv4Addr::new(100, 100, 100, 200), Ipv4Addr::new(168, 63, 129, 16), Ipv4Addr::new(192, 0, 0, 192)];
const METADATA_V6: [Ipv6Addr; 2] = [Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254), Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)];

/// The URL of an end point. Fails with what is wrong with it, without repeating it: there may be a secret in it.
pub(super) fn parse(url: &str) -> Result<Uri, &'static str> {
    let parsed: Uri = url.parse().map_err(|_| "the URL is not one")?;
    if !matches!(parsed.scheme_str(), Some("http" | "https")) {
        return Err("the URL is neither http nor https");
    }
    let authority = parsed.authority().map_or("", |authority| authority.as_str());
    if authority.contains('@') {
        return Err("the URL has a user in it: credentials belong into a header");
    }
    if parsed.host().is_none_or(str::is_empty) {
        return Err("the URL has no host");
    }
    Ok(parsed)
}

/// Why `address` must not be connected to, and nothing where it may.
pub(super) fn refusal(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(v4) => refusal_v4(v4),
        IpAddr::V6(v6) => match embedded(v6) {
            Some(v4) => refusal_v4(v4),
            None => refusal_v6(v6),
        },
    }
}

fn refusal_v4(address: Ipv4Addr) -> Option<&'static str> {
    match address.octets() {
        _ if METADATA_V4.contains(&address) => Some("a cloud's metadata"),
        [169, 254, ..] => Some("link-local"),
        // All of "this network": Linux connects them to this machine.
        [0, ..] => Some("unspecified"),
        [224..=239, ..] => Some("multicast"),
        [255, 255, 255, 255] => Some("broadcast"),
        _ => None,
    }
}

fn refusal_v6(address: Ipv6Addr) -> Option<&'static str> {
    let first = address.segments().first().copied().unwrap_or_default();
    match first {
        _ if METADATA_V6.contains(&address) => Some("a cloud's metadata"),
        _ if address.is_unspecified() => Some("unspecified"),
        0xfe80..=0xfebf => Some("link-local"),
        0xff00.. => Some("multicast"),
        _ => None,
    }
}

/// The IPv4 address that an IPv6 address only dresses up: mapped, compatible, by way of NAT64 or of 6to4.
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let of = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        Some(Ipv4Addr::new(a, b, c, d))
    };
    match address.segments() {
        // `::` and `::1` are IPv6's own.
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => None,
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => of(high, low),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(address: &str, expected: Option<&str>) {
        assert_eq!(refusal(address.parse().unwrap()), expected, "{address}");
    }

    #[test]
    fn loopback_private_and_public_addresses_are_allowed() {
        for address in ["127.0.0.1", "127.8.8.8", "10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1", "8.8.8.8"] {
            check(address, None);
        }
        for address in ["::1", "fd00::1", "2001:db8::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::808:808"] {
            check(address, None);
        }
    }

    #[test]
    fn link_local_addresses_are_refused() {
        check("169.254.0.1", Some("link-local"));
        check("169.254.169.254", Some("link-local"));
        check("169.255.0.1", None);
        check("fe80::1", Some("link-local"));
        check("febf:ffff::1", Some("link-local"));
        check("fec0::1", None);
    }

    #[test]
    fn a_clouds_metadata_is_refused() {
        for address in ["100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254", "fd20:ce::254"] {
            check(address, Some("a cloud's metadata"));
        }
        check("100.100.100.201", None);
        check("fd00:ec2::253", None);
    }

    #[test]
    fn addresses_of_no_single_machine_are_refused() {
        check("0.0.0.0", Some("unspecified"));
        check("0.1.2.3", Some("unspecified"));
        check("::", Some("unspecified"));
        check("224.0.0.1", Some("multicast"));
        check("239.255.255.255", Some("multicast"));
        check("ff02::1", Some("multicast"));
        check("255.255.255.255", Some("broadcast"));
    }

    #[test]
    fn an_ipv4_address_in_an_ipv6_address_is_that_ipv4_address() {
        check("::ffff:169.254.169.254", Some("link-local"));
        check("::169.254.169.254", Some("link-local"));
        check("64:ff9b::169.254.169.254", Some("link-local"));
        check("2002:a9fe:a9fe::1", Some("link-local"));
        check("::ffff:0.0.0.0", Some("unspecified"));
        check("::ffff:100.100.100.200", Some("a cloud's metadata"));
        check("::ffff:255.255.255.255", Some("broadcast"));
    }

    #[test]
    fn a_url_is_http_has_a_host_and_no_user() {
        for url in ["http://localhost:3101/mcp", "https://mcp.example.org/mcp?team=a", "http://[::1]:80/", "http://127.0.0.1"] {
            assert!(parse(url).is_ok(), "{url}");
        }
        for url in ["ftp://host/", "file:///etc/passwd", "unix:/run/x", "host:80", "/mcp", "", "http://", "http:///mcp", "not a url"] {
            assert!(parse(url).is_err(), "{url}");
        }
        for url in ["http://user@host/", "http://user:pass@host/mcp", "http://169.254.169.254@host/"] {
            assert!(parse(url).unwrap_err().contains("credentials"), "{url}");
        }
    }
}
