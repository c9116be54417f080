//! The built-in questions, with answers computed by hand.

use serde_json::Value;

use crate::harness::{Scratch, fleet, output, rows, several_stacks, simulated, store};

fn text<'a>(row: &'a Value, column: &str) -> &'a str {
    row[column].as_str().unwrap_or_else(|| panic!("{column} of {row}"))
}

fn number(row: &Value, column: &str) -> f64 {
    row[column].as_f64().unwrap_or_else(|| panic!("{column} of {row}"))
}

const MIB: f64 = 1_048_576.0;
const KIB: f64 = 1024.0;

#[test]
fn questions_have_the_answers_computed_by_hand() {
    let scratch = Scratch::new("questions");
    let data = scratch.path();
    store(data, &simulated());

    // The last minute, 11: `parse` of host n holds 8 + (77 + 3 n) mod 5 MiB.
    let top = rows(data, &["top"]);
    let parse: f64 = (0..10).map(|n| 8.0 + f64::from((77 + 3 * n) % 5)).sum();
    assert_eq!((text(&top[0], "function"), number(&top[0], "self_bytes")), ("parse", parse * MIB));
    assert_eq!((text(&top[1], "function"), number(&top[1], "self_bytes")), ("load", 19.0 * MIB));
    let main = top.iter().find(|row| row["function"] == "main").unwrap();
    assert_eq!(number(main, "self_bytes"), 0.0);
    let inserted = 2.0 * 12.0 * 64.0 * KIB + 8.0 * 4.0 * KIB;
    assert_eq!(number(main, "total_bytes"), (parse + 19.0) * MIB + inserted);
    assert_eq!(number(main, "hosts"), 10.0);
    assert!(!top.iter().any(|row| row["function"] == "read_all"), "process 77 has ended");

    // Per host: the mean over minutes 1 to 12 of 64 KiB a minute, against 4 KiB.
    let diff = rows(data, &["diff", "1.0", "1.1"]);
    let insert = diff.iter().find(|row| row["site"] == "cache_insert").unwrap();
    assert_eq!(number(insert, "old_bytes"), 4.0 * KIB);
    assert_eq!(number(insert, "new_bytes"), 6.5 * 64.0 * KIB);
    assert_eq!(number(insert, "change_bytes"), 6.5 * 64.0 * KIB - 4.0 * KIB);
    let load = diff.iter().find(|row| row["site"] == "load").unwrap();
    assert!((number(load, "old_bytes") - (17.0 * MIB + 5.0 / 12.0) / 8.0).abs() < 1.0, "{load}");

    // 64 KiB a minute are 3.75 MiB an hour.
    let growth = rows(data, &["growth"]);
    assert_eq!((text(&growth[0], "site"), text(&growth[0], "release")), ("cache_insert", "1.1"));
    assert!((number(&growth[0], "bytes_per_hour") - 3.75 * MIB).abs() < 1.0, "{}", growth[0]);
    assert!((number(&growth[0], "correlation") - 1.0).abs() < 1e-9);
    assert_eq!(growth.len(), 1, "{growth:?}");

    let outliers = rows(data, &["outliers"]);
    let found: Vec<_> = outliers.iter().map(|row| (text(row, "host"), text(row, "site"))).collect();
    assert_eq!(found, [("h05", "read_all"), ("h03", "load")]);

    let history = rows(data, &["history", "cache_insert", "-n", "100"]);
    let grown = history.iter().filter(|row| row["release"] == "1.1");
    let bytes: Vec<f64> = grown.map(|row| number(row, "live_bytes")).collect();
    assert_eq!(bytes, (1..=12).map(|minute| 2.0 * f64::from(minute) * 64.0 * KIB).collect::<Vec<_>>());

    let killed = rows(data, &["oom"]);
    let held: Vec<_> = killed.iter().map(|row| (text(row, "site"), number(row, "site_bytes"))).collect();
    assert_eq!(held, [("read_all", 900_000_000.0), ("load", 5.0)]);
    assert_eq!((text(&killed[0], "host"), number(&killed[0], "pid")), ("h05", 77.0));

    let printed = output(fleet(data).args(["oom"]));
    assert!(printed.contains("2026-11-16T12:03:00Z") && printed.contains("read_all"), "{printed}");
    let refused = fleet(data).args(["query", "CREATE TABLE x (a INT)"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
}

/// The growth of a site is that of the sum of its stacks. It does not depend on how long the scope
/// began before the first profile.
#[test]
fn growth_is_that_of_all_stacks_of_a_site() {
    let scratch = Scratch::new("several-stacks");
    let data = scratch.path();
    store(data, &several_stacks());
    for since in ["24h", "500000h"] {
        let growth = rows(data, &["growth", "--since", since]);
        let found: Vec<_> = growth.iter().map(|row| (text(row, "site"), text(row, "release"))).collect();
        assert_eq!(found, [("append", "1.1"), ("append", "1.0"), ("insert", "1.1"), ("insert", "1.0")]);
        for (row, slope) in growth.iter().zip([15.0, 11.25, 7.5, 3.75]) {
            assert!((number(row, "bytes_per_hour") - slope * MIB).abs() < 1.0, "{row}");
            assert!((number(row, "correlation") - 1.0).abs() < 1e-9, "{row}");
        }
    }
}
