//! The tables of the store: a star schema whose keys are content hashes, so that hosts need no
//! coordination.
//!
//! ```text
//! samples ── stack_id ──► stacks ── leaf_fn ──► functions
//!    │                      └── stack_id ◄── frames ── fn_id ──► functions
//!    └── profile_id ──► profiles
//! ```

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use serde::{Deserialize, Serialize};

/// A table of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Table {
    /// Functions by content.
    Functions,
    /// Stacks by content: depth, the function that called the allocator, the site.
    Stacks,
    /// The frames of each stack: a flat bridge that needs joins only.
    Frames,
    /// One row per profile: process, time, end, totals.
    Profiles,
    /// One row per stack of a profile.
    Samples,
    /// Samples of an hour in one row per process and stack.
    SamplesHour,
    /// Samples of a day in one row per process and stack.
    SamplesDay,
}

use Table::{Frames, Functions, Profiles, Samples, SamplesDay, SamplesHour, Stacks};

const U64: DataType = DataType::UInt64;
const I64: DataType = DataType::Int64;
const U32: DataType = DataType::UInt32;
const U16: DataType = DataType::UInt16;
const F64: DataType = DataType::Float64;
const TEXT: DataType = DataType::Utf8;

/// Columns of `functions`. `name` is the short name, which survives a rebuild.
const FUNCTIONS: &[(&str, DataType)] = &[
    ("fn_id", U64),
    ("name", TEXT),
    ("full_name", TEXT),
    ("system_name", TEXT),
    ("file", TEXT),
    ("start_line", U32),
    ("module", TEXT),
];
/// Columns of `stacks`. The site is the first frame of the program's own code.
const STACKS: &[(&str, DataType)] =
    &[("stack_id", U64), ("depth", U16), ("leaf_fn", U64), ("site_id", U64), ("site", TEXT)];
/// Columns of `frames`. Position 0 is the innermost frame; `is_first` marks the innermost frame of
/// each name, so that sums with callees count recursion once.
const FRAMES: &[(&str, DataType)] = &[
    ("stack_id", U64),
    ("pos", U16),
    ("fn_id", U64),
    ("line", U32),
    ("is_inlined", DataType::Boolean),
    ("is_first", DataType::Boolean),
];
/// Columns of `profiles`. `end` is empty while the process runs; `sampling_bytes` is 0 for exact.
const PROFILES: &[(&str, DataType)] = &[
    ("profile_id", U64),
    ("process_id", U64),
    ("time_ns", I64),
    ("start_ns", I64),
    ("service", TEXT),
    ("release", TEXT),
    ("host", TEXT),
    ("container", TEXT),
    ("program", TEXT),
    ("pid", U32),
    ("end", TEXT),
    ("sampling_bytes", U64),
    ("stacks", U32),
    ("inuse_bytes", I64),
    ("inuse_objects", I64),
    ("alloc_bytes", I64),
    ("alloc_objects", I64),
    ("peak_bytes", I64),
];
/// Columns of `samples`. `inuse_variance` is the variance of `inuse_bytes`; 0 when exact.
const SAMPLES: &[(&str, DataType)] = &[
    ("time_ns", I64),
    ("service", TEXT),
    ("release", TEXT),
    ("host", TEXT),
    ("process_id", U64),
    ("profile_id", U64),
    ("stack_id", U64),
    ("inuse_bytes", I64),
    ("inuse_objects", I64),
    ("alloc_bytes", I64),
    ("alloc_objects", I64),
    ("inuse_variance", F64),
];
/// Columns of the roll-ups. `inuse_bytes` and `inuse_objects` are means over `points` profiles.
const ROLL_UP: &[(&str, DataType)] = &[
    ("time_ns", I64),
    ("service", TEXT),
    ("release", TEXT),
    ("host", TEXT),
    ("process_id", U64),
    ("stack_id", U64),
    ("points", I64),
    ("inuse_bytes", F64),
    ("inuse_objects", F64),
    ("least_bytes", I64),
    ("most_bytes", I64),
];

impl Table {
    /// Every table.
    pub const ALL: [Table; 7] = [Functions, Stacks, Frames, Profiles, Samples, SamplesHour, SamplesDay];

    /// Name in SQL and in the names of segments.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Functions => "functions",
            Stacks => "stacks",
            Frames => "frames",
            Profiles => "profiles",
            Samples => "samples",
            SamplesHour => "samples_hour",
            SamplesDay => "samples_day",
        }
    }

    /// The table of a name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|table| table.name() == name)
    }

    fn columns(self) -> &'static [(&'static str, DataType)] {
        match self {
            Functions => FUNCTIONS,
            Stacks => STACKS,
            Frames => FRAMES,
            Profiles => PROFILES,
            Samples => SAMPLES,
            SamplesHour | SamplesDay => ROLL_UP,
        }
    }

    /// Columns and their types; none is ever null.
    #[must_use]
    pub fn schema(self) -> SchemaRef {
        let field = |(name, kind): &(&str, DataType)| Field::new(*name, kind.clone(), false);
        Arc::new(Schema::new(self.columns().iter().map(field).collect::<Vec<_>>()))
    }

    /// The order of rows in a segment: rows that questions read together are neighbors.
    #[must_use]
    pub fn order(self) -> &'static [&'static str] {
        match self {
            Functions => &["name", "fn_id"],
            Stacks => &["stack_id"],
            Frames => &["stack_id", "pos"],
            Profiles => &["service", "host", "process_id", "time_ns"],
            Samples | SamplesHour | SamplesDay => &["service", "stack_id", "host", "process_id", "time_ns"],
        }
    }

    /// Whether its rows have a time, so that its segments are kept by day and expire.
    #[must_use]
    pub fn is_timed(self) -> bool {
        matches!(self, Profiles | Samples | SamplesHour | SamplesDay)
    }
}
