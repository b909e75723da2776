//! The probe `sched` in a run: what the scheduler did to the workers of each role in the measured
//! section. It is opened before the barrier and read after the end; in between its programs
//! count in the kernel, at a cost that `schedlab score --cost` tells.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{
    INVOLUNTARY, Metric, NamedHistogram, OTHER_TASKS, PairKind, PairScore, Probe, QUEUE_WAIT,
    Reading, SLICE, TaskScore, Times, VOLUNTARY,
};
use crate::probe::sched::{self, Ask, Counted, Level, Session};

/// Tasks beside the workers that are told apart.
const MORE_TASKS: u32 = 1 << 13;

pub struct Telemetry {
    probe: &'static Probe,
    session: Result<Box<dyn Session>, String>,
    source: &'static str,
    counted: Option<Counted>,
}

impl Telemetry {
    /// `None`: the plan asks for none.
    pub fn open(probes: &[String], workers: usize) -> Option<Telemetry> {
        let probe = probes.iter().find_map(|name| Probe::named(name))?;
        let level = level(probe);
        let max_tasks = MORE_TASKS.saturating_add(u32::try_from(workers).unwrap_or(u32::MAX));
        let ask = Ask { level, max_tasks, ..Ask::default() };
        let (session, source) = match sched::open(&ask, None) {
            Ok(opened) => (Ok(opened.session), opened.source),
            Err(missed) => {
                let missed: Vec<String> =
                    missed.iter().map(|(source, why)| format!("{source}: {why}")).collect();
                (Err(missed.join("; ")), "")
            }
        };
        Some(Telemetry { probe, session, source, counted: None })
    }

    pub fn begin(&mut self) {
        self.with(|session| session.begin());
    }

    pub fn look(&mut self) {
        self.with(|session| session.look());
    }

    pub fn end(&mut self) {
        let mut counted = None;
        self.with(|session| session.end().map(|seen| counted = Some(seen)));
        self.counted = counted;
    }

    /// What was counted between `begin` and `end`.
    pub fn roles(self) -> Roles {
        let seen = match (self.session, self.counted) {
            (Ok(_), Some(counted)) => Ok(counted),
            (Err(why), _) => Err(why),
            (Ok(_), None) => Err("nothing was counted".to_string()),
        };
        Roles { probe: self.probe, source: self.source, seen }
    }

    fn with(&mut self, act: impl FnOnce(&mut dyn Session) -> Result<(), String>) {
        if let Ok(session) = &mut self.session
            && let Err(why) = act(session.as_mut())
        {
            self.session = Err(why);
        }
    }
}

/// The least that counts all that the probe gives.
fn level(probe: &Probe) -> Level {
    let beyond_light = |name: &str| !LIGHT.contains(&name);
    match probe.metrics.iter().any(|metric| beyond_light(metric.name)) {
        true => Level::Full,
        false => Level::Light,
    }
}

/// What was counted, to be asked for by the workers of a role.
pub struct Roles {
    probe: &'static Probe,
    source: &'static str,
    seen: Result<Counted, String>,
}

/// One role of one set: how its threads are called and which tasks they are.
pub struct Role<'a> {
    pub thread: &'a str,
    pub tids: BTreeSet<i32>,
}

impl Roles {
    /// Metrics and histograms of one set; the names of both begin with the role's. `names` has the
    /// roles of all sets: how their threads are called, and how the role is in names.
    pub fn of(
        &self,
        roles: &[Role],
        names: &BTreeMap<&str, &str>,
    ) -> (Vec<Metric>, Vec<NamedHistogram>) {
        let mut metrics = Vec::new();
        let mut histograms = Vec::new();
        let level = level(self.probe);
        for role in roles {
            let sum = match &self.seen {
                Ok(counted) => Ok(Sum::of(counted, &role.tids)),
                Err(why) => Err(why.as_str()),
            };
            let name = names.get(role.thread).copied().unwrap_or(role.thread);
            metrics.extend(rates(name, &sum, self));
            if let Ok(sum) = &sum {
                histograms.extend(sum.histograms(name, level));
            }
            let by_partner = self.probe.metrics.iter().find(|metric| metric.by_partner);
            if let (Ok(counted), Some(own)) = (&self.seen, by_partner) {
                let pairs = counted.pairs.as_deref().ok_or_else(|| self.uncounted());
                let by = preemptions(role.thread, counted.wall_ns, pairs, names).into_iter();
                metrics.extend(by.map(|(by, value)| own.kind_by(name, by).reading(value)));
            }
        }
        (metrics, histograms)
    }

    fn uncounted(&self) -> String {
        format!("the source `{}` does not count it", self.source)
    }
}

/// Over the tasks of a role. `None`: not counted by the source.
struct Sum {
    wall_ns: u64,
    voluntary: Option<u64>,
    involuntary: Option<u64>,
    wakeups: Option<u64>,
    migrations: Option<u64>,
    wait: Option<Times>,
    slice: Option<Times>,
}

impl Sum {
    /// A worker that never ran is in no list, and nothing has happened to it.
    fn of(counted: &Counted, tids: &BTreeSet<i32>) -> Sum {
        let mut sum = Sum {
            wall_ns: counted.wall_ns,
            voluntary: Some(0),
            involuntary: Some(0),
            wakeups: Some(0),
            migrations: Some(0),
            wait: Some(Times::default()),
            slice: Some(Times::default()),
        };
        for task in counted.tasks.iter().filter(|task| tids.contains(&task.tid)) {
            sum.add(task);
        }
        sum
    }

    fn add(&mut self, task: &TaskScore) {
        let add =
            |own: &mut Option<u64>, more: Option<u64>| *own = own.zip(more).map(|(a, b)| a + b);
        add(&mut self.voluntary, task.voluntary);
        add(&mut self.involuntary, task.involuntary);
        add(&mut self.wakeups, task.wakeups);
        add(&mut self.migrations, task.migrations.map(|migrations| migrations.total));
        merge(&mut self.wait, task.wait.as_ref());
        merge(&mut self.slice, task.slice.as_ref());
    }

    fn histograms(&self, role: &str, level: Level) -> Vec<NamedHistogram> {
        let named = |what: &str, times: &Option<Times>| {
            let times = times.as_ref().filter(|times| has_histogram(times))?;
            let counts = times.buckets.iter().map(|bucket| (bucket.low_ns, bucket.count));
            Some(NamedHistogram { name: format!("{role}_{what}"), counts: counts.collect() })
        };
        let slice = (level == Level::Full).then(|| named(SLICE, &self.slice)).flatten();
        [named(QUEUE_WAIT, &self.wait), slice].into_iter().flatten().collect()
    }
}

fn merge(own: &mut Option<Times>, more: Option<&Times>) {
    match (own.as_mut(), more) {
        (Some(own), Some(more)) => own.merge(more),
        _ => *own = None,
    }
}

/// Samples without buckets: the source has counts and sums alone.
fn has_histogram(times: &Times) -> bool {
    times.count == 0 || !times.buckets.is_empty()
}

/// A figure of a sum. `None`: not counted by the source; `Some(None)`: nothing of it happened.
type Figure = fn(&Sum) -> Option<Option<f64>>;

/// Switches, wakeups and migrations per second, run-queue waits, slices.
fn rates(role: &str, sum: &Result<Sum, &str>, roles: &Roles) -> Vec<Metric> {
    let read = |figure: Figure| match sum.as_ref().map(figure) {
        Ok(Some(Some(value))) => Reading::Known(value),
        Ok(Some(None)) => {
            Reading::Unknown("nothing of it happened in the measured section".to_string())
        }
        Ok(None) => Reading::Unknown(roles.uncounted()),
        Err(why) => Reading::Unknown((*why).to_string()),
    };
    let of_role = roles.probe.metrics.iter().filter(|metric| !metric.by_partner);
    of_role.map(|own| own.kind(role).reading(read(figure(own.name).unwrap_or(|_| None)))).collect()
}

/// What [`Level::Light`] counts.
const LIGHT: &[&str] = &[
    VOLUNTARY,
    INVOLUNTARY,
    "queue_wait_p50",
    "queue_wait_p99",
    "queue_wait_mean",
    "queue_wait_max",
];

/// The figure of a metric of [`crate::model::PROBES`], which a test asks for all that there are.
fn figure(name: &str) -> Option<Figure> {
    let figure: Figure = match name {
        VOLUNTARY => |sum| Some(sum.per_s(sum.voluntary?)),
        INVOLUNTARY => |sum| Some(sum.per_s(sum.involuntary?)),
        "queue_wait_p50" => |sum| quantile(&sum.wait, 0.5),
        "queue_wait_p99" => |sum| quantile(&sum.wait, 0.99),
        "queue_wait_mean" => |sum| Some(sum.wait.as_ref()?.mean_ns()),
        "queue_wait_max" => |sum| max(&sum.wait),
        "wakeups" => |sum| Some(sum.per_s(sum.wakeups?)),
        "migrations" => |sum| Some(sum.per_s(sum.migrations?)),
        "slice_p50" => |sum| quantile(&sum.slice, 0.5),
        "slice_p99" => |sum| quantile(&sum.slice, 0.99),
        _ => return None,
    };
    Some(figure)
}

impl Sum {
    fn per_s(&self, count: u64) -> Option<f64> {
        (self.wall_ns > 0).then(|| count as f64 * 1e9 / self.wall_ns as f64)
    }
}

fn quantile(times: &Option<Times>, q: f64) -> Option<Option<f64>> {
    let times = times.as_ref().filter(|times| has_histogram(times))?;
    Some(times.quantile_ns(q).map(|ns| ns as f64))
}

fn max(times: &Option<Times>) -> Option<Option<f64>> {
    let times = times.as_ref()?;
    match times.max_ns {
        None if times.count > 0 => None,
        max_ns => Some(max_ns.map(|ns| ns as f64)),
    }
}

/// By whom, per second: each role of the run, and all others together.
fn preemptions<'n>(
    thread: &str,
    wall_ns: u64,
    pairs: Result<&[PairScore], String>,
    names: &BTreeMap<&str, &'n str>,
) -> Vec<(&'n str, Reading<f64>)> {
    let mut by: BTreeMap<&'n str, u64> = names.values().map(|name| (*name, 0)).collect();
    by.insert(OTHER_TASKS, 0);
    let is_of = |pair: &&PairScore| pair.kind == PairKind::Preempted && pair.name == thread;
    for pair in pairs.iter().copied().flatten().filter(is_of) {
        let name = names.get(pair.by.as_str()).copied().unwrap_or(OTHER_TASKS);
        *by.entry(name).or_default() += pair.count;
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
    use crate::model::{MetricKind, PROBES};

    /// Runs store what `schedlab list probes` names; old stores had the same kinds.
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
        for probe in PROBES {
            let seen = Ok(counted.clone());
            let (metrics, _) =
                Roles { probe, source: "bpf", seen }.of(std::slice::from_ref(&role), &names);
            let made: BTreeSet<MetricKind> =
                metrics.iter().map(|metric| metric.kind.clone()).collect();
            let partners: Vec<&str> = names.values().copied().collect();
            let listed: BTreeSet<MetricKind> =
                probe.metrics_of("worker", &partners).into_iter().collect();
            assert_eq!(made, listed, "{}", probe.name);
            for kind in made {
                let MetricKind { name, unit, direction, .. } = &kind;
                assert_eq!(kind, MetricKind::legacy("spin", name, *unit, *direction));
            }
            assert_eq!(metrics[0].value, Reading::Known(15.0), "per second");
            for own in probe.metrics.iter().filter(|own| !own.by_partner) {
                assert!(figure(own.name).is_some(), "{}", own.name);
            }
        }
        assert_eq!(PROBES.iter().map(level).filter(|level| *level == Level::Light).count(), 1);
    }
}
