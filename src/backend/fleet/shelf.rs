//! The texts of specs, in a file: there may be more of them than memory should hold.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::error::FleetError;

pub struct Shelf {
    path: PathBuf,
    file: File,
    end: u64,
    /// The offset and the length of each.
    places: HashMap<u128, (u64, usize)>,
}

impl Shelf {
    pub fn make(path: &Path) -> Result<Shelf, FleetError> {
        let options =
            OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path);
        let file = options.map_err(FleetError::io("write", path))?;
        Ok(Shelf { path: path.to_path_buf(), file, end: 0, places: HashMap::new() })
    }

    /// Keeps a spec, once.
    pub fn put(&mut self, name: u128, text: &[u8]) -> Result<(), FleetError> {
        if self.places.contains_key(&name) {
            return Ok(());
        }
        self.file.write_all_at(text, self.end).map_err(FleetError::io("write", &self.path))?;
        self.places.insert(name, (self.end, text.len()));
        self.end += text.len() as u64;
        Ok(())
    }

    pub fn get(&self, name: u128) -> io::Result<Vec<u8>> {
        let (offset, bytes) = *self.places.get(&name).ok_or(io::ErrorKind::NotFound)?;
        let mut text = vec![0; bytes];
        self.file.read_exact_at(&mut text, offset)?;
        Ok(text)
    }
}
