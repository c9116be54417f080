//! heapwise-profile
