//! Repacks a kernel for speed under Xen, which moves every byte of it and then unpacks it in the emulator. Pure.
//!
//! The hypervisor moves the first domain's kernel byte by byte: packed with LZ4 it is small and unpacks
//! quickly. A program makes the guests, and reads an ELF file faster than it unpacks one. The file has no
//! zeros at the ends of its segments and only what is loaded.

use object::elf::{FileHeader64, PT_LOAD, ProgramHeader64};
use object::endian::{LittleEndian, U64};
use object::read::elf::{FileHeader, ProgramHeader};

use super::payload;

const HEADER_BYTES: usize = 64;
/// `e_phoff`; `e_shoff`; `e_shentsize`, `e_shnum` and `e_shstrndx`.
const PROGRAM_HEADERS_AT: usize = 0x20;
const SECTIONS_AT: std::ops::Range<usize> = 0x28..0x30;
const SECTION_COUNTS_AT: std::ops::Range<usize> = 0x3a..0x40;

/// A bzImage whose kernel is packed with LZ4, from one in any packing that is known.
pub fn for_first_domain(image: &[u8]) -> Option<Vec<u8>> {
    let elf = trimmed(&payload::elf(image)?)?;
    payload::carrying(image, &payload::lz4_packed(&elf)?)
}

/// An ELF file with only the loaded segments.
pub fn for_guests(image: &[u8]) -> Option<Vec<u8>> {
    trimmed(&payload::elf(image)?)
}

fn trimmed(elf: &[u8]) -> Option<Vec<u8>> {
    let header = FileHeader64::<LittleEndian>::parse(elf).ok()?;
    let endian = header.endian().ok()?;
    let old = header.program_headers(endian, elf).ok()?;
    let mut new: Vec<ProgramHeader64<LittleEndian>> = old.to_vec();
    let mut bytes = elf.get(..HEADER_BYTES)?.to_vec();
    for range in [SECTIONS_AT, SECTION_COUNTS_AT] {
        bytes[range].fill(0);
    }
    bytes[PROGRAM_HEADERS_AT..][..8].copy_from_slice(&(HEADER_BYTES as u64).to_le_bytes());
    bytes.resize(HEADER_BYTES + size_of_val(old), 0);
    let mut moved = Vec::new();
    for segment in new.iter_mut().filter(|segment| segment.p_type(endian) == PT_LOAD) {
        let (at, size) = segment.file_range(endian);
        let data = part(elf, at, size)?;
        let end = data.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        moved.push((at..at.checked_add(size)?, bytes.len() as u64));
        segment.p_offset = U64::new(LittleEndian, bytes.len() as u64);
        segment.p_filesz = U64::new(LittleEndian, end as u64);
        segment.p_align = U64::new(LittleEndian, 1);
        bytes.extend(&data[..end]);
    }
    // Notes lie in segments that are loaded, or on their own.
    for segment in new.iter_mut().filter(|segment| segment.p_type(endian) != PT_LOAD) {
        let (at, size) = segment.file_range(endian);
        let data = part(elf, at, size)?;
        let inside = moved.iter().find(|(range, _)| range.contains(&at));
        let to = inside.map(|(range, to)| to + (at - range.start));
        let is_there = |to: &u64| part(&bytes, *to, size) == Some(data);
        let to = to.filter(is_there).unwrap_or(bytes.len() as u64);
        if to == bytes.len() as u64 {
            bytes.extend(data);
        }
        segment.p_offset = U64::new(LittleEndian, to);
    }
    let headers = object::pod::bytes_of_slice(&new);
    bytes[HEADER_BYTES..][..headers.len()].copy_from_slice(headers);
    Some(bytes)
}

fn part(bytes: &[u8], at: u64, size: u64) -> Option<&[u8]> {
    let (at, size) = (usize::try_from(at).ok()?, usize::try_from(size).ok()?);
    bytes.get(at..at.checked_add(size)?)
}

#[cfg(test)]
mod tests {
    use super::super::payload::testing::{Packing, carrying, packed};
    use super::*;

    /// The data for a loader: addresses, contents with the zeros behind them; and the notes.
    type Loaded = (Vec<(u64, Vec<u8>)>, Vec<Vec<u8>>);

    fn loaded(elf: &[u8]) -> Loaded {
        let header = FileHeader64::<LittleEndian>::parse(elf).unwrap();
        let (mut segments, mut others) = (Vec::new(), Vec::new());
        for segment in header.program_headers(LittleEndian, elf).unwrap() {
            let mut bytes = segment.data(LittleEndian, elf).unwrap().to_vec();
            if segment.p_type(LittleEndian) == PT_LOAD {
                bytes.resize(segment.p_memsz(LittleEndian) as usize, 0);
                segments.push((segment.p_paddr(LittleEndian), bytes));
            } else {
                others.push(bytes);
            }
        }
        (segments, others)
    }

    /// Three segments, the last of zeros alone, notes inside the first and behind all, and bytes that
    /// nobody loads.
    fn kernel() -> Vec<u8> {
        let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
        bytes.resize(HEADER_BYTES, 0);
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(0x10, &[2, 0, 62, 0, 1]);
        put(0x20, &64_u64.to_le_bytes());
        put(0x28, &9000_u64.to_le_bytes());
        put(0x34, &[64, 0, 56, 0, 5, 0, 64, 0, 3, 0, 1, 0]);
        let rows: [[u64; 5]; 5] = [
            // Kind, offset, address, size in the file, size in memory.
            [1, 0x1000, 0x10_0000, 0x800, 0x800],
            [1, 0x2000, 0x20_0000, 0x400, 0x3000],
            [1, 0x2800, 0x30_0000, 0x100, 0x100],
            [4, 0x1010, 0x10_0010, 0x20, 0x20],
            [4, 0x2a00, 0, 0x10, 0x10],
        ];
        for [kind, offset, address, file, memory] in rows {
            bytes.extend([kind.to_le_bytes()[..4].to_vec(), vec![4, 0, 0, 0]].concat());
            for value in [offset, address, address, file, memory, 0x1000] {
                bytes.extend(value.to_le_bytes());
            }
        }
        bytes.resize(0x2c00, 0);
        for (at, size) in [(0x0800, 0x100), (0x1000, 0x700), (0x2000, 0x1), (0x2a00, 0x10)] {
            bytes[at..at + size].fill(7);
        }
        bytes
    }

    #[test]
    fn what_is_loaded_stays_and_the_rest_goes() {
        let whole = kernel();
        let image = carrying("6.1.0", &packed(&whole, Packing::Lz4));
        let small = for_guests(&image).unwrap();
        assert_eq!(loaded(&small), loaded(&whole));
        assert_eq!(small.len(), 64 + 5 * 56 + 0x700 + 1 + 0x10);
        assert_eq!(trimmed(&small).unwrap(), small);
    }

    #[test]
    fn the_first_domain_has_the_same_kernel_packed() {
        let image = carrying("6.1.0", &packed(&kernel(), Packing::Gzip));
        let again = for_first_domain(&image).unwrap();
        assert_eq!(payload::elf(&again).unwrap(), for_guests(&image).unwrap());
        assert_eq!(again[0x202..0x206], *b"HdrS");
        assert!(again.len() < image.len(), "{}", again.len());
    }

    #[test]
    fn what_is_broken_ends_in_nothing() {
        let broken = |change: fn(&mut Vec<u8>)| {
            let mut elf = kernel();
            change(&mut elf);
            for_first_domain(&carrying("6.1.0", &packed(&elf, Packing::Lz4)))
        };
        assert!(broken(|_| ()).is_some());
        assert_eq!(broken(|elf| elf.truncate(0x2000)), None, "a segment is cut");
        assert_eq!(broken(|elf| elf[0x40 + 8..0x40 + 16].fill(0xff)), None);
        assert_eq!(broken(|elf| elf[0x40 + 32..0x40 + 40].fill(0xff)), None);
        assert_eq!(broken(|elf| elf[0] = 0), None, "no ELF file");
        assert_eq!(for_guests(b"nothing"), None);
    }
}
