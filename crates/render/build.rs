//! Compresses the font of the pictures, for `include_bytes!`: 0.4 instead of 0.8 MB.

use std::env;
use std::fs;
use std::io::Write;
use std::path::PathBuf;

use flate2::Compression;
use flate2::write::ZlibEncoder;

/// Writes `font.zlib` into `OUT_DIR`.
fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("set by cargo"));
    let file = fs::File::create(out.join("font.zlib")).expect("OUT_DIR is writable");
    let mut encoder = ZlibEncoder::new(file, Compression::best());
    encoder.write_all(dejavu::sans::regular()).and_then(|()| encoder.finish()).expect("OUT_DIR has space");
}
