//! `steps`: workers that do what a list says, step by step: work, sleep, await timers, and meet at locks,
//! conditions, semaphores and barriers, which all sets of a workload share by name.
//!
//! Everything is timed by the clock and by calibrated work. Where a time is drawn, the seed and the number of the pass
//! decide, so in the lab each run is the same.
//! Steps are done one after the other; what rt-app calls a phase is a part of the list that is
//! repeated.

mod language;
mod order;
mod player;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::sync::OnceLock;

use crate::model::{
    CpuSet, Direction, Field, Kind, Metric, MetricKind, MetricSpec, Params, Reading, Statistic,
    Unit, Value,
};
use crate::stats::Histogram;
use crate::sys::shared;

use super::burn::{Burner, Speed};
use super::channels::Wanted;
use super::things::{MAX_READERS, Sort, Thing, Things, Use};
use super::{
    Latency, Load, Measured, Request, Role, Slot, Spec, UnderWay, Worker, Workload, WorkloadError,
    params,
};
use language::{Course, MAX_STEP_NS};
pub use language::{
    MAX_NAME_BYTES as MAX_STEP_NAME_BYTES, MAX_STEP_NS as MAX_STEP_TIME_NS, MAX_STEPS,
    MAX_TIMES as MAX_STEP_TIMES, Phase, RUN_CGROUP, Script, Step, TimerPlace, Times,
    is_name as is_step_name,
};
use order::{Cursor, ORDER, Order};
use player::{CHAIN, EARLY_NS, LATE_NS, MISSED, Parts, Player, RUN_NS, TIMERS, open_cgroups};

pub struct Steps;

pub const NAME: &str = "steps";

/// The parameter whose time passes before the first step.
pub const DELAY: &str = "delay";

/// The parameter that makes the load larger or smaller.
pub const RATE: Field = Field::new("rate", Kind::Times { max: 1_000.0 }).about(
    "so many times as often by the clock: sleeps and timers are as much shorter, and work is the same",
);

const SPEC: Spec = Spec {
    name: NAME,
    about: "does a list of steps: burn, sleep, timers, locks, conditions, semaphores, barriers",
    params: &[
        Field::new(language::STEPS, Kind::List(&Kind::Text))
            .about(
                "\"burn TIME\" at full speed, \"spin TIME\" by the clock, \"sleep TIME\", \
                 \"timer [NAME] TIME\", \"phase N\", \"lock NAME\" and more: schedlab help rt-app",
            )
            .default("burn 1ms, timer 10ms"),
        Field::new(ORDER, Kind::Word).about(
            "\"a*17 b\": the workers of the set share this order of parts, which \"part a\" \
                 begins in the steps; whoever is free does the next one",
        ),
        Field::new("loops", Kind::Int { min: 1, max: language::MAX_TIMES as i64 })
            .about("how often each worker does the whole list; to the end of the run unless given"),
        Field::new(DELAY, Kind::Duration { min_ns: 0, max_ns: MAX_STEP_NS })
            .about("each worker sleeps so long before its first step: shorter than the run")
            .default("0s"),
        RATE,
        Field::new("inherit", Kind::Bool)
            .about("its locks lend the priority of those that wait to their holder")
            .default("false"),
        Field::new("memory", Kind::Size { min_bytes: 1, max_bytes: 1 << 30 })
            .about("what the steps `memory` and `output` write round and round")
            .default("4MiB"),
        Field::new("forked", Kind::Text).about(
            "each worker sleeps until a step \"fork NAME\" with this name starts it, does \
                 its loops and sleeps again",
        ),
    ],
    roles: &[Role { name: "steps", counts: true }],
    ops: "passes",
    histograms: &[
        Latency::headline(
            "wakeup",
            "from the moment at which a sleeper was due, or was woken, to its going on",
        ),
        Latency::explaining("pass", "once through the steps of a phase"),
        Latency::explaining(
            "chain",
            "from the moment at which a sleep or timer was due, after which workers woke each other \
             by posts, to the last one's going on",
        ),
    ],
    counters: &["timers", "missed", "early", "late", "run"],
    metrics: &[MISS_RATIO, SLACK, C_DURATION, CHAINS],
    ..Spec::PLAIN
};

const MISS_RATIO: MetricSpec =
    MetricSpec::new("miss_ratio", Unit::Ratio, Direction::LowerIsBetter, Statistic::Share)
        .about("share of timers that had expired before their worker came to wait for them");

const SLACK: MetricSpec =
    MetricSpec::new("slack", Unit::Ns, Direction::HigherIsBetter, Statistic::Mean).about(
        "mean time from a worker's coming to wait for a timer to its expiry; below 0: after it",
    );

const C_DURATION: MetricSpec =
    MetricSpec::new("c_duration", Unit::Ns, Direction::Neutral, Statistic::Mean)
        .about("mean time of burns and spins in a pass, as the steps have it");

const CHAINS: MetricSpec =
    MetricSpec::new("chains", Unit::OpsPerS, Direction::HigherIsBetter, Statistic::Rate)
        .about("chains that ended here, per second");

impl Workload for Steps {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn layout(&self, request: &Request) -> Result<Vec<usize>, WorkloadError> {
        let script = script(request.params)?;
        if order(request.params, &script)?.is_some()
            && let Some(other) =
                ["loops", "forked"].iter().find(|key| request.params.contains_key(**key))
        {
            let problem = format!("`order` and `{other}` exclude each other");
            return Err(WorkloadError::conflict(problem, format!("without `{other}`")).at(ORDER));
        }
        forked(request.params)?;
        let outside = |step: &Step| match step {
            Step::Cpus(Some(cpus)) => Some(cpus.minus(&request.pool.cpus)),
            _ => None,
        };
        let outside = script.steps().filter_map(outside).find(|cpus| !cpus.is_empty());
        if let Some(cpus) = outside.filter(|_| !request.pool.cpus.is_empty()) {
            let problem = format!("a step moves to CPUs {cpus}, which workers may not use");
            let hint = format!("workers have CPUs {}", request.pool.cpus);
            return Err(WorkloadError::conflict(problem, hint).at(language::STEPS));
        }
        Ok(vec![0; request.count as usize])
    }

    fn prepare(&self, request: &Request) -> Result<Box<dyn Load>, WorkloadError> {
        let Request { params, speed, .. } = request;
        let loops = params.get("loops").and_then(Value::as_int);
        let script = script(params)?;
        let order = order(params, &script)?;
        let cursors = shared::leak_slice(order.as_ref().map_or(0, Order::cursors))
            .map_err(|source| WorkloadError::system("allocate what workers share", source))?;
        Ok(Box::new(Set {
            order,
            cursors,
            seed: request.seed,
            script,
            how: Use { scope: request.scope(), inherits: params::flag(params, "inherit")? },
            loops: loops.map(|loops| loops as u64),
            delay_ns: params::duration_ns(params, DELAY)?,
            memory_bytes: params::bytes(params, "memory")?,
            forked: forked(params)?.map(str::to_string),
            course: course(params),
            count: request.count,
            pool: request.pool.cpus.clone(),
            speed: *speed,
            things: OnceLock::new(),
            cgroups: OnceLock::new(),
            pending: OnceLock::new(),
        }))
    }

    fn can_rest(&self, params: &Params) -> bool {
        let is_free = |script: Script| script.phases.iter().all(Phase::is_free);
        !params.contains_key("forked") && script(params).is_ok_and(is_free)
    }

    fn is_timed(&self, params: &Params) -> bool {
        has(params, |step| matches!(step, Step::Burn(_)))
    }

    fn histograms(&self, params: &Params) -> &'static [Latency] {
        let has_chains = script(params).is_ok_and(|script| script.ends_chains(course(params)));
        if has_chains { SPEC.histograms } else { &SPEC.histograms[..CHAIN] }
    }

    fn metrics(&self, params: &Params) -> Vec<MetricKind> {
        let own = script(params).map(|script| own_metrics(&script, course(params)));
        own.unwrap_or_default().into_iter().map(|spec| spec.kind()).collect()
    }
}

/// The metrics of [`Spec::metrics`] that workers with these steps have.
fn own_metrics(script: &Script, course: Course) -> Vec<MetricSpec> {
    let has = |is_it: fn(&Step) -> bool| script.steps().any(is_it);
    let has_timers = has(|step| matches!(step, Step::Timer { .. }));
    let runs = has(|step| matches!(step, Step::Burn(_) | Step::Spin(_)));
    let ends_chains = script.ends_chains(course);
    let all =
        [(MISS_RATIO, has_timers), (SLACK, has_timers), (C_DURATION, runs), (CHAINS, ends_chains)];
    all.into_iter().filter(|(_, is_there)| *is_there).map(|(spec, _)| spec).collect()
}

/// The steps of a set with these parameters, at their rate.
pub fn script(params: &Params) -> Result<Script, WorkloadError> {
    let list = params::value(params, language::STEPS, Value::as_list)?;
    let texts = list.iter().filter_map(Value::as_text);
    let texts: Vec<&str> = texts.flat_map(|text| text.split(',')).map(str::trim).collect();
    let script = Script::read(&texts)?;
    let rate = params.get(RATE.name).and_then(Value::as_times);
    Ok(script.at_rate(rate.unwrap_or(1.0)))
}

/// The order of its parts. Without one, steps have no parts.
fn order(params: &Params, script: &Script) -> Result<Option<Order>, WorkloadError> {
    if let Some(text) = params.get(ORDER).and_then(Value::as_text) {
        return Order::read(text, script).map(Some);
    }
    match script.phases.iter().find_map(|phase| phase.part.as_ref()) {
        None => Ok(None),
        Some(part) => Err(WorkloadError::Param {
            param: language::STEPS,
            value: format!("part {part}"),
            problem: "has no place in an order".to_string(),
            hint: "order = \"a*17 b\", next to the steps",
        }),
    }
}

fn has(params: &Params, is_it: impl Fn(&Step) -> bool) -> bool {
    script(params).is_ok_and(|script| script.steps().any(is_it))
}

/// The name by which forks start its workers.
fn forked(params: &Params) -> Result<Option<&str>, WorkloadError> {
    let name = params.get("forked").and_then(Value::as_text);
    match name.filter(|name| !language::is_name(name)) {
        None => Ok(name),
        Some(name) => Err(WorkloadError::Param {
            param: "forked",
            value: name.to_string(),
            problem: "is not a name of letters, digits and -_.".to_string(),
            hint: "forked = \"helper\", for the step \"fork helper\"",
        }),
    }
}

/// How its workers come to the steps and leave them.
fn course(params: &Params) -> Course {
    Course {
        is_forked: params.contains_key("forked"),
        is_delayed: params::duration_ns(params, DELAY).is_ok_and(|delay_ns| delay_ns > 0),
        has_loops: params.contains_key("loops"),
    }
}

struct Set {
    script: Script,
    order: Option<Order>,
    cursors: &'static [Cursor],
    seed: u64,
    how: Use,
    loops: Option<u64>,
    delay_ns: u64,
    memory_bytes: u64,
    forked: Option<String>,
    course: Course,
    count: u32,
    pool: CpuSet,
    speed: Speed,
    /// In the order of the script; then those by which its workers are started.
    things: OnceLock<(Vec<&'static Thing>, Option<[&'static Thing; 2]>)>,
    /// For each cgroup of the script the files that take a thread, open.
    cgroups: OnceLock<Vec<Vec<File>>>,
    /// The things whose posts that nobody has taken count here.
    pending: OnceLock<Vec<&'static Thing>>,
}

impl Set {
    fn ends_chains(&self) -> bool {
        self.script.ends_chains(self.course)
    }

    /// The things that its workers take from, for whose posts chains end here and no set before it counts them.
    fn counted(
        &self,
        things: &[&'static Thing],
        starters: Option<[&'static Thing; 2]>,
    ) -> Vec<&'static Thing> {
        if !self.ends_chains() {
            return Vec::new();
        }
        let is_taken = |at: &usize| self.script.steps().any(|step| *step == Step::Take(*at));
        let taken = (0..things.len()).filter(is_taken).map(|at| things[at]);
        let taken = taken.chain(starters.map(|[fork, _]| fork));
        taken.filter(|thing| thing.is_first_to_count()).collect()
    }

    /// Opens those of the pipes that its workers read.
    fn open_pipes(&self, things: &[&'static Thing]) -> Result<(), WorkloadError> {
        let named = self.script.things.iter().enumerate();
        let pipes = named.filter(|(at, _)| self.script.reads(*at));
        for (at, (_, name)) in pipes {
            let pipes = Wanted {
                what: "pipe",
                count: 1,
                files_each: 2 * self.count as usize,
                fewer: "workers",
            };
            let has_room = pipes.open(|| things[at].add_pipes(self.count))?;
            if has_room != [true] {
                let problem = format!("more than {MAX_READERS} workers read `{name}`");
                let hint = "`take` and `post` in place of `read` and `write`".to_string();
                return Err(WorkloadError::conflict(problem, hint).at(language::STEPS));
            }
        }
        Ok(())
    }
}

impl Load for Set {
    fn meet(&self, things: &Things) -> Result<(), WorkloadError> {
        let named = |sort: Sort, name: &str| things.named(sort, name, self.how);
        let own = self.script.things.iter().map(|(sort, name)| named(*sort, name));
        let own = own.collect::<Result<Vec<_>, _>>()?;
        self.open_pipes(&own)?;
        _ = self.cgroups.set(open_cgroups(&self.script, things)?);
        let starters = match &self.forked {
            Some(name) => Some([named(Sort::Fork, name)?, named(Sort::Free, name)?]),
            None => None,
        };
        if let Some([_, free]) = starters {
            (0..self.count).for_each(|_| free.post(self.how, 0, 0));
        }
        let semaphores = self.script.things.iter().zip(&own);
        let semaphores =
            semaphores.filter(|((sort, _), _)| matches!(sort, Sort::Semaphore | Sort::Pipe));
        semaphores.for_each(|(_, thing)| thing.touch());
        _ = self.pending.set(self.counted(&own, starters));
        _ = self.things.set((own, starters));
        Ok(())
    }

    fn may_do_nothing(&self) -> bool {
        let works = |step: &Step| {
            matches!(step, Step::Burn(_) | Step::Spin(_) | Step::Memory(_) | Step::Output(_))
        };
        self.loops.is_some() || self.forked.is_some() || !self.script.steps().all(works)
    }

    fn work(&self, _index: usize, worker: &Worker) -> Result<(), WorkloadError> {
        let (things, starters) = self.things.get().ok_or(WorkloadError::Unset(language::STEPS))?;
        let parts = Parts {
            script: &self.script,
            things,
            how: self.how,
            pool: &self.pool,
            cgroups: self.cgroups.get().map_or(&[], Vec::as_slice),
            memory_bytes: self.memory_bytes,
            ends_chains: self.ends_chains(),
        };
        let mut player = Player::new(Burner::new(self.speed), worker, &parts)?;
        let mut started_ns = worker.start();
        let Some([fork, free]) = starters else {
            player.begin(started_ns, self.delay_ns);
            if let Some(order) = &self.order {
                return player.play_order(order, self.cursors, self.seed);
            }
            if player.play(self.loops)? {
                worker.finish();
            }
            return Ok(());
        };
        while worker.running() {
            let taken = fork.take(self.how);
            started_ns = crate::sys::clock::monotonic_ns().max(started_ns);
            player.join_chain(taken);
            player.begin(started_ns, self.delay_ns);
            if player.play(self.loops)? {
                free.post(self.how, started_ns, 0);
            }
        }
        Ok(())
    }

    fn under_way(&self, index: usize, slot: &Slot, found: &mut UnderWay) {
        slot.begun().for_each(|(histogram, begun_ns)| found.add(histogram, begun_ns));
        let pending = self.pending.get().filter(|_| index == 0).into_iter().flatten();
        let begun = pending.flat_map(|thing| thing.pending_chains());
        begun.for_each(|begun_ns| found.add(CHAIN, begun_ns));
    }

    fn metrics(&self, measured: &Measured) -> Vec<Metric> {
        let count = |index: usize| measured.counters[index] as f64;
        let mean = |sum: f64, of: u64, none: &str| match of {
            0 => Reading::Unknown(format!("no {none} in the measured section")),
            of => Reading::Known(sum / of as f64),
        };
        let timers = measured.counters[TIMERS];
        let value = |spec: &MetricSpec| match spec.name {
            name if name == SLACK.name => mean(count(EARLY_NS) - count(LATE_NS), timers, "timer"),
            name if name == C_DURATION.name => mean(count(RUN_NS), measured.ops, "pass"),
            name if name == CHAINS.name => {
                let ended = measured.histograms.get(CHAIN).map_or(0, Histogram::total);
                mean(ended as f64 * 1e9, measured.measured_ns, "time")
            }
            _ => mean(count(MISSED), timers, "timer"),
        };
        let own = own_metrics(&self.script, self.course);
        own.iter().map(|spec| spec.reading(value(spec))).collect()
    }
}
