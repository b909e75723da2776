//! The folder of a plan that controller and nodes share, and the names of its files.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::sys::{self, replace::NewFile, replace::replace};

use super::error::FleetError;

/// The script that starts a task. Slurm copies it, so it cannot find its own folder.
const SCRIPT: &str = "#!/bin/sh\nexec \"$1/schedlab\" \"$2\" \"$1\" ${3+\"$3\"}\n";

/// Writes a file and syncs it to the disk before it returns, because another machine reads it.
pub fn put(path: &Path, text: &[u8]) -> Result<(), FleetError> {
    replace(path, |out| out.write_all(text)).map_err(FleetError::io("write", path))
}

/// The folder of one plan.
#[derive(Debug, Clone)]
pub struct JobFolder(pub PathBuf);

/// One copy of one task of one array.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Copy {
    pub array: u32,
    pub restart: u32,
    pub task: u32,
}

impl Copy {
    fn file(self) -> String {
        format!("{}-{}.{}", self.array, self.task, self.restart)
    }

    pub fn parse(name: &str) -> Option<Copy> {
        let (place, restart) = name.split_once('.')?;
        let (array, task) = place.split_once('-')?;
        let copy = Copy {
            array: array.parse().ok()?,
            task: task.parse().ok()?,
            restart: restart.parse().ok()?,
        };
        (copy.file() == name).then_some(copy)
    }
}

impl JobFolder {
    /// Makes the folder with a copy of this program: all nodes run the same bytes.
    pub fn make(path: &Path) -> Result<JobFolder, FleetError> {
        let io = |action| FleetError::io(action, path);
        fs::create_dir_all(path).map_err(io("make the folder"))?;
        let path = path.canonicalize().map_err(io("find the folder"))?;
        if path
            .to_str()
            .is_none_or(|text| text.contains(['%', '\\']) || text.contains(char::is_control))
        {
            return Err(FleetError::Folder { path });
        }
        let folder = JobFolder(path);
        for part in [folder.answers(), folder.outputs()] {
            fs::create_dir_all(&part).map_err(FleetError::io("make the folder", &part))?;
        }
        let own = std::env::current_exe()
            .map_err(FleetError::io("find this program", Path::new("/proc/self/exe")))?;
        folder.put_program("schedlab", |out| io::copy(&mut File::open(&own)?, out).map(drop))?;
        folder.put_program("task.sh", |out| out.write_all(SCRIPT.as_bytes()))?;
        Ok(folder)
    }

    /// Replaces a program that a task may be using.
    fn put_program(
        &self,
        name: &str,
        write: impl FnOnce(&mut NewFile) -> io::Result<()>,
    ) -> Result<(), FleetError> {
        let path = self.0.join(name);
        let put = || {
            let mut file = NewFile::begin(&path)?.with_mode(0o755);
            write(&mut file)?;
            file.finish()
        };
        put().map_err(FleetError::io("write", &path))
    }

    pub fn script(&self) -> PathBuf {
        self.0.join("task.sh")
    }

    pub fn answers(&self) -> PathBuf {
        self.0.join("answers")
    }

    pub fn answers_of(&self, copy: Copy) -> PathBuf {
        self.answers().join(copy.file())
    }

    fn outputs(&self) -> PathBuf {
        self.0.join("output")
    }

    /// The file of a task's output; sbatch gets `%a` for the task's number.
    pub fn output_of(&self, array: u32, task: &str) -> PathBuf {
        self.outputs().join(format!("{array}-{task}"))
    }

    pub fn array(&self, array: u32) -> PathBuf {
        self.0.join(format!("array-{array}"))
    }

    pub fn job(&self, array: u32) -> PathBuf {
        self.array(array).join("job.json")
    }

    pub fn batch(&self, array: u32, task: u32) -> PathBuf {
        self.array(array).join(format!("{task}.json"))
    }

    /// The store of each host that measures the whole plan.
    pub fn hosts(&self) -> PathBuf {
        self.0.join("hosts")
    }

    /// Specs that were announced.
    pub fn specs(&self) -> PathBuf {
        self.0.join("specs")
    }
}

/// The parent of the plans' folders, unless the user names another one.
pub fn default_folder() -> Result<PathBuf, FleetError> {
    sys::state_dir()
        .map(|state| state.join("fleet"))
        .map_err(|why| FleetError::Task(why.to_string()))
}

/// An id from outside as a part of names: letters and digits of ASCII, `-` and `_`.
pub fn name_part(id: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
    id.chars().map(|c| if is_plain(c) { c } else { '_' }).take(100).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_tasks_are_known_by_their_names() {
        let copy = Copy { array: 3, restart: 1, task: 20 };
        let path = JobFolder(PathBuf::from("/f")).answers_of(copy);
        assert_eq!(path, Path::new("/f/answers/3-20.1"));
        assert_eq!(Copy::parse("3-20.1"), Some(copy));
        for other in ["", "3-20", "3.1", "03-20.1", "3-20.1.swp", "+3-20.1", ".3-20.1"] {
            assert_eq!(Copy::parse(other), None, "{other}");
        }
        assert_eq!(name_part("20261121-012345-3f9a"), "20261121-012345-3f9a");
        assert_eq!(name_part("../../x y"), "______x_y");
    }
}
