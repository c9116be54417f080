//! Recordings of version 3, written by heapwise 0.1 (see data/make.sh): the same numbers as it
//! showed.

use heapwise_format::recording::Codec;
use heapwise_profile::finding::FindingKind;
use heapwise_profile::recording::analysis::{Evidence, findings};
use heapwise_profile::recording::{
    Counts, Point, PointInTime, Recording, RecordingSource, Statistics, Tables, Timeline,
};

struct File(&'static [u8]);

impl RecordingSource for File {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> usize {
        let rest = usize::try_from(offset).ok().and_then(|at| self.0.get(at..)).unwrap_or_default();
        let len = rest.len().min(buffer.len());
        buffer[..len].copy_from_slice(&rest[..len]);
        len
    }

    fn unpack(&self, codec: Codec, stored: Vec<u8>, raw_bytes: usize) -> Option<Vec<u8>> {
        if codec == Codec::None {
            return Some(stored);
        }
        zstd::decode_all(&stored[..]).ok().filter(|raw| raw.len() == raw_bytes)
    }
}

const WHOLE: &[u8] = include_bytes!("data/recording-v3.hwr");
/// The second file of a rotated recording: it begins with a checkpoint.
const ROTATED: &[u8] = include_bytes!("data/recording-v3-rotated.hwr");

fn open(bytes: &'static [u8]) -> (Recording<File>, Tables) {
    let recording = Recording::open(vec![File(bytes)]).unwrap();
    let tables = Tables::read(&recording).unwrap();
    assert!(recording.is_ended());
    (recording, tables)
}

fn sums(counts: &Counts) -> [u64; 4] {
    counts.rows().iter().fold([0; 4], |[allocs, alloc_bytes, live, live_bytes], row| {
        [allocs + row.allocs, alloc_bytes + row.alloc_bytes, live + row.live(), live_bytes + row.live_bytes()]
    })
}

#[test]
fn totals_are_those_that_version_3_showed() {
    let (recording, tables) = open(WHOLE);
    let at = |point| sums(&recording.counts_at(&tables, point, 2).unwrap().0);
    assert_eq!(at(PointInTime::End), [1041, 4_220_648, 67, 13_700]);
    assert_eq!(at(PointInTime::Peak)[3], 2_216_090);
    let between = |from, to| sums(&recording.counts_between(&tables, from, to, 1).unwrap())[3];
    assert_eq!(between(Point::Time(20), Point::Time(80)), 6_700);
    assert_eq!(Timeline::read(&recording, 100).unwrap().peak().unwrap().max_live_bytes, 2_216_090);
    let total = tables.profile(&recording.counts_at(&tables, PointInTime::End, 1).unwrap().0).total();
    assert_eq!((total.alloc_bytes, total.inuse_bytes), (4_220_648.0, 13_700.0));
    assert_eq!(tables.threads.len(), 2);
}

#[test]
fn marks_are_points_in_time() {
    let (recording, tables) = open(WHOLE);
    let names: Vec<&str> = tables.marks.iter().map(|mark| mark.name.as_str()).collect();
    assert_eq!(names, ["loaded", "a/b@50%..peak"]);
    let at = |mark: usize| {
        let point = PointInTime::At(tables.marks[mark].point());
        sums(&recording.counts_at(&tables, point, 1).unwrap().0)[3]
    };
    assert_eq!((at(0), at(1)), (2_211_902, 6_700));
}

#[test]
fn sizes_and_findings_are_those_that_version_3_showed() {
    let (recording, tables) = open(WHOLE);
    let (sizes, _) = recording.sizes_at(&tables, PointInTime::End, 2).unwrap();
    let within = |from, to| {
        let rows = sizes.rows().into_iter().filter(move |(block, _)| (from..to).contains(&block.size));
        rows.fold((0, 0), |(blocks, bytes), (_, count)| (blocks + count.allocs, bytes + count.alloc_bytes))
    };
    assert_eq!((within(8, 16), within(32, 64)), ((136, 1572), (491, 23_312)));
    let statistics = Statistics::read(&recording, &tables, 2).unwrap();
    let timeline = Timeline::read(&recording, 100).unwrap();
    let (peak, ms) = recording.counts_at(&tables, PointInTime::Peak, 1).unwrap();
    let base = recording.base(&tables).unwrap();
    let (_, stacks) = tables.stacks();
    let found = findings(&Evidence::new(&tables, &statistics, &timeline, &base, (&peak, ms), &stacks));
    let value = |kind, name| found.iter().find(|f| f.kind == kind).expect("a finding").value(name);
    // Version 3 does not say how the program ended.
    let held = |name| value(FindingKind::StillHeld, name);
    assert_eq!((held("bytes"), held("blocks")), (13_700.0, 67.0));
    let temporaries = |name| value(FindingKind::Temporaries, name);
    assert_eq!((temporaries("blocks"), temporaries("allocations")), (538.0, 1041.0));
    assert_eq!(value(FindingKind::ReallocChains, "steps"), 38.0);
    assert_eq!(format!("{:.1}", value(FindingKind::Sizes, "percent")), "47.2");
}

#[test]
fn a_checkpoint_of_version_3_is_the_start_of_its_file() {
    let (recording, tables) = open(ROTATED);
    assert_eq!(sums(&recording.base(&tables).unwrap())[1], 4_213_648);
    let (counts, _) = recording.counts_at(&tables, PointInTime::End, 2).unwrap();
    let [_, alloc_bytes, _, live_bytes] = sums(&counts);
    assert_eq!((alloc_bytes, live_bytes), (4_220_648, 13_700));
    let (sizes, _) = recording.sizes_at(&tables, PointInTime::End, 1).unwrap();
    assert_eq!(tables.profile_by_size(&sizes).total().inuse_bytes, 13_700.0);
}

#[test]
fn other_versions_are_refused() {
    let mut bytes = WHOLE.to_vec();
    bytes[8] = 2;
    assert!(Recording::open(vec![File(bytes.leak())]).is_err());
}
