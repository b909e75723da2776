//! The files that a controller and its tasks exchange in their shared folder. Results have the same types as
//! those of a runner and a guest. No I/O.

use serde::{Deserialize, Serialize};

use crate::backend::contract::{GuestMachine, Mode};
use crate::backend::lab::digest;
use crate::model::{Lab, Outcome, RunSpec, Window};

/// The version of these files, checked by tasks.
pub const FORMAT: u32 = 1;
/// Hexadecimal digits of a digest.
const SUM: usize = 64;
/// The name of the line that says where a task runs.
const NODE: &str = "node";

/// The job that all tasks of an array do.
#[derive(Debug, Serialize, Deserialize)]
pub struct ArrayJob {
    pub format: u32,
    pub backend: String,
    pub lab: Lab,
    pub mode: Mode,
    /// The digest of the program.
    pub program: String,
}

/// The runs of one task.
#[derive(Debug, Serialize, Deserialize)]
pub struct Batch {
    /// The machine that their guests must have.
    pub machine: Option<GuestMachine>,
    /// Specs without seeds.
    pub specs: Vec<RunSpec>,
    /// The position of the spec and the seed of each run, in order.
    pub runs: Vec<(usize, u64)>,
}

impl Batch {
    /// Serializes a [`Batch`] from specs that are serialized already.
    pub fn text(
        machine: Option<&GuestMachine>,
        specs: &[Vec<u8>],
        runs: &[(usize, u64)],
    ) -> Result<Vec<u8>, serde_json::Error> {
        let (machine, runs) = (serde_json::to_vec(&machine)?, serde_json::to_vec(runs)?);
        let specs = specs.join(&b","[..]);
        let parts: [&[u8]; 7] =
            [b"{\"machine\":", &machine, b",\"specs\":[", &specs, b"],\"runs\":", &runs, b"}"];
        Ok(parts.concat())
    }

    /// The specs of its runs, with their seeds. Positions outside `specs` are skipped.
    pub fn run_specs(&self) -> impl Iterator<Item = RunSpec> {
        let spec = |(at, seed): &(usize, u64)| {
            self.specs.get(*at).map(|spec| RunSpec { seed: *seed, ..spec.clone() })
        };
        self.runs.iter().filter_map(spec)
    }
}

/// Distinguishes the runs of a plan: by the digest of the spec without its seed, and the seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RunName {
    pub spec: u128,
    pub seed: u64,
}

impl RunName {
    /// Names a run. Also returns its spec as text, without the seed.
    pub fn from_spec(spec: &RunSpec) -> Result<(RunName, Vec<u8>), serde_json::Error> {
        let text = serde_json::to_vec(&RunSpec { seed: 0, ..spec.clone() })?;
        let sum = digest(&[&text]);
        let number = sum.get(..32).and_then(|hex| u128::from_str_radix(hex, 16).ok());
        Ok((RunName { spec: number.unwrap_or_default(), seed: spec.seed }, text))
    }

    fn parse(text: &str) -> Option<RunName> {
        let (spec, seed) = text.split_once('-')?;
        let spec = u128::from_str_radix(spec, 16).ok()?;
        Some(RunName { spec, seed: u64::from_str_radix(seed, 16).ok()? })
    }
}

impl std::fmt::Display for RunName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:032x}-{:016x}", self.spec, self.seed)
    }
}

/// A run's end, with its windows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    pub windows: Vec<Window>,
    pub outcome: Outcome,
}

/// Where a task runs: the first line of its file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    pub name: String,
    pub cpu: String,
    pub program: String,
    pub machine: Option<GuestMachine>,
    /// Why nothing can be run there.
    pub refused: Option<String>,
}

/// The subject of a line in a task's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Subject {
    Node,
    Run(RunName),
}

impl std::fmt::Display for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Subject::Node => f.write_str(NODE),
            Subject::Run(name) => name.fmt(f),
        }
    }
}

/// Formats `SUM SUBJECT JSON`: the sum is the digest of the two others.
pub fn line(subject: Subject, what: &impl Serialize) -> Result<Vec<u8>, serde_json::Error> {
    let (subject, json) = (subject.to_string(), serde_json::to_vec(what)?);
    let sum = digest(&[subject.as_bytes(), &json]);
    let parts: [&[u8]; 6] = [sum.as_bytes(), b" ", subject.as_bytes(), b" ", &json, b"\n"];
    Ok(parts.concat())
}

/// A line, without its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line<'a> {
    pub sum: &'a str,
    pub subject: Subject,
    pub json: &'a [u8],
}

impl<'a> Line<'a> {
    /// `None` if the line is damaged.
    pub fn parse(line: &'a [u8]) -> Option<Line<'a>> {
        let (sum, rest) = line.split_at_checked(SUM)?;
        let rest = rest.strip_prefix(b" ")?;
        let end = rest.iter().position(|byte| *byte == b' ')?;
        let (name, json) = (std::str::from_utf8(&rest[..end]).ok()?, &rest[end + 1..]);
        let sum = std::str::from_utf8(sum).ok()?;
        if digest(&[name.as_bytes(), json]) != sum {
            return None;
        }
        let subject = match name {
            NODE => Subject::Node,
            name => Subject::Run(RunName::parse(name)?),
        };
        Some(Line { sum, subject, json })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::lab::tests::spec;

    #[test]
    fn a_line_that_was_torn_or_changed_is_none() {
        let (name, _) = RunName::from_spec(&spec("v", 7)).unwrap();
        let failed = Outcome::Failed { reason: "on\npurpose".to_string() };
        let answer = Answer { windows: Vec::new(), outcome: failed };
        let written = line(Subject::Run(name), &answer).unwrap();
        let (end, text) = written.split_last().unwrap();
        assert_eq!((*end, text.contains(&b'\n')), (b'\n', false));
        let read = Line::parse(text).unwrap();
        assert_eq!(read.subject, Subject::Run(name));
        assert_eq!(serde_json::from_slice::<Answer>(read.json).unwrap(), answer);
        for end in 0..text.len() {
            assert_eq!(Line::parse(&text[..end]), None, "{end}");
        }
        for at in 0..text.len() {
            let mut changed = text.to_vec();
            changed[at] = 0;
            assert_eq!(Line::parse(&changed), None, "{at}");
        }
    }

    #[test]
    fn a_batch_is_written_from_parts_and_read_as_a_whole() {
        let specs = [spec("a", 3), spec("b", 4)];
        let texts: Vec<Vec<u8>> =
            specs.iter().map(|spec| RunName::from_spec(spec).unwrap().1).collect();
        let text = Batch::text(None, &texts, &[(1, 4), (0, 3), (7, 0)]).unwrap();
        let batch: Batch = serde_json::from_slice(&text).unwrap();
        let [first, second] = specs;
        assert_eq!(batch.run_specs().collect::<Vec<_>>(), [second, first]);
    }

    #[test]
    fn runs_that_differ_have_names_that_differ() {
        let name = |variant: &str, seed| RunName::from_spec(&spec(variant, seed)).unwrap().0;
        assert_eq!(name("a", 1), name("a", 1));
        assert!(name("a", 1) != name("a", 2) && name("a", 1) != name("b", 1));
        assert_eq!(RunName::parse(&name("a", u64::MAX).to_string()), Some(name("a", u64::MAX)));
    }
}
