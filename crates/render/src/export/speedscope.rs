//! speedscope's JSON: one profile per metric over shared frames.

use std::{
    collections::HashMap,
    io::{self, Write},
};

use heapwise_profile::{Metric, Profile};
use serde::Serialize;

use super::frames::{FrameList, NamedFrame, whole};

#[derive(Serialize)]
struct File<'a> {
    #[serde(rename = "$schema")]
    schema: &'static str,
    name: &'a str,
    exporter: String,
    #[serde(rename = "activeProfileIndex")]
    active: usize,
    shared: Shared<'a>,
    profiles: Vec<Sampled<'a>>,
}

#[derive(Serialize)]
struct Shared<'a> {
    frames: Vec<Frame<'a>>,
}

#[derive(Serialize)]
struct Frame<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    file: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
}

#[derive(Serialize)]
struct Sampled<'a> {
    r#type: &'static str,
    name: &'static str,
    unit: &'static str,
    #[serde(rename = "startValue")]
    start: i64,
    #[serde(rename = "endValue")]
    end: i64,
    /// Frames from root to leaf; the metrics share the stacks.
    samples: Vec<&'a [u32]>,
    weights: Vec<i64>,
}

/// The metric shown first is the first.
const METRICS: [(Metric, &str); 4] = [
    (Metric::InuseSpace, "bytes"),
    (Metric::InuseObjects, "none"),
    (Metric::AllocSpace, "bytes"),
    (Metric::AllocObjects, "none"),
];

pub(super) fn write(profile: &Profile, out: &mut dyn Write) -> io::Result<()> {
    let list = FrameList::new(profile);
    let mut numbers: HashMap<&NamedFrame<'_>, u32> = HashMap::new();
    let mut frames: Vec<&NamedFrame<'_>> = Vec::new();
    let mut stacks: Vec<Vec<u32>> = Vec::with_capacity(profile.samples.len());
    for sample in &profile.samples {
        let mut number = |frame| {
            *numbers.entry(frame).or_insert_with(|| {
                frames.push(frame);
                u32::try_from(frames.len() - 1).unwrap_or(u32::MAX)
            })
        };
        stacks.push(list.root_to_leaf(sample.stack).into_iter().map(&mut number).collect());
    }
    let file = File {
        schema: "https://www.speedscope.app/file-format-schema.json",
        name: &profile.meta.program,
        exporter: format!("heapwise@{}", env!("CARGO_PKG_VERSION")),
        active: 0,
        shared: Shared { frames: frames.iter().map(|frame| shared_frame(frame)).collect() },
        profiles: METRICS.into_iter().map(|(metric, unit)| sampled(profile, &stacks, metric, unit)).collect(),
    };
    serde_json::to_writer(out, &file).map_err(io::Error::from)
}

fn shared_frame<'a>(frame: &'a NamedFrame<'_>) -> Frame<'a> {
    Frame { name: &frame.name, file: frame.file, line: Some(frame.line).filter(|line| *line != 0) }
}

fn sampled<'a>(profile: &Profile, stacks: &'a [Vec<u32>], metric: Metric, unit: &'static str) -> Sampled<'a> {
    let mut samples = Vec::new();
    let mut weights = Vec::new();
    for (sample, stack) in profile.samples.iter().zip(stacks) {
        // speedscope has no negative weights.
        let weight = whole(sample.values.get(metric)).max(0);
        if weight > 0 {
            samples.push(stack.as_slice());
            weights.push(weight);
        }
    }
    Sampled {
        r#type: "sampled",
        name: metric.name(),
        unit,
        start: 0,
        end: weights.iter().fold(0, |sum: i64, weight| sum.saturating_add(*weight)),
        samples,
        weights,
    }
}
