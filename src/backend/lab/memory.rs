//! Takes a guest's memory out of the state of its machine: a QEMU that begins in this state maps the memory, and reads
//! the pages that its guest touches.
//!
//! Input: the stream of QEMU's `migrate`, and the parts of the memory. Output: a file with the memory, in which pages of
//! zeros are holes, and the stream without these pages. A stream of another form than the one that is known here is an
//! error: QEMU reads it whole.
//!
//! Source of the form: QEMU's documentation of migration, and streams of QEMU 10.0.2.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Cursor, ErrorKind, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::sys::input;

const PAGE_BYTES: usize = 4096;
const BUFFER_BYTES: usize = 1 << 20;
/// The stream has the section of the memory near its beginning.
const MAX_HEAD_BYTES: u64 = 1 << 16;
/// The name of the section, its instance and its version.
const SECTION: &[u8] = b"\x03ram\0\0\0\0\0\0\0\x04";
const SECTION_START: u8 = 1;
const SECTION_PART: u8 = 2;
const SECTION_END: u8 = 3;
const SECTION_FOOTER: u8 = 0x7e;
const COMMAND: u8 = 8;

/// Flags of an entry, in the low bits of its address.
const FLAGS: u64 = PAGE_BYTES as u64 - 1;
const ZEROS: u64 = 0x02;
const SIZES: u64 = 0x04;
const PAGE: u64 = 0x08;
const END: u64 = 0x10;
const SAME_BLOCK: u64 = 0x20;

/// A node's part of the memory: QEMU has the same name for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryPart {
    pub name: String,
    pub mib: u64,
    /// Where it begins in the file.
    pub offset_mib: u64,
}

/// Divides the file with the whole state of a machine, which is removed, into two new ones. A state of another form stays
/// whole, and the memory is a hole.
pub fn divide(whole: &Path, parts: &[MemoryPart], [state, memory]: [&Path; 2]) -> io::Result<()> {
    let all_bytes = parts.iter().map(|part| part.mib << 20).sum();
    let memory = File::create_new(memory)?;
    memory.set_len(all_bytes)?;
    let from = BufReader::with_capacity(BUFFER_BYTES, File::open(whole)?);
    let out = BufWriter::with_capacity(BUFFER_BYTES, File::create_new(state)?);
    match take_out(from, parts, &memory, out) {
        Err(error) if is_unknown(&error) => {
            memory.set_len(0)?;
            memory.set_len(all_bytes)?;
            fs::remove_file(state)?;
            fs::hard_link(whole, state)?;
        }
        taken => taken?,
    }
    fs::remove_file(whole)
}

/// Writes the memory of a stopped machine to `memory`, and what is left of its state to `rest`.
fn take_out(
    mut state: impl Read,
    parts: &[MemoryPart],
    memory: &File,
    rest: impl Write,
) -> io::Result<()> {
    let head = input::read_start(&mut state, MAX_HEAD_BYTES)?;
    let section = head.windows(SECTION.len()).position(|bytes| bytes == SECTION);
    let section = section.and_then(|at| at.checked_sub(5)).filter(|at| head[*at] == SECTION_START);
    let Some(at) = section else { return Err(unknown()) };
    let id = head[at + 1..at + 5].to_vec();
    let (before, after) = head.split_at(at + 5 + SECTION.len());
    let pages = parts.iter().map(|part| part.mib as usize * ((1 << 20) / PAGE_BYTES)).sum();
    let state = Cursor::new(after.to_vec()).chain(state);
    let mut taker =
        Taker { state, rest, parts, memory, written: vec![false; pages], block: Vec::new() };
    taker.rest.write_all(before)?;
    taker.take_section(&id)?;
    let mut kind = SECTION_START;
    while kind != SECTION_END {
        kind = taker.pass(1)?[0];
        match kind {
            COMMAND => taker.pass_command()?,
            SECTION_PART | SECTION_END if taker.pass(4)? == id => taker.take_section(&id)?,
            _ => return Err(unknown()),
        }
    }
    io::copy(&mut taker.state, &mut taker.rest)?;
    taker.rest.flush()
}

fn unknown() -> io::Error {
    ErrorKind::InvalidData.into()
}

fn is_unknown(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::InvalidData | ErrorKind::UnexpectedEof)
}

struct Taker<'a, R, W> {
    state: R,
    rest: W,
    parts: &'a [MemoryPart],
    memory: &'a File,
    /// The pages of the file that are not holes.
    written: Vec<bool>,
    /// The name of the last entry's block, behind its length.
    block: Vec<u8>,
}

impl<R: Read, W: Write> Taker<'_, R, W> {
    fn read(&mut self, count: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; count];
        self.state.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// Passes on bytes that are no page, and returns them.
    fn pass(&mut self, count: usize) -> io::Result<Vec<u8>> {
        let bytes = self.read(count)?;
        self.rest.write_all(&bytes)?;
        Ok(bytes)
    }

    /// A name behind its length, with the length.
    fn name(&mut self) -> io::Result<Vec<u8>> {
        let length = self.read(1)?;
        Ok([length.as_slice(), &self.read(length[0].into())?].concat())
    }

    /// Passes on a command, with its number and its data.
    fn pass_command(&mut self) -> io::Result<()> {
        let head = self.pass(4)?;
        self.pass(number(&head[2..]) as usize).map(drop)
    }

    /// Takes the entries of a section.
    fn take_section(&mut self, id: &[u8]) -> io::Result<()> {
        loop {
            let entry = number(&self.read(8)?);
            let (address, flags) = (entry & !FLAGS, entry & FLAGS);
            match flags & !SAME_BLOCK {
                END => break self.rest.write_all(&entry.to_be_bytes())?,
                SIZES => {
                    self.rest.write_all(&entry.to_be_bytes())?;
                    self.pass_sizes(address)?;
                }
                kind @ (ZEROS | PAGE) => {
                    if flags & SAME_BLOCK == 0 {
                        self.block = self.name()?;
                    }
                    self.take_page(address, kind)?;
                }
                _ => return Err(unknown()),
            }
        }
        let footer = self.pass(5)?;
        if footer[0] == SECTION_FOOTER && footer[1..] == *id { Ok(()) } else { Err(unknown()) }
    }

    fn take_page(&mut self, address: u64, kind: u64) -> io::Result<()> {
        let page = self.read(if kind == PAGE { PAGE_BYTES } else { 1 })?;
        let name = self.block.get(1..).ok_or_else(unknown)?;
        match self.parts.iter().find(|part| part.name.as_bytes() == name) {
            Some(part) => self.put(part, address, &page),
            None => {
                let entry = (address | kind).to_be_bytes();
                self.rest.write_all(&[&entry, self.block.as_slice(), &page].concat())
            }
        }
    }

    /// Passes on the names and sizes of blocks, of `all` bytes together.
    fn pass_sizes(&mut self, mut all: u64) -> io::Result<()> {
        while all > 0 {
            let name = self.name()?;
            self.rest.write_all(&name)?;
            all = all.checked_sub(number(&self.pass(8)?)).ok_or_else(unknown)?;
        }
        Ok(())
    }

    /// Puts a page of a part into the file. `page` is one byte, 0, for zeros.
    fn put(&mut self, part: &MemoryPart, address: u64, page: &[u8]) -> io::Result<()> {
        let is_zero = page.iter().all(|byte| *byte == 0);
        if address >= part.mib << 20 || page.len() < PAGE_BYTES && !is_zero {
            return Err(unknown());
        }
        let at = (part.offset_mib << 20) + address;
        let written = self.written.get_mut(at as usize / PAGE_BYTES).ok_or_else(unknown)?;
        // A page that was there before is no hole any more.
        if is_zero && !*written {
            return Ok(());
        }
        *written = true;
        let page = if is_zero { &[0; PAGE_BYTES] } else { page };
        self.memory.write_all_at(page, at)
    }
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: [u8; 4] = [0, 0, 0, 2];

    fn parts() -> Vec<MemoryPart> {
        let part = |at| MemoryPart { name: format!("memory{at}"), mib: 1, offset_mib: at };
        vec![part(0), part(1)]
    }

    fn entry(address: u64, flags: u64, block: &str, page: &[u8]) -> Vec<u8> {
        let name = [&[block.len() as u8], block.as_bytes()].concat();
        let name = if flags & SAME_BLOCK == 0 { name } else { Vec::new() };
        [&(address | flags).to_be_bytes(), name.as_slice(), page].concat()
    }

    fn head() -> Vec<u8> {
        [b"QEVM and a configuration".as_slice(), &[SECTION_START], &ID, SECTION].concat()
    }

    fn end_of_section() -> Vec<u8> {
        [&END.to_be_bytes(), [SECTION_FOOTER].as_slice(), &ID].concat()
    }

    fn sizes() -> Vec<u8> {
        let size = |name: &str, bytes: u64| {
            [&[name.len() as u8], name.as_bytes(), &bytes.to_be_bytes()].concat()
        };
        let all = ((3 << 20) | SIZES).to_be_bytes();
        [
            all.as_slice(),
            &size("memory0", 1 << 20),
            &size("memory1", 1 << 20),
            &size("bios", 1 << 20),
        ]
        .concat()
    }

    /// A state with these entries in two sections, between which there is a command.
    fn state(first: &[Vec<u8>], second: &[Vec<u8>]) -> Vec<u8> {
        let section = |kind: u8| [&[kind], &ID[..]].concat();
        let begin = [head(), sizes(), end_of_section(), section(SECTION_PART)].concat();
        let command =
            [end_of_section(), b"\x08\0\x0b\0\x02of".to_vec(), section(SECTION_END)].concat();
        let end = [end_of_section(), b"\x04devices".to_vec()].concat();
        [begin, first.concat(), command, second.concat(), end].concat()
    }

    fn taken(state: &[u8]) -> io::Result<(Vec<u8>, Vec<u8>)> {
        let dir = tempfile::tempdir()?;
        let file = File::create(dir.path().join("memory"))?;
        file.set_len(2 << 20)?;
        let mut rest = Vec::new();
        take_out(state, &parts(), &file, &mut rest)?;
        Ok((std::fs::read(dir.path().join("memory"))?, rest))
    }

    #[test]
    fn pages_go_to_the_file_and_all_else_stays() {
        let [ones, twos] = [1, 2].map(|byte| [byte; PAGE_BYTES]);
        let first = entry(0x1000, PAGE, "memory0", &ones);
        let second = [
            entry(0x2000, PAGE | SAME_BLOCK, "", &twos),
            entry(0x3000, ZEROS | SAME_BLOCK, "", &[0]),
            entry(0x1000, ZEROS | SAME_BLOCK, "", &[0]),
            entry(0xff000, PAGE, "memory1", &ones),
            entry(0x4000, ZEROS, "bios", &[0]),
            entry(0x5000, PAGE | SAME_BLOCK, "", &twos),
        ];
        let (memory, rest) = taken(&state(&[first], &second)).unwrap();
        let mut expected = vec![0; 2 << 20];
        expected[0x2000..0x3000].fill(2);
        expected[(1 << 20) + 0xff000..].fill(1);
        assert!(memory == expected, "the last page of an address counts");
        let kept = [entry(0x4000, ZEROS, "bios", &[0]), entry(0x5000, PAGE, "bios", &twos)];
        assert!(rest == state(&[], &kept), "other memory is named each time");
        assert!(taken(&rest).unwrap().1 == rest, "a state without pages stays as it is");
    }

    #[test]
    fn a_state_of_another_form_stays_whole_next_to_a_hole() {
        let page = entry(0, PAGE, "memory0", &[1; PAGE_BYTES]);
        let known = state(std::slice::from_ref(&page), &[]);
        let unknown = state(&[page], &[entry(0, 0x40, "memory0", &[])]);
        for (bytes, has_memory) in [(known, true), (unknown, false)] {
            let dir = tempfile::tempdir().unwrap();
            let [whole, state, memory] =
                ["whole", "state", "memory"].map(|name| dir.path().join(name));
            fs::write(&whole, &bytes).unwrap();
            divide(&whole, &parts(), [&state, &memory]).unwrap();
            let memory = fs::read(memory).unwrap();
            assert_eq!((memory.len(), memory[7] == 1), (2 << 20, has_memory));
            assert_eq!(fs::read(state).unwrap() == bytes, !has_memory);
            assert!(!whole.exists());
        }
    }

    #[test]
    fn a_state_of_another_form_is_refused() {
        let page = [1; PAGE_BYTES];
        let one = |entry: Vec<u8>| state(&[entry], &[]);
        let whole = one(entry(0, PAGE, "memory0", &page));
        let with = |from: &[u8], to: &[u8]| {
            let at = whole.windows(from.len()).position(|bytes| bytes == from).unwrap();
            [&whole[..at], to, &whole[at + from.len()..]].concat()
        };
        let wrong = [
            Vec::new(),
            whole[..40].to_vec(),
            with(SECTION, b"\x03ram\0\0\0\0\0\0\0\x05"),
            with(&[SECTION_FOOTER], &[0]),
            with(&[SECTION_END, 0, 0, 0, 2], &[SECTION_END, 0, 0, 0, 3]),
            with(&[SECTION_END, 0, 0, 0, 2], b"\x04devices"),
            one(entry(0, 0x40, "memory0", &page)),
            one(entry(1 << 20, PAGE, "memory0", &page)),
            one(entry(0, ZEROS, "memory0", &[7])),
            one(entry(0, PAGE | SAME_BLOCK, "", &page)),
            with(&(1u64 << 20).to_be_bytes(), &(4u64 << 20).to_be_bytes()),
        ];
        for (number, state) in wrong.iter().enumerate() {
            assert!(taken(state).is_err(), "{number}");
        }
    }
}
