//! Profiles as the bytes that other tools and the profile store expect.

use heapwise_profile::view::flame::{self as view, Shape};
use heapwise_profile::view::graph::Graph;
use heapwise_profile::{CallTree, Metric, Profile, Query, Sampling};
use heapwise_render::export::{Format, export};
use heapwise_render::flame as render_flame;
use heapwise_render::graph::{self, GraphOptions};

/// jemalloc's text, as `jeprof` fetches it and the profile store keeps it.
pub(super) fn heap_v2(profile: &Profile) -> Vec<u8> {
    write(profile, Format::HeapV2, Metric::InuseSpace)
}

/// heapwise's own format, without loss.
pub(super) fn heapwise(profile: &Profile) -> Vec<u8> {
    write(profile, Format::Heapwise, Metric::InuseSpace)
}

/// gperftools' text, as `google-pprof` fetches it.
pub(super) fn gperftools(profile: &Profile) -> Vec<u8> {
    write(profile, Format::Gperftools, Metric::InuseSpace)
}

/// gperftools' text of type `growth`, which readers do not scale: the estimates are already scaled.
pub(super) fn growth(profile: &Profile) -> Vec<u8> {
    let mut scaled = profile.clone();
    scaled.meta.sampling = Sampling::Exact;
    let text = String::from_utf8_lossy(&write(&scaled, Format::Gperftools, Metric::InuseSpace)).into_owned();
    text.replacen(" @ heapprofile\n", " @ growth\n", 1).into_bytes()
}

/// `profile.proto`, gzipped, opening on live or on allocated bytes.
pub(super) fn pprof(profile: &Profile, allocs: bool) -> Vec<u8> {
    write(profile, Format::Pprof, if allocs { Metric::AllocSpace } else { Metric::InuseSpace })
}

fn write(profile: &Profile, format: Format, metric: Metric) -> Vec<u8> {
    let mut bytes = Vec::new();
    export(profile, format, metric, &mut bytes).expect("a Vec takes everything");
    bytes
}

/// The call graph as SVG, drawn by our own layout.
pub(super) fn graph_svg(graph: &Graph, program: &str, query: &Query) -> String {
    graph::svg(graph, &GraphOptions::new(program, query))
}

/// The call graph for Graphviz.
pub(super) fn graph_dot(graph: &Graph, program: &str, query: &Query) -> String {
    graph::dot(graph, &GraphOptions::new(program, query))
}

/// The flame graph as an interactive SVG, callers at the top.
pub(super) fn flame_svg(tree: &CallTree, program: &str) -> String {
    let flame = view::flame(tree, &Shape::TopDown, render_flame::SVG_MIN_SHARE);
    render_flame::svg(&flame, program)
}
