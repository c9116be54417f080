//! `jeprof [options] PROG PROFILE…`: the options, output modes and prompt its users know.
//!
//! Text is equal to the byte wherever jeprof is right; docs/from-jeprof.md lists where it is not.

mod disasm;
mod interactive;
pub(crate) mod options;
mod remote;
mod report;

use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use heapwise_capture::report_input::{Report, ReportInput};
use heapwise_capture::target::Target;
use heapwise_profile::coverage::Coverage;
use heapwise_profile::own_code::OwnRule;
use heapwise_profile::{Began, Profile, Query};

use crate::console;
use crate::failure::{Failure, Outcome};
use crate::progress_bar::ReadArgs;
use crate::report_input::load_target;
use crate::symbols::SymbolArgs;
use crate::{input_error, symbol_warnings, warnings};
use options::{Mode, Options, Request};

const USAGE: &str = include_str!("jeprof/usage.txt");

/// Runs the tool.
pub(crate) fn run(arguments: Vec<OsString>) -> Outcome<ExitCode> {
    let arguments: Vec<String> =
        arguments.iter().skip(1).map(|argument| argument.to_string_lossy().into_owned()).collect();
    match options::parse(&arguments, std::io::stdout().is_terminal())? {
        Request::Help => console::text(&mut std::io::stdout(), USAGE),
        Request::Version => say!("jeprof (heapwise {})", env!("CARGO_PKG_VERSION")),
        Request::Report(options) if matches!(options.mode, Mode::Symbols) => report::symbols(&options)?,
        Request::Report(options) => {
            let input = load(&options)?;
            match &options.mode {
                Mode::Interactive => interactive::run(&options, &input)?,
                _ => report::write(&options, &input)?,
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// What a report is made of.
#[derive(Debug, Clone)]
pub(crate) struct Input {
    /// The program, from the command line or the server.
    pub program: String,
    /// The profiles, added up, less `--base`, with symbols.
    pub profile: Arc<Profile>,
    /// The query, for all threads together.
    pub query: Query,
    /// Where binaries are.
    pub symbols: SymbolArgs,
}

/// Where jeprof reads a profile from.
enum JeprofTarget {
    Local(Target),
    Remote(remote::Location),
}

impl JeprofTarget {
    fn parse(name: &str) -> Outcome<Self> {
        match remote::Location::parse(name) {
            Some(location) => Ok(JeprofTarget::Remote(location)),
            None => local(name).map(JeprofTarget::Local),
        }
    }

    fn load(&self, options: &Options, symbols: &SymbolArgs) -> Outcome<Arc<Profile>> {
        match self {
            JeprofTarget::Local(target) => load_target(target, &ReadArgs::default(), symbols),
            JeprofTarget::Remote(location) => {
                let mut profile = location.fetch(options.seconds)?;
                symbols.symbolize(&mut profile);
                symbol_warnings::print(&profile, symbols);
                Ok(Arc::new(profile))
            }
        }
    }
}

fn load(options: &Options) -> Outcome<Input> {
    let (program, names) = operands(options)?;
    let symbols = SymbolArgs {
        program: program.clone().filter(|program| program.is_file()),
        debug_path: options.lib_prefix.iter().flat_map(|list| list.split(',')).map(PathBuf::from).collect(),
        bare_addresses: true,
        ..SymbolArgs::default()
    };
    let input = ReportInput {
        targets: names.iter().map(|name| JeprofTarget::parse(name)).collect::<Outcome<_>>()?,
        baseline: options.base.as_deref().map(local).transpose()?.map(JeprofTarget::Local),
        query: options.query.clone(),
    };
    let load = |target: &JeprofTarget| target.load(options, &symbols);
    let profiles = input.targets.iter().map(load).collect::<Outcome<_>>()?;
    let baseline = input.baseline.as_ref().map(load).transpose()?;
    let Report { profile, baseline, query, .. } =
        Report::new(profiles, baseline, &input.query, OwnRule::default())?;
    let coverage = Coverage::of(&profile);
    // Foreign files have nothing more to say than jeprof itself does.
    if coverage.began != Began::Unknown || !coverage.gaps.is_empty() {
        warnings::coverage(&coverage);
    }
    // Subtracted here, not compared: jeprof's percentages refer to the difference.
    let profile = match baseline {
        Some(base) if options.drop_negative => Arc::new(without_shrinkage(&profile, &base)),
        Some(base) => Arc::new(heapwise_profile::diff::subtract(&profile, &base)),
        None => profile,
    };
    let program = program.map_or_else(|| profile.meta.program.clone(), |path| path.display().to_string());
    Ok(Input { program, profile, query, symbols })
}

/// What grew, stack by stack; what shrank counts as nothing.
fn without_shrinkage(profile: &Profile, base: &Profile) -> Profile {
    let mut grown = heapwise_profile::diff::subtract(profile, base);
    for sample in &mut grown.samples {
        let values = &mut sample.values;
        values.alloc_objects = values.alloc_objects.max(0.0);
        values.alloc_bytes = values.alloc_bytes.max(0.0);
        values.inuse_objects = values.inuse_objects.max(0.0);
        values.inuse_bytes = values.inuse_bytes.max(0.0);
    }
    grown
}

/// Splits the operands into program and profiles. Profiles need no program before them that have
/// their symbols or build-ids, or come from a server.
fn operands(options: &Options) -> Outcome<(Option<PathBuf>, Vec<String>)> {
    match options.operands.as_slice() {
        [] => Err(input_error!("Did not specify program; see jeprof --help")),
        [only] => Ok((None, vec![only.clone()])),
        [first, rest @ ..] if remote::Location::parse(first).is_some() => {
            Ok((None, std::iter::once(first).chain(rest).cloned().collect()))
        }
        [first, rest @ ..] if is_profile(Path::new(first)) => {
            Ok((None, std::iter::once(first).chain(rest).cloned().collect()))
        }
        [program, profiles @ ..] => {
            let path = Path::new(program);
            if !path.is_file() {
                return Err(Failure::file(path, "no such program"));
            }
            say_err!("Using local file {program}.");
            Ok((Some(path.to_owned()), profiles.to_vec()))
        }
    }
}

/// Whether a file is a profile, and so no program.
fn is_profile(path: &Path) -> bool {
    let is_program = heapwise_symbolize::build_id_of(path).is_ok();
    !is_program && std::fs::read(path).is_ok_and(|bytes| heapwise_profile::read(&bytes).is_ok())
}

fn local(name: &str) -> Outcome<Target> {
    let path = Path::new(name);
    if !path.is_file() {
        return Err(Failure::file(path, "no such file (a server is named as http://host:port/pprof/heap)"));
    }
    say_err!("Using local file {name}.");
    Ok(Target::parse(name)?)
}
