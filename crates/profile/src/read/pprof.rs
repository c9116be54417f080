//! pprof's `profile.proto`: the exchange format of Go, tcmalloc, jemalloc_pprof and many other
//! tools.

mod references;
mod weight;

use std::collections::HashMap;

use prost::Message;

use super::{error::ReadError, limit::Limit, unbias::variance_of_unbiased};
use crate::{
    BuildId, Function, FunctionId, Line, Location, LocationId, Metric, Module, ModuleId, Profile, SizeRange,
    Values, builder::Builder, metric::Unit, model::Sampling, pprof_proto as proto,
};

const FORMAT: &str = "pprof";

/// Heap profiles have 1 to 8.
const MOST_SAMPLE_TYPES: usize = 64;

/// Reads an uncompressed message.
pub(super) fn read(bytes: &[u8], limit: Limit) -> Result<Profile, ReadError> {
    limit.check(FORMAT, weight::weigh(bytes))?;
    let message =
        proto::Profile::decode(bytes).map_err(|error| ReadError::at_byte(FORMAT, 0, error.to_string()))?;
    if message.sample_type.is_empty() || message.string_table.first().is_none_or(|s| !s.is_empty()) {
        let what = "no sample types, or a string table that does not begin empty";
        return Err(ReadError::at_byte(FORMAT, 0, what));
    }
    if message.sample_type.len() > MOST_SAMPLE_TYPES {
        let what = format!("{} sample types", message.sample_type.len());
        return Err(ReadError::at_byte(FORMAT, 0, what));
    }
    if !references::are_complete(&message) {
        let what = "refers to strings, mappings or functions that are not there: cut off or damaged";
        return Err(ReadError::at_byte(FORMAT, bytes.len(), what));
    }
    let mut reader = Reader { builder: Builder::new(FORMAT), message: &message, locations: HashMap::new() };
    reader.read_meta();
    let modules = reader.read_mappings();
    let functions = reader.read_functions();
    reader.read_locations(&modules, &functions);
    let columns = reader.read_sample_types();
    reader.read_samples(&columns)?;
    Ok(reader.builder.finish())
}

struct Reader<'a> {
    builder: Builder,
    message: &'a proto::Profile,
    locations: HashMap<u64, LocationId>,
}

/// Where the values of a sample type go.
#[derive(Debug, Clone, Copy)]
enum Target {
    Shared(Metric),
    Extra(usize),
}

impl<'a> Reader<'a> {
    /// An index of the string table; one out of range reads as empty.
    fn text(&self, index: i64) -> &'a str {
        let index = usize::try_from(index).unwrap_or(usize::MAX);
        self.message.string_table.get(index).map_or("", String::as_str)
    }

    fn read_meta(&mut self) {
        let message = self.message;
        let positive = |number: i64| u64::try_from(number).ok().filter(|number| *number > 0);
        let comments: Vec<String> =
            message.comment.iter().map(|index| self.text(*index).to_owned()).collect();
        let by_bytes = message.period_type.is_some_and(|period| self.text(period.unit) == "bytes");
        let meta = self.builder.meta();
        meta.comments = comments;
        meta.time_unix_ns = positive(message.time_nanos);
        meta.duration_ns = positive(message.duration_nanos);
        if let Some(mean_bytes) = positive(message.period).filter(|n| *n > 1 && by_bytes) {
            meta.sampling = Sampling::Poisson { mean_bytes };
        }
    }

    fn read_mappings(&mut self) -> HashMap<u64, ModuleId> {
        let mut modules = HashMap::new();
        for mapping in &self.message.mapping {
            let module = Module {
                path: self.text(mapping.filename).to_owned(),
                build_id: BuildId::from_hex(self.text(mapping.build_id)).unwrap_or_default(),
                start: mapping.memory_start,
                end: mapping.memory_limit,
                file_offset: mapping.file_offset,
            };
            modules.insert(mapping.id, self.builder.module(module));
        }
        let main = self.message.mapping.first();
        self.builder.meta().program =
            main.map(|mapping| self.text(mapping.filename).to_owned()).unwrap_or_default();
        modules
    }

    fn read_functions(&mut self) -> HashMap<u64, FunctionId> {
        let mut functions = HashMap::new();
        for function in &self.message.function {
            let id = self.builder.function(Function {
                name: self.text(function.name).to_owned(),
                system_name: self.text(function.system_name).to_owned(),
                file: self.text(function.filename).to_owned(),
                start_line: u32::try_from(function.start_line).unwrap_or(0),
            });
            functions.insert(function.id, id);
        }
        functions
    }

    fn read_locations(&mut self, modules: &HashMap<u64, ModuleId>, functions: &HashMap<u64, FunctionId>) {
        for location in &self.message.location {
            let line = |line: &proto::Line| {
                Some(Line {
                    function: *functions.get(&line.function_id)?,
                    line: u32::try_from(line.line).unwrap_or(0),
                })
            };
            let id = self.builder.distinct(Location {
                address: location.address,
                is_return_address: false,
                module: modules.get(&location.mapping_id).copied(),
                lines: location.line.iter().filter_map(line).collect(),
            });
            self.locations.insert(location.id, id);
        }
    }

    fn read_sample_types(&mut self) -> Vec<Target> {
        let message = self.message;
        let target = |kind: &proto::ValueType| {
            let name = self.text(kind.r#type);
            match name {
                "alloc_objects" | "allocations" => Target::Shared(Metric::AllocObjects),
                "alloc_space" => Target::Shared(Metric::AllocSpace),
                "inuse_objects" | "objects" => Target::Shared(Metric::InuseObjects),
                "inuse_space" | "space" => Target::Shared(Metric::InuseSpace),
                _ => {
                    let unit = match self.text(kind.unit) {
                        "bytes" => Unit::Bytes,
                        _ => Unit::Objects,
                    };
                    Target::Extra(self.builder.column(name, unit))
                }
            }
        };
        message.sample_type.iter().map(target).collect()
    }

    fn read_samples(&mut self, columns: &[Target]) -> Result<(), ReadError> {
        let sampling = self.builder.meta().sampling;
        for (number, sample) in self.message.sample.iter().enumerate() {
            let broken = |what| ReadError::at_byte(FORMAT, 0, format!("sample {number} {what}"));
            if sample.value.len() != columns.len() {
                return Err(broken("has not one value per sample type"));
            }
            let frame = |id: &u64| self.locations.get(id).copied();
            let frames: Option<Vec<LocationId>> = sample.location_id.iter().rev().map(frame).collect();
            let frames = frames.ok_or_else(|| broken("refers to no location"))?;
            let stack = self.builder.stack(frames);
            let values = shared_values(columns, &sample.value);
            let variance = match sampling {
                Sampling::Exact => Values::default(),
                Sampling::Poisson { mean_bytes } => variance_of_unbiased(&values, mean_bytes as f64),
            };
            let (thread, sizes) = self.read_labels(&sample.label);
            let row = self.builder.add(stack, thread, sizes, values, variance);
            for (target, value) in columns.iter().zip(&sample.value) {
                if let Target::Extra(column) = target {
                    self.builder.add_extra(*column, row, *value as f64);
                }
            }
        }
        Ok(())
    }

    /// The thread (a name, a number, or both) and the block sizes in the labels.
    fn read_labels(&mut self, labels: &[proto::Label]) -> (Option<crate::ThreadId>, Option<SizeRange>) {
        let (mut name, mut tid, mut min, mut max) = ("", None, None, None);
        for label in labels {
            match self.text(label.key) {
                "thread" if label.str != 0 => name = self.text(label.str),
                "thread" | "thread_id" | "tid" => tid = u64::try_from(label.num).ok(),
                "bytes" => (min, max) = (u64::try_from(label.num).ok(), u64::try_from(label.num).ok()),
                "min_bytes" => min = u64::try_from(label.num).ok(),
                "max_bytes" => max = u64::try_from(label.num).ok(),
                _ => {}
            }
        }
        let name = name.to_owned();
        let told = tid.is_some() || !name.is_empty();
        let thread = told.then(|| self.builder.thread(tid.unwrap_or(0), &name));
        let sizes = min.zip(max).filter(|(min, max)| min <= max);
        (thread, sizes.map(|(min, max)| SizeRange { min, max }))
    }
}

fn shared_values(columns: &[Target], numbers: &[i64]) -> Values {
    let mut values = Values::default();
    for (target, number) in columns.iter().zip(numbers) {
        let Target::Shared(metric) = target else {
            continue;
        };
        let cell = match metric {
            Metric::AllocObjects => &mut values.alloc_objects,
            Metric::AllocSpace => &mut values.alloc_bytes,
            Metric::InuseObjects => &mut values.inuse_objects,
            Metric::InuseSpace => &mut values.inuse_bytes,
            Metric::Extra(_) => continue,
        };
        *cell += *number as f64;
    }
    values
}
