//! Models of the lock-free parts: loom runs each through every schedule of its threads with at most two switches
//! that nobody asked for (`LOOM_MAX_PREEMPTIONS`), and every value that a load may see on a weakly ordered machine. The code is the probe's own
//! (see [`crate::atomics`]).
//!
//! `cargo xtask loom` runs them. Each says which ordering it depends on: with that one weakened, it fails.

mod tables;
