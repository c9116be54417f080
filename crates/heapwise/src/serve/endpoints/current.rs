//! The current state of a source, or its change over `seconds=N`, rendered once for all who ask at the
//! same moment.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use heapwise_profile::{Profile, diff};

use crate::serve::context::Context;
use crate::serve::http::{Request, Response};
use crate::serve::selection::{cache_key, number};
use crate::serve::source::Source;
use crate::serve::trouble::{Answer, Trouble};

/// brpc's bound of `max_profiling_seconds`.
const MOST_SECONDS: usize = 300;

/// Renders the current state, or with `seconds=N` the signed change over that time.
pub(super) fn rendered(
    context: &Context,
    request: &Request,
    source: &dyn Source,
    what: &str,
    render: impl FnOnce(&Profile) -> Answer,
) -> Answer {
    let (key, profile) = match number(&request.query, "seconds")? {
        None | Some(0) => (cache_key(source, what, &request.query)?, context.shelf.current(source)?),
        Some(seconds) => (unique_key(), Arc::new(delta(context, source, seconds)?)),
    };
    Ok(context.renders.get(&key, || render(&profile).unwrap_or_else(Response::from)))
}

fn delta(context: &Context, source: &dyn Source, seconds: usize) -> Answer<Profile> {
    if seconds > MOST_SECONDS {
        return Err(Trouble::bad(format!("seconds={seconds}: at most {MOST_SECONDS}")));
    }
    if !source.facts()?.is_live() {
        return Err(Trouble::bad("seconds: only a live process changes; ask without it for the last state"));
    }
    let before = context.shelf.fresh(source)?;
    thread::sleep(Duration::from_secs(seconds as u64));
    let after = context.shelf.fresh(source)?;
    Ok(diff::subtract(&after, &before))
}

/// Every delta has its own beginning, so none can be shared.
fn unique_key() -> String {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    format!("delta {}", NUMBER.fetch_add(1, Ordering::Relaxed))
}
