//! Sentences about how far a hunt is, and what it came to. Pure.

use std::time::Duration;

use crate::report::numbers::counted;

#[derive(Default)]
pub(super) struct Counts {
    /// Without scenarios of an interrupted plan, which is run again.
    pub scenarios: u64,
    /// Scenarios of an interrupted plan.
    pub interrupted: u64,
    /// Scenarios that broke a rule, or that kernels differ in.
    pub hits: u64,
    /// Cases of the hunts that this one goes on with.
    pub resumed: u64,
    /// Why the first run without a result has none.
    pub first_failure: Option<String>,
}

pub(super) struct Summary<'a> {
    /// `debian:6.12, debian:6.18`.
    pub kernels: String,
    /// How much code they have executed, as the end of a sentence.
    pub reached: String,
    /// Whether kernels are compared.
    pub compares: bool,
    pub counts: &'a Counts,
    /// Scenarios of the hunts that this one goes on with, as `hunts.json` has them.
    pub before: u64,
    /// All cases, also those that were gone on with.
    pub cases: u64,
}

impl Summary<'_> {
    /// `32 scenarios, 60 s: 3 of the last 16 broke a rule, the smallest are run again alone; 1 case found so far`. `last`:
    /// scenarios of the last plan that had a fault, and all of it.
    pub fn after_plan(&self, last: [u64; 2], elapsed: Duration) -> String {
        let [hits, all] = last;
        let hit = if self.compares { "differ between kernels" } else { "broke a rule" };
        let next = if hits > 0 { ", the smallest are run again alone" } else { "" };
        let found = match self.found() {
            0 => String::new(),
            found => format!("; {} found so far", counted(found, "case")),
        };
        let (scenarios, seconds) = (self.scenarios(), elapsed.as_secs());
        format!(
            "{scenarios}, {seconds} s: {hits} of the last {all} {hit}{next}{found}{}",
            self.reached
        )
    }

    /// `32 scenarios on debian:6.18, 3 of which broke a rule: 1 case found`.
    pub fn at_end(&self) -> String {
        let Counts { hits, interrupted, resumed, .. } = *self.counts;
        let hits = match self.compares {
            _ if self.counts.scenarios == 0 => String::new(),
            true => format!(", which differ in {hits} of them"),
            false => format!(", {hits} of which broke a rule"),
        };
        let found = counted(self.found(), "case");
        let mut text = format!("{} on {}{hits}: {found} found", self.scenarios(), self.kernels);
        if self.counts.scenarios > 0 {
            text += &self.reached;
        }
        if resumed > 0 {
            text += &format!("; it went on with {} of before", counted(resumed, "case"));
        }
        if interrupted > 0 {
            text += &format!("; {interrupted} more do not count, as their plan is run again");
        }
        text
    }

    /// `16 scenarios (48 with those before)`.
    fn scenarios(&self) -> String {
        let own = counted(self.counts.scenarios, "scenario");
        match self.before {
            0 => own,
            before => format!("{own} ({} with those before)", before + self.counts.scenarios),
        }
    }

    fn found(&self) -> u64 {
        self.cases - self.counts.resumed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(counts: &Counts) -> Summary<'_> {
        let kernels = "debian:6.18".to_string();
        let reached = String::new();
        Summary { kernels, reached, compares: false, counts, before: 0, cases: 0 }
    }

    #[test]
    fn a_hunt_that_goes_on_has_the_scenarios_of_its_file_in_all() {
        let first = Counts { scenarios: 16, hits: 12, interrupted: 12, ..Counts::default() };
        assert_eq!(
            Summary { cases: 1, ..summary(&first) }.at_end(),
            "16 scenarios on debian:6.18, 12 of which broke a rule: 1 case found; 12 more do not count, as their plan is \
             run again"
        );
        let next = Counts { resumed: 1, ..Counts::default() };
        assert_eq!(
            Summary { before: 16, cases: 1, ..summary(&next) }.at_end(),
            "0 scenarios (16 with those before) on debian:6.18: 0 cases found; it went on with 1 case of before"
        );
        let more = Counts { scenarios: 1, hits: 1, ..Counts::default() };
        let kernels = "a, b".to_string();
        assert_eq!(
            Summary { kernels, compares: true, before: 16, ..summary(&more) }.at_end(),
            "1 scenario (17 with those before) on a, b, which differ in 1 of them: 0 cases found"
        );
    }

    #[test]
    fn the_line_after_a_plan_says_what_comes_next() {
        let counts = Counts { scenarios: 32, hits: 12, ..Counts::default() };
        let after = |hits: u64, cases: u64| {
            let summary = Summary { cases, ..summary(&counts) };
            summary.after_plan([hits, 16], Duration::from_secs(60))
        };
        assert_eq!(after(0, 0), "32 scenarios, 60 s: 0 of the last 16 broke a rule");
        assert_eq!(
            after(3, 1),
            "32 scenarios, 60 s: 3 of the last 16 broke a rule, the smallest are run again alone; 1 case found so far"
        );
    }
}
