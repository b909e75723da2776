//! Packs answers with gzip, and unpacks them. Pure.

use std::io::{self, Write};

use crate::sys::input;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;

pub fn pack(answer: &[u8]) -> io::Result<Vec<u8>> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::default());
    packer.write_all(answer)?;
    packer.finish()
}

/// `None` if it has more than `limit` bytes.
pub fn unpack(packed: &[u8], limit: u64) -> io::Result<Option<Vec<u8>>> {
    match input::read_all(GzDecoder::new(packed), limit) {
        Err(error) if input::is_wrong_file(&error) => Ok(None),
        answer => answer.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_comes_back_and_a_bomb_does_not() {
        let answer = b"{\"type\":\"ended\"}\n".repeat(1000);
        let packed = pack(&answer).unwrap();
        assert!(packed.len() * 10 < answer.len());
        assert_eq!(unpack(&packed, answer.len() as u64).unwrap(), Some(answer.clone()));
        assert_eq!(unpack(&packed, answer.len() as u64 - 1).unwrap(), None);
        for length in [0, 5, packed.len() - 1] {
            assert!(unpack(&packed[..length], 1 << 20).is_err(), "{length} bytes");
        }
        let bomb = pack(&vec![0; 50 << 20]).unwrap();
        assert!(bomb.len() < 100_000);
        assert_eq!(unpack(&bomb, 1 << 20).unwrap(), None);
    }
}
