//! The answers of guests that are known: this user's own, and below them those of a cache that
//! several users share. What comes from there is kept as the user's own once it may be used.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::backend::{AnswerDifference, CacheReport, UnusableAnswer};
use crate::model::Outcome;

use super::guest::{self, GuestOutput};
use super::results::Results;
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
    /// It is to be run again before it may be used.
    pub is_to_check: bool,
}

impl Answers {
    pub fn new(own: Results, shared: Option<SharedCache>, differing: PathBuf) -> Answers {
        Answers { own, shared, differing }
    }

    pub fn own(&self, key: &str) -> Option<GuestOutput> {
        guest::parse(self.own.get(key)?).ok()
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
            // Without a copy of its own it asks again the next time.
            _ = self.own.put(key, &output.bytes);
        }
        Some(SharedAnswer { output, is_to_check })
    }

    /// Keeps what was measured here, and sends it to the shared cache unless that has it. `theirs`: its
    /// answer, which was to be checked.
    pub fn keep(&self, key: &str, bytes: &[u8], theirs: Option<&SharedAnswer>) -> io::Result<()> {
        self.own.put(key, bytes)?;
        let Some(shared) = &self.shared else { return Ok(()) };
        match theirs {
            None => shared.put(key, bytes),
            Some(theirs) => match guest::bytes_difference(&theirs.output.bytes, bytes) {
                None => shared.used(true),
                Some(difference) => self.differs(key, theirs, bytes, difference.to_string()),
            },
        }
        Ok(())
    }

    /// What was run again here gave no answer at all.
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
                .and_then(|()| fs::write(&path, bytes))
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

/// Whether it is what is kept of a run: what was measured, and the machine that it was measured on.
fn is_answer(output: &GuestOutput) -> bool {
    matches!(output.outcome, Outcome::Done { .. }) && output.facts.is_some()
}

/// The folder for answers that differ.
pub fn differing(state: &Path) -> PathBuf {
    state.join("cache-differences")
}
