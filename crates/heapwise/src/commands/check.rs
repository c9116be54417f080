//! `check`: a gate for CI. Exit status 1 when a limit does not hold.

use clap::Args;
use heapwise_profile::query::Regex;
use heapwise_profile::{CallTree, Metric, Query};

use super::leaks::KnownArgs;
use crate::failure::{Failure, Outcome};
use crate::input_error;
use crate::report_input::ReportOptions;
use heapwise_capture::report_input::Report;
use heapwise_profile::quantity::{self, parse_bytes};

/// Options of `check`.
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// Profile to check
    #[arg(value_name = "FILE|PID")]
    target: String,
    #[command(flatten)]
    options: ReportOptions,
    /// Fail if the peak of live bytes exceeds this
    #[arg(long = "max-peak", value_name = "BYTES", value_parser = parse_bytes)]
    max_peak: Option<u64>,
    /// Fail if live bytes at the end exceed this
    #[arg(long = "max-leaked", value_name = "BYTES", value_parser = parse_bytes)]
    max_leaked: Option<u64>,
    /// Fail if more blocks were allocated
    #[arg(long = "max-allocs", value_name = "N")]
    max_allocs: Option<u64>,
    /// Fail if live bytes exceed the baseline by more than this
    #[arg(long = "max-growth", value_name = "BYTES", value_parser = parse_bytes, requires = "base")]
    max_growth: Option<u64>,
    /// Drop stacks with a matching frame (known leaks)
    #[arg(long = "allow", value_name = "RE")]
    allow: Option<Regex>,
    #[command(flatten)]
    known: KnownArgs,
}

/// One limit and what was measured.
struct Limit {
    name: &'static str,
    most: Option<u64>,
    found: f64,
    is_bytes: bool,
}

/// Checks every limit given; the first that does not hold names the culprit.
pub(crate) fn run(args: &CheckArgs) -> Outcome {
    let limits_given =
        [args.max_peak, args.max_leaked, args.max_allocs, args.max_growth].iter().flatten().count();
    if limits_given == 0 {
        return Err(input_error!(
            "nothing to check; give --max-peak, --max-leaked, --max-allocs or --max-growth"
        ));
    }
    let mut report = args.options.load(std::slice::from_ref(&args.target))?;
    report.query.filter.ignore = args.allow.clone().or(report.query.filter.ignore);
    let allocations = total(&report, Metric::AllocObjects, false);
    args.known.remove_known(&mut report)?;
    let peak = report.profile.meta.peak_bytes;
    if args.max_peak.is_some() && peak.is_none() {
        return Err(input_error!("{}: this profile does not know its peak", args.target));
    }
    let limits = [
        Limit { name: "peak", most: args.max_peak, found: peak.unwrap_or(0) as f64, is_bytes: true },
        Limit {
            name: "still live",
            most: args.max_leaked,
            found: total(&report, Metric::InuseSpace, false),
            is_bytes: true,
        },
        Limit { name: "allocations", most: args.max_allocs, found: allocations, is_bytes: false },
        Limit {
            name: "growth",
            most: args.max_growth,
            found: total(&report, Metric::InuseSpace, true),
            is_bytes: true,
        },
    ];
    print_limits(&args.target, &limits)
}

fn total(report: &Report, metric: Metric, with_base: bool) -> f64 {
    let query = Query { metric, ..report.query.clone() };
    let base = report.baseline.as_deref().filter(|_| with_base);
    CallTree::compare(&report.profile, base, &query).total().value
}

fn print_limits(target: &str, limits: &[Limit]) -> Outcome {
    let amount = |limit: &Limit, value: f64| {
        if limit.is_bytes { quantity::bytes(value) } else { format!("{value:.0}") }
    };
    let mut broken = Vec::new();
    for limit in limits {
        let Some(most) = limit.most else { continue };
        let holds = limit.found <= most as f64;
        println!(
            "{}  {:<12} {} (limit {})",
            if holds { "ok  " } else { "FAIL" },
            limit.name,
            amount(limit, limit.found),
            amount(limit, most as f64)
        );
        if !holds {
            broken.push(limit.name);
        }
    }
    match broken.is_empty() {
        true => Ok(()),
        false => Err(Failure::Gate(format!(
            "{target}: over the limit: {}; show them with: heapwise leaks {target}",
            broken.join(", ")
        ))),
    }
}
