//! Ledgers that were read beside the recorder, as rows of the recording.

use std::sync::mpsc::Receiver;

use heapwise_format::recording::{FrameHeader, FrameKind, LedgerRow};
use heapwise_profile::recording::RawFrame;

use crate::peak_ledger::LedgerSample;

/// The frame of the ledgers since the last; the time is `now_ms`.
pub(super) fn frame(samples: &Receiver<LedgerSample>, now_ms: u64) -> Option<RawFrame> {
    let (mut payload, mut times) = (Vec::new(), Vec::new());
    for LedgerSample { time, lines } in samples.try_iter() {
        let ms = now_ms.saturating_sub(time.elapsed().as_millis() as u64);
        for (name, bytes) in lines {
            LedgerRow { ms, name: name.as_bytes(), bytes }.encode(&mut payload);
        }
        times.push(ms);
    }
    let header = FrameHeader {
        first: *times.first()?,
        last: *times.last()?,
        count: times.len() as u32,
        ..FrameHeader::new(FrameKind::Ledger)
    };
    Some(RawFrame { header, payload })
}
