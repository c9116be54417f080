//! A small blocking HTTP/1.1 server: one bounded thread per connection, every size and wait
//! limited.
//!
//! Written by hand over `httparse` because the maintained frameworks bring an async runtime and
//! some fifty crates for what is a handful of local readers; the limits below are the point of it.

mod body;
pub(crate) mod connection;
mod limits;
mod listener;
mod negotiation;
mod request;
mod response;

pub use body::Body;
pub use limits::Limits;
pub use listener::Address;
pub(crate) use listener::Listener;
pub(crate) use negotiation::Negotiation;
pub use request::{Method, QueryString, Request};
pub use response::{Response, Status};
