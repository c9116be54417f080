//! Profiles as the bytes that other tools and the profile store expect.

use std::io::{self, Write};

use heapwise_profile::view::flame::{self as view, Shape};
use heapwise_profile::view::graph::Graph;
use heapwise_profile::{CallTree, Metric, Profile, Query, Sampling};
use heapwise_render::export::{Format, export};
use heapwise_render::flame as render_flame;
use heapwise_render::graph::{self, GraphOptions};

use super::error::{HttpError, Result};

/// jemalloc's text, as `jeprof` fetches it and the profile store keeps it.
pub(super) fn heap_v2(profile: &Profile, most_bytes: usize) -> Result<Vec<u8>> {
    write(profile, Format::HeapV2, Metric::InuseSpace, most_bytes)
}

/// gperftools' text, as `google-pprof` fetches it.
pub(super) fn gperftools(profile: &Profile, most_bytes: usize) -> Result<Vec<u8>> {
    write(profile, Format::Gperftools, Metric::InuseSpace, most_bytes)
}

/// gperftools' text of type `growth`, which readers do not scale: the estimates are already scaled.
pub(super) fn growth(profile: &Profile, most_bytes: usize) -> Result<Vec<u8>> {
    let mut scaled = profile.clone();
    scaled.meta.sampling = Sampling::Exact;
    let text = write(&scaled, Format::Gperftools, Metric::InuseSpace, most_bytes)?;
    let text = String::from_utf8_lossy(&text).into_owned();
    Ok(text.replacen(" @ heapprofile\n", " @ growth\n", 1).into_bytes())
}

/// `profile.proto`, gzipped, opening on live or on allocated bytes.
pub(super) fn pprof(profile: &Profile, allocs: bool, most_bytes: usize) -> Result<Vec<u8>> {
    write(profile, Format::Pprof, if allocs { Metric::AllocSpace } else { Metric::InuseSpace }, most_bytes)
}

/// A profile in the format of another tool.
pub(super) fn write(profile: &Profile, format: Format, metric: Metric, most_bytes: usize) -> Result<Vec<u8>> {
    let mut bytes = LimitedBytes { bytes: Vec::new(), most: most_bytes };
    export(profile, format, metric, &mut bytes).map_err(|_| HttpError::too_large(most_bytes))?;
    Ok(bytes.bytes)
}

/// Bytes in memory, up to a limit.
struct LimitedBytes {
    bytes: Vec<u8>,
    most: usize,
}

impl Write for LimitedBytes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + bytes.len() > self.most {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The call graph as SVG, drawn by our own layout.
pub(super) fn graph_svg(graph: &Graph, program: &str, query: &Query) -> String {
    graph::svg(graph, &GraphOptions::new(program, query))
}

/// The call graph for Graphviz.
pub(super) fn graph_dot(graph: &Graph, program: &str, query: &Query) -> String {
    graph::dot(graph, &GraphOptions::new(program, query))
}

/// The flame graph as an interactive SVG, its root at the top.
pub(super) fn flame_svg(tree: &CallTree, shape: &Shape, program: &str) -> String {
    let flame = view::flame(tree, shape, render_flame::SVG_DETAIL);
    render_flame::svg(&flame, program)
}

/// The same picture in pixels, two for each unit of the SVG.
pub(super) fn flame_png(tree: &CallTree, shape: &Shape, program: &str) -> Result<Vec<u8>> {
    let svg = flame_svg(tree, shape, program);
    heapwise_render::raster::png(&svg, 2.0).map_err(|why| HttpError::failed(why.to_string()))
}
