//! What a reader of numbers should know besides them, on stderr.

use heapwise_profile::{Losses, Profile};

/// Prints lines of warnings.
pub(crate) fn print(warnings: &[String]) {
    warnings.iter().for_each(|warning| eprintln!("heapwise: {warning}"));
}

/// Prints what was lost, and the comments of the profile.
pub(crate) fn of_profile(profile: &Profile) {
    losses(&profile.meta.losses);
    for comment in &profile.meta.comments {
        eprintln!("heapwise: note: {comment}");
    }
}

/// Prints the number of the program's marks that are missing, if any.
pub(crate) fn lost_marks(count: u64) {
    if count > 0 {
        eprintln!("heapwise: {count} marks had no room and are missing");
    }
}

/// Prints the number of lost events, if any.
pub(crate) fn losses(losses: &Losses) {
    if losses.dropped_events > 0 {
        let lost = losses.dropped_events;
        eprintln!(
            "heapwise: {lost} events were lost, so blocks are missing, or seem to be live though they were freed"
        );
    }
}
