//! `profile − base` as a profile of its own, for writers of other formats.
//!
//! Views compare through [`CallTree::compare`](crate::CallTree::compare), which matches by name;
//! here the base's tables are appended and its samples negated, so any reader that sums by
//! name gets the signed difference as well, whatever happened to the addresses in between.

use crate::{FunctionId, Line, LocationId, ModuleId, Profile, Sample, StackId, ThreadId};

/// What changed from `base` to `profile`, signed.
#[must_use]
pub fn subtract(profile: &Profile, base: &Profile) -> Profile {
    let mut out = profile.clone();
    let modules = out.modules.len();
    let functions = out.functions.len();
    let locations = out.locations.len();
    let threads = out.threads.len();
    out.modules.extend(base.modules.iter().cloned());
    out.functions.extend(base.functions.iter().cloned());
    out.threads.extend(base.threads.iter().cloned());
    out.locations.extend(base.locations.iter().map(|location| {
        let mut location = location.clone();
        location.module = location.module.map(|id| ModuleId::new(id.index() + modules));
        for Line { function, .. } in &mut location.lines {
            *function = FunctionId::new(function.index() + functions);
        }
        location
    }));
    let mut images: Vec<StackId> = Vec::with_capacity(base.stacks.len());
    for stack in base.stacks.ids() {
        let parent = base.stacks.parent(stack).map(|id| images[id.index()]);
        let location = base.stacks.location(stack).index() + locations;
        images.push(out.stacks.child(parent, LocationId::new(location)));
    }
    out.samples.extend(base.samples.iter().map(|sample| Sample {
        stack: images[sample.stack.index()],
        thread: sample.thread.map(|id| ThreadId::new(id.index() + threads)),
        values: -sample.values,
        ..sample.clone()
    }));
    subtract_extra(&mut out, base);
    out
}

/// Further columns are matched by name; one the base lacks counts 0 there, and the reverse.
fn subtract_extra(out: &mut Profile, base: &Profile) {
    for column in &mut out.extra {
        let same = base.extra.iter().find(|other| other.name == column.name);
        match same {
            Some(other) => column.values.extend(other.values.iter().map(|value| -value)),
            None => column.values.resize(out.samples.len(), 0.0),
        }
    }
}
