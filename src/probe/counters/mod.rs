//! The probe `counters`: what the CPU and the kernel count of the workers of each role in the measured
//! section, and the energy of the machine meanwhile.
//!
//! Events are counted by task: of each worker and of all that it starts. Counts of whole CPUs would have
//! other processes, the idle loop and the measuring thread in them, could not be of a role, and need
//! more rights. By task nothing runs between switches; at a switch of a worker the kernel stores or
//! loads its counters. They are opened while the workers wait at the barrier and read twice: a difference
//! leaves out what came before the section.

mod energy;
mod error;
mod events;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{
    Metric, NamedHistogram, ProbeMetric, ProbeSpec, Reading, Scope, Statistic, Unit,
};
use crate::sys::perf::{Count, Countable};
use crate::sys::{Host, clock};

use super::{Probe, Recording, Role};
use energy::{DOMAINS, Meter};
use events::Event;

pub use energy::is_metered;
pub use events::cpu_units;

/// How often each happens, by the names of their metrics. Those of the kernel come first: where files
/// run out, they are had.
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

/// So many of one for `per` of the other.
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

/// Of their time that the counters of the CPU counted.
const COUNTED_SHARE: &str = "counted_share";

const fn rate(name: &'static str, about: &'static str) -> ProbeMetric {
    ProbeMetric::rate(name, about, Statistic::Count)
}

const fn quotient(name: &'static str, about: &'static str) -> ProbeMetric {
    ProbeMetric { unit: Unit::Count, ..rate(name, about) }
}

const fn energy(name: &'static str, about: &'static str) -> ProbeMetric {
    ProbeMetric { unit: Unit::Joules, scope: Scope::Machine, ..rate(name, about) }
}

pub struct Counters(ProbeSpec);

pub static COUNTERS: Counters = Counters(ProbeSpec {
    name: "counters",
    about: "of each role: page faults, switches and migrations, cycles, instructions and misses of caches, \
            TLBs and branches; energy of the machine",
    needs: "root or a kernel.perf_event_paranoid of at most 1 (for energy 0), and counters that the machine shows",
    metrics: &[
        rate("page_faults", "pages that were not there or not writable, those of disks included"),
        rate("context_switches", "switches away from its workers and what they start"),
        rate("cpu_migrations", "moves to another CPU"),
        rate("cycles", "of the CPUs, while they run; user and kernel, as all that follows"),
        rate("instructions", "that were completed"),
        rate("cache_references", "to the last-level cache"),
        rate("cache_misses", "of the last-level cache"),
        rate("dtlb_misses", "of the data TLB, by reads"),
        rate("itlb_misses", "of the instruction TLB"),
        rate("branches", "that were completed"),
        rate("branch_misses", "that were not predicted"),
        quotient("ipc", "instructions for each cycle"),
        quotient("cache_mpki", "misses of the last-level cache for 1000 instructions"),
        quotient("dtlb_mpki", "misses of the data TLB for 1000 instructions"),
        quotient("itlb_mpki", "misses of the instruction TLB for 1000 instructions"),
        quotient("branch_mpki", "branches not predicted for 1000 instructions"),
        ProbeMetric {
            unit: Unit::Ratio,
            statistic: Statistic::Share,
            ..rate(
                COUNTED_SHARE,
                "of their time in which the CPU counted, the least of all events; the rest is extrapolated",
            )
        },
        energy("energy_package", "of all processor packages in the measured section"),
        energy("energy_dram", "of their memory"),
        energy("energy_cores", "of their cores, which is a part of the packages' energy"),
    ],
});

impl Probe for Counters {
    fn spec(&self) -> &ProbeSpec {
        &self.0
    }

    fn open(&'static self, workers: &[i32]) -> Box<dyn Recording> {
        Box::new(Counting::open(&Host::default(), workers))
    }
}

struct Counting {
    /// In the order of [`RATES`].
    events: Vec<Reading<Event>>,
    /// In the order of [`DOMAINS`].
    meters: Vec<Reading<Meter>>,
    began_ns: u64,
    wall_ns: u64,
}

impl Counting {
    fn open(host: &Host, workers: &[i32]) -> Counting {
        let units = cpu_units(host);
        let event = |(_, what): &(&str, Countable)| match Event::open(*what, workers, &units) {
            Ok(event) => Reading::Known(event),
            Err(error) => Reading::Unknown(error.to_string()),
        };
        Counting {
            events: RATES.iter().map(event).collect(),
            meters: DOMAINS.iter().map(|domain| Meter::open(host, domain)).collect(),
            began_ns: 0,
            wall_ns: 0,
        }
    }

    /// What a task of a role counted of this, those of all its tasks together.
    fn count(&self, what: Countable, tids: &BTreeSet<i32>) -> Reading<Count> {
        let mut events = RATES.iter().zip(&self.events);
        match events.find(|((_, own), _)| *own == what) {
            Some((_, event)) => event.as_ref().map(|event| event.count(tids)),
            None => Reading::Unknown("it is not counted".to_string()),
        }
    }

    fn total(&self, what: Countable, tids: &BTreeSet<i32>) -> Reading<f64> {
        self.count(what, tids).and_then(|count| events::total(what, &count))
    }

    fn per_s(&self, what: Countable, tids: &BTreeSet<i32>) -> Reading<f64> {
        let per_s = |total: f64| (self.wall_ns > 0).then(|| total * 1e9 / self.wall_ns as f64);
        self.total(what, tids).and_then(|total| Reading::of(per_s(total), "nothing was counted"))
    }

    fn quotient(&self, quotient: &Quotient, tids: &BTreeSet<i32>) -> Reading<f64> {
        let Quotient { of, per, other, .. } = *quotient;
        self.total(of, tids).and_then(|of| {
            let of_these = |other: f64| (other > 0.0).then(|| per * of / other);
            let other = self.total(other, tids);
            other.and_then(|other| Reading::of(of_these(other), "its workers did not run"))
        })
    }

    /// The least of all events of the CPU.
    fn counted_share(&self, tids: &BTreeSet<i32>) -> Reading<f64> {
        let shares = RATES.iter().filter(|(_, what)| what.is_hardware()).map(|(_, what)| {
            let share = |count: Count| count.running_ns as f64 / count.enabled_ns as f64;
            self.count(*what, tids).and_then(|count| {
                let share = (count.enabled_ns > 0).then(|| share(count).min(1.0));
                Reading::of(share, "its workers did not run")
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

    fn reading(&self, metric: &str, tids: &BTreeSet<i32>) -> Reading<f64> {
        let rate = RATES.iter().find(|(name, _)| *name == metric);
        let quotient = QUOTIENTS.iter().find(|quotient| quotient.metric == metric);
        match (rate, quotient) {
            (Some((_, what)), _) => self.per_s(*what, tids),
            (None, Some(quotient)) => self.quotient(quotient, tids),
            (None, None) if metric == COUNTED_SHARE => self.counted_share(tids),
            (None, None) => self.joules(metric),
        }
    }
}

/// What fails becomes unknown.
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

    fn measured(
        &self,
        roles: &[Role],
        names: &BTreeMap<&str, &str>,
    ) -> (Vec<Metric>, Vec<NamedHistogram>) {
        let of_role = |role: &Role| -> Vec<Metric> {
            let name = names.get(role.thread).copied().unwrap_or(role.thread);
            let own = COUNTERS.0.metrics.iter().filter(|metric| metric.scope == Scope::Role);
            own.map(|own| own.kind(name).reading(self.reading(own.name, &role.tids))).collect()
        };
        let machine = COUNTERS.0.metrics.iter().filter(|metric| metric.scope == Scope::Machine);
        let machine = machine.map(|own| own.kind("").reading(self.joules(own.name)));
        (roles.iter().flat_map(of_role).chain(machine).collect(), Vec::new())
    }
}
