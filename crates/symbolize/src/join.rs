//! The join: a profile's locations with what is known about their binaries.

use std::{cmp::Reverse, collections::HashMap};

use heapwise_profile::{Function, FunctionId, Line, Profile};

use crate::{
    FileOffset, Options, Report, Resolver, Svma,
    answer::Answer,
    parallel,
    question::{questions, unresolved},
};

/// Fewest addresses worth a thread of their own: each thread reads the unit index again.
const CHUNK_ADDRESSES: usize = 2048;

/// Fills in the functions and lines of every location that has none. What cannot be resolved stays
/// without lines.
pub fn symbolize(profile: &mut Profile, options: &Options) -> Report {
    let questions = questions(profile, options);
    let threads = options.threads();
    let mut answers = parallel::map(threads, &questions, |question| Answer::prepare(question, options));
    look_up(&mut answers, threads);
    parallel::map(threads, &answers, |answer| answer.remember(options));
    let mut report = Report { modules: answers.iter().map(Answer::report).collect(), ..Report::default() };
    fill(profile, &answers, options, &mut report);
    report
}

/// A share of the addresses of one answer.
struct Chunk<'a> {
    answer: usize,
    resolver: &'a Resolver,
    missing: &'a [(FileOffset, Svma)],
}

/// Looks up what the caches did not know. Addresses of a large binary are shared out.
fn look_up(answers: &mut [Answer<'_>], threads: usize) {
    let mut chunks = Vec::new();
    for (at, answer) in answers.iter().enumerate() {
        if let Some(resolver) = &answer.resolver {
            let size = answer.missing.len().div_ceil(threads).max(CHUNK_ADDRESSES);
            chunks.extend(answer.missing.chunks(size).map(|missing| Chunk { answer: at, resolver, missing }));
        }
    }
    chunks.sort_by_key(|chunk| Reverse(chunk.missing.len()));
    let found = parallel::map(threads, &chunks, |chunk| {
        let (offsets, addresses): (Vec<_>, Vec<_>) = chunk.missing.iter().copied().unzip();
        (chunk.answer, offsets, chunk.resolver.resolve(&addresses))
    });
    for (at, offsets, symbols) in found {
        answers[at].is_whole &= symbols.is_whole;
        answers[at].known.extend(&offsets, symbols);
    }
}

/// Copies the answers into the profile.
fn fill(profile: &mut Profile, answers: &[Answer<'_>], options: &Options, report: &mut Report) {
    let mut answer_of = vec![None; profile.modules.len()];
    for (row, answer) in answers.iter().enumerate() {
        for module in &answer.question.modules {
            answer_of[*module] = Some(row);
        }
    }
    let mut functions = Functions::new(&mut profile.functions, answers);
    for at in 0..profile.locations.len() {
        let modules = &profile.modules;
        let location = &mut profile.locations[at];
        let Some((module, offset)) = unresolved(modules, location) else {
            continue;
        };
        report.locations += 1;
        let Some(row) = answer_of[module] else {
            continue;
        };
        let mut lines = answers[row].lines(offset);
        let has_name = answers[row].has_name(lines);
        if !has_name && !options.unnamed {
            continue;
        }
        if !options.inlines {
            lines = lines.last_chunk::<1>().map_or(&[], |last| last);
        }
        location.lines = lines.iter().map(|line| functions.line(row, line)).collect();
        report.resolved += usize::from(has_name);
    }
}

/// The profile's function table, with each answer's functions entered when first used.
struct Functions<'a> {
    table: &'a mut Vec<Function>,
    answers: &'a [Answer<'a>],
    rows: HashMap<Function, FunctionId>,
    /// For each answer, rows of its functions in `table`.
    known: Vec<Vec<Option<FunctionId>>>,
}

impl<'a> Functions<'a> {
    fn new(table: &'a mut Vec<Function>, answers: &'a [Answer<'a>]) -> Self {
        let rows = table.iter().cloned().zip((0..).map(FunctionId)).collect();
        let known = answers.iter().map(|it| vec![None; it.known.functions.len()]);
        Self { table, rows, known: known.collect(), answers }
    }

    fn line(&mut self, answer: usize, line: &Line) -> Line {
        let slot = &mut self.known[answer][line.function.index()];
        let function = *slot.get_or_insert_with(|| {
            let function = self.answers[answer].function(line.function);
            *self.rows.entry(function).or_insert_with_key(|function| {
                self.table.push(function.clone());
                FunctionId::new(self.table.len() - 1)
            })
        });
        Line { function, ..*line }
    }
}
