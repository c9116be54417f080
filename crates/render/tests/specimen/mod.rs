//! Profiles to write: recordings of the real tools, and one made by hand that has everything the
//! model can hold.

use heapwise_profile::unattributed::Cause;
use heapwise_profile::{
    BuildId, Function, Line, Location, Module, Profile, ProgramEnd, Recorded, Sampling, SizeBin,
    SizeHistogram, SizeRange, Thread, Values,
    builder::Builder,
    metric::{Unit, column},
    read,
};

/// A recording of the profile crate's tests.
pub(crate) fn recording(name: &str) -> Profile {
    let path = format!("{}/../profile/tests/data/{name}", env!("CARGO_MANIFEST_DIR"));
    let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    read(&bytes).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Mean distance of samples of [`rich`].
pub(crate) const MEAN_BYTES: u64 = 524_288;

/// Three binaries with build-ids, inlined functions, awkward names, two threads, blocks of several
/// sizes from one stack, a column of its own, and losses; sampled, so that values are fractions.
pub(crate) fn rich() -> Profile {
    let mut builder = Builder::new("made by hand");
    for (number, path) in
        ["/opt/a program/server", "/usr/lib/libc.so.6", "/usr/lib/libx.so"].into_iter().enumerate()
    {
        let start = 0x10_0000 * (number as u64 + 1);
        builder.module(Module {
            path: path.to_owned(),
            build_id: BuildId(vec![number as u8 + 1; 20]),
            start,
            end: start + 0x8000,
            file_offset: 0x1000,
        });
    }
    let mut function = |name: &str, file: &str, start_line| {
        builder.function(Function {
            name: name.to_owned(),
            system_name: format!("_Z{}{name}", name.len()),
            file: file.to_owned(),
            start_line,
        })
    };
    let main = function("main", "src/main.cc", 10);
    let insert = function("std::map<int, std::string>::operator[](int const&)", "map \"x\".h", 0);
    let inlined = function("grow(unsigned long)", "src/pool.cc", 7);
    let handle = function("handle request", "src/main.cc", 30);
    let mut at = |address, lines: &[(heapwise_profile::FunctionId, u32)]| {
        let lines = lines.iter().map(|(function, line)| Line { function: *function, line: *line }).collect();
        builder.distinct(Location { address, is_return_address: true, module: None, lines })
    };
    let main = at(0x10_0100, &[(main, 12)]);
    let insert = at(0x10_0200, &[(insert, 99)]);
    let pool = at(0x10_0300, &[(inlined, 8), (handle, 31)]);
    let unresolved = at(0x30_0400, &[]);
    let stacks = [
        builder.stack([main, insert]),
        builder.stack([main, pool]),
        builder.stack([main, unresolved, pool]),
        builder.stack([unresolved]),
    ];
    let mut thread =
        |tid, number, name: &str| builder.numbered_thread(&Thread { tid, number, name: name.to_owned() });
    let threads = [thread(4711, 0, "server"), thread(4712, 1, "")];
    let peak = builder.column("peak_space", Unit::Bytes);
    for (stack, thread, size, sampled, live) in [
        (0, Some(0), 64, 3, 2),
        (0, Some(1), 64, 4, 4),
        (0, Some(0), 100_000, 5, 1),
        (1, None, 1 << 20, 2, 2),
        (2, Some(1), 24, 1, 0),
        (3, None, 4096, 7, 7),
    ] {
        let (values, variance) = estimate(size, sampled, live);
        let thread = thread.map(|number: usize| threads[number]);
        let row = builder.add(stacks[stack], thread, Some(SizeRange::one(size)), values, variance);
        builder.add_extra(peak, row, values.alloc_bytes);
    }
    let meta = builder.meta();
    meta.program = "/opt/a program/server".to_owned();
    meta.args = vec!["server".to_owned(), "--listen".to_owned(), "a\tb".to_owned()];
    meta.pid = Some(1234);
    meta.sampling = Sampling::Poisson { mean_bytes: MEAN_BYTES };
    meta.time_unix_ns = Some(1_700_000_000_000_000_000);
    meta.duration_ns = Some(60_000_000_000);
    meta.losses.dropped_events = 3;
    meta.comments = vec!["two\nlines".to_owned()];
    builder.finish()
}

/// A profile as read from a segment: stacks that mix sizes, a histogram of the process, slack,
/// values at the peak, and blocks that found no room.
pub(crate) fn mixed() -> Profile {
    let mut builder = Builder::new("made by hand");
    let [main, f, lost] = ["main", "f", Cause::Stacks.frame()].map(|name| builder.named(name));
    let columns = [column::PEAK_SPACE, column::INUSE_SLACK, column::ALLOC_SLACK]
        .map(|name| builder.column(name, Unit::Bytes));
    let peak_objects = builder.column(column::PEAK_OBJECTS, Unit::Objects);
    let values = |[alloc_objects, alloc_bytes, inuse_objects, inuse_bytes]: [f64; 4]| Values {
        alloc_objects,
        alloc_bytes,
        inuse_objects,
        inuse_bytes,
    };
    let range = |min, max| Some(SizeRange { min, max });
    for (path, sizes, numbers, extra) in [
        (&[main, f][..], range(16, 300), [10.0, 1000.0, 3.0, 400.0], [700.0, 6.0, 80.0]),
        (&[main], range(64, 64), [5.0, 320.0, 5.0, 320.0], [128.0, 40.0, 40.0]),
        (&[lost], None, [2.0, 50.0, 1.0, 20.0], [30.0, 4.0, 8.0]),
    ] {
        let stack = builder.stack(path.iter().copied());
        let row = builder.add(stack, None, sizes, values(numbers), Values::default());
        columns.iter().zip(extra).for_each(|(column, value)| builder.add_extra(*column, row, value));
        builder.add_extra(peak_objects, row, [6.0, 2.0, 1.0][row]);
    }
    let bin = |min, max, numbers| SizeBin { range: SizeRange { min, max }, values: values(numbers) };
    builder.set_sizes(SizeHistogram::new([
        bin(16, 31, [4.0, 90.0, 2.0, 40.0]),
        bin(64, 79, [8.0, 540.0, 6.0, 400.0]),
        bin(288, 303, [5.0, 740.0, 1.0, 300.0]),
    ]));
    let meta = builder.meta();
    meta.peak_bytes = Some(858);
    meta.losses.untracked_blocks = 3;
    meta.losses.untracked_bytes = 333;
    meta.end = ProgramEnd::Exited { status: Some(3) };
    meta.recorded = Recorded::from_numbers(&[3, 7, 1, 9, 2, 4096, 77, 5], "je_malloc\t\n".into());
    builder.finish()
}

/// Horvitz–Thompson: each sampled block represents 1/p blocks.
fn estimate(size: u64, sampled: u32, live: u32) -> (Values, Values) {
    let (size, sampled, live) = (size as f64, f64::from(sampled), f64::from(live));
    let p = -(-size / MEAN_BYTES as f64).exp_m1();
    let weight = (1.0 - p) / (p * p);
    let values = Values {
        alloc_objects: sampled / p,
        alloc_bytes: sampled / p * size,
        inuse_objects: live / p,
        inuse_bytes: live / p * size,
    };
    let variance = Values {
        alloc_objects: sampled * weight,
        alloc_bytes: sampled * weight * size * size,
        inuse_objects: live * weight,
        inuse_bytes: live * weight * size * size,
    };
    (values, variance)
}
