//! The ELF image of a kernel, out of the bzImage that carries it compressed (the kernel's
//! Documentation/arch/x86/boot.rst), where it can be entered directly: by PVH. Pure.
//!
//! `None` is not an error: such a kernel is booted from its bzImage, which unpacks itself.

use std::io::Read;

use crate::sys::input;
use lzma_rust2::XzReader;
use object::elf::{EM_X86_64, FileHeader64, NoteType};
use object::endian::LittleEndian;
use object::read::elf::{FileHeader, ProgramHeader};

/// Sectors of setup code behind the boot sector; 0 is 4.
const SETUP_SECTORS_AT: usize = 0x1f1;
const SETUP_SECTORS_OF_OLD: u8 = 4;
const SECTOR_BYTES: usize = 512;
/// The position of the payload's offset, which counts from the end of the setup code.
const PAYLOAD_OFFSET_AT: usize = 0x248;
const PAYLOAD_LENGTH_AT: usize = 0x24c;
/// Four times a kernel with all of its debugging code.
const MAX_BYTES: u32 = 1 << 30;

const XZ: &[u8] = &[0xfd, b'7', b'z', b'X', b'Z', 0];
const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
/// The format before LZ4's frames.
const LZ4: &[u8] = &[0x02, 0x21, 0x4c, 0x18];
const LZ4_BLOCK_BYTES: usize = 8 << 20;
/// The kernel is packed with the widest window.
const ZSTD_WINDOW_BYTES: u64 = 1 << 31;

/// `XEN_ELFNOTE_PHYS32_ENTRY`: where a virtual machine enters the kernel.
const PVH_NOTE: NoteType = NoteType(18);
const PVH_OWNER: &[u8] = b"Xen";

/// The kernel inside, if it has an entry for PVH and is packed in a format that is known here.
pub fn vmlinux(image: &[u8]) -> Option<Vec<u8>> {
    let elf = unpack(payload(image)?)?;
    has_pvh_entry(&elf).then_some(elf)
}

/// The kernel inside, in any packing that is known here, xz too.
pub fn elf(image: &[u8]) -> Option<Vec<u8>> {
    let payload = payload(image)?;
    let (frame, size) = frame_and_size(payload)?;
    if frame.starts_with(XZ) {
        up_to(size, XzReader::new(frame, false)).filter(|bytes| bytes.len() == size)
    } else {
        unpack(payload)
    }
}

/// The setup code of `image`, with another payload behind it.
pub fn carrying(image: &[u8], payload: &[u8]) -> Option<Vec<u8>> {
    let mut carrier = image.get(..setup_bytes(image)?)?.to_vec();
    let length = u32::try_from(payload.len()).ok()?;
    for (at, value) in [(PAYLOAD_OFFSET_AT, 0), (PAYLOAD_LENGTH_AT, length)] {
        carrier.get_mut(at..at + 4)?.copy_from_slice(&value.to_le_bytes());
    }
    carrier.extend(payload);
    Some(carrier)
}

/// A payload.
pub fn lz4_packed(elf: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = LZ4.to_vec();
    for block in elf.chunks(LZ4_BLOCK_BYTES) {
        let block = lz4_flex::block::compress(block);
        bytes.extend(u32::try_from(block.len()).ok()?.to_le_bytes());
        bytes.extend(block);
    }
    bytes.extend(u32::try_from(elf.len()).ok()?.to_le_bytes());
    Some(bytes)
}

/// The boot sector and the setup code.
pub fn setup_bytes(image: &[u8]) -> Option<usize> {
    let sectors = match *image.get(SETUP_SECTORS_AT)? {
        0 => SETUP_SECTORS_OF_OLD,
        sectors => sectors,
    };
    Some((usize::from(sectors) + 1) * SECTOR_BYTES)
}

fn payload(image: &[u8]) -> Option<&[u8]> {
    let long = |at: usize| {
        let bytes = image.get(at..at + 4)?.first_chunk::<4>()?;
        usize::try_from(u32::from_le_bytes(*bytes)).ok()
    };
    let start = setup_bytes(image)?.checked_add(long(PAYLOAD_OFFSET_AT)?)?;
    image.get(start..start.checked_add(long(PAYLOAD_LENGTH_AT)?)?)
}

/// The last four bytes are the unpacked size: part of the format of gzip, appended to others.
fn frame_and_size(payload: &[u8]) -> Option<(&[u8], usize)> {
    let (frame, size) = payload.split_last_chunk::<4>()?;
    let size = Some(u32::from_le_bytes(*size)).filter(|size| *size <= MAX_BYTES)?;
    Some((frame, usize::try_from(size).ok()?))
}

fn unpack(payload: &[u8]) -> Option<Vec<u8>> {
    let (frame, size) = frame_and_size(payload)?;
    let bytes = if payload.starts_with(GZIP) {
        up_to(size, flate2::read::GzDecoder::new(payload))
    } else if frame.starts_with(ZSTD) {
        let stream =
            ruzstd::decoding::StreamingDecoder::new_with_max_window_size(frame, ZSTD_WINDOW_BYTES);
        up_to(size, stream.ok()?)
    } else {
        lz4(frame.strip_prefix(LZ4)?, size)
    };
    bytes.filter(|bytes| bytes.len() == size)
}

fn up_to(size: usize, stream: impl Read) -> Option<Vec<u8>> {
    input::read_all(stream, size as u64).ok()
}

/// Blocks, each with its length before it and packed by itself.
fn lz4(mut rest: &[u8], size: usize) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    while bytes.len() < size {
        let (length, behind) = rest.split_first_chunk::<4>()?;
        let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
        let (block, behind) = behind.split_at_checked(length)?;
        let max_bytes = LZ4_BLOCK_BYTES.min(size - bytes.len());
        let block = lz4_flex::block::decompress(block, max_bytes).ok()?;
        if block.is_empty() {
            return None;
        }
        bytes.extend(block);
        rest = behind;
    }
    Some(bytes)
}

fn has_pvh_entry(elf: &[u8]) -> bool {
    let Ok(header) = FileHeader64::<LittleEndian>::parse(elf) else { return false };
    let Ok(endian) = header.endian() else { return false };
    let Ok(segments) = header.program_headers(endian, elf) else { return false };
    let mut notes = segments.iter().filter_map(|segment| segment.notes(endian, elf).ok()?);
    header.e_machine.get(endian) == EM_X86_64
        && notes.any(|mut notes| {
            std::iter::from_fn(|| notes.next().ok()?)
                .any(|note| note.name() == PVH_OWNER && note.n_type(endian) == PVH_NOTE)
        })
}

#[cfg(test)]
pub mod testing {
    //! Kernels that hold another.

    use std::io::Write;

    use super::super::bzimage::testing::bzimage;

    #[derive(Clone, Copy, Debug, PartialEq)]
    pub enum Packing {
        Gzip,
        Zstd,
        Lz4,
        /// One that is not known here.
        Xz,
    }

    /// An x86-64 ELF file with one segment of notes, which has this one note.
    pub fn elf(owner: &[u8; 4], kind: u32) -> Vec<u8> {
        let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
        bytes.resize(16, 0);
        let mut add = |value: u64, size: usize| {
            bytes.extend(&value.to_le_bytes()[..size]);
        };
        // Type, machine, version; entry, program headers, section headers; flags; sizes.
        for (value, size) in [(2, 2), (62, 2), (1, 4), (0, 8), (64, 8), (0, 8), (0, 4)] {
            add(value, size);
        }
        for value in [64, 56, 1, 64, 0, 0] {
            add(value, 2);
        }
        // A segment PT_NOTE: kind, flags; offset, addresses, sizes, alignment.
        for (value, size) in [(4, 4), (4, 4), (120, 8), (0, 8), (0, 8), (20, 8), (20, 8), (4, 8)] {
            add(value, size);
        }
        add(4, 4);
        add(4, 4);
        add(u64::from(kind), 4);
        bytes.extend(owner);
        bytes.extend(0x100_0000_u32.to_le_bytes());
        // More than one block of LZ4, which packs well.
        bytes.extend((0..9_000_000_u32).map(|at| (at >> 12) as u8));
        bytes
    }

    pub fn packed(elf: &[u8], packing: Packing) -> Vec<u8> {
        let mut bytes = match packing {
            Packing::Gzip => {
                let mut gzip =
                    flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
                gzip.write_all(elf).unwrap();
                return gzip.finish().unwrap();
            }
            Packing::Zstd => {
                ruzstd::encoding::compress_to_vec(elf, ruzstd::encoding::CompressionLevel::Fastest)
            }
            Packing::Lz4 => return super::lz4_packed(elf).unwrap(),
            Packing::Xz => b"\xfd7zXZ\0".to_vec(),
        };
        bytes.extend(u32::try_from(elf.len()).unwrap().to_le_bytes());
        bytes
    }

    /// A bzImage with this payload, and something behind it as signed kernels have it.
    pub fn carrying(version: &str, payload: &[u8]) -> Vec<u8> {
        let mut image = bzimage(version, "");
        image.resize(4 * 512, 0);
        image[0x1f1] = 3;
        image[0x248..0x24c].copy_from_slice(&16_u32.to_le_bytes());
        image[0x24c..0x250].copy_from_slice(&u32::try_from(payload.len()).unwrap().to_le_bytes());
        image.extend([0x90; 16]);
        image.extend(payload);
        image.extend(b"signature");
        image
    }
}

#[cfg(test)]
mod tests {
    use super::testing::{Packing, carrying, elf, packed};
    use super::{elf as elf_of, vmlinux};

    const XZ_OF_ABC: &[u8] = &[
        0xfd, 0x37, 0x7a, 0x58, 0x5a, 0x00, 0x00, 0x01, 0x69, 0x22, 0xde, 0x36, 0x02, 0x01, 0x04,
        0x00, 0x21, 0x01, 0x16, 0x00, 0x0d, 0x86, 0x35, 0x1f, 0x01, 0x00, 0x02, 0x61, 0x62, 0x63,
        0x00, 0x00, 0xc2, 0x41, 0x24, 0x35, 0x00, 0x01, 0x17, 0x03, 0x07, 0x60, 0x0c, 0xbc, 0x90,
        0x42, 0x99, 0x0d, 0x01, 0x00, 0x00, 0x00, 0x00, 0x01, 0x59, 0x5a,
    ];

    #[test]
    fn the_kernel_comes_out_as_it_went_in() {
        let kernel = elf(b"Xen\0", 18);
        for packing in [Packing::Gzip, Packing::Zstd, Packing::Lz4] {
            let image = carrying("6.1.0", &packed(&kernel, packing));
            assert!(vmlinux(&image).as_deref() == Some(&kernel[..]), "{packing:?}");
        }
    }

    /// `printf abc | xz --x86 --lzma2`, and the unpacked size.
    #[test]
    fn xz_is_unpacked_where_it_is_asked_for() {
        let frame = XZ_OF_ABC;
        let payload = [frame, &3_u32.to_le_bytes()].concat();
        assert_eq!(elf_of(&carrying("6.1.0", &payload)).as_deref(), Some(&b"abc"[..]));
        assert_eq!(vmlinux(&carrying("6.1.0", &payload)), None);
        let wrong = [frame, &4_u32.to_le_bytes()].concat();
        assert_eq!(elf_of(&carrying("6.1.0", &wrong)), None);
        assert_eq!(elf_of(&carrying("6.1.0", &payload[8..])), None);
    }

    #[test]
    fn setup_code_of_no_sectors_has_four() {
        let kernel = elf(b"Xen\0", 18);
        let mut image = carrying("6.1.0", &packed(&kernel, Packing::Lz4));
        image.splice(4 * 512..4 * 512, [0; 512]);
        assert_eq!(vmlinux(&image), None, "three sectors, and the payload behind four");
        image[0x1f1] = 0;
        assert!(vmlinux(&image).is_some());
    }

    #[test]
    fn what_cannot_be_entered_directly_is_left_to_its_bzimage() {
        let whole = elf(b"Xen\0", 18);
        let lz4 = |elf: &[u8]| packed(elf, Packing::Lz4);
        let other_machine = {
            let mut elf = whole.clone();
            elf[18] = 3;
            elf
        };
        let cut_note = {
            let mut elf = whole.clone();
            elf.truncate(130);
            elf
        };
        let payloads = [
            ("another note", lz4(&elf(b"Xen\0", 17))),
            ("another owner", lz4(&elf(b"GNU\0", 18))),
            ("another machine", lz4(&other_machine)),
            ("a note that is cut", lz4(&cut_note)),
            ("no ELF file", lz4(&[1; 100])),
            ("a format that is not known", packed(&whole, Packing::Xz)),
            ("nothing", Vec::new()),
            ("not packed", whole.clone()),
        ];
        for (what, payload) in payloads {
            assert_eq!(vmlinux(&carrying("6.1.0", &payload)), None, "{what}");
        }
    }

    #[test]
    fn what_is_broken_ends_in_nothing() {
        let kernel = elf(b"Xen\0", 18);
        for packing in [Packing::Gzip, Packing::Zstd, Packing::Lz4] {
            let good = packed(&kernel, packing);
            let end = good.len() - 4;
            let size =
                |size: usize| [&good[..end], &u32::try_from(size).unwrap().to_le_bytes()].concat();
            let cut = [&good[..end / 2], &good[end..]].concat();
            let magic_alone = [&good[..4], &good[end..]].concat();
            let faults = [
                ("one byte more", size(kernel.len() + 1)),
                ("one byte less", size(kernel.len() - 1)),
                ("more than there can be", size(u32::MAX as usize)),
                ("cut", cut),
                ("magic alone", magic_alone),
            ];
            for (what, payload) in faults {
                assert_eq!(vmlinux(&carrying("6.1.0", &payload)), None, "{packing:?}: {what}");
            }
        }
        let image = carrying("6.1.0", &packed(&kernel, Packing::Lz4));
        for (at, value) in [(0x248, u32::MAX), (0x24c, u32::MAX), (0x24c, 3)] {
            let mut image = image.clone();
            image[at..at + 4].copy_from_slice(&value.to_le_bytes());
            assert_eq!(vmlinux(&image), None, "{at:#x}");
        }
        for length in [0, 0x1f0, 0x24e, 2047, image.len() - 20] {
            assert_eq!(vmlinux(&image[..length]), None, "{length}");
        }
    }
}
