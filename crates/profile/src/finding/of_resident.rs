//! The findings in where the resident memory of a process is.

use super::{Finding, FindingKind};
use crate::ledger::{Ledger, LedgerHistory, LineKind};

/// Resident bytes of a process at one moment, as far as findings are about them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ResidentMemory {
    /// All of them.
    pub resident: u64,
    /// Of live blocks, with their slack.
    pub live: u64,
    /// Of the allocator's heap and of no live block.
    pub kept: u64,
    /// Of blocks that were not recorded, and of unknown origin.
    pub unexplained: u64,
}

/// Bytes of a finding at least.
const LEAST_BYTES: u64 = 1 << 20;
/// An allocator that keeps more than this part of the live bytes is a finding: a half.
const KEPT_PART: u64 = 2;
/// Kept memory is a finding from this part of the resident bytes on: a tenth.
const KEPT_SHARE: u64 = 10;
/// Unexplained memory is a finding from this part of the resident bytes on: a twentieth.
const UNEXPLAINED_SHARE: u64 = 20;

impl ResidentMemory {
    /// The bytes of a ledger.
    #[must_use]
    pub fn of(ledger: &Ledger) -> Self {
        Self {
            resident: ledger.resident,
            live: ledger.of(LineKind::HeapLive) + ledger.of(LineKind::HeapSlack),
            kept: ledger.of(LineKind::HeapFragmentation) + ledger.of(LineKind::HeapFree),
            unexplained: [LineKind::HeapUnrecorded, LineKind::EarlierMappings, LineKind::Unexplained]
                .map(|kind| ledger.of(kind))
                .iter()
                .sum(),
        }
    }

    /// The bytes at the reading with most of them. A history has the heap as one line: what the
    /// allocator keeps is not known.
    #[must_use]
    pub fn of_history(history: &LedgerHistory) -> Option<Self> {
        let most = history.moments.iter().max_by_key(|moment| moment.resident())?;
        let unexplained = LineKind::Unexplained.title();
        let line = history.names.iter().position(|name| name == unexplained);
        let unexplained = line.and_then(|line| most.bytes.get(line)).copied().unwrap_or(0);
        Some(Self { resident: most.resident(), unexplained, ..Self::default() })
    }

    /// The findings.
    #[must_use]
    pub fn findings(&self) -> Vec<Finding> {
        let percent = |bytes: u64| 100.0 * bytes as f64 / self.resident.max(1) as f64;
        let is_part =
            |bytes: u64, whole: u64, part: u64| bytes >= LEAST_BYTES && bytes.saturating_mul(part) >= whole;
        let finding = |kind, bytes: u64, values: &[(&'static str, f64)]| Finding {
            kind,
            values: [&[("bytes", bytes as f64), ("percent", percent(bytes))], values].concat(),
            places: Vec::new(),
            rows: Vec::new(),
        };
        let Self { resident, live, kept, unexplained } = *self;
        let fragmentation = (is_part(kept, live, KEPT_PART) && is_part(kept, resident, KEPT_SHARE))
            .then(|| finding(FindingKind::Fragmentation, kept, &[("live_bytes", live as f64)]));
        let unexplained = is_part(unexplained, resident, UNEXPLAINED_SHARE)
            .then(|| finding(FindingKind::Unexplained, unexplained, &[("resident_bytes", resident as f64)]));
        fragmentation.into_iter().chain(unexplained).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn kinds(memory: ResidentMemory) -> Vec<(FindingKind, f64)> {
        memory.findings().iter().map(|finding| (finding.kind, finding.value("percent"))).collect()
    }

    #[test]
    fn much_free_memory_and_much_unknown_memory_are_found() {
        let memory =
            ResidentMemory { resident: 100 * MIB, live: 20 * MIB, kept: 50 * MIB, unexplained: 8 * MIB };
        assert_eq!(kinds(memory), [(FindingKind::Fragmentation, 50.0), (FindingKind::Unexplained, 8.0)]);
        assert_eq!(kinds(ResidentMemory { kept: 9 * MIB, unexplained: 4 * MIB, ..memory }), []);
        assert_eq!(kinds(ResidentMemory { live: 101 * MIB, unexplained: 0, ..memory }), []);
        let small = ResidentMemory { resident: MIB, live: 0, kept: MIB / 2, unexplained: MIB / 2 };
        assert_eq!(kinds(small), []);
    }

    #[test]
    fn a_history_counts_at_its_highest_reading() {
        let mut history = LedgerHistory::default();
        for (ms, heap, unexplained) in [(1, 10 * MIB, 9 * MIB), (2, 60 * MIB, 20 * MIB), (3, MIB, 0)] {
            history.add(ms, "heap", heap);
            history.add(ms, "unexplained", unexplained);
        }
        let memory = ResidentMemory::of_history(&history).unwrap();
        assert_eq!(kinds(memory), [(FindingKind::Unexplained, 25.0)]);
        assert_eq!(ResidentMemory::of_history(&LedgerHistory::default()), None);
    }
}
