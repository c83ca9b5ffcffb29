//! Anthropic's Messages API on the wire: what a client sends and what a server streams.
//!
//! Source: Anthropic's OpenAPI description with API version 2023-06-01, and what llama-server b11434 answers at `/v1/messages`.

pub mod request;
pub mod stream;

/// The version of the API that toolgate speaks, and the header that names it.
pub const VERSION: (&str, &str) = ("anthropic-version", "2023-06-01");

/// The HTTP status that stands for an error's `type`, where the type is told without one: inside a stream.
pub fn status_of(error_type: &str) -> Option<u16> {
    Some(match error_type {
        "invalid_request_error" => 400,
        "authentication_error" => 401,
        "billing_error" => 402,
        "permission_error" => 403,
        "not_found_error" => 404,
        "request_too_large" => 413,
        "rate_limit_error" => 429,
        "api_error" => 500,
        "timeout_error" => 504,
        "overloaded_error" => 529,
        _ => return None,
    })
}
