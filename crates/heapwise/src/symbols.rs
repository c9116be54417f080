//! The options that say where symbols are searched.

use std::path::{Path, PathBuf};

use clap::Args;
use heapwise_capture::process;
use heapwise_capture::target::Target;
use heapwise_profile::proc_maps::Mapping;
use heapwise_profile::{Location, Module, ModuleId, Profile};
use heapwise_symbolize::{Options, Report};

/// Options of every command that shows names.
#[derive(Debug, Clone, Default, Args)]
#[group(id = "symbols")]
#[command(next_help_heading = "Symbol options")]
pub(crate) struct SymbolArgs {
    /// Use this program, when it is not where it ran
    #[arg(long, value_name = "BIN")]
    pub program: Option<PathBuf>,
    /// Put DIR before every recorded path
    #[arg(long, value_name = "DIR")]
    pub sysroot: Option<PathBuf>,
    /// Search DIR for debug files (may be repeated)
    #[arg(long = "debug-path", value_name = "DIR")]
    pub debug_path: Vec<PathBuf>,
    /// Show no inlined functions
    #[arg(long = "no-inlines")]
    pub no_inlines: bool,
    /// Do not use the symbol cache
    #[arg(long = "no-cache")]
    pub no_cache: bool,
    /// Keep addresses in functions without a name as addresses, as jeprof does
    #[arg(skip)]
    pub bare_addresses: bool,
}

impl SymbolArgs {
    /// Joins a profile with the symbols on this machine.
    pub(crate) fn symbolize(&self, profile: &mut Profile) -> Report {
        heapwise_symbolize::symbolize(profile, &self.options())
    }

    /// The same; binaries of a process in a container are searched in its root directory.
    pub(crate) fn of_target(&self, target: &Target) -> Self {
        let mut args = self.clone();
        if let Target::Process(found) = target
            && args.sysroot.is_none()
            && process::has_other_root(found.process.pid)
        {
            args.sysroot = Some(format!("/proc/{}/root", found.process.pid).into());
        }
        args
    }

    /// Options of the library.
    pub(crate) fn options(&self) -> Options {
        Options {
            sysroot: self.sysroot.clone(),
            debug_paths: self.debug_path.clone(),
            cache_dir: if self.no_cache { None } else { cache_dir() },
            debuginfod_urls: std::env::var("DEBUGINFOD_URLS")
                .map(|urls| urls.split_whitespace().map(str::to_owned).collect())
                .unwrap_or_default(),
            main_program: self.program.clone(),
            inlines: !self.no_inlines,
            unnamed: !self.bare_addresses,
            ..Options::default()
        }
    }
}

/// `$XDG_CACHE_HOME/heapwise/symbols`, or `~/.cache/heapwise/symbols`.
fn cache_dir() -> Option<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache")))?;
    Some(cache.join("heapwise/symbols"))
}

/// A name for each address: `text` is maps lines, then one hexadecimal address a line. Unknown
/// addresses come back as they were.
pub(crate) fn names_of_addresses(program: &str, text: &str) -> Vec<String> {
    let (maps, addresses): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| line.contains(' '));
    let mut profile =
        Profile { modules: maps.iter().filter_map(|line| module(line)).collect(), ..Profile::default() };
    for line in &addresses {
        let address = u64::from_str_radix(line.trim().trim_start_matches("0x"), 16).unwrap_or(0);
        let module = profile.modules.iter().position(|module| module.contains(address)).map(ModuleId::new);
        profile.locations.push(Location { address, module, ..Location::default() });
    }
    let args = SymbolArgs { program: Some(program.into()), ..SymbolArgs::default() };
    args.symbolize(&mut profile);
    let name = |(location, line): (&Location, &&str)| match location.lines.last() {
        Some(line) => profile.functions[line.function.index()].name.clone(),
        None => (*line).to_owned(),
    };
    profile.locations.iter().zip(&addresses).map(name).collect()
}

/// The module of an executable mapping in a line of `/proc/<pid>/maps`.
fn module(line: &str) -> Option<Module> {
    let Mapping { start, end, file_offset, path, .. } =
        Mapping::parse(line).filter(Mapping::is_executable)?;
    let module = Module { path: path.to_owned(), start, end, file_offset, ..Module::default() };
    (!path.is_empty()).then_some(module)
}
