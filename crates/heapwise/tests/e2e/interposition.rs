//! The functions that the probe puts itself in front of: each caller gets what it would have had
//! without the probe.

use std::process::Output;

use crate::harness::{Scratch, victims, witness};

/// Runs a victim with nothing but the probe.
fn run_with_probe(scratch: &Scratch, options: &str, victim: &str, arguments: &[&str]) -> Output {
    let library = scratch.output_of(&["preload"]);
    let mut command = scratch.command(victims().join(victim));
    command.args(arguments).env("LD_PRELOAD", library.trim()).env("HEAPWISE_CONF", options);
    command.output().expect("the victim starts")
}

/// A plugin's `operator new` serves that plugin alone, and is not called once the plugin is
/// unloaded.
#[test]
fn plugins_keep_their_own_operators() {
    let scratch = Scratch::new();
    for how in ["keep", "close"] {
        let alone = scratch.command(victims().join("plugin_operators")).arg(how).output().expect("starts");
        for mode in ["mode:off", "mode:sampled,rate:1K", "mode:exact", "mode:log"] {
            let output = run_with_probe(&scratch, mode, "plugin_operators", &[how]);
            assert!(output.status.success(), "{how} {mode}: {}", output.status);
            assert_eq!(witness(&output), witness(&alone), "{how} {mode}");
        }
    }
}

/// Blocks of both plugins are counted, once each.
#[test]
fn operators_of_plugins_are_counted() {
    let scratch = Scratch::new();
    for how in ["keep", "close"] {
        let capture = scratch.capture(&["--exact"], "plugin_operators", &[how]);
        assert!(capture.output.status.success(), "{}", capture.stderr());
        for (metric, name) in [("alloc_objects", "alloc_objects"), ("inuse_space", "inuse_bytes")] {
            assert_eq!(capture.total(metric), capture.witness[name], "{how} {metric}");
        }
    }
}

/// `mallctl` looks for functions while another thread loads and unloads plugins.
#[test]
fn lookups_beside_a_thread_that_unloads_plugins() {
    let scratch = Scratch::new();
    for options in ["mode:off", "prof:true"] {
        let output = run_with_probe(&scratch, options, "mallctl_beside_dlopen", &["2000"]);
        assert!(output.status.success(), "{options}: {}", output.status);
        assert_eq!(witness(&output)["rounds"], 2000, "{options}");
    }
}
