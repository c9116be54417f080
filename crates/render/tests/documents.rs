//! The documents that other programs take apart: speedscope, Firefox Profiler, JSON and CSV.

mod specimen;

use heapwise_profile::{CallTree, Metric, Profile, Query, view};
use heapwise_render::export::{Format, export};
use serde_json::Value;
use specimen::{mixed, recording, rich};

fn written(profile: &Profile, format: Format, metric: Metric) -> String {
    let mut bytes = Vec::new();
    export(profile, format, metric, &mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

fn json(profile: &Profile, format: Format, metric: Metric) -> Value {
    serde_json::from_str(&written(profile, format, metric)).unwrap()
}

fn sum(numbers: &Value) -> f64 {
    numbers.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).sum()
}

fn assert_near(one: f64, other: f64, profile: &Profile) {
    assert!((one - other).abs() <= profile.samples.len() as f64, "{one} and {other}");
}

#[test]
fn speedscope_has_a_profile_per_metric_over_shared_frames() {
    let profile = rich();
    let file = json(&profile, Format::Speedscope, Metric::InuseSpace);
    assert_eq!(file["$schema"], "https://www.speedscope.app/file-format-schema.json");
    let frames = file["shared"]["frames"].as_array().unwrap();
    for (index, metric) in
        [Metric::InuseSpace, Metric::InuseObjects, Metric::AllocSpace, Metric::AllocObjects]
            .into_iter()
            .enumerate()
    {
        let one = &file["profiles"][index];
        assert_eq!((&one["type"], &one["name"]), (&"sampled".into(), &metric.name().into()));
        assert_near(sum(&one["weights"]), profile.total().get(metric), &profile);
        assert_eq!(one["endValue"].as_f64().unwrap(), sum(&one["weights"]));
        let samples = one["samples"].as_array().unwrap();
        assert_eq!(samples.len(), one["weights"].as_array().unwrap().len());
        let root = samples[0][0].as_u64().unwrap() as usize;
        assert_eq!(frames[root]["name"], "main");
        assert_eq!(frames[root]["line"], 12);
    }
}

#[test]
fn firefox_weighs_samples_by_bytes() {
    let profile = rich();
    let file = json(&profile, Format::Firefox, Metric::AllocSpace);
    let thread = &file["threads"][0];
    assert_eq!(thread["name"], "alloc_space");
    let samples = &thread["samples"];
    assert_eq!(samples["weightType"], "bytes");
    assert_near(sum(&samples["weight"]), profile.total().alloc_bytes, &profile);
    let strings = file["shared"]["stringArray"].as_array().or(thread["stringArray"].as_array()).unwrap();
    assert!(strings.iter().any(|name| name == "grow(unsigned long)"));
}

#[test]
fn json_says_everything_in_integers() {
    let profile = rich();
    let file = json(&profile, Format::Json, Metric::InuseSpace);
    assert_eq!((&file["format"], &file["version"]), (&"heapwise".into(), &2.into()));
    assert_eq!((&file["sampling_bytes"], &file["lost"]["dropped_events"]), (&524_288.into(), &3.into()));
    let samples = file["samples"].as_array().unwrap();
    let total: i64 = samples.iter().map(|sample| sample["inuse_bytes"].as_i64().unwrap()).sum();
    assert_near(total as f64, profile.total().inuse_bytes, &profile);
    let pool = &samples[3];
    let names: Vec<&str> = pool["stack"]
        .as_array()
        .unwrap()
        .iter()
        .map(|index| file["frames"][index.as_u64().unwrap() as usize]["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["main", "handle request", "grow(unsigned long)"]);
    assert!(pool["peak_space"].is_i64() && pool["inuse_bytes_error"].as_i64().unwrap() > 0);
    assert_eq!(file["modules"][0]["build_id"], "01".repeat(20));
}

#[test]
fn json_says_what_is_missing_and_how_large_blocks_are() {
    let file = json(&mixed(), Format::Json, Metric::InuseSpace);
    assert_eq!(file["lost"]["untracked_bytes"], 333);
    assert_eq!(file["unattributed"]["stacks"]["inuse_bytes"], 20);
    assert_eq!(file["unattributed"]["labels"]["inuse_bytes"], 0);
    assert_eq!(
        (&file["samples"][0]["min_bytes"], &file["samples"][0]["max_bytes"]),
        (&16.into(), &300.into())
    );
    assert_eq!(
        (&file["samples"][0]["block_bytes"], &file["samples"][1]["block_bytes"]),
        (&Value::Null, &64.into())
    );
    assert_eq!((&file["sizes"][2]["min"], &file["sizes"][2]["inuse_bytes"]), (&288.into(), &300.into()));
}

#[test]
fn views_say_what_is_missing_in_json() {
    let (profile, query) = (mixed(), Query { usable: true, ..Query::default() });
    let tree = CallTree::new(&profile, &query);
    let top = heapwise_render::json::top(&view::top::top(&tree, &query));
    assert_eq!((&top["total"], &top["usable"]), (&790.into(), &true.into()));
    assert_eq!(top["unattributed"], serde_json::json!({ "stacks": 24, "sites": 0, "labels": 0 }));
    assert_eq!(top["untracked"], serde_json::json!({ "blocks": 3, "bytes": 333 }));
    let query = Query::default();
    let sizes = view::sizes::sizes(&profile, &CallTree::new(&profile, &query), &query);
    let sizes = heapwise_render::json::sizes(&sizes);
    assert_eq!((&sizes["source"], sizes["fine"].as_array().unwrap().len()), (&"process".into(), 3));
    let largest = &sizes["largest"][0];
    assert_eq!((&largest["name"], &largest["min_bytes"]), (&"f".into(), &16.into()));
    assert_eq!((&largest["mean_bytes"], &largest["max_bytes"]), (&133.into(), &300.into()));
}

#[test]
fn csv_has_a_row_per_measurement() {
    let profile = rich();
    let text = written(&profile, Format::Csv, Metric::InuseSpace);
    let lines: Vec<&str> = text.split_terminator("\r\n").collect();
    assert_eq!(lines.len(), 1 + profile.samples.len());
    assert!(lines[0].starts_with("stack,thread,block_bytes,min_bytes,max_bytes,alloc_objects,"));
    let row = "\"main;std::map<int, std::string>::operator[](int const&)\",4711 server,64,64,64,24578,1572960,16385,1048640";
    assert!(lines[1].starts_with(row), "{}", lines[1]);
}

#[test]
fn folded_adds_equal_stacks_and_parts_frames() {
    let mut profile = recording("heaptrack.zst");
    for function in &mut profile.functions {
        function.name = function.name.replace("leaf_", "leaf;");
    }
    let text = written(&profile, Format::Folded, Metric::InuseObjects);
    assert!(text.contains(";main;middle;leaf:a 100\n"), "{text}");
    assert!(text.contains(";start_thread;worker 20\n"), "{text}");
    assert_eq!(text.lines().count(), 5);
}
