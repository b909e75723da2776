//! The machine that a plan for the lab names: a file of `schedlab twin`, or this one.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::exec;
use crate::model::{Advice, Environment, Lab, Problem, Twin, clean, clean_path, quoted};
use crate::plan;
use crate::sys::replace::{NewFile, replace};
use crate::sys::{self, Host, input, remedy};

use super::{Database, Notice, SessionError};

/// The word by which plans name this machine.
pub const HERE: &str = "twin";
/// The file of this machine, in the state folder.
const FILE: &str = "machine.toml";
/// A machine's file is some kilobytes; a plan may name a file that has no end.
const MAX_BYTES: u64 = 1 << 20;

/// The guests of a plan for the lab, with the machine that it names, or `machine` in its place: a file, or
/// the word of this one. A dry run measures nothing: it has the delays of a machine that names none.
pub fn lab_of_plan(
    name: &str,
    text: &str,
    machine: Option<&str>,
    dry_run: bool,
    db: &Database,
) -> Result<Lab, SessionError> {
    let lab = plan::lab(name, text, None)?;
    let twin = match (machine, &lab.model.twin) {
        (None, None) => return Ok(lab),
        (Some(HERE), _) => here(dry_run, db)?,
        (Some(file), _) => Some(read(Path::new(file))?),
        (None, Some(named)) if named == HERE => here(dry_run, db)?,
        (None, Some(named)) => Some(read(&next_to(name, named))?),
    };
    let Some(twin) = twin else { return Ok(lab) };
    report_load(&twin, db);
    Ok(plan::lab(name, text, Some(&twin))?)
}

/// This machine's file, if it is of the machine as it is.
pub fn known(environment: &Environment) -> Result<Twin, SessionError> {
    let path = own_file()?;
    let twin = read(&path)?;
    match twin.is_of(environment) {
        true => Ok(twin),
        false => {
            let text = format!("{} is of {}", path.display(), clean(&twin.name()));
            Err(SessionError::here(text, "schedlab twin"))
        }
    }
}

/// This machine: from its file, else measured. A measurement that load of others lengthened serves this plan alone.
fn here(dry_run: bool, db: &Database) -> Result<Option<Twin>, SessionError> {
    if let Ok(twin) = known(&sys::environment(&Host::default())) {
        return Ok(Some(twin));
    }
    db.notify(&Notice::MeasuringMachine { dry_run });
    if dry_run {
        return Ok(None);
    }
    let path = own_file()?;
    make_folder(&path)?;
    let twin = measured()?;
    keep_undisturbed(&twin, &path)?;
    Ok(Some(twin))
}

fn keep_undisturbed(twin: &Twin, path: &Path) -> Result<(), SessionError> {
    if twin.other_cpus().is_none() { write(twin, path) } else { Ok(()) }
}

pub fn own_file() -> Result<PathBuf, SessionError> {
    let state = sys::state_dir()?;
    Ok(state.join(FILE))
}

/// The path of a file that a plan names: it begins at the plan's folder.
pub fn next_to(plan: &str, named: &str) -> PathBuf {
    Path::new(plan).parent().unwrap_or(Path::new("")).join(named)
}

pub fn read(path: &Path) -> Result<Twin, SessionError> {
    let shown = clean_path(path);
    let text = input::read_text_file(path, MAX_BYTES).map_err(|error| {
        let text = format!("the machine {shown} cannot be read: {error}");
        let hint = match error.kind() {
            io::ErrorKind::NotFound => format!("schedlab twin -o {}", quoted(&shown)),
            _ => remedy::read(path, &error),
        };
        SessionError::unread(text, hint, &error)
    })?;
    Twin::parse(&text).map_err(|error| {
        let message = format!("the machine {shown}: {error}");
        SessionError::Usage(Problem { message, ..error.problem() })
    })
}

/// Measures this machine into a file.
pub fn measure(path: &Path) -> Result<Twin, SessionError> {
    // A file that cannot be written shows before the measurement.
    make_folder(path)?;
    NewFile::begin(path).map(drop).map_err(|error| SessionError::unwritten(path, &error))?;
    let twin = measured()?;
    write(&twin, path)?;
    Ok(twin)
}

fn measured() -> Result<Twin, SessionError> {
    exec::measure_twin(&Host::default()).map_err(|error| {
        SessionError::here(error.to_string(), error.hint().unwrap_or("schedlab doctor".into()))
    })
}

fn make_folder(path: &Path) -> Result<(), SessionError> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let made = folder.map_or(Ok(()), fs::create_dir_all);
    made.map_err(|error| SessionError::unwritten(path, &error))
}

fn write(twin: &Twin, path: &Path) -> Result<(), SessionError> {
    let written = replace(path, |out| out.write_all(twin.text().as_bytes()));
    written.map_err(|error| SessionError::unwritten(path, &error))
}

/// Reports load of other programs that lengthened what was measured.
pub fn report_load(twin: &Twin, db: &Database) {
    if let Some(cpus) = twin.other_cpus() {
        db.notify(&Notice::OtherLoad { cpus });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Reading, twin_testing};

    #[test]
    fn a_machine_is_kept_where_no_load_lengthened_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("machine.toml");
        for (other_load, is_kept) in [(2.5, false), (0.05, true)] {
            let twin = Twin { other_load: Reading::Known(other_load), ..twin_testing::twin() };
            keep_undisturbed(&twin, &path).unwrap();
            assert_eq!(path.exists(), is_kept, "{other_load}");
        }
    }

    #[test]
    fn a_machine_lies_next_to_its_plan() {
        let cases = [
            ("plans/web.toml", "m.toml", "plans/m.toml"),
            ("web.toml", "m.toml", "m.toml"),
            ("/p/web.toml", "/m/m.toml", "/m/m.toml"),
        ];
        for (plan, named, path) in cases {
            assert_eq!(next_to(plan, named), Path::new(path));
        }
    }
}
