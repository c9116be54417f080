//! Live bytes over time, with the moments that have a name or a stored profile.

use serde_json::{Value, json};

/// A curve and its marks; times in milliseconds from the start.
#[derive(Debug, Clone, Default)]
pub(crate) struct Timeline {
    pub start_unix_ms: Option<u64>,
    pub step_ms: u64,
    /// Time and live bytes; in a recording the local maximum of each step.
    pub points: Vec<(u64, u64)>,
    /// Bytes allocated up to each point since the one before; empty where that is not known.
    pub allocated: Vec<u64>,
    /// Resident bytes at each point; empty where they are not known.
    pub rss: Vec<u64>,
    /// When it was, unless that was before the first point, and its bytes.
    pub peak: Option<(Option<u64>, u64)>,
    pub marks: Vec<Mark>,
    /// Whether any range can be selected, or only the moments of stored profiles.
    pub any_range: bool,
}

/// A named moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mark {
    pub ms: u64,
    pub name: String,
    /// The profile stored then, if one was.
    pub profile: Option<String>,
}

impl Timeline {
    /// As the API shows it.
    pub(crate) fn json(&self) -> Value {
        let marks: Vec<Value> = self
            .marks
            .iter()
            .map(|mark| json!({ "ms": mark.ms, "name": mark.name, "profile": mark.profile }))
            .collect();
        json!({
            "start_unix_ms": self.start_unix_ms, "step_ms": self.step_ms, "points": self.points, "allocated": self.allocated,
            "rss": self.rss,
            "peak": self.peak, "marks": marks, "any_range": self.any_range,
        })
    }
}
