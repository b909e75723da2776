//! The known answers of guests: the user's own, and behind them those of a cache that several users share. A
//! shared answer is kept as the user's own once it may be used.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::backend::{AnswerDifference, CacheReport, UnusableAnswer};
use crate::model::{Coverage, Outcome};
use crate::sys::input;
use crate::sys::replace::replace;

use super::guest::{self, GuestOutput};
use super::preload::MAX_COVERED_BYTES;
use super::results::{Results, digest};
use super::shared::SharedCache;

pub struct Answers {
    own: Results,
    shared: Option<SharedCache>,
    /// The folder for both of two answers that differ.
    differing: PathBuf,
}

/// An answer of the shared cache.
pub struct SharedAnswer {
    pub output: GuestOutput,
    /// It must be run again before it may be used.
    pub is_to_check: bool,
}

impl Answers {
    pub fn new(own: Results, shared: Option<SharedCache>, differing: PathBuf) -> Answers {
        Answers { own, shared, differing }
    }

    /// `covers`: an answer without the code that was executed is none.
    pub fn own(&self, key: &str, covers: bool) -> Option<GuestOutput> {
        let mut output = guest::parse(self.own.get(key)?).ok()?;
        if covers {
            output.coverage = Some(self.coverage(key)?);
        }
        Some(output)
    }

    fn coverage(&self, key: &str) -> Option<Coverage> {
        let packed = self.own.get(&coverage_key(key))?;
        let unpacked = input::unpacked(&*packed, MAX_COVERED_BYTES);
        input::read_all(unpacked, MAX_COVERED_BYTES).ok().map(Coverage)
    }

    /// Keeps the code that was executed next to the answer, which does not have it: who shares answers need not note it.
    pub fn keep_coverage(&self, key: &str, coverage: &Coverage) -> io::Result<()> {
        let mut packed = GzEncoder::new(Vec::new(), Compression::default());
        packed.write_all(&coverage.0)?;
        self.own.put(&coverage_key(key), &packed.finish()?)
    }

    /// Asks the shared cache. An answer that need not be checked is kept.
    pub fn shared(&self, key: &str) -> Option<SharedAnswer> {
        let shared = self.shared.as_ref()?;
        let bytes = shared.get(key)?;
        let output = match guest::parse(bytes) {
            Ok(output) => output,
            Err(fault) => {
                let why: String = fault.to_string().chars().take(160).collect();
                shared.unusable(UnusableAnswer::NoAnswer(why));
                return None;
            }
        };
        if !is_answer(&output) {
            let why = "it measured nothing, or not its machine".to_string();
            shared.unusable(UnusableAnswer::NoAnswer(why));
            return None;
        }
        let is_to_check = shared.is_to_check(key);
        if !is_to_check {
            shared.used(false);
            // If the copy fails, the cache is asked again the next time.
            _ = self.own.put(key, &output.bytes);
        }
        Some(SharedAnswer { output, is_to_check })
    }

    /// Keeps an answer that was measured here, and sends it to the shared cache if that has none. `theirs` is
    /// the cache's answer, which had to be checked.
    pub fn keep(&self, key: &str, bytes: &[u8], theirs: Option<&SharedAnswer>) -> io::Result<()> {
        let kept = self.own.put(key, bytes);
        let Some(shared) = &self.shared else { return kept };
        match theirs {
            None => shared.put(key, bytes),
            Some(theirs) => match guest::bytes_difference(&theirs.output.bytes, bytes) {
                None => shared.used(true),
                Some(difference) => self.differs(key, theirs, bytes, difference.to_string()),
            },
        }
        kept
    }

    /// Why an answer could not be kept, with the way out.
    pub fn not_kept(&self, error: &io::Error) -> String {
        self.own.not_kept(error)
    }

    /// Records that a guest which ran again here gave no answer, though the shared cache has one.
    pub fn not_answered(&self, key: &str, output: &GuestOutput, theirs: Option<&SharedAnswer>) {
        if let Some(theirs) = theirs {
            let what = match &output.outcome {
                Outcome::Failed { reason } => format!("here the run failed: {reason}"),
                Outcome::Skipped { reason } => format!("here the run was skipped: {reason}"),
                Outcome::Done { .. } => "here nothing was measured".to_string(),
            };
            self.differs(key, theirs, &output.bytes, what);
        }
    }

    fn differs(&self, key: &str, theirs: &SharedAnswer, ours: &[u8], what: String) {
        let kept = [("cache", &theirs.output.bytes[..]), ("here", ours)].map(|(whose, bytes)| {
            let path = self.differing.join(format!("{key}.{whose}"));
            fs::create_dir_all(&self.differing)
                .and_then(|()| replace(&path, |out| out.write_all(bytes)))
                .map(|()| path)
                .ok()
        });
        let kept = match kept {
            [Some(theirs), Some(ours)] => Some([theirs, ours]),
            _ => None,
        };
        if let Some(shared) = &self.shared {
            shared.differs(AnswerDifference { key: key.to_string(), what, kept });
        }
    }

    pub fn end(&self) -> Option<CacheReport> {
        self.shared.as_ref().map(SharedCache::end)
    }
}

fn coverage_key(key: &str) -> String {
    digest(&[b"covered", key.as_bytes()])
}

/// Whether an answer is complete: the results, and the machine on which they were measured.
fn is_answer(output: &GuestOutput) -> bool {
    matches!(output.outcome, Outcome::Done { .. }) && output.facts.is_some()
}

/// The folder for answers that differ.
pub fn differing(state: &Path) -> PathBuf {
    state.join("cache-differences")
}

#[cfg(all(test, feature = "cache"))]
mod tests {
    use super::super::guest::tests::READY;
    use super::super::shared::testing::Server;
    use super::*;
    use crate::backend::CacheFault;
    use crate::model::{GuestMessage, Reading, RunResult, SharedCache as Asked};

    fn answer(measured_ns: u64) -> Vec<u8> {
        let unknown = Reading::Unknown("a guest".to_string());
        let result = RunResult::new(measured_ns, Vec::new(), unknown);
        let outcome = Outcome::Done { result: Box::new(result) };
        let end = serde_json::to_string(&GuestMessage::Ended { outcome }).unwrap();
        format!("{READY}\n{end}\n").into_bytes()
    }

    /// A user with a separate home.
    fn user(server: &Server, home: &Path, trust_percent: f64) -> Answers {
        let url = server.url.parse().unwrap();
        let asked = Asked { url, may_write: true, trust_percent };
        let shared = SharedCache::open(&asked, home).unwrap();
        let own = Results::open(&home.join("results")).unwrap();
        Answers::new(own, Some(shared), differing(home))
    }

    fn key() -> String {
        "0123456789abcdef".repeat(4)
    }

    #[test]
    fn an_answer_without_the_code_that_was_executed_is_none_where_that_is_asked_for() {
        let home = tempfile::tempdir().unwrap();
        let own = Results::open(home.path()).unwrap();
        let answers = Answers::new(own, None, differing(home.path()));
        answers.keep(&key(), &answer(7), None).unwrap();
        assert!(answers.own(&key(), false).is_some() && answers.own(&key(), true).is_none());
        let coverage = Coverage((0..60_000).map(|at| (at % 250) as u8).collect());
        answers.keep_coverage(&key(), &coverage).unwrap();
        assert_eq!(answers.own(&key(), true).unwrap().coverage, Some(coverage));
        assert_eq!(answers.own(&key(), false).unwrap().coverage, None);
        let too_much = Coverage(vec![0; MAX_COVERED_BYTES as usize + 1]);
        answers.keep_coverage(&key(), &too_much).unwrap();
        assert!(answers.own(&key(), true).is_none());
    }

    #[test]
    fn an_answer_of_another_user_becomes_ones_own() {
        let (server, homes) = (Server::kept(), [(); 2].map(|()| tempfile::tempdir().unwrap()));
        let first = user(&server, homes[0].path(), 100.0);
        assert!(first.own(&key(), false).is_none() && first.shared(&key()).is_none());
        first.keep(&key(), &answer(7), None).unwrap();
        assert_eq!(first.end().unwrap().sent, 1);
        let second = user(&server, homes[1].path(), 100.0);
        assert!(second.own(&key(), false).is_none());
        let found = second.shared(&key()).unwrap();
        assert!(!found.is_to_check);
        assert_eq!(found.output.bytes, answer(7));
        assert_eq!(second.own(&key(), false).unwrap().bytes, answer(7), "it is kept");
        let report = second.end().unwrap();
        assert_eq!((report.answers, report.checked, report.sent), (1, 0, 0));
    }

    #[test]
    fn an_answer_that_is_checked_is_used_if_it_is_the_same() {
        let (server, home) = (Server::kept(), tempfile::tempdir().unwrap());
        let first = user(&server, &home.path().join("first"), 0.0);
        first.keep(&key(), &answer(7), None).unwrap();
        first.end();
        for (ours, differences) in [(7, 0), (8, 1)] {
            let state = home.path().join(ours.to_string());
            let user = user(&server, &state, 0.0);
            let theirs = user.shared(&key()).unwrap();
            assert!(theirs.is_to_check && user.own(&key(), false).is_none());
            user.keep(&key(), &answer(ours), Some(&theirs)).unwrap();
            assert_eq!(
                user.own(&key(), false).unwrap().bytes,
                answer(ours),
                "what was measured here"
            );
            let report = user.end().unwrap();
            assert_eq!(report.differences.len(), differences);
            assert_eq!((report.checked, report.sent), (1 - differences as u64, 0));
            for difference in report.differences {
                let [theirs, ours] = difference.kept.unwrap().map(|path| fs::read(path).unwrap());
                assert_eq!([theirs, ours], [answer(7), answer(8)]);
                assert!(difference.what.contains("differ at byte"), "{}", difference.what);
                assert_eq!(report.faults, [CacheFault::Differs]);
            }
        }
    }

    #[test]
    fn a_run_that_fails_here_is_another_answer() {
        let (server, home) = (Server::kept(), tempfile::tempdir().unwrap());
        let first = user(&server, home.path(), 0.0);
        first.keep(&key(), &answer(7), None).unwrap();
        first.end();
        let second = user(&server, &home.path().join("second"), 0.0);
        let theirs = second.shared(&key());
        let skipped =
            GuestOutput::not_started(Outcome::Skipped { reason: "no such knob".to_string() });
        second.not_answered(&key(), &skipped, None);
        assert!(second.end().unwrap().differences.is_empty());
        second.not_answered(&key(), &skipped, theirs.as_ref());
        let differences = second.end().unwrap().differences;
        assert_eq!(differences[0].what, "here the run was skipped: no such knob");
    }

    #[test]
    fn what_is_no_answer_of_a_guest_is_missing() {
        let end = r#"{"type":"ended","outcome":{"status":"failed","reason":"no"}}"#;
        let failed = format!("{READY}\n{end}\n").into_bytes();
        let no_machine = answer(7)[READY.len()..].to_vec();
        for bytes in [failed, no_machine, b"hello".to_vec(), answer(7)[..400].to_vec()] {
            let (server, home) = (Server::kept(), tempfile::tempdir().unwrap());
            let first = user(&server, home.path(), 100.0);
            first.keep(&key(), &bytes, None).unwrap();
            first.end();
            let second = user(&server, &home.path().join("second"), 100.0);
            assert!(second.shared(&key()).is_none());
            let report = second.end().unwrap();
            let is_expected = |fault: &CacheFault| {
                let first = |first: &UnusableAnswer| matches!(first, UnusableAnswer::NoAnswer(_));
                matches!(fault, CacheFault::Unusable { times: 1, first: why } if first(why))
            };
            assert!(report.faults.iter().all(is_expected) && report.faults.len() == 1);
            assert_eq!(report.answers, 0);
        }
    }
}
