//! The write-ahead log: what was received and is not yet in segments.
//!
//! A log is a sequence of numbered files. A file is a sequence of records: length, CRC-32, bytes.
//! A record is synced before its receipt is acknowledged. A torn record can only be the last one of
//! a file: its sender got no acknowledgment and sends it again.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use heapwise_capture::failure::{Failure, Outcome};

/// Bytes before each record: its length and its checksum.
const HEAD_BYTES: usize = 8;

/// The log of a server.
#[derive(Debug)]
pub struct Log {
    directory: PathBuf,
    /// Number of the file that is written.
    number: u64,
    file: File,
    /// Length of its whole records.
    length: u64,
}

impl Log {
    /// Opens the log in a directory. Records of files after `flushed` go to `replay`, the others
    /// are deleted; writing starts with a new file.
    pub fn open(directory: &Path, flushed: u64, mut replay: impl FnMut(&[u8]) -> Outcome) -> Outcome<Self> {
        fs::create_dir_all(directory).map_err(|why| Failure::file(directory, why))?;
        let mut last = flushed;
        for number in numbers(directory)? {
            let path = path_of(directory, number);
            if number > flushed {
                last = last.max(number);
                for record in records(&path).map_err(|why| Failure::file(&path, why))? {
                    replay(&record)?;
                }
            } else {
                fs::remove_file(&path).map_err(|why| Failure::file(&path, why))?;
            }
        }
        let number = last + 1;
        let file = create(directory, number)?;
        Ok(Self { directory: directory.to_owned(), number, file, length: 0 })
    }

    /// Appends a record and waits until the disk has it. A record that cannot be written whole is
    /// removed again.
    pub fn append(&mut self, record: &[u8]) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(HEAD_BYTES + record.len());
        let length = u32::try_from(record.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        bytes.extend(length.to_le_bytes());
        bytes.extend(crc32fast::hash(record).to_le_bytes());
        bytes.extend(record);
        let written = self.file.write_all(&bytes).and_then(|()| self.file.sync_data());
        match written {
            Ok(()) => self.length += bytes.len() as u64,
            Err(_) => self.file.set_len(self.length)?,
        }
        written
    }

    /// Starts a new file; the number of the one before it.
    pub fn rotate(&mut self) -> Outcome<u64> {
        self.file = create(&self.directory, self.number + 1)?;
        self.length = 0;
        self.number += 1;
        Ok(self.number - 1)
    }

    /// Deletes the files up to a number: their records are in segments.
    pub fn delete_through(directory: &Path, flushed: u64) -> Outcome {
        for number in numbers(directory)?.into_iter().filter(|number| *number <= flushed) {
            let path = path_of(directory, number);
            fs::remove_file(&path).map_err(|why| Failure::file(&path, why))?;
        }
        Ok(())
    }
}

fn path_of(directory: &Path, number: u64) -> PathBuf {
    directory.join(format!("{number:012}.log"))
}

fn create(directory: &Path, number: u64) -> Outcome<File> {
    let path = path_of(directory, number);
    let file = OpenOptions::new().create(true).append(true).open(&path);
    let file = file.map_err(|why| Failure::file(&path, why))?;
    // The entry in the directory has to last as long as the acknowledgments of the file's records.
    File::open(directory).and_then(|file| file.sync_all()).map_err(|why| Failure::file(directory, why))?;
    Ok(file)
}

/// The numbers of the files, in order.
fn numbers(directory: &Path) -> Outcome<Vec<u64>> {
    let entries = fs::read_dir(directory).map_err(|why| Failure::file(directory, why))?;
    let number = |name: &str| name.strip_suffix(".log").and_then(|name| name.parse().ok());
    let mut numbers: Vec<u64> =
        entries.flatten().filter_map(|entry| number(&entry.file_name().to_string_lossy())).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// The whole records of a file.
fn records(path: &Path) -> io::Result<Vec<Vec<u8>>> {
    let mut bytes = Vec::new();
    File::open(path)?.read_to_end(&mut bytes)?;
    let mut records = Vec::new();
    let mut rest = bytes.as_slice();
    while let Some((record, next)) = split_record(rest) {
        records.push(record.to_vec());
        rest = next;
    }
    Ok(records)
}

fn split_record(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let (checksum, rest) = rest.split_first_chunk::<4>()?;
    let (record, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    (crc32fast::hash(record) == u32::from_le_bytes(*checksum)).then_some((record, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    fn replayed(directory: &Path, flushed: u64) -> Vec<Vec<u8>> {
        let mut records = Vec::new();
        Log::open(directory, flushed, |record| {
            records.push(record.to_vec());
            Ok(())
        })
        .unwrap();
        records
    }

    #[test]
    fn records_come_back_in_order_until_they_are_in_segments() {
        let scratch = Scratch::new("log-order");
        let mut log = Log::open(scratch.path(), 0, |_| Ok(())).unwrap();
        log.append(b"one").unwrap();
        log.append(b"").unwrap();
        let flushed = log.rotate().unwrap();
        log.append(b"three").unwrap();
        drop(log);
        assert_eq!(replayed(scratch.path(), 0), [b"one".to_vec(), vec![], b"three".to_vec()]);
        assert_eq!(replayed(scratch.path(), flushed), [b"three".to_vec()]);
        assert_eq!(replayed(scratch.path(), 0), [b"three".to_vec()]);
    }

    #[test]
    fn a_log_cut_at_any_byte_keeps_its_whole_records() {
        let scratch = Scratch::new("log-cut");
        let mut log = Log::open(scratch.path(), 0, |_| Ok(())).unwrap();
        log.append(b"first").unwrap();
        log.append(b"second").unwrap();
        let path = path_of(scratch.path(), 1);
        let bytes = fs::read(&path).unwrap();
        for length in 0..=bytes.len() {
            fs::write(&path, &bytes[..length]).unwrap();
            let whole = match length {
                0..13 => 0,
                13..27 => 1,
                _ => 2,
            };
            assert_eq!(records(&path).unwrap().len(), whole, "{length}");
        }
    }
}
