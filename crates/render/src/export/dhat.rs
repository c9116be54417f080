//! DHAT's JSON, version 2, for `dh_view.html`.
//!
//! Total is all that was allocated, end is what is in use. Where the profile has values at the
//! peak, they are DHAT's t-gmax; else those of the end are. Lifetimes and accesses are unknown.

use std::{
    collections::HashMap,
    io::{self, Write},
};

use heapwise_profile::{Location, LocationId, Profile, metric::column};
use serde::Serialize;

use super::frames::{NamedFrame, natural, of_location};

#[derive(Serialize)]
#[allow(non_snake_case)] // the keys of the format
struct File {
    dhatFileVersion: u32,
    mode: &'static str,
    verb: &'static str,
    bklt: bool,
    bkacc: bool,
    tu: &'static str,
    Mtu: &'static str,
    tuth: u64,
    cmd: String,
    pid: u32,
    tg: u64,
    te: u64,
    pps: Vec<Point>,
    ftbl: Vec<String>,
}

#[derive(Serialize, Default)]
struct Point {
    tb: u64,
    tbk: u64,
    tl: u64,
    mb: u64,
    mbk: u64,
    gb: u64,
    gbk: u64,
    eb: u64,
    ebk: u64,
    fs: Vec<usize>,
}

pub(super) fn write(profile: &Profile, out: &mut dyn Write) -> io::Result<()> {
    let mut table = FrameTable::new(profile);
    let pps = points(profile, &mut table);
    let meta = &profile.meta;
    // dh_view divides by the end time.
    let end_ms = meta.duration_ns.map_or(1, |ns| (ns / 1_000_000).max(1));
    let file = File {
        dhatFileVersion: 2,
        mode: "heap",
        verb: "Allocated",
        bklt: true,
        bkacc: false,
        tu: "ms",
        Mtu: "s",
        tuth: 1,
        cmd: if meta.args.is_empty() { meta.program.clone() } else { meta.args.join(" ") },
        pid: meta.pid.unwrap_or(0),
        tg: end_ms,
        te: end_ms,
        pps,
        ftbl: table.texts,
    };
    serde_json::to_writer(out, &file).map_err(io::Error::from)
}

/// The samples, one point per stack of texts: dh_view rejects a file that contains a stack twice.
fn points(profile: &Profile, table: &mut FrameTable<'_>) -> Vec<Point> {
    let mut points: Vec<Point> = Vec::new();
    let mut known: HashMap<Vec<usize>, usize> = HashMap::new();
    for (row, sample) in profile.samples.iter().enumerate() {
        let stack = profile.stacks.leaf_to_root(sample.stack);
        let fs: Vec<usize> = stack.flat_map(|node| table.rows(profile.stacks.location(node))).collect();
        let at = *known.entry(fs).or_insert_with_key(|fs| {
            points.push(Point { fs: fs.clone(), ..Point::default() });
            points.len() - 1
        });
        points[at].add(profile, row);
    }
    points
}

impl Point {
    fn add(&mut self, profile: &Profile, row: usize) {
        let sample = &profile.samples[row];
        let values = sample.values;
        let (tb, tbk) = (natural(values.alloc_bytes), natural(values.alloc_objects));
        let (eb, ebk) = (natural(values.inuse_bytes), natural(values.inuse_objects));
        let cell = |name: &str| profile.column(name).map(|column| natural(column.values[row]));
        let by_size = |bytes: u64| sample.block_bytes().and_then(|size| bytes.checked_div(size));
        let (gb, gbk) = match cell(column::PEAK_SPACE) {
            Some(gb) => (gb, cell(column::PEAK_OBJECTS).or_else(|| by_size(gb)).unwrap_or(ebk)),
            None => (eb, ebk),
        };
        let mb = cell(column::HIGHEST_SPACE).unwrap_or(0).max(gb).max(eb);
        let mbk = cell(column::HIGHEST_OBJECTS).or_else(|| by_size(mb)).unwrap_or(0).max(gbk).max(ebk);
        // A site cannot have allocated less than it holds; sources without totals have smaller
        // values.
        for (sum, one) in [
            (&mut self.tb, tb.max(mb)),
            (&mut self.tbk, tbk.max(mbk)),
            (&mut self.mb, mb),
            (&mut self.mbk, mbk),
            (&mut self.gb, gb),
            (&mut self.gbk, gbk),
            (&mut self.eb, eb),
            (&mut self.ebk, ebk),
        ] {
            *sum = sum.saturating_add(one);
        }
    }
}

/// Texts of frames; entry 0 is the root of the tree that dh_view draws.
struct FrameTable<'a> {
    profile: &'a Profile,
    texts: Vec<String>,
    known: HashMap<LocationId, Vec<usize>>,
    by_text: HashMap<String, usize>,
}

impl<'a> FrameTable<'a> {
    fn new(profile: &'a Profile) -> Self {
        Self { profile, texts: vec!["[root]".to_owned()], known: HashMap::new(), by_text: HashMap::new() }
    }

    /// The entries of a location, the innermost function first.
    fn rows(&mut self, id: LocationId) -> Vec<usize> {
        if let Some(rows) = self.known.get(&id) {
            return rows.clone();
        }
        let location = &self.profile.locations[id.index()];
        let mut row = |text: String| {
            *self.by_text.entry(text).or_insert_with_key(|text| {
                self.texts.push(text.clone());
                self.texts.len() - 1
            })
        };
        let frames = of_location(self.profile, location);
        let rows: Vec<usize> = frames.iter().map(|frame| row(text(location, frame))).collect();
        self.known.insert(id, rows.clone());
        rows
    }
}

/// `0x1091B1: leaf_a (fixture.c:10)`, as Valgrind writes it.
fn text(location: &Location, frame: &NamedFrame<'_>) -> String {
    let address = location.lookup_address();
    let place = match (frame.file, frame.module) {
        ("", "") => String::new(),
        ("", module) => format!(" (in {module})"),
        (file, _) => format!(" ({file}:{})", frame.line),
    };
    format!("{address:#X}: {}{place}", frame.name).replacen("0X", "0x", 1)
}
