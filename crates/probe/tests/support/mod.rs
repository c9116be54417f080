//! A probe for each test.

use std::sync::Once;

use heapwise_probe::test_api::TestProbe;

/// Makes a probe, with a segment in memory of this process only.
pub(crate) fn start() -> TestProbe {
    static VARIABLE: Once = Once::new();
    VARIABLE.call_once(|| {
        // SAFETY: nobody else reads or writes the environment before the tests begin to.
        #[allow(unsafe_code)]
        unsafe {
            std::env::set_var("HEAPWISE_DIR", "/dev/null/none");
        }
    });
    TestProbe::start().expect("memory for a segment")
}
