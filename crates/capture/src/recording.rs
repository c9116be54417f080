//! Recordings as files: writing them while a program runs, opening them afterwards.

mod background;
pub mod embed;
pub mod findings;
pub mod moment;
pub mod moment_profile;
pub mod open;
mod packing;
pub mod read_options;
mod ring;
pub mod rotation;
pub mod sink;
mod writer;
