//! Traces of the scheduler that other tools recorded: text, and Perfetto's files.
//!
//! Input: the bytes of the file. Output: its switches and wakeups with the tasks, or what is wrong and where. Pure.

mod perfetto;
mod seen;
mod text;

use super::CompatError;

pub use seen::ForeignTrace;

pub const MAX_BYTES: u64 = 256 << 20;
/// Bytes that show whether a file is text.
const HEAD_BYTES: usize = 4_096;
const GZIP: &[u8] = &[0x1f, 0x8b];

pub fn read(bytes: &[u8]) -> Result<ForeignTrace, CompatError> {
    if bytes.starts_with(GZIP) {
        return Err(CompatError::usage(
            "the file is packed with gzip",
            "unpack it first: gzip -dk FILE",
        ));
    }
    if bytes.iter().take(HEAD_BYTES).any(|byte| *byte == 0) {
        perfetto::read(bytes)
    } else {
        text::read(bytes)
    }
}

#[cfg(test)]
mod tests;
