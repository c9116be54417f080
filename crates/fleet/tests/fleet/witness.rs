//! Other engines as witnesses: DuckDB reads the same Parquet files and gives the same rows for the
//! same SQL; chDB, which is ClickHouse in a process, runs the statements of the export.

use std::io::Write;
use std::process::{Command, Stdio};

use heapwise_agent::batch::Entry;
use serde_json::{Value, json};

use crate::harness::{Scratch, fleet, is_equal, output, rows, several_stacks, simulated, store};

/// DuckDB: reads `{"files": {TABLE: [PATH]}, "queries": [SQL]}`; prints the rows of each query.
const DUCKDB: &str = r#"
import json, sys
import duckdb
asked = json.load(sys.stdin)
connection = duckdb.connect()
for table, files in asked["files"].items():
    connection.read_parquet(files).create_view(table)
answers = []
for sql in asked["queries"]:
    result = connection.execute(sql)
    names = [column[0] for column in result.description]
    answers.append([dict(zip(names, row)) for row in result.fetchall()])
json.dump(answers, sys.stdout, default=float)
"#;

/// chDB: reads `{"statements": [SQL], "queries": [SQL]}`; prints the rows of each query.
const CHDB: &str = r#"
import json, sys
from chdb import session
asked = json.load(sys.stdin)
clickhouse = session.Session()
for statement in asked["statements"]:
    clickhouse.query(statement)
answers = []
for sql in asked["queries"]:
    lines = str(clickhouse.query(sql, "JSONEachRow")).splitlines()
    answers.append([json.loads(line) for line in lines if line])
json.dump(answers, sys.stdout)
"#;

const TABLES: [&str; 5] = ["functions", "stacks", "frames", "profiles", "samples"];
const QUESTIONS: [&[&str]; 6] =
    [&["top"], &["diff", "1.0", "1.1"], &["growth"], &["outliers"], &["history", "cache_insert"], &["oom"]];

/// What a Python script prints for its input.
fn python(script: &str, asked: &Value) -> Vec<Vec<Value>> {
    let mut python = Command::new("python3");
    let mut child = python.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(asked.to_string().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "the witness failed");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn assert_equal(what: &str, ours: &[Value], theirs: &[Value]) {
    assert_eq!(ours.len(), theirs.len(), "{what}");
    assert!(!ours.is_empty(), "{what}");
    for (ours, theirs) in ours.iter().zip(theirs) {
        let object = ours.as_object().unwrap();
        assert_eq!(object.len(), theirs.as_object().unwrap().len());
        for (name, value) in object {
            assert!(is_equal(value, &theirs[name]), "{what}: {ours} and {theirs}");
        }
    }
}

#[test]
#[ignore = "needs DuckDB, which `cargo xtask test` installs"]
fn duckdb_gives_the_same_rows() {
    assert_same_in_duckdb("witness", &simulated(), &QUESTIONS);
    assert_same_in_duckdb("witness-stacks", &several_stacks(), &[&["growth"]]);
}

fn assert_same_in_duckdb(name: &str, entries: &[Entry], questions: &[&[&str]]) {
    let scratch = Scratch::new(name);
    let data = scratch.path();
    store(data, entries);
    let files = |table: &str| -> Vec<String> {
        output(fleet(data).args(["files", table])).lines().map(str::to_owned).collect()
    };
    let files: Value = TABLES.iter().map(|table| ((*table).to_owned(), json!(files(table)))).collect();
    let queries: Vec<String> =
        questions.iter().map(|question| output(fleet(data).args(*question).arg("--sql"))).collect();
    let witnessed = python(DUCKDB, &json!({ "files": files, "queries": queries }));
    for (question, theirs) in questions.iter().zip(witnessed) {
        assert_equal(&question.join(" "), &rows(data, question), &theirs);
    }
}

/// Count of the rows of a table and a sum for each column: of numbers, or of lengths of texts.
fn sums_sql(table: &str, row: &Value) -> String {
    let column = |(name, value): (&String, &Value)| match value {
        Value::String(_) => format!("sum(CAST(length(\"{name}\") AS DOUBLE)) AS \"{name}\""),
        _ => format!("sum(CAST(\"{name}\" AS DOUBLE)) AS \"{name}\""),
    };
    let columns: Vec<String> = row.as_object().unwrap().iter().map(column).collect();
    format!("SELECT CAST(count(*) AS DOUBLE) AS n, {} FROM {table}", columns.join(", "))
}

#[test]
#[ignore = "needs chDB, which `cargo xtask test` installs"]
fn clickhouse_loads_the_same_rows() {
    let scratch = Scratch::new("clickhouse");
    let data = scratch.path();
    store(data, &simulated());
    let text = output(fleet(data).arg("clickhouse"));
    let statements: Vec<&str> = text.lines().collect();
    let sums = TABLES.map(|table| {
        let first = rows(data, &["query", &format!("SELECT * FROM {table} LIMIT 1")]);
        sums_sql(table, &first[0])
    });
    let witnessed = python(CHDB, &json!({ "statements": statements, "queries": sums }));
    for (sql, theirs) in sums.iter().zip(witnessed) {
        assert_equal(sql, &rows(data, &["query", sql]), &theirs);
    }
}
