//! The reading side of the compact profile; nothing in the bytes is believed.

use std::cell::Cell;

use heapwise_format::varint;

use super::{AS_PREDICTED, BITS, MAGIC, Section, Version, WHOLE};
use crate::{
    BuildId, Cut, CutReason, CutShare, Function, FunctionId, Line, Location, LocationId, Losses, Meta,
    Module, ModuleId, Profile, ProgramEnd, ReadError, Recorded, Sample, Sampling, SizeBin, SizeHistogram,
    SizeRange, StackId, Thread, ThreadId, Values,
    metric::{Unit, column},
    model::{ExtraColumn, Position},
    read::Limit,
};

/// A node of the table of stacks, with its share of the hash table.
const STACK_BYTES: usize = 40;

/// Columns beyond the shared four that a file may have.
const MOST_COLUMNS: usize = 64;

/// Reads what [`super::encode`] of this or an older version wrote.
pub(crate) fn decode(bytes: &[u8], version: Version, limit: Limit) -> Result<Profile, ReadError> {
    let memory = Memory { limit, held: Cell::new(0) };
    let mut cursor = Cursor { bytes, at: MAGIC.len(), version, memory: &memory };
    let profile = cursor.profile();
    limit.check("heapwise", memory.held.get())?;
    profile.map_err(|what| ReadError::at_byte("heapwise", cursor.at, what))
}

/// Memory of the tables so far.
struct Memory {
    limit: Limit,
    held: Cell<u64>,
}

impl Memory {
    /// Counts `rows` rows of `bytes` each before they are read.
    fn charge(&self, rows: usize, bytes: usize) -> Result<(), Wrong> {
        self.held.set(self.held.get().saturating_add(rows as u64 * bytes as u64));
        self.limit.check("heapwise", self.held.get()).map_err(|_| "beyond the limit")
    }
}

/// Error at the position of the cursor.
type Wrong = &'static str;

/// A place in the file, or within one body of it.
struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    version: Version,
    memory: &'a Memory,
}

impl Cursor<'_> {
    fn profile(&mut self) -> Result<Profile, Wrong> {
        let mut profile = Profile::default();
        let mut nodes = Vec::new();
        let mut last = 0;
        loop {
            let tag = *self.bytes.get(self.at).ok_or("the file is cut off")?;
            self.at += 1;
            let end = self.length()? + self.at;
            // Offsets of a body are those of the file, so that an error names the right byte.
            let mut body = Cursor { bytes: &self.bytes[..end], at: self.at, ..*self };
            let taken = match Section::of_tag(tag) {
                Some(Section::End) => return Ok(profile),
                // A table that came again would leave rows behind that point to nothing.
                Some(section) if tag < last || tag == last && section != Section::Extra => {
                    Err("a section out of place")
                }
                Some(section) => body.section(section, &mut profile, &mut nodes),
                None => Ok(()),
            };
            if let Err(wrong) = taken {
                self.at = body.at;
                return Err(wrong);
            }
            if Section::of_tag(tag).is_some() {
                last = tag;
            }
            self.at = end;
        }
    }

    /// `nodes` are the stacks of the file by row; a hostile file may contain a node twice.
    fn section(
        &mut self,
        section: Section,
        profile: &mut Profile,
        nodes: &mut Vec<StackId>,
    ) -> Result<(), Wrong> {
        match section {
            Section::End => {}
            Section::Meta => profile.meta = self.meta()?,
            Section::Modules => profile.modules = self.rows(Self::module)?,
            Section::Threads => {
                let rows = self.rows(|body| Ok((body.number()?, body.text()?)))?;
                let thread = |(number, (tid, name))| Thread { tid, number, name };
                profile.threads = (0..).zip(rows).map(thread).collect();
            }
            Section::Functions => profile.functions = self.rows(Self::function)?,
            Section::Locations => profile.locations = self.locations(profile)?,
            Section::Stacks => *nodes = self.stacks(profile)?,
            Section::Samples => profile.samples = self.samples(profile.threads.len(), nodes)?,
            Section::Extra if profile.extra.len() == MOST_COLUMNS => return Err("too many columns"),
            Section::Extra => {
                let column = self.extra(profile.samples.len())?;
                profile.extra.push(column);
            }
            Section::Sizes => profile.sizes = SizeHistogram::new(self.rows(Self::size_bin)?),
        }
        Ok(())
    }

    #[inline]
    fn number(&mut self) -> Result<u64, Wrong> {
        varint::decode(self.bytes, &mut self.at).ok_or("a number is cut off")
    }

    fn small(&mut self) -> Result<u32, Wrong> {
        u32::try_from(self.number()?).map_err(|_| "a number is too large")
    }

    fn optional(&mut self) -> Result<Option<u64>, Wrong> {
        Ok(self.number()?.checked_sub(1))
    }

    /// A length that the rest of the bytes can hold.
    fn length(&mut self) -> Result<usize, Wrong> {
        let length = self.number()?;
        let left = self.bytes.len() - self.at;
        usize::try_from(length).ok().filter(|length| *length <= left).ok_or("longer than what is left")
    }

    /// A row of a table of `rows` rows.
    #[inline]
    fn row(&mut self, rows: usize) -> Result<usize, Wrong> {
        let row = self.number()?;
        usize::try_from(row).ok().filter(|row| *row < rows).ok_or("a row that is not there")
    }

    /// [`Self::row`] behind an optional.
    fn optional_row(&mut self, rows: usize) -> Result<Option<usize>, Wrong> {
        let Some(row) = self.optional()? else { return Ok(None) };
        usize::try_from(row).ok().filter(|row| *row < rows).map(Some).ok_or("a row that is not there")
    }

    fn take(&mut self) -> Result<&[u8], Wrong> {
        let length = self.length()?;
        let start = self.at;
        self.at += length;
        Ok(&self.bytes[start..self.at])
    }

    fn text(&mut self) -> Result<String, Wrong> {
        Ok(String::from_utf8_lossy(self.take()?).into_owned())
    }

    #[inline]
    fn value(&mut self, predicted: f64) -> Result<f64, Wrong> {
        let value = match self.number()? {
            AS_PREDICTED => predicted,
            BITS => {
                let bits = self.bytes.get(self.at..self.at + 8).and_then(|bytes| bytes.try_into().ok());
                self.at += 8;
                f64::from_bits(u64::from_le_bytes(bits.ok_or("a number is cut off")?))
            }
            whole => (whole - WHOLE) as f64,
        };
        if value.is_finite() { Ok(value) } else { Err("not a number") }
    }

    /// A count, then that many rows; each takes at least a byte, so a count is bounded by the file.
    fn rows<T>(&mut self, read: impl Fn(&mut Self) -> Result<T, Wrong>) -> Result<Vec<T>, Wrong> {
        let count = self.length()?;
        self.memory.charge(count, size_of::<T>())?;
        (0..count).map(|_| read(self)).collect()
    }

    fn meta(&mut self) -> Result<Meta, Wrong> {
        let (program, source) = (self.text()?, self.text()?);
        let (args, comments) = (self.rows(Self::text)?, self.rows(Self::text)?);
        let sampling = match self.optional()? {
            None => Sampling::Exact,
            Some(mean_bytes) => Sampling::Poisson { mean_bytes },
        };
        let pid = self.optional()?.and_then(|pid| u32::try_from(pid).ok());
        let mut known = || -> Result<_, Wrong> {
            let (is_known, number) = (self.number()? != 0, self.number()?);
            Ok(is_known.then_some(number))
        };
        let (time_unix_ns, duration_ns, peak_bytes) = (known()?, known()?, known()?);
        let losses = match self.version {
            Version::One => [self.number()?, self.number()?, self.number()?, self.number()?].to_vec(),
            Version::Two => self.rows(Self::number)?,
        };
        let losses = Losses::from_numbers(&losses);
        let cut = self.cut()?;
        // Files of heapwise 0.1 and 0.2.0 end here.
        let has_more = self.at < self.bytes.len();
        let end = if has_more { ProgramEnd::from_code(self.number()?) } else { ProgramEnd::Unknown };
        let recorded = match has_more {
            true => Recorded::from_numbers(&self.rows(Self::number)?, self.text()?),
            false => Recorded::default(),
        };
        Ok(Meta {
            program,
            args,
            pid,
            source,
            sampling,
            time_unix_ns,
            duration_ns,
            peak_bytes,
            end,
            recorded,
            losses,
            cut,
            comments,
        })
    }

    /// Files from before this field end here.
    fn cut(&mut self) -> Result<Option<Cut>, Wrong> {
        if self.at == self.bytes.len() || self.number()? == 0 {
            return Ok(None);
        }
        let at = match (self.number()?, self.number()?) {
            (0, offset) => Position::Byte(offset),
            (_, number) => Position::Line(number),
        };
        let (reason, error) = (self.number()?, self.text()?);
        let reason = match reason {
            0 => CutReason::EndsEarly,
            1 => CutReason::Damaged(error),
            _ => CutReason::LessThanStated,
        };
        let share = match self.number()? {
            0 => None,
            _ => Some(CutShare { read_bytes: self.number()?, stated_bytes: self.number()? }),
        };
        Ok(Some(Cut { at, reason, share }))
    }

    fn module(&mut self) -> Result<Module, Wrong> {
        Ok(Module {
            path: self.text()?,
            build_id: BuildId(self.take()?.to_vec()),
            start: self.number()?,
            end: self.number()?,
            file_offset: self.number()?,
        })
    }

    fn function(&mut self) -> Result<Function, Wrong> {
        Ok(Function {
            name: self.text()?,
            system_name: self.text()?,
            file: self.text()?,
            start_line: self.small()?,
        })
    }

    fn locations(&mut self, profile: &Profile) -> Result<Vec<Location>, Wrong> {
        let mut address = 0u64;
        let mut locations =
            self.rows(|body| Ok(Location { address: body.number()?, ..Location::default() }))?;
        for location in &mut locations {
            address = address.wrapping_add_signed(varint::unzigzag(location.address));
            location.address = address;
        }
        for location in &mut locations {
            location.is_return_address = self.number()? != 0;
        }
        for location in &mut locations {
            location.module = self.optional_row(profile.modules.len())?.map(ModuleId::new);
        }
        let mut left = self.bytes.len() - self.at;
        for location in &mut locations {
            let none = Line { function: FunctionId(0), line: 0 };
            let count = self.length()?;
            // Each line takes at least a byte behind the numbers of lines.
            left = left.checked_sub(count).ok_or("more lines than are left")?;
            self.memory.charge(count, size_of::<Line>())?;
            location.lines = vec![none; count];
        }
        for line in locations.iter_mut().flat_map(|location| &mut location.lines) {
            line.function = FunctionId::new(self.row(profile.functions.len())?);
        }
        for line in locations.iter_mut().flat_map(|location| &mut location.lines) {
            line.line = self.small()?;
        }
        Ok(locations)
    }

    fn stacks(&mut self, profile: &mut Profile) -> Result<Vec<StackId>, Wrong> {
        let distances = self.rows(Self::number)?;
        self.memory.charge(distances.len(), STACK_BYTES)?;
        let mut nodes: Vec<StackId> = Vec::with_capacity(distances.len());
        profile.stacks.reserve(distances.len());
        for distance in distances {
            let parent = match usize::try_from(distance) {
                Ok(0) => None,
                Ok(distance) => {
                    let row = nodes.len().checked_sub(distance).ok_or("a parent that is not there")?;
                    Some(nodes[row])
                }
                Err(_) => return Err("a parent that is not there"),
            };
            let location = LocationId::new(self.row(profile.locations.len())?);
            nodes.push(profile.stacks.child(parent, location));
        }
        Ok(nodes)
    }

    fn samples(&mut self, threads: usize, nodes: &[StackId]) -> Result<Vec<Sample>, Wrong> {
        let mut row = 0i64;
        let mut samples = self.rows(|body| {
            let stack = StackId(body.small()?);
            let (values, variance) = (Values::default(), Values::default());
            Ok(Sample { stack, thread: None, sizes: None, values, variance })
        })?;
        for sample in &mut samples {
            row += varint::unzigzag(sample.stack.0.into());
            let node = usize::try_from(row).ok().and_then(|row| nodes.get(row));
            sample.stack = *node.ok_or("a stack that is not there")?;
        }
        for sample in &mut samples {
            sample.thread = self.optional_row(threads)?.map(ThreadId::new);
        }
        self.sizes(&mut samples)?;
        let each = |sample: &Sample| sample.block_bytes().unwrap_or(0) as f64;
        self.values(&mut samples, |sample| (each(sample), &mut sample.values))?;
        if self.number()? != 0 {
            self.values(&mut samples, |sample| (each(sample) * each(sample), &mut sample.variance))?;
        }
        Ok(samples)
    }

    fn sizes(&mut self, samples: &mut [Sample]) -> Result<(), Wrong> {
        if self.version == Version::One {
            for sample in samples {
                sample.sizes = self.optional()?.map(SizeRange::one);
            }
            return Ok(());
        }
        for sample in samples.iter_mut() {
            sample.sizes = (self.number()? != 0).then_some(SizeRange::one(0));
        }
        for sizes in samples.iter_mut().filter_map(|sample| sample.sizes.as_mut()) {
            *sizes = self.range()?;
        }
        Ok(())
    }

    fn range(&mut self) -> Result<SizeRange, Wrong> {
        let (min, more) = (self.number()?, self.number()?);
        let max = min.checked_add(more).ok_or("a size is too large")?;
        Ok(SizeRange { min, max })
    }

    fn size_bin(&mut self) -> Result<SizeBin, Wrong> {
        let range = self.range()?;
        let values = Values {
            alloc_objects: self.value(0.0)?,
            alloc_bytes: self.value(0.0)?,
            inuse_objects: self.value(0.0)?,
            inuse_bytes: self.value(0.0)?,
        };
        Ok(SizeBin { range, values })
    }

    fn values(
        &mut self,
        samples: &mut [Sample],
        of: impl Fn(&mut Sample) -> (f64, &mut Values),
    ) -> Result<(), Wrong> {
        for sample in samples.iter_mut() {
            of(sample).1.alloc_objects = self.value(0.0)?;
        }
        for sample in samples.iter_mut() {
            let (each, values) = of(sample);
            values.alloc_bytes = self.value(values.alloc_objects * each)?;
        }
        for sample in samples.iter_mut() {
            of(sample).1.inuse_objects = self.value(0.0)?;
        }
        for sample in samples.iter_mut() {
            let (each, values) = of(sample);
            values.inuse_bytes = self.value(values.inuse_objects * each)?;
        }
        Ok(())
    }

    fn extra(&mut self, rows: usize) -> Result<ExtraColumn, Wrong> {
        let mut name = self.text()?;
        if self.version == Version::One {
            name = column::renamed_since_version_1(&name).to_owned();
        }
        let unit = if self.number()? == 0 { Unit::Bytes } else { Unit::Objects };
        self.memory.charge(rows, size_of::<f64>())?;
        let values = (0..rows).map(|_| self.value(0.0)).collect::<Result<_, _>>()?;
        Ok(ExtraColumn { name, unit, values })
    }
}
