//! The closing line of `run` about resident memory.

use heapwise_capture::peak_ledger::PeakLedger;
use heapwise_profile::finding::{Finding, ResidentMemory};
use heapwise_profile::ledger::{self, Ledger, LineKind};
use heapwise_profile::quantity;
use heapwise_render::{Language, Text, text};

use crate::console::{closing_line, language, message};
use crate::symbols::SymbolArgs;

/// Where the resident memory of a program was when there was most of it.
#[derive(Debug)]
pub(super) struct Resident {
    /// The ledger nearest to the peak.
    pub(super) ledger: PeakLedger,
    /// The peak; `None` for a program that ended without `exit`.
    pub(super) peak: Option<u64>,
}

/// A ledger is one at the peak when the peak exceeds it by at most one in so many bytes.
const TOLERANCE: u64 = 50;

impl Resident {
    /// Prints the line, and hints.
    pub(super) fn print(&self) {
        let Some(reading) = &self.ledger.reading else {
            if let Some(peak) = self.peak {
                closing_line(Text::Resident, &message(Text::NeverRead, &[("bytes", &amount(peak))]));
            }
            return;
        };
        let ledger = &reading.ledger;
        let lines = text::ledger::sentence(ledger, language());
        closing_line(Text::Resident, &format!("{}: {lines}", self.when(ledger, language())));
        let mut stacks = reading.stacks.clone();
        if ledger.of(LineKind::Mappings) * 10 >= ledger.resident {
            SymbolArgs::default().symbolize(&mut stacks);
        }
        for hint in ledger::hints(ledger, &stacks) {
            closing_line(Text::Note, &text::ledger::hint(hint));
        }
    }

    /// What stands out in it.
    pub(super) fn findings(&self) -> Vec<Finding> {
        let reading = self.ledger.reading.iter();
        reading.flat_map(|reading| ResidentMemory::of(&reading.ledger).findings()).collect()
    }

    /// The resident bytes of a ledger, and when it was read.
    fn when(&self, ledger: &Ledger, language: Language) -> String {
        let resident = amount(ledger.resident);
        let age = quantity::duration(self.ledger.age);
        match self.peak.map(|peak| peak.max(self.ledger.peak_seen)) {
            None => Text::WhenLastRead.with(language, &[("bytes", &resident), ("age", &age)]),
            Some(peak) if peak.saturating_sub(ledger.resident) <= peak / TOLERANCE => {
                Text::AtPeak.with(language, &[("bytes", &resident)])
            }
            Some(peak) => {
                Text::AtPeakThenRead.with(language, &[("peak", &amount(peak)), ("bytes", &resident)])
            }
        }
    }
}

fn amount(bytes: u64) -> String {
    quantity::bytes(bytes as f64)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn at_the_peak_is_said_of_the_peak_only() {
        let ledger = Ledger { resident: 99 << 20, ..Ledger::default() };
        let when = |peak: Option<u64>, peak_seen: u64| {
            let ledger_read =
                PeakLedger { reading: None, age: Duration::from_millis(30), peak_seen: peak_seen << 20 };
            Resident { ledger: ledger_read, peak: peak.map(|mebibytes| mebibytes << 20) }
                .when(&ledger, Language::English)
        };
        assert_eq!(when(Some(100), 99), "99.0 MiB at the peak");
        assert_eq!(when(Some(120), 99), "120 MiB at the peak; when last read, 99.0 MiB");
        assert_eq!(when(Some(99), 130), "130 MiB at the peak; when last read, 99.0 MiB");
        assert_eq!(when(None, 99), "99.0 MiB when last read, 30 ms before the end");
    }
}
