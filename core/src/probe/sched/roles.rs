//! The probe `sched` in a run: the scheduler's treatment of the workers of each role in the measured section. It is
//! opened before the barrier and read after the end; in between its programs count in the kernel. `schedlab score
//! --cost` measures the cost of that.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{
    Disturbance, DisturbanceFact, INVOLUNTARY, Metric, Migrations, NamedHistogram, OTHER_TASKS,
    PREEMPTED_BY, PairKind, PairScore, ProbeMetric, ProbeSpec, QUEUE_WAIT, Reading, SCHED_PROBES,
    SLICE, Scope, Statistic, TRACE_PROBE, TaskScore, Times, Trace, Unit, VOLUNTARY, WAITED_FOR,
};
use crate::probe::{MAX_WORKERS_AHEAD, Measured, Probe, Recording, Role};
use crate::sys::Host;

use super::{Counted, Domains, Level, Missed, Opened, Session, SessionConfig, SourceError};

/// Room for tasks that are not workers.
const OTHER_TASKS_ROOM: u32 = 1 << 13;

const MEDIAN: Statistic = Statistic::Quantile(500_000);
const P99: Statistic = Statistic::Quantile(990_000);

const SWITCHED_AWAY: ProbeMetric =
    ProbeMetric::rate(VOLUNTARY, "its workers gave up their CPU", Statistic::VoluntarySwitches);
const SWITCHED_OUT: ProbeMetric =
    ProbeMetric::rate(INVOLUNTARY, "its workers lost their CPU", Statistic::InvoluntarySwitches);
const WAIT_P50: ProbeMetric =
    ProbeMetric::time("queue_wait_p50", QUEUE_WAIT, MEDIAN, "waits for a CPU, the median");
const WAIT_P99: ProbeMetric =
    ProbeMetric::time("queue_wait_p99", QUEUE_WAIT, P99, "their 99th percentile");
const WAIT_MEAN: ProbeMetric =
    ProbeMetric::time("queue_wait_mean", QUEUE_WAIT, Statistic::Mean, "their mean");
const WAIT_MAX: ProbeMetric =
    ProbeMetric::time("queue_wait_max", QUEUE_WAIT, Statistic::Max, "the longest");

const NEEDS: &str = "nothing; all of it with root and BTF, else what /proc shows";

/// The probe at one [`Level`]: a level that counts less costs less.
pub struct SchedProbe {
    spec: ProbeSpec,
    level: Level,
    trace_ns: u64,
}

pub static SCHED: SchedProbe = SchedProbe {
    spec: ProbeSpec {
        name: SCHED_PROBES[0],
        about: "of each role: switches, waits for a CPU and who ran meanwhile, wakeups, migrations, slices",
        needs: NEEDS,
        metrics: &[
            SWITCHED_AWAY,
            SWITCHED_OUT,
            WAIT_P50,
            WAIT_P99,
            WAIT_MEAN,
            WAIT_MAX,
            ProbeMetric::rate("wakeups", "its workers were woken", Statistic::Count),
            ProbeMetric::rate(
                "migrations",
                "its workers were moved to another CPU",
                Statistic::Count,
            ),
            ProbeMetric::time("slice_p50", SLICE, MEDIAN, "time on a CPU at a time, the median"),
            ProbeMetric::time("slice_p99", SLICE, P99, "its 99th percentile"),
            ProbeMetric {
                scope: Scope::Partner,
                ..ProbeMetric::rate(
                    PREEMPTED_BY,
                    "this role took the CPU from its workers",
                    Statistic::Count,
                )
            },
            ProbeMetric {
                scope: Scope::Partner,
                unit: Unit::Ns,
                ..ProbeMetric::rate(
                    WAITED_FOR,
                    "in each second, its workers waited while this role had the CPU",
                    Statistic::Count,
                )
            },
        ],
    },
    level: Level::Full,
    trace_ns: 0,
};

pub static SCHED_LIGHT: SchedProbe = SchedProbe {
    spec: ProbeSpec {
        name: SCHED_PROBES[1],
        about: "of each role: switches and waits for a CPU, at less cost",
        needs: NEEDS,
        metrics: &[SWITCHED_AWAY, SWITCHED_OUT, WAIT_P50, WAIT_P99, WAIT_MEAN, WAIT_MAX],
    },
    level: Level::Light,
    trace_ns: 0,
};

/// It measures nothing, so no plan names it: `hunt` asks for it.
pub static SCHED_TRACE: SchedProbe = SchedProbe {
    spec: ProbeSpec {
        name: TRACE_PROBE,
        about: "every switch, wakeup and migration of the last seconds",
        needs: "root and BTF",
        metrics: &[],
    },
    level: Level::Light,
    trace_ns: 2_500_000_000,
};

impl Probe for SchedProbe {
    fn spec(&self) -> &ProbeSpec {
        &self.spec
    }

    fn open(&'static self, workers: &[i32]) -> Box<dyn Recording> {
        Box::new(self.recording(u32::try_from(workers.len()).unwrap_or(u32::MAX)))
    }

    /// Only in the kernel: records of new tasks would fill a buffer until somebody reads them. Guests alone open probes ahead.
    fn open_ahead(&'static self) -> Option<Box<dyn Recording>> {
        if self.trace_ns > 0 {
            Domains::count(&Host::default());
        }
        let recording = self.recording(MAX_WORKERS_AHEAD);
        (recording.source == "bpf").then(|| Box::new(recording) as Box<dyn Recording>)
    }
}

impl SchedProbe {
    fn recording(&'static self, workers: u32) -> SchedRecording {
        let max_tasks = OTHER_TASKS_ROOM.saturating_add(workers);
        let SchedProbe { level, trace_ns, .. } = *self;
        let config = SessionConfig { level, trace_ns, max_tasks, ..SessionConfig::default() };
        let (session, source, missed) = match super::open(&config, None) {
            Ok(Opened { session, source, missed }) => (Ok(session), source, missed),
            Err(missed) => (Err(super::reasons(&missed)), "", Vec::new()),
        };
        let mut recording =
            SchedRecording { probe: self, session, source, missed, counted: None, domains: None };
        if trace_ns > 0 {
            // To begin takes a CPU for a while, which workers that start then would avoid.
            recording.with(|session| session.begin());
        }
        recording
    }
}

struct SchedRecording {
    probe: &'static SchedProbe,
    session: Result<Box<dyn Session>, String>,
    source: &'static str,
    /// Why it is not a better one.
    missed: Missed,
    counted: Option<Counted>,
    /// The counts of load balancing at the beginning, for a trace.
    domains: Option<Domains>,
}

impl SchedRecording {
    fn with(&mut self, act: impl FnOnce(&mut dyn Session) -> Result<(), SourceError>) {
        if let Ok(session) = &mut self.session
            && let Err(error) = act(session.as_mut())
        {
            self.session = Err(error.to_string());
        }
    }
}

impl Recording for SchedRecording {
    fn begin(&mut self) {
        if self.probe.trace_ns == 0 {
            self.with(|session| session.begin());
        } else {
            self.domains = Some(Domains::begin(Host::default()));
        }
    }

    fn poll(&mut self) {
        self.with(|session| session.poll());
    }

    fn end(&mut self) {
        let domains = self.domains.take().and_then(|before| before.end().ok());
        let mut counted = None;
        self.with(|session| session.end().map(|seen| counted = Some(seen)));
        if let Some(trace) =
            counted.as_mut().and_then(|counted: &mut Counted| counted.trace.as_mut())
        {
            trace.domains = domains.unwrap_or_default();
        }
        self.counted = counted;
    }

    fn take_trace(&mut self) -> Option<Trace> {
        self.counted.as_mut()?.trace.take()
    }

    fn disturbances(&self) -> Vec<Disturbance> {
        let fact = DisturbanceFact::ProbeSource {
            probe: self.probe.spec.name.to_string(),
            source: self.source.to_string(),
            missed: super::described(&self.missed),
        };
        let fell_back = self.counted.is_some() && !self.missed.is_empty();
        fell_back.then_some(Disturbance { share: None, fact }).into_iter().collect()
    }

    fn measured(&self, roles: &[Role], names: &BTreeMap<&str, &str>) -> Measured {
        let seen = match (&self.session, &self.counted) {
            (Ok(_), Some(counted)) => Ok(counted),
            (Err(why), _) => Err(why.as_str()),
            (Ok(_), None) => Err("nothing was counted"),
        };
        let (source, missed) = (self.source, super::reasons(&self.missed));
        let missed = missed.as_str();
        Roles { probe: self.probe, source, missed, seen }.measured(roles, names)
    }
}

/// The counts, or why there are none.
struct Roles<'a> {
    probe: &'static SchedProbe,
    source: &'static str,
    missed: &'a str,
    seen: Result<&'a Counted, &'a str>,
}

impl Roles<'_> {
    fn measured(&self, roles: &[Role], names: &BTreeMap<&str, &str>) -> Measured {
        let mut metrics = Vec::new();
        let mut histograms = Vec::new();
        let level = self.probe.level;
        for role in roles {
            let sum = self.seen.map(|counted| (sum_of(counted, &role.tids), counted.wall_ns));
            let name = names.get(role.thread).copied().unwrap_or(role.thread);
            metrics.extend(rates(name, &sum, self));
            if let Ok((sum, _)) = &sum {
                histograms.extend(self::histograms(sum, name, level));
            }
            let of_partners =
                self.probe.spec.metrics.iter().filter(|metric| metric.scope == Scope::Partner);
            for own in of_partners {
                let Ok(counted) = self.seen else { continue };
                let pairs = counted.pairs.as_deref().ok_or_else(|| self.uncounted());
                let value = if own.name == WAITED_FOR { PairScore::delay_ns } else { preemptions };
                let by = by_partner(role.thread, counted.wall_ns, pairs, value, names).into_iter();
                metrics.extend(by.map(|(by, value)| own.kind_by(name, by).reading(value)));
            }
        }
        (metrics, histograms)
    }

    fn uncounted(&self) -> String {
        let Roles { source, missed, .. } = self;
        let why = if missed.is_empty() { String::new() } else { format!(" ({missed})") };
        format!("the source `{source}` does not count it{why}")
    }
}

/// The sums over these tasks. A worker that never ran is in no list, and nothing has happened to it.
fn sum_of(counted: &Counted, tids: &BTreeSet<i32>) -> TaskScore {
    let mut sum = TaskScore {
        run_ns: Some(0),
        voluntary: Some(0),
        involuntary: Some(0),
        wakeups: Some(0),
        migrations: Some(Migrations::default()),
        wait: Some(Times::default()),
        slice: Some(Times::default()),
        ..TaskScore::default()
    };
    counted.tasks.iter().filter(|task| tids.contains(&task.tid)).for_each(|task| sum.add(task));
    sum
}

fn histograms(sum: &TaskScore, role: &str, level: Level) -> Vec<NamedHistogram> {
    let named = |what: &str, times: &Option<Times>| {
        let times = times.as_ref().filter(|times| has_histogram(times))?;
        let counts = times.buckets.iter().map(|bucket| (bucket.low_ns, bucket.count));
        Some(NamedHistogram { name: format!("{role}_{what}"), counts: counts.collect() })
    };
    let slice = (level == Level::Full).then(|| named("slice", &sum.slice)).flatten();
    [named("queue_wait", &sum.wait), slice].into_iter().flatten().collect()
}

/// Samples without buckets: the source has counts and sums alone.
fn has_histogram(times: &Times) -> bool {
    times.count == 0 || !times.buckets.is_empty()
}

/// A figure of a sum over so many nanoseconds. `None`: not counted by the source.
type Figure = fn(&TaskScore, u64) -> Option<Reading<f64>>;

/// Switches, wakeups and migrations per second, run-queue waits, slices.
fn rates(role: &str, sum: &Result<(TaskScore, u64), &str>, roles: &Roles) -> Vec<Metric> {
    let read = |figure: Figure| match sum.as_ref().map(|(sum, wall_ns)| figure(sum, *wall_ns)) {
        Ok(Some(reading)) => reading,
        Ok(None) => Reading::Unknown(roles.uncounted()),
        Err(why) => Reading::Unknown((*why).to_string()),
    };
    let of_role = roles.probe.spec.metrics.iter().filter(|metric| metric.scope == Scope::Role);
    of_role
        .map(|own| own.kind(role).reading(read(figure(own.name).unwrap_or(|_, _| None))))
        .collect()
}

/// The figure of a metric by its name. A test asks for every metric of both levels.
fn figure(name: &str) -> Option<Figure> {
    let figure: Figure = match name {
        VOLUNTARY => |sum, wall_ns| Some(per_s(sum.voluntary?, wall_ns)),
        INVOLUNTARY => |sum, wall_ns| Some(per_s(sum.involuntary?, wall_ns)),
        "queue_wait_p50" => |sum, _| quantile(&sum.wait, 500_000),
        "queue_wait_p99" => |sum, _| quantile(&sum.wait, 990_000),
        "queue_wait_mean" => |sum, _| Some(happened(sum.wait.as_ref()?.mean_ns())),
        "queue_wait_max" => |sum, _| max(&sum.wait),
        "wakeups" => |sum, wall_ns| Some(per_s(sum.wakeups?, wall_ns)),
        "migrations" => |sum, wall_ns| Some(per_s(sum.migrations?.total, wall_ns)),
        "slice_p50" => |sum, _| quantile(&sum.slice, 500_000),
        "slice_p99" => |sum, _| quantile(&sum.slice, 990_000),
        _ => return None,
    };
    Some(figure)
}

fn per_s(count: u64, wall_ns: u64) -> Reading<f64> {
    happened((wall_ns > 0).then(|| count as f64 * 1e9 / wall_ns as f64))
}

fn happened(value: Option<f64>) -> Reading<f64> {
    Reading::from_option(value, "nothing of it happened in the measured section")
}

/// The quantile for `ppm` parts per million.
fn quantile(times: &Option<Times>, ppm: u32) -> Option<Reading<f64>> {
    let times = times.as_ref().filter(|times| has_histogram(times))?;
    Some(match Statistic::Quantile(ppm).too_few(times.count, "samples") {
        Some(why) => Reading::Unknown(why),
        None => happened(times.quantile_ns(f64::from(ppm) / 1e6).map(|ns| ns as f64)),
    })
}

fn max(times: &Option<Times>) -> Option<Reading<f64>> {
    let times = times.as_ref()?;
    match times.max_ns {
        None if times.count > 0 => None,
        max_ns => Some(happened(max_ns.map(|ns| ns as f64))),
    }
}

fn preemptions(pair: &PairScore) -> Option<u64> {
    Some(pair.count)
}

/// Values per second for each partner: each role of the run, and all others together, among them the idle task.
fn by_partner<'n>(
    thread: &str,
    wall_ns: u64,
    pairs: Result<&[PairScore], String>,
    value: fn(&PairScore) -> Option<u64>,
    names: &BTreeMap<&str, &'n str>,
) -> Vec<(&'n str, Reading<f64>)> {
    let mut by: BTreeMap<&'n str, u64> = names.values().map(|name| (*name, 0)).collect();
    by.insert(OTHER_TASKS, 0);
    let is_of = |pair: &&PairScore| pair.kind == PairKind::Delayed && pair.name == thread;
    for pair in pairs.iter().copied().flatten().filter(is_of) {
        let name = names.get(pair.by.as_str()).copied().unwrap_or(OTHER_TASKS);
        *by.entry(name).or_default() += value(pair).unwrap_or(0);
    }
    let per_s = |count| match &pairs {
        Ok(_) => Reading::Known(count as f64 * 1e9 / wall_ns.max(1) as f64),
        Err(why) => Reading::Unknown(why.clone()),
    };
    by.into_iter().map(|(name, count)| (name, per_s(count))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::MetricKind;

    /// Runs store the metrics that `schedlab list probes` shows and `--metric` accepts.
    #[test]
    fn a_role_has_the_metrics_of_its_probe() {
        let names = BTreeMap::from([("web-worker", "worker"), ("web-message", "message")]);
        let task =
            TaskScore { tid: 7, voluntary: Some(30), involuntary: Some(4), ..TaskScore::default() };
        let counted = Counted {
            wall_ns: 2_000_000_000,
            tasks: vec![task],
            pairs: Some(Vec::new()),
            ..Counted::default()
        };
        let role = Role { thread: "web-worker", tids: BTreeSet::from([7]) };
        for probe in [&SCHED, &SCHED_LIGHT] {
            let seen = Ok(&counted);
            let (metrics, _) = Roles { probe, source: "bpf", missed: "", seen }
                .measured(std::slice::from_ref(&role), &names);
            let spec = &probe.spec;
            let made: BTreeSet<MetricKind> =
                metrics.iter().map(|metric| metric.kind.clone()).collect();
            let partners: Vec<&str> = names.values().copied().collect();
            let described: BTreeSet<MetricKind> =
                spec.metrics_of("worker", &partners).into_iter().collect();
            assert_eq!(made, described, "{}", spec.name);
            assert_eq!(metrics[0].value, Reading::Known(15.0), "per second");
            for own in spec.metrics.iter().filter(|own| own.scope == Scope::Role) {
                assert!(figure(own.name).is_some(), "{}", own.name);
            }
        }
    }
}
