//! Warnings about the numbers of a report, on stderr.

use heapwise_profile::{Cut, Losses, Profile, unattributed};
use heapwise_render::Amounts;
use heapwise_render::text::missing;

/// Prints lines of warnings.
pub(crate) fn print(warnings: &[String]) {
    warnings.iter().for_each(|warning| note!("{warning}"));
}

/// Prints what was lost, and the comments of the profile.
pub(crate) fn of_profile(profile: &Profile) {
    print(profile.meta.cut.iter().map(Cut::remark).collect::<Vec<_>>().as_slice());
    losses(&profile.meta.losses);
    print(&unattributed::remarks(profile));
    for comment in &profile.meta.comments {
        note!("note: {comment}");
    }
}

/// Prints the number of the program's marks that are missing, if any.
pub(crate) fn lost_marks(count: u64) {
    if count > 0 {
        note!("{count} marks had no room and are missing");
    }
}

/// Prints what was lost, a line for each cause.
pub(crate) fn losses(losses: &Losses) {
    print(&missing::of_losses(losses, Amounts::Human));
}
