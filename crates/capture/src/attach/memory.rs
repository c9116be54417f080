//! The memory of another process, through `/proc/PID/mem`: read-only pages can be written too.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;

/// Memory of a process.
#[derive(Debug)]
pub(crate) struct ProcessMemory {
    file: File,
}

impl ProcessMemory {
    /// Opens it; the caller may trace the process, or this fails.
    pub(crate) fn open(pid: u32) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(format!("/proc/{pid}/mem"))?;
        Ok(Self { file })
    }

    pub(crate) fn read(&self, address: u64, len: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; len];
        self.file.read_exact_at(&mut bytes, address)?;
        Ok(bytes)
    }

    pub(crate) fn read_word(&self, address: u64) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.file.read_exact_at(&mut bytes, address)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// The first four bytes of an instruction.
    pub(crate) fn read_instruction(&self, address: u64) -> Option<u32> {
        Some(u32::from_le_bytes(self.read(address, 4).ok()?.try_into().ok()?))
    }

    pub(crate) fn write(&self, address: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, address)
    }

    pub(crate) fn write_word(&self, address: u64, word: u64) -> io::Result<()> {
        self.write(address, &word.to_le_bytes())
    }
}
