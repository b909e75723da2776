//! The entry of `/ac/`: an `ActionResult` of the Remote Execution API (version 2) with one output
//! file, whose digest names the answer in `/cas/`. Servers check such entries, and add fields to
//! them; these are skipped. Pure.
//!
//! The wire format of protocol buffers: each field is a number and a type in one varint, then a varint, 8 or
//! 4 bytes, or a length and that many bytes.

/// Distinguishes an answer from what builds put there.
const PATH: &str = "schedlab-answer.gz";
/// `ActionResult.output_files`.
const OUTPUT_FILES: u64 = 2;
/// `OutputFile.path` and `OutputFile.digest`.
const FILE_PATH: u64 = 1;
const FILE_DIGEST: u64 = 2;
/// `Digest.hash` and `Digest.size_bytes`.
const DIGEST_HASH: u64 = 1;
const DIGEST_SIZE: u64 = 2;

const VARINT: u64 = 0;
const FIXED_64: u64 = 1;
const BYTES: u64 = 2;
const FIXED_32: u64 = 5;

/// The content that an entry names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// In hexadecimal, lower case.
    pub sha256: String,
    pub bytes: u64,
}

pub fn encode(named: &Named) -> Vec<u8> {
    let mut digest = Vec::new();
    put_bytes(&mut digest, DIGEST_HASH, named.sha256.as_bytes());
    put_varint(&mut digest, DIGEST_SIZE << 3 | VARINT);
    put_varint(&mut digest, named.bytes);
    let mut file = Vec::new();
    put_bytes(&mut file, FILE_PATH, PATH.as_bytes());
    put_bytes(&mut file, FILE_DIGEST, &digest);
    let mut result = Vec::new();
    put_bytes(&mut result, OUTPUT_FILES, &file);
    result
}

/// `None` if the entry is not one of ours.
pub fn decode(result: &[u8]) -> Option<Named> {
    let files = fields(result)?;
    let mut files = files.iter().filter(|(number, _)| *number == OUTPUT_FILES);
    let file = files.find_map(|(_, file)| {
        let fields = fields(file.bytes()?)?;
        (bytes_of(&fields, FILE_PATH)? == PATH.as_bytes()).then_some(fields)
    })?;
    let digest = fields(bytes_of(&file, FILE_DIGEST)?)?;
    let sha256 = std::str::from_utf8(bytes_of(&digest, DIGEST_HASH)?).ok()?;
    let is_hexadecimal =
        sha256.len() == 64 && sha256.bytes().all(|byte| b"0123456789abcdef".contains(&byte));
    let bytes = digest.iter().find_map(|(number, value)| match value {
        Value::Number(bytes) if *number == DIGEST_SIZE => Some(*bytes),
        _ => None,
    });
    is_hexadecimal.then(|| Named { sha256: sha256.to_string(), bytes: bytes.unwrap_or_default() })
}

#[derive(Clone, Copy)]
enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a> Value<'a> {
    fn bytes(self) -> Option<&'a [u8]> {
        if let Value::Bytes(bytes) = self { Some(bytes) } else { None }
    }
}

fn bytes_of<'a>(fields: &[(u64, Value<'a>)], number: u64) -> Option<&'a [u8]> {
    fields.iter().find(|(own, _)| *own == number).and_then(|(_, value)| value.bytes())
}

/// The fields of a message; `None` if it is not a message.
fn fields(mut rest: &[u8]) -> Option<Vec<(u64, Value<'_>)>> {
    let mut found = Vec::new();
    while !rest.is_empty() {
        let tag = varint(&mut rest)?;
        let value = match tag & 7 {
            VARINT => Value::Number(varint(&mut rest)?),
            FIXED_64 => Value::Bytes(split(&mut rest, 8)?),
            FIXED_32 => Value::Bytes(split(&mut rest, 4)?),
            BYTES => {
                let length = usize::try_from(varint(&mut rest)?).ok()?;
                Value::Bytes(split(&mut rest, length)?)
            }
            _ => return None,
        };
        found.push((tag >> 3, value));
    }
    Some(found)
}

fn split<'a>(rest: &mut &'a [u8], at: usize) -> Option<&'a [u8]> {
    let (first, others) = rest.split_at_checked(at)?;
    *rest = others;
    Some(first)
}

/// Seven bits a byte, the lowest first; the highest bit says that another follows.
fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = split(rest, 1)?[0];
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn put_bytes(out: &mut Vec<u8>, number: u64, bytes: &[u8]) {
    put_varint(out, number << 3 | BYTES);
    put_varint(out, bytes.len() as u64);
    out.extend(bytes);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn named(bytes: u64) -> Named {
        Named { sha256: "0123456789abcdef".repeat(4), bytes }
    }

    #[test]
    fn an_entry_is_an_action_result_of_the_remote_execution_api() {
        let entry = encode(&named(300));
        // output_files; path; digest; hash; size_bytes of two bytes.
        let mut expected = vec![0x12, 2 + 18 + 2 + 2 + 64 + 3, 0x0a, 18];
        expected.extend(PATH.bytes());
        expected.extend([0x12, 2 + 64 + 3, 0x0a, 64]);
        expected.extend(named(300).sha256.bytes());
        expected.extend([0x10, 0xac, 0x02]);
        assert_eq!(entry, expected);
        assert_eq!(decode(&entry), Some(named(300)));
    }

    #[test]
    fn what_servers_add_and_others_files_are_skipped() {
        let own = encode(&named(1));
        let mut other = Vec::new();
        put_bytes(&mut other, FILE_PATH, b"a.out");
        let mut entry = Vec::new();
        put_bytes(&mut entry, OUTPUT_FILES, &other);
        // exit_code; execution_metadata; fields that do not exist.
        entry.extend([0x20, 0x01]);
        put_bytes(&mut entry, 9, b"\x0a\x09127.0.0.1");
        entry.extend([100 << 3 & 0x7f | 0x80 | 1, 6, 1, 2, 3, 4, 5, 6, 7, 8]);
        entry.extend(&own);
        entry.extend([0x35, 1, 2, 3, 4]);
        assert_eq!(decode(&entry), Some(named(1)));
    }

    #[test]
    fn anything_else_is_no_entry() {
        let own = encode(&named(7));
        for length in 0..own.len() {
            assert_eq!(decode(&own[..length]), None, "{length} bytes");
        }
        let upper = Named { sha256: "ABCDEF0123456789".repeat(4), bytes: 1 };
        assert_eq!(decode(&encode(&upper)), None);
        let short = Named { sha256: "ab".to_string(), bytes: 1 };
        assert_eq!(decode(&encode(&short)), None);
        assert_eq!(decode(b"<html>not found</html>"), None);
        let huge = [0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        assert_eq!(decode(&huge), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes: Vec<u8>) {
            _ = decode(&bytes);
        }

        #[test]
        fn every_size_comes_back(bytes: u64) {
            prop_assert_eq!(decode(&encode(&named(bytes))), Some(named(bytes)));
        }
    }
}
