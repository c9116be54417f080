//! The heapwise executable; everything is in the library beside it, which tests and fuzzers share.

use std::process::ExitCode;

fn main() -> ExitCode {
    heapwise::main()
}
