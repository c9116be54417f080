//! `check`: a gate for CI. Exit status 1 when a limit does not hold, 3 when what is missing in the
//! profile may hide that it does not.

use clap::Args;
use heapwise_profile::bounds::{self, Bounds, LimitCheck};
use heapwise_profile::coverage::Coverage;
use heapwise_profile::query::Regex;
use heapwise_profile::{Metric, Query};
use heapwise_render::coverage;

use super::leaks::KnownArgs;
use crate::console;
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
    #[arg(long = "allow", value_name = "RE", help_heading = "Filter options")]
    allow: Option<Regex>,
    #[command(flatten)]
    known: KnownArgs,
}

/// One limit and what was measured.
struct Limit {
    name: &'static str,
    most: Option<u64>,
    found: Bounds,
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
    let allocations = total(&report, Metric::AllocObjects, false, false);
    args.known.remove_known(&mut report)?;
    let peak = bounds::of_peak(&report.profile);
    if args.max_peak.is_some() && peak.is_none() {
        return Err(input_error!("{}: this profile does not know its peak", args.target));
    }
    let limits = [
        Limit {
            name: "peak",
            most: args.max_peak,
            found: peak.unwrap_or(Bounds { low: 0.0, found: 0.0, high: 0.0 }),
            is_bytes: true,
        },
        Limit {
            name: "still live",
            most: args.max_leaked,
            found: total(&report, Metric::InuseSpace, false, true),
            is_bytes: true,
        },
        Limit { name: "allocations", most: args.max_allocs, found: allocations, is_bytes: false },
        Limit {
            name: "growth",
            most: args.max_growth,
            found: total(&report, Metric::InuseSpace, true, true),
            is_bytes: true,
        },
    ];
    print_limits(&args.target, &limits, &coverage::line(&Coverage::of(&report.profile), console::language()))
}

/// `is_part`: known stacks were taken out of the profile.
fn total(report: &Report, metric: Metric, with_base: bool, is_part: bool) -> Bounds {
    let query = Query { metric, ..report.query.clone() };
    let base = report.baseline.as_deref().filter(|_| with_base);
    bounds::of_total(&report.profile, base, &query, is_part)
}

fn print_limits(target: &str, limits: &[Limit], covered: &str) -> Outcome {
    let amount = |limit: &Limit, value: f64| {
        if limit.is_bytes { quantity::bytes(value) } else { format!("{value:.0}") }
    };
    let (mut broken, mut unknown) = (Vec::new(), Vec::new());
    for limit in limits {
        let Some(most) = limit.most else { continue };
        let result = limit.found.against(most as f64);
        let word = match result {
            LimitCheck::Kept => "ok  ",
            LimitCheck::Broken => "FAIL",
            LimitCheck::Unknown => "?   ",
        };
        let (found, most) = (amount(limit, limit.found.found), amount(limit, most as f64));
        say!("{word}  {:<12} {found} (limit {most})", limit.name);
        match result {
            LimitCheck::Kept => {}
            LimitCheck::Broken => broken.push(limit.name),
            LimitCheck::Unknown => {
                let is_bounded = limit.found.high.is_finite();
                let high = if is_bounded { amount(limit, limit.found.high) } else { "any amount".into() };
                say!("      cannot tell: with what is missing or not attributed it may be up to {high}");
                unknown.push(limit.name);
            }
        }
    }
    say!("covers {covered}");
    let failure = |kind: fn(String) -> Failure, what: &str, names: &[&str]| {
        Err(kind(format!("{target}: {what}: {}; show them with: heapwise leaks {target}", names.join(", "))))
    };
    match (broken.as_slice(), unknown.as_slice()) {
        ([], []) => Ok(()),
        ([], unknown) => failure(Failure::Undecided, "cannot tell", unknown),
        (broken, _) => failure(Failure::Gate, "over the limit", broken),
    }
}
