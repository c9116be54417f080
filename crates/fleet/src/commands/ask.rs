//! `query` and the questions.

use datafusion::arrow::array::RecordBatch;
use heapwise_capture::failure::Outcome;
use heapwise_fleet::answer::{self, Numbers};
use heapwise_fleet::asked::{Asked, Question};
use heapwise_fleet::catalog::Catalog;
use heapwise_fleet::manifest::Manifest;
use heapwise_fleet::store::Store;
use heapwise_fleet::{drill_down, engine};
use heapwise_profile::Profile;

use super::print;
use crate::args::{AskArgs, EngineArgs, OutputArgs, QueryArgs};

/// Times that a query is tried when a compaction deletes its segments.
const MOST_TRIES: usize = 3;

/// Runs SQL.
pub(super) fn query(store: &Store, args: &QueryArgs) -> Outcome {
    let rows = with_catalog(store, &args.output.engine, |catalog| catalog.rows(&args.sql))?;
    show(&rows, &args.output, Numbers::Plain)
}

/// Answers a question.
pub(super) fn question(store: &Store, question: &Question, args: &AskArgs) -> Outcome {
    let asked = asked(args);
    let sql = |catalog: &Catalog| Ok(question.sql(&asked.scope(catalog, question)?));
    if args.sql {
        let text = with_catalog(store, &args.output.engine, sql)?;
        return print(format!("{text}\n").as_bytes());
    }
    let rows = with_catalog(store, &args.output.engine, |catalog| catalog.rows(&sql(catalog)?))?;
    show(&rows, &args.output, Numbers::WithUnits)
}

/// The sum of the last profiles of all processes that run.
pub(super) fn merged(store: &Store, args: &AskArgs) -> Outcome<Profile> {
    with_catalog(store, &args.output.engine, |catalog| {
        drill_down::merged(catalog, &asked(args).scope(catalog, &Question::Top)?)
    })
}

fn asked(args: &AskArgs) -> Asked {
    Asked {
        service: args.service.clone(),
        since: args.since,
        until_ns: args.until,
        resolution: args.resolution,
        limit: args.limit,
    }
}

/// Runs a query on the current segments. When a compaction has deleted one of them meanwhile, the
/// query runs again on the new ones.
fn with_catalog<T>(store: &Store, engine: &EngineArgs, query: impl Fn(&Catalog) -> Outcome<T>) -> Outcome<T> {
    let mut tries = 0;
    loop {
        tries += 1;
        let manifest = Manifest::load(store)?;
        match query(&engine::catalog(store, &manifest, engine.ballista.as_deref())?) {
            Err(failure)
                if tries == MOST_TRIES || Manifest::load(store)?.generation == manifest.generation =>
            {
                return Err(failure);
            }
            Err(_) => {}
            done => return done,
        }
    }
}

fn show(rows: &[RecordBatch], output: &OutputArgs, numbers: Numbers) -> Outcome {
    if output.json {
        let mut text = answer::json(rows)?;
        text.push(b'\n');
        return print(&text);
    }
    print(answer::text(rows, numbers)?.as_bytes())
}
