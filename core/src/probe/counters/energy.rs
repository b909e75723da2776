//! Energy as processors meter it themselves (RAPL), of the whole machine: other load on it is included.
//!
//! Input: perf's unit `power`, whose counters the kernel keeps from turning over, else the files of powercap, which
//! turn over at `max_energy_range_uj`: 262 kJ on many, 20 minutes at 200 W. The kernel's
//! Documentation/power/powercap describes the second.

use crate::model::Reading;
use crate::sys::perf::{Countable, Counter, Place};
use crate::sys::{Host, topology};

use super::error::CounterError;

const UNIT: &str = "/sys/bus/event_source/devices/power";
const POWERCAP: &str = "/sys/class/powercap";
/// Zones of another interface to the same meters begin otherwise.
const ZONES: &str = "intel-rapl:";
const JOULES_PER_UJ: f64 = 1e-6;

/// A part of the machine that is metered.
pub struct Domain {
    pub metric: &'static str,
    /// The name of the event in perf.
    event: &'static str,
    /// The beginning of the names of its zones: a package's number follows.
    zone: &'static str,
}

pub const DOMAINS: [Domain; 3] = [
    Domain { metric: "energy_package", event: "energy-pkg", zone: "package" },
    Domain { metric: "energy_dram", event: "energy-ram", zone: "dram" },
    Domain { metric: "energy_cores", event: "energy-cores", zone: "core" },
];

/// All gauges of a domain: one for each package.
pub struct Meter {
    host: Host,
    gauges: Vec<Gauge>,
    joules_per_count: f64,
}

struct Gauge {
    source: Source,
    last: u64,
    counted: u64,
}

enum Source {
    Perf(Counter),
    /// Follows `max` with 0.
    File {
        path: String,
        max: u64,
    },
}

impl Meter {
    pub fn open(host: &Host, domain: &Domain) -> Reading<Meter> {
        let perf = match of_perf(host, domain) {
            Ok(meter) => return Reading::Known(meter),
            Err(error) => error,
        };
        match of_powercap(host, domain) {
            Ok(meter) => Reading::Known(meter),
            Err(error) => Reading::Unknown(format!("{perf}; {error}")),
        }
    }

    pub fn begin(&mut self) -> Reading<()> {
        let begun = self.advance();
        self.gauges.iter_mut().for_each(|gauge| gauge.counted = 0);
        begun
    }

    /// To be called before a gauge can have turned over twice.
    pub fn advance(&mut self) -> Reading<()> {
        for gauge in &mut self.gauges {
            match gauge.source.read(&self.host) {
                Ok(now) => gauge.advance(now),
                Err(error) => return Reading::Unknown(error.to_string()),
            }
        }
        Reading::Known(())
    }

    /// The energy from `begin` to the last `advance`.
    pub fn joules(&self) -> f64 {
        let counted: f64 = self.gauges.iter().map(|gauge| gauge.counted as f64).sum();
        counted * self.joules_per_count
    }

    fn new(
        host: &Host,
        sources: Vec<Source>,
        joules_per_count: f64,
    ) -> Result<Meter, CounterError> {
        let gauge = |source: Source| {
            let last = source.read(host)?;
            Ok(Gauge { source, last, counted: 0 })
        };
        let gauges: Result<_, CounterError> = sources.into_iter().map(gauge).collect();
        Ok(Meter { host: host.clone(), gauges: gauges?, joules_per_count })
    }
}

impl Gauge {
    fn advance(&mut self, now: u64) {
        let max = match self.source {
            Source::Perf(_) => u64::MAX,
            Source::File { max, .. } => max,
        };
        self.counted += match now.checked_sub(self.last) {
            Some(more) => more,
            None => max.saturating_sub(self.last) + now,
        };
        self.last = now;
    }
}

impl Source {
    fn read(&self, host: &Host) -> Result<u64, CounterError> {
        match self {
            Source::Perf(counter) => {
                counter.read().map(|count| count.value).map_err(CounterError::Read)
            }
            Source::File { path, .. } => number(host, path.clone()),
        }
    }
}

/// Whether the machine shows a meter; not whether it may be read.
pub fn is_metered(host: &Host) -> bool {
    let first = [format!("{UNIT}/events/energy-pkg"), format!("{POWERCAP}/{ZONES}0")];
    first.iter().any(|path| host.path(path).exists())
}

/// An event of perf's unit.
struct PowerEvent {
    what: Countable,
    /// One CPU of each package.
    cpus: Vec<u32>,
    joules_per_count: f64,
}

fn of_perf(host: &Host, domain: &Domain) -> Result<Meter, CounterError> {
    let PowerEvent { what, cpus, joules_per_count } = power_event(host, domain.event)?;
    let counter = |cpu: u32| {
        let counter = Counter::open(what, Place::Cpu(cpu)).map(Source::Perf);
        counter.map_err(|source| CounterError::refused(Place::Cpu(cpu), source))
    };
    let counters: Result<_, _> = cpus.into_iter().map(counter).collect();
    Meter::new(host, counters?, joules_per_count)
}

fn power_event(host: &Host, event: &str) -> Result<PowerEvent, CounterError> {
    let path = format!("{UNIT}/events/{event}");
    let text = host.text(&path)?;
    let config = text.trim().strip_prefix("event=0x");
    let config = config.and_then(|hex| u64::from_str_radix(hex, 16).ok());
    let config = config.ok_or(CounterError::Content { path: path.clone(), text })?;
    let kind: u32 = number(host, format!("{UNIT}/type"))?;
    let joules_per_count: f64 = number(host, format!("{path}.scale"))?;
    let cpus = match topology::cpu_list(host, &format!("{UNIT}/cpumask")) {
        Reading::Known(cpus) => cpus.iter().collect(),
        Reading::Unknown(why) => return Err(CounterError::Cpus(why)),
    };
    Ok(PowerEvent { what: Countable::of_unit(kind, config), cpus, joules_per_count })
}

fn of_powercap(host: &Host, domain: &Domain) -> Result<Meter, CounterError> {
    let no_zone = || CounterError::NoZone { folder: POWERCAP, zone: domain.zone };
    let folder = std::fs::read_dir(host.path(POWERCAP)).map_err(|_| no_zone())?;
    let names = folder.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| name.starts_with(ZONES)).collect();
    names.sort_unstable();
    let mut zones = Vec::new();
    for zone in names.iter().map(|name| format!("{POWERCAP}/{name}")) {
        if host.text(format!("{zone}/name"))?.starts_with(domain.zone) {
            let max = number(host, format!("{zone}/max_energy_range_uj"))?;
            zones.push(Source::File { path: format!("{zone}/energy_uj"), max });
        }
    }
    if zones.is_empty() { Err(no_zone()) } else { Meter::new(host, zones, JOULES_PER_UJ) }
}

fn number<T: std::str::FromStr>(host: &Host, path: String) -> Result<T, CounterError> {
    let text = host.text(&path)?;
    text.trim().parse().map_err(|_| CounterError::Content { path, text })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::testing::Tree;

    fn zone(tree: &Tree, zone: &str, name: &str, energy_uj: u64) {
        let zone = format!("{POWERCAP}/{zone}");
        tree.write(&format!("{zone}/name"), &format!("{name}\n"));
        tree.write(&format!("{zone}/max_energy_range_uj"), "262143328850\n");
        tree.write(&format!("{zone}/energy_uj"), &format!("{energy_uj}\n"));
    }

    /// Two packages, one with memory; another way of metering the same, and other names.
    fn two_packages() -> Tree {
        let tree = Tree::with_files(&[(format!("{POWERCAP}/intel-rapl/enabled"), "1\n")]);
        zone(&tree, "intel-rapl:0", "package-0", 5_000_000);
        zone(&tree, "intel-rapl:0:0", "core", 1_000_000);
        zone(&tree, "intel-rapl:0:1", "dram", 7);
        zone(&tree, "intel-rapl:1", "package-1-die-1", 262_143_000_000);
        zone(&tree, "intel-rapl:2", "psys", 1);
        zone(&tree, "intel-rapl-mmio:0", "package-0", 1);
        tree
    }

    #[test]
    fn gauges_of_all_packages_are_added_and_may_turn_over() {
        let tree = two_packages();
        let mut meter = Meter::open(&tree.host(), &DOMAINS[0]).known().unwrap();
        zone(&tree, "intel-rapl:0", "package-0", 6_000_000);
        assert_eq!(meter.begin(), Reading::Known(()));
        assert_eq!(meter.joules(), 0.0, "what came before is left out");
        zone(&tree, "intel-rapl:0", "package-0", 8_500_000);
        zone(&tree, "intel-rapl:1", "package-1", 1_000_000);
        assert_eq!(meter.advance(), Reading::Known(()));
        let joules = 2.5 + 0.328_85 + 1.0;
        assert!((meter.joules() - joules).abs() < 1e-9, "{}", meter.joules());
        zone(&tree, "intel-rapl:1", "package-1", 500_000);
        assert_eq!(meter.advance(), Reading::Known(()));
        assert!((meter.joules() - joules - 262_142.828_85).abs() < 1e-9, "once more");
        tree.remove(&format!("{POWERCAP}/intel-rapl:0/energy_uj"));
        let Reading::Unknown(why) = meter.advance() else { panic!("it is gone") };
        assert_eq!(why, format!("{POWERCAP}/intel-rapl:0/energy_uj: ENOENT, not there"));
    }

    #[test]
    fn a_domain_that_is_not_metered_is_unknown() {
        let tree = two_packages();
        let gauges =
            |domain: &Domain| Meter::open(&tree.host(), domain).map(|meter| meter.gauges.len());
        assert_eq!(DOMAINS.each_ref().map(gauges), [2, 1, 1].map(Reading::Known));
        tree.write(&format!("{POWERCAP}/intel-rapl:0:0/name"), "uncore\n");
        let Reading::Unknown(why) = gauges(&DOMAINS[2]) else { panic!("it has no cores") };
        assert!(why.ends_with("powercap: no zone is called core"), "{why}");
        assert!(why.contains("energy-cores: ENOENT, not there; "), "{why}");
        assert!(is_metered(&tree.host()));
        let nothing = Tree::with_files(&[("/etc/nothing", "")]);
        assert!(!is_metered(&nothing.host()));
        tree.write(&format!("{POWERCAP}/intel-rapl:0/energy_uj"), "much\n");
        let Reading::Unknown(why) = gauges(&DOMAINS[0]) else { panic!("no number") };
        assert!(why.contains("`much` is not"), "{why}");
    }

    /// The kernel's files on a machine with two packages.
    fn unit(kind: &str, event: &str, scale: &str, cpus: &str) -> Tree {
        Tree::with_files(&[
            (format!("{UNIT}/type"), kind),
            (format!("{UNIT}/cpumask"), cpus),
            (format!("{UNIT}/events/energy-pkg"), event),
            (format!("{UNIT}/events/energy-pkg.scale"), scale),
        ])
    }

    #[test]
    fn perf_has_a_type_an_event_a_scale_and_a_cpu_of_each_package() {
        let tree = unit("21", "event=0x02\n", "2.3283064365386962890625e-10\n", "0,28\n");
        let event = power_event(&tree.host(), "energy-pkg").unwrap();
        assert_eq!(event.what, Countable::of_unit(21, 2));
        assert_eq!(event.cpus, [0, 28]);
        assert_eq!(event.joules_per_count, 2f64.powi(-32));
        for (file, text) in [("energy-pkg", "umask=1\n"), ("energy-pkg.scale", "J\n")] {
            let tree = unit("21", "event=0x02\n", "1\n", "0\n");
            tree.write(&format!("{UNIT}/events/{file}"), text);
            let Err(why) = power_event(&tree.host(), "energy-pkg") else { panic!("{file}") };
            assert!(why.to_string().contains(&format!("{file}: `")), "{why}");
        }
    }

    /// A clock of the kernel in place of a meter: a nanosecond counts as a joule.
    #[test]
    fn a_counter_of_perf_is_scaled() {
        let tree = unit("1", "event=0x0\n", "1e-9\n", "0\n");
        let mut meter = match of_perf(&tree.host(), &DOMAINS[0]) {
            Ok(meter) => meter,
            Err(why) => {
                println!("skipped: a_counter_of_perf_is_scaled needs privilege: {why}");
                return;
            }
        };
        let began_ns = crate::sys::clock::monotonic_ns();
        assert_eq!(meter.begin(), Reading::Known(()));
        while crate::sys::clock::monotonic_ns() - began_ns < 1_000_000 {}
        assert_eq!(meter.advance(), Reading::Known(()));
        let wall_s = (crate::sys::clock::monotonic_ns() - began_ns) as f64 / 1e9;
        assert!(meter.joules() > 0.0 && meter.joules() < 2.0 * wall_s, "{}", meter.joules());
    }
}
