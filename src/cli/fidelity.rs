//! `schedlab compare --fidelity HOST LAB`: how well the lab predicts a host.

use crate::analysis::{self, Analysis, FidelityError, Instrument, Question, Selection};
use crate::model::{Judged, PlanHead, SampledPlan};
use crate::report::fidelity::FORMATS;
use crate::report::{RenderOther, clean, differs};
use crate::session::sides;
use crate::store::Store;

use super::output::Output;
use super::{Database, Failure};
use crate::model::quoted;

const EXAMPLE: &str = "compare --fidelity backend=local,last backend=lab,last";

/// The format that is asked for, if two instruments can be written in it.
pub fn format(output: &Output) -> Result<RenderOther<analysis::Fidelity>, Failure> {
    output.other("format of --fidelity", FORMATS)
}

/// The options of `schedlab compare` that apply to it.
pub struct Fidelity<'a> {
    pub sides: &'a [String],
    pub judged: &'a Judged,
    pub output: &'a Output,
    pub db: &'a Database,
}

impl Fidelity<'_> {
    pub fn run(&self, store: &Store, heads: &[PlanHead]) -> Result<(), Failure> {
        let render = format(self.output)?;
        let [_, _] = self.sides else {
            let text = format!("--fidelity takes two sides, not {}", self.sides.len());
            return Err(Failure::usage(text, self.db.command(EXAMPLE)));
        };
        let sides = self.db.select("", self.sides, heads)?;
        let [host, lab] = [0, 1].map(|at| sides::sampled(store, &sides[at..=at]));
        let (host, lab) = (host?, lab?);
        analysis::fidelity::check([&sides[0], &sides[1]], [&host, &lab])
            .map_err(|wrong| self.failure(wrong))?;
        let words = sides.iter().map(|side| format!(" {}", quoted(&side.words(heads))));
        let command = format!("schedlab compare --fidelity{}", words.collect::<String>())
            + &self.judged.words()
            + &self.output.words(self.db);
        let analyse = |side, plans| self.analyse(store, side, plans, command.clone());
        let fidelity = analysis::fidelity(analyse(&sides[0], &host)?, analyse(&sides[1], &lab)?);
        self.output.write_by(self.judged, |options, out| render(&fidelity, options, out))
    }

    /// The variants of one instrument, judged among themselves.
    fn analyse(
        &self,
        store: &Store,
        side: &Selection,
        plans: &[SampledPlan],
        command: String,
    ) -> Result<Analysis, Failure> {
        let sides = analysis::fidelity::variants_of(side, plans);
        sides::check_named(self.judged, plans, &sides)?;
        let question = sides::question(self.judged, sides, command, false, self.db);
        Ok(sides::analyse(store, plans, Question { fidelity: true, ..question })?)
    }

    fn failure(&self, wrong: FidelityError) -> Failure {
        let show = |id: &str| self.db.command(&format!("show {}", quoted(id)));
        let (text, hint) = match wrong {
            FidelityError::Backend { side, wanted, plan, backend } => {
                let wanted = match wanted {
                    Instrument::Host => "first side has to be of a host",
                    Instrument::Lab => "second side has to be of the lab",
                };
                let [side, backend] = [side, backend].map(|text| clean(&text));
                let text = format!(
                    "the {wanted}, but `{side}` has plan {plan} of the backend `{backend}`"
                );
                (text, self.db.command(EXAMPLE))
            }
            FidelityError::NamesVariants { side } => {
                let text = format!("`{}` names variants: --fidelity takes all", clean(&side));
                (text, self.db.command(EXAMPLE))
            }
            FidelityError::Baselines { host, lab } => {
                let [host, lab] = [host, lab].map(|name| clean(&name));
                let text = format!(
                    "these are different plans: the baseline is `{host}` on the host and `{lab}` \
                     in the lab"
                );
                (text, "the same plan on both: schedlab run fidelity".to_string())
            }
            FidelityError::NotSameWork { work, plans: [host, lab], difference } => {
                let text = format!(
                    "{} is other work on the host ({host}) than in the lab ({lab}): {}",
                    clean(&work),
                    differs(&difference)
                );
                (text, show(&host))
            }
            FidelityError::NothingInCommon => {
                let text = "these are different plans: they have no work under the same variant \
                            in common";
                (text.to_string(), "the same plan on both: schedlab run fidelity".to_string())
            }
            FidelityError::Calibrations { plans: [least, most], share } => {
                let text = format!(
                    "bursts of the same time are {:.1} % more work in {most} than in {least}: these \
                     plans are no one host",
                    100.0 * share
                );
                (text, format!("name one of them: {}", show(&most)))
            }
        };
        Failure::usage(text, hint)
    }
}
