//! Calls that returned or created memory, and memfds, as JSON.

use heapwise_profile::StackId;
use heapwise_profile::ledger::memory_calls::{NamedCalls, StackNames, sums};
use heapwise_profile::ledger::{CallSite, MemfdUse};
use serde_json::{Value, json};

/// Rows at most.
const MOST_ROWS: usize = 1000;

/// `[{"call", "by", "stack", "calls", "bytes", "first_ms", "last_ms"}]`: functions of the stack
/// from the innermost one; `by` is `program` or `allocator`.
#[must_use]
pub fn memory_calls(calls: &[NamedCalls]) -> Value {
    let row = |call: &NamedCalls| {
        json!({
            "call": call.kind.name(), "by": if call.functions.is_some() { "program" } else { "allocator" },
            "stack": call.functions.as_deref().unwrap_or_default(), "calls": call.count, "bytes": call.bytes,
            "first_ms": call.first_ms, "last_ms": call.last_ms,
        })
    };
    calls.iter().take(MOST_ROWS).map(row).collect()
}

/// `[{"name", "mapped", "resident", "created_ms", "created_by"}]`: functions of the stack of
/// `memfd_create` from the innermost one; both are null when the call was not recorded.
#[must_use]
pub fn memfds(memfds: &[MemfdUse], names: &StackNames<'_>) -> Value {
    let row = |memfd: &MemfdUse| {
        json!({
            "name": memfd.name, "mapped": memfd.mapped, "resident": memfd.resident,
            "created_ms": memfd.created.map(|created| created.ms),
            "created_by": memfd.created.map(|created| functions(created.stack, names)),
        })
    };
    memfds.iter().take(MOST_ROWS).map(row).collect()
}

fn functions(stack: Option<StackId>, names: &StackNames<'_>) -> Vec<String> {
    stack.map(|stack| names.of(stack)).unwrap_or_default()
}

/// `[{"call", "calls", "bytes", "allocator_calls", "allocator_bytes"}]`: sums by call.
pub(super) fn call_sums(calls: &[CallSite]) -> Value {
    let rows = sums(calls).into_iter().map(|(kind, sum)| {
        json!({
            "call": kind.name(), "calls": sum.count, "bytes": sum.bytes,
            "allocator_calls": sum.allocator_count, "allocator_bytes": sum.allocator_bytes,
        })
    });
    rows.collect()
}
