//! The contract between the probe and everything that reads it: the layout of the shared segment,
//! the codec of events, the container of recordings, the language of suppression files.
//!
//! `no_std`, no dependencies, no `unsafe`: both ends link the same definitions, and the worst
//! result of hostile bytes is an error.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

pub mod bytes;
pub mod chunk;
pub mod entry_hooks;
pub mod event;
pub mod paths;
pub mod recording;
pub mod segment;
pub mod suppression;
pub mod varint;
