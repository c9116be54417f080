//! Answers to a batch.

use std::fmt;
use std::io;

use serde::Serialize;

/// What became of the entries of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Receipt {
    /// Stored by this request.
    pub accepted: u64,
    /// Stored before.
    pub known: u64,
    /// Entries that cannot be read; sending them again changes nothing.
    pub refused: u64,
    /// Profiles older than what is kept.
    pub expired: u64,
}

impl Receipt {
    /// Adds another receipt.
    pub(super) fn add(&mut self, other: &Receipt) {
        self.accepted += other.accepted;
        self.known += other.known;
        self.refused += other.refused;
        self.expired += other.expired;
    }
}

/// Why nothing of a batch was stored.
#[derive(Debug)]
pub enum Refusal {
    /// No entry can be read; sending the batch again changes nothing.
    Unreadable,
    /// Too much waits for the store.
    Busy,
    /// The log cannot be written.
    Log(io::Error),
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Unreadable => out.write_str("no entry of the batch can be read"),
            Refusal::Busy => out.write_str("too much waits for the object store; try again later"),
            Refusal::Log(why) => write!(out, "cannot write the log: {why}; try again later"),
        }
    }
}
