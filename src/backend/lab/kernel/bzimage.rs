//! The header of a bzImage (the kernel's Documentation/arch/x86/boot.rst).
//!
//! Input: a file. Reads its beginning alone.

use std::path::Path;

use super::error::{HeaderFault, KernelError};
use super::payload::setup_bytes;
use crate::model::clean as plain;
use crate::sys::input;

/// The setup code with the version string has at most 64 sectors.
const MAX_BYTES: u64 = 64 * 512 + 512;
const PARAGRAPHS_AT: usize = 0x1f4;
const MAGIC_AT: usize = 0x202;
const PROTOCOL_AT: usize = 0x206;
const VERSION_AT: usize = 0x20e;
const FLAGS_AT: usize = 0x236;
/// The first protocol with a flag for 64 bits.
const PROTOCOL_2_12: u16 = 0x20c;
const IS_64_BIT: u16 = 1;
/// No version string is longer.
const MAX_CHARS: usize = 300;

#[derive(Debug, PartialEq)]
pub struct Header {
    /// `6.18.15+deb13-cloud-amd64 (debian-kernel@...) #1 SMP PREEMPT_DYNAMIC ...`
    pub version: String,
    /// The first word of its version, which `uname -r` prints.
    pub release: String,
}

pub fn read(path: &Path) -> Result<Header, KernelError> {
    let (all, start) = input::open_file(path, input::MAX_PROGRAM_BYTES)
        .and_then(|file| Ok((file.metadata()?.len(), input::read_start(file, MAX_BYTES)?)))
        .map_err(KernelError::io("read", path))?;
    let whole = parse(&start).and_then(|header| check_length(&start, all).map(|()| header));
    whole.map_err(|why| KernelError::Image { path: path.to_path_buf(), why })
}

/// Fails where the file is shorter than its header says.
fn check_length(start: &[u8], bytes: u64) -> Result<(), HeaderFault> {
    let number = |at: usize| start.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes);
    // In units of 16 bytes, behind the setup.
    let paragraphs = number(PARAGRAPHS_AT).unwrap_or(0);
    let setup = setup_bytes(start).unwrap_or_default() as u64;
    let wanted = setup + u64::from(paragraphs) * 16;
    if paragraphs > 0 && bytes < wanted {
        Err(HeaderFault::CutOff { bytes, wanted })
    } else {
        Ok(())
    }
}

fn parse(bytes: &[u8]) -> Result<Header, HeaderFault> {
    if bytes.get(MAGIC_AT..MAGIC_AT + 4) != Some(b"HdrS") {
        return Err(match bytes {
            [0x7f, b'E', b'L', b'F', ..] => HeaderFault::Elf,
            _ => HeaderFault::NoMagic,
        });
    }
    let word = |at: usize| bytes.get(at..at + 2).map(|word| u16::from_le_bytes([word[0], word[1]]));
    if word(PROTOCOL_AT).is_none_or(|protocol| protocol < PROTOCOL_2_12) {
        return Err(HeaderFault::OldProtocol);
    }
    if word(FLAGS_AT).is_none_or(|flags| flags & IS_64_BIT == 0) {
        return Err(HeaderFault::Bits32);
    }
    let at = word(VERSION_AT).filter(|at| *at != 0).ok_or(HeaderFault::NoVersion)?;
    let text = bytes.get(usize::from(at) + 0x200..).ok_or(HeaderFault::Truncated)?;
    let text = text.split(|byte| *byte == 0).next().unwrap_or(&[]);
    let version: String = String::from_utf8_lossy(text).chars().take(MAX_CHARS).collect();
    let version = plain(&version);
    match version.split_whitespace().next() {
        Some(release) => Ok(Header { release: release.to_string(), version: version.clone() }),
        None => Err(HeaderFault::EmptyVersion),
    }
}

#[cfg(test)]
pub mod testing {
    //! Files with the header of a bzImage.

    /// A header with this version string, and `salt` behind it.
    pub fn bzimage(version: &str, salt: &str) -> Vec<u8> {
        let mut bytes = vec![0; 0x400];
        bytes[0x202..0x206].copy_from_slice(b"HdrS");
        bytes[0x206..0x208].copy_from_slice(&0x20f_u16.to_le_bytes());
        bytes[0x20e..0x210].copy_from_slice(&0x200_u16.to_le_bytes());
        bytes[0x236] = 1;
        bytes.extend(version.bytes().chain([0]).chain(salt.bytes()));
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::testing::bzimage;
    use super::*;

    const VERSION: &str = "6.18.15+deb13-cloud-amd64 (debian-kernel@example.org) #1 SMP";

    #[test]
    fn the_release_is_the_first_word_of_the_version() {
        let header = parse(&bzimage(VERSION, "code")).expect("a kernel");
        assert_eq!(header.version, VERSION);
        assert_eq!(header.release, "6.18.15+deb13-cloud-amd64");
    }

    #[test]
    fn what_cannot_be_booted_is_refused_with_its_reason() {
        let with = |at: usize, bytes: &[u8]| {
            let mut image = bzimage(VERSION, "");
            image[at..at + bytes.len()].copy_from_slice(bytes);
            image
        };
        let cases: &[(Vec<u8>, HeaderFault)] = &[
            (vec![], HeaderFault::NoMagic),
            (b"\x7fELF and more".to_vec(), HeaderFault::Elf),
            (bzimage(VERSION, "")[..0x204].to_vec(), HeaderFault::NoMagic),
            (bzimage(VERSION, "")[..0x206].to_vec(), HeaderFault::OldProtocol),
            (with(0x206, &[0x0b, 0x02]), HeaderFault::OldProtocol),
            (with(0x236, &[0]), HeaderFault::Bits32),
            (with(0x20e, &[0, 0]), HeaderFault::NoVersion),
            (with(0x20e, &[0xff, 0xff]), HeaderFault::Truncated),
            (bzimage("", ""), HeaderFault::EmptyVersion),
            (bzimage("  ", ""), HeaderFault::EmptyVersion),
        ];
        for (bytes, expected) in cases {
            assert_eq!(parse(bytes).as_ref(), Err(expected));
        }
    }

    #[test]
    fn a_file_that_is_shorter_than_its_header_says_was_cut_off() {
        let mut image = bzimage(VERSION, "");
        image[0x1f1] = 2;
        image[PARAGRAPHS_AT..PARAGRAPHS_AT + 4].copy_from_slice(&0x2_0000_u32.to_le_bytes());
        let wanted = 3 * 512 + (2 << 20);
        assert_eq!(check_length(&image, wanted), Ok(()));
        let bytes = wanted - 1;
        assert_eq!(check_length(&image, bytes), Err(HeaderFault::CutOff { bytes, wanted }));
        image[PARAGRAPHS_AT + 1..PARAGRAPHS_AT + 4].fill(0);
        assert_eq!(check_length(&image, 0), Ok(()), "unknown");
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cut");
        image[PARAGRAPHS_AT + 2] = 2;
        std::fs::write(&path, &image).unwrap();
        let error = read(&path).unwrap_err().to_string();
        assert!(error.contains("cut off"), "{error}");
    }

    #[test]
    fn a_version_with_escapes_is_shown_and_not_acted_on() {
        let header = parse(&bzimage("6.1\u{1b}[2J x", "")).expect("a kernel");
        assert_eq!(header.release, "6.1\\u{1b}[2J");
    }
}
