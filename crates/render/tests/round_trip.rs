//! Every format that is both read and written: what was written is read back the same.

mod specimen;

use std::collections::BTreeMap;

use heapwise_profile::unattributed::unattributed;
use heapwise_profile::{LocationId, Metric, Profile, SizeRange, Values, read};
use heapwise_render::export::{Format, export};
use specimen::{mixed, recording, rich};

fn written(profile: &Profile, format: Format) -> Vec<u8> {
    let mut bytes = Vec::new();
    export(profile, format, Metric::InuseSpace, &mut bytes).unwrap();
    bytes
}

fn there_and_back(profile: &Profile, format: Format) -> Profile {
    read(&written(profile, format)).unwrap_or_else(|error| panic!("{format:?}: {error}"))
}

/// The functions at a location, innermost first, or its place in its binary.
fn names(profile: &Profile, id: LocationId) -> Vec<String> {
    let location = &profile.locations[id.index()];
    if location.lines.is_empty() {
        let module = location.module.map(|id| &profile.modules[id.index()]);
        let offset = module.map(|module| module.file_offset_of(location.lookup_address()));
        return vec![format!("{}+0x{:x}", module.map_or("", |one| one.name()), offset.unwrap_or(0))];
    }
    location.lines.iter().map(|line| profile.functions[line.function.index()].name.clone()).collect()
}

/// Sums per stack of names; with threads and block sizes in the key where the format keeps them.
fn sums(profile: &Profile, keeps_all: bool) -> BTreeMap<String, Values> {
    let mut sums = BTreeMap::new();
    for sample in &profile.samples {
        let stack = profile.stacks.leaf_to_root(sample.stack);
        let mut key =
            stack.flat_map(|node| names(profile, profile.stacks.location(node))).collect::<Vec<_>>();
        if keeps_all {
            let thread = sample.thread.map(|id| &profile.threads[id.index()]);
            let thread = thread.map(|thread| (thread.tid, &thread.name));
            key.push(format!("{thread:?} {:?}", sample.sizes));
        }
        *sums.entry(key.join(" < ")).or_insert(Values::default()) += sample.values;
    }
    sums.retain(|_, values| *values != Values::default());
    sums
}

/// Compares per stack; `slack` is what rounding may take from a sum.
fn assert_same(before: &BTreeMap<String, Values>, after: &BTreeMap<String, Values>, slack: f64, what: &str) {
    let keys = |sums: &BTreeMap<String, Values>| sums.keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(before), keys(after), "{what}");
    for (stack, values) in before {
        for metric in Metric::SHARED {
            let (one, other) = (values.get(metric), after[stack].get(metric));
            assert!((one - other).abs() <= slack, "{what}: {stack} {metric:?}: {one} became {other}");
        }
    }
}

#[test]
fn heapwise_text_loses_nothing() {
    for format in [Format::Heapwise, Format::HeapV2, Format::Gperftools, Format::Raw] {
        let before = rich();
        let after = there_and_back(&before, format);
        assert_same(&sums(&before, true), &sums(&after, true), 0.0, format.name());
        let variances =
            |profile: &Profile| -> f64 { profile.samples.iter().map(|s| s.variance.inuse_bytes).sum() };
        assert_eq!(variances(&before), variances(&after));
        assert_eq!(before.extra, after.extra);
        let mut meta = after.meta.clone();
        meta.source.clone_from(&before.meta.source);
        assert_eq!(before.meta, meta);
        assert_eq!(before.modules, after.modules);
        assert_eq!(before.threads, after.threads);
        assert_eq!(before.functions, after.functions);
        let lookups = |profile: &Profile| -> Vec<u64> {
            let mut all: Vec<u64> = profile.locations.iter().map(|one| one.lookup_address()).collect();
            all.sort_unstable();
            all
        };
        assert_eq!(lookups(&before), lookups(&after));
    }
}

#[test]
fn ranges_of_sizes_histogram_and_losses_come_back() {
    for format in [Format::Heapwise, Format::HeapV2, Format::Gperftools, Format::Raw] {
        let before = mixed();
        let after = there_and_back(&before, format);
        assert_same(&sums(&before, true), &sums(&after, true), 0.0, format.name());
        assert_eq!(before.sizes, after.sizes, "{format:?}");
        assert_eq!(before.extra, after.extra, "{format:?}");
        assert_eq!(before.meta.losses, after.meta.losses, "{format:?}");
        assert_eq!(before.meta.end, after.meta.end, "{format:?}");
        assert_eq!(before.meta.recorded, after.meta.recorded, "{format:?}");
        assert_eq!(unattributed(&before), unattributed(&after), "{format:?}");
    }
    let after = there_and_back(&mixed(), Format::Pprof);
    assert_same(&sums(&mixed(), true), &sums(&after, true), 0.0, "pprof");
    assert_eq!(unattributed(&mixed()), unattributed(&after));
}

/// Formats with comments contain a text about missing data.
#[test]
fn what_is_missing_is_told_in_comments() {
    for format in [Format::HeapV2, Format::Gperftools, Format::Callgrind, Format::Heaptrack, Format::Json] {
        let text = String::from_utf8(written(&mixed(), format)).unwrap();
        assert!(text.contains("20 B without a stack"), "{format:?}: {text}");
        assert!(text.contains("3 blocks of 333 B counted as freed at once"), "{format:?}: {text}");
        assert!(!String::from_utf8(written(&rich(), format)).unwrap().contains("without a stack"));
    }
    let once = there_and_back(&mixed(), Format::Pprof);
    let twice = there_and_back(&once, Format::Pprof).meta.comments;
    assert_eq!(once.meta.comments.len(), twice.len(), "comments do not grow: {twice:?}");
    let comments = once.meta.comments;
    assert!(comments.iter().any(|comment| comment.contains("20 B without a stack")), "{comments:?}");
}

#[test]
fn mixed_sizes_keep_peak_and_leaks_in_heaptrack_and_dhat() {
    for format in [Format::Heaptrack, Format::Dhat] {
        let after = there_and_back(&mixed(), format);
        assert_eq!(after.total(), mixed().total(), "{format:?}");
        assert_eq!(after.meta.peak_bytes, Some(858), "{format:?}");
    }
}

#[test]
fn a_second_trip_changes_nothing() {
    for format in [Format::HeapV2, Format::Gperftools] {
        let first = written(&rich(), format);
        let second = written(&read(&first).unwrap(), format);
        assert_eq!(String::from_utf8(first).unwrap(), String::from_utf8(second).unwrap());
    }
}

#[test]
fn pprof_keeps_all_but_fractions() {
    let before = rich();
    let after = there_and_back(&before, Format::Pprof);
    assert_same(&sums(&before, true), &sums(&after, true), 0.5, "pprof");
    assert_eq!(before.modules, after.modules);
    assert_eq!(before.functions, after.functions);
    let names = |profile: &Profile| profile.extra.iter().map(|one| one.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&before), names(&after));
    assert_eq!(before.meta.sampling, after.meta.sampling);
    assert_eq!(before.meta.time_unix_ns, after.meta.time_unix_ns);
}

#[test]
fn every_recording_survives_every_format_that_keeps_four_numbers() {
    for name in [
        "jemalloc-exact.heap",
        "tcmalloc-exact.heap",
        "heaptrack.zst",
        "dhat.json",
        "go.pb.gz",
        "jeprof-raw.txt",
    ] {
        let before = recording(name);
        for format in [Format::Heapwise, Format::Pprof, Format::HeapV2, Format::Gperftools, Format::Raw] {
            let after = there_and_back(&before, format);
            assert_same(&sums(&before, false), &sums(&after, false), 1.0, &format!("{name} as {format:?}"));
        }
    }
}

#[test]
fn folded_keeps_one_metric() {
    let before = rich();
    let after = there_and_back(&before, Format::Folded);
    let mut expected = sums(&before, false);
    expected.retain(|_, values| values.inuse_bytes.round() != 0.0);
    for values in expected.values_mut() {
        *values = Values { inuse_bytes: values.inuse_bytes, ..Values::default() };
    }
    assert_same(&expected, &sums(&after, false), 0.5, "folded");
}

#[test]
fn dhat_keeps_total_and_end() {
    let before = recording("dhat.json");
    let after = there_and_back(&before, Format::Dhat);
    assert_same(&sums(&before, false), &sums(&after, false), 0.0, "dhat");
    assert_eq!(before.extra, after.extra);
    assert_eq!(before.meta.peak_bytes, after.meta.peak_bytes);
}

#[test]
fn heaptrack_keeps_blocks_peak_and_names() {
    let before = recording("heaptrack.zst");
    let after = there_and_back(&before, Format::Heaptrack);
    assert_same(&sums(&before, true), &sums(&after, true), 0.0, "heaptrack");
    assert_eq!(before.meta.peak_bytes, after.meta.peak_bytes);
    assert_eq!(before.extra[0], after.extra[0]);
}

#[test]
fn heaptrack_of_mixed_sizes_keeps_bytes() {
    let before = recording("jeprof-raw.txt");
    let after = there_and_back(&before, Format::Heaptrack);
    assert_same(&sums(&before, false), &sums(&after, false), 1.0, "heaptrack");
}

#[test]
fn skynet_keeps_four_numbers_per_pc() {
    let before = recording("tcmalloc-exact.heap");
    let after = there_and_back(&before, Format::Skynet);
    let by_address = |profile: &Profile| {
        let mut sums: BTreeMap<Vec<u64>, [i64; 4]> = BTreeMap::new();
        for sample in &profile.samples {
            let pcs = profile.stacks.leaf_to_root(sample.stack);
            let pcs: Vec<u64> =
                pcs.map(|node| profile.locations[profile.stacks.location(node).index()].address).collect();
            let sum = sums.entry(pcs).or_default();
            for (cell, metric) in sum.iter_mut().zip(Metric::SHARED) {
                *cell += sample.values.get(metric) as i64;
            }
        }
        sums
    };
    assert_eq!(by_address(&before), by_address(&after));
}

/// The bytes as the format's own reader takes them apart, field by field.
#[test]
fn skynet_has_the_layout_of_its_own_tool() {
    let bytes = written(&recording("jeprof-raw.txt"), Format::Skynet);
    let mut at = 0;
    let mut take = |length: usize| {
        at += length;
        &bytes[at - length..at]
    };
    let word = |bytes: &[u8]| u32::from_be_bytes(bytes.try_into().unwrap()) as usize;
    assert_eq!(word(take(4)), bytes.len() - 4);
    let mut names = Vec::new();
    for _ in 0..word(take(4)) {
        let length = usize::from(take(1)[0]);
        assert!(length <= 80);
        names.push(String::from_utf8(take(length).to_vec()).unwrap());
        take(8);
    }
    assert!(names.iter().any(|name| name.starts_with("/tmp/heapwise-fixture/fixture(leaf_a")), "{names:?}");
    let [alloc_objects, _alloc_bytes, free_objects, free_bytes, depth] = [(); 5].map(|()| word(take(4)));
    assert!(alloc_objects > 0 && free_objects == 0 && free_bytes == 0);
    assert!((5..20).contains(&depth));
}

#[test]
fn skynet_splits_what_32_bits_cannot_count() {
    let mut before = rich();
    before.samples.truncate(1);
    before.extra.clear();
    before.samples[0].sizes = Some(SizeRange::one(1 << 20));
    before.samples[0].values = Values {
        alloc_objects: 10_000.0,
        alloc_bytes: 10_485_760_000.0,
        inuse_objects: 1.0,
        inuse_bytes: 1_048_576.0,
    };
    let after = there_and_back(&before, Format::Skynet);
    assert_eq!(before.total(), after.total());
    assert!(after.samples.iter().all(|sample| sample.block_bytes() == Some(1 << 20)));
}

/// Every cut of every file we write is an error, or a profile with the right total, or one that
/// states its cut. Lines of heaptrack have no end: a file may end after any of them.
#[test]
fn our_own_files_cut_anywhere() {
    for format in
        [Format::HeapV2, Format::Raw, Format::Pprof, Format::Skynet, Format::Heaptrack, Format::Dhat]
    {
        let profile = match format {
            Format::Heaptrack => recording("dhat.json"),
            _ => rich(),
        };
        let whole = written(&profile, format);
        let total = read(&whole).unwrap().total();
        for end in 0..whole.len() {
            match read(&whole[..end]) {
                Err(error) => {
                    assert!(!error.to_string().contains('\n'), "{format:?} cut at {end}: {error}");
                }
                Ok(_) if format == Format::Heaptrack && whole[..end].ends_with(b"\n") => {}
                Ok(cut) => {
                    // Records of text are rounded to integers.
                    let is_close = |one: f64, other: f64| (one - other).abs() <= 1e-3 * other;
                    let found = cut.total();
                    let is_right = is_close(found.inuse_bytes, total.inuse_bytes)
                        && is_close(found.alloc_bytes, total.alloc_bytes);
                    assert!(cut.meta.cut.is_some() || is_right, "{format:?} cut at {end}");
                }
            }
        }
    }
}

#[test]
fn a_difference_can_be_written_in_every_format() {
    let mut profile = rich();
    for sample in &mut profile.samples {
        sample.values = -sample.values;
    }
    for format in Format::ALL {
        written(&profile, format);
    }
    assert_eq!(there_and_back(&profile, Format::HeapV2).total(), profile.total());
}

#[test]
fn an_empty_profile_can_be_written_in_every_format() {
    for format in Format::ALL {
        written(&Profile::default(), format);
    }
}

#[test]
fn names_on_the_command_line_are_told_apart() {
    for format in Format::ALL {
        assert_eq!(Format::from_name(format.name()), Some(format));
    }
    assert_eq!(Format::from_name("collapsed"), Some(Format::Folded));
    assert_eq!(Format::from_name("nonsense"), None);
}

/// Numbers that no file of a sane tool has, but that some file will have.
#[test]
fn absurd_numbers_can_be_written_in_every_format() {
    let mut profile = rich();
    for sample in &mut profile.samples {
        sample.values =
            Values { alloc_objects: 1e300, alloc_bytes: 1e300, inuse_objects: 10.0, inuse_bytes: 1e30 };
    }
    for location in &mut profile.locations {
        (location.address, location.is_return_address) = (u64::MAX, false);
    }
    profile.samples[1].sizes = None;
    for format in
        Format::ALL.into_iter().filter(|format| !matches!(format, Format::Heaptrack | Format::Firefox))
    {
        let mut bytes = Vec::new();
        let done = export(&profile, format, Metric::InuseSpace, &mut bytes);
        assert!(done.is_ok() || format == Format::Skynet, "{format:?}: {done:?}");
    }
}

/// A small profile with absurd counts: the made-up events of heaptrack have a bound, bytes stay
/// right.
#[test]
fn absurd_counts_make_no_absurd_heaptrack_file() {
    use heapwise_profile::SizeRange;
    let mut profile = recording("dhat.json");
    let count = profile.samples.len() as f64;
    for (at, sample) in profile.samples.iter_mut().enumerate() {
        let blocks = 1e15 / count + at as f64;
        sample.sizes = Some(SizeRange::one(64));
        sample.values = Values {
            alloc_objects: 2.0 * blocks,
            alloc_bytes: 128.0 * blocks,
            inuse_objects: blocks,
            inuse_bytes: 64.0 * blocks,
        };
    }
    profile.extra.clear();
    let mut counted = Counted(0);
    heapwise_render::export::export(&profile, Format::Heaptrack, Metric::InuseSpace, &mut counted).unwrap();
    assert!(counted.0 < 400 << 20, "{} bytes", counted.0);
}

/// Counts bytes instead of storing them.
struct Counted(u64);

impl std::io::Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len() as u64;
        assert!(self.0 < 1 << 30, "more than a gibibyte");
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
