//! Regular expressions in arguments.

use heapwise_profile::query::pattern;

/// Checks a pattern while the arguments are parsed, so that a mistake costs no reading of profiles.
pub(crate) fn parse_pattern(text: &str) -> Result<String, String> {
    pattern("pattern", text).map(|_| text.to_owned()).map_err(|error| error.message)
}
