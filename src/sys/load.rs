//! CPU time of CPUs (/proc/stat) and of processes (/proc/PID/stat), in nanoseconds as far as
//! the kernel's clock ticks (mostly 10 ms) resolve them. Parsing is pure.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;

use crate::model::Reading;

use super::Host;

/// What one CPU did since boot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CpuTimes {
    /// User, nice and system time: what tasks used. Guest time is within user time.
    pub task_ns: u64,
    /// Hard and soft interrupts: belongs to no task.
    pub interrupt_ns: u64,
    pub idle_ns: u64,
    /// Taken by the hypervisor while this CPU wanted to run.
    pub steal_ns: u64,
}

/// One process, as /proc/PID/stat tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    pub pid: i32,
    pub parent: i32,
    pub session: i32,
    /// As the process set it, at most 15 bytes: data, not to be trusted with a terminal.
    pub name: String,
    pub is_kernel_thread: bool,
    pub cpu_ns: u64,
    /// Since boot; with the pid this names a process for ever.
    pub started_ns: u64,
    /// The CPU that it ran on last.
    pub last_cpu: u32,
}

/// Every online CPU's times.
pub fn cpu_times(host: &Host) -> Reading<BTreeMap<u32, CpuTimes>> {
    host.reading("/proc/stat").map(|text| parse_cpu_times(&text, tick_ns()))
}

/// Every process that can be seen, by pid. Costs one open, read and close for each: about
/// 25 us, so 8 ms on a machine with 300 processes. What ends meanwhile is left out.
pub fn processes(host: &Host) -> Reading<BTreeMap<i32, Process>> {
    let entries = match std::fs::read_dir(host.path("/proc")) {
        Ok(entries) => entries,
        Err(error) => return Reading::Unknown(format!("/proc: {}", super::host::plain(&error))),
    };
    let tick_ns = tick_ns();
    let mut buffer = Vec::with_capacity(1024);
    let mut found = BTreeMap::new();
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        buffer.clear();
        let read = std::fs::File::open(host.path(format!("/proc/{pid}/stat")))
            .and_then(|mut file| file.read_to_end(&mut buffer));
        if read.is_ok() {
            let process = parse_process(&String::from_utf8_lossy(&buffer), tick_ns);
            found.extend(process.map(|process| (pid, process)));
        }
    }
    Reading::Known(found)
}

/// `pids`, the members of `sessions`, and all that descend from either.
pub fn family(
    processes: &BTreeMap<i32, Process>,
    pids: &BTreeSet<i32>,
    sessions: &BTreeSet<i32>,
) -> BTreeSet<i32> {
    let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for process in processes.values() {
        children.entry(process.parent).or_default().push(process.pid);
    }
    let is_root =
        |process: &&Process| pids.contains(&process.pid) || sessions.contains(&process.session);
    let mut open: Vec<i32> = processes.values().filter(is_root).map(|own| own.pid).collect();
    let mut family = BTreeSet::new();
    while let Some(pid) = open.pop() {
        if family.insert(pid) {
            open.extend(children.get(&pid).into_iter().flatten());
        }
    }
    family
}

/// One clock tick of /proc in nanoseconds (USER_HZ: 100 nearly everywhere).
pub fn tick_ns() -> u64 {
    // SAFETY: sysconf has no preconditions.
    let hertz = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    1_000_000_000 / u64::try_from(hertz).ok().filter(|hertz| *hertz > 0).unwrap_or(100)
}

/// `cpuN user nice system idle iowait irq softirq steal ...`, in ticks. Kernels before
/// 2.6.11 have no steal column; a line with fewer columns is left out.
fn parse_cpu_times(text: &str, tick_ns: u64) -> BTreeMap<u32, CpuTimes> {
    let parse = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let cpu = words.next()?.strip_prefix("cpu")?.parse().ok()?;
        let ticks = words.map(|word| word.parse().ok()).collect::<Option<Vec<u64>>>()?;
        let [user, nice, system, idle, iowait, irq, softirq, steal, ..] = ticks[..] else {
            return None;
        };
        let sum_ns = |ticks: &[u64]| {
            ticks.iter().fold(0u64, |sum, ticks| sum.saturating_add(*ticks)).saturating_mul(tick_ns)
        };
        let times = CpuTimes {
            task_ns: sum_ns(&[user, nice, system]),
            interrupt_ns: sum_ns(&[irq, softirq]),
            idle_ns: sum_ns(&[idle, iowait]),
            steal_ns: sum_ns(&[steal]),
        };
        Some((cpu, times))
    };
    text.lines().filter_map(parse).collect()
}

/// Field numbers as in proc_pid_stat(5), counted from the one after the name, which is 3.
fn parse_process(text: &str, tick_ns: u64) -> Option<Process> {
    const PF_KTHREAD: u64 = 0x0020_0000;
    // The name may hold spaces and parentheses: it ends at the last one.
    let (pid, rest) = text.split_once(" (")?;
    let (name, rest) = rest.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let field = |number: usize| fields.get(number - 3);
    let number = |n: usize| field(n)?.parse::<u64>().ok();
    let signed = |n: usize| field(n)?.parse::<i32>().ok();
    Some(Process {
        pid: pid.parse().ok()?,
        parent: signed(4)?,
        session: signed(6)?,
        name: name.to_string(),
        is_kernel_thread: number(9)? & PF_KTHREAD != 0,
        cpu_ns: number(14)?.checked_add(number(15)?)?.checked_mul(tick_ns)?,
        started_ns: number(22)?.checked_mul(tick_ns)?,
        last_cpu: number(39)?.try_into().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: u64 = 10_000_000;

    #[test]
    fn per_cpu_times_are_told_apart_and_malformed_lines_left_out() {
        let text = "cpu  1 2 3 4 5 6 7 8 9 10\n\
            cpu0 1 2 3 4 5 6 7 8 9 10\ncpu12 1 1 1 1 1 1 1 0 0 0\n\
            cpu2 1 2 3\ncpu3 1 2 x 4 5 6 7 8\ncpufoo 1 1 1 1 1 1 1 1\nctxt 5\n";
        let times = parse_cpu_times(text, TICK);
        assert_eq!(times.keys().copied().collect::<Vec<_>>(), [0, 12]);
        let expected = CpuTimes {
            task_ns: 6 * TICK,
            interrupt_ns: 13 * TICK,
            idle_ns: 9 * TICK,
            steal_ns: 8 * TICK,
        };
        assert_eq!(times[&0], expected);
    }

    fn stat(name: &str) -> String {
        format!(
            "42 ({name}) S 7 42 9 0 -1 2097152 1 2 3 4 15 5 99 99 20 0 1 0 300 1 2 3 \
             0 0 0 0 0 0 0 0 0 0 0 0 17 3 0 0"
        )
    }

    #[test]
    fn names_may_hold_anything() {
        for name in ["bash", "a b", ") S 1 (", "x) R 0", "", "\u{1b}[31m"] {
            let process = parse_process(&stat(name), TICK).unwrap();
            assert_eq!(process.name, name);
            assert_eq!((process.pid, process.parent, process.session), (42, 7, 9), "{name}");
            assert_eq!(process.cpu_ns, 20 * TICK);
            assert_eq!(process.started_ns, 300 * TICK);
            assert_eq!(process.last_cpu, 3);
            assert!(process.is_kernel_thread);
        }
        for wrong in ["", "42", "42 (x)", "42 (x) S 1 2", "x (y) S 7 42 9"] {
            assert_eq!(parse_process(wrong, TICK), None, "{wrong}");
        }
        let overflowing = stat("x").replace(" 15 5 ", " 18446744073709551615 5 ");
        assert_eq!(parse_process(&overflowing, TICK), None);
    }

    #[test]
    fn a_family_is_its_roots_their_session_and_all_descendants() {
        let process = |pid: i32, parent: i32, session: i32| {
            let mut process = parse_process(&stat("p"), TICK).unwrap();
            (process.pid, process.parent, process.session) = (pid, parent, session);
            (pid, process)
        };
        let all = BTreeMap::from([
            process(1, 0, 1),
            process(10, 1, 10),
            process(11, 10, 10),
            process(12, 11, 12), // descends from 10, in a session of its own
            process(20, 1, 30),  // orphaned, but in the runner's session
            process(21, 20, 40), // and its child
            process(50, 1, 50),
            process(60, 61, 60), // a loop, as a snapshot of a changing tree may show
            process(61, 60, 60),
        ]);
        let family = family(&all, &BTreeSet::from([10]), &BTreeSet::from([30]));
        assert_eq!(family, BTreeSet::from([10, 11, 12, 20, 21]));
    }

    #[test]
    fn the_own_process_is_found_on_this_machine() {
        let all = processes(&Host::default()).known().unwrap();
        let own = &all[&(std::process::id() as i32)];
        assert!(!own.is_kernel_thread);
        assert!(all.contains_key(&own.parent) || own.parent == 0);
        assert!(!cpu_times(&Host::default()).known().unwrap().is_empty());
    }
}
