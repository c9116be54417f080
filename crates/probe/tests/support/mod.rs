//! One segment for all tests of a process.

use std::sync::Once;

use heapwise_probe::workbench;

/// Makes the segment, in memory of this process only.
pub(crate) fn start() {
    static START: Once = Once::new();
    START.call_once(|| {
        // SAFETY: nobody else reads or writes the environment before the tests begin to.
        #[allow(unsafe_code)]
        unsafe {
            std::env::set_var("HEAPWISE_DIR", "/dev/null/none");
        }
        assert!(workbench::start());
    });
}
