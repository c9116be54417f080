//! The objects of a PDF file and its table of offsets.

use std::fmt::Write as _;
use std::io::Write as _;

use flate2::Compression;
use flate2::write::ZlibEncoder;

/// A file under construction. Objects are numbered from 1 in the order they are added.
#[derive(Default)]
pub(super) struct Document {
    objects: Vec<Vec<u8>>,
}

impl Document {
    /// Adds an object; its number.
    pub(super) fn add(&mut self, object: impl Into<Vec<u8>>) -> usize {
        self.objects.push(object.into());
        self.objects.len()
    }

    /// Adds a compressed stream; its number.
    pub(super) fn add_stream(&mut self, content: &[u8]) -> usize {
        let mut packer = ZlibEncoder::new(Vec::new(), Compression::default());
        let packed = packer.write_all(content).and_then(|()| packer.finish()).unwrap_or_default();
        let mut object = format!("<</Filter/FlateDecode/Length {}>>stream\n", packed.len()).into_bytes();
        object.extend(packed);
        object.extend(b"\nendstream");
        self.add(object)
    }

    /// The file: one page of `size` with `content`; `fonts` are named F0, F1, …, states of
    /// `opacities` G0, G1, ….
    pub(super) fn finish(
        mut self,
        size: [f32; 2],
        content: &str,
        fonts: &[usize],
        opacities: &[u16],
    ) -> Vec<u8> {
        let content = self.add_stream(content.as_bytes());
        let mut resources = String::from("/Font<<");
        for (number, font) in fonts.iter().enumerate() {
            let _ = write!(resources, "/F{number} {font} 0 R");
        }
        resources.push_str(">>/ExtGState<<");
        for (number, thousandths) in opacities.iter().enumerate() {
            let opacity = f32::from(*thousandths) / 1000.0;
            let _ = write!(resources, "/G{number}<</ca {opacity}/CA {opacity}>>");
        }
        resources.push_str(">>");
        let pages = self.objects.len() + 2;
        let [width, height] = size;
        let page = self.add(format!(
            "<</Type/Page/Parent {pages} 0 R/MediaBox[0 0 {width} {height}]/Contents {content} 0 R/Resources<<{resources}>>>>"
        ));
        self.add(format!("<</Type/Pages/Count 1/Kids[{page} 0 R]>>"));
        let catalog = self.add(format!("<</Type/Catalog/Pages {pages} 0 R>>"));
        self.bytes(catalog)
    }

    fn bytes(self, catalog: usize) -> Vec<u8> {
        let mut file = b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n".to_vec();
        let mut offsets = Vec::new();
        for (index, object) in self.objects.iter().enumerate() {
            offsets.push(file.len());
            file.extend(format!("{} 0 obj\n", index + 1).into_bytes());
            file.extend(object);
            file.extend(b"\nendobj\n");
        }
        let table = file.len();
        let count = offsets.len() + 1;
        let mut end = format!("xref\n0 {count}\n0000000000 65535 f \n");
        for offset in offsets {
            let _ = writeln!(end, "{offset:010} 00000 n ");
        }
        let _ = write!(end, "trailer\n<</Size {count}/Root {catalog} 0 R>>\nstartxref\n{table}\n%%EOF\n");
        file.extend(end.into_bytes());
        file
    }
}
