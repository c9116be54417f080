//! jeprof's `--raw`: heap_v2 behind the names of its addresses, so that the real jeprof reads it on
//! a machine that has none of the binaries.

use heapwise_profile::printable::printable;
use std::io::{self, Write};

use heapwise_profile::{LocationId, Profile};

use super::{
    frames::{FrameList, return_address},
    heap_v2,
};

pub(super) fn write(profile: &Profile, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "--- symbol")?;
    let program = match profile.meta.program.as_str() {
        "" => "unknown",
        program => program,
    };
    writeln!(out, "binary={}", printable(program))?;
    let frames = FrameList::new(profile);
    for id in (0..profile.locations.len()).map(LocationId::new) {
        // jeprof has callers before the callees inlined into them, and `--` between the two.
        let names: Vec<String> =
            frames.at(id).iter().rev().map(|frame| printable(&frame.name).replace("--", "-")).collect();
        writeln!(out, "{:#018x} {}", return_address(profile, id) - 1, names.join("--"))?;
    }
    writeln!(out, "---\n--- heap")?;
    heap_v2::write(profile, out)
}
