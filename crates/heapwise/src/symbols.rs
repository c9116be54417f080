//! Where symbols are looked for, as the user says it.

use std::path::{Path, PathBuf};

use clap::Args;
use heapwise_profile::Profile;
use heapwise_symbolize::{Options, Report};

/// Options of every command that shows names.
#[derive(Debug, Clone, Default, Args)]
#[group(id = "symbols")]
pub struct SymbolArgs {
    /// The program, when it is not where it ran
    #[arg(long, value_name = "BIN")]
    pub program: Option<PathBuf>,
    /// Prefix of every recorded path
    #[arg(long, value_name = "DIR")]
    pub sysroot: Option<PathBuf>,
    /// Directory of debug files (may be repeated)
    #[arg(long = "debug-path", value_name = "DIR")]
    pub debug_path: Vec<PathBuf>,
    /// No inlined functions
    #[arg(long = "no-inlines")]
    pub no_inlines: bool,
    /// Neither read nor write the cache of symbols
    #[arg(long = "no-cache")]
    pub no_cache: bool,
}

impl SymbolArgs {
    /// Joins a profile with the symbols on this machine.
    pub fn symbolize(&self, profile: &mut Profile) -> Report {
        heapwise_symbolize::symbolize(profile, &self.options())
    }

    /// As the library takes them.
    pub fn options(&self) -> Options {
        Options {
            sysroot: self.sysroot.clone(),
            debug_paths: self.debug_path.clone(),
            cache_dir: if self.no_cache { None } else { cache_dir() },
            debuginfod_urls: std::env::var("DEBUGINFOD_URLS")
                .map(|urls| urls.split_whitespace().map(str::to_owned).collect())
                .unwrap_or_default(),
            main_program: self.program.clone(),
            inlines: !self.no_inlines,
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
