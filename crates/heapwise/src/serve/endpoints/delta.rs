//! `seconds=N`: what changed between now and N seconds from now.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use heapwise_profile::{Profile, diff};

use crate::serve::context::Context;
use crate::serve::http::Query;
use crate::serve::selection::number;
use crate::serve::source::Source;
use crate::serve::trouble::{Answer, Trouble};

/// brpc's bound of `max_profiling_seconds`.
const MOST_SECONDS: usize = 300;

/// The current state, or with `seconds=N` the signed change over that time.
pub(super) fn current_or_delta(
    context: &Context,
    source: &dyn Source,
    query: &Query,
) -> Answer<Arc<Profile>> {
    match number(query, "seconds")? {
        None | Some(0) => context.shelf.current(source),
        Some(seconds) if seconds > MOST_SECONDS => {
            Err(Trouble::bad(format!("seconds={seconds}: at most {MOST_SECONDS}")))
        }
        Some(_) if !source.facts()?.is_live() => {
            Err(Trouble::bad("seconds: only a live process changes; ask without it for the last state"))
        }
        Some(seconds) => {
            let before = context.shelf.fresh(source)?;
            thread::sleep(Duration::from_secs(seconds as u64));
            let after = context.shelf.fresh(source)?;
            Ok(Arc::new(diff::subtract(&after, &before)))
        }
    }
}
