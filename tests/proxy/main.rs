//! The real proxy over real sockets, against a scripted backend.
