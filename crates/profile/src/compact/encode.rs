//! The writing side of the compact profile.

use heapwise_format::varint::{put, zigzag};

use super::{AS_PREDICTED, BITS, MAGIC, Section, WHOLE, WHOLE_LIMIT};
use crate::{
    Cut, CutReason, CutShare, Line, Location, Meta, Profile, Sample, Sampling, SizeBin, SizeRange,
    StackTable, Values,
    metric::Unit,
    model::{ExtraColumn, Position},
};

/// The bytes of a profile, not packed yet.
#[must_use]
pub fn encode(profile: &Profile) -> Vec<u8> {
    let mut file = MAGIC.to_vec();
    let mut section = |section: Section, write: &dyn Fn(&mut Body)| {
        let mut body = Body::default();
        write(&mut body);
        file.push(section as u8);
        put(&mut file, body.0.len() as u64);
        file.extend_from_slice(&body.0);
    };
    section(Section::Meta, &|body| body.meta(&profile.meta));
    section(Section::Modules, &|body| {
        body.rows(&profile.modules, |body, module| {
            body.text(&module.path);
            body.bytes(&module.build_id.0);
            body.numbers([module.start, module.end, module.file_offset]);
        });
    });
    section(Section::Threads, &|body| {
        body.rows(&profile.threads, |body, thread| {
            body.number(thread.tid);
            body.text(&thread.name);
        });
    });
    section(Section::Functions, &|body| {
        body.rows(&profile.functions, |body, function| {
            body.text(&function.name);
            body.text(&function.system_name);
            body.text(&function.file);
            body.number(function.start_line.into());
        });
    });
    section(Section::Locations, &|body| body.locations(&profile.locations));
    section(Section::Stacks, &|body| body.stacks(&profile.stacks));
    section(Section::Samples, &|body| body.samples(&profile.samples));
    for column in &profile.extra {
        section(Section::Extra, &|body| body.extra(column));
    }
    if !profile.sizes.is_empty() {
        section(Section::Sizes, &|body| body.rows(&profile.sizes.bins, Body::size_bin));
    }
    section(Section::End, &|_| {});
    file
}

/// The body of a section in the making.
#[derive(Default)]
struct Body(Vec<u8>);

impl Body {
    fn size_bin(&mut self, bin: &SizeBin) {
        self.range(bin.range);
        let Values { alloc_objects, alloc_bytes, inuse_objects, inuse_bytes } = bin.values;
        for value in [alloc_objects, alloc_bytes, inuse_objects, inuse_bytes] {
            self.value(value, 0.0);
        }
    }

    fn number(&mut self, number: u64) {
        put(&mut self.0, number);
    }

    fn numbers<const N: usize>(&mut self, numbers: [u64; N]) {
        numbers.into_iter().for_each(|number| self.number(number));
    }

    fn signed(&mut self, number: i64) {
        self.number(zigzag(number));
    }

    /// Nothing is 0, everything else one more.
    fn optional(&mut self, number: Option<u64>) {
        match number.and_then(|number| number.checked_add(1)) {
            Some(number) => self.number(number),
            None => self.number(0),
        }
    }

    /// The smallest size, and how much larger the largest is.
    fn range(&mut self, range: SizeRange) {
        self.numbers([range.min, range.max.saturating_sub(range.min)]);
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    fn value(&mut self, value: f64, predicted: f64) {
        if value.to_bits() == predicted.to_bits() {
            self.number(AS_PREDICTED);
        } else if value.is_sign_positive() && value < WHOLE_LIMIT && value.fract() == 0.0 {
            self.number(value as u64 + WHOLE);
        } else {
            self.number(BITS);
            self.0.extend_from_slice(&value.to_bits().to_le_bytes());
        }
    }

    fn rows<T>(&mut self, rows: &[T], write: impl Fn(&mut Self, &T)) {
        self.number(rows.len() as u64);
        rows.iter().for_each(|row| write(self, row));
    }

    fn column<T>(&mut self, rows: &[T], write: impl Fn(&mut Self, &T)) {
        rows.iter().for_each(|row| write(self, row));
    }

    fn meta(&mut self, meta: &Meta) {
        self.text(&meta.program);
        self.text(&meta.source);
        self.rows(&meta.args, |body, arg| body.text(arg));
        self.rows(&meta.comments, |body, comment| body.text(comment));
        self.optional(match meta.sampling {
            Sampling::Exact => None,
            Sampling::Poisson { mean_bytes } => Some(mean_bytes),
        });
        self.optional(meta.pid.map(u64::from));
        for known in [meta.time_unix_ns, meta.duration_ns, meta.peak_bytes] {
            self.number(known.is_some().into());
            self.number(known.unwrap_or(0));
        }
        self.rows(&meta.losses.numbers(), |body, number| body.number(*number));
        self.cut(meta.cut.as_ref());
        self.number(meta.end.code());
        self.rows(&meta.recorded.numbers(), |body, number| body.number(*number));
        self.text(&meta.recorded.own_allocator);
    }

    fn cut(&mut self, cut: Option<&Cut>) {
        self.number(cut.is_some().into());
        let Some(Cut { at, reason, share }) = cut else { return };
        self.numbers(match at {
            Position::Byte(offset) => [0, *offset],
            Position::Line(number) => [1, *number],
        });
        let (reason, error) = match reason {
            CutReason::EndsEarly => (0, ""),
            CutReason::Damaged(error) => (1, error.as_str()),
            CutReason::LessThanStated => (2, ""),
        };
        self.number(reason);
        self.text(error);
        self.number(share.is_some().into());
        if let Some(CutShare { read_bytes, stated_bytes }) = *share {
            self.numbers([read_bytes, stated_bytes]);
        }
    }

    fn locations(&mut self, locations: &[Location]) {
        let mut last = 0;
        self.number(locations.len() as u64);
        for location in locations {
            self.signed(location.address.wrapping_sub(last).cast_signed());
            last = location.address;
        }
        self.column(locations, |body, location| body.number(location.is_return_address.into()));
        self.column(locations, |body, location| body.optional(location.module.map(|id| id.0.into())));
        self.column(locations, |body, location| body.number(location.lines.len() as u64));
        let lines: Vec<Line> = locations.iter().flat_map(|location| location.lines.iter().copied()).collect();
        self.column(&lines, |body, line| body.number(line.function.0.into()));
        self.column(&lines, |body, line| body.number(line.line.into()));
    }

    /// A parent precedes its children, so its distance is at least 1; 0 is a root.
    fn stacks(&mut self, stacks: &StackTable) {
        self.number(stacks.len() as u64);
        for node in stacks.ids() {
            self.number(stacks.parent(node).map_or(0, |parent| (node.0 - parent.0).into()));
        }
        for node in stacks.ids() {
            self.number(stacks.location(node).0.into());
        }
    }

    fn samples(&mut self, samples: &[Sample]) {
        let mut last = 0;
        self.number(samples.len() as u64);
        for sample in samples {
            self.signed(i64::from(sample.stack.0) - last);
            last = sample.stack.0.into();
        }
        self.column(samples, |body, sample| body.optional(sample.thread.map(|id| id.0.into())));
        self.column(samples, |body, sample| body.number(sample.sizes.is_some().into()));
        self.column(samples, |body, sample| sample.sizes.into_iter().for_each(|sizes| body.range(sizes)));
        self.values(samples, |sample| (&sample.values, sample.block_bytes().unwrap_or(0) as f64));
        let uncertain = samples.iter().any(|sample| sample.variance != Values::default());
        self.number(uncertain.into());
        if uncertain {
            let square = |bytes: u64| bytes as f64 * bytes as f64;
            self.values(samples, |sample| (&sample.variance, square(sample.block_bytes().unwrap_or(0))));
        }
    }

    /// Four columns; bytes are predicted to be objects times `each`.
    fn values(&mut self, samples: &[Sample], of: impl Fn(&Sample) -> (&Values, f64)) {
        self.column(samples, |body, sample| body.value(of(sample).0.alloc_objects, 0.0));
        self.column(samples, |body, sample| {
            let (values, each) = of(sample);
            body.value(values.alloc_bytes, values.alloc_objects * each);
        });
        self.column(samples, |body, sample| body.value(of(sample).0.inuse_objects, 0.0));
        self.column(samples, |body, sample| {
            let (values, each) = of(sample);
            body.value(values.inuse_bytes, values.inuse_objects * each);
        });
    }

    fn extra(&mut self, column: &ExtraColumn) {
        self.text(&column.name);
        self.number(match column.unit {
            Unit::Bytes => 0,
            Unit::Objects => 1,
        });
        self.column(&column.values, |body, value| body.value(*value, 0.0));
    }
}
