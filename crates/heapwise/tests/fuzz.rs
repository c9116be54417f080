//! The entries of `fuzz/` on stable Rust: kept inputs, damaged in a fixed number of ways that are
//! the same in every run. `HEAPWISE_FUZZ_ROUNDS` sets another number.

use heapwise_testkit::fuzz as entry;
use std::path::Path;
use std::time::{Duration, Instant};

/// Damaged inputs per entry.
const ROUNDS: usize = 400;
/// Longest input; what a damage adds beyond is cut.
const MOST_BYTES: usize = 64 << 10;
/// No input of that size may take longer, on a loaded machine and without optimisation.
const LONGEST: Duration = Duration::from_secs(20);
/// Resident memory of this process after all of them.
const MOST_RESIDENT_KB: u64 = 1 << 20;

/// xorshift64*: the same numbers everywhere.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % bound.max(1)
    }

    /// Damages `bytes` in one of the ways that find most in parsers.
    fn damage(&mut self, bytes: &mut Vec<u8>) {
        let at = self.below(bytes.len());
        let span = self.below(32).min(bytes.len() - at);
        let numbers: [&[u8]; 6] =
            [b"18446744073709551616", b"-1", b"0", b"\xff\xff\xff\xff", b"\0\0\0\0", b"1e999"];
        match self.below(7) {
            0 if !bytes.is_empty() => bytes[at] ^= 1 << self.below(8),
            1 if !bytes.is_empty() => bytes[at] = self.below(256) as u8,
            2 => bytes.truncate(at),
            3 => drop(bytes.drain(at..at + span)),
            4 => {
                let copy = bytes[at..at + span].to_vec();
                let to = self.below(bytes.len());
                bytes.splice(to..to, copy);
            }
            5 => drop(bytes.splice(at..at + span, numbers[self.below(numbers.len())].iter().copied())),
            _ => bytes.insert(at, self.below(256) as u8),
        }
        bytes.truncate(MOST_BYTES);
    }
}

fn endure(name: &str, entry: fn(&[u8])) {
    let rounds =
        std::env::var("HEAPWISE_FUZZ_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(ROUNDS);
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(name);
    let mut paths: Vec<_> = std::fs::read_dir(&directory)
        .unwrap_or_else(|error| panic!("{}: {error}", directory.display()))
        .map(|file| file.expect("readable").path())
        .collect();
    paths.sort();
    let seeds: Vec<Vec<u8>> = paths.iter().map(|path| std::fs::read(path).expect("readable")).collect();
    assert!(!seeds.is_empty(), "{name} has inputs");
    seeds.iter().for_each(|seed| entry(seed));
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    for round in 0..rounds {
        let mut bytes = seeds[round % seeds.len()].clone();
        (0..=dice.below(4)).for_each(|_| dice.damage(&mut bytes));
        let begun = Instant::now();
        entry(&bytes);
        assert!(begun.elapsed() < LONGEST, "{name} round {round} took {:?}", begun.elapsed());
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let highest = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or("0 kB");
    let highest: u64 = highest.trim().trim_end_matches(" kB").parse().unwrap_or(0);
    assert!(highest < MOST_RESIDENT_KB, "{name}: {highest} KB resident");
}

macro_rules! endures {
    ($($entry:ident)*) => { $(
        #[test]
        fn $entry() {
            endure(stringify!($entry), entry::$entry);
        }
    )* };
}

endures! {
    compact heap_v2 gperftools symbolized pprof skynet heaptrack folded dhat packed segment recording options moment jeprof http request_target
}

/// A segment of another version is refused at its door, and nothing behind it would be tried.
#[test]
fn the_kept_segment_is_of_this_version() {
    let kept = include_bytes!("../../../fuzz/seeds/segment/tiny");
    // Offset, length, then the header: a word of magic and the version.
    assert_eq!(kept[18..22], heapwise_format::segment::VERSION.to_le_bytes());
}
