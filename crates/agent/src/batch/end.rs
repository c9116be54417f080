//! How the process of an entry ended.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The end of a process, as far as it is known: `exited:3`, `exited:unknown`, `killed:9`,
/// `killed:unknown`, `oom`, `replaced`, `unknown`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It exited, with this status.
    Exited(Option<u8>),
    /// This signal killed it.
    Killed(Option<u8>),
    /// The kernel killed it because memory was short.
    OutOfMemory,
    /// It replaced itself by another program (`exec`).
    Replaced,
    /// It ended in an unknown way.
    Unknown,
}

const UNKNOWN: &str = "unknown";

impl fmt::Display for End {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut with = |kind: &str, value: &Option<u8>| match value {
            Some(value) => write!(out, "{kind}:{value}"),
            None => write!(out, "{kind}:{UNKNOWN}"),
        };
        match self {
            End::Exited(status) => with("exited", status),
            End::Killed(signal) => with("killed", signal),
            End::OutOfMemory => out.write_str("oom"),
            End::Replaced => out.write_str("replaced"),
            End::Unknown => out.write_str(UNKNOWN),
        }
    }
}

/// A text that names no end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotAnEnd;

impl fmt::Display for NotAnEnd {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("not an end of a process")
    }
}

impl FromStr for End {
    type Err = NotAnEnd;

    fn from_str(text: &str) -> Result<Self, NotAnEnd> {
        let value = |text: &str| match text {
            UNKNOWN => Ok(None),
            number => number.parse().map(Some).map_err(|_| NotAnEnd),
        };
        match text.split_once(':') {
            Some(("exited", status)) => value(status).map(End::Exited),
            Some(("killed", signal)) => value(signal).map(End::Killed),
            None if text == "oom" => Ok(End::OutOfMemory),
            None if text == "replaced" => Ok(End::Replaced),
            None if text == UNKNOWN => Ok(End::Unknown),
            _ => Err(NotAnEnd),
        }
    }
}

impl Serialize for End {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for End {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_come_back() {
        for text in [
            "exited:0",
            "exited:255",
            "exited:unknown",
            "killed:9",
            "killed:unknown",
            "oom",
            "replaced",
            "unknown",
        ] {
            assert_eq!(text.parse::<End>().map(|end| end.to_string()), Ok(text.to_owned()));
        }
        for text in ["", "exited", "exited:256", "exited:-1", "killed:x", "oom:1", "crashed"] {
            assert_eq!(text.parse::<End>(), Err(NotAnEnd), "{text}");
        }
    }
}
