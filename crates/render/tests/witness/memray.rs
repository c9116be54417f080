//! memray as witness of its capture file.

use std::collections::BTreeMap;

use heapwise_profile::{Metric, Profile, metric::column};
use heapwise_render::export::Format;
use serde_json::Value;

use crate::specimen::{mixed, recording};
use crate::tool::{Written, run};

/// The reader of each version accepts files of one version only.
const INSTALL: &str = "pip install memray==1.20.0";

/// Prints the bytes of each line as JSON: live at the end, live at the peak, temporary.
const SUMS: &str = "
import collections, json, sys, memray
def sums(records):
    lines = collections.Counter()
    for record in records:
        name, file, line = record.stack_trace()[0]
        lines[f'{name} {file}:{line}'] += record.size
    return lines
reader = memray.FileReader(sys.argv[1])
print(json.dumps({
    'live': sums(reader.get_leaked_allocation_records(merge_threads=True)),
    'peak': sums(reader.get_high_watermark_allocation_records(merge_threads=True)),
    'temporary': sums(reader.get_temporary_allocation_records(merge_threads=True)),
}))";

type Lines = BTreeMap<String, f64>;

fn lines(file: &Written) -> [Lines; 3] {
    let printed = run("python3", &["-c", SUMS, file.path()], INSTALL).stdout;
    let value: Value = serde_json::from_str(&printed).unwrap();
    ["live", "peak", "temporary"].map(|sum| serde_json::from_value(value[sum].clone()).unwrap())
}

/// Live bytes of the profile by the innermost frame of each stack.
fn expected(profile: &Profile) -> Lines {
    let mut lines = Lines::new();
    for sample in profile.samples.iter().filter(|sample| sample.values.inuse_bytes > 0.0) {
        let location = &profile.locations[profile.stacks.location(sample.stack).index()];
        let line = location.lines.first().expect("all live blocks have names");
        let function = &profile.functions[line.function.index()];
        let name = format!("{} {}:{}", function.name, function.file, line.line);
        *lines.entry(name).or_insert(0.0) += sample.values.inuse_bytes;
    }
    lines
}

/// Live bytes of every line, and the sum at the peak; no block is temporary but the last ones.
#[test]
#[ignore = "needs the tool that it is compared with"]
fn memray_counts_the_bytes_of_every_line() {
    let profile = recording("heaptrack.zst");
    let file = Written::profile(&profile, Format::Memray, Metric::InuseSpace, "lines");
    let [live, peak, temporary] = lines(&file);
    let at_peak = profile.column(column::PEAK_SPACE).expect("heaptrack has it");
    assert_eq!(live, expected(&profile));
    assert_eq!(peak.values().sum::<f64>(), at_peak.values.iter().sum::<f64>());
    assert!(temporary.len() <= 3, "{temporary:?}");
}

/// Stacks that mix sizes; and all reports that memray makes of a file.
#[test]
#[ignore = "needs the tool that it is compared with"]
fn memray_reports_the_sums_of_a_profile() {
    let profile = mixed();
    let file = Written::profile(&profile, Format::Memray, Metric::InuseSpace, "sums");
    let [live, peak, _] = lines(&file);
    assert_eq!(live.values().sum::<f64>(), profile.total().inuse_bytes);
    assert_eq!(peak.values().sum::<f64>(), profile.meta.peak_bytes.unwrap() as f64);
    for report in ["table", "flamegraph", "stats", "summary"] {
        let out = Written::bytes(b"", report);
        let page = ["-f", "-o", out.path()];
        let json = ["--json", "-f", "-o", out.path()];
        let options: &[&str] = match report {
            "stats" => &json,
            "summary" => &[],
            _ => &page,
        };
        run("python3", &[&["-m", "memray", report, file.path()], options].concat(), INSTALL);
        if report == "stats" {
            let stats: Value = serde_json::from_slice(&std::fs::read(&out.path).unwrap()).unwrap();
            assert_eq!(stats["total_num_allocations"].as_f64(), Some(profile.total().alloc_objects));
            assert_eq!(stats["total_bytes_allocated"].as_f64(), Some(profile.total().alloc_bytes));
            assert_eq!(stats["metadata"]["peak_memory"].as_u64(), profile.meta.peak_bytes);
        }
    }
}
