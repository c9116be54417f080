//! skynet-mprof's `.pro` dump: big-endian, 32-bit counters, names as glibc's `backtrace_symbols`.

use std::{
    collections::BTreeSet,
    io::{self, Write},
};

use heapwise_profile::{LocationId, Profile, Values};

use super::frames::{FrameList, natural, return_address};

/// Records one measurement may be split into: 2⁴⁷ bytes at least, a whole address space.
const MOST_RECORDS: usize = 1 << 16;

/// Longest name the format's own writer makes.
const LONGEST_NAME: usize = 80;

pub(super) fn write(profile: &Profile, out: &mut dyn Write) -> io::Result<()> {
    let mut body = Vec::new();
    put_functions(profile, &mut body);
    for sample in &profile.samples {
        let pcs: Vec<u64> = profile
            .stacks
            .leaf_to_root(sample.stack)
            .map(|node| return_address(profile, profile.stacks.location(node)))
            .collect();
        put_records(&sample.values, sample.block_bytes(), &pcs, &mut body)?;
    }
    let Ok(length) = u32::try_from(body.len()) else {
        let what = "skynet-mprof files end at 4 GiB; this profile needs more";
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, what));
    };
    out.write_all(&length.to_be_bytes())?;
    out.write_all(&body)
}

fn put_functions(profile: &Profile, body: &mut Vec<u8>) {
    let used: BTreeSet<LocationId> = profile
        .samples
        .iter()
        .flat_map(|sample| profile.stacks.leaf_to_root(sample.stack))
        .map(|node| profile.stacks.location(node))
        .collect();
    let count = u32::try_from(used.len()).unwrap_or(u32::MAX);
    body.extend(count.to_be_bytes());
    let frames = FrameList::new(profile);
    for id in used {
        let pc = return_address(profile, id);
        let name = name(profile, &frames, id, pc);
        body.push(u8::try_from(name.len()).unwrap_or(u8::MAX));
        body.extend(name.as_bytes());
        body.extend(pc.to_be_bytes());
    }
}

/// `path(symbol+0xoffset) [0xpc]` cut to the format's length; the physical function of the pc. A
/// name that came from such a file goes back as it was.
fn name(profile: &Profile, frames: &FrameList<'_>, id: LocationId, pc: u64) -> String {
    let location = &profile.locations[id.index()];
    let physical = location.lines.last().map(|line| &profile.functions[line.function.index()]);
    if let Some(told) = physical.filter(|function| function.system_name.ends_with(']')) {
        return cut(&told.system_name).to_owned();
    }
    let frame = frames.at(id).last();
    let module = frame.map_or("", |frame| frame.module);
    let symbol = physical.map_or("", |function| function.name.as_str());
    let offset = location.module.map_or(0, |id| profile.modules[id.index()].file_offset_of(pc));
    let tail = match symbol {
        "" => format!("(+{offset:#x}) [{pc:#x}]"),
        symbol => format!("({symbol}) [{pc:#x}]"),
    };
    cut(&format!("{module}{tail}")).to_owned()
}

/// The longest start of a name that fits, at a boundary of characters.
fn cut(name: &str) -> &str {
    let mut end = name.len().min(LONGEST_NAME);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    &name[..end]
}

/// One record, or as many as it takes for its bytes to fit 32 bits.
fn put_records(values: &Values, block_bytes: Option<u64>, pcs: &[u64], body: &mut Vec<u8>) -> io::Result<()> {
    let mut left = [
        natural(values.alloc_objects),
        natural(values.alloc_bytes),
        natural(values.alloc_objects - values.inuse_objects),
        natural(values.alloc_bytes - values.inuse_bytes),
    ];
    for _ in 0..MOST_RECORDS {
        let record = match block_bytes.filter(|size| *size > 0) {
            Some(size) => whole_blocks(left, size),
            None => left.map(|number| number.min(u32::MAX.into())),
        };
        for (rest, part) in left.iter_mut().zip(record) {
            *rest -= part;
            body.extend(u32::try_from(part).unwrap_or(u32::MAX).to_be_bytes());
        }
        body.extend(u32::try_from(pcs.len()).unwrap_or(u32::MAX).to_be_bytes());
        body.extend(pcs.iter().flat_map(|pc| pc.to_be_bytes()));
        if left == [0; 4] || record == [0; 4] {
            return Ok(());
        }
    }
    let what = "skynet-mprof counts with 32 bits; a stack of this profile needs more than 47";
    Err(io::Error::new(io::ErrorKind::FileTooLarge, what))
}

/// As many blocks of one size as a record can count, so that its size stays readable from it.
fn whole_blocks(left: [u64; 4], size: u64) -> [u64; 4] {
    let most = (u64::from(u32::MAX) / size).max(1);
    let part = |objects: u64, bytes: u64| match objects > most {
        true => [most, most * size],
        false => [objects, bytes],
    };
    let ([objects, bytes], [freed, freed_bytes]) = (part(left[0], left[1]), part(left[2], left[3]));
    [objects, bytes, freed, freed_bytes].map(|number| number.min(u32::MAX.into()))
}
