//! Names and lines of freshly built programs, compared with binutils.

mod agreement;
mod cache;
mod hostile;
mod program;
mod search;
mod server;
mod unresolved;
mod witness;
