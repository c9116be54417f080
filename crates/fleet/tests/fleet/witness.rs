//! DuckDB as witness: it reads the same Parquet files and gives the same rows for the same SQL.

use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::harness::{Scratch, fleet, is_equal, output, rows, simulated, store};

/// Reads `{"files": {TABLE: [PATH]}, "queries": [SQL]}`; prints the rows of each query.
const SCRIPT: &str = r#"
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

const TABLES: [&str; 5] = ["functions", "stacks", "frames", "profiles", "samples"];
const QUESTIONS: [&[&str]; 6] =
    [&["top"], &["diff", "1.0", "1.1"], &["growth"], &["outliers"], &["history", "cache_insert"], &["oom"]];

fn duckdb(asked: &Value) -> Vec<Vec<Value>> {
    let mut python = Command::new("python3");
    let mut child = python.args(["-c", SCRIPT]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(asked.to_string().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "DuckDB failed");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
#[ignore = "needs DuckDB, which `cargo xtask test` installs"]
fn duckdb_gives_the_same_rows() {
    let scratch = Scratch::new("witness");
    let data = scratch.path();
    store(data, &simulated());
    let files = |table: &str| -> Vec<String> {
        output(fleet(data).args(["files", table])).lines().map(str::to_owned).collect()
    };
    let files: Value = TABLES.iter().map(|table| ((*table).to_owned(), json!(files(table)))).collect();
    let queries: Vec<String> =
        QUESTIONS.iter().map(|question| output(fleet(data).args(*question).arg("--sql"))).collect();
    let witnessed = duckdb(&json!({ "files": files, "queries": queries }));
    for (question, theirs) in QUESTIONS.iter().zip(witnessed) {
        let ours = rows(data, question);
        assert_eq!(ours.len(), theirs.len(), "{question:?}");
        assert!(!ours.is_empty(), "{question:?}");
        for (ours, theirs) in ours.iter().zip(&theirs) {
            let object = ours.as_object().unwrap();
            assert_eq!(object.len(), theirs.as_object().unwrap().len());
            for (name, value) in object {
                assert!(is_equal(value, &theirs[name]), "{question:?}: {ours} and {theirs}");
            }
        }
    }
}
