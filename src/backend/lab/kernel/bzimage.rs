//! What the header of a bzImage says of its kernel (the kernel's Documentation/arch/x86/boot.rst).
//!
//! Input: a file. Reads its beginning alone.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::KernelError;
use super::error::plain;

/// The setup code with the version string has at most 64 sectors.
const MAX_BYTES: u64 = 64 * 512 + 512;
const MAGIC_AT: usize = 0x202;
const PROTOCOL_AT: usize = 0x206;
const VERSION_AT: usize = 0x20e;
const FLAGS_AT: usize = 0x236;
/// The first protocol that tells whether the kernel has 64 bits.
const PROTOCOL_2_12: u16 = 0x20c;
const IS_64_BIT: u16 = 1;
/// A version string is longer nowhere, and is for people.
const MAX_CHARS: usize = 300;

#[derive(Debug, PartialEq)]
pub struct Header {
    /// `6.18.15+deb13-cloud-amd64 (debian-kernel@...) #1 SMP PREEMPT_DYNAMIC ...`
    pub version: String,
    /// Its first word, as `uname -r` tells it.
    pub release: String,
}

pub fn read(path: &Path) -> Result<Header, KernelError> {
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(MAX_BYTES).read_to_end(&mut bytes))
        .map_err(KernelError::io("read", path))?;
    parse(&bytes).map_err(|why| KernelError::Image { path: path.to_path_buf(), why })
}

fn parse(bytes: &[u8]) -> Result<Header, String> {
    if bytes.get(MAGIC_AT..MAGIC_AT + 4) != Some(b"HdrS") {
        return Err(match bytes {
            [0x7f, b'E', b'L', b'F', ..] => {
                "it is an ELF file (vmlinux?), and the lab boots arch/x86/boot/bzImage".to_string()
            }
            _ => format!("it has no `HdrS` at {MAGIC_AT:#x}, where a bzImage has it"),
        });
    }
    let word = |at: usize| bytes.get(at..at + 2).map(|word| u16::from_le_bytes([word[0], word[1]]));
    if word(PROTOCOL_AT).is_none_or(|protocol| protocol < PROTOCOL_2_12) {
        return Err("its boot protocol is older than 2.12 (Linux 3.8)".to_string());
    }
    if word(FLAGS_AT).is_none_or(|flags| flags & IS_64_BIT == 0) {
        return Err("it is a 32-bit kernel".to_string());
    }
    let at = word(VERSION_AT).filter(|at| *at != 0).ok_or("its header has no version")?;
    let text = bytes.get(usize::from(at) + 0x200..).ok_or("its header ends before its version")?;
    let text = text.split(|byte| *byte == 0).next().unwrap_or(&[]);
    let version: String = String::from_utf8_lossy(text).chars().take(MAX_CHARS).collect();
    let version = plain(&version);
    match version.split_whitespace().next() {
        Some(release) => Ok(Header { release: release.to_string(), version: version.clone() }),
        None => Err("its version is empty".to_string()),
    }
}

#[cfg(test)]
pub mod testing {
    //! Files that look like a bzImage from outside.

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
        let cases: &[(Vec<u8>, &str)] = &[
            (vec![], "no `HdrS`"),
            (b"\x7fELF and more".to_vec(), "ELF file"),
            (bzimage(VERSION, "")[..0x204].to_vec(), "no `HdrS`"),
            (bzimage(VERSION, "")[..0x206].to_vec(), "older than 2.12"),
            (with(0x206, &[0x0b, 0x02]), "older than 2.12"),
            (with(0x236, &[0]), "32-bit"),
            (with(0x20e, &[0, 0]), "has no version"),
            (with(0x20e, &[0xff, 0xff]), "ends before its version"),
            (bzimage("", ""), "version is empty"),
            (bzimage("  ", ""), "version is empty"),
        ];
        for (bytes, expected) in cases {
            let why = parse(bytes).expect_err(expected);
            assert!(why.contains(expected), "{why}");
        }
    }

    #[test]
    fn a_version_with_escapes_is_shown_and_not_acted_on() {
        let header = parse(&bzimage("6.1\u{1b}[2J x", "")).expect("a kernel");
        assert_eq!(header.release, "6.1\\u{1b}[2J");
    }
}
