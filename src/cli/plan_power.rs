//! `schedlab plan-power`: how many rounds a plan needs here, from what is stored.

use std::io::{self, BufWriter, Write};

use clap::Args;

use crate::analysis;
use crate::backend::Mode;
use crate::model::{SampledPlan, clean};
use crate::plan;
use crate::report::{self, Options};
use crate::session::{
    MeasureRequest, Problem, SessionError, load_or_stored, machine, make_backend, metrics, power,
    set_seeds, sides,
};
use crate::store::StoreError;

use super::judging::Judging;
use super::{Database, Failure, offering, terminal};
use crate::model::quoted;

/// A second variant for a plan that has one.
const OTHER_VARIANT: &str = " --variant batch:policy=batch";

#[derive(Args)]
pub struct PlanPowerArgs {
    /// A built-in plan by name, or a plan file
    #[arg(default_value = "quick")]
    plan: String,
    /// The difference that is to be found
    #[arg(long, value_name = "PERCENT", default_value = "3%", value_parser = parse_difference)]
    difference: f64,
    /// The probability with which it is to be found, each metric for itself
    #[arg(long, value_name = "PERCENT", default_value = "95%", value_parser = parse_power)]
    power: f64,
    /// Where it is to run: `schedlab list backends`
    #[arg(long, default_value = "local", value_parser = offering::backend(), hide_possible_values = true)]
    backend: String,
    #[command(flatten)]
    judging: Judging,
    #[command(flatten)]
    db: Database,
}

fn parse_difference(text: &str) -> Result<f64, Problem> {
    share(text, 0.001, 1000.0, "3%")
}

fn parse_power(text: &str) -> Result<f64, Problem> {
    share(text, 1.0, 99.9, "95%")
}

/// `3%` is 0.03.
fn share(text: &str, min: f64, max: f64, example: &str) -> Result<f64, Problem> {
    let number = text.strip_suffix('%').and_then(|number| number.trim().parse().ok());
    let percent = number.filter(|percent| (min..=max).contains(percent));
    percent.map(|percent: f64| percent / 100.0).ok_or_else(|| {
        let text = clean(text);
        format!("`{text}` is not a percentage from {min}% to {max}%, such as {example}").into()
    })
}

pub fn run(args: &PlanPowerArgs) -> Result<(), Failure> {
    let judged = args.judging.judged();
    if judged.all_metrics {
        let text =
            "plan-power is about metrics that decide; `--metric all` adds those that explain";
        return Err(Failure::usage(text, "--metric NAME, or --metric '*'"));
    }
    let text = load_or_stored(&args.plan, &args.db)?;
    let lab = machine::lab_of_plan(&text.name, &text.text, None, false, &args.db)?;
    let backend = make_backend(&args.backend, &lab, Mode::default(), None, false, &args.db)?;
    let environment = backend.environment();
    let mut plan = text.parse(Some(&environment.topology))?;
    if backend.guests().is_some() {
        plan.lab = lab;
        set_seeds(&mut plan, &MeasureRequest::default());
    }
    plan.has_lab_durations = backend.guests().is_some_and(|(own, _)| !own.realtime);
    // Equal variants are equal to the bit in the lab.
    let other =
        if backend.guests().is_some() && plan.variants.len() < 2 { OTHER_VARIANT } else { "" };
    let again = again(args) + other;
    let cells = plan::cells(&plan);
    metrics::check(judged.patterns(), || {
        metrics::places(&cells, metrics::Added::by(&plan), &[], false)
    })?;
    let mut question = sides::question(&judged, Vec::new(), String::new(), false, &args.db);
    let mut stored = Vec::new();
    match args.db.open_read_only() {
        Ok(store) => {
            stored = power::similar_plans(&store, &environment, &args.backend)?;
            question.windows = power::windows(&store, &stored, &plan.works, &question)?;
        }
        Err(SessionError::Store(StoreError::Missing { .. })) => {}
        Err(error) => return Err(error.into()),
    }
    let planned = SampledPlan::without_runs(&args.backend, plan, cells, vec![environment]);
    let power = analysis::power(&planned, &stored, &question, args.difference, args.power);
    let options = Options {
        width: terminal::width(),
        color: terminal::color(&io::stdout()),
        ..Options::default()
    };
    let mut out = BufWriter::new(io::stdout().lock());
    report::power::render(&power, &again, &options, &mut out)?;
    out.flush()?;
    if power.rows().next().is_none() {
        let text = "how noisy this plan is here is not known; the reasons are above";
        return Err(Failure::here(text, report::power::noise(&power, &again, 10)));
    }
    Ok(())
}

/// The command that runs this plan.
fn again(args: &PlanPowerArgs) -> String {
    let backend = match args.backend.as_str() {
        "local" => String::new(),
        name => format!(" --backend {}", quoted(name)),
    };
    format!("schedlab run {}{backend}{}", quoted(&args.plan), args.db.words())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::power::{DIFFERENCE, POWER};

    #[test]
    fn percentages_are_checked() {
        assert_eq!(parse_difference("3%"), Ok(DIFFERENCE));
        assert_eq!(parse_power("95 %"), Ok(POWER));
        for limit in ["1%", "99.9%"] {
            assert!(parse_power(limit).is_ok(), "{limit}");
        }
        for limit in ["0.001%", "1000%"] {
            assert!(parse_difference(limit).is_ok(), "{limit}");
        }
        for wrong in ["3", "%", "0%", "-1%", "1001%", "nan%", "", "1e-300%"] {
            assert!(parse_difference(wrong).is_err(), "{wrong}");
        }
        for wrong in ["95", "0%", "0.9%", "99.91%", "100%", "nan%", ""] {
            assert!(parse_power(wrong).is_err(), "{wrong}");
        }
    }
}
