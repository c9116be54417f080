//! PNG files: the pixels as rows, each as the difference from the row above, compressed.

use std::io::{self, Write};

use flate2::{Compression, Crc, write::ZlibEncoder};
use tiny_skia::Pixmap;

const SIGNATURE: &[u8] = b"\x89PNG\r\n\x1a\n";
/// Eight bits of red, green, blue and opacity; no interlacing.
const RGBA: [u8; 5] = [8, 6, 0, 0, 0];
/// Bytes of a row are differences from the byte above.
const FILTER_UP: u8 = 2;

/// The file of a picture.
pub(super) fn encode(pixels: &Pixmap) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    head.extend(pixels.width().to_be_bytes());
    head.extend(pixels.height().to_be_bytes());
    head.extend(RGBA);
    let mut file = SIGNATURE.to_vec();
    push_chunk(&mut file, b"IHDR", &head);
    push_chunk(&mut file, b"IDAT", &packed_rows(pixels)?);
    push_chunk(&mut file, b"IEND", &[]);
    Ok(file)
}

fn packed_rows(pixels: &Pixmap) -> io::Result<Vec<u8>> {
    let width = pixels.width() as usize;
    let mut packer = ZlibEncoder::new(Vec::new(), Compression::default());
    let mut above = vec![0_u8; width * 4];
    let mut row = Vec::with_capacity(width * 4);
    for line in pixels.pixels().chunks_exact(width) {
        row.clear();
        for pixel in line {
            let color = pixel.demultiply();
            row.extend([color.red(), color.green(), color.blue(), color.alpha()]);
        }
        for (above, byte) in above.iter_mut().zip(&row) {
            *above = byte.wrapping_sub(*above);
        }
        packer.write_all(&[FILTER_UP])?;
        packer.write_all(&above)?;
        above.copy_from_slice(&row);
    }
    packer.finish()
}

/// Length, name, content, checksum of name and content.
fn push_chunk(file: &mut Vec<u8>, name: &[u8; 4], content: &[u8]) {
    let mut checksum = Crc::new();
    checksum.update(name);
    checksum.update(content);
    file.extend((content.len() as u32).to_be_bytes());
    file.extend(name);
    file.extend(content);
    file.extend(checksum.sum().to_be_bytes());
}
