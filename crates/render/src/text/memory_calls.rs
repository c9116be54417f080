//! Calls that returned or created memory, and the memfds that are mapped, as text.

use std::fmt::Write as _;
use std::time::Duration;

use heapwise_profile::ledger::memory_calls::{NamedCalls, StackNames, merged};
use heapwise_profile::ledger::{Ledger, MemfdUse};
use heapwise_profile::printable::printable;
use heapwise_profile::quantity;

/// Rows of each kind.
const MOST_ROWS: usize = 10;
/// Functions shown of a stack, the innermost ones.
const MOST_FUNCTIONS: usize = 3;

/// A row per stack and call, then a row per memfd; nothing where there are none.
#[must_use]
pub fn memory_calls(ledger: &Ledger, names: &StackNames<'_>) -> String {
    let mut out = String::new();
    if !ledger.calls.is_empty() {
        let _ = writeln!(out, "  calls that return or create memory");
        let rows = merged(&ledger.calls, names);
        rows.iter().take(MOST_ROWS).for_each(|row| out += &call_row(row));
        out += &rest(rows.len());
    }
    if !ledger.memfds.is_empty() {
        let _ = writeln!(out, "  memfds");
        ledger.memfds.iter().take(MOST_ROWS).for_each(|memfd| out += &memfd_row(memfd, names));
        out += &rest(ledger.memfds.len());
    }
    out
}

fn rest(rows: usize) -> String {
    if rows > MOST_ROWS { format!("    {} more\n", rows - MOST_ROWS) } else { String::new() }
}

fn call_row(call: &NamedCalls) -> String {
    let calls = if call.count == 1 { "call" } else { "calls" };
    let when = match (call.first_ms, call.last_ms) {
        (first, last) if first == last => time(first),
        (first, last) => format!("{} to {}", time(first), time(last)),
    };
    let (bytes, count) = (quantity::bytes(call.bytes as f64), call.count);
    let caller = caller(call.functions.as_deref());
    let name = call.kind.name();
    format!(
        "    {name:<22} {:>14}  {bytes:>10}  {count} {calls}, {when} after the start  {caller}\n",
        call.bytes
    )
}

fn memfd_row(memfd: &MemfdUse, names: &StackNames<'_>) -> String {
    let [resident, mapped] = [memfd.resident, memfd.mapped].map(|bytes| quantity::bytes(bytes as f64));
    let created = match memfd.created {
        Some(created) => {
            format!(
                "created {} after the start by {}",
                time(created.ms),
                caller(created.stack.map(|stack| names.of(stack)).as_deref())
            )
        }
        None => "creation not recorded".to_owned(),
    };
    let name = printable(&memfd.name);
    format!("    {name:<22} {:>14}  {resident:>10}  resident of {mapped}  {created}\n", memfd.resident)
}

fn time(ms: u64) -> String {
    quantity::duration(Duration::from_millis(ms))
}

fn caller(functions: Option<&[String]>) -> String {
    let Some(functions) = functions else { return "the allocator".to_owned() };
    printable(&functions[..functions.len().min(MOST_FUNCTIONS)].join(" < ")).into_owned()
}

#[cfg(test)]
mod tests {
    use heapwise_profile::Profile;
    use heapwise_profile::ledger::{CallKind, CallSite, MemfdCreation};

    use super::*;

    #[test]
    fn rows_name_site_bytes_and_times() {
        let mut profile = Profile::default();
        let main = profile.named_stack("main");
        let shrink = profile.named_stack_above(Some(main), "shrink");
        let call = |stack, count, bytes, last_ms| CallSite {
            kind: CallKind::DontNeed,
            stack,
            count,
            bytes,
            first_ms: 5,
            last_ms,
        };
        let memfd =
            |name: &str, created| MemfdUse { name: name.into(), created, mapped: 8192, resident: 4096 };
        let created = MemfdCreation { stack: Some(main), ms: 7 };
        let ledger = Ledger {
            calls: vec![call(Some(shrink), 12, 1 << 20, 930), call(None, 1, 4096, 5)],
            memfds: vec![memfd("memfd:pool", Some(created)), memfd("memfd:old", None)],
            ..Ledger::default()
        };
        let text = memory_calls(&ledger, &StackNames::new(&profile));
        let rows: Vec<String> =
            text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(
            rows,
            [
                "calls that return or create memory",
                "MADV_DONTNEED 1048576 1.00 MiB 12 calls, 5 ms to 930 ms after the start shrink < main",
                "MADV_DONTNEED 4096 4.00 KiB 1 call, 5 ms after the start the allocator",
                "memfds",
                "memfd:pool 4096 4.00 KiB resident of 8.00 KiB created 7 ms after the start by main",
                "memfd:old 4096 4.00 KiB resident of 8.00 KiB creation not recorded",
            ]
        );
        assert_eq!(memory_calls(&Ledger::default(), &StackNames::new(&profile)), "");
    }
}
