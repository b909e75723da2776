//! The probe `sched` in a run: what the scheduler did to the workers of each role in the measured
//! section. It is opened before the barrier and read after the end; in between its programs
//! count in the kernel, at a cost that `schedlab score --cost` tells.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{
    Direction, Metric, NamedHistogram, PairKind, PairScore, Reading, TaskScore, Times, Unit,
};
use crate::probe::sched::{self, Ask, Counted, Level, Session};

/// Tasks beside the workers that are told apart.
const OTHER_TASKS: u32 = 1 << 13;
/// Partners of preemptions that are no workers of this run.
const OTHERS: &str = "others";

pub struct Telemetry {
    level: Level,
    session: Result<Box<dyn Session>, String>,
    source: &'static str,
    counted: Option<Counted>,
}

impl Telemetry {
    /// `None`: the plan asks for none.
    pub fn open(probes: &[String], workers: usize) -> Option<Telemetry> {
        // The names are those of `model::PROBES`.
        let level = match probes.first()?.as_str() {
            "sched" => Level::Full,
            _ => Level::Light,
        };
        let max_tasks = OTHER_TASKS.saturating_add(u32::try_from(workers).unwrap_or(u32::MAX));
        let ask = Ask { level, max_tasks, ..Ask::default() };
        let (session, source) = match sched::open(&ask, None) {
            Ok(opened) => (Ok(opened.session), opened.source),
            Err(missed) => {
                let missed: Vec<String> =
                    missed.iter().map(|(source, why)| format!("{source}: {why}")).collect();
                (Err(missed.join("; ")), "")
            }
        };
        Some(Telemetry { level, session, source, counted: None })
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
        Roles { level: self.level, source: self.source, seen }
    }

    fn with(&mut self, act: impl FnOnce(&mut dyn Session) -> Result<(), String>) {
        if let Ok(session) = &mut self.session
            && let Err(why) = act(session.as_mut())
        {
            self.session = Err(why);
        }
    }
}

/// What was counted, to be asked for by the workers of a role.
pub struct Roles {
    level: Level,
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
        for role in roles {
            let sum = match &self.seen {
                Ok(counted) => Ok(Sum::of(counted, &role.tids)),
                Err(why) => Err(why.as_str()),
            };
            let name = names.get(role.thread).copied().unwrap_or(role.thread);
            metrics.extend(rates(name, &sum, self));
            if let Ok(sum) = &sum {
                histograms.extend(sum.histograms(name, self.level));
            }
            if let (Ok(counted), Level::Full) = (&self.seen, self.level) {
                let pairs = counted.pairs.as_deref().ok_or_else(|| self.uncounted());
                metrics.extend(preemptions(role.thread, name, counted.wall_ns, pairs, names));
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
        let slice = (level == Level::Full).then(|| named("slice", &self.slice)).flatten();
        [named("queue_wait", &self.wait), slice].into_iter().flatten().collect()
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

fn metric(name: String, unit: Unit, direction: Direction, value: Reading<f64>) -> Metric {
    Metric { name, unit, direction, value }
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
    let neutral = Direction::Neutral;
    let rate =
        |what: &str, figure| metric(format!("{role}_{what}"), Unit::PerS, neutral, read(figure));
    let time =
        |what: &str, figure| metric(format!("{role}_{what}"), Unit::Ns, neutral, read(figure));
    let mut metrics = vec![
        rate("voluntary_switches", |sum| Some(sum.per_s(sum.voluntary?))),
        rate("involuntary_switches", |sum| Some(sum.per_s(sum.involuntary?))),
        time("queue_wait_p50", |sum| quantile(&sum.wait, 0.5)),
        time("queue_wait_p99", |sum| quantile(&sum.wait, 0.99)),
        time("queue_wait_mean", |sum| Some(sum.wait.as_ref()?.mean_ns())),
        time("queue_wait_max", |sum| max(&sum.wait)),
    ];
    if roles.level == Level::Full {
        metrics.extend([
            rate("wakeups", |sum| Some(sum.per_s(sum.wakeups?))),
            rate("migrations", |sum| Some(sum.per_s(sum.migrations?))),
            time("slice_p50", |sum| quantile(&sum.slice, 0.5)),
            time("slice_p99", |sum| quantile(&sum.slice, 0.99)),
        ]);
    }
    metrics
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
fn preemptions(
    thread: &str,
    role: &str,
    wall_ns: u64,
    pairs: Result<&[PairScore], String>,
    names: &BTreeMap<&str, &str>,
) -> Vec<Metric> {
    let mut by: BTreeMap<&str, u64> = names.values().map(|name| (*name, 0)).collect();
    by.insert(OTHERS, 0);
    let is_of = |pair: &&PairScore| pair.kind == PairKind::Preempted && pair.name == thread;
    for pair in pairs.iter().copied().flatten().filter(is_of) {
        let name = names.get(pair.by.as_str()).copied().unwrap_or(OTHERS);
        *by.entry(name).or_default() += pair.count;
    }
    let per_s = |count| match &pairs {
        Ok(_) => Reading::Known(count as f64 * 1e9 / wall_ns.max(1) as f64),
        Err(why) => Reading::Unknown(why.clone()),
    };
    by.into_iter()
        .map(|(name, count)| {
            let name = format!("{role}_preempted_by_{name}");
            metric(name, Unit::PerS, Direction::Neutral, per_s(count))
        })
        .collect()
}
