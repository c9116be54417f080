//! Sampled dumps in usable bytes, which allocators count, against the program's own account and
//! jemalloc's dumps.

use std::collections::BTreeMap;

use crate::harness::{Scratch, victims, witness};

/// Live bytes of `w_malloc` in the last dump of `sampled_slack`, by heapwise's jeprof, and what the
/// program counted.
fn sampled_usable(scratch: &Scratch, preload: &str, conf: &str, least: u64) -> (f64, BTreeMap<String, i64>) {
    let mut command = scratch.command(victims().join("sampled_slack"));
    command.args([&least.to_string(), "300000"]).env("LD_PRELOAD", preload).env("HEAPWISE_CONF", conf);
    let output = command.env("MALLOC_CONF", conf).output().expect("victim starts");
    let counted = witness(&output);
    let dump = scratch.path(&format!("jeprof.{}.0.f.heap", counted["pid"]));
    let top = scratch.json_of(&["top", "--json", "--focus", "^w_malloc$", dump.to_str().expect("UTF-8")]);
    (top["total"].as_f64().expect("a total"), counted)
}

/// Eight times the standard error of 16 000 samples.
const MOST_ERROR: f64 = 0.065;

/// Sampled dumps estimate usable bytes where they are wanted, and requested ones otherwise.
#[test]
fn sampled_dumps_estimate_usable_bytes() {
    let scratch = Scratch::new();
    let library = scratch.output_of(&["preload"]);
    for (usable, what) in [("true", "usable.bytes"), ("false", "inuse_bytes")] {
        let conf = format!("prof:true,lg_prof_sample:9,prof_final:true,usable:{usable}");
        let (estimate, counted) = sampled_usable(&scratch, library.trim(), &conf, 25);
        let own = counted[what] as f64;
        assert!((estimate / own - 1.0).abs() < MOST_ERROR, "{what}: {estimate} of {own}: {counted:?}");
    }
}

/// Over jemalloc they estimate what jemalloc's own sampled dumps do.
#[test]
#[ignore = "needs jeprof and libjemalloc"]
fn sampled_dumps_over_jemalloc_estimate_what_jemallocs_do() {
    let scratch = Scratch::new();
    let library = scratch.output_of(&["preload"]);
    let both = format!("{} libjemalloc.so.2", library.trim());
    let conf = "prof:true,lg_prof_sample:9,prof_final:true";
    for preload in ["libjemalloc.so.2", &both] {
        let (estimate, counted) = sampled_usable(&scratch, preload, conf, 33);
        let own = counted["usable.bytes"] as f64;
        assert!(own > 1.3 * counted["inuse_bytes"] as f64, "{counted:?}");
        assert!((estimate / own - 1.0).abs() < MOST_ERROR, "{preload}: {estimate} of {own}: {counted:?}");
    }
}
