//! pprof's `profile.proto`, as Go writes heap profiles: four sample types, in use the default, and
//! behind them one for each further column.

use std::{
    collections::HashMap,
    io::{self, Write},
};

use flate2::{Compression, write::GzEncoder};
use heapwise_profile::{Metric, Profile, Sampling, StackId, metric::Unit, pprof_proto as proto};
use prost::Message;

use super::frames::{COVERAGE_COMMENT, coverage_comment, whole};

pub(super) fn write(profile: &Profile, opens_on: Metric, out: &mut dyn Write) -> io::Result<()> {
    let mut encoder = GzEncoder::new(out, Compression::default());
    encoder.write_all(&message(profile, opens_on).encode_to_vec())?;
    encoder.finish()?;
    Ok(())
}

fn message(profile: &Profile, opens_on: Metric) -> proto::Profile {
    let mut strings = Strings::default();
    strings.id("");
    let mut message = proto::Profile {
        sample_type: sample_types(profile, &mut strings),
        mapping: mappings(profile, &mut strings),
        location: locations(profile),
        function: functions(profile, &mut strings),
        ..proto::Profile::default()
    };
    message.sample = samples(profile, &mut strings);
    let opens_on = match opens_on {
        Metric::Extra(column) => profile.extra.get(usize::from(column)).map(|column| column.name.as_str()),
        shared => Some(shared.name()),
    };
    message.default_sample_type = strings.id(opens_on.unwrap_or(Metric::InuseSpace.name()));
    message.period_type = Some(proto::ValueType { r#type: strings.id("space"), unit: strings.id("bytes") });
    message.period = match profile.meta.sampling {
        Sampling::Exact => 1,
        Sampling::Poisson { mean_bytes } => mean_bytes.cast_signed(),
    };
    message.time_nanos = profile.meta.time_unix_ns.unwrap_or(0).cast_signed();
    message.duration_nanos = profile.meta.duration_ns.unwrap_or(0).cast_signed();
    message.comment = comments(profile).iter().map(|comment| strings.id(comment)).collect();
    message.string_table = strings.texts;
    message
}

/// Texts by number, in order of first use.
#[derive(Default)]
struct Strings {
    texts: Vec<String>,
    by_text: HashMap<String, i64>,
}

impl Strings {
    fn id(&mut self, text: &str) -> i64 {
        if let Some(id) = self.by_text.get(text) {
            return *id;
        }
        let id = i64::try_from(self.texts.len()).unwrap_or(0);
        self.texts.push(text.to_owned());
        self.by_text.insert(text.to_owned(), id);
        id
    }
}

fn sample_types(profile: &Profile, strings: &mut Strings) -> Vec<proto::ValueType> {
    let shared = Metric::SHARED.into_iter().map(|metric| match metric {
        Metric::AllocObjects | Metric::InuseObjects => (metric.name(), Unit::Objects),
        _ => (metric.name(), Unit::Bytes),
    });
    let extra = profile.extra.iter().map(|column| (column.name.as_str(), column.unit));
    let mut kind = |(name, unit)| {
        let unit = match unit {
            Unit::Objects => "count",
            Unit::Bytes => "bytes",
        };
        proto::ValueType { r#type: strings.id(name), unit: strings.id(unit) }
    };
    shared.chain(extra).map(&mut kind).collect()
}

/// Ids are rows counted from 1. A flag is true where it holds for all locations of a mapping: where
/// one is false, pprof looks up symbols itself.
fn mappings(profile: &Profile, strings: &mut Strings) -> Vec<proto::Mapping> {
    let mut mappings: Vec<proto::Mapping> = profile
        .modules
        .iter()
        .zip(1..)
        .map(|(module, id)| proto::Mapping {
            id,
            memory_start: module.start,
            memory_limit: module.end,
            file_offset: module.file_offset,
            filename: strings.id(&module.path),
            build_id: strings.id(&module.build_id.to_string()),
            has_functions: true,
            has_filenames: true,
            has_line_numbers: true,
            has_inline_frames: true,
        })
        .collect();
    let mut has_locations = vec![false; mappings.len()];
    for location in &profile.locations {
        let Some(module) = location.module else { continue };
        has_locations[module.index()] = true;
        let mapping = &mut mappings[module.index()];
        let file_known =
            location.lines.iter().any(|line| !profile.functions[line.function.index()].file.is_empty());
        mapping.has_functions &= !location.lines.is_empty();
        mapping.has_filenames &= file_known;
        mapping.has_line_numbers &= location.lines.iter().any(|line| line.line != 0);
        mapping.has_inline_frames &= file_known;
    }
    for (mapping, used) in mappings.iter_mut().zip(has_locations) {
        mapping.has_functions &= used;
        mapping.has_filenames &= used;
        mapping.has_line_numbers &= used;
        mapping.has_inline_frames &= used;
    }
    put_program_first(profile, &mut mappings);
    mappings
}

/// The first mapping is the main binary to pprof; ids are not positions.
fn put_program_first(profile: &Profile, mappings: &mut [proto::Mapping]) {
    let program = profile.meta.program.rsplit('/').next().unwrap_or("");
    if let Some(main) = profile.modules.iter().position(|module| module.name() == program) {
        mappings[..=main].rotate_right(1);
    }
}

fn locations(profile: &Profile) -> Vec<proto::Location> {
    let line = |line: &heapwise_profile::Line| proto::Line {
        function_id: line.function.index() as u64 + 1,
        line: line.line.into(),
        column: 0,
    };
    profile
        .locations
        .iter()
        .zip(1..)
        .map(|(location, id)| proto::Location {
            id,
            mapping_id: location.module.map_or(0, |module| module.index() as u64 + 1),
            address: location.lookup_address(),
            line: location.lines.iter().map(line).collect(),
            is_folded: false,
        })
        .collect()
}

fn functions(profile: &Profile, strings: &mut Strings) -> Vec<proto::Function> {
    profile
        .functions
        .iter()
        .zip(1..)
        .map(|(function, id)| proto::Function {
            id,
            name: strings.id(&function.name),
            system_name: strings.id(&function.system_name),
            filename: strings.id(&function.file),
            start_line: function.start_line.into(),
        })
        .collect()
}

fn samples(profile: &Profile, strings: &mut Strings) -> Vec<proto::Sample> {
    let location_id = |node: StackId| profile.stacks.location(node).index() as u64 + 1;
    profile
        .samples
        .iter()
        .enumerate()
        .map(|(row, sample)| proto::Sample {
            location_id: profile.stacks.leaf_to_root(sample.stack).map(location_id).collect(),
            value: Metric::SHARED
                .into_iter()
                .map(|metric| whole(sample.values.get(metric)))
                .chain(profile.extra.iter().map(|column| whole(column.values[row])))
                .collect(),
            label: labels(profile, sample, strings),
        })
        .collect()
}

/// `bytes` keeps block sizes apart, as in Go's profiles, `min_bytes` and `max_bytes` are those of
/// mixed sizes; `thread` and `thread_id` are pprof's usual.
fn labels(profile: &Profile, sample: &heapwise_profile::Sample, strings: &mut Strings) -> Vec<proto::Label> {
    let mut labels = Vec::new();
    let sizes = match sample.sizes.map(|sizes| (sizes.single(), sizes)) {
        None => Vec::new(),
        Some((Some(size), _)) => vec![("bytes", size)],
        Some((None, sizes)) => vec![("min_bytes", sizes.min), ("max_bytes", sizes.max)],
    };
    for (key, bytes) in sizes {
        let (key, num, num_unit) = (strings.id(key), bytes.cast_signed(), strings.id("bytes"));
        labels.push(proto::Label { key, num, num_unit, ..proto::Label::default() });
    }
    if let Some(thread) = sample.thread.map(|id| &profile.threads[id.index()]) {
        let (key, num) = (strings.id("thread_id"), thread.tid.cast_signed());
        labels.push(proto::Label { key, num, ..proto::Label::default() });
        if !thread.name.is_empty() {
            let (key, str) = (strings.id("thread"), strings.id(&thread.name));
            labels.push(proto::Label { key, str, ..proto::Label::default() });
        }
    }
    labels
}

/// The profile's own remarks, and the facts that qualify its numbers.
fn comments(profile: &Profile) -> Vec<String> {
    let meta = &profile.meta;
    // A file that was read from this format has ours of then.
    let is_ours = |comment: &&String| {
        comment.starts_with(COVERAGE_COMMENT) || comment.contains(", written by heapwise ")
    };
    let mut comments: Vec<String> =
        meta.comments.iter().filter(|comment| !is_ours(comment)).cloned().collect();
    comments.push(format!("{}, written by heapwise {}", meta.source, env!("CARGO_PKG_VERSION")));
    comments.push(coverage_comment(profile));
    comments
}
