//! The messages of pprof's `profile.proto`, as far as heap profiles use them.
//!
//! Field numbers are the format; names follow the upstream file. Unknown fields are skipped when
//! decoding, as protobuf demands.

use prost::Message;

/// The whole file.
#[derive(Clone, PartialEq, Message)]
pub struct Profile {
    /// What the values of a sample are.
    #[prost(message, repeated, tag = "1")]
    pub sample_type: Vec<ValueType>,
    /// Measurements.
    #[prost(message, repeated, tag = "2")]
    pub sample: Vec<Sample>,
    /// Mapped binaries, the main program first.
    #[prost(message, repeated, tag = "3")]
    pub mapping: Vec<Mapping>,
    /// Code addresses.
    #[prost(message, repeated, tag = "4")]
    pub location: Vec<Location>,
    /// Functions.
    #[prost(message, repeated, tag = "5")]
    pub function: Vec<Function>,
    /// All texts; entry 0 is empty.
    #[prost(string, repeated, tag = "6")]
    pub string_table: Vec<String>,
    /// Frames to drop (regular expression), an index of the string table.
    #[prost(int64, tag = "7")]
    pub drop_frames: i64,
    /// Exception to `drop_frames`.
    #[prost(int64, tag = "8")]
    pub keep_frames: i64,
    /// Time of collection, nanoseconds since the epoch.
    #[prost(int64, tag = "9")]
    pub time_nanos: i64,
    /// Time covered, nanoseconds.
    #[prost(int64, tag = "10")]
    pub duration_nanos: i64,
    /// What lies between two sampled events.
    #[prost(message, optional, tag = "11")]
    pub period_type: Option<ValueType>,
    /// How much of it.
    #[prost(int64, tag = "12")]
    pub period: i64,
    /// Remarks, indices of the string table.
    #[prost(int64, repeated, tag = "13")]
    pub comment: Vec<i64>,
    /// Sample type shown first, an index of the string table.
    #[prost(int64, tag = "14")]
    pub default_sample_type: i64,
}

/// A kind of value and its unit, both indices of the string table.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct ValueType {
    /// For example `inuse_space`.
    #[prost(int64, tag = "1")]
    pub r#type: i64,
    /// For example `bytes`.
    #[prost(int64, tag = "2")]
    pub unit: i64,
}

/// A measurement.
#[derive(Clone, PartialEq, Message)]
pub struct Sample {
    /// Ids of locations, the leaf first.
    #[prost(uint64, repeated, tag = "1")]
    pub location_id: Vec<u64>,
    /// One value per sample type.
    #[prost(int64, repeated, tag = "2")]
    pub value: Vec<i64>,
    /// What else is known of it.
    #[prost(message, repeated, tag = "3")]
    pub label: Vec<Label>,
}

/// A remark on a measurement: a text or a number.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Label {
    /// Index of the string table.
    #[prost(int64, tag = "1")]
    pub key: i64,
    /// Index of the string table.
    #[prost(int64, tag = "2")]
    pub str: i64,
    /// The number.
    #[prost(int64, tag = "3")]
    pub num: i64,
    /// Index of the string table.
    #[prost(int64, tag = "4")]
    pub num_unit: i64,
}

/// A mapped binary.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Mapping {
    /// Nonzero and unique.
    #[prost(uint64, tag = "1")]
    pub id: u64,
    /// First address.
    #[prost(uint64, tag = "2")]
    pub memory_start: u64,
    /// One past the last address.
    #[prost(uint64, tag = "3")]
    pub memory_limit: u64,
    /// Offset in the file of the first address.
    #[prost(uint64, tag = "4")]
    pub file_offset: u64,
    /// Path, an index of the string table.
    #[prost(int64, tag = "5")]
    pub filename: i64,
    /// Build-id in hex, an index of the string table.
    #[prost(int64, tag = "6")]
    pub build_id: i64,
    /// Whether its locations have functions; where not, pprof looks for symbols itself.
    #[prost(bool, tag = "7")]
    pub has_functions: bool,
    /// Whether its functions have file names.
    #[prost(bool, tag = "8")]
    pub has_filenames: bool,
    /// Whether its lines have numbers.
    #[prost(bool, tag = "9")]
    pub has_line_numbers: bool,
    /// Whether inlined frames are listed.
    #[prost(bool, tag = "10")]
    pub has_inline_frames: bool,
}

/// A code address.
#[derive(Clone, PartialEq, Message)]
pub struct Location {
    /// Nonzero and unique.
    #[prost(uint64, tag = "1")]
    pub id: u64,
    /// Id of the mapping, or 0.
    #[prost(uint64, tag = "2")]
    pub mapping_id: u64,
    /// Address inside the call instruction.
    #[prost(uint64, tag = "3")]
    pub address: u64,
    /// Functions there, the innermost first.
    #[prost(message, repeated, tag = "4")]
    pub line: Vec<Line>,
    /// Whether the linker folded several functions into this one.
    #[prost(bool, tag = "5")]
    pub is_folded: bool,
}

/// A function at a location.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Line {
    /// Id of the function.
    #[prost(uint64, tag = "1")]
    pub function_id: u64,
    /// Source line.
    #[prost(int64, tag = "2")]
    pub line: i64,
    /// Column in it.
    #[prost(int64, tag = "3")]
    pub column: i64,
}

/// A function.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Function {
    /// Nonzero and unique.
    #[prost(uint64, tag = "1")]
    pub id: u64,
    /// Index of the string table.
    #[prost(int64, tag = "2")]
    pub name: i64,
    /// Mangled name, an index of the string table.
    #[prost(int64, tag = "3")]
    pub system_name: i64,
    /// Source file, an index of the string table.
    #[prost(int64, tag = "4")]
    pub filename: i64,
    /// Line of the declaration.
    #[prost(int64, tag = "5")]
    pub start_line: i64,
}
