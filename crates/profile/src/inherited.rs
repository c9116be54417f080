//! Memory that a forked process inherited, by the stacks of its parent.

use std::mem::take;

use crate::{Inherited, Profile, SizeHistogram, Values, merge, quantity};

/// The profile of a forked child, and in it what it inherited: the parent's stacks, below a frame
/// `[inherited from PID by fork]`.
///
/// The parent's present live memory is used for that at the fork. Its amounts are scaled to the
/// bytes that were inherited, so that they are exact for a parent that did not change since.
#[must_use]
pub fn with_inherited(child: Profile, inherited: Inherited, mut parent: Profile) -> Profile {
    let held = parent.total().inuse_bytes;
    if held <= 0.0 {
        return child;
    }
    let share = inherited.bytes as f64 / held;
    let (mut meta, sizes) = (child.meta.clone(), child.sizes.clone());
    for sample in &mut parent.samples {
        sample.thread = None;
        let Values { inuse_objects, inuse_bytes, .. } = sample.values;
        sample.values = Values {
            inuse_objects: inuse_objects * share,
            inuse_bytes: inuse_bytes * share,
            ..Values::default()
        };
        sample.variance = Values {
            inuse_objects: sample.variance.inuse_objects * share * share,
            inuse_bytes: sample.variance.inuse_bytes * share * share,
            ..Values::default()
        };
    }
    parent.samples.retain(|sample| sample.values.inuse_bytes > 0.0);
    (parent.extra, parent.threads, parent.sizes) = (Vec::new(), Vec::new(), SizeHistogram::default());
    put_below(&mut parent, &format!("[inherited from {} by fork]", inherited.parent));
    meta.comments.push(format!(
        "{} were inherited from {} by fork; they are shown by the stacks that hold its memory now",
        quantity::bytes(inherited.bytes as f64),
        inherited.parent
    ));
    // None of them is missing.
    meta.recorded.inherited = Some(Inherited { bytes: 0, ..inherited });
    let mut merged = merge(vec![child, parent]);
    (merged.meta, merged.sizes) = (meta, sizes);
    merged
}

/// Puts every stack below a frame that has only a name.
fn put_below(profile: &mut Profile, name: &str) {
    let stacks = take(&mut profile.stacks);
    let root = profile.named_stack(name);
    let mut moved = Vec::with_capacity(stacks.len());
    for stack in stacks.ids() {
        let caller = stacks.parent(stack).map_or(root, |parent| moved[parent.index()]);
        moved.push(profile.stacks.child(Some(caller), stacks.location(stack)));
    }
    for sample in &mut profile.samples {
        sample.stack = moved[sample.stack.index()];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coverage::Coverage;
    use crate::fixture::profile;

    #[test]
    fn the_parents_stacks_hold_what_was_inherited() {
        let mut child = profile("main;work 10 1 7");
        let inherited = Inherited { bytes: 60, parent: 4711 };
        child.meta.recorded.inherited = Some(inherited);
        let gaps = |profile: &Profile| Coverage::of(profile).gaps.len();
        let before = gaps(&child);
        let all = with_inherited(child, inherited, profile("main;load 100 10 3\nmain;work 20 2 3"));
        let total = all.total();
        assert_eq!((total.inuse_bytes, total.alloc_bytes, total.inuse_objects), (70.0, 10.0, 7.0));
        assert_eq!(gaps(&all), before - 1);
        let names: Vec<Vec<&str>> = all
            .samples
            .iter()
            .map(|sample| {
                let path = all.stacks.leaf_to_root(sample.stack);
                let lines = path.flat_map(|stack| &all.locations[all.stacks.location(stack).index()].lines);
                lines.map(|line| all.functions[line.function.index()].name.as_str()).collect()
            })
            .collect();
        let root = "[inherited from 4711 by fork]";
        assert_eq!(names, [vec!["work", "main"], vec!["load", "main", root], vec!["work", "main", root]]);
        assert_eq!((all.threads.len(), all.meta.comments.len()), (1, 1));
    }

    #[test]
    fn a_parent_that_holds_nothing_changes_nothing() {
        let child = profile("main;work 10 1 7");
        let same = with_inherited(child.clone(), Inherited { bytes: 60, parent: 4711 }, Profile::default());
        assert_eq!(same.total(), child.total());
    }
}
