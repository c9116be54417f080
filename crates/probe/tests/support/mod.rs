//! A workbench for each test.

use std::sync::Once;

use heapwise_probe::workbench::Workbench;

/// Makes a workbench, with a segment in memory of this process only.
pub(crate) fn start() -> Workbench {
    static VARIABLE: Once = Once::new();
    VARIABLE.call_once(|| {
        // SAFETY: nobody else reads or writes the environment before the tests begin to.
        #[allow(unsafe_code)]
        unsafe {
            std::env::set_var("HEAPWISE_DIR", "/dev/null/none");
        }
    });
    Workbench::start().expect("memory for a segment")
}
