//! heapwise-symbolize
