//! Views in, bytes out: text, JSON, pictures. No IO; the caller writes what it gets.
#![forbid(unsafe_code)]

pub mod amount;
pub mod export;
pub mod json;
pub mod text;

pub use amount::Amounts;
pub use export::{Format, export};
pub use text::TextOptions;
