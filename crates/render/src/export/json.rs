//! heapwise's own JSON of a whole profile: frames once, samples with stacks of frame numbers
//! (schema: docs/FORMATS.md). Numbers are integers, in bytes or blocks.

use std::io::{self, Write};

use heapwise_profile::coverage::Coverage;
use heapwise_profile::{LocationId, Profile, Sampling, SizeBin};
use serde::Serialize;
use serde_json::{Map, Value};

use super::frames::{FrameList, whole};
use crate::json::coverage;
use crate::json::missing::{self, lost};

#[derive(Serialize)]
struct File<'a> {
    format: &'static str,
    version: u32,
    program: &'a str,
    args: &'a [String],
    pid: Option<u32>,
    source: &'a str,
    /// Mean distance of samples in bytes; 0 when every allocation was recorded.
    sampling_bytes: u64,
    time_unix_ns: Option<u64>,
    duration_ns: Option<u64>,
    peak_bytes: Option<u64>,
    /// A counter per reason something was missed.
    lost: Map<String, Value>,
    /// Four numbers per table that had no room.
    unattributed: Map<String, Value>,
    /// What the numbers cover, and what is missing.
    coverage: Value,
    comments: &'a [String],
    modules: Vec<Module<'a>>,
    threads: Vec<Thread<'a>>,
    frames: Vec<Frame<'a>>,
    samples: Vec<Sample>,
    /// Blocks of the whole process by size; empty when samples carry the sizes.
    sizes: Vec<SizeClass>,
}

#[derive(Serialize)]
struct Module<'a> {
    path: &'a str,
    build_id: String,
    start: u64,
    end: u64,
    file_offset: u64,
}

#[derive(Serialize)]
struct Thread<'a> {
    tid: u64,
    name: &'a str,
}

#[derive(Serialize)]
struct Frame<'a> {
    name: &'a str,
    file: &'a str,
    line: u32,
    module: Option<u32>,
    address: u64,
    inlined: bool,
}

#[derive(Serialize)]
struct Sample {
    /// Frame numbers from root to leaf.
    stack: Vec<usize>,
    thread: Option<u32>,
    block_bytes: Option<u64>,
    min_bytes: Option<u64>,
    max_bytes: Option<u64>,
    alloc_objects: i64,
    alloc_bytes: i64,
    inuse_objects: i64,
    inuse_bytes: i64,
    /// Standard error of `inuse_bytes`; 0 when exact.
    inuse_bytes_error: i64,
    #[serde(flatten)]
    extra: Map<String, Value>,
}

#[derive(Serialize)]
struct SizeClass {
    min: u64,
    max: u64,
    #[serde(flatten)]
    values: Map<String, Value>,
}

pub(super) fn write(profile: &Profile, out: &mut dyn Write) -> io::Result<()> {
    let list = FrameList::new(profile);
    let (frames, starts) = frames(profile, &list);
    let meta = &profile.meta;
    let file = File {
        format: "heapwise",
        version: 2,
        program: &meta.program,
        args: &meta.args,
        pid: meta.pid,
        source: &meta.source,
        sampling_bytes: match meta.sampling {
            Sampling::Exact => 0,
            Sampling::Poisson { mean_bytes } => mean_bytes,
        },
        time_unix_ns: meta.time_unix_ns,
        duration_ns: meta.duration_ns,
        peak_bytes: meta.peak_bytes,
        lost: lost(&meta.losses),
        unattributed: missing::per_cause(profile),
        coverage: coverage::coverage(&Coverage::of(profile)),
        comments: &meta.comments,
        modules: profile.modules.iter().map(module).collect(),
        threads: profile.threads.iter().map(|one| Thread { tid: one.tid, name: &one.name }).collect(),
        frames,
        samples: (0..profile.samples.len()).map(|row| sample(profile, row, &starts)).collect(),
        sizes: profile.sizes.bins.iter().map(size_class).collect(),
    };
    serde_json::to_writer(out, &file).map_err(io::Error::from)
}

fn size_class(bin: &SizeBin) -> SizeClass {
    SizeClass { min: bin.range.min, max: bin.range.max, values: missing::four(&bin.values) }
}

fn module(module: &heapwise_profile::Module) -> Module<'_> {
    Module {
        path: &module.path,
        build_id: module.build_id.to_string(),
        start: module.start,
        end: module.end,
        file_offset: module.file_offset,
    }
}

/// The frames of all locations, each location's outermost first, and where each location begins.
fn frames<'a>(profile: &'a Profile, list: &'a FrameList<'a>) -> (Vec<Frame<'a>>, Vec<usize>) {
    let mut frames = Vec::new();
    let mut starts = vec![0];
    for (row, location) in profile.locations.iter().enumerate() {
        let at = list.at(LocationId::new(row));
        frames.extend(at.iter().rev().enumerate().map(|(depth, frame)| Frame {
            name: &frame.name,
            file: frame.file,
            line: frame.line,
            module: location.module.map(|id| id.0),
            address: location.lookup_address(),
            inlined: depth > 0,
        }));
        starts.push(frames.len());
    }
    (frames, starts)
}

fn sample(profile: &Profile, row: usize, starts: &[usize]) -> Sample {
    let sample = &profile.samples[row];
    let mut nodes: Vec<_> = profile.stacks.leaf_to_root(sample.stack).collect();
    nodes.reverse();
    let frames_of = |node| {
        let location = profile.stacks.location(node).index();
        starts[location]..starts[location + 1]
    };
    let extra = |column: &heapwise_profile::model::ExtraColumn| {
        (column.name.clone(), Value::from(whole(column.values[row])))
    };
    Sample {
        stack: nodes.into_iter().flat_map(frames_of).collect(),
        thread: sample.thread.map(|id| id.0),
        block_bytes: sample.block_bytes(),
        min_bytes: sample.sizes.map(|sizes| sizes.min),
        max_bytes: sample.sizes.map(|sizes| sizes.max),
        alloc_objects: whole(sample.values.alloc_objects),
        alloc_bytes: whole(sample.values.alloc_bytes),
        inuse_objects: whole(sample.values.inuse_objects),
        inuse_bytes: whole(sample.values.inuse_bytes),
        inuse_bytes_error: whole(sample.variance.inuse_bytes.max(0.0).sqrt()),
        extra: profile.extra.iter().map(extra).collect(),
    }
}
