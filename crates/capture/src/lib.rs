//! Programs and what they leave: launching them with the probe, finding those that carry it,
//! controlling and recording them, and loading profiles from processes, files and recordings.
//!
//! Reading order: [`segments`] (processes with the probe), [`control`], [`launch`], [`drain`] (the
//! log of a process), [`recording`] (files), [`target`] (profiles named by the user),
//! [`report_input`] (input of a report).

pub mod allocator;
pub mod allocators;
pub mod attach;
mod carriers;
pub mod child_recorder;
pub mod clock;
pub mod control;
pub mod drain;
pub mod failure;
mod file_writers;
mod foreign_segment;
mod forward;
pub mod launch;
pub mod lease;
pub mod ledger;
mod mapped_segment;
pub mod mark;
pub mod own_files;
pub mod peak_ledger;
mod positioned_read;
pub mod preload;
pub mod process;
mod process_files;
pub mod process_tree;
pub mod program_end;
pub mod recorder_thread;
pub mod recording;
pub mod report_input;
mod segment_directories;
mod segment_entry;
mod segment_file;
pub mod segment_lock;
pub mod segments;
pub mod stale_segments;
pub mod statistics;
pub mod stopped;
pub mod suitability;
pub mod target;
pub mod window;
