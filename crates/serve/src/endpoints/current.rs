//! The current state of a source, or a stretch of `seconds=N`, rendered once for all requests at
//! the same moment.

use std::time::Duration;

use heapwise_format::segment::Control;
use heapwise_profile::{Profile, diff, quantity};

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
            let rate = rate(request)?;
            let stretch = stretch(context, source, seconds, rate, over)?;
            Ok(context.rendered(request, &RenderKey::unique(source), || render(&stretch)))
        }
    }
}

/// Smallest `rate=`: a link must not slow a busy program down much.
const LEAST_RATE: u64 = 1024;

/// Mean bytes between samples that a request wants; `None` for the process's own.
fn rate(request: &Request) -> Result<Option<u64>> {
    let Some(text) = request.query.given("rate") else { return Ok(None) };
    match quantity::parse_rate(text) {
        Ok(bytes) if (LEAST_RATE..=Control::MAX_SAMPLE_BYTES).contains(&bytes) => Ok(Some(bytes)),
        _ => Err(HttpError::bad(format!("rate={text}: a size from 1K to 1T"))),
    }
}

fn stretch(
    context: &Context,
    source: &dyn Source,
    seconds: usize,
    rate: Option<u64>,
    over: Over,
) -> Result<Profile> {
    if seconds > MOST_SECONDS {
        return Err(HttpError::bad(format!("seconds={seconds}: at most {MOST_SECONDS}")));
    }
    let Stretch { mut before, mut after, mut window } =
        source.record_for(Duration::from_secs(seconds as u64), rate)?;
    if over == Over::Window {
        context.profiles.symbolize(&mut window);
        return Ok(window);
    }
    context.profiles.symbolize(&mut before);
    context.profiles.symbolize(&mut after);
    Ok(diff::subtract(&after, &before))
}
