//! A table with a row per measurement, for spreadsheets and databases (RFC 4180).

use heapwise_profile::printable::printable;
use std::io::{self, Write};

use heapwise_profile::Profile;

use super::frames::{FrameList, whole};

pub(super) fn write(profile: &Profile, out: &mut dyn Write) -> io::Result<()> {
    write!(
        out,
        "stack,thread,block_bytes,min_bytes,max_bytes,alloc_objects,alloc_bytes,inuse_objects,inuse_bytes,inuse_bytes_error"
    )?;
    for column in &profile.extra {
        write!(out, ",{}", quoted(&column.name))?;
    }
    write!(out, "\r\n")?;
    let frames = FrameList::new(profile);
    for (row, sample) in profile.samples.iter().enumerate() {
        let names: Vec<String> = frames
            .root_to_leaf(sample.stack)
            .into_iter()
            .map(|frame| printable(&frame.name).replace(';', ":"))
            .collect();
        let thread = sample.thread.map(|id| &profile.threads[id.index()]);
        let thread = thread.map_or_else(String::new, |thread| match thread.name.as_str() {
            "" => thread.tid.to_string(),
            name => format!("{} {}", thread.tid, printable(name)),
        });
        write!(out, "{},{}", quoted(&names.join(";")), quoted(&thread))?;
        let [min, max] = [sample.sizes.map(|sizes| sizes.min), sample.sizes.map(|sizes| sizes.max)];
        for size in [sample.block_bytes(), min, max] {
            write!(out, ",{}", size.map_or_else(String::new, |bytes| bytes.to_string()))?;
        }
        let values = &sample.values;
        let error = sample.variance.inuse_bytes.max(0.0).sqrt();
        for value in
            [values.alloc_objects, values.alloc_bytes, values.inuse_objects, values.inuse_bytes, error]
        {
            write!(out, ",{}", whole(value))?;
        }
        for column in &profile.extra {
            write!(out, ",{}", whole(column.values[row]))?;
        }
        write!(out, "\r\n")?;
    }
    Ok(())
}

/// A field, in quotes where its content needs them.
fn quoted(field: &str) -> String {
    if field.contains(['"', ',', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_and_commas_stay_in_their_field() {
        assert_eq!(quoted("std::map<int, int>"), "\"std::map<int, int>\"");
        assert_eq!(quoted("operator\"\"_s"), "\"operator\"\"\"\"_s\"");
        assert_eq!(quoted("main"), "main");
    }
}
