//! The join: a profile's locations with what is known about their binaries.

use std::{cmp::Reverse, collections::HashMap};

use heapwise_profile::{Function, FunctionId, Line, Profile};

use crate::{
    FileOffset, Options, Report, Resolver, Svma, compiled,
    module_request::{ModuleRequest, module_requests, unresolved},
    module_result::ModuleResult,
    own_allocator, parallel,
};

/// Fewest addresses worth a thread of their own: each thread reads the unit index again.
const CHUNK_ADDRESSES: usize = 2048;

/// Fills in the functions and lines of every location that has none. What cannot be resolved stays
/// without lines; the profile keeps the reasons.
pub fn symbolize(profile: &mut Profile, options: &Options) -> Report {
    compiled::name_compiled_when_recorded(profile);
    let module_requests = module_requests(profile, options);
    let results = results(&module_requests, options);
    let mut report =
        Report { modules: results.iter().map(ModuleResult::report).collect(), ..Report::default() };
    fill(profile, &results, options, &mut report);
    profile.symbol_problems = report.problems();
    own_allocator::note(profile);
    report
}

/// Symbols of every binary. Several threads share the addresses of all binaries. A single thread
/// has one binary open at a time, which bounds its memory.
fn results<'a>(module_requests: &'a [ModuleRequest], options: &Options) -> Vec<ModuleResult<'a>> {
    let threads = options.threads();
    let open_at_once = if threads == 1 { 1 } else { module_requests.len().max(1) };
    let mut results = Vec::with_capacity(module_requests.len());
    for requests in module_requests.chunks(open_at_once) {
        let mut opened = parallel::map(threads, requests, |request| ModuleResult::prepare(request, options));
        look_up(&mut opened, threads);
        parallel::map(threads, &opened, |result| result.remember(options));
        opened.iter_mut().for_each(ModuleResult::close);
        results.append(&mut opened);
    }
    results
}

/// A share of the addresses of one result.
struct Chunk<'a> {
    result: usize,
    resolver: &'a Resolver,
    missing: &'a [(FileOffset, Svma)],
}

/// Looks up the addresses that the caches did not have. Addresses of a large binary are split among
/// threads.
fn look_up(results: &mut [ModuleResult<'_>], threads: usize) {
    let mut chunks = Vec::new();
    for (at, result) in results.iter().enumerate() {
        if let Some(resolver) = &result.resolver {
            let size = result.missing.len().div_ceil(threads).max(CHUNK_ADDRESSES);
            chunks.extend(result.missing.chunks(size).map(|missing| Chunk { result: at, resolver, missing }));
        }
    }
    chunks.sort_by_key(|chunk| Reverse(chunk.missing.len()));
    let found = parallel::map(threads, &chunks, |chunk| {
        let (offsets, addresses): (Vec<_>, Vec<_>) = chunk.missing.iter().copied().unzip();
        (chunk.result, offsets, chunk.resolver.resolve(&addresses))
    });
    for (at, offsets, symbols) in found {
        results[at].is_whole &= symbols.is_whole;
        results[at].known.extend(&offsets, symbols);
    }
}

/// Copies the results into the profile.
fn fill(profile: &mut Profile, results: &[ModuleResult<'_>], options: &Options, report: &mut Report) {
    let mut result_of = vec![None; profile.modules.len()];
    for (row, result) in results.iter().enumerate() {
        for module in &result.request.modules {
            result_of[*module] = Some(row);
        }
    }
    let places: Vec<_> = profile.locations.iter().map(|location| unresolved(profile, location)).collect();
    let mut functions = Functions::new(&mut profile.functions, results);
    for (location, place) in profile.locations.iter_mut().zip(places) {
        let Some((module, offset)) = place else {
            continue;
        };
        report.locations += 1;
        let Some(row) = result_of[module] else {
            continue;
        };
        let mut lines = results[row].lines(offset);
        let has_name = results[row].has_name(lines);
        if !has_name && (!options.unnamed || !location.lines.is_empty()) {
            continue;
        }
        if !options.inlines {
            lines = lines.last_chunk::<1>().map_or(&[], |last| last);
        }
        location.lines = lines.iter().map(|line| functions.line(row, line)).collect();
        report.resolved += usize::from(has_name);
    }
}

/// The profile's function table, with each result's functions entered when first used.
struct Functions<'a> {
    table: &'a mut Vec<Function>,
    results: &'a [ModuleResult<'a>],
    rows: HashMap<Function, FunctionId>,
    /// For each result, rows of its functions in `table`.
    known: Vec<Vec<Option<FunctionId>>>,
}

impl<'a> Functions<'a> {
    fn new(table: &'a mut Vec<Function>, results: &'a [ModuleResult<'a>]) -> Self {
        let rows = table.iter().cloned().zip((0..).map(FunctionId)).collect();
        let known = results.iter().map(|it| vec![None; it.known.functions.len()]);
        Self { table, rows, known: known.collect(), results }
    }

    fn line(&mut self, result: usize, line: &Line) -> Line {
        let slot = &mut self.known[result][line.function.index()];
        let function = *slot.get_or_insert_with(|| {
            let function = self.results[result].function(line.function);
            *self.rows.entry(function).or_insert_with_key(|function| {
                self.table.push(function.clone());
                FunctionId::new(self.table.len() - 1)
            })
        });
        Line { function, ..*line }
    }
}
