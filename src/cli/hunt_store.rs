//! Memory of hunts: cases as stored plans with a tag, and how far each hunt of a folder is, with the cases that it was
//! about to make smaller.

use std::collections::BTreeMap;
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use serde::{Deserialize, Serialize};

use crate::hunt::{Case, Machine, size};
use crate::model::{SampledPlan, clean, clean_path, mistyped};
use crate::session::{self, PlanSource, PlanText, Preparation, Request, SessionError};
use crate::store::Note;
use crate::sys::replace::replace;
use crate::sys::{clock, input};

use super::{Database, Failure};

/// Stored plans that are cases of hunts have it.
pub const TAG: &str = "hunt";
const FILE: &str = "hunts.json";
const MAX_BYTES: u64 = 1 << 20;

/// Measures a case as a plan that is stored, tagged, with a note. Runs with a result are cached, and take no time; the
/// others are made again until `stop`. Returns its id.
pub fn store_case(
    text: String,
    note: String,
    stop: &AtomicBool,
) -> Result<Option<String>, Failure> {
    let text = PlanText::new("schedlab hunt", text);
    let backend = Some(SampledPlan::LAB.to_string());
    let request = Request { plan: PlanSource::Text(text), backend, ..Request::default() };
    let Preparation::Ready(prepared) = session::prepare(request)? else { return Ok(None) };
    let mut finished = session::execute(*prepared, stop, &mut ())?;
    let id = finished.started.id.clone();
    finished.store.tag(id.as_str(), TAG)?;
    let note = Note { written_unix_ns: clock::unix_ns(), text: note };
    finished.store.add_note(id.as_str(), &note)?;
    Ok(Some(id))
}

/// Takes the tag from a stored plan once another one of the same case has its place. The user may have removed it.
pub fn unlist(id: &str, db: &Database) -> Result<(), Failure> {
    let mut store = db.open()?;
    if store.plan_heads()?.iter().any(|head| head.id == id) {
        store.untag(id, TAG)?;
    }
    Ok(())
}

/// A case that is not as small as it goes yet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Unfinished {
    /// The number of its file: `hunt-1.toml`.
    pub number: u32,
    pub rule: String,
    /// Kernels differ by the rule.
    pub differs: bool,
    pub kernel: String,
    pub machine: String,
    /// As it was found.
    pub case: Case,
    /// The smallest case that it has become so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub smallest: Option<Smallest>,
    /// The id of its stored plan, once it was interrupted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stored: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Smallest {
    pub machine: String,
    pub case: Case,
}

impl Unfinished {
    /// Whether both are one case, as it was found.
    fn is_same(&self, other: &Unfinished) -> bool {
        let (number, stored, smallest) = (self.number, self.stored.clone(), self.smallest.clone());
        *self == Unfinished { number, stored, smallest, ..other.clone() }
    }

    /// The machine and the case from which it is made smaller.
    pub fn begin(&self) -> (&str, &Case) {
        let smallest = self.smallest.as_ref().map(|own| (own.machine.as_str(), &own.case));
        smallest.unwrap_or((&self.machine, &self.case))
    }

    /// Each step of a case that is made smaller is less than the one before.
    fn extent(&self) -> impl Ord + use<> {
        let (machine, case) = self.begin();
        (size(case), machine.parse::<Machine>().ok())
    }

    /// With its new stored plan, or the last one where there is none.
    pub fn stored_again(&self, stored: Option<String>) -> Unfinished {
        Unfinished { stored: stored.or(self.stored.clone()), ..self.clone() }
    }
}

#[cfg(test)]
impl Unfinished {
    /// A case without tasks.
    pub fn invented(number: u32, rule: &str) -> Unfinished {
        Unfinished {
            number,
            rule: rule.to_string(),
            differs: false,
            kernel: "debian:6.18".to_string(),
            machine: "4x2".to_string(),
            case: Case { sets: Vec::new(), offline: None },
            smallest: None,
            stored: None,
        }
    }
}

/// A number alone where no case is unfinished.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Entry {
    Scenarios(u64),
    WithCases { scenarios: u64, unfinished: Vec<Unfinished> },
}

#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(from = "Entry", into = "Entry")]
struct Done {
    scenarios: u64,
    unfinished: Vec<Unfinished>,
}

impl From<Entry> for Done {
    fn from(entry: Entry) -> Done {
        match entry {
            Entry::Scenarios(scenarios) => Done { scenarios, unfinished: Vec::new() },
            Entry::WithCases { scenarios, unfinished } => Done { scenarios, unfinished },
        }
    }
}

impl From<Done> for Entry {
    fn from(done: Done) -> Entry {
        let Done { scenarios, unfinished } = done;
        match unfinished.is_empty() {
            true => Entry::Scenarios(scenarios),
            false => Entry::WithCases { scenarios, unfinished },
        }
    }
}

/// While it lives no other hunt writes into the folder. `None`: the folder is not there, or its file system has no locks.
pub fn hold(folder: &Path) -> Result<Option<File>, Failure> {
    let Ok(file) = File::open(folder) else { return Ok(None) };
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::Error(_)) => Ok(None),
        Err(TryLockError::WouldBlock) => {
            let text = format!("another hunt writes its cases to {}", clean_path(folder));
            Err(Failure::here(text, "wait for it, or name another folder: -o FOLDER"))
        }
    }
}

/// Scenarios that hunts into a folder have had, and their unfinished cases, by their arguments.
pub struct Progress {
    path: PathBuf,
    arguments: String,
    done: BTreeMap<String, Done>,
}

impl Progress {
    pub fn open(folder: &Path, arguments: String) -> Result<Progress, Failure> {
        let path = folder.join(FILE);
        let done = match input::read_file(&path, MAX_BYTES) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|why| {
                let text = format!("{} does not say how far hunts are: {why}", clean_path(&path));
                Failure::here(text, format!("rm {}", crate::model::quoted(&path.to_string_lossy())))
            })?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => BTreeMap::new(),
            Err(error) => {
                let text = format!("cannot read {}: {error}", clean_path(&path));
                return Err(Failure::here(text, "-o FOLDER"));
            }
        };
        Ok(Progress { path, arguments, done })
    }

    /// Scenarios of the hunts of the same arguments before. Fails where there is none to go on with.
    pub fn to_go_on(&self) -> Result<u64, Failure> {
        if let Some(own) = self.done.get(&self.arguments) {
            return Ok(own.scenarios);
        }
        let own = clean(&self.arguments);
        let text = format!("no hunt of {own} is in {}", clean_path(&self.path));
        let hint = match mistyped(&self.arguments, self.done.keys().map(String::as_str)) {
            Some(near) => {
                format!("did you mean {}? Without --resume a new hunt begins", clean(near))
            }
            None => "without --resume a new hunt begins".to_string(),
        };
        Err(Failure::usage(text, hint))
    }

    pub fn unfinished(&self) -> Vec<Unfinished> {
        self.done.get(&self.arguments).map_or(Vec::new(), |own| own.unfinished.clone())
    }

    /// The same case, if it is unfinished and its file is no other one's.
    pub fn known(&self, case: &Unfinished) -> Option<Unfinished> {
        let own = self.unfinished().into_iter().find(|own| own.is_same(case))?;
        let is_alone = self.numbers().filter(|number| *number == own.number).count() == 1;
        is_alone.then_some(own)
    }

    /// The numbers of the unfinished cases of all hunts into the folder.
    pub fn numbers(&self) -> impl Iterator<Item = u32> {
        self.done.values().flat_map(|done| &done.unfinished).map(|own| own.number)
    }

    /// Keeps an unfinished case, in place of the same one, and the smaller of both.
    pub fn keep(&mut self, mut case: Unfinished) -> Result<(), Failure> {
        let own = self.done.entry(self.arguments.clone()).or_default();
        let last = own.unfinished.iter().find(|other| other.is_same(&case));
        if let Some(last) = last.filter(|last| last.extent() < case.extent()) {
            case.smallest = last.smallest.clone();
        }
        own.unfinished.retain(|other| !other.is_same(&case));
        own.unfinished.push(case);
        self.save()
    }

    pub fn finish(&mut self, case: &Unfinished) -> Result<(), Failure> {
        let own = self.done.entry(self.arguments.clone()).or_default();
        own.unfinished.retain(|other| !other.is_same(case));
        self.save()
    }

    /// A hunt that begins anew has fewer for a while.
    pub fn write(&mut self, done: u64) -> Result<(), Failure> {
        let own = self.done.entry(self.arguments.clone()).or_default();
        own.scenarios = own.scenarios.max(done);
        self.save()
    }

    fn save(&self) -> Result<(), Failure> {
        let written = replace(&self.path, |out| {
            serde_json::to_writer_pretty(&mut *out, &self.done)?;
            out.write_all(b"\n")
        });
        written.map_err(|error| SessionError::unwritten(&self.path, &error).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hunt::Generator;

    #[test]
    fn a_hunt_goes_on_where_the_last_one_of_the_same_arguments_stopped() {
        let dir = tempfile::tempdir().unwrap();
        let open = |arguments: &str| Progress::open(dir.path(), arguments.to_string());
        let mut first = open("debian:6.18, 4x2, seed 1").unwrap();
        let none = first.to_go_on().unwrap_err().to_string();
        assert!(none.ends_with("hint: without --resume a new hunt begins"), "{none}");
        first.write(16).unwrap();
        first.write(32).unwrap();
        first.write(16).unwrap();
        assert_eq!(open("debian:6.18, 4x2, seed 1").unwrap().to_go_on().unwrap(), 32);
        let text = std::fs::read_to_string(dir.path().join(FILE)).unwrap();
        assert!(text.contains("seed 1\": 32\n"), "{text}");
        let other = open("debian:6.18, 4x2, seed 2").unwrap().to_go_on().unwrap_err().to_string();
        assert!(other.contains("no hunt of debian:6.18, 4x2, seed 2 is in "), "{other}");
        assert!(other.contains("hint: did you mean debian:6.18, 4x2, seed 1? "), "{other}");
        std::fs::write(dir.path().join(FILE), "no").unwrap();
        let error = open("x").err().unwrap().to_string();
        assert!(error.contains("does not say how far") && error.contains("rm "), "{error}");
    }

    #[test]
    fn two_hunts_do_not_share_a_folder() {
        let dir = tempfile::tempdir().unwrap();
        let first = hold(dir.path()).unwrap();
        let error = hold(dir.path()).unwrap_err().to_string();
        assert!(error.contains("another hunt writes its cases to "), "{error}");
        assert!(hold(tempfile::tempdir().unwrap().path()).unwrap().is_some());
        drop(first);
        assert!(hold(dir.path()).unwrap().is_some());
        assert!(hold(&dir.path().join("none")).unwrap().is_none());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is left there");
    }

    #[test]
    fn an_unfinished_case_is_known_until_it_is_finished() {
        let dir = tempfile::tempdir().unwrap();
        let open = |arguments: &str| Progress::open(dir.path(), arguments.to_string()).unwrap();
        let case = Unfinished::invented;
        let mut first = open("seed 1");
        first.write(16).unwrap();
        first.keep(case(1, "starvation")).unwrap();
        first.keep(case(1, "starvation")).unwrap();
        first.keep(case(2, "fair shares")).unwrap();
        let mut again = open("seed 1");
        assert_eq!(again.to_go_on().unwrap(), 16);
        let known = again.known(&case(9, "starvation"));
        assert_eq!(known, Some(case(1, "starvation")), "by what it is, not by its number");
        assert_eq!(again.known(&case(1, "bandwidth")), None);
        assert_eq!(open("seed 2").unfinished(), []);
        again.keep(case(1, "starvation").stored_again(Some("a".to_string()))).unwrap();
        let stored = || open("seed 1").known(&case(9, "starvation")).unwrap().stored;
        assert_eq!(stored().as_deref(), Some("a"));
        let own = again.known(&case(9, "starvation")).unwrap();
        again.keep(own.stored_again(None)).unwrap();
        assert_eq!(stored().as_deref(), Some("a"), "no plan took its place");
        again.keep(own.stored_again(Some("b".to_string()))).unwrap();
        assert_eq!(stored().as_deref(), Some("b"));
        again.finish(&case(1, "starvation")).unwrap();
        assert_eq!(open("seed 1").unfinished(), [case(2, "fair shares")]);
    }

    #[test]
    fn a_case_that_became_smaller_is_not_replaced_by_a_larger_one() {
        let dir = tempfile::tempdir().unwrap();
        let open = || Progress::open(dir.path(), "seed 1".to_string()).unwrap();
        let case = |machine: &str, seed: u64, sets: usize| {
            let mut case = Generator::new(seed, 0, "4x2".parse().unwrap()).next_case();
            case.sets.truncate(sets);
            Smallest { machine: machine.to_string(), case }
        };
        let found = Unfinished { case: case("4x2", 1, 2).case, ..Unfinished::invented(1, "x") };
        let kept = |smallest: Option<Smallest>| {
            let mut progress = open();
            progress.keep(Unfinished { smallest, ..found.clone() }).unwrap();
            let all = open().unfinished();
            assert_eq!(all.len(), 1, "it is one case");
            assert_eq!(open().known(&found).as_ref(), all.first());
            let (machine, case) = all[0].begin();
            (machine.to_string(), case.sets.len())
        };
        let is = |machine: &str, sets: usize| (machine.to_string(), sets);
        assert_eq!(kept(None), is("4x2", 2));
        assert_eq!(kept(Some(case("4x2", 1, 1))), is("4x2", 1));
        assert_eq!(kept(None), is("4x2", 1), "as a hunt that goes on begins, and ends at once");
        assert_eq!(kept(Some(case("2x1", 1, 1))), is("2x1", 1), "a smaller guest");
        assert_eq!(kept(Some(case("4x2", 1, 1))), is("2x1", 1));
        assert_eq!(kept(Some(case("2x1", 1, 0))), is("2x1", 0));
    }

    #[test]
    fn unfinished_cases_of_one_number_do_not_replace_each_other() {
        let dir = tempfile::tempdir().unwrap();
        let open = |arguments: &str| Progress::open(dir.path(), arguments.to_string()).unwrap();
        let mut first = open("seed 1");
        first.keep(Unfinished::invented(1, "starvation")).unwrap();
        let mut other = open("seed 2");
        other.keep(Unfinished::invented(1, "bandwidth")).unwrap();
        other.keep(Unfinished::invented(1, "fair shares")).unwrap();
        other.keep(Unfinished::invented(4, "accounting")).unwrap();
        assert_eq!(other.unfinished().len(), 3);
        assert_eq!(other.numbers().collect::<Vec<u32>>(), [1, 1, 1, 4]);
        let known = |rule: &str| other.known(&Unfinished::invented(0, rule)).map(|own| own.number);
        let rules = ["bandwidth", "fair shares", "accounting"];
        assert_eq!(rules.map(known), [None, None, Some(4)], "a file has one case");
        // It gets a number of its own.
        other.keep(Unfinished::invented(2, "bandwidth")).unwrap();
        assert_eq!(other.numbers().collect::<Vec<u32>>(), [1, 1, 4, 2]);
        other.finish(&Unfinished::invented(1, "fair shares")).unwrap();
        assert_eq!(open("seed 1").unfinished(), [Unfinished::invented(1, "starvation")]);
        assert!(open("seed 1").known(&Unfinished::invented(0, "starvation")).is_some());
    }
}
