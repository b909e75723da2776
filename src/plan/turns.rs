//! `turns` of `[measure]`: whether the variants of a plan can take turns inside one run. Pure.

use crate::model::{
    Plan, Turns, ValueError, Work, WorkerKind, WorkerSet, rounded_down, rounded_up, show_duration,
};
use crate::variant;
use crate::workload::{self, Pool, Request, Speed};

use super::fields::{MAX_TURNS_NS, MIN_TURNS_NS};
use super::table::quoted_start;

/// Blocks that each variant has at least.
const MIN_BLOCKS: u64 = 2;

/// The first reason why they cannot; nothing of a plan without turns.
pub fn turns_fit(plan: &Plan) -> Result<(), ValueError> {
    let Some(block_ns) = plan.measure.turns_ns else { return Ok(()) };
    plan.works.iter().try_for_each(|work| blocks_fit(plan, work, block_ns))?;
    if let Some(probe) = plan.probes.first() {
        let message = format!("`{probe}` counts over a whole run, and cannot divide it by variant");
        return wrong(message, "leave out `probes`, or `turns`".to_string());
    }
    let turns = Turns::new(plan.variants.clone(), block_ns);
    knobs_fit(&turns)?;
    plan.works.iter().try_for_each(|work| work_fits(plan, work, &turns))
}

/// Each variant must have [`MIN_BLOCKS`] in a run, here and in the lab.
fn blocks_fit(plan: &Plan, work: &Work, block_ns: u64) -> Result<(), ValueError> {
    let min_ns = block_ns.saturating_mul(MIN_BLOCKS);
    let own_ns = plan.host_duration_ns(work);
    let needs = |has_ns: u64| {
        let [has, block] = [has_ns, block_ns].map(show_duration);
        format!("has {has} and needs {MIN_BLOCKS} blocks of {block}")
    };
    if min_ns > own_ns {
        let longest_ns = rounded_down(own_ns / MIN_BLOCKS);
        let hint = if longest_ns >= MIN_TURNS_NS {
            format!("lengthen `duration`, or at most: turns = \"{}\"", show_duration(longest_ns))
        } else {
            format!("at least: duration = \"{}\"", show_duration(min_ns))
        };
        return wrong(format!("each variant {}", needs(own_ns)), hint);
    }
    match work.lab_duration_ns {
        Some(ns) if min_ns > ns => wrong(
            format!("in the lab {} {}", quoted_start(&work.label()), needs(ns)),
            "lengthen `lab-duration`, or leave it out".to_string(),
        ),
        _ => Ok(()),
    }
}

fn wrong<T>(message: String, hint: String) -> Result<T, ValueError> {
    Err(ValueError { message, hint })
}

/// Knobs that differ between variants must be ones that change on a running thread.
fn knobs_fit(turns: &Turns) -> Result<(), ValueError> {
    let common = turns.common_knobs();
    for variant in &turns.variants {
        let own = variant.knobs.keys().filter(|knob| !common.contains_key(*knob));
        if let Some(knob) = own.into_iter().find(|knob| !variant::is_live(knob)) {
            let message = format!(
                "`{knob}` of variant {} cannot change on a running thread",
                quoted_start(&variant.name)
            );
            let hint = format!(
                "leave out `turns`, or give all variants the same `{knob}`; these can change: {}",
                variant::live_knobs().join(", ")
            );
            return wrong(message, hint);
        }
    }
    Ok(())
}

fn work_fits(plan: &Plan, work: &Work, turns: &Turns) -> Result<(), ValueError> {
    let label = quoted_start(&work.label());
    for set in &work.sets {
        let workload = workload::find(&set.workload);
        let reason = match set.kind {
            WorkerKind::Guests | WorkerKind::GuestsOrProcesses => "has guests as workers",
            _ if workload.is_some_and(|of| of.spec().runs_programs) => "runs programs",
            _ if set.workload == workload::STEPS => "has steps, which wait for other workers",
            _ if set.phase.is_some() => "has a phase (`at`, `for` or `ops`)",
            _ if work.changes_in_mid_run(set) => "has a change in mid-run",
            _ => continue,
        };
        let message = format!("{label} {reason}, and no part of it can be counted by variant");
        return wrong(message, "measure it in a plan without `turns`".to_string());
    }
    let longest_ns = work.sets.iter().filter_map(|set| operation_ns(plan, set)).max();
    if let Some(operation_ns) = longest_ns.filter(|operation_ns| *operation_ns > turns.washout_ns) {
        let [operation, washout] = [operation_ns, turns.washout_ns].map(show_duration);
        let message = format!(
            "an operation of {label} takes {operation} or more, and the washout of a block {washout}"
        );
        let block_ns = rounded_up(Turns::block_ns_for(operation_ns));
        let min_ns = block_ns.saturating_mul(MIN_BLOCKS);
        let duration = if min_ns > plan.host_duration_ns(work) {
            format!(" and duration = \"{}\"", show_duration(min_ns))
        } else {
            String::new()
        };
        let hint = if block_ns <= MAX_TURNS_NS {
            format!(
                "longer ones are cut by switches and count for no variant: turns = \"{}\"{duration}",
                show_duration(block_ns)
            )
        } else {
            "measure it in a plan without `turns`".to_string()
        };
        return wrong(message, hint);
    }
    Ok(())
}

/// The shortest time that an operation of a worker can take; `None`: not known before the run.
fn operation_ns(plan: &Plan, set: &WorkerSet) -> Option<u64> {
    let (params, count, kind, seed) = (&set.params, 1, set.kind, plan.measure.seed);
    let workload = workload::find(&set.workload)?;
    let one = Pool::new((0..1).collect(), &[]);
    let request = Request { params, count, kind, pool: &one, seed, speed: Speed::default() };
    let workers = workload.layout(&request).ok()?;
    let counting = workers.iter().filter(|&&role| workload.spec().roles[role].counts).count();
    // One CPU for each worker: what they wait for each other is not known.
    let pool = Pool::new((0..workers.len() as u32).collect(), &[]);
    let per_s = workload.max_samples_per_s(&Request { pool: &pool, ..request })?;
    Some((counting.max(1) as f64 * 1e9 / per_s).round() as u64)
}

#[cfg(test)]
mod tests {
    use crate::model::{Measure, Plan, Raw};
    use crate::plan::{Known, add_probe, parse, set_measure};

    const TWO: &str = "[[variant]]\nname = \"a\"\n[[variant]]\nname = \"b\"\nslice = \"1ms\"\n";

    fn read(measure: &str, variants: &str, work: &str) -> Result<Plan, String> {
        let text =
            format!("schema = 1\n[measure]\n{measure}\n{variants}[[workload]]\nuse = {work}\n");
        parse("p.toml", &text, None, Known::default()).map_err(|errors| errors.render())
    }

    #[test]
    fn variants_take_turns_only_where_each_can_be_counted() {
        let measure = "turns = \"100ms\"\nduration = \"1s\"";
        let Plan { measure: Measure { turns_ns, .. }, .. } =
            read(measure, TWO, "\"spin\"").unwrap();
        assert_eq!(turns_ns, Some(100_000_000));
        let live = TWO.replace("slice", "cgroup-weight = 7\nslice");
        let common = "[[variant]]\nname = \"a\"\nnice = 1\ncgroup-weight = 7\n\
                      [[variant]]\nname = \"b\"\npolicy = \"batch\"\ncgroup-weight = 7\n";
        read(measure, common, "\"spin\"").unwrap();
        read(measure, TWO, "\"schbench\"\nthreads = 8\nrequest = \"5ms\"\nsleep = \"0s\"").unwrap();
        let cases = [
            ("turns = \"9ms\"", TWO, "\"spin\"", "10ms"),
            ("turns = \"600ms\"\nduration = \"1s\"", TWO, "\"spin\"", "2 blocks of 600ms"),
            (
                "turns = \"10ms\"\nduration = \"15ms\"",
                TWO,
                "\"spin\"",
                "at least: duration = \"20ms\"",
            ),
            (
                measure,
                TWO,
                "\"burnwait\"\nqueue = [\"burn 900s\", \"wait 1ms\"]",
                "hint: measure it in a plan without `turns`",
            ),
            (measure, &live, "\"spin\"", "`cgroup-weight` of variant `b` cannot change"),
            (measure, TWO, "\"spin\"\nat = \"100ms\"", "`spin` has a phase"),
            (measure, TWO, "\"steps\"\nsteps = [\"burn 1ms\"]", "`steps` has steps, which wait"),
            (measure, TWO, "\"command\"\ncommand = [\"true\"]", "`command` runs programs"),
            (
                measure,
                TWO,
                "\"burnwait\"\nqueue = [\"burn 300ms\", \"wait 1ms\"]",
                "takes 301ms or more, and the washout of a block 20ms",
            ),
            (measure, TWO, "\"spin\"\nwork = \"30ms\"", "takes 30ms or more, and the washout"),
            (
                measure,
                TWO,
                "\"deadline\"\nperiod = \"50ms\"",
                "takes 50ms or more, and the washout",
            ),
        ];
        for (measure, variants, work, expected) in cases {
            let error = read(measure, variants, work).expect_err(expected);
            assert!(error.contains(expected), "{expected}: {error}");
        }
    }

    /// A hint proposes a plan.
    #[test]
    fn hints_are_taken() {
        let work = "\"burnwait\"\nqueue = [\"burn 300ms\", \"wait 1ms\"]";
        for measure in [
            "turns = \"600ms\"\nduration = \"1s\"",
            "turns = \"10ms\"\nduration = \"15ms\"",
            "turns = \"100ms\"\nduration = \"1s\"",
            "turns = \"3s\"\nduration = \"4s\"",
        ] {
            let (mut measure, mut steps) = (measure.to_string(), 0);
            while let Err(error) = read(&measure, TWO, work) {
                let (_, hint) = error.split_once("hint: ").expect(&error);
                let mut lines: Vec<String> = measure.lines().map(str::to_string).collect();
                for line in &mut lines {
                    let key = line.split(' ').next().unwrap_or_default();
                    if let Some((_, value)) = hint.split_once(&format!("{key} = \"")) {
                        let (value, _) = value.split_once('"').unwrap();
                        *line = format!("{key} = \"{value}\"");
                    }
                }
                measure = lines.join("\n");
                steps += 1;
                assert!(steps <= 2, "{measure}: {error}");
            }
        }
    }

    #[test]
    fn a_plan_that_is_changed_is_checked_again() {
        let mut plan = read("turns = \"100ms\"\nduration = \"1s\"", TWO, "\"spin\"").unwrap();
        let error =
            set_measure(&mut plan, "duration", &Raw::Text("150ms".to_string())).unwrap_err();
        assert!(error.message.contains("2 blocks of 100ms"), "{error:?}");
        plan.measure.duration_ns = 1_000_000_000;
        static SCHED: crate::model::ProbeSpec =
            crate::model::ProbeSpec { name: "sched", about: "", needs: "", metrics: &[] };
        const KNOWN: Known = Known { probes: &[&SCHED], formats: &[] };
        let error = add_probe(&mut plan, "sched", KNOWN).unwrap_err();
        assert!(error.message.contains("`sched` counts over a whole run"), "{error:?}");
    }
}
