//! heapwise-render
