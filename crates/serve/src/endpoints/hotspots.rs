//! `/hotspots/heap` and `/hotspots/growth`: brpc's page, its parameters, and its answers for tools.

use super::display::{self, Options};
use crate::context::Context;
use crate::error::{HttpError, Result};
use crate::http::{Request, Response, Status};
use crate::memory_budget::view_bytes;
use crate::profile_store::Stored;
use crate::render_key::RenderKey;
use crate::source::{Source, find_stored};

/// Between the name of the profile and its picture, in the answers that brpc's page fetches.
const NAME_END: &str = "[addToProfEnd]";

/// Answers `/hotspots/<what>`.
pub(crate) fn answer(context: &Context, request: &Request, source: &dyn Source, what: &str) -> Result {
    let (what, fetched) = match what.strip_suffix("_non_responsive") {
        Some(what) => (what, true),
        None => (what, false),
    };
    if !matches!(what, "heap" | "growth") {
        return Err(HttpError::missing(format!("no /hotspots/{what}; there are heap and growth")));
    }
    if request.wants_page() && !fetched {
        return page(context, request, source, what);
    }
    let stored = match request.query.given("view") {
        Some(name) => find_stored(source, file_name(name))?,
        None => {
            // brpc's users take profiles with a plain GET; other sites in their browser may not.
            context.guard.admit_own(request)?;
            new_profile(context, source)?
        }
    };
    let base = match request.query.given("base") {
        Some(name) => Some(find_stored(source, file_name(name))?),
        None if what == "growth" => oldest(source, &stored)?,
        None => None,
    };
    let base_name = base.as_ref().map(|base| (&base.name, base.version));
    let key = format!("hotspots\n{stored:?}\n{base_name:?}\n{:?}", request.query);
    let draw = || draw(context, request, source, &stored, base.as_ref());
    let picture = context.rendered(request, &RenderKey::stored(source, &key), draw);
    if !fetched || picture.status != Status::Ok {
        return Ok(picture);
    }
    let mut body = format!("{}{NAME_END}", stored.name).into_bytes();
    body.extend_from_slice(&picture.body);
    Ok(Response::text(body))
}

/// The page at the same state. Without `view` it shows a new profile, as brpc's page does; growth
/// is the change since the oldest one.
fn page(context: &Context, request: &Request, source: &dyn Source, what: &str) -> Result {
    let named = |key: &str| request.query.given(key).map(|name| file_name(name).to_owned());
    let (mut profile, mut base) = (named("view"), named("base"));
    if profile.is_none() && source.is_live()? && context.guard.admit_own(request).is_ok() {
        let stored = new_profile(context, source)?;
        if what == "growth" && base.is_none() {
            base = oldest(source, &stored)?.map(|oldest| oldest.name);
        }
        profile = Some(stored.name);
    }
    Ok(Response::redirect(page_address(request, source, [("profile", profile), ("base", base)])))
}

/// The oldest stored profile, unless it is `newest`.
fn oldest(source: &dyn Source, newest: &Stored) -> Result<Option<Stored>> {
    let is_profile = |stored: &&Stored| stored.time_unix_ms.is_some() && stored.name != newest.name;
    Ok(source.stored()?.iter().rfind(is_profile).cloned())
}

fn draw(
    context: &Context,
    request: &Request,
    source: &dyn Source,
    stored: &Stored,
    base: Option<&Stored>,
) -> Result {
    let options = Options::of_request(&request.query)?;
    let profile = context.profiles.stored(source, stored, None)?;
    let base = base.map(|base| context.profiles.stored(source, base, None)).transpose()?;
    let base = base.as_deref();
    let _room = context.memory.reserve(view_bytes([Some(&*profile), base].into_iter().flatten()));
    match request.query.given("display_type").unwrap_or("dot") {
        "dot" => display::dot(&profile, base, &options),
        "flame" => display::flame(&profile, base, &options),
        "text" => display::text(&profile, base, &options),
        other => Err(HttpError::bad(format!("display_type={other}: there are dot, flame and text"))),
    }
}

/// A new profile of a live process, kept; the last state of any other.
fn new_profile(context: &Context, source: &dyn Source) -> Result<Stored> {
    if source.is_live()? {
        return source.keep(&context.profiles.fresh(source)?);
    }
    source.stored()?.into_iter().next().ok_or_else(|| HttpError::missing("no profile is stored"))
}

/// Address of the page with these profiles.
fn page_address(request: &Request, source: &dyn Source, profiles: [(&str, Option<String>); 2]) -> String {
    let view = match request.query.given("display_type") {
        Some("flame") => "flame",
        Some("text") => "table",
        _ => "graph",
    };
    let mut address = format!("/s/{}/{view}", source.id());
    let mut separator = '?';
    for (key, name) in profiles {
        if let Some(name) = name.filter(|name| is_plain(name)) {
            address += &format!("{separator}{key}={name}");
            separator = '&';
        }
    }
    address
}

/// brpc's links hold paths; the name is their last part.
fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn is_plain(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}
