//! The current state of a source, or its change over `seconds=N`, rendered once for all requests at
//! the same moment.

use std::thread;
use std::time::Duration;

use heapwise_profile::{Profile, diff};

use crate::context::Context;
use crate::error::{HttpError, Result};
use crate::http::Request;
use crate::query_params::number;
use crate::render_key::RenderKey;
use crate::source::Source;

/// brpc's bound of `max_profiling_seconds`.
const MOST_SECONDS: usize = 300;

/// Renders the current state, or with `seconds=N` the signed change over that time.
pub(super) fn rendered(
    context: &Context,
    request: &Request,
    source: &dyn Source,
    what: &str,
    render: impl FnOnce(&Profile) -> Result,
) -> Result {
    match number(&request.query, "seconds")? {
        None | Some(0) => {
            let key = RenderKey::new(&context.profiles.budget, request, source, what)?;
            Ok(context.rendered(request, &key, || render(&*context.profiles.current(source)?)))
        }
        // Every delta has its own beginning, so none can be shared.
        Some(seconds) => {
            let delta = delta(context, source, seconds)?;
            Ok(context.rendered(request, &RenderKey::unique(source), || render(&delta)))
        }
    }
}

fn delta(context: &Context, source: &dyn Source, seconds: usize) -> Result<Profile> {
    if seconds > MOST_SECONDS {
        return Err(HttpError::bad(format!("seconds={seconds}: at most {MOST_SECONDS}")));
    }
    if !source.is_live()? {
        return Err(HttpError::bad(
            "seconds: only a live process changes; ask without it for the last state",
        ));
    }
    let before = context.profiles.fresh(source)?;
    thread::sleep(Duration::from_secs(seconds as u64));
    let after = context.profiles.fresh(source)?;
    Ok(diff::subtract(&after, &before))
}
