//! Views in, bytes out: text, JSON, pictures. No IO; the caller writes what it gets.
#![forbid(unsafe_code)]

pub mod amount;
mod color;
pub mod coverage;
mod drawing;
pub mod export;
pub mod findings;
pub mod flame;
pub mod font;
pub mod graph;
pub mod json;
pub mod language;
pub mod layout;
pub mod messages;
mod pdf;
pub mod raster;
mod svg;
pub mod text;
pub mod timeline;

pub use amount::Amounts;
pub use export::{Format, export};
pub use graph::GraphOptions;
pub use language::Language;
pub use messages::Text;
pub use text::TextOptions;
