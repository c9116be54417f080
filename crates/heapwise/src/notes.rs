//! What a reader of numbers should know besides them, on stderr.

use heapwise_profile::{Losses, Profile};

/// What was lost, and what the profile says of itself.
pub(crate) fn of_profile(profile: &Profile) {
    losses(&profile.meta.losses);
    for comment in &profile.meta.comments {
        eprintln!("heapwise: note: {comment}");
    }
}

/// That events were lost, if any were.
pub(crate) fn losses(losses: &Losses) {
    if losses.dropped_events > 0 {
        let lost = losses.dropped_events;
        eprintln!(
            "heapwise: {lost} events were lost, so blocks are missing, or seem to be live though they were freed"
        );
    }
}
