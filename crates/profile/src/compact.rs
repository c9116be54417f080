//! heapwise's own profile file: the tables of a [`Profile`](crate::Profile), column by column.
//!
//! Call stacks stay the tree they are, a node being the distance to its parent and a location, so
//! that a file grows with the nodes of the tree and not with the depth of its stacks. Values of one
//! kind are stored together, so that they compress well. Layout: docs/FORMATS.md.

mod decode;
mod encode;

pub(crate) use decode::decode;
pub use encode::encode;

/// First bytes of a file, before any packing; the number is the version.
pub const MAGIC: &[u8] = b"heapwise profile 2\n";

/// First bytes of a file of version 1, which heapwise 0.1 wrote.
pub const MAGIC_1: &[u8] = b"heapwise profile 1\n";

/// Version of the file's layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Version {
    /// Samples have one block size or none, and four counters of losses.
    One,
    /// Samples have a range of sizes; losses are a list; sizes of the whole process.
    Two,
}

impl Version {
    /// The version of a file; `None` for files of other formats.
    pub(crate) fn of(bytes: &[u8]) -> Option<Self> {
        match () {
            () if bytes.starts_with(MAGIC_1) => Some(Version::One),
            () if bytes.starts_with(MAGIC) => Some(Version::Two),
            () => None,
        }
    }
}

const _: () = assert!(MAGIC.len() == MAGIC_1.len());

/// A table of the file. A section is its tag, the length of its body and the body; readers pass
/// over tags they do not know, and over what a later version adds at the end of a body they do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Section {
    /// Nothing follows; a file without it was cut off.
    End = 0,
    Meta = 1,
    Modules = 2,
    Threads = 3,
    Functions = 4,
    Locations = 5,
    Stacks = 6,
    Samples = 7,
    /// One column beyond the four shared metrics.
    Extra = 8,
    /// Blocks of the whole process by size.
    Sizes = 9,
}

impl Section {
    fn of_tag(tag: u8) -> Option<Self> {
        use Section::{End, Extra, Functions, Locations, Meta, Modules, Samples, Sizes, Stacks, Threads};
        [End, Meta, Modules, Threads, Functions, Locations, Stacks, Samples, Extra, Sizes]
            .get(usize::from(tag))
            .copied()
    }
}

/// Codes of a number: what was predicted, the bits of an `f64`, or a whole number plus two.
const AS_PREDICTED: u64 = 0;
const BITS: u64 = 1;
const WHOLE: u64 = 2;

/// Whole numbers below this are exact in an `f64`.
const WHOLE_LIMIT: f64 = (1u64 << 53) as f64;

#[cfg(test)]
mod tests {
    use super::*;
    use heapwise_format::varint;

    use crate::{
        Cut, CutReason, CutShare, Losses, Profile, ProgramEnd, Recorded, SizeBin, SizeHistogram, SizeRange,
        Values, fixture,
        metric::Unit,
        model::{ExtraColumn, Position},
        read::Limit,
    };

    fn decode(bytes: &[u8]) -> Result<Profile, crate::ReadError> {
        super::decode(bytes, Version::of(bytes).unwrap(), Limit::default())
    }

    fn sample_profile() -> Profile {
        let mut profile = fixture::profile("main;left;malloc 3 4096\nmain;right 1 10\nother 0 0\n");
        profile.meta.args = vec!["a".into(), "b c".into()];
        profile.meta.pid = Some(7);
        profile.meta.peak_bytes = Some(u64::MAX);
        profile.meta.comments = vec!["a remark".into()];
        profile.meta.cut = Some(Cut {
            at: Position::Line(7),
            reason: CutReason::Damaged("a checksum".into()),
            share: Some(CutShare { read_bytes: 1, stated_bytes: u64::MAX }),
        });
        profile.meta.losses = Losses::from_numbers(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
        profile.meta.end = ProgramEnd::Killed { signal: Some(9) };
        profile.meta.recorded = Recorded::from_numbers(&[3, 7, 1, 9, 2, 4096, 77, 5], "je_malloc".into());
        profile.samples[0].sizes = Some(SizeRange::one(64));
        profile.samples[1].sizes = Some(SizeRange { min: 0, max: u64::MAX - 1 });
        profile.samples[0].variance.inuse_bytes = 0.125;
        profile.samples[1].values.alloc_bytes = -1e300;
        let values = vec![1.5; profile.samples.len()];
        profile.extra.push(ExtraColumn { name: "peak_space".into(), unit: Unit::Bytes, values });
        let values = Values { alloc_objects: 3.0, alloc_bytes: 0.5, ..Values::default() };
        let ranges = [SizeRange { min: 16, max: 31 }, SizeRange { min: 1 << 60, max: u64::MAX }];
        profile.sizes = SizeHistogram::new(ranges.map(|range| SizeBin { range, values }));
        profile
    }

    #[test]
    fn everything_comes_back() {
        let profile = sample_profile();
        let back = decode(&encode(&profile)).unwrap();
        let nodes = |profile: &Profile| {
            let node = |id| (profile.stacks.parent(id), profile.stacks.location(id));
            profile.stacks.ids().map(node).collect::<Vec<_>>()
        };
        assert_eq!(back.meta, profile.meta);
        assert_eq!(back.modules, profile.modules);
        assert_eq!(back.threads, profile.threads);
        assert_eq!(back.functions, profile.functions);
        assert_eq!(back.locations, profile.locations);
        assert_eq!(nodes(&back), nodes(&profile));
        assert_eq!(back.samples, profile.samples);
        assert_eq!(back.extra, profile.extra);
        assert_eq!(back.sizes, profile.sizes);
    }

    #[test]
    fn a_cut_at_any_byte_is_an_error_that_names_it() {
        let bytes = encode(&sample_profile());
        for length in (MAGIC.len()..bytes.len()).step_by(if cfg!(miri) { 7 } else { 1 }) {
            let error = decode(&bytes[..length]).unwrap_err().to_string();
            assert!(error.contains("at byte"), "{error}");
        }
    }

    #[test]
    fn no_flipped_byte_is_taken_for_a_row_that_is_not_there() {
        let bytes = encode(&sample_profile());
        for at in (MAGIC.len()..bytes.len()).step_by(if cfg!(miri) { 29 } else { 1 }) {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut damaged = bytes.clone();
                damaged[at] = value;
                let Ok(profile) = decode(&damaged) else { continue };
                for node in profile.samples.iter().flat_map(|one| profile.stacks.leaf_to_root(one.stack)) {
                    assert!(profile.stacks.location(node).index() < profile.locations.len());
                }
            }
        }
    }

    /// A count of lines beyond the bytes that hold them, for each of many locations.
    #[test]
    fn counts_of_lines_are_bounded_by_the_file() {
        let (locations, lines) = (20_000u64, 100_000u64);
        let mut body = Vec::new();
        varint::put(&mut body, locations);
        body.extend(vec![0; 3 * locations as usize]);
        (0..locations).for_each(|_| varint::put(&mut body, lines));
        body.extend(vec![0; lines as usize]);
        let mut file = MAGIC.to_vec();
        file.push(Section::Locations as u8);
        varint::put(&mut file, body.len() as u64);
        file.extend(body);
        let error = decode(&file).unwrap_err().to_string();
        assert!(error.contains("more lines than are left"), "{error}");
    }

    #[test]
    fn tables_have_a_limit() {
        let bytes = encode(&sample_profile());
        let version = Version::of(&bytes).unwrap();
        assert!(super::decode(&bytes, version, Limit::of_memory(100_000)).is_ok());
        let error = super::decode(&bytes, version, Limit::of_memory(300)).unwrap_err();
        assert!(matches!(error, crate::ReadError::TooLarge { .. }), "{error}");
    }

    #[test]
    fn a_table_that_comes_again_is_refused() {
        let bytes = encode(&sample_profile());
        let (body, end) = bytes.split_at(bytes.len() - 2);
        let no_modules = [Section::Modules as u8, 1, 0];
        let error = decode(&[body, &no_modules, end].concat()).unwrap_err().to_string();
        assert!(error.contains("out of place"), "{error}");
    }

    #[test]
    fn sections_and_fields_of_later_versions_are_passed_over() {
        let bytes = encode(&sample_profile());
        let (body, end) = bytes.split_at(bytes.len() - 2);
        let later = [body, &[200, 3, 1, 2, 3], end].concat();
        assert_eq!(decode(&later).unwrap().samples, sample_profile().samples);
    }
}
