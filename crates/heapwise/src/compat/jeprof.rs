//! `jeprof [options] PROG PROFILE…`: the options, output modes and prompt its users know.
//!
//! Text is equal to the byte wherever jeprof is right; docs/from-jeprof.md lists where it is not.

mod interactive;
pub(crate) mod options;
mod remote;
mod report;

use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use heapwise_profile::Profile;

use crate::failure::{Failure, Outcome};
use crate::input_error;
use crate::progress_bar::ReadArgs;
use crate::symbols::SymbolArgs;
use heapwise_capture::source;
use options::{Mode, Options, Request};

const USAGE: &str = include_str!("jeprof/usage.txt");

/// Runs the tool.
pub(crate) fn run(arguments: Vec<OsString>) -> Outcome<ExitCode> {
    let arguments: Vec<String> =
        arguments.iter().skip(1).map(|argument| argument.to_string_lossy().into_owned()).collect();
    match options::parse(&arguments, std::io::stdout().is_terminal())? {
        Request::Help => print!("{USAGE}"),
        Request::Version => println!("jeprof (heapwise {})", env!("CARGO_PKG_VERSION")),
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
#[derive(Debug)]
pub(crate) struct Input {
    /// The program, as named or as the server tells.
    pub program: String,
    /// The profiles, added up, less `--base`, with symbols.
    pub profile: Profile,
}

fn load(options: &Options) -> Outcome<Input> {
    let (program, names) = operands(options)?;
    let symbols = SymbolArgs {
        program: program.clone().filter(|program| program.is_file()),
        debug_path: options.lib_prefix.iter().flat_map(|list| list.split(',')).map(PathBuf::from).collect(),
        bare_addresses: true,
        ..SymbolArgs::default()
    };
    let mut profiles = Vec::new();
    for name in &names {
        let mut profile = match remote::Location::parse(name) {
            Some(location) => location.fetch(options.seconds)?,
            None => local(name)?,
        };
        symbols.symbolize(&mut profile);
        profiles.push(profile);
    }
    let base = options.base.as_deref().map(local).transpose()?.map(|mut base| {
        symbols.symbolize(&mut base);
        base
    });
    let profile = if profiles.len() == 1 { profiles.remove(0) } else { heapwise_profile::merge(profiles) };
    // Subtracted here, not compared: jeprof's percentages refer to the difference.
    let profile = match base {
        Some(base) if options.drop_negative => without_shrinkage(&profile, &base),
        Some(base) => heapwise_profile::diff::subtract(&profile, &base),
        None => profile,
    };
    let program = program.map_or_else(|| profile.meta.program.clone(), |path| path.display().to_string());
    Ok(Input { program, profile })
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

/// Splits the operands into program and profiles. A single operand is a profile that needs no
/// program: symbolized, of our own making, or fetched from a server.
fn operands(options: &Options) -> Outcome<(Option<PathBuf>, Vec<String>)> {
    match options.operands.as_slice() {
        [] => Err(input_error!("Did not specify program; see jeprof --help")),
        [only] => Ok((None, vec![only.clone()])),
        [first, rest @ ..] if remote::Location::parse(first).is_some() => {
            Ok((None, std::iter::once(first).chain(rest).cloned().collect()))
        }
        [program, profiles @ ..] => {
            let path = Path::new(program);
            if !path.is_file() {
                return Err(Failure::file(path, "no such program"));
            }
            eprintln!("Using local file {program}.");
            Ok((Some(path.to_owned()), profiles.to_vec()))
        }
    }
}

fn local(name: &str) -> Outcome<Profile> {
    let path = Path::new(name);
    if !path.is_file() {
        return Err(Failure::file(path, "no such file (a server is named as http://host:port/pprof/heap)"));
    }
    eprintln!("Using local file {name}.");
    Ok(source::load(name, &ReadArgs::default().options())?)
}
