//! Warnings about the numbers of a report, on stderr.

use heapwise_profile::Profile;
use heapwise_profile::coverage::Coverage;
use heapwise_render::{Text, coverage};

use crate::console::language;

/// Prints lines of warnings.
pub(crate) fn print(warnings: &[String]) {
    warnings.iter().for_each(|warning| note!("{warning}"));
}

/// Prints the comments of the profile. What it covers is part of the report itself.
pub(crate) fn of_profile(profile: &Profile) {
    for comment in &profile.meta.comments {
        note!("note: {comment}");
    }
}

/// Prints what the numbers cover, for reports in the layout of another tool.
pub(crate) fn coverage(coverage: &Coverage) {
    let covers = Text::Covers.text(language());
    note!("{covers} {}", coverage::line(coverage, language()));
}
