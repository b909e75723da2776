//! The probes `counters` and `counters-by-role`: events of CPUs and kernel in the measured section, and the energy
//! of the machine meanwhile.
//!
//! `counters` counts on the CPUs of the workers, whatever runs there: a switch costs hardly more then.
//! `counters-by-role` counts in each worker and in all that it starts. At each of their switches the kernel stores
//! and loads counters, which a load that switches often feels: docs/score.md has figures. Either opens its counters
//! while the workers wait at the barrier and reads them twice: the difference leaves out the time before the
//! section.

mod energy;
mod error;
mod events;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{Metric, ProbeMetric, ProbeSpec, Reading, Scope, Statistic, Unit};
use crate::sys::host::error_text;
use crate::sys::perf::{Count, Countable, Place};
use crate::sys::{Host, clock, sched};

use super::{Measured, Probe, Recording, Role};
use energy::{DOMAINS, Meter};
use events::Event;

pub use energy::is_metered;
pub use events::cpu_units;

/// Rates of events, by the names of their metrics. Events of the kernel come first: they are still opened where
/// files run out.
const RATES: [(&str, Countable); 11] = [
    ("page_faults", Countable::PAGE_FAULTS),
    ("context_switches", Countable::CONTEXT_SWITCHES),
    ("cpu_migrations", Countable::CPU_MIGRATIONS),
    ("cycles", Countable::CYCLES),
    ("instructions", Countable::INSTRUCTIONS),
    ("cache_references", Countable::CACHE_REFERENCES),
    ("cache_misses", Countable::CACHE_MISSES),
    ("dtlb_misses", Countable::DTLB_MISSES),
    ("itlb_misses", Countable::ITLB_MISSES),
    ("branches", Countable::BRANCHES),
    ("branch_misses", Countable::BRANCH_MISSES),
];

/// The number of `of` events for `per` events of `other`.
struct Quotient {
    metric: &'static str,
    of: Countable,
    per: f64,
    other: Countable,
}

const fn per_1000_instructions(metric: &'static str, of: Countable) -> Quotient {
    Quotient { metric, of, per: 1000.0, other: Countable::INSTRUCTIONS }
}

const QUOTIENTS: [Quotient; 5] = [
    Quotient { metric: "ipc", of: Countable::INSTRUCTIONS, per: 1.0, other: Countable::CYCLES },
    per_1000_instructions("cache_mpki", Countable::CACHE_MISSES),
    per_1000_instructions("dtlb_mpki", Countable::DTLB_MISSES),
    per_1000_instructions("itlb_mpki", Countable::ITLB_MISSES),
    per_1000_instructions("branch_mpki", Countable::BRANCH_MISSES),
];

/// The share of the time in which the CPU's counters counted.
const COUNTED_SHARE: &str = "counted_share";
const NOTHING_RAN: &str = "nothing of it ran";

const NEEDS: &str = "root or a low kernel.perf_event_paranoid, and counters that the machine shows";

/// `scope`: the tasks or CPUs whose events are counted. Hardware events are counted in user space and in the
/// kernel.
const fn metrics(scope: Scope) -> [ProbeMetric; 20] {
    let [rate, quotient, share, energy] = [
        (Unit::PerS, scope, Statistic::Count),
        (Unit::Count, scope, Statistic::Count),
        (Unit::Ratio, scope, Statistic::Share),
        (Unit::Joules, Scope::Machine, Statistic::Count),
    ];
    [
        metric(rate, "page_faults", "pages that were not there, or not to be written"),
        metric(rate, "context_switches", "from one task to another"),
        metric(rate, "cpu_migrations", "of tasks to another CPU"),
        metric(rate, "cycles", "while a CPU runs"),
        metric(rate, "instructions", "that were completed"),
        metric(rate, "cache_references", "to the last-level cache"),
        metric(rate, "cache_misses", "of the last-level cache"),
        metric(rate, "dtlb_misses", "of the data TLB, by reads"),
        metric(rate, "itlb_misses", "of the instruction TLB"),
        metric(rate, "branches", "that were completed"),
        metric(rate, "branch_misses", "that were not predicted"),
        metric(quotient, "ipc", "instructions for each cycle"),
        metric(quotient, "cache_mpki", "misses of the last-level cache for 1000 instructions"),
        metric(quotient, "dtlb_mpki", "misses of the data TLB for 1000 instructions"),
        metric(quotient, "itlb_mpki", "misses of the instruction TLB for 1000 instructions"),
        metric(quotient, "branch_mpki", "branches not predicted for 1000 instructions"),
        metric(
            share,
            COUNTED_SHARE,
            "of the time; the rest is extrapolated. The least of all events",
        ),
        metric(energy, "energy_package", "of all processor packages in the measured section"),
        metric(energy, "energy_dram", "of their memory"),
        metric(energy, "energy_cores", "of their cores, a part of what the packages take"),
    ]
}

const fn metric(
    (unit, scope, statistic): (Unit, Scope, Statistic),
    name: &'static str,
    about: &'static str,
) -> ProbeMetric {
    ProbeMetric { unit, scope, ..ProbeMetric::rate(name, about, statistic) }
}

pub struct Counters {
    spec: ProbeSpec,
    /// The tasks or CPUs whose events it counts.
    scope: Scope,
}

pub static COUNTERS: Counters = Counters {
    spec: ProbeSpec {
        name: "counters",
        about: "of the workers' CPUs, all that runs there: page faults, switches, migrations, cycles, \
                instructions, misses of caches, TLBs and branches; energy of the machine",
        needs: NEEDS,
        metrics: &metrics(Scope::Cpus),
    },
    scope: Scope::Cpus,
};

pub static COUNTERS_BY_ROLE: Counters = Counters {
    spec: ProbeSpec {
        name: "counters-by-role",
        about: "the same of each role's workers and all that they start, at a cost for each of their switches",
        needs: NEEDS,
        metrics: &metrics(Scope::Role),
    },
    scope: Scope::Role,
};

impl Probe for Counters {
    fn spec(&self) -> &ProbeSpec {
        &self.spec
    }

    fn open(&'static self, workers: &[i32]) -> Box<dyn Recording> {
        Box::new(Counting::open(self, &Host::default(), workers))
    }
}

struct Counting {
    probe: &'static Counters,
    /// Events in the order of [`RATES`].
    events: Vec<Reading<Event>>,
    /// Meters in the order of [`DOMAINS`].
    meters: Vec<Reading<Meter>>,
    began_ns: u64,
    wall_ns: u64,
}

/// The tasks that a reading covers, or all CPUs.
#[derive(Clone, Copy)]
struct Of<'a>(Option<&'a BTreeSet<i32>>);

impl Of<'_> {
    fn has(self, place: Place) -> bool {
        match (place, self.0) {
            (Place::Task(tid), Some(tids)) => tids.contains(&tid),
            (Place::Cpu(_), None) => true,
            _ => false,
        }
    }
}

impl Counting {
    fn open(probe: &'static Counters, host: &Host, workers: &[i32]) -> Counting {
        let units = cpu_units(host);
        let places = match probe.scope {
            Scope::Cpus => cpus(workers),
            _ => Reading::Known(workers.iter().map(|tid| Place::Task(*tid)).collect()),
        };
        let event = |(_, what): &(&str, Countable)| {
            let opened = places.as_ref().map(|places| Event::open(*what, places, &units));
            opened.and_then(|opened| match opened {
                Ok(event) => Reading::Known(event),
                Err(error) => Reading::Unknown(error.to_string()),
            })
        };
        Counting {
            probe,
            events: RATES.iter().map(event).collect(),
            meters: DOMAINS.iter().map(|domain| Meter::open(host, domain)).collect(),
            began_ns: 0,
            wall_ns: 0,
        }
    }

    fn count(&self, what: Countable, of: Of) -> Reading<Count> {
        let mut events = RATES.iter().zip(&self.events);
        match events.find(|((_, own), _)| *own == what) {
            Some((_, event)) => event.as_ref().map(|event| event.count(|place| of.has(place))),
            None => Reading::Unknown("it is not counted".to_string()),
        }
    }

    fn total(&self, what: Countable, of: Of) -> Reading<f64> {
        self.count(what, of).and_then(|count| events::total(what, &count))
    }

    fn per_s(&self, what: Countable, of: Of) -> Reading<f64> {
        let per_s = |total: f64| (self.wall_ns > 0).then(|| total * 1e9 / self.wall_ns as f64);
        self.total(what, of)
            .and_then(|total| Reading::from_option(per_s(total), "nothing was counted"))
    }

    fn quotient(&self, quotient: &Quotient, of: Of) -> Reading<f64> {
        let Quotient { per, other, .. } = *quotient;
        self.total(quotient.of, of).and_then(|total| {
            let of_these = |other: f64| (other > 0.0).then(|| per * total / other);
            let other = self.total(other, of);
            other.and_then(|other| Reading::from_option(of_these(other), NOTHING_RAN))
        })
    }

    /// The least of all events of the CPU.
    fn counted_share(&self, of: Of) -> Reading<f64> {
        let shares = RATES.iter().filter(|(_, what)| what.is_hardware()).map(|(_, what)| {
            let share = |count: Count| count.running_ns as f64 / count.enabled_ns as f64;
            self.count(*what, of).and_then(|count| {
                let share = (count.enabled_ns > 0).then(|| share(count).min(1.0));
                Reading::from_option(share, NOTHING_RAN)
            })
        });
        let least = |least: Reading<f64>, share| match (least, share) {
            (Reading::Known(least), Reading::Known(share)) => Reading::Known(least.min(share)),
            (Reading::Unknown(_), known @ Reading::Known(_)) => known,
            (least, Reading::Unknown(_)) => least,
        };
        shares.reduce(least).unwrap_or_else(|| Reading::Unknown("there are none".to_string()))
    }

    fn joules(&self, metric: &str) -> Reading<f64> {
        let mut meters = DOMAINS.iter().zip(&self.meters);
        match meters.find(|(domain, _)| domain.metric == metric) {
            Some((_, meter)) => meter.as_ref().map(Meter::joules),
            None => Reading::Unknown("it is not metered".to_string()),
        }
    }

    fn reading(&self, metric: &str, of: Of) -> Reading<f64> {
        let rate = RATES.iter().find(|(name, _)| *name == metric);
        let quotient = QUOTIENTS.iter().find(|quotient| quotient.metric == metric);
        match (rate, quotient) {
            (Some((_, what)), _) => self.per_s(*what, of),
            (None, Some(quotient)) => self.quotient(quotient, of),
            (None, None) if metric == COUNTED_SHARE => self.counted_share(of),
            (None, None) => self.joules(metric),
        }
    }
}

/// The CPUs on which these tasks may run.
fn cpus(workers: &[i32]) -> Reading<Vec<Place>> {
    let mut all = BTreeSet::new();
    for tid in workers {
        match sched::affinity(*tid) {
            Ok(cpus) => all.extend(cpus.iter()),
            Err(error) => {
                return Reading::Unknown(format!("CPUs of workers: {}", error_text(&error)));
            }
        }
    }
    Reading::Known(all.into_iter().map(Place::Cpu).collect())
}

/// Calls `act` on each known one; one that fails becomes unknown.
fn with<T>(all: &mut [Reading<T>], act: impl Fn(&mut T) -> Reading<()>) {
    for own in all {
        if let Reading::Known(known) = own
            && let Reading::Unknown(why) = act(known)
        {
            *own = Reading::Unknown(why);
        }
    }
}

impl Recording for Counting {
    fn begin(&mut self) {
        self.began_ns = clock::monotonic_ns();
        with(&mut self.events, Event::begin);
        with(&mut self.meters, Meter::begin);
    }

    /// A meter may turn over in a long section.
    fn poll(&mut self) {
        with(&mut self.meters, Meter::advance);
    }

    fn end(&mut self) {
        self.wall_ns = clock::monotonic_ns() - self.began_ns;
        with(&mut self.events, Event::end);
        with(&mut self.meters, Meter::advance);
    }

    fn measured(&self, roles: &[Role], names: &BTreeMap<&str, &str>) -> Measured {
        let named = |own: &ProbeMetric, role: &str, of: Of| {
            own.kind(role).reading(self.reading(own.name, of))
        };
        let own = |scope| self.probe.spec.metrics.iter().filter(move |own| own.scope == scope);
        let of_role = |role: &Role| -> Vec<Metric> {
            let name = names.get(role.thread).copied().unwrap_or(role.thread);
            own(Scope::Role).map(|own| named(own, name, Of(Some(&role.tids)))).collect()
        };
        let of_all = own(Scope::Cpus).chain(own(Scope::Machine));
        let of_all = of_all.map(|own| named(own, "", Of(None)));
        (roles.iter().flat_map(of_role).chain(of_all).collect(), Vec::new())
    }
}
