//! Recordings as files: writing them while a program runs, opening them afterwards.

pub mod moment;
pub mod open;
mod packing;
mod ring;
mod rotation;
pub mod sink;
mod writer;
