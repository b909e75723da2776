//! The tool whose result file some bytes are. Pure.

use super::imported::BYTE_ORDER_MARK;
use super::{mmtests, phoronix, schedbench};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResultFile {
    Phoronix,
    Mmtests,
    /// A file of schedbench.
    Bench,
    /// Lines of `schedlab export`, as far as the first line shows.
    Lines,
    Other,
}

impl ResultFile {
    /// Recognises a file by its beginning, even if the rest is broken. `is_bench`: its name says that it is a
    /// `.bench` file.
    pub fn recognise(bytes: &[u8], is_bench: bool) -> ResultFile {
        let line = bytes.trim_ascii_start().split_inclusive(|byte| *byte == b'\n').next();
        let line = line.unwrap_or_default();
        let is_other_json = |line: &[u8]| schedbench::is_bench(line) || mmtests::is_json(line);
        match () {
            () if phoronix::is_xml(bytes) => ResultFile::Phoronix,
            () if bytes.starts_with(BYTE_ORDER_MARK) => ResultFile::Other,
            () if is_bench => ResultFile::Bench,
            () if schedbench::is_whole_object(line) && !is_other_json(line) => ResultFile::Lines,
            () if mmtests::is_json(bytes) => ResultFile::Mmtests,
            () if schedbench::is_bench(bytes) => ResultFile::Bench,
            () => ResultFile::Other,
        }
    }
}
