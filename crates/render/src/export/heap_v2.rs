//! jemalloc's threaded `heap_v2` text, which is also heapwise's own profile file.

use heapwise_profile::printable::printable;
use std::io::{self, Write};

use heapwise_profile::Profile;

use super::{
    annotations::{counts_text, write_tail},
    heap_records::{Records, addresses},
};

pub(super) fn write(profile: &Profile, out: &mut dyn Write) -> io::Result<()> {
    let records = Records::new(profile);
    writeln!(out, "heap_v2/{}", records.rate)?;
    let (total, by_thread) = records.totals(profile.threads.len());
    writeln!(out, "  t*: {}", counts_text(&total))?;
    for (number, (thread, counts)) in profile.threads.iter().zip(&by_thread).enumerate() {
        let counts = counts_text(counts);
        let name = printable(&thread.name);
        writeln!(out, "{}", format!("  t{number}: {counts} {name}").trim_end())?;
    }
    for record in &records.records {
        writeln!(out, "@{}", addresses(profile, record.stack))?;
        writeln!(out, "  t*: {}", counts_text(&record.counts))?;
        for (thread, counts) in &record.threads {
            writeln!(out, "  t{}: {}", thread.0, counts_text(counts))?;
        }
    }
    write_tail(profile, &records.records, out)
}
