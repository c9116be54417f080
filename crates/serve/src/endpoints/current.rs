//! The current state of a source, or a stretch of `seconds=N`, rendered once for all requests at
//! the same moment.

use std::time::Duration;

use heapwise_profile::{Profile, diff};

use crate::context::Context;
use crate::error::{HttpError, Result};
use crate::http::Request;
use crate::memory_budget::view_bytes;
use crate::query_params::number;
use crate::render_key::RenderKey;
use crate::source::{Source, Stretch};

/// brpc's bound of `max_profiling_seconds`.
const MOST_SECONDS: usize = 300;

/// Answer to `seconds=N`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Over {
    /// The signed change of all values, as Go's profiles have it.
    Change,
    /// What was allocated in that time, and what was live at its end.
    Window,
}

/// Renders the current state, or with `seconds=N` a stretch of time, in which the process is
/// recorded.
pub(super) fn rendered(
    context: &Context,
    request: &Request,
    source: &dyn Source,
    what: &str,
    over: Over,
    render: impl FnOnce(&Profile) -> Result,
) -> Result {
    match number(&request.query, "seconds")? {
        None | Some(0) => {
            let key = RenderKey::new(&context.profiles.budget, &context.sources, request, source, what)?;
            Ok(context.rendered(request, &key, || {
                let profile = context.profiles.current(source)?;
                let _room = context.memory.reserve(view_bytes([&*profile]));
                render(&profile)
            }))
        }
        // Every stretch has its own beginning, so none can be shared.
        Some(seconds) => {
            let stretch = stretch(context, source, seconds, over)?;
            Ok(context.rendered(request, &RenderKey::unique(source), || render(&stretch)))
        }
    }
}

fn stretch(context: &Context, source: &dyn Source, seconds: usize, over: Over) -> Result<Profile> {
    if seconds > MOST_SECONDS {
        return Err(HttpError::bad(format!("seconds={seconds}: at most {MOST_SECONDS}")));
    }
    let Stretch { mut before, mut after, mut window } =
        source.record_for(Duration::from_secs(seconds as u64))?;
    if over == Over::Window {
        context.profiles.symbolize(&mut window);
        return Ok(window);
    }
    context.profiles.symbolize(&mut before);
    context.profiles.symbolize(&mut after);
    Ok(diff::subtract(&after, &before))
}
