//! gperftools' `heap profile:` text: exact as its heap profiler writes it, sampled as tcmalloc
//! does.

use std::io::{self, Write};

use heapwise_profile::Profile;

use super::{
    annotations::write_tail,
    heap_records::{Counts, Records, addresses},
};

pub(super) fn write(profile: &Profile, out: &mut dyn Write) -> io::Result<()> {
    let records = Records::new(profile);
    let kind = match records.rate {
        0 => "heapprofile".to_owned(),
        rate => format!("heap_v2/{rate}"),
    };
    writeln!(out, "heap profile: {} @ {kind}", columns(&records.totals(profile.threads.len()).0))?;
    for record in &records.records {
        writeln!(out, "{} @{}", columns(&record.counts), addresses(profile, record.stack))?;
    }
    write_tail(profile, &records.records, out)
}

fn columns(counts: &Counts) -> String {
    let ((inuse_objects, inuse_bytes), (objects, bytes)) = (counts.inuse, counts.alloc);
    format!("{inuse_objects:6}: {inuse_bytes:8} [{objects:6}: {bytes:8}]")
}
