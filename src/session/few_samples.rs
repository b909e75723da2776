//! Headline metrics that a plan cannot have, as its runs are too short for the samples that a
//! quantile takes: known before it runs where the parameters limit how many there are. Pure.

use std::fmt;

use crate::model::{
    Importance, Plan, PlanStarted, Turns, Work, WorkerSet, rounded_up, show_duration,
};
use crate::report::listed;
use crate::stats::HEADLINE_QUANTILE;
use crate::workload::{self, Pool, Request};

/// The 99th percentiles of a worker set that no run of it has.
#[derive(Debug, PartialEq)]
pub struct FewSamples {
    /// The work, with the set where it has several.
    place: String,
    metrics: Vec<String>,
    /// At most, in the time in which the set is active.
    samples: u64,
    active_ns: u64,
    /// The time in which it may have as many as are needed.
    needed_ns: u64,
}

impl fmt::Display for FewSamples {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FewSamples { place, metrics, samples, active_ns, needed_ns } = self;
        write!(
            f,
            "{place}: no value of {}: at most {samples} samples in {}, and a p99 takes {}, for \
             which {} is the least",
            listed(metrics),
            show_duration(*active_ns),
            HEADLINE_QUANTILE.samples_needed(),
            show_duration(*needed_ns),
        )
    }
}

/// Each once, whatever variants it is of.
pub fn find(started: &PlanStarted) -> Vec<FewSamples> {
    let mut found: Vec<FewSamples> = Vec::new();
    for cell in &started.cells {
        let usable = started.environment.topology.usable();
        let pool = Pool::new(cell.placement.cpus.as_ref().unwrap_or(usable).clone(), &[]);
        // Nothing is known of a machine that is not.
        let sets = cell.work.sets.iter().filter(|set| !set.background && !pool.cpus.is_empty());
        let new = sets.filter_map(|set| few_samples(&cell.work, set, &pool, &started.plan));
        for few in new {
            if !found.contains(&few) {
                found.push(few);
            }
        }
    }
    found
}

fn few_samples(work: &Work, set: &WorkerSet, pool: &Pool, plan: &Plan) -> Option<FewSamples> {
    let measure = &plan.measure;
    let duration_ns = measure.whole_blocks_ns(plan.duration_ns(work));
    let workload = workload::find(&set.workload)?;
    let WorkerSet { params, count, kind, .. } = set;
    let (seed, speed) = (0, Default::default());
    let request = Request { params, count: *count, kind: *kind, pool, seed, speed };
    let share = measure.turns_ns.map_or(1.0, |_| Turns::counted_share());
    let per_s = workload.max_samples_per_s(&request)? * share;
    let latencies = workload.histograms(params).iter();
    let headlines = latencies.filter(|latency| latency.importance == Importance::Headline);
    let metrics: Vec<String> = headlines.map(|latency| format!("{}_p99", latency.name)).collect();
    let phase_ns =
        set.phase.map(|phase| phase.for_ns.unwrap_or(duration_ns.saturating_sub(phase.at_ns)));
    let active_ns = phase_ns.unwrap_or(duration_ns);
    let (samples, needed) =
        (per_s * active_ns as f64 / 1e9, HEADLINE_QUANTILE.samples_needed() as f64);
    let is_alone = work.sets.len() == 1;
    let place = if is_alone { work.label() } else { format!("{}, {}", work.label(), set.name) };
    // To a tenth of a second: the limit is one of a machine without any other load.
    let needed_ns = rounded_up((needed / per_s * 10.0).ceil() as u64 * 100_000_000);
    let few = FewSamples { place, metrics, samples: samples as u64, active_ns, needed_ns };
    (samples < needed && !few.metrics.is_empty()).then_some(few)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::testing::started;
    use crate::model::{CpuSet, Topology};
    use crate::plan;

    /// Lists the findings for a plan with this many CPUs, as lines.
    fn lines(text: &str, cpus: u32) -> Vec<String> {
        let cpus: CpuSet = (0..cpus).collect();
        let topology = Topology { online: cpus.clone(), allowed: cpus, ..Default::default() };
        let plan = plan::parse("test.toml", text, Some(&topology), crate::session::known());
        let plan = plan.expect("the plan is right");
        let mut started = started(plan, text);
        started.environment.topology = topology;
        find(&started).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_parameters_allow_is_compared_with_what_a_quantile_takes() {
        let cases: &[(&str, Option<&str>)] = &[
            // 2 CPUs in 400 ms: the two requests of the complaint, and 1600 of them.
            (
                "use = \"schbench\"\nthreads = 4\nrequest = \"60ms\"",
                Some(
                    "w: no value of wakeup_p99 and request_p99: at most 13 samples in 400ms, and a p99 \
                     takes 300, for which 9s is the least",
                ),
            ),
            ("use = \"schbench\"\nthreads = 4\nrequest = \"500us\"", None),
            // A worker alone is slower than two CPUs are.
            (
                "use = \"schbench\"\nthreads = 1\nsleep = \"1ms\"\nrequest = \"1ms\"",
                Some(
                    "w: no value of wakeup_p99 and request_p99: at most 200 samples in 400ms, and a \
                     p99 takes 300, for which 600ms is the least",
                ),
            ),
            (
                "use = \"schbench\"\nrps = 700",
                Some(
                    "w: no value of wakeup_p99 and request_p99: at most 280 samples in 400ms, and a \
                     p99 takes 300, for which 500ms is the least",
                ),
            ),
            ("use = \"schbench\"\nauto-rps = \"50%\"", None),
            (
                "use = \"burnwait\"\nqueue = [\"burn 3ms\", \"wait 500us\"]\ncount = 4",
                Some(
                    "w: no value of wakeup_p99: at most 266 samples in 400ms, and a p99 takes 300, for \
                     which 500ms is the least",
                ),
            ),
            ("use = \"burnwait\"\nqueue = [\"burn 3\", \"wait 5ms\"]\ncount = 4", None),
            (
                "use = \"service-chain\"\nfront = \"1ms\"\nhop = \"2ms\"",
                Some(
                    "w: no value of request_p99: at most 100 samples in 400ms, and a p99 takes 300, for \
                     which 1200ms is the least",
                ),
            ),
            ("use = \"messaging\"\nwork = \"2us\"", None),
            ("use = \"pipe\"", None),
            ("use = \"spin\"\nwork = \"1s\"", None),
            ("use = \"deadline\"\nperiod = \"100ms\"", None),
        ];
        for (workload, expected) in cases {
            let text = format!(
                "schema = 1\n[measure]\nduration = \"400ms\"\n[[variant]]\nname = \"a\"\n\
                 [[variant]]\nname = \"b\"\n[[workload]]\nname = \"w\"\n{workload}\n"
            );
            assert_eq!(lines(&text, 2), Vec::from_iter(*expected), "{workload}");
        }
    }

    /// A fifth of each block is washout.
    #[test]
    fn turns_leave_fewer_samples() {
        let text = "schema = 1\n[measure]\nduration = \"300ms\"\nturns = \"50ms\"\n\
                    [[variant]]\nname = \"a\"\n[[variant]]\nname = \"b\"\nslice = \"1ms\"\n\
                    [[workload]]\nname = \"w\"\nuse = \"burnwait\"\nqueue = \"burn 1ms, wait 1ms\"\n";
        let expected = "w: no value of wakeup_p99: at most 120 samples in 300ms, and a p99 takes 300, \
                        for which 800ms is the least";
        assert_eq!(lines(text, 2), [expected]);
    }

    #[test]
    fn a_set_has_the_time_of_its_phase_and_one_in_the_background_needs_no_samples() {
        let set = "use = \"schbench\"\nthreads = 2\nrequest = \"2ms\"\n";
        let text = format!(
            "schema = 1\n[measure]\nduration = \"1s\"\n[[workload]]\nname = \"w\"\n\
             [[workload.set]]\nname = \"whole\"\n{set}[[workload.set]]\nname = \"part\"\n\
             at = \"400ms\"\nfor = \"200ms\"\n{set}[[workload.background]]\nname = \"load\"\n\
             at = \"900ms\"\n{set}"
        );
        let expected = "w, part: no value of wakeup_p99 and request_p99: at most 190 samples in \
                        200ms, and a p99 takes 300, for which 400ms is the least";
        assert_eq!(lines(&text, 2), [expected]);
    }

    /// Parameters say it. The rate that a scheduler leaves a set is measured by hand.
    #[test]
    fn built_in_plans_have_their_headline_metrics() {
        for builtin in plan::embedded() {
            let lab = plan::lab(builtin.name, builtin.text, None).unwrap();
            assert_eq!(lines(builtin.text, lab.cpus), [""; 0], "{}", builtin.name);
        }
        assert_eq!(lines(plan::builtin("quick").unwrap().text, 2), [""; 0]);
    }
}
