//! The output of programs. It is read all the time, so that no writer ever waits; only its end is kept.

use std::io::{self, PipeReader, PipeWriter, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use super::lock;
use super::thread;

/// The size of the pipe: a large one wakes a busy writer less often. The kernel's own limit for anybody.
const PIPE_BYTES: libc::c_int = 1 << 20;
/// How long a call waits for data that are in the pipe.
const PATIENCE: Duration = Duration::from_secs(1);

/// A pipe and the end of its data.
pub struct Output {
    reader: PipeReader,
    writer: PipeWriter,
    kept: Mutex<Kept>,
    /// How much of the end is kept.
    max_kept: usize,
}

#[derive(Default)]
struct Kept {
    bytes: Vec<u8>,
    /// Something before them was forgotten.
    is_cut: bool,
}

impl Kept {
    fn add(&mut self, chunk: &[u8], max: usize) {
        self.bytes.extend_from_slice(chunk);
        if self.bytes.len() > 2 * max {
            self.bytes.drain(..self.bytes.len() - max);
            self.is_cut = true;
        }
    }

    /// The last `max` bytes from the beginning of a line on.
    fn end(&self, max: usize) -> &[u8] {
        let excess = self.bytes.len().saturating_sub(max);
        let end = &self.bytes[excess..];
        let is_cut = self.is_cut || excess > 0;
        let line = end.iter().position(|byte| *byte == b'\n').filter(|_| is_cut);
        line.map_or(end, |line| &end[line + 1..])
    }
}

impl Output {
    pub fn new(max_kept: usize) -> io::Result<Output> {
        let (reader, writer) = io::pipe()?;
        // SAFETY: the descriptor is open. If the limit is lower, the pipe stays as it is.
        unsafe { libc::fcntl(writer.as_raw_fd(), libc::F_SETPIPE_SZ, PIPE_BYTES) };
        Ok(Output { reader, writer, kept: Mutex::default(), max_kept })
    }

    /// Reads from now on, in a thread of its own, until this process ends.
    pub fn serve(self: &Arc<Self>) -> io::Result<()> {
        let output = Arc::clone(self);
        let read = move || {
            thread::serve_promptly();
            let mut chunk = vec![0; 1 << 16];
            while output.read(&mut chunk).is_ok() {}
        };
        std::thread::Builder::new().name("output".to_string()).spawn(read).map(|_| ())
    }

    /// Waits for more. Whoever holds the lock has everything that left the pipe.
    fn read(&self, chunk: &mut [u8]) -> io::Result<()> {
        self.wait(-1);
        let mut kept = lock(&self.kept);
        let count = (&self.reader).read(chunk)?;
        kept.add(&chunk[..count], self.max_kept);
        Ok(())
    }

    /// Whether there is something to read, at most `patience_ms` later.
    fn wait(&self, patience_ms: i32) -> bool {
        let mut poll =
            libc::pollfd { fd: self.reader.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one valid entry.
        unsafe { libc::poll(&mut poll, 1, patience_ms) > 0 }
    }

    /// Removes all output so far from [`Output::end`].
    pub fn forget(&self) {
        *self.all() = Kept::default();
    }

    /// The end of all that was written before the call.
    pub fn end(&self) -> String {
        String::from_utf8_lossy(self.all().end(self.max_kept)).into_owned()
    }

    /// All output up to now, once there is nothing left in the pipe.
    fn all(&self) -> MutexGuard<'_, Kept> {
        let deadline = std::time::Instant::now() + PATIENCE;
        loop {
            let kept = lock(&self.kept);
            if !self.wait(0) || std::time::Instant::now() > deadline {
                return kept;
            }
            drop(kept);
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl AsFd for Output {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.writer.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn the_end_of_much_output_is_kept_and_nobody_waits() {
        let output = Arc::new(Output::new(4096).unwrap());
        output.serve().unwrap();
        let lines: String = (0..200_000).map(|line| format!("line {line}\n")).collect();
        (&output.writer).write_all(lines.as_bytes()).unwrap();
        (&output.writer).write_all(b"\xff and last\n").unwrap();
        let end = output.end();
        assert!(end.ends_with("line 199999\n\u{fffd} and last\n"), "{end}");
        assert!(end.len() <= 4096 + 2 && end.len() > 4000, "{}", end.len());
        assert!(end.starts_with("line "), "from the beginning of a line: {end}");
        output.forget();
        assert_eq!(output.end(), "");
    }
}
