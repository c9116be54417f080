//! Pictures and text in the words of brpc: `display=`, `display_type=`, `extra_options=`.

use heapwise_profile::query::{NameStyle, Order, Query as Question};
use heapwise_profile::view;
use heapwise_profile::{CallTree, Metric, Profile};
use heapwise_render::TextOptions;

use crate::encode;
use crate::http::{Query, Response};
use crate::question::{granularity, pattern, question};
use crate::trouble::{Answer, Trouble};

/// How a profile is shown, in jeprof's vocabulary.
#[derive(Debug, Clone, Default)]
pub(super) struct Options {
    question: Question,
    text: TextOptions,
}

impl Options {
    /// The options of a request: its own parameters, then `extra_options` in jeprof's spelling
    /// (`inuse_objects`, `--lines,--focus=RE`, separated by commas or blanks).
    pub(super) fn of_request(query: &Query) -> Answer<Self> {
        let mut options = Self {
            question: Question { names: NameStyle::Jeprof, ..question(query, &Profile::default())? },
            text: TextOptions::default(),
        };
        let extra = query.given("extra_options").unwrap_or_default();
        for option in extra.split([',', ' ']).filter(|option| !option.is_empty()) {
            options.apply(option.trim_start_matches('-'))?;
        }
        Ok(options)
    }

    fn apply(&mut self, option: &str) -> Answer<()> {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        if let Some(metric) = Metric::SHARED.into_iter().find(|metric| metric.name() == name) {
            self.question.metric = metric;
            return Ok(());
        }
        let filter = &mut self.question.filter;
        match name {
            "cum" => self.question.order = Order::Cum,
            "show_bytes" => self.text.amounts = heapwise_render::Amounts::Bytes,
            "functions" | "lines" | "files" | "addresses" => self.question.granularity = granularity(name)?,
            "focus" => filter.focus = Some(pattern(name, value)?),
            "ignore" => filter.ignore = Some(pattern(name, value)?),
            "retain" => filter.show = Some(pattern(name, value)?),
            "exclude" => filter.hide = Some(pattern(name, value)?),
            "nodecount" => self.question.prune.nodecount = fraction(name, value)? as usize,
            "nodefraction" => self.question.prune.nodefraction = fraction(name, value)?,
            "edgefraction" => self.question.prune.edgefraction = fraction(name, value)?,
            "drop_negative" | "text" | "svg" => {}
            _ => {
                return Err(Trouble::bad(format!(
                    "extra_options: unknown `{name}`; there are inuse_space, inuse_objects, alloc_space, alloc_objects, \
                     cum, show_bytes, functions, lines, files, addresses, focus=, ignore=, retain=, exclude=, \
                     nodecount=, nodefraction=, edgefraction="
                )));
            }
        }
        Ok(())
    }

    fn tree(&self, profile: &Profile, base: Option<&Profile>) -> CallTree {
        CallTree::compare(profile, base, &self.question)
    }
}

fn fraction(name: &str, value: &str) -> Answer<f64> {
    let number = value.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
    number.ok_or_else(|| Trouble::bad(format!("extra_options: {name}={value} is not a number")))
}

/// jeprof's table.
pub(super) fn text(profile: &Profile, base: Option<&Profile>, options: &Options) -> Answer {
    let top = view::top::top(&options.tree(profile, base), &options.question);
    Ok(Response::text(heapwise_render::text::top::top(&top, &options.text)))
}

/// The call graph as SVG.
pub(super) fn graph(profile: &Profile, base: Option<&Profile>, options: &Options) -> Answer {
    let graph = view::graph::graph(&options.tree(profile, base), &options.question);
    Ok(Response::picture(encode::graph_svg(&graph, &profile.meta.program)))
}

/// The call graph for Graphviz.
pub(super) fn dot(profile: &Profile, base: Option<&Profile>, options: &Options) -> Answer {
    let graph = view::graph::graph(&options.tree(profile, base), &options.question);
    Ok(Response::text(encode::graph_dot(&graph, &profile.meta.program)))
}

/// The flame graph as SVG.
pub(super) fn flame(profile: &Profile, base: Option<&Profile>, options: &Options) -> Answer {
    Ok(Response::picture(encode::flame_svg(&options.tree(profile, base), &profile.meta.program)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(query: &str) -> Answer<Options> {
        Options::of_request(&Query::parse(query).unwrap())
    }

    #[test]
    fn extra_options_work() {
        assert_eq!(options("extra_options=inuse_objects").unwrap().question.metric, Metric::InuseObjects);
        let several = options("extra_options=--alloc_space,--lines --focus%3Dmain").unwrap();
        assert_eq!(several.question.metric, Metric::AllocSpace);
        assert_eq!(several.question.filter.focus.unwrap().as_str(), "main");
        assert!(options("extra_options=;rm").is_err());
        assert!(options("extra_options=focus%3D(").is_err());
        assert!(options("extra_options=nodefraction%3DNaN").is_err());
    }
}
