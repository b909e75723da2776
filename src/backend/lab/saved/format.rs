//! The file of a saved machine: the memory of the guest, which QEMU maps from there, with holes for zeros; what it is
//! of and [`Quiet`], as JSON; the rest of the state; the lengths of these three; a checksum of the file's name and of all
//! before it.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use twox_hash::XxHash3_64;

use crate::model::{GuestFacts, GuestTime};
use crate::sys::replace::NewFile;
use crate::sys::sparse::next_data;

const MAGIC: &[u8; 8] = b"MACHINE5";
/// Memory is written, or left out as a hole, in blocks of this size.
pub const BLOCK_BYTES: usize = 1 << 16;
/// Facts of a guest with hundreds of CPUs are smaller.
const MAX_HEAD_BYTES: u64 = 1 << 20;
/// A state that nobody divided has all of the memory.
const MAX_STATE_BYTES: u64 = 64 << 30;
const FOOTER_BYTES: usize = 40;

/// A machine in the words of its user.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MachineSummary {
    /// As plans name it.
    pub kernel: String,
    pub cpus: u32,
    pub memory_bytes: u64,
    /// The variant's own arguments of the kernel.
    pub arguments: String,
    /// The probes that wait in it; `None`: it has only booted.
    #[serde(default)]
    pub probes: Option<Vec<String>>,
    /// The emulator's own line about its version.
    pub emulator: String,
    /// The program of that, and its firmware.
    pub emulator_digest: String,
    /// The program of its guests, which is schedlab itself.
    pub program_digest: String,
}

/// A machine that was booted and stopped when it was quiet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Quiet {
    pub facts: GuestFacts,
    /// Whether its time was exact.
    pub time: GuestTime,
    /// By the host's clock, until its first process was at work.
    pub started_after: Duration,
}

/// The checksum: XXH3 of each part, seeded by that of the parts before. The first part is the name of the file, so that
/// no machine is taken for another one.
struct Sum(u64);

impl Sum {
    fn new(digest: &str) -> Sum {
        Sum(XxHash3_64::oneshot(digest.as_bytes()))
    }

    fn add(&mut self, bytes: &[u8]) {
        self.0 = XxHash3_64::oneshot_with_seed(self.0, bytes);
    }
}

/// The end of a file, which says where the other parts are.
struct Footer {
    memory_bytes: u64,
    head_bytes: u64,
    state_bytes: u64,
    sum: u64,
}

impl Footer {
    fn lengths(&self) -> [u64; 3] {
        [self.memory_bytes, self.head_bytes, self.state_bytes]
    }

    fn read(file: &File) -> io::Result<Footer> {
        let all_bytes = file.metadata()?.len();
        let at = all_bytes.checked_sub(FOOTER_BYTES as u64).ok_or(ErrorKind::InvalidData)?;
        let mut bytes = [0; FOOTER_BYTES];
        file.read_exact_at(&mut bytes, at)?;
        let (words, _) = bytes.as_chunks::<8>();
        let [memory_bytes, head_bytes, state_bytes, sum] =
            [1, 2, 3, 4].map(|word| u64::from_le_bytes(words[word]));
        let footer = Footer { memory_bytes, head_bytes, state_bytes, sum };
        let lengths = footer.lengths();
        let is_whole =
            lengths.iter().try_fold(0, |sum: u64, length| sum.checked_add(*length)) == Some(at);
        let fits = head_bytes <= MAX_HEAD_BYTES && state_bytes <= MAX_STATE_BYTES;
        if words[0] == *MAGIC && is_whole && fits {
            Ok(footer)
        } else {
            Err(ErrorKind::InvalidData.into())
        }
    }
}

/// Calls `each` with every block that is not only zeros, and its place.
fn each_block(
    memory: &File,
    bytes: u64,
    mut each: impl FnMut(u64, &[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let mut block = vec![0; BLOCK_BYTES];
    let mut at = 0;
    while let Some(data) = next_data(memory, at)?.filter(|data| *data < bytes) {
        at = data - data % BLOCK_BYTES as u64;
        let block = &mut block[..(bytes - at).min(BLOCK_BYTES as u64) as usize];
        memory.read_exact_at(block, at)?;
        if block.iter().any(|byte| *byte != 0) {
            each(at, block)?;
        }
        at += BLOCK_BYTES as u64;
    }
    Ok(())
}

/// Writes all of a machine. Returns the number of bytes without holes.
pub fn write(
    out: &mut NewFile,
    digest: &str,
    head: (&MachineSummary, &Quiet),
    (state, memory): (&Path, &File),
) -> io::Result<u64> {
    let mut sum = Sum::new(digest);
    let memory_bytes = memory.metadata()?.len();
    let (mut until, mut written) = (0, FOOTER_BYTES as u64);
    each_block(memory, memory_bytes, |at, block| {
        written += block.len() as u64;
        out.skip(at - until)?;
        until = at + block.len() as u64;
        sum.add(&at.to_le_bytes());
        sum.add(block);
        out.write_all(block)
    })?;
    out.skip(memory_bytes - until)?;
    let (head, state) = (serde_json::to_vec(&head)?, File::open(state)?);
    let lengths = [memory_bytes, head.len() as u64, state.metadata()?.len()];
    sum.add(&head);
    out.write_all(&head)?;
    pass_on((&state, 0), lengths[2], &mut sum, out)?;
    lengths.iter().for_each(|length| sum.add(&length.to_le_bytes()));
    let words = lengths.into_iter().chain([sum.0]).flat_map(u64::to_le_bytes);
    out.write_all(&MAGIC.iter().copied().chain(words).collect::<Vec<u8>>())?;
    Ok(written + lengths[1] + lengths[2])
}

/// Writes so many bytes of a file, from a place on.
fn pass_on(
    (from, mut at): (&File, u64),
    bytes: u64,
    sum: &mut Sum,
    out: &mut impl Write,
) -> io::Result<()> {
    let mut block = vec![0; BLOCK_BYTES];
    let end = at.checked_add(bytes).ok_or(ErrorKind::InvalidData)?;
    while at < end {
        let block = &mut block[..(end - at).min(BLOCK_BYTES as u64) as usize];
        from.read_exact_at(block, at)?;
        sum.add(block);
        out.write_all(block)?;
        at += block.len() as u64;
    }
    Ok(())
}

fn head_bytes(file: &File, footer: &Footer) -> io::Result<Vec<u8>> {
    let mut head = vec![0; footer.head_bytes as usize];
    file.read_exact_at(&mut head, footer.memory_bytes)?;
    Ok(head)
}

/// Reads what a machine is, without a look at the rest.
pub fn read_head(file: &File) -> io::Result<(MachineSummary, Quiet)> {
    Ok(serde_json::from_slice(&head_bytes(file, &Footer::read(file)?)?)?)
}

/// Reads a whole machine and passes on its state. An error may come behind it.
pub fn read(file: &File, digest: &str, state: &mut impl Write) -> io::Result<Quiet> {
    let footer = Footer::read(file)?;
    let mut sum = Sum::new(digest);
    each_block(file, footer.memory_bytes, |at, block| {
        sum.add(&at.to_le_bytes());
        sum.add(block);
        Ok(())
    })?;
    let head = head_bytes(file, &footer)?;
    let (_, quiet): (MachineSummary, Quiet) = serde_json::from_slice(&head)?;
    sum.add(&head);
    let own = (file, footer.memory_bytes + footer.head_bytes);
    pass_on(own, footer.state_bytes, &mut sum, state)?;
    footer.lengths().iter().for_each(|length| sum.add(&length.to_le_bytes()));
    if sum.0 == footer.sum { Ok(quiet) } else { Err(ErrorKind::InvalidData.into()) }
}
