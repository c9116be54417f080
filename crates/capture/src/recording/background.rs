//! A recording file that a thread beside packs and writes: when the log is full, the recorder is
//! what the program waits for, and a processor is free.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use heapwise_profile::recording::RawFrame;

use super::writer::Writer;

/// Frames that may wait: they are of a few megabytes at most.
const MOST_WAITING: usize = 4;

/// A file and the thread that writes it.
#[derive(Debug)]
pub struct Background {
    /// `None` after an error, or at the end.
    jobs: Option<SyncSender<Job>>,
    thread: Option<JoinHandle<io::Result<Writer>>>,
}

/// What the thread does.
#[derive(Debug)]
enum Job {
    Write(RawFrame),
    /// Answers when everything before is written.
    Answer(SyncSender<()>),
}

impl Background {
    /// Creates the file.
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        let writer = Writer::create(path)?;
        let (jobs, received) = sync_channel(MOST_WAITING);
        let thread = std::thread::Builder::new().name("hw-write".into());
        let thread = thread.spawn(move || work(writer, &received))?;
        Ok(Self { jobs: Some(jobs), thread: Some(thread) })
    }

    /// Takes a frame. An error may be that of a frame before.
    pub(super) fn put(&mut self, frame: RawFrame) -> io::Result<()> {
        self.send(Job::Write(frame))
    }

    /// Waits until all frames are written.
    pub(super) fn wait(&mut self) -> io::Result<()> {
        let (answer, answered) = sync_channel(1);
        self.send(Job::Answer(answer))?;
        match answered.recv() {
            Ok(()) => Ok(()),
            Err(_) => self.join().map(drop),
        }
    }

    /// Ends the file.
    pub(super) fn end(mut self) -> io::Result<PathBuf> {
        self.join()?.end()
    }

    fn send(&mut self, job: Job) -> io::Result<()> {
        match self.jobs.as_ref().is_some_and(|jobs| jobs.send(job).is_ok()) {
            true => Ok(()),
            // The thread goes on as long as it can be sent to, except after an error.
            false => self.join().map(drop),
        }
    }

    /// Ends the thread; its error, if it had one.
    fn join(&mut self) -> io::Result<Writer> {
        self.jobs = None;
        let ended = self.thread.take().and_then(|thread| thread.join().ok());
        ended.unwrap_or_else(|| Err(io::Error::other("the recording's writer has ended")))
    }
}

fn work(mut writer: Writer, jobs: &Receiver<Job>) -> io::Result<Writer> {
    for job in jobs {
        match job {
            Job::Write(frame) => writer.put(&frame)?,
            Job::Answer(answer) => _ = answer.send(()),
        }
    }
    Ok(writer)
}
