//! Valgrind's dh_view as witness of the DHAT form: its own script, run by node on a page of stubs.

use heapwise_profile::Metric;
use heapwise_render::export::Format;

use crate::specimen::{recording, rich};
use crate::tool::{Written, run};

const VIEWERS: [&str; 2] = ["/usr/libexec/valgrind/dh_view.js", "/usr/lib/valgrind/dh_view.js"];

fn view(file: &Written) -> String {
    let viewer = VIEWERS.iter().find(|path| std::path::Path::new(path).exists());
    let viewer = viewer.expect("dh_view.js is missing; install it with `apt-get install valgrind`");
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/witness/dh_view_page.cjs");
    run("node", &[page, viewer, file.path()], "apt-get install nodejs").stdout
}

#[test]
#[ignore = "needs the tool that it is compared with"]
fn the_viewer_shows_totals_and_frames() {
    let profile = recording("heaptrack.zst");
    let file = Written::profile(&profile, Format::Dhat, Metric::InuseSpace, "viewed");
    let page = view(&file);
    // fixture.c: leaf_b allocates 50 blocks of 1000 B and keeps 20, of 174 and 143 in all.
    for part in [
        "Total:     50,000 bytes (1.56%",
        "in 50 blocks (28.74%",
        "At t-end:  20,000 bytes (0.64%) in 20 blocks (13.99%), avg size 1,000 bytes",
        "leaf_b (/tmp/heapwise-fixture/fixture.c:11)",
    ] {
        assert!(page.contains(part), "no {part:?} in\n{page}");
    }
}

#[test]
#[ignore = "needs the tool that it is compared with"]
fn a_sampled_profile_is_viewed_too() {
    let profile = rich();
    let file = Written::profile(&profile, Format::Dhat, Metric::InuseSpace, "sampled");
    let page = view(&file);
    assert!(page.contains("grow(unsigned long) (src/pool.cc:8)"), "{page}");
    assert!(page.contains("libx.so+0x13FF") || page.contains("libx.so+0x13ff"), "{page}");
}
