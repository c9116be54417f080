//! heapwise's own profile file: the compact tables of [`heapwise_profile::compact`], packed.

use std::io::{self, Write};

use heapwise_profile::{Profile, compact, read::HELD_RATIO};

/// Within 10 % of the size of level 3, in half the time.
const LEVEL: i32 = 1;

pub(super) fn write(profile: &Profile, out: &mut dyn Write) -> io::Result<()> {
    let plain = compact::encode(profile);
    let packed = zstd::bulk::compress(&plain, LEVEL)?;
    // A file that unfolds too far would be taken for a bomb.
    let is_plausible = plain.len() as u64 / HELD_RATIO < packed.len() as u64;
    out.write_all(if is_plausible { &packed } else { &plain })
}
