//! A whole profile in the format of another tool.
//!
//! One file a format; each takes the unmodified [`Profile`] and writes bytes. Data that a format
//! cannot hold is omitted, never invented; docs/FORMATS.md lists the omissions.

mod accounts;
mod annotations;
mod callgrind;
mod compact;
mod csv;
mod dhat;
mod firefox;
mod folded;
mod frames;
mod gperftools;
mod heap_records;
mod heap_v2;
mod heaptrack;
mod json;
mod memray;
mod packing;
mod pprof;
mod skynet;
mod speedscope;
mod symbolized;

pub use packing::{Limited, Packing};

use std::io::{self, BufWriter, Write};

use heapwise_profile::{Metric, Profile};

/// A format to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// `profile.proto`, gzipped: Go's pprof, Pyroscope, Parca, speedscope.
    Pprof,
    /// heapwise's own profile file: small, quick, and nothing is lost.
    Heapwise,
    /// jemalloc's text, followed by heapwise's further data: jeprof.
    HeapV2,
    /// gperftools' text: google-pprof, Go's pprof.
    Gperftools,
    /// jeprof's `--raw`: heap_v2 behind its symbols, for machines without the binaries.
    Raw,
    /// Folded stacks of one metric: flame graph scripts.
    Folded,
    /// Callgrind as Valgrind's xtree writes it: KCachegrind, callgrind_annotate.
    Callgrind,
    /// speedscope's JSON.
    Speedscope,
    /// Firefox Profiler's JSON, of one metric.
    Firefox,
    /// DHAT's JSON: dh_view.
    Dhat,
    /// heaptrack's interpreted text: heaptrack_gui, heaptrack_print.
    Heaptrack,
    /// memray's capture file: memray flamegraph, table, tree, summary, stats.
    Memray,
    /// skynet-mprof's dump.
    Skynet,
    /// heapwise's documented JSON.
    Json,
    /// A table with a row per measurement.
    Csv,
}

impl Format {
    /// Every format.
    pub const ALL: [Format; 15] = [
        Format::Pprof,
        Format::Heapwise,
        Format::HeapV2,
        Format::Gperftools,
        Format::Raw,
        Format::Folded,
        Format::Callgrind,
        Format::Speedscope,
        Format::Firefox,
        Format::Dhat,
        Format::Heaptrack,
        Format::Memray,
        Format::Skynet,
        Format::Json,
        Format::Csv,
    ];

    /// The name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Format::Pprof => "pprof",
            Format::Heapwise => "heapwise",
            Format::HeapV2 => "heap_v2",
            Format::Gperftools => "gperftools",
            Format::Raw => "raw",
            Format::Folded => "folded",
            Format::Callgrind => "callgrind",
            Format::Speedscope => "speedscope",
            Format::Firefox => "firefox",
            Format::Dhat => "dhat",
            Format::Heaptrack => "heaptrack",
            Format::Memray => "memray",
            Format::Skynet => "skynet",
            Format::Json => "json",
            Format::Csv => "csv",
        }
    }

    /// The format of that name, or of its tool's name for it.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let alias = match name {
            "hwp" => "heapwise",
            "proto" => "pprof",
            "jemalloc" | "heap" => "heap_v2",
            "tcmalloc" => "gperftools",
            "collapsed" => "folded",
            "xtree" => "callgrind",
            "pro" => "skynet",
            other => other,
        };
        Self::ALL.into_iter().find(|format| format.name() == alias)
    }

    /// The format of the ending of a file name.
    #[must_use]
    pub fn of_file_name(name: &str) -> Option<Self> {
        let others = [("callgrind", Format::Callgrind), ("collapsed", Format::Folded)];
        let ends = |ending: &str| name.strip_suffix(ending).is_some_and(|stem| stem.ends_with('.'));
        // The first of two formats with one ending is the usual one; `x.dhat.json` is no `x.json`.
        let known = Self::ALL.into_iter().map(|format| (format.extension(), format)).chain(others);
        known
            .rev()
            .filter(|(ending, _)| ends(ending))
            .max_by_key(|(ending, _)| ending.len())
            .map(|(_, format)| format)
    }

    /// Whether a profile in this format keeps build-ids, so that names can be found later.
    #[must_use]
    pub fn keeps_addresses(self) -> bool {
        matches!(self, Format::Heapwise | Format::HeapV2)
    }

    /// What a file of this format is called after.
    #[must_use]
    pub fn extension(self) -> &'static str {
        match self {
            Format::Pprof => "pb.gz",
            Format::Heapwise => "hwp",
            Format::HeapV2 | Format::Gperftools => "heap",
            Format::Raw => "raw",
            Format::Folded => "folded",
            Format::Callgrind => "kcg",
            Format::Speedscope => "speedscope.json",
            Format::Firefox => "profile.json",
            Format::Dhat => "dhat.json",
            Format::Heaptrack => "heaptrack",
            Format::Memray => "memray.bin",
            Format::Skynet => "pro",
            Format::Json => "json",
            Format::Csv => "csv",
        }
    }
}

/// Writes `profile` as `format`; formats of one metric write `metric`, the others all they can, and
/// pprof opens on `metric`.
///
/// # Errors
/// Those of `out`.
pub fn export(profile: &Profile, format: Format, metric: Metric, out: &mut impl Write) -> io::Result<()> {
    let mut out = BufWriter::new(out);
    match format {
        Format::Pprof => pprof::write(profile, metric, &mut out)?,
        Format::Heapwise => compact::write(profile, &mut out)?,
        Format::HeapV2 => heap_v2::write(profile, &mut out)?,
        Format::Gperftools => gperftools::write(profile, &mut out)?,
        Format::Raw => symbolized::write(profile, &mut out)?,
        Format::Folded => folded::write(profile, metric, &mut out)?,
        Format::Callgrind => callgrind::write(profile, &mut out)?,
        Format::Speedscope => speedscope::write(profile, &mut out)?,
        Format::Firefox => firefox::write(profile, metric, &mut out)?,
        Format::Dhat => dhat::write(profile, &mut out)?,
        Format::Heaptrack => heaptrack::write(profile, &mut out)?,
        Format::Memray => memray::write(profile, &mut out)?,
        Format::Skynet => skynet::write(profile, &mut out)?,
        Format::Json => json::write(profile, &mut out)?,
        Format::Csv => csv::write(profile, &mut out)?,
    }
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_of_file_names() {
        for (name, expected) in [
            ("a.heap", Some(Format::HeapV2)),
            ("dir.pro/a.pro", Some(Format::Skynet)),
            ("a.pb.gz", Some(Format::Pprof)),
            ("a.dhat.json", Some(Format::Dhat)),
            ("a.json", Some(Format::Json)),
            ("a.collapsed", Some(Format::Folded)),
            ("a.txt", None),
            ("pro", None),
        ] {
            assert_eq!(Format::of_file_name(name), expected, "{name}");
        }
        for format in Format::ALL.into_iter().filter(|format| *format != Format::Gperftools) {
            assert_eq!(Format::of_file_name(&format!("x.{}", format.extension())), Some(format));
        }
    }
}
