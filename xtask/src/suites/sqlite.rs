//! The sqlite3 shell over a long script: what it prints, line by line.

use std::fmt::Write as _;
use std::fs;

use super::{Stage, Suite, Under};
use heapwise_testkit::failure::Failure;

pub(super) const SUITE: Suite =
    Suite { name: "sqlite", packages: &[("/usr/bin/sqlite3", "sqlite3")], is_short: true, run };

fn run(stage: &Stage, under: &Under<'_>) -> Result<Option<String>, Failure> {
    let (script, rounds) = (stage.scratch.join("script.sql"), if stage.is_short { 20 } else { 400 });
    fs::write(&script, text(rounds)).map_err(|error| Failure::at(&script, error))?;
    let output = under.output("/usr/bin/sqlite3", &["test.db", ".read script.sql"])?;
    let printed = String::from_utf8_lossy(&output.stdout);
    let numbered: Vec<String> =
        printed.lines().enumerate().map(|(row, line)| format!("{row} {line}")).collect();
    Ok(Some(format!("{}\n{}", output.status, numbered.join("\n"))))
}

/// Tables, indices, triggers, views, full-text search, JSON, transactions that are rolled back.
fn text(rounds: u32) -> String {
    let mut script = String::from(
        "create virtual table words using fts5(word);\ncreate table log(what);\n\
         create table t(a integer primary key, b text, c real, d blob);\n\
         create trigger tr after delete on t begin insert into log values (old.a); end;\n\
         create view v as select a % 7 as k, count(*) as n, sum(c) as s from t group by k;\n",
    );
    for round in 0..rounds {
        let _ = write!(
            script,
            "begin;\nwith recursive n(x) as (select 1 union all select x+1 from n where x<300)\n\
             insert or replace into t select x*{round}%9973, printf('%d-%s',x,hex(x*{round})), x/7.0, zeroblob(x%50) from n;\n\
             {};\ncreate index if not exists i{m} on t(b, c desc);\n\
             insert into words select b from t where a % 97 = {round} % 97;\n\
             select count(*) from words where words match '{round}*';\n\
             select k, n, round(s, 3) from v order by n desc limit 3;\n\
             select json_group_array(json_object('a', a, 'b', b)) from (select * from t order by b limit 5);\n\
             select a, lag(b) over (order by c, a) from t order by a desc limit 4;\n\
             delete from t where a % 31 = {round} % 31;\ndrop index if exists i{m};\n",
            if round % 5 == 4 { "rollback" } else { "commit" },
            m = round % 3,
        );
    }
    script + "select count(*), sum(a) from t; select count(*) from log; pragma integrity_check;\n"
}
