//! The output of programs, as it is stored and as it is listed.

use std::io::{self, Read, Write};

use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;

use super::connection::Store;
use super::digest::Part;
use super::error::{Fault, StoreError};
use crate::model::ProgramRecord;

/// No output is longer.
pub(super) const MAX_BYTES: u64 = 16 << 20;

pub(super) fn pack(text: &str) -> io::Result<Vec<u8>> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text.as_bytes())?;
    encoder.finish()
}

/// Refuses a text that unpacks to more than `max_bytes`.
pub(super) fn unpack(bytes: &[u8], max_bytes: u64) -> io::Result<String> {
    let mut text = String::new();
    ZlibDecoder::new(bytes).take(max_bytes + 1).read_to_string(&mut text)?;
    if text.len() as u64 > max_bytes { Err(io::Error::other("it is too long")) } else { Ok(text) }
}

/// The stored output of the programs of one set in a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptOutput {
    pub round: u64,
    pub work: String,
    pub variant: String,
    pub set: String,
    pub record: ProgramRecord,
}

const OF_RUN: &str = "
    SELECT work, variant, worker_set.name, version, output
    FROM program JOIN worker_set USING (run, worker_set) JOIN run USING (run) JOIN cell USING (plan, cell)
    WHERE run = ?1 ORDER BY worker_set";

impl Store {
    /// In the order measured.
    pub fn outputs(&self, id: &str) -> Result<Vec<KeptOutput>, StoreError> {
        self.snapshot_of(id, |conn, plan| {
            let parts = [Part::Sets, Part::Programs];
            let mut select = conn.prepare_cached(OF_RUN)?;
            let mut outputs = Vec::new();
            for run in self.checked_runs(conn, (plan, id), &parts)? {
                let (number, round) = (run.row.run, run.row.key.round.into());
                let mut rows = select.query([number])?;
                while let Some(row) = rows.next()?.filter(|_| !run.is_damaged()) {
                    let packed: Vec<u8> = row.get(4)?;
                    let output = unpack(&packed, MAX_BYTES).map_err(|why| {
                        Fault::Damaged(format!("output of a program of run {number}: {why}"))
                    })?;
                    let (work, variant, set) = (row.get(0)?, row.get(1)?, row.get(2)?);
                    let record = ProgramRecord { version: row.get(3)?, output };
                    outputs.push(KeptOutput { round, work, variant, set, record });
                }
            }
            Ok(outputs)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_packed_and_no_flood_is_unpacked() {
        for text in ["", "a line\n", &"x".repeat(1 << 20)] {
            assert_eq!(unpack(&pack(text).unwrap(), MAX_BYTES).unwrap(), text);
        }
        assert!(pack(&"x".repeat(1 << 20)).unwrap().len() < 2048);
        assert!(unpack(&pack(&"x".repeat(17 << 20)).unwrap(), MAX_BYTES).is_err());
        assert!(unpack(b"other bytes", MAX_BYTES).is_err());
        let packed = pack("12345").unwrap();
        assert_eq!(unpack(&packed, 5).unwrap(), "12345");
        assert!(unpack(&packed, 4).is_err());
    }
}
