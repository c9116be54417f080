//! Readers against recordings of the real tools (made by `data/make.sh`). The expected values are
//! those that the programs in `data/` print.

use std::io::Read as _;

use heapwise_profile::model::Position;
use heapwise_profile::read::{Limit, ReadError, read_limited};
use heapwise_profile::{CutReason, Losses, Profile, Sampling, StackId, Values, metric::column, read::read};

fn recording(name: &str) -> Vec<u8> {
    let path = format!("{}/tests/data/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

const RECORDINGS: [&str; 13] = [
    "jemalloc-exact.heap",
    "jemalloc-sampled.heap",
    "jeprof-raw.txt",
    "tcmalloc-exact.heap",
    "tcmalloc-sample.heap",
    "tcmalloc-growth.heap",
    "heaptrack.zst",
    "heaptrack.gz",
    "heaptrack-raw.zst",
    "dhat.json",
    "go.pb.gz",
    "version-1.hwp",
    "version-1.heap",
];

/// Sums per stack of all samples whose values satisfy `wanted`.
fn stacks_where(profile: &Profile, wanted: impl Fn(&Values) -> bool) -> Vec<(StackId, Values)> {
    let mut sums: Vec<(StackId, Values)> = Vec::new();
    for sample in &profile.samples {
        match sums.iter_mut().find(|(stack, _)| *stack == sample.stack) {
            Some((_, values)) => *values += sample.values,
            None => sums.push((sample.stack, sample.values)),
        }
    }
    sums.retain(|(_, values)| wanted(values));
    sums
}

/// fixture.c: leaf_a keeps 100 of 64 B, leaf_b 20 of 50 of `b` B, two workers 20 of 4096 B, and
/// one block of at least 3000000 B is kept.
fn assert_fixture(profile: &Profile, b: f64) {
    let exactly = |objects: f64, bytes: f64, allocated: f64| {
        let found = stacks_where(profile, |values| {
            (values.inuse_objects - objects).abs() < 1e-3
                && (values.inuse_bytes - bytes).abs() < 1e-3
                && (values.alloc_objects - allocated).abs() < 1e-3
        });
        assert_eq!(found.len(), 1, "{objects} blocks of {bytes} bytes");
    };
    exactly(100.0, 6400.0, 100.0);
    exactly(20.0, 20.0 * b, 50.0);
    exactly(20.0, 81920.0, 20.0);
    let big = stacks_where(profile, |values| values.inuse_bytes >= 3e6);
    assert_eq!(big.len(), 1);
}

fn module_of_main(profile: &Profile) -> &str {
    let sample = &profile.samples[0];
    profile
        .stacks
        .leaf_to_root(sample.stack)
        .filter_map(|node| profile.locations[profile.stacks.location(node).index()].module)
        .map(|module| profile.modules[module.index()].name())
        .find(|name| *name == "fixture")
        .unwrap_or("no frame in the program")
}

fn has_function(profile: &Profile, name: &str) -> bool {
    profile.functions.iter().any(|function| function.name.starts_with(name))
}

#[test]
fn jemalloc_with_its_threads() {
    let profile = read(&recording("jemalloc-exact.heap")).unwrap();
    assert_fixture(&profile, 1024.0); // usable bytes, not requested ones
    assert_eq!(profile.meta.sampling, Sampling::Poisson { mean_bytes: 1 });
    assert_eq!(profile.meta.program, "/tmp/heapwise-fixture/fixture");
    assert_eq!(module_of_main(&profile), "fixture");
    let worker = stacks_where(&profile, |values| (values.inuse_bytes - 81920.0).abs() < 1.0)
        .into_iter()
        .find(|(_, values)| values.inuse_objects > 19.0);
    let (worker, _) = worker.unwrap();
    let mut threads: Vec<u64> = profile
        .samples
        .iter()
        .filter(|sample| sample.stack == worker)
        .map(|sample| profile.threads[sample.thread.unwrap().index()].tid)
        .collect();
    threads.sort_unstable();
    assert_eq!(threads, [1, 2]);
}

#[test]
fn jemalloc_sampled_is_unbiased_per_record() {
    let profile = read(&recording("jemalloc-sampled.heap")).unwrap();
    let total = profile.total();
    let sigma: f64 = profile.samples.iter().map(|sample| sample.variance.inuse_bytes).sum::<f64>().sqrt();
    // 100×64 + 20×1024 + 20×4096 + 3145728, and libstdc++'s pool of 81920 and thread blocks.
    let truth = 3_337_088.0;
    assert!(sigma > 0.0 && sigma < 0.05 * truth, "{sigma}");
    assert!((total.inuse_bytes - truth).abs() < 4.0 * sigma, "{total:?} ± {sigma}");
}

#[test]
fn jeprof_raw_has_its_names() {
    let profile = read(&recording("jeprof-raw.txt")).unwrap();
    assert_fixture(&profile, 1024.0);
    assert_eq!(profile.meta.program, "./fixture");
    for name in ["main", "leaf_a", "leaf_b", "worker", "big"] {
        assert!(has_function(&profile, name), "{name}");
    }
    let unnamed = profile.locations.iter().filter(|one| one.lines.is_empty());
    assert_eq!(unnamed.count(), 0);
}

#[test]
fn tcmalloc_exact() {
    let profile = read(&recording("tcmalloc-exact.heap")).unwrap();
    assert_fixture(&profile, 1000.0);
    assert_eq!(profile.meta.sampling, Sampling::Exact);
    assert_eq!(module_of_main(&profile), "fixture");
}

#[test]
fn tcmalloc_sampled() {
    let profile = read(&recording("tcmalloc-sample.heap")).unwrap();
    let expected = Sampling::Poisson { mean_bytes: 524_288 };
    assert_eq!(profile.meta.sampling, expected);
    let total = profile.total().inuse_bytes;
    let variance: f64 = profile.samples.iter().map(|one| one.variance.inuse_bytes).sum();
    let truth = 100.0 * 100_000.0 + 1900.0 * 64.0;
    assert!((total - truth).abs() < 4.0 * variance.sqrt(), "{total}");
}

#[test]
fn tcmalloc_growth_is_not_scaled() {
    let profile = read(&recording("tcmalloc-growth.heap")).unwrap();
    let text = String::from_utf8(recording("tcmalloc-growth.heap")).unwrap();
    let header: Vec<&str> = text.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(profile.total().inuse_bytes, header[3].parse::<f64>().unwrap());
}

#[test]
fn heaptrack_of_every_kind() {
    for name in ["heaptrack.zst", "heaptrack.gz", "heaptrack-raw.zst"] {
        let profile = read(&recording(name)).unwrap();
        assert_fixture(&profile, 1000.0);
        assert!(profile.meta.peak_bytes.unwrap() > 3_100_000, "{name}");
        assert_eq!(has_function(&profile, "leaf_a"), name != "heaptrack-raw.zst");
        let modules: Vec<&str> = profile.modules.iter().map(|one| one.name()).collect();
        assert!(modules.contains(&"fixture"), "{name}: {modules:?}");
    }
}

#[test]
fn dhat() {
    let profile = read(&recording("dhat.json")).unwrap();
    assert_fixture(&profile, 1000.0);
    assert!(has_function(&profile, "leaf_b"));
    assert!(profile.meta.peak_bytes.unwrap() >= 3_108_320);
}

#[test]
fn go() {
    let profile = read(&recording("go.pb.gz")).unwrap();
    let small = stacks_where(&profile, |values| values.inuse_bytes == 102_400.0);
    assert_eq!(small[0].1.inuse_objects, 100.0);
    assert!(has_function(&profile, "main.large"));
    assert_eq!(profile.meta.sampling, Sampling::Exact);
    assert!(!profile.modules[0].build_id.is_empty());
}

/// What heapwise 0.1 wrote of a program that holds 8 blocks of 100 bytes, grows one from 10 to
/// 5000, and frees all but two. Its `peak_space` was the highest value of each stack.
#[test]
fn files_of_version_1() {
    for name in ["version-1.hwp", "version-1.heap"] {
        let profile = read(&recording(name)).unwrap();
        let total = profile.total();
        assert_eq!((total.alloc_objects, total.alloc_bytes), (10.0, 5810.0), "{name}");
        assert_eq!((total.inuse_objects, total.inuse_bytes), (2.0, 200.0), "{name}");
        let sizes: Vec<_> = profile.samples.iter().map(|sample| sample.block_bytes()).collect();
        assert_eq!(sizes, [Some(100), Some(10), Some(5000)], "{name}");
        let column = |name| profile.column(name).map(|column| column.values.as_slice());
        assert_eq!(column(column::HIGHEST_SPACE), Some(&[800.0, 10.0, 5000.0][..]), "{name}");
        assert_eq!(column(column::INUSE_SLACK), Some(&[8.0, 0.0, 0.0][..]), "{name}");
        assert_eq!(column(column::REALLOC_GROWTH), Some(&[0.0, 0.0, 4990.0][..]), "{name}");
        assert_eq!((column(column::PEAK_SPACE), profile.meta.peak_bytes), (None, Some(5800)), "{name}");
        assert_eq!(profile.meta.losses, Losses::default());
        assert_eq!(profile.threads.len(), 1);
    }
    let old = read(&recording("version-1-dhat.hwp")).unwrap();
    assert_eq!(old.extra, read(&recording("dhat.json")).unwrap().extra);
}

/// Long enough for several blocks of zstd, of 128 KiB each: the events of a real file many times
/// over.
fn long_heaptrack() -> Vec<u8> {
    let mut text = String::new();
    flate2::read::GzDecoder::new(&recording("heaptrack.gz")[..]).read_to_string(&mut text).unwrap();
    let is_event = |line: &&str| line.starts_with(['+', '-']);
    let events: String = text.lines().filter(is_event).map(|line| format!("{line}\n")).collect();
    (text + &events.repeat(1 + 600_000 / events.len())).into_bytes()
}

/// The profile of a cut file, and the line in which it reports the end.
fn damaged(bytes: &[u8]) -> (Profile, usize) {
    let profile = read(bytes).unwrap();
    let cut = profile.meta.cut.clone().expect("a cut");
    let Position::Line(line) = cut.at else { panic!("{cut:?}") };
    (profile, line as usize)
}

/// With a checksum, and a window too small for a block to repeat the one before: all blocks take
/// their share of the file.
fn packed_zstd(plain: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut packer = zstd::Encoder::new(Vec::new(), 1).unwrap();
    packer.include_checksum(true).unwrap();
    packer.window_log(10).unwrap();
    packer.write_all(plain).unwrap();
    packer.finish().unwrap()
}

#[test]
fn heaptrack_cut_or_damaged_within_its_packing_is_read_up_to_there() {
    use std::io::Write;
    let plain = long_heaptrack();
    let zstd = packed_zstd(&plain);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(&plain).unwrap();
    for packed in [zstd, gzip.finish().unwrap()] {
        let (profile, line) = damaged(&packed[..packed.len() * 3 / 4]);
        let lines: Vec<&[u8]> = plain.split_inclusive(|byte| *byte == b'\n').take(line - 1).collect();
        assert!(line > 1000, "{line}");
        assert_eq!(profile.total(), read(&lines.concat()).unwrap().total());
    }
}

#[test]
fn a_wrong_checksum_is_told() {
    let plain = long_heaptrack();
    let mut zstd = packed_zstd(&plain);
    assert_eq!(read(&zstd).unwrap().meta.cut, None);
    *zstd.last_mut().unwrap() ^= 1;
    let (profile, _) = damaged(&zstd);
    assert_eq!(profile.total(), read(&plain).unwrap().total());
}

/// Every cut is an error of one line, or a profile with the right total, or one that states its
/// cut.
#[test]
fn no_cut_yields_a_wrong_total_without_saying_so() {
    for name in RECORDINGS {
        let whole = recording(name);
        let complete = read(&whole).unwrap();
        assert_eq!(complete.meta.cut, None, "{name}");
        for end in 0..whole.len() {
            match read(&whole[..end]) {
                Ok(profile) => assert!(
                    profile.meta.cut.is_some() || profile.total() == complete.total(),
                    "{name} cut at {end}: {:?} instead of {:?}",
                    profile.total(),
                    complete.total()
                ),
                Err(error) => {
                    assert!(!error.to_string().contains('\n'), "{name} cut at {end}: {error}");
                }
            }
        }
    }
}

/// A pprof file that is not compressed has no checksum and no end of its own.
#[test]
fn a_plain_pprof_file_that_is_cut_is_an_error_or_complete() {
    let mut plain = Vec::new();
    flate2::read::GzDecoder::new(&recording("go.pb.gz")[..]).read_to_end(&mut plain).unwrap();
    let complete = read(&plain).unwrap().total();
    for end in 0..plain.len() {
        if let Ok(profile) = read(&plain[..end]) {
            assert!(profile.meta.cut.is_some() || profile.total() == complete, "cut at {end}");
        }
    }
}

#[test]
fn the_share_of_a_cut_dump_is_that_of_its_header() {
    for (name, header_lines) in [("jemalloc-exact.heap", 2), ("tcmalloc-exact.heap", 1)] {
        let whole = recording(name);
        let total = read(&whole).unwrap().total().inuse_bytes;
        let records = whole.windows(9).position(|window| window == b"\nMAPPED_L").unwrap();
        for end in [records / 3, records / 2, records - 30] {
            let profile = read(&whole[..end]).unwrap();
            let cut = profile.meta.cut.clone().unwrap();
            let share = cut.share.unwrap();
            assert_eq!(cut.reason, CutReason::EndsEarly);
            assert_eq!(share.stated_bytes as f64, total.round(), "{name}");
            assert_eq!(share.read_bytes as f64, profile.total().inuse_bytes.round(), "{name}");
        }
        // A hole: the end is there, a record in the middle is not.
        let text = String::from_utf8(whole).unwrap();
        let records = text.lines().enumerate().skip(header_lines);
        let (largest, _) = records.max_by_key(|(_, line)| bytes_of(line)).unwrap();
        let without = |(at, line): (usize, &str)| (at != largest).then(|| format!("{line}\n"));
        let hole: String = text.lines().enumerate().filter_map(without).collect();
        let cut = read(hole.as_bytes()).unwrap().meta.cut.unwrap();
        assert_eq!(cut.reason, CutReason::LessThanStated, "{name}");
        assert!(cut.share.unwrap().percent() < 20.0, "{name}: {cut:?}");
    }
}

/// Bytes in use of a record line.
fn bytes_of(line: &str) -> Option<u64> {
    let record = line.trim().trim_start_matches("t*: ").split('[').next()?;
    record.split(':').nth(1)?.trim().parse().ok()
}

/// Damage of single bytes, chosen by a fixed sequence.
#[test]
fn damaged_anywhere() {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for name in RECORDINGS {
        let whole = recording(name);
        for _ in 0..500 {
            let mut bytes = whole.clone();
            for _ in 0..1 + next() % 3 {
                let at = next() as usize % bytes.len();
                bytes[at] = next() as u8;
            }
            if let Err(error) = read(&bytes) {
                assert!(!error.to_string().contains('\n'), "{name}: {error}");
            }
        }
    }
}

#[test]
fn a_bomb_is_refused() {
    use std::io::Write;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    let zeros = vec![0; 1 << 20];
    for _ in 0..64 {
        encoder.write_all(&zeros).unwrap();
    }
    let bomb = encoder.finish().unwrap();
    let error = read(&bomb).unwrap_err().to_string();
    assert!(error.contains("unfolds to more than"), "{error}");
}

#[test]
fn nothing_and_nonsense_are_named_as_such() {
    for (bytes, part) in [
        (&b""[..], "empty"),
        (b"\x7fELF\x02\x01", "byte 0 begins with \"\\x7fELF"),
        (b"heap_v2/\n", "line 1"),
        (b"heap_v2/1\n@ 0x1\n  t*: 1 2\n", "line 3"),
        (b"heap profile: 1: 2 [3: 4] @ heap\n1: 2 [3: 4] 0x1\n", "line 2"),
        (b"%warn only\n", "ends before its header"),
        (b"--- symbol\n---\n--- heap\nnothing\n", "line 4"),
        (b"v 10400 4\n", "line 1"),
        (b"{\"dhatFileVersion\":3,\"pps\":[],\"ftbl\":[]}", "version 3"),
        (b"\0\0\0\x08\0\0\0\x01\x05ab\0", "byte 9"),
    ] {
        let error = read(bytes).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}

/// Text that unfolds to far more than it is, compressed.
fn bomb(opening: &str, line: impl Fn(u64) -> String, lines: u64) -> Vec<u8> {
    use std::io::Write;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(opening.as_bytes()).unwrap();
    for number in 0..lines {
        encoder.write_all(line(number).as_bytes()).unwrap();
    }
    encoder.finish().unwrap()
}

/// Every kind of line of heaptrack that makes a table grow.
#[test]
fn tables_of_a_bomb_stay_within_the_limit() {
    let opening = "v 10400 3\ns 4 abcd\ni 1000 1 1 1 1\nt 1 0\na 10 1\n";
    let long = "x".repeat(4000);
    let raw = "v 10400 3\nx 4 abcd\nm 1 x 0 0 2000\nt 1000 0\n";
    let limit = Limit::of_memory(1 << 20);
    for bomb in [
        bomb(opening, |_| format!("s fa0 {long}\n"), 10_000),
        bomb(&format!("{opening}s fa0 {long}\n"), |n| format!("i {n:x} 1 2 {:x} 1\n", n % 2), 20_000),
        bomb(opening, |_| "i 1000 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1\n".into(), 20_000),
        bomb(opening, |n| format!("t 1 {n:x}\n"), 60_000),
        bomb(opening, |n| format!("a {n:x} 1\n"), 60_000),
        bomb(raw, |n| format!("+ 10 1 {n:x}0\n"), 60_000),
        bomb(raw, |n| format!("m 1 y {n:x}000 0 1000\n"), 60_000),
        bomb(raw, |n| format!("t {n:x} 0\n"), 60_000),
        bomb("a;b 1\n", |n| format!("a;{n};c 1\n"), 60_000),
        bomb("heap_v2/0\n", |n| format!("@ {n:x}\n"), 60_000),
    ] {
        let error = read_limited(&bomb, limit).unwrap_err();
        assert!(matches!(error, ReadError::TooLarge { .. }), "{error}");
        assert!(error.to_string().contains("--limit"), "{error}");
    }
    let loops = bomb(opening, |_| "+ 0\n- 0\n".into(), 100_000);
    assert_eq!(read_limited(&loops, limit).unwrap().total().alloc_objects, 1e5);
    let line = bomb(opening, |_| long.clone(), 5_000);
    assert!(read_limited(&line, limit).unwrap_err().to_string().contains("a line of 16 MiB"));
}

#[test]
fn a_message_of_empty_samples_is_weighed_before_it_is_decoded() {
    let plain = [0x12, 0].repeat(1 << 20);
    let error = read_limited(&plain, Limit::of_memory(16 << 20)).unwrap_err();
    assert!(matches!(error, ReadError::TooLarge { format: "pprof", .. }), "{error}");
}

/// One line that names a long function many times, each time with another file.
#[test]
fn a_single_line_stays_within_the_limit() {
    let name = "n".repeat(100_000);
    let files: String = (0..2000).map(|number| format!("s 4 {number:04}\n")).collect();
    let functions: String = (0..2000).map(|number| format!(" 1 {:x} 1", number + 2)).collect();
    let file = format!("v 10400 3\ns 186a0 {name}\n{files}i 1000 0{functions}\n");
    let error = read_limited(file.as_bytes(), Limit::of_memory(10 << 20)).unwrap_err();
    assert!(matches!(error, ReadError::TooLarge { .. }), "{error}");
}
