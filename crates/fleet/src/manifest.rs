//! The manifest: the segments that exist. It is one object, replaced as a whole, so that flushes
//! and compactions take effect at once or not at all.

use std::collections::{BTreeMap, BTreeSet};

use heapwise_capture::failure::{Failure, Outcome};
use serde::{Deserialize, Serialize};

use crate::schema::Table;
use crate::store::{Replacement, Store, Version};

/// Name of the manifest in the store.
pub const NAME: &str = "manifest.json";

/// The state of a store.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Manifest {
    /// Incremented with every change.
    pub generation: u64,
    /// The data directory whose server wrote it.
    #[serde(default)]
    pub writer: String,
    /// Log files up to this number are in segments, by data directory.
    #[serde(default)]
    pub flushed_logs: BTreeMap<String, u64>,
    /// The segments of all tables.
    pub segments: Vec<Segment>,
    /// Hours whose roll-up lacks samples: nanoseconds since the epoch.
    #[serde(default)]
    pub stale_hours: BTreeSet<i64>,
    /// Days whose roll-up lacks samples.
    #[serde(default)]
    pub stale_days: BTreeSet<i64>,
    /// The version of the object that it was read from or saved as.
    #[serde(skip)]
    version: Version,
}

/// A Parquet file of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segment {
    /// The table.
    pub table: Table,
    /// Name in the store.
    pub name: String,
    /// First nanosecond of the time that all its rows lie in; 0 for tables without time.
    pub start_ns: i64,
    /// First nanosecond after it.
    pub end_ns: i64,
    /// Number of rows.
    pub rows: u64,
    /// Size of the file.
    pub bytes: u64,
}

impl Manifest {
    /// The manifest of a store; empty for a new store.
    pub fn load(store: &Store) -> Outcome<Self> {
        let Some((bytes, version)) = store.get(NAME)? else { return Ok(Self::default()) };
        let read: Result<Self, _> = serde_json::from_slice(&bytes);
        let read =
            read.map_err(|why| Failure::new(format!("{}: not a manifest: {why}", store.place(NAME))))?;
        Ok(Self { version, ..read })
    }

    /// Replaces the manifest of a store. It fails when another server replaced the one that this
    /// was made from.
    pub fn save(&mut self, store: &Store) -> Outcome {
        self.generation += 1;
        let bytes = serde_json::to_vec_pretty(self).map_err(|why| Failure::new(why.to_string()))?;
        match store.replace(NAME, bytes, &self.version)? {
            Replacement::Done(version) => {
                self.version = version;
                Ok(())
            }
            Replacement::Refused => Err(Failure::new(format!(
                "{}: another heapwise-fleet writes to this store",
                store.place(NAME)
            ))),
        }
    }

    /// Makes the names of segments unique: no other writer uses it, and no earlier change.
    #[must_use]
    pub fn label(&self) -> String {
        format!("{:012}-{}", self.generation + 1, self.writer)
    }

    /// The segments of a table.
    pub fn of(&self, table: Table) -> impl Iterator<Item = &Segment> {
        self.segments.iter().filter(move |segment| segment.table == table)
    }

    /// The segments of a table with rows in a time.
    pub fn within(&self, table: Table, start_ns: i64, end_ns: i64) -> Vec<Segment> {
        let overlaps = |segment: &&Segment| {
            !table.is_timed() || (segment.start_ns < end_ns && start_ns < segment.end_ns)
        };
        self.of(table).filter(overlaps).cloned().collect()
    }

    /// Deletes every object that the manifest does not have: those of an interrupted change.
    pub fn delete_strays(&self, store: &Store) -> Outcome<usize> {
        let known: BTreeSet<&str> = self.segments.iter().map(|segment| segment.name.as_str()).collect();
        let names = store.list()?;
        let strays: Vec<&String> = names
            .iter()
            .filter(|name| name.ends_with(".parquet") && !known.contains(name.as_str()))
            .collect();
        strays.iter().try_for_each(|name| store.delete(name))?;
        Ok(strays.len())
    }
}
