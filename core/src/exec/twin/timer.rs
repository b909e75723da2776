//! How late a timer's thread runs, on a busy and on an idle CPU.

use crate::exec::ExecError;
use crate::model::Cost;
use crate::sys::{clock, sched};

use super::pinned::{self, Busy, joined, pin};
use super::samples::{Costs, difference, of_ns};

/// How long the thread sleeps, in which an idle CPU is idle.
const SLEEP_NS: u64 = 1_000_000;

pub fn measure(cpu: u32, samples: usize, costs: &mut Costs) -> Result<(), ExecError> {
    let busy = Busy::default();
    std::thread::scope(|threads| {
        let spinner = threads.spawn(|| busy.work(cpu));
        let sleeper = threads.spawn(|| {
            let late = pin(cpu).and_then(|()| lateness(samples, &busy));
            busy.end();
            late
        });
        let (late_busy, late_idle) = joined(sleeper)?;
        joined(spinner)?;
        costs.insert(Cost::TimerBusy, of_ns(&late_busy));
        costs.insert(Cost::TimerIdle, of_ns(&late_idle));
        costs.insert(Cost::IdleExit, difference(&late_idle, &late_busy));
        Ok(())
    })
}

/// Samples on a busy CPU and on an idle one, in turn.
fn lateness(samples: usize, busy: &Busy) -> Result<(Vec<u64>, Vec<u64>), ExecError> {
    sched::set_own_timer_slack_ns(1).map_err(ExecError::system("set the timer slack"))?;
    let (mut late_busy, mut late_idle) = (Vec::with_capacity(samples), Vec::with_capacity(samples));
    for _ in pinned::samples(samples) {
        busy.set(true);
        late_busy.push(sleep());
        busy.set(false);
        late_idle.push(sleep());
    }
    Ok((late_busy, late_idle))
}

fn sleep() -> u64 {
    let due_ns = clock::monotonic_ns() + SLEEP_NS;
    clock::sleep_until(due_ns);
    clock::monotonic_ns() - due_ns
}
