//! Where events are counted: the stack tree, and a tally per site and thread.
//!
//! A *site* is a stack at one sampling distance in one period. A [`tallies::Counts`] counts the
//! events of one site on blocks of one allocating thread, and has one writing thread, so counting
//! needs no lock prefix. Records are in the segment, nodes with the heads of the lists of their
//! children and tallies; hash tables and lists of tallies are private memory. A number that is read
//! from the segment is compared with the number of records that there are.
//!
//! *Invariant*: no event is dropped here. When a table is full, the event is counted on a site
//! named for the cause (`[out of table space: …]`).

pub(crate) mod chain;
mod hash_table;
pub(crate) mod rates;
pub(crate) mod stack_tree;
pub(crate) mod strings;
pub(crate) mod tallies;
mod tally_map;

pub(crate) use tally_map::{Key as MapKey, TallyMap};
