//! The options and the configuration file that say which code is the program's own.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use clap::Args;
use heapwise_profile::own_code::OwnRule;

use crate::failure::{Failure, Outcome};
use crate::pattern::parse_pattern;

/// Name of the configuration file.
const FILE: &str = "heapwise.conf";

/// Options of every report.
#[derive(Debug, Clone, Default, Args)]
#[group(id = "own-code")]
#[command(next_help_heading = "Filter options")]
pub(crate) struct OwnArgs {
    /// Treat matching functions, source files and binaries as your code (may be repeated)
    #[arg(long, value_name = "RE", value_parser = parse_pattern)]
    own: Vec<String>,
    /// Treat matching functions, source files and binaries as library code (may be repeated)
    #[arg(long, value_name = "RE", value_parser = parse_pattern)]
    library: Vec<String>,
}

impl OwnArgs {
    /// The rule: these options, then the first configuration file that exists.
    pub(crate) fn rule(&self) -> Outcome<OwnRule> {
        let mut rule = OwnRule::new(&self.own, &self.library)?;
        for path in places() {
            match std::fs::read_to_string(&path) {
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
                Err(error) => return Err(Failure::file(&path, error)),
                Ok(text) => {
                    rule.add_lines(&text).map_err(|why| Failure::file(&path, why))?;
                    break;
                }
            }
        }
        Ok(rule)
    }
}

/// Where the configuration file may be: in the working directory, then in the user's.
fn places() -> impl Iterator<Item = PathBuf> {
    let configuration = std::env::var_os("XDG_CONFIG_HOME").filter(|path| !path.is_empty());
    let configuration = configuration
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".config")));
    let of_user = configuration.map(|directory| directory.join("heapwise").join(FILE));
    std::iter::once(PathBuf::from(FILE)).chain(of_user)
}
