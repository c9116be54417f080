//! One process at one moment, or all processes now, as a normal profile.

use std::collections::HashMap;

use datafusion::arrow::array::{AsArray, RecordBatch};
use datafusion::arrow::datatypes::{ArrowPrimitiveType, Float64Type, Int64Type, UInt32Type, UInt64Type};
use heapwise_agent::batch::End;
use heapwise_capture::failure::{Failure, Outcome};
use heapwise_profile::builder::Builder;
use heapwise_profile::{
    Function, Line, Location, LocationId, Module, ModuleId, Profile, ProgramEnd, Sampling, StackId, Values,
};

use crate::catalog::Catalog;
use crate::questions::{Scope, quoted, top};

/// The process and moment that are wanted.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// Name of the host.
    pub host: String,
    /// Number of the process.
    pub pid: u32,
    /// Newest profile up to this time; the newest of all without.
    pub until_ns: Option<i64>,
}

/// The newest profile of a process up to a time.
pub fn profile(catalog: &Catalog, wanted: &Wanted) -> Outcome<Profile> {
    let until = wanted.until_ns.map_or_else(String::new, |time_ns| format!(" AND time_ns <= {time_ns}"));
    let rows = catalog.rows(&format!(
        "SELECT profile_id, time_ns, start_ns, program, pid, \"end\", sampling_bytes, peak_bytes FROM profiles \
         WHERE host = {} AND pid = {}{until} ORDER BY time_ns DESC LIMIT 1",
        quoted(&wanted.host),
        wanted.pid
    ))?;
    let Some(row) = rows.iter().find(|batch| batch.num_rows() > 0) else {
        let Wanted { host, pid, .. } = wanted;
        return Err(Failure::new(format!("no profile of process {pid} on host {host} is stored")));
    };
    let (id, time_ns) = (number::<UInt64Type>(row, 0, 0), number::<Int64Type>(row, 1, 0));
    let mut builder = Builder::new("heapwise fleet");
    describe(&mut builder, row);
    let chosen = format!("SELECT * FROM samples WHERE profile_id = {id} AND time_ns = {time_ns}");
    add_samples(&mut builder, catalog, &chosen)?;
    Ok(builder.finish())
}

/// The last profiles of all processes of a scope that run, added up.
pub fn merged(catalog: &Catalog, scope: &Scope) -> Outcome<Profile> {
    let mut builder = Builder::new("heapwise fleet");
    let meta = builder.meta();
    meta.time_unix_ns = u64::try_from(scope.until_ns).ok();
    meta.program = scope.service.clone().unwrap_or_else(|| "fleet".to_owned());
    add_samples(&mut builder, catalog, &top::samples_sql(scope))?;
    Ok(builder.finish())
}

/// Adds the samples that a query selects.
fn add_samples(builder: &mut Builder, catalog: &Catalog, chosen: &str) -> Outcome {
    let stacks = Stacks::load(catalog, chosen, builder)?;
    let samples = catalog.rows(&format!(
        "SELECT stack_id, alloc_objects, alloc_bytes, inuse_objects, inuse_bytes, inuse_variance \
         FROM ({chosen}) ORDER BY stack_id"
    ))?;
    for batch in &samples {
        for row in 0..batch.num_rows() {
            let value = |at| number::<Int64Type>(batch, at, row) as f64;
            let values = Values {
                alloc_objects: value(1),
                alloc_bytes: value(2),
                inuse_objects: value(3),
                inuse_bytes: value(4),
            };
            let inuse_bytes = number::<Float64Type>(batch, 5, row);
            let stack = stacks.by_id.get(&number::<UInt64Type>(batch, 0, row)).copied();
            let stack = stack.unwrap_or_else(|| builder.stack([]));
            builder.add(stack, None, None, values, Values { inuse_bytes, ..Values::default() });
        }
    }
    Ok(())
}

fn describe(builder: &mut Builder, row: &RecordBatch) {
    let time_ns = number::<Int64Type>(row, 1, 0);
    let lived_ns = time_ns.saturating_sub(number::<Int64Type>(row, 2, 0));
    let meta = builder.meta();
    meta.time_unix_ns = u64::try_from(time_ns).ok();
    meta.duration_ns = u64::try_from(lived_ns).ok();
    meta.program = text(row, 3, 0).to_owned();
    meta.pid = Some(number::<UInt32Type>(row, 4, 0));
    meta.end = match text(row, 5, 0).parse() {
        Ok(End::Exited(status)) => ProgramEnd::Exited { status },
        Ok(End::Killed(signal)) => ProgramEnd::Killed { signal },
        Ok(End::OutOfMemory) => ProgramEnd::Killed { signal: Some(9) },
        Ok(End::Replaced) => ProgramEnd::Replaced,
        Ok(End::Unknown) => ProgramEnd::Unknown,
        Err(_) => ProgramEnd::Running,
    };
    meta.sampling = match number::<UInt64Type>(row, 6, 0) {
        0 => Sampling::Exact,
        mean_bytes => Sampling::Poisson { mean_bytes },
    };
    meta.peak_bytes = u64::try_from(number::<Int64Type>(row, 7, 0)).ok().filter(|bytes| *bytes > 0);
}

/// The stacks of the chosen samples in the profile.
struct Stacks {
    by_id: HashMap<u64, StackId>,
}

impl Stacks {
    fn load(catalog: &Catalog, chosen: &str, builder: &mut Builder) -> Outcome<Self> {
        let rows = catalog.rows(&format!(
            "SELECT frames.stack_id, frames.pos, frames.line, frames.is_inlined, functions.full_name, \
             functions.system_name, functions.file, functions.start_line, functions.module \
             FROM (SELECT stack_id FROM ({chosen})) s JOIN frames ON s.stack_id = frames.stack_id \
             JOIN functions ON frames.fn_id = functions.fn_id ORDER BY frames.stack_id, frames.pos"
        ))?;
        let mut places = Places::default();
        let mut by_id = HashMap::new();
        let mut open: Option<(u64, Vec<LocationId>)> = None;
        let mut lines: Vec<Line> = Vec::new();
        for batch in &rows {
            for row in 0..batch.num_rows() {
                let stack_id = number::<UInt64Type>(batch, 0, row);
                if open.as_ref().is_none_or(|(id, _)| *id != stack_id) {
                    close(&mut by_id, open.replace((stack_id, Vec::new())), builder);
                }
                lines.push(line(batch, row, builder));
                let is_inlined = batch.column(3).as_boolean().value(row);
                if !is_inlined && let Some((_, locations)) = &mut open {
                    let lines = std::mem::take(&mut lines);
                    locations.push(places.location(builder, text(batch, 8, row), lines));
                }
            }
        }
        close(&mut by_id, open, builder);
        Ok(Self { by_id })
    }
}

/// Adds a stack whose locations were collected from leaf to root.
fn close(by_id: &mut HashMap<u64, StackId>, open: Option<(u64, Vec<LocationId>)>, builder: &mut Builder) {
    if let Some((id, locations)) = open {
        by_id.insert(id, builder.stack(locations.into_iter().rev()));
    }
}

fn line(batch: &RecordBatch, row: usize, builder: &mut Builder) -> Line {
    let function = builder.function(Function {
        name: text(batch, 4, row).to_owned(),
        system_name: text(batch, 5, row).to_owned(),
        file: text(batch, 6, row).to_owned(),
        start_line: number::<UInt32Type>(batch, 7, row),
    });
    Line { function, line: number::<UInt32Type>(batch, 2, row) }
}

/// Locations by their functions and binary.
#[derive(Default)]
struct Places {
    modules: HashMap<String, ModuleId>,
    locations: HashMap<(Option<ModuleId>, Vec<Line>), LocationId>,
}

impl Places {
    fn location(&mut self, builder: &mut Builder, module: &str, lines: Vec<Line>) -> LocationId {
        let module = (!module.is_empty()).then(|| match self.modules.get(module) {
            Some(id) => *id,
            None => {
                let id = builder.module(Module { path: module.to_owned(), ..Module::default() });
                self.modules.insert(module.to_owned(), id);
                id
            }
        });
        let known = self.locations.entry((module, lines.clone()));
        *known.or_insert_with(|| {
            builder.distinct(Location { address: 0, is_return_address: true, module, lines })
        })
    }
}

fn number<T: ArrowPrimitiveType>(batch: &RecordBatch, column: usize, row: usize) -> T::Native {
    batch.column(column).as_primitive::<T>().value(row)
}

fn text(batch: &RecordBatch, column: usize, row: usize) -> &str {
    batch.column(column).as_string::<i32>().value(row)
}
