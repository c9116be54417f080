//! The heapwise executable.
fn main() {}
