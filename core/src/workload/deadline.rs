//! `deadline`: periodic jobs that must be done in time.
//!
//! Job n is released at start + phase + n x period by an absolute timer, burns a fixed
//! amount of CPU, and is due `deadline` after its release. A release that passes while an
//! earlier job still runs is skipped and missed: the next job answers it. A delayed worker pays
//! for every release of that time, not for one. [`Jobs`] is pure.

use crate::model::{
    Direction, Importance, Kind, Metric, MetricSpec, Params, Reading, Statistic, Unit, Value,
    fields, show_duration,
};
use crate::stats::Histogram;
use crate::sys::clock;

use super::burn::{Burner, Speed, Work};
use super::{
    Latency, Load, Measured, Request, Role, Slot, Spec, UnderWay, WORK_TIME, Worker, WorkerCounts,
    Workload, WorkloadError, params,
};

pub struct Deadline;

const WAKEUP: usize = 0;
const RESPONSE: usize = 1;
const MISSED: usize = 0;
const SKIPPED: usize = 1;
/// At the reported tolerance one release in this number may miss its deadline.
const ONE_MAY_MISS_IN: u64 = 1_000;

const SPEC: Spec = Spec {
    name: "deadline",
    about: "periodic jobs with a deadline, in phases spread by the seed",
    params: fields! {
        "period": Kind::Duration { min_ns: 100_000, max_ns: 60_000_000_000 }, "10ms" =>
            "time between two releases";
        "burn": Kind::Int { min: 1, max: 1_000_000_000 }, "1000" =>
            "CPU work of a job: thousand read-modify-write operations over 64 KiB";
        "work": WORK_TIME => "CPU time of a job at full speed, in place of burn";
        "deadline": Kind::Duration { min_ns: 1_000, max_ns: 60_000_000_000 } =>
            "from release to the moment at which the job is due; unless given, the period";
    },
    roles: &[Role { name: "deadline", counts: true }],
    ops: "jobs in time",
    throughput: Importance::Explaining,
    histograms: &[
        Latency::explaining("wakeup", "from a job's release to its start"),
        Latency::explaining(
            "response",
            "from release to completion; for a skipped release, of the job that answers it",
        ),
    ],
    counters: &["missed", "skipped"],
    metrics: &METRICS,
    ..Spec::PLAIN
};

const METRICS: [MetricSpec; 4] = [
    MetricSpec::new("met_ratio", Unit::Ratio, Direction::HigherIsBetter, Statistic::Share)
        .about("share of releases whose deadline was met: 1 - miss_ratio"),
    MetricSpec::new("miss_ratio", Unit::Ratio, Direction::LowerIsBetter, Statistic::Share)
        .about("share of releases whose job was late, was skipped or never ended")
        .headline(),
    MetricSpec::new("lateness_max", Unit::Ns, Direction::LowerIsBetter, Statistic::Max).about(
        "the latest completion after its deadline; 0 if none was late, unknown if one never came",
    ),
    MetricSpec::new("tolerance", Unit::Ns, Direction::LowerIsBetter, Statistic::Count)
        .about(
            "the least that must be added to the deadline for 99.9 % to be met, to 0.8 % of \
             the response; of fewer than 1,000 releases none may miss",
        )
        .headline(),
];

impl Workload for Deadline {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn layout(&self, request: &Request) -> Result<Vec<usize>, WorkloadError> {
        terms(request)?;
        Ok(vec![0; request.count as usize])
    }

    fn prepare(&self, request: &Request) -> Result<Box<dyn Load>, WorkloadError> {
        Ok(Box::new(Set { terms: terms(request)?, speed: request.speed }))
    }

    fn is_timed(&self, params: &Params) -> bool {
        params.contains_key("work")
    }

    fn max_samples_per_s(&self, request: &Request) -> Option<f64> {
        request.max_per_s(request.count.into(), 0, terms(request).ok()?.period_ns)
    }

    fn is_counted(&self, params: &Params) -> bool {
        params::work(params, "work", "burn").is_ok_and(Work::is_counted)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Terms {
    period_ns: u64,
    deadline_ns: u64,
    work: Work,
}

fn terms(request: &Request) -> Result<Terms, WorkloadError> {
    let period_ns = params::duration_ns(request.params, "period")?;
    let deadline_ns = request.params.get("deadline").and_then(Value::as_duration_ns);
    let deadline_ns = deadline_ns.unwrap_or(period_ns);
    let work = params::work(request.params, "work", "burn")?;
    if deadline_ns > period_ns {
        let (deadline, period) = (show_duration(deadline_ns), show_duration(period_ns));
        return Err(WorkloadError::conflict(
            format!("a deadline of {deadline} is after the next release, {period} later"),
            format!("deadline = \"{period}\" or less"),
        ));
    }
    Ok(Terms { period_ns, deadline_ns, work })
}

/// One worker's releases. Times are of one clock.
struct Jobs {
    terms: Terms,
    first_ns: u64,
    /// The release whose job runs next.
    next: u64,
    /// The first release that no job has answered.
    unanswered: u64,
}

/// The releases that a job's completion answers: its own, which is the last, and the skipped ones before it.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    first_release_ns: u64,
    skipped: u64,
    in_time: bool,
}

impl Jobs {
    fn new(terms: Terms, first_ns: u64) -> Self {
        Jobs { terms, first_ns, next: 0, unanswered: 0 }
    }

    #[inline]
    fn release_ns(&self) -> u64 {
        self.at(self.next)
    }

    fn at(&self, release: u64) -> u64 {
        self.first_ns + release * self.terms.period_ns
    }

    /// The job of [`Jobs::release_ns`] was done at `end_ns`. Releases before that are skipped.
    #[inline]
    fn complete(&mut self, end_ns: u64) -> Answer {
        let answer = Answer {
            first_release_ns: self.at(self.unanswered),
            skipped: self.next - self.unanswered,
            in_time: end_ns <= self.release_ns() + self.terms.deadline_ns,
        };
        let passed = end_ns.saturating_sub(self.first_ns).div_ceil(self.terms.period_ns);
        self.unanswered = self.next + 1;
        self.next = self.unanswered.max(passed);
        answer
    }
}

struct Set {
    terms: Terms,
    speed: Speed,
}

impl Load for Set {
    fn work(&self, _index: usize, worker: &Worker) -> Result<(), WorkloadError> {
        let mut burner = Burner::new(self.speed);
        let phase_ns = worker.phase_ns(self.terms.period_ns);
        let mut jobs = Jobs::new(self.terms, worker.start() + phase_ns);
        while worker.running() {
            let release_ns = jobs.release_ns();
            worker.begin(WAKEUP, release_ns);
            worker.begin(RESPONSE, jobs.at(jobs.unanswered));
            clock::sleep_until(release_ns);
            let begin_ns = clock::monotonic_ns();
            let delay_ns = begin_ns.saturating_sub(release_ns);
            worker.note_delay(delay_ns);
            worker.record(WAKEUP, begin_ns, delay_ns);
            burner.burn(self.terms.work);
            let end_ns = clock::monotonic_ns();
            self.account(worker, &jobs.complete(end_ns), end_ns);
        }
        Ok(())
    }

    /// A worker answers all its releases at once, from the first one that is not answered.
    fn under_way(&self, _index: usize, slot: &Slot, found: &mut UnderWay) {
        slot.begun().for_each(|(histogram, release_ns)| match histogram {
            RESPONSE => found.add_each(histogram, release_ns, self.terms.period_ns),
            _ => found.add(histogram, release_ns),
        });
    }

    fn metrics(&self, measured: &Measured) -> Vec<Metric> {
        let tally = Tally::count(measured, self.terms);
        let response = &measured.histograms[RESPONSE];
        let values = [
            tally.miss_ratio().map(|missed| 1.0 - missed),
            tally.miss_ratio(),
            tally.lateness_max_ns(response, self.terms.deadline_ns),
            tally.tolerance_ns(response, self.terms.deadline_ns),
        ];
        METRICS.iter().zip(values).map(|(spec, value)| spec.reading(value)).collect()
    }
}

impl Set {
    #[inline]
    fn account(&self, worker: &Worker, answer: &Answer, end_ns: u64) {
        for release in 0..=answer.skipped {
            let release_ns = answer.first_release_ns + release * self.terms.period_ns;
            worker.record(RESPONSE, end_ns, end_ns - release_ns);
        }
        worker.count(MISSED, answer.skipped + u64::from(!answer.in_time));
        worker.count(SKIPPED, answer.skipped);
        worker.add_ops(u64::from(answer.in_time));
    }
}

/// Releases of the measured section, and how many of them were missed.
#[derive(Debug, PartialEq, Eq)]
struct Tally {
    releases: u64,
    missed: u64,
    /// Missed releases that no job answered.
    silent: u64,
}

const NO_RELEASE: &str = "no release was answered in the measured section";

impl Tally {
    /// Counts the releases. A worker that is starved to the end answers nothing, and silence must not look like
    /// success. The clock gives the number of a worker's releases, less the two that the section's ends may cut
    /// off; those without an answer count as missed. Each gap in the section has two such ends, too: a worker that
    /// lacks no more than they may cut off has answered all. Computed for each worker, so that the two of one worker
    /// do not hide a miss of another.
    fn count(measured: &Measured, terms: Terms) -> Self {
        let answered = measured.ops + measured.counters[MISSED];
        let silent = |worker: &WorkerCounts| {
            let sure = (worker.wall_ns / terms.period_ns).saturating_sub(2);
            let lacking = sure.saturating_sub(worker.ops + worker.counters[MISSED]);
            if lacking > 2 * measured.gaps { lacking } else { 0 }
        };
        let silent = measured.workers.iter().map(silent).sum();
        let missed = measured.counters[MISSED] + silent;
        Tally { releases: answered + silent, missed, silent }
    }

    fn miss_ratio(&self) -> Reading<f64> {
        match self.releases {
            0 => Reading::Unknown(NO_RELEASE.to_string()),
            releases => Reading::Known(self.missed as f64 / releases as f64),
        }
    }

    fn lateness_max_ns(&self, response: &Histogram, deadline_ns: u64) -> Reading<f64> {
        match response.max_ns() {
            _ if self.silent > 0 => self.unanswered(),
            Some(max_ns) => Reading::Known(max_ns.saturating_sub(deadline_ns) as f64),
            None => Reading::Unknown(NO_RELEASE.to_string()),
        }
    }

    fn unanswered(&self) -> Reading<f64> {
        let Tally { silent, releases, .. } = self;
        Reading::Unknown(format!(
            "{silent} of {releases} releases were not answered before the end"
        ))
    }

    fn tolerance_ns(&self, response: &Histogram, deadline_ns: u64) -> Reading<f64> {
        // The counters are exact where the histogram has buckets.
        let may_miss = self.releases / ONE_MAY_MISS_IN;
        if self.silent > may_miss {
            return self.unanswered();
        }
        if self.missed <= may_miss && self.releases > 0 {
            return Reading::Known(0.0);
        }
        let met = (self.releases - may_miss) as f64 - 0.5;
        match response.quantile_ns(met / (self.releases - self.silent) as f64) {
            Some(response_ns) => Reading::Known((response_ns - deadline_ns as f64).max(0.0)),
            None => Reading::Unknown(NO_RELEASE.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Params, Raw};
    use crate::workload::testing::{SetMemory, WorkerGroup, params, request};

    const MS: u64 = 1_000_000;
    const S: u64 = 1_000 * MS;
    const TERMS: Terms = Terms { period_ns: 10 * MS, deadline_ns: 8 * MS, work: Work::Kops(1) };

    fn params_of(pairs: &[(&str, &str)]) -> Params {
        let pairs: Vec<_> =
            pairs.iter().map(|(name, text)| (*name, Raw::Text(text.to_string()))).collect();
        params(&Deadline, &pairs)
    }

    #[test]
    fn jobs_in_time_follow_each_other_by_the_period_whenever_they_end() {
        let mut jobs = Jobs::new(TERMS, 5 * MS);
        for (n, took_ns) in [1, 8 * MS, 3 * MS].into_iter().enumerate() {
            let release_ns = (5 + 10 * n as u64) * MS;
            assert_eq!(jobs.release_ns(), release_ns);
            let answer = Answer { first_release_ns: release_ns, skipped: 0, in_time: true };
            assert_eq!(jobs.complete(release_ns + took_ns), answer);
        }
    }

    #[test]
    fn a_job_that_overruns_skips_what_passed_and_the_next_answers_it() {
        let mut jobs = Jobs::new(TERMS, 0);
        let late = |release_ms: u64, skipped| Answer {
            first_release_ns: release_ms * MS,
            skipped,
            in_time: false,
        };
        assert_eq!(jobs.complete(8 * MS + 1), late(0, 0), "late, but before the next release");
        assert_eq!(jobs.release_ns(), 10 * MS);
        assert_eq!(jobs.complete(20 * MS), late(10, 0), "ends as the next is released: not passed");
        assert_eq!(jobs.release_ns(), 20 * MS);
        assert_eq!(jobs.complete(41 * MS), late(20, 0), "30 and 40 passed");
        assert_eq!(jobs.release_ns(), 50 * MS);
        let answer = Answer { first_release_ns: 30 * MS, skipped: 2, in_time: true };
        assert_eq!(jobs.complete(52 * MS), answer, "the job of 50 answers 30 and 40");
        assert_eq!(jobs.release_ns(), 60 * MS);
    }

    #[test]
    fn the_deadline_defaults_to_the_period_and_is_never_after_it() {
        let cases: &[(&str, Option<&str>, Result<u64, &str>)] = &[
            ("10ms", None, Ok(10 * MS)),
            ("4ms", None, Ok(4 * MS)),
            ("4ms", Some("3ms"), Ok(3 * MS)),
            ("4ms", Some("4ms"), Ok(4 * MS)),
            ("4ms", Some("5ms"), Err("a deadline of 5ms is after the next release, 4ms later")),
        ];
        for (period, deadline, expected) in cases {
            let given = [Some(("period", *period)), deadline.map(|text| ("deadline", text))];
            let params = params_of(&given.into_iter().flatten().collect::<Vec<_>>());
            match (terms(&request(&params, 1)), expected) {
                (Ok(terms), Ok(deadline_ns)) => assert_eq!(terms.deadline_ns, *deadline_ns),
                (Err(why), Err(part)) => assert!(why.to_string().contains(part), "{why}"),
                (got, _) => panic!("{period} {deadline:?}: {got:?}"),
            }
        }
    }

    /// A measurement of this length with these responses of each worker, in time or not by TERMS.
    fn measured(measured_ns: u64, workers: &[&[(u64, u64)]]) -> Measured {
        let mut response = Histogram::default();
        let mut measured = Measured { measured_ns, ..Measured::default() };
        for responses in workers {
            let mut own =
                WorkerCounts { wall_ns: measured_ns, ops: 0, counters: Default::default() };
            for &(response_ns, times) in *responses {
                response.add(response_ns, times);
                if response_ns <= TERMS.deadline_ns {
                    own.ops += times
                } else {
                    own.counters[MISSED] += times
                }
            }
            measured.ops += own.ops;
            measured.counters[MISSED] += own.counters[MISSED];
            measured.workers.push(own);
        }
        measured.histograms = vec![Histogram::default(), response];
        measured
    }

    /// All metrics but the first, which is the rest after the second.
    fn metrics(measured: &Measured) -> [Reading<f64>; 3] {
        let metrics = Set { terms: TERMS, speed: Speed::default() }.metrics(measured);
        let named: Vec<&str> = metrics.iter().map(|metric| metric.kind.name.as_str()).collect();
        assert_eq!(named, ["met_ratio", "miss_ratio", "lateness_max", "tolerance"]);
        let values = metrics.into_iter().map(|metric| metric.value).collect::<Vec<_>>();
        let [met, missed, max, tolerance] = values.try_into().unwrap();
        assert_eq!(met, missed.clone().map(|missed| 1.0 - missed));
        [missed, max, tolerance]
    }

    #[test]
    fn met_ratio_is_the_share_of_deadlines_that_were_met() {
        let met = |workers: &[&[(u64, u64)]], seconds: u64| {
            let measured = measured(seconds * S, workers);
            Set { terms: TERMS, speed: Speed::default() }.metrics(&measured).remove(0).value
        };
        assert_eq!(met(&[&[(MS, 750), (9 * MS, 250)]], 10), Reading::Known(0.75));
        assert_eq!(met(&[&[(MS, 998)], &[]], 10), Reading::Known(0.5), "one never answers");
        assert_eq!(met(&[&[]], 0), Reading::Unknown(NO_RELEASE.to_string()));
    }

    #[test]
    fn one_miss_in_a_thousand_needs_no_tolerance_and_two_need_the_smaller_ones() {
        let known = |values: [f64; 3]| values.map(Reading::Known);
        let all_met = measured(10 * S, &[&[(8 * MS, 1_000)]]);
        assert_eq!(metrics(&all_met), known([0.0, 0.0, 0.0]));
        // At the deadline itself, where a histogram's bucket reaches beyond it.
        let one = measured(10 * S, &[&[(8 * MS, 999), (9 * MS, 1)]]);
        assert_eq!(metrics(&one), known([0.001, MS as f64, 0.0]));
        let [ratio, max, tolerance] =
            metrics(&measured(10 * S, &[&[(MS, 998), (9 * MS, 1), (20 * MS, 1)]]));
        assert_eq!((ratio, max), (Reading::Known(0.002), Reading::Known(12.0 * MS as f64)));
        let tolerance = tolerance.known().unwrap();
        assert!((tolerance - MS as f64).abs() < 0.008 * 9.0 * MS as f64, "{tolerance}");
    }

    #[test]
    fn a_worker_that_never_answers_is_not_taken_for_one_that_never_misses() {
        // 10 s, 1,000 releases each: one worker of two answered all, the other none.
        let [ratio, max, tolerance] = metrics(&measured(10 * S, &[&[(MS, 1_000)], &[]]));
        assert_eq!(ratio, Reading::Known(998.0 / 1_998.0), "but for two at its ends");
        let why = "998 of 1998 releases were not answered before the end";
        assert_eq!(max, Reading::Unknown(why.to_string()));
        assert_eq!(tolerance, Reading::Unknown(why.to_string()));
        for reading in metrics(&measured(0, &[&[]])) {
            assert_eq!(reading, Reading::Unknown(NO_RELEASE.to_string()));
        }
    }

    #[test]
    fn many_workers_that_answered_all_do_not_hide_a_dead_one() {
        // 200 ms, 20 releases each.
        let all: &[(u64, u64)] = &[(MS, 20)];
        let mut workers = vec![all; 10];
        workers[3] = &[];
        let [ratio, max, tolerance] = metrics(&measured(200 * MS, &workers));
        assert_eq!(ratio, Reading::Known(18.0 / 198.0));
        let why = Reading::Unknown("18 of 198 releases were not answered before the end".into());
        assert_eq!((max, tolerance), (why.clone(), why));
        // Each gap may cut off two of a worker: its 18 in ten stretches, and not in nine.
        let in_stretches = |stretches: u64| {
            metrics(&Measured { gaps: stretches - 1, ..measured(200 * MS, &workers) })[0].clone()
        };
        assert_eq!(in_stretches(9), Reading::Known(18.0 / 198.0));
        assert_eq!(in_stretches(10), Reading::Known(0.0));
        // A worker whose time was shorter had fewer of them.
        let mut short = measured(200 * MS, &workers);
        short.workers[3].wall_ns = 30 * MS;
        assert_eq!(metrics(&short)[0], Reading::Known(1.0 / 181.0));
    }

    #[test]
    fn releases_at_the_ends_of_the_section_are_no_misses() {
        // The first of 1,000 was answered before the section, the last will be after it.
        let [ratio, _, tolerance] = metrics(&measured(10 * S, &[&[(MS, 998)]]));
        assert_eq!((ratio, tolerance), (Reading::Known(0.0), Reading::Known(0.0)));
        assert_eq!(metrics(&measured(10 * S, &[&[(MS, 997)]]))[0], Reading::Known(1.0 / 998.0));
    }

    #[test]
    fn each_skipped_release_is_a_miss_with_a_response_of_its_own() {
        let memory = SetMemory::opened(1, 2, 0);
        let SetMemory { slots, recorders, .. } = memory;
        let answer = Answer { first_release_ns: 30 * MS, skipped: 2, in_time: true };
        Set { terms: TERMS, speed: Speed::default() }.account(&memory.worker(0), &answer, 52 * MS);
        assert_eq!(slots[0].ops(), 1);
        assert_eq!(slots[0].counters()[..2], [2, 2], "missed, skipped");
        let response = recorders.merged(RESPONSE);
        let mean_ns = response.mean_ns().unwrap();
        assert_eq!(response.total(), 3);
        assert_eq!((response.min_ns(), response.max_ns()), (Some(2 * MS), Some(22 * MS)));
        assert_eq!(mean_ns, 12.0 * MS as f64, "2, 12 and 22 ms");
    }

    #[test]
    fn releases_that_no_job_answered_have_the_age_that_they_have() {
        let memory = SetMemory::opened(1, 2, 0);
        let worker = memory.worker(0);
        worker.begin(WAKEUP, 35 * MS);
        worker.begin(RESPONSE, 15 * MS);
        let set = Set { terms: TERMS, speed: Speed::default() };
        let [wakeup, response] = memory.under_way(&set, 40 * MS).try_into().unwrap();
        assert_eq!((wakeup.total(), wakeup.max_ns()), (1, Some(5 * MS)));
        assert_eq!((response.total(), response.max_ns()), (3, Some(25 * MS)));
        assert_eq!(response.mean_ns(), Some(15.0 * MS as f64), "25, 15 and 5 ms");
    }

    #[test]
    fn every_release_is_in_time_or_missed_and_has_a_response() {
        // An overload on any machine: a job takes longer than its period.
        let mut params = params_of(&[("period", "100us"), ("deadline", "1us")]);
        params.insert("burn".to_string(), Value::Int(1_000));
        let group = WorkerGroup::start(&Deadline, &params, 1);
        group.wait_until("skipped releases", |group| group.slots()[0].counters()[SKIPPED] >= 10);
        group.stop();
        group.wait_until("the last job's account", |group| {
            let Measured { ops, counters, histograms, .. } = group.measured();
            let responses = histograms[RESPONSE].total();
            responses == ops + counters[MISSED]
                && responses == histograms[WAKEUP].total() + counters[SKIPPED]
        });
        let measured = group.measured();
        let response = &measured.histograms[RESPONSE];
        assert_eq!(measured.ops, 0, "no job of 1,000 kops is done in 1 us");
        assert!(measured.counters[MISSED] > measured.counters[SKIPPED]);
        assert!(response.max_ns() > Some(100_000), "a skipped release waited a period and more");
    }
}
