//! Without the probe every call does nothing. With it: the end-to-end tests of the executable.

use heapwise_client as heapwise;

#[test]
fn nothing_happens_without_the_probe() {
    assert!(!heapwise::is_present(), "run without LD_PRELOAD");
    heapwise::start(heapwise::Recording::Exact);
    let label = heapwise::label("nobody sees\0it");
    heapwise::mark("now");
    heapwise::reset();
    let path = std::env::temp_dir().join(format!("heapwise-absent-{}.heap", std::process::id()));
    heapwise::dump(&path).expect("no error without the probe");
    assert!(!path.exists());
    drop(label);
    assert_eq!(heapwise::snapshot(), None);
    heapwise::stop();
}
