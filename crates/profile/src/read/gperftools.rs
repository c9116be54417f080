//! gperftools' `heap profile:` text in all its types.
//!
//! ```text
//! %warn any number of these
//! heap profile:    143:  3108960 [   173:  3138960] @ heapprofile
//!      1:  3000000 [     1:  3000000] @ 0x55… 0x7f…
//!
//! MAPPED_LIBRARIES:
//! ```

use super::{
    completeness::Completeness,
    error::ReadError,
    heap_text::{self, StackReader, Tail, take_counts, unexpected},
    limit::Limit,
    lines::{Lines, TextLine, skip_blanks, take, take_decimal, to_text},
    unbias::{Counts, Scaling},
};
use crate::{Profile, builder::Builder};

const FORMAT: &str = "gperftools heap";

/// Prefix of the header line.
pub(super) const MAGIC: &[u8] = b"heap profile:";

/// Prefix of the lines before the header.
pub(super) const COMMAND: &[u8] = b"%";

/// Mean distance of the oldest sampler, which did not write its own.
const UNTOLD_DISTANCE: f64 = (128 << 10) as f64;

/// Reads a whole file, its first line being number `first_line` of the input.
pub(super) fn read(bytes: &[u8], first_line: u64, limit: Limit) -> Result<Profile, ReadError> {
    heap_text::read_cut(bytes, first_line, |records, tail| read_records(records, first_line, limit, tail))
}

fn read_records(
    records: &[u8],
    first_line: u64,
    limit: Limit,
    tail: &mut Tail,
) -> Result<(Profile, Completeness), ReadError> {
    let mut lines = Lines::from_number(records, first_line);
    let mut builder = Builder::new(FORMAT);
    let header = read_commands(&mut lines, &mut builder)?;
    let header = parse_header(header.text).ok_or_else(|| unexpected(FORMAT, header))?;
    builder.meta().sampling = header.scaling.sampling();
    builder.meta().source = format!("{FORMAT} ({})", header.kind);
    let mut completeness = Completeness::new(header.scaling);
    completeness.state(header.totals);
    let mut reader = StackReader::new(tail.annotations.present);
    let mut stacks = Vec::new();
    for line in lines {
        limit.check_line(FORMAT, line, &builder)?;
        let mut text = line.text.trim_ascii();
        if text.is_empty() || text.starts_with(b"#") {
            continue;
        }
        let counts = take_counts(&mut text).ok_or_else(|| unexpected(FORMAT, line))?;
        skip_blanks(&mut text);
        take(&mut text, b"@").ok_or_else(|| unexpected(FORMAT, line))?;
        let stack = reader.read(&mut builder, text).ok_or_else(|| unexpected(FORMAT, line))?;
        stacks.push(stack);
        completeness.add(counts);
        if tail.annotations.samples.is_empty() {
            let estimate = header.scaling.unbias(counts);
            builder.add(stack, None, None, estimate.values, estimate.variance);
        }
    }
    tail.annotations.add_samples(&mut builder, &stacks)?;
    Ok((heap_text::finish(builder, tail, FORMAT), completeness))
}

/// Passes over `%` lines, keeping warnings as comments, up to the header.
fn read_commands<'a>(lines: &mut Lines<'a>, builder: &mut Builder) -> Result<TextLine<'a>, ReadError> {
    for line in lines.by_ref() {
        if !line.text.starts_with(COMMAND) {
            return Ok(line);
        }
        if let Some(warning) = line.text.strip_prefix(b"%warn") {
            let warning = to_text(warning.trim_ascii());
            builder.meta().comments.push(warning);
        }
    }
    let what = "the file ends before its header";
    Err(ReadError::at_line(FORMAT, lines.number(), what))
}

struct Header {
    kind: String,
    totals: Counts,
    scaling: Scaling,
}

fn parse_header(line: &[u8]) -> Option<Header> {
    let mut text = line.strip_prefix(MAGIC)?;
    let totals = take_counts(&mut text)?;
    skip_blanks(&mut text);
    let mut kind: &[u8] = b"";
    let mut rate = None;
    if take(&mut text, b"@").is_some() {
        let text = text.trim_ascii();
        let slash = text.iter().position(|byte| *byte == b'/');
        kind = &text[..slash.unwrap_or(text.len())];
        rate = slash.and_then(|at| take_decimal(&mut &text[at + 1..]));
    }
    let kind = to_text(kind.trim_ascii());
    let scaling = scaling(&kind, rate.unwrap_or(0), totals);
    let kind = if kind.is_empty() { "untyped".to_owned() } else { kind };
    Some(Header { kind, totals, scaling })
}

/// jeprof's rules: only types with `heap` in them are sampled, but `heapprofile` is not; `_v2` is
/// Poisson, the rest is the first sampler, whose mean distance is half of the stated one.
fn scaling(kind: &str, rate: u64, totals: Counts) -> Scaling {
    let distance = |told: f64| if told > 0.0 { told } else { UNTOLD_DISTANCE };
    if kind.is_empty() {
        let sampled =
            totals.inuse_objects == totals.alloc_objects && totals.inuse_bytes == totals.alloc_bytes;
        return match sampled {
            true => Scaling::Uniform(UNTOLD_DISTANCE),
            false => Scaling::Exact,
        };
    }
    if kind == "heapprofile" || !kind.contains("heap") {
        Scaling::Exact
    } else if kind.contains("_v2") {
        Scaling::Poisson(distance(rate as f64))
    } else {
        Scaling::Uniform(distance(rate as f64 / 2.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scaling_of(header: &str) -> Scaling {
        parse_header(header.as_bytes()).unwrap().scaling
    }

    #[test]
    fn every_type_has_its_scaling() {
        for (header, expected) in [
            ("heap profile: 1: 2 [3: 4] @ heapprofile", Scaling::Exact),
            ("heap profile: 1: 2 [1: 2] @ growth", Scaling::Exact),
            ("heap profile: 1: 2 [1: 2] @ growthz", Scaling::Exact),
            ("heap profile: 1: 2 [1: 2] @ fragmentation", Scaling::Exact),
            ("heap profile: 1: 2 [1: 2] @ heap_v2/524288", Scaling::Poisson(524_288.0)),
            ("heap profile: 1: 2 [1: 2] @ heapz_v2/524288", Scaling::Poisson(524_288.0)),
            ("heap profile: 0: 0 [0: 0] @ heap_v2/0", Scaling::Poisson(UNTOLD_DISTANCE)),
            ("heap profile: 1: 2 [1: 2] @ heap/1048576", Scaling::Uniform(524_288.0)),
            ("heap profile: 1: 2 [1: 2]", Scaling::Uniform(UNTOLD_DISTANCE)),
            ("heap profile: 1: 2 [3: 4]", Scaling::Exact),
            ("heap profile: 1: 2 [3: 4] @ ", Scaling::Exact),
        ] {
            assert_eq!(scaling_of(header), expected, "{header}");
        }
        assert!(parse_header(b"heap profile: 1: 2 [3 4] @ heap").is_none());
    }
}
