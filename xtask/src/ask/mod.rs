//! Commands that only read.
