//! Memory that was returned to the kernel, or created, by a call that maps and unmaps nothing:
//! `madvise` and `memfd_create`.

use std::cmp::Reverse;

pub use heapwise_format::segment::CallKind;

use crate::frame_table::{FrameTable, Steps};
use crate::{Profile, Query, StackId};

/// Calls of one kind from one stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallSite {
    /// The call.
    pub kind: CallKind,
    /// The stack; `None` for the allocator whose blocks are recorded.
    pub stack: Option<StackId>,
    /// Calls.
    pub count: u64,
    /// Advised bytes, in whole pages, resident or not; 0 for `memfd_create`.
    pub bytes: u64,
    /// Milliseconds from the start to the first call.
    pub first_ms: u64,
    /// Milliseconds from the start to the last call.
    pub last_ms: u64,
}

/// A memfd that is mapped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemfdUse {
    /// Its name: `memfd:pool`.
    pub name: String,
    /// The call that created it, if it was recorded.
    pub created: Option<MemfdCreation>,
    /// Mapped bytes.
    pub mapped: u64,
    /// Of these, resident.
    pub resident: u64,
}

/// A recorded call of `memfd_create`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemfdCreation {
    /// The stack; `None` for the allocator.
    pub stack: Option<StackId>,
    /// Milliseconds from the start of the process to the call.
    pub ms: u64,
}

/// Advised bytes and calls of a kind, those of the allocator apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CallSum {
    /// Calls of the program.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Calls of the allocator.
    pub allocator_count: u64,
    /// Their bytes.
    pub allocator_bytes: u64,
}

/// Sums by kind, without kinds that were not called.
#[must_use]
pub fn sums(calls: &[CallSite]) -> Vec<(CallKind, CallSum)> {
    let sum = |kind: CallKind| {
        let mut sum = CallSum::default();
        for call in calls.iter().filter(|call| call.kind == kind) {
            let (count, bytes) = match call.stack {
                Some(_) => (&mut sum.count, &mut sum.bytes),
                None => (&mut sum.allocator_count, &mut sum.allocator_bytes),
            };
            *count = count.saturating_add(call.count);
            *bytes = bytes.saturating_add(call.bytes);
        }
        (kind, sum)
    };
    CallKind::ALL.map(sum).into_iter().filter(|(_, sum)| *sum != CallSum::default()).collect()
}

/// Calls of one kind from stacks whose functions have the same names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedCalls {
    /// The call.
    pub kind: CallKind,
    /// Functions of the stack from the innermost one; `None` for the allocator.
    pub functions: Option<Vec<String>>,
    /// Calls.
    pub count: u64,
    /// Advised bytes.
    pub bytes: u64,
    /// Milliseconds from the start to the first call.
    pub first_ms: u64,
    /// Milliseconds from the start to the last call.
    pub last_ms: u64,
}

/// The calls with names, in their order.
#[must_use]
pub fn named(calls: &[CallSite], names: &StackNames<'_>) -> Vec<NamedCalls> {
    let row = |call: &CallSite| NamedCalls {
        kind: call.kind,
        functions: call.stack.map(|stack| names.of(stack)),
        count: call.count,
        bytes: call.bytes,
        first_ms: call.first_ms,
        last_ms: call.last_ms,
    };
    calls.iter().map(row).collect()
}

/// One row for each kind and names, the most bytes first: a function that calls from two places, or
/// an unrolled loop, has two stacks of the same names.
#[must_use]
pub fn merged(calls: &[CallSite], names: &StackNames<'_>) -> Vec<NamedCalls> {
    let mut rows = named(calls, names);
    rows.sort_by(|one, other| (one.kind, &one.functions).cmp(&(other.kind, &other.functions)));
    rows.dedup_by(|next, row| {
        let is_same = (next.kind, &next.functions) == (row.kind, &row.functions);
        if is_same {
            row.count = row.count.saturating_add(next.count);
            row.bytes = row.bytes.saturating_add(next.bytes);
            row.first_ms = row.first_ms.min(next.first_ms);
            row.last_ms = row.last_ms.max(next.last_ms);
        }
        is_same
    });
    rows.sort_by_key(|row| Reverse((row.bytes, row.count)));
    rows
}

/// Names of the frames of stacks, at the granularity of functions.
pub struct StackNames<'a> {
    profile: &'a Profile,
    frames: FrameTable,
    steps: Steps,
}

impl std::fmt::Debug for StackNames<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("StackNames").field("frames", &self.frames).finish_non_exhaustive()
    }
}

impl<'a> StackNames<'a> {
    /// The names in a profile with symbols.
    #[must_use]
    pub fn new(profile: &'a Profile) -> Self {
        let mut frames = FrameTable::default();
        let steps = Steps::resolve(profile, &Query::default(), &mut frames);
        Self { profile, frames, steps }
    }

    /// Names of the functions of a stack, the innermost first.
    #[must_use]
    pub fn of(&self, stack: StackId) -> Vec<String> {
        let stacks = &self.profile.stacks;
        let locations = stacks.leaf_to_root(stack).map(|node| stacks.location(node));
        let steps = locations.flat_map(|location| self.steps.of(location).iter().rev());
        steps.map(|step| self.frames.get(step.frame).label.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_allocators_calls_are_kept_apart() {
        let mut profile = Profile::default();
        let [outer, inner] = [None, Some("inner")].map(|name| {
            let outer = profile.named_stack("outer");
            name.map_or(outer, |name| profile.named_stack_above(Some(outer), name))
        });
        let call =
            |kind, stack, count, bytes| CallSite { kind, stack, count, bytes, first_ms: 1, last_ms: 2 };
        let calls = [
            call(CallKind::Free, Some(outer), 2, 8192),
            call(CallKind::Free, None, 5, 1 << 20),
            call(CallKind::Free, Some(inner), 1, 4096),
            call(CallKind::MemfdCreate, Some(inner), 1, 0),
        ];
        let free = CallSum { count: 3, bytes: 12_288, allocator_count: 5, allocator_bytes: 1 << 20 };
        let created = CallSum { count: 1, ..CallSum::default() };
        assert_eq!(sums(&calls), [(CallKind::Free, free), (CallKind::MemfdCreate, created)]);
        let names = StackNames::new(&profile);
        assert_eq!(names.of(inner), ["inner", "outer"]);
        let twice = [calls[0], calls[2], CallSite { first_ms: 0, ..calls[0] }];
        let rows: Vec<_> =
            merged(&twice, &names).iter().map(|row| (row.count, row.bytes, row.first_ms)).collect();
        assert_eq!(rows, [(4, 16_384, 0), (1, 4096, 1)]);
    }
}
