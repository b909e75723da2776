//! Plans: text -> [`Plan`] -> cells -> order of runs.
//!
//! Input: the TOML of a plan and, where known, the machine's topology. Output: a plan in
//! which every default is filled in and every axis expanded, or all that is wrong with the
//! text at once. Pure: reads no file, asks no kernel, draws only from the plan's seed.
//!
//! The keys and values of a plan derive from tables of [`crate::model::Field`]: [`fields`] here, the
//! workload registry and the knobs of [`crate::variant`]. The JSON Schema derives from the
//! same tables.

mod builtin;
mod captured;
mod cgroups;
mod changes;
mod configuration;
mod document;
mod draft;
mod error;
mod expand;
mod expect;
mod fields;
mod finding;
mod knobs;
mod lab;
mod moments;
mod offline;
mod order;
mod phases;
mod program;
mod read;
mod rt_app;
mod scale;
mod schema;
mod similar;
mod solo;
mod table;
#[cfg(test)]
mod tests;
mod trial;
mod turns;
mod variants;

use crate::model::{Lab, Measure, Plan, ProbeSpec, Raw, Topology, Twin, Value, ValueError};

pub use builtin::{
    Builtin, builtin, builtins, cases, embedded, findings, is_of_kernels, with_title,
};
pub use captured::{
    Asked, Captured, Fit, Likeness, MIN_KEPT, Settings, captured, replayed,
    score as likeness_score, worst_role,
};
pub use configuration::{Configuration, TRUST as CACHE_TRUST, configuration};
pub use error::{Faults, PlanError, PlanErrors};
pub use fields::{
    Known, MAX_CELLS, MAX_DECIDING_ROUNDS, MAX_RUNS, MAX_TEXT_BYTES, MAX_WORKERS, OWN_PROGRAM,
    PACKAGE, PROGRAM, Program,
};
pub use order::{cells, round_order};
pub use program::{programs, read as read_program, used, with_files as with_program_files};
pub use rt_app::{
    at_rt_app, from_rt_app, is_rt_app, rt_app_difference, rt_app_files, to_rt_app,
    with_rt_app_files,
};
pub use scale::{ChangeError, scaled};
pub use schema::json_schema;
pub use similar::nearest;
pub use table::{fill_defaults, toml_text};
pub use trial::{KernelVariant, with_kernels, with_workload};

/// Puts a value in place of one of `[measure]`'s, within the limits of the plan format.
pub fn set_measure(plan: &mut Plan, name: &str, raw: &Raw) -> Result<(), ValueError> {
    let field = fields::MEASURE.iter().find(|field| field.name == name);
    let value = field.ok_or_else(|| ValueError::unknown(name))?.kind.parse(raw)?;
    let measure = &mut plan.measure;
    match (name, value) {
        ("rounds", Value::Int(rounds)) => measure.rounds = rounds as u32,
        ("seed", Value::Int(seed)) => measure.seed = seed as u64,
        ("duration", Value::DurationNs(duration_ns)) => {
            let asked = Measure { duration_ns, ..measure.clone() };
            plan.works.iter().try_for_each(|work| phases::phases_fit(&work.sets, &asked))?;
            plan.works.iter().try_for_each(|work| moments::changes_fit(work, duration_ns))?;
            // It replaces those of works, too.
            for work in &mut plan.works {
                (work.duration_ns, work.lab_duration_ns) = (None, None);
            }
            measure.duration_ns = duration_ns;
            measure.window_ns = measure.window_ns.min(duration_ns);
        }
        ("budget", Value::DurationNs(budget_ns)) => measure.budget_ns = Some(budget_ns),
        _ => return Err(ValueError::unknown(name)),
    }
    let runs = (plan.variants.len() * plan.works.len()) as u64 * u64::from(measure.rounds);
    if runs > MAX_RUNS {
        let message = format!("{} rounds are {runs} runs", measure.rounds);
        return Err(ValueError { message, hint: format!("at most {MAX_RUNS}") });
    }
    turns::turns_fit(plan)
}

/// Adds a probe to a plan that may have it already.
pub fn add_probe(plan: &mut Plan, name: &str, known: Known) -> Result<(), ValueError> {
    if plan.probes.iter().any(|own| own == name) {
        return Ok(());
    }
    let has = |probe: &&&ProbeSpec| plan.probes.iter().any(|own| own == probe.name);
    let own: Vec<&ProbeSpec> = known.probes.iter().filter(has).copied().collect();
    let probe = read::probe_next_to(&own, name, known.probes)?;
    plan.probes.push(probe.name.to_string());
    turns::turns_fit(plan)
}

/// Maximum number of rounds of a plan with this many cells.
pub fn max_rounds(plan: &Plan) -> u32 {
    let cells = (plan.variants.len() * plan.works.len()).max(1) as u64;
    u32::try_from(MAX_RUNS / cells).unwrap_or(u32::MAX)
}

/// Reads only the `[lab]` of a plan: the CPUs of its guests must be known before the rest can be read.
/// [`parse`] reports faults elsewhere in the text. `twin` is the machine that the plan names, or another one
/// in its place; while it is not given, `model.twin` of the result holds the name.
pub fn lab(source_name: &str, text: &str, twin: Option<&Twin>) -> Result<Lab, PlanErrors> {
    read::lab_alone(source_name, text, twin)
}

/// Parses and checks a plan. `source_name` is the file's name, for messages; `machine` holds the CPUs that
/// exist and those that schedlab may use (`None`: they are not checked, and `load` needs a placement);
/// `known` has the names from the registries above this room.
pub fn parse(
    source_name: &str,
    text: &str,
    machine: Option<&Topology>,
    known: Known,
) -> Result<Plan, PlanErrors> {
    read::plan(source_name, text, machine, fields::Words::registered(known, programs()))
}

/// Fails where the text is no plan on any machine.
pub fn check(source_name: &str, text: &str, known: Known) -> Result<(), PlanErrors> {
    let words = fields::Words::registered(known, programs());
    // Whatever grows with the CPUs is small on a few, and CPUs that a plan names are there on many.
    read::plan_anywhere(source_name, text, Some(&read::machine_of(4)), &words).map(drop)
}
