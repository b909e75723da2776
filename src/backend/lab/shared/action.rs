//! The entry of `/ac/`: an `ActionResult` of the Remote Execution API (version 2) with one output
//! file, whose digest names the answer in `/cas/`. Servers check such entries, and add fields to
//! them; these are skipped. Pure.

use crate::model::protobuf::{Fields, Message, Wire, bytes, numbers};

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

/// The content that an entry names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// In hexadecimal, lower case.
    pub sha256: String,
    pub bytes: u64,
}

pub fn encode(named: &Named) -> Vec<u8> {
    let mut digest = Message::default();
    digest.text(DIGEST_HASH, &named.sha256).number(DIGEST_SIZE, named.bytes);
    let mut file = Message::default();
    file.text(FILE_PATH, PATH).message(FILE_DIGEST, &digest);
    let mut result = Message::default();
    result.message(OUTPUT_FILES, &file);
    result.0
}

/// `None` if the entry is not one of ours.
pub fn decode(result: &[u8]) -> Option<Named> {
    // All fields, since a part of an entry is not an entry.
    let fields = Fields::new(result).collect::<Result<Vec<_>, _>>().ok()?;
    let file = fields.into_iter().find_map(|field| match field {
        (OUTPUT_FILES, Wire::Bytes(file)) => {
            (bytes(file, FILE_PATH) == Ok(Some(PATH.as_bytes()))).then_some(file)
        }
        _ => None,
    })?;
    let digest = bytes(file, FILE_DIGEST).ok()??;
    let sha256 = std::str::from_utf8(bytes(digest, DIGEST_HASH).ok()??).ok()?;
    let is_hexadecimal =
        sha256.len() == 64 && sha256.bytes().all(|byte| b"0123456789abcdef".contains(&byte));
    let bytes = numbers(digest).ok()?.get(&DIGEST_SIZE).copied().unwrap_or_default();
    is_hexadecimal.then(|| Named { sha256: sha256.to_string(), bytes })
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
        let mut other = Message::default();
        other.text(FILE_PATH, "a.out");
        let mut entry = Message::default();
        entry.message(OUTPUT_FILES, &other);
        // exit_code; execution_metadata; fields that do not exist.
        entry.number(4, 1).bytes(9, b"\x0a\x09127.0.0.1");
        let mut entry = entry.0;
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
