//! The pool of Xen that a run's guests are in: made for the run, and undone after it.

use std::sync::Arc;

use crate::model::{Cell, CpuSet, FIRST_DOMAIN_CPU, KnobReading, Reading, Value};
use crate::sys::xen::{Machine, Parameters, Scheduler, Xen};
use crate::variant::{self, XenSetting};

use super::error::XenError;
use super::tools::xenstore;

/// The pool of all CPUs when Xen starts, and of the first domain.
pub const FIRST_POOL: u32 = 0;
const FIRST_POOL_NAME: &str = "Pool-0";
const NAME: &str = "schedlab";
/// The slice of credit, unless the plan has another.
const USUAL_TIMESLICE_MS: u32 = 30;
/// The knob of words for Xen's command line, and the word that changes it there.
const XEN_ARGS: &str = "xen-args";
const BOOTED_TIMESLICE: &str = "sched_credit_tslice_ms=";

/// The settings that a cell asks of its pool.
#[derive(Debug, Clone, Default)]
pub struct PoolSettings {
    /// `None`: Xen's default.
    pub scheduler: Option<Scheduler>,
    timeslice_ms: Option<u32>,
    ratelimit_us: Option<u32>,
    name: String,
    pub cpus: CpuSet,
    /// The knobs as written.
    asked: Vec<(&'static str, Value)>,
}

impl PoolSettings {
    /// Uses the CPUs that Xen has.
    pub fn from_cell(cell: &Cell, xen: &Xen) -> Result<PoolSettings, XenError> {
        let machine = xen.machine().map_err(XenError::call("look"))?;
        PoolSettings::for_machine(cell, &machine)
    }

    pub fn for_machine(cell: &Cell, machine: &Machine) -> Result<PoolSettings, XenError> {
        let all: CpuSet = (0..machine.cpus).filter(|cpu| *cpu != FIRST_DOMAIN_CPU).collect();
        let placement = &cell.placement;
        let cpus = placement.cpus.clone().unwrap_or_else(|| all.clone());
        let missing = cpus.minus(&all);
        if cpus.is_empty() {
            return Err(XenError::OneCpu);
        }
        if cpus.iter().any(|cpu| cpu == FIRST_DOMAIN_CPU) {
            let others: CpuSet = cpus.iter().filter(|cpu| *cpu != FIRST_DOMAIN_CPU).collect();
            let others = if others.is_empty() { all } else { others };
            return Err(XenError::FirstCpu { cpus, others });
        }
        if !missing.is_empty() {
            return Err(XenError::NoCpus { missing, cpus: machine.cpus });
        }
        let name = placement.pool.as_ref().map_or(NAME.to_string(), ToString::to_string);
        if name == FIRST_POOL_NAME {
            return Err(XenError::FirstPool);
        }
        let mut wanted = PoolSettings { name, cpus, ..Default::default() };
        for (name, value, setting) in variant::of_xen(&cell.variant.knobs) {
            match setting {
                XenSetting::Scheduler(scheduler) => wanted.scheduler = Some(scheduler),
                XenSetting::TimesliceNs(ns) => wanted.timeslice_ms = Some((ns / 1_000_000) as u32),
                XenSetting::RatelimitNs(ns) => wanted.ratelimit_us = Some((ns / 1_000) as u32),
                _ => continue,
            }
            wanted.asked.push((name, value));
        }
        let of = |has: bool, parameter| {
            if has {
                Err(XenError::Parameter { parameter, scheduler: wanted.scheduler().word() })
            } else {
                Ok(())
            }
        };
        let scheduler = wanted.scheduler();
        of(wanted.timeslice_ms.is_some() && scheduler != Scheduler::Credit, "xen-timeslice")?;
        of(wanted.ratelimit_us.is_some() && !scheduler.has_weights(), "xen-ratelimit")?;
        let timeslice_ms = wanted.timeslice_ms.or(booted_timeslice_ms(cell));
        let (timeslice_ms, ratelimit_us) =
            (timeslice_ms.unwrap_or(USUAL_TIMESLICE_MS), wanted.ratelimit_us.unwrap_or(0));
        if scheduler == Scheduler::Credit && ratelimit_us > 1_000 * timeslice_ms {
            let scheduler = scheduler.word();
            Err(XenError::Refused { scheduler, timeslice_ms, ratelimit_us })
        } else {
            Ok(wanted)
        }
    }

    pub fn scheduler(&self) -> Scheduler {
        self.scheduler.unwrap_or(Scheduler::Credit2)
    }
}

/// The time slice that Xen is booted with, where the variant says so.
fn booted_timeslice_ms(cell: &Cell) -> Option<u32> {
    let words = cell.variant.knobs.get(XEN_ARGS).and_then(Value::as_text)?;
    let slices = words.split_whitespace().filter_map(|word| word.strip_prefix(BOOTED_TIMESLICE));
    slices.filter_map(|ms| ms.parse().ok()).next_back()
}

/// A pool that was made here. Dropped without [`OwnPool::end`] it is undone as well.
pub struct OwnPool {
    xen: Arc<Xen>,
    id: u32,
    wanted: PoolSettings,
    /// The CPUs that are in it by now.
    cpus: Vec<u32>,
    is_there: bool,
}

impl OwnPool {
    pub fn make(xen: Arc<Xen>, wanted: &PoolSettings) -> Result<OwnPool, XenError> {
        let first = xen.pool(FIRST_POOL).map_err(XenError::call("read its first pool"))?;
        let elsewhere = wanted.cpus.minus(&first.cpus);
        if !elsewhere.is_empty() {
            return Err(XenError::Overlap { pool: pool_of(&xen, &elsewhere), cpus: elsewhere });
        }
        let scheduler = wanted.scheduler();
        let made = xen.create_pool(scheduler);
        let id = made.map_err(|source| match source.raw_os_error() {
            Some(libc::ENOENT) => XenError::NoScheduler { scheduler: scheduler.word() },
            _ => XenError::call("make a pool")(source),
        })?;
        let wanted = wanted.clone();
        let mut pool = OwnPool { xen, id, wanted, cpus: Vec::new(), is_there: true };
        xenstore("write", &[&format!("/local/pool/{id}/name"), &pool.wanted.name])?;
        for cpu in pool.wanted.cpus.clone().iter() {
            pool.xen.remove_cpu(FIRST_POOL, cpu).map_err(XenError::call("take a CPU"))?;
            pool.cpus.push(cpu);
            pool.xen.add_cpu(id, cpu).map_err(XenError::call("give a pool its CPU"))?;
        }
        pool.set_parameters(scheduler)?;
        Ok(pool)
    }

    fn set_parameters(&self, scheduler: Scheduler) -> Result<(), XenError> {
        let PoolSettings { timeslice_ms, ratelimit_us, .. } = &self.wanted;
        if timeslice_ms.is_none() && ratelimit_us.is_none() {
            return Ok(());
        }
        let read =
            || self.xen.parameters(self.id, scheduler).map_err(XenError::call("read parameters"));
        let now = read()?;
        let wanted = Parameters {
            timeslice_ms: timeslice_ms.unwrap_or(now.timeslice_ms),
            ratelimit_us: ratelimit_us.unwrap_or(now.ratelimit_us),
        };
        let set = self.xen.set_parameters(self.id, scheduler, wanted);
        set.map_err(|source| match source.raw_os_error() {
            Some(libc::EINVAL) => XenError::Refused {
                scheduler: scheduler.word(),
                timeslice_ms: wanted.timeslice_ms,
                ratelimit_us: wanted.ratelimit_us,
            },
            _ => XenError::call("set a scheduler's parameters")(source),
        })?;
        let got = read()?;
        let pairs = [
            ("xen-timeslice", wanted.timeslice_ms, got.timeslice_ms),
            ("xen-ratelimit", wanted.ratelimit_us, got.ratelimit_us),
        ];
        match pairs.into_iter().find(|(_, asked, got)| asked != got) {
            Some((parameter, asked, got)) => Err(XenError::NotKept { parameter, asked, got }),
            None => Ok(()),
        }
    }

    pub fn id(&self) -> u32 {
        self.id
    }

    pub fn scheduler(&self) -> Scheduler {
        self.wanted.scheduler()
    }

    pub fn cpus(&self) -> &CpuSet {
        &self.wanted.cpus
    }

    /// The knobs as Xen has them.
    pub fn readings(&self) -> Result<Vec<KnobReading>, XenError> {
        let pool = self.xen.pool(self.id).map_err(XenError::call("read the pool"))?;
        let scheduler = pool
            .scheduler
            .ok_or(XenError::Parameter { parameter: "xen-scheduler", scheduler: "this Xen" })?;
        let parameters = self.xen.parameters(self.id, scheduler);
        let parameters = parameters.map_err(XenError::call("read parameters"))?;
        let got = |name: &str| match name {
            "xen-timeslice" => Value::DurationNs(u64::from(parameters.timeslice_ms) * 1_000_000),
            "xen-ratelimit" => Value::DurationNs(u64::from(parameters.ratelimit_us) * 1_000),
            _ => Value::Text(scheduler.word().to_string()),
        };
        let mut asked = self.wanted.asked.clone();
        // Nothing was asked, but the report shows the scheduler all the same.
        if self.wanted.scheduler.is_none() {
            asked.push(("xen-scheduler", got("xen-scheduler")));
        }
        let reading = |(name, asked): (&'static str, Value)| KnobReading {
            knob: name.to_string(),
            asked,
            got: Reading::Known(got(name)),
        };
        Ok(asked.into_iter().map(reading).collect())
    }

    /// Puts the CPUs back. No guest may be left in it.
    pub fn end(mut self) -> Result<(), XenError> {
        self.undo()
    }

    fn undo(&mut self) -> Result<(), XenError> {
        if !std::mem::take(&mut self.is_there) {
            return Ok(());
        }
        for cpu in std::mem::take(&mut self.cpus) {
            // A CPU that was taken and never given is in no pool.
            _ = self.xen.remove_cpu(self.id, cpu);
            self.xen.add_cpu(FIRST_POOL, cpu).map_err(XenError::call("put a CPU back"))?;
        }
        self.xen.destroy_pool(self.id).map_err(XenError::call("remove the pool"))?;
        xenstore("rm", &[&format!("/local/pool/{}", self.id)]).map(drop)
    }
}

impl Drop for OwnPool {
    fn drop(&mut self) {
        // The run has failed already, and says why.
        _ = self.undo();
    }
}

/// The pool that has the first of these CPUs.
fn pool_of(xen: &Xen, cpus: &CpuSet) -> u32 {
    let Some(wanted) = cpus.iter().next() else { return FIRST_POOL };
    let mut next = 1;
    while let Ok(pool) = xen.pool(next) {
        if pool.cpus.iter().any(|cpu| cpu == wanted) {
            return pool.id;
        }
        next = pool.id + 1;
    }
    FIRST_POOL
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Placement, Variant, Work};

    fn cell(knobs: &[(&str, Value)], cpus: Option<&str>) -> Cell {
        let knobs = knobs.iter().map(|(name, value)| (name.to_string(), value.clone())).collect();
        let cpus = cpus.map(|cpus| cpus.parse().unwrap());
        Cell {
            index: 0,
            variant: Variant { name: "v".to_string(), knobs },
            work: Work::default(),
            placement: Placement { cpus, ..Default::default() },
        }
    }

    #[test]
    fn a_pool_has_what_its_scheduler_has() {
        let machine = Machine { cpus: 5, free_bytes: 1 << 30 };
        let text = |word: &str| Value::Text(word.to_string());
        let slice = ("xen-timeslice", Value::DurationNs(5_000_000));
        let of =
            |knobs: &[(&str, Value)], cpus| PoolSettings::for_machine(&cell(knobs, cpus), &machine);
        let credit = of(&[("xen-scheduler", text("credit")), slice.clone()], None).unwrap();
        assert_eq!((credit.scheduler(), credit.timeslice_ms), (Scheduler::Credit, Some(5)));
        assert_eq!(credit.cpus.to_string(), "1-4");
        assert_eq!(of(&[], Some("3-4")).unwrap().cpus.to_string(), "3-4");
        let refused = |knobs: &[(&str, Value)], cpus| of(knobs, cpus).unwrap_err().to_string();
        assert!(
            refused(std::slice::from_ref(&slice), None)
                .contains("xen-timeslice is not a parameter of credit2")
        );
        let limit = |us: u64| ("xen-ratelimit", Value::DurationNs(us * 1_000));
        let credit = ("xen-scheduler", text("credit"));
        // Only credit has it: its slice is 30 ms unless something says another.
        let longer = ("xen-args", text("loglvl=all sched_credit_tslice_ms=50"));
        for (knobs, ratelimit_us) in [
            (vec![credit.clone(), slice.clone(), limit(5_000)], 5_000),
            (vec![credit.clone(), slice.clone(), limit(0)], 0),
            (vec![credit.clone(), limit(30_000)], 30_000),
            (vec![credit.clone(), limit(50_000), longer.clone()], 50_000),
            (vec![limit(500_000)], 500_000),
        ] {
            assert_eq!(of(&knobs, None).unwrap().ratelimit_us, Some(ratelimit_us));
        }
        for knobs in [
            vec![credit.clone(), slice.clone(), limit(5_001)],
            vec![credit.clone(), limit(31_000)],
            vec![credit.clone(), slice, limit(50_000), longer],
        ] {
            assert!(refused(&knobs, None).contains("must not be above the slice"), "{knobs:?}");
        }
        let mut in_first = cell(&[], None);
        in_first.placement.pool = Some("Pool-0".parse().unwrap());
        let error = PoolSettings::for_machine(&in_first, &machine).unwrap_err();
        assert!(matches!(error, XenError::FirstPool), "{error}");
        assert!(refused(&[], Some("0-2")).contains("CPU 0 of the pool's 0-2"));
        let one = Machine { cpus: 1, ..machine };
        let alone = PoolSettings::for_machine(&cell(&[], None), &one);
        assert!(matches!(alone, Err(XenError::OneCpu)), "{alone:?}");
    }
}
