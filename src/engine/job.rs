//! A plan's runs: which are done, and which it still wants. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::model::{Cut, Division, Outcome, PlanStarted, RoundLimits, RunKey, WorkRounds};
use crate::plan;

/// A plan and the runs of it that are done.
#[derive(Clone)]
pub struct Job {
    pub started: PlanStarted,
    /// The plan's own, unless rounds are added to it.
    pub budget: Option<Duration>,
    /// Minimum number of rounds, even if the budget is spent.
    pub min_rounds: u32,
    /// Clean rounds that any verdict needs; 0: not known.
    pub needed_rounds: u32,
    pub(super) done: BTreeSet<RunKey>,
    /// Reasons of the host for ending runs of this process, which are missing now.
    pub(super) host_ended: Vec<String>,
    /// Number of failed runs, as long as none was measured; `None`: some was.
    failed_first: Option<u32>,
    /// One for each work.
    rounds: Vec<WorkRounds>,
    /// The number of the part that it is, and which runs parts have.
    pub(super) part: Option<(u32, Division)>,
}

/// Runs of a part of the lab that are announced together: they are started in order, as many at once as there are
/// CPUs.
const RUNS_OF_A_STEP: usize = 64;

/// One failure may be chance.
const FAILED_FIRST: u32 = 2;

impl Job {
    pub fn new(started: PlanStarted) -> Job {
        Job::resumed(started, [])
    }

    /// `done`: the runs that are stored, and whether load from outside spoilt them.
    pub fn resumed(started: PlanStarted, done: impl IntoIterator<Item = (RunKey, bool)>) -> Job {
        let mut job = Job {
            budget: started.plan.measure.budget_ns.map(Duration::from_nanos),
            min_rounds: 1,
            needed_rounds: 0,
            rounds: vec![WorkRounds::default(); started.plan.works.len()],
            done: BTreeSet::new(),
            host_ended: Vec::new(),
            failed_first: Some(0),
            part: started.sharding.as_ref().and_then(|sharding| {
                sharding.part.map(|part| (part, sharding.division(&started.plan)))
            }),
            started,
        };
        for (key, is_spoilt) in done {
            job.add(key, is_spoilt);
            job.failed_first = None;
        }
        job
    }

    pub(super) fn count_failure(&mut self, outcome: &Outcome) {
        self.failed_first = match outcome {
            Outcome::Done { .. } => None,
            Outcome::Failed { .. } => self.failed_first.map(|runs| runs + 1),
            Outcome::Skipped { .. } => self.failed_first,
        };
    }

    /// Whether so many runs failed, and no other was made, that the further ones would fail too. A part
    /// alone does not know of the others.
    pub(super) fn fails_from_the_first(&self) -> bool {
        self.part.is_none() && self.failed_first.is_some_and(|runs| runs >= FAILED_FIRST)
    }

    /// A run that has ended, and whether it was spoilt.
    pub fn add(&mut self, key: RunKey, is_spoilt: bool) {
        let plan = &self.started.plan;
        if let Some(rounds) = self.rounds.get_mut(plan.work_of(key.cell)) {
            rounds.add(key.round, is_spoilt && plan.measure.repeat_spoilt);
            self.done.insert(key);
        }
    }

    /// A run that the host ended each time: another round does not replace it.
    pub fn miss(&mut self, key: RunKey, reason: String) {
        if let Some(rounds) = self.rounds.get_mut(self.started.plan.work_of(key.cell)) {
            rounds.add(key.round, false);
        }
        self.host_ended.push(reason);
    }

    /// Whether rounds follow each other: not in a part that has some of the runs of each.
    pub fn has_rounds(&self) -> bool {
        self.part.as_ref().is_none_or(|(_, division)| division.cut == Cut::Rounds)
    }

    /// Runs that the plan's rounds ask for, if all works take all of them and none is spoilt; for a part, its own
    /// runs.
    pub fn planned_runs(&self) -> u64 {
        self.started.planned_runs()
    }

    /// The number of these that some cells have.
    pub fn planned_runs_of(&self, cells: &BTreeSet<u32>) -> u64 {
        match &self.part {
            Some((part, division)) if division.cut == Cut::Boots => {
                let own = division.runs_from(*part, 0);
                own.filter(|key| cells.contains(&key.cell)).count() as u64
            }
            _ => cells.len() as u64 * u64::from(self.rounds()),
        }
    }

    /// Rounds that are asked for, of a part that has whole ones its own.
    fn rounds(&self) -> u32 {
        match &self.part {
            Some((part, division)) => division.rounds_of(*part),
            None => self.started.plan.measure.rounds,
        }
    }

    fn limits(&self) -> RoundLimits {
        let (rounds, max_rounds) = (self.rounds(), self.max_rounds());
        RoundLimits { rounds, max_rounds, needed: self.needed_rounds }
    }

    /// Runs at the end if all works take all rounds and no further round is spoilt: a round that is measured again
    /// counts twice.
    pub fn total_runs(&self) -> u64 {
        if !self.has_rounds() {
            return self.planned_runs();
        }
        let limits = self.limits();
        let rounds: u64 = self.rounds.iter().map(|rounds| u64::from(rounds.total(limits))).sum();
        rounds * self.started.plan.variants.len() as u64
    }

    /// Runs that there are in the end if as many rounds are spoilt as so far.
    pub fn expected_runs(&self) -> f64 {
        if !self.has_rounds() {
            return self.planned_runs() as f64;
        }
        let limits = self.limits();
        let rounds: f64 = self.rounds.iter().map(|rounds| rounds.expected(limits)).sum();
        rounds * self.started.plan.variants.len() as f64
    }

    pub fn runs_done(&self) -> u64 {
        self.done.len() as u64
    }

    pub(super) fn kop_ps(&self) -> Option<u64> {
        self.started.environment.calibration.map(|measured| measured.kop_ps)
    }

    /// Steps that are done whatever looks and the budget decide.
    pub(super) fn sure_steps(&self) -> u32 {
        if self.started.plan.measure.until_decided || self.budget.is_some() {
            self.min_rounds
        } else {
            self.rounds()
        }
    }

    /// Looks have seen all rounds before the last one, so those are done, except for runs that the store has lost.
    pub(super) fn first_open_round(&self) -> u32 {
        let mut ends = BTreeMap::new();
        for key in &self.done {
            ends.insert(key.cell, key.round);
        }
        let firsts = self.started.cells.iter().map(|cell| {
            let end = ends.get(&cell.index).copied().unwrap_or_default();
            let is_lost =
                |round: &u32| !self.done.contains(&RunKey { round: *round, cell: cell.index });
            (0..=end).find(is_lost).unwrap_or(u32::MAX)
        });
        let last = self.done.last().map_or(0, |key| key.round);
        firsts.min().unwrap_or(0).min(last)
    }

    /// Lists the runs of a step that are not done.
    pub(super) fn missing(&self, step: u32, open: &BTreeSet<usize>) -> Vec<RunKey> {
        let mut missing = self.wanted(step, open);
        missing.retain(|key| !self.done.contains(key));
        missing
    }

    /// With the rounds that replace spoilt ones: half as many again, and as many again where a
    /// budget ends it anyway.
    fn max_rounds(&self) -> u32 {
        let rounds = self.rounds();
        let more = if self.budget.is_some() { rounds } else { rounds.div_ceil(2) };
        rounds.saturating_add(more)
    }

    /// The runs of a step: one round of each of the `open` works that lack clean rounds.
    pub(super) fn wanted(&self, step: u32, open: &BTreeSet<usize>) -> Vec<RunKey> {
        let (plan, limits) = (&self.started.plan, self.limits());
        let round = match &self.part {
            Some((part, division)) if division.cut == Cut::Boots => {
                let first = u64::from(step) * RUNS_OF_A_STEP as u64;
                return division.runs_from(*part, first).take(RUNS_OF_A_STEP).collect();
            }
            Some((part, division)) => division.round(*part, step),
            None => step,
        };
        let lacks = |work: &&usize| self.rounds[**work].wants(step, round, limits);
        let works: BTreeSet<usize> = open.iter().filter(lacks).copied().collect();
        let mut runs = plan::round_order(plan, round);
        runs.retain(|key| works.contains(&plan.work_of(key.cell)));
        runs
    }
}
