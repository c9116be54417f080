//! Pictures and text in the words of brpc: `display=`, `display_type=`, `extra_options=`.

use heapwise_profile::query::{Granularity, NameStyle, Order, Query, QuerySpec};
use heapwise_profile::view;
use heapwise_profile::view::flame::Shape;
use heapwise_profile::{CallTree, Metric, Profile};
use heapwise_render::TextOptions;

use crate::encode;
use crate::error::{HttpError, Result};
use crate::http::{QueryString, Response};
use crate::query_params::query_spec;

/// How a profile is shown, in jeprof's vocabulary.
#[derive(Debug, Clone, Default)]
pub(super) struct Options {
    query: Query,
    text: TextOptions,
}

impl Options {
    /// The options of a request: its own parameters, then `extra_options` in jeprof's spelling
    /// (`inuse_objects`, `--lines,--focus=RE`, separated by commas or blanks).
    pub(super) fn of_request(query: &QueryString) -> Result<Self> {
        let mut spec = QuerySpec { names: NameStyle::Jeprof, ..query_spec(query)? };
        let mut text = TextOptions::default();
        let extra = query.given("extra_options").unwrap_or_default();
        for option in extra.split([',', ' ']).filter(|option| !option.is_empty()) {
            apply(option.trim_start_matches('-'), &mut spec, &mut text)?;
        }
        Ok(Self { query: spec.resolve(&Profile::default())?, text })
    }

    fn tree(&self, profile: &Profile, base: Option<&Profile>) -> CallTree {
        CallTree::compare(profile, base, &self.query)
    }
}

/// Applies one of `extra_options`.
fn apply(option: &str, spec: &mut QuerySpec, text: &mut TextOptions) -> Result<()> {
    let (name, value) = option.split_once('=').unwrap_or((option, ""));
    if Metric::SHARED.into_iter().any(|metric| metric.name() == name) {
        spec.metric = Some(name.to_owned());
        return Ok(());
    }
    let value_of = || Some(value.to_owned());
    match name {
        "cum" => spec.order = Order::Cum,
        "show_bytes" => text.amounts = heapwise_render::Amounts::Bytes,
        "functions" | "lines" | "files" | "addresses" => {
            spec.granularity = Some(Granularity::from_name(name)?)
        }
        "focus" => spec.focus = value_of(),
        "ignore" => spec.ignore = value_of(),
        "retain" => spec.show = value_of(),
        "exclude" => spec.hide = value_of(),
        "nodecount" => spec.prune.nodecount = fraction(name, value)? as usize,
        "nodefraction" => spec.prune.nodefraction = fraction(name, value)?,
        "edgefraction" => spec.prune.edgefraction = fraction(name, value)?,
        "drop_negative" | "text" | "svg" => {}
        _ => {
            return Err(HttpError::bad(format!(
                "extra_options: unknown `{name}`; there are inuse_space, inuse_objects, alloc_space, alloc_objects, \
                     cum, show_bytes, functions, lines, files, addresses, focus=, ignore=, retain=, exclude=, \
                     nodecount=, nodefraction=, edgefraction="
            )));
        }
    }
    Ok(())
}

fn fraction(name: &str, value: &str) -> Result<f64> {
    let number = value.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
    number.ok_or_else(|| HttpError::bad(format!("extra_options: {name}={value} is not a number")))
}

/// jeprof's table.
pub(super) fn text(profile: &Profile, base: Option<&Profile>, options: &Options) -> Result {
    let top = view::top::top(&options.tree(profile, base), &options.query);
    // Scripts know jeprof's layout: one more line only where something is missing, or is zero.
    let coverage = !top.totals.coverage.is_complete();
    Ok(Response::text(heapwise_render::text::top::top(&top, &TextOptions { coverage, ..options.text })))
}

/// The call graph as SVG.
pub(super) fn graph(profile: &Profile, base: Option<&Profile>, options: &Options) -> Result {
    let graph = view::graph::graph(&options.tree(profile, base), &options.query);
    Ok(Response::picture(encode::graph_svg(&graph, &profile.meta.program, &options.query)))
}

/// The call graph for Graphviz.
pub(super) fn dot(profile: &Profile, base: Option<&Profile>, options: &Options) -> Result {
    let graph = view::graph::graph(&options.tree(profile, base), &options.query);
    Ok(Response::text(encode::graph_dot(&graph, &profile.meta.program, &options.query)))
}

/// The flame graph as SVG.
pub(super) fn flame(profile: &Profile, base: Option<&Profile>, options: &Options) -> Result {
    Ok(Response::picture(encode::flame_svg(
        &options.tree(profile, base),
        &Shape::TopDown,
        &profile.meta.program,
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(query: &str) -> Result<Options> {
        Options::of_request(&QueryString::parse(query).unwrap())
    }

    #[test]
    fn extra_options_work() {
        assert_eq!(options("extra_options=inuse_objects").unwrap().query.metric, Metric::InuseObjects);
        let several = options("extra_options=--alloc_space,--lines --focus%3Dmain").unwrap();
        assert_eq!(several.query.metric, Metric::AllocSpace);
        assert_eq!(several.query.filter.focus.unwrap().as_str(), "main");
        assert!(options("extra_options=;rm").is_err());
        assert!(options("extra_options=focus%3D(").is_err());
        assert!(options("extra_options=nodefraction%3DNaN").is_err());
    }
}
