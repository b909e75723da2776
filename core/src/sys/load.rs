//! CPU time of CPUs (/proc/stat) and of processes (/proc/PID/stat), in nanoseconds as far as
//! the kernel's clock ticks (mostly 10 ms) resolve them. Parsing is pure.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};

use crate::model::Reading;

use super::Host;
use super::host::lossy;

/// The times of one CPU since boot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CpuTimes {
    /// User, nice and system time: the time of tasks. Guest time is within user time.
    pub task_ns: u64,
    /// Hard and soft interrupts: belongs to no task.
    pub interrupt_ns: u64,
    pub idle_ns: u64,
    /// Taken by the hypervisor while this CPU wanted to run.
    pub steal_ns: u64,
}

/// One process, as in /proc/PID/stat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    pub pid: i32,
    pub parent: i32,
    /// The name that the process gave itself, at most 15 bytes: data, not to be trusted with a terminal.
    pub name: String,
    pub is_kernel_thread: bool,
    /// Has ended, and nobody has collected it yet.
    pub has_ended: bool,
    pub threads: u32,
    pub cpu_ns: u64,
    /// The time of children that have ended and been collected, their own children included.
    pub children_ns: u64,
    /// Since boot; with the pid this names a process permanently.
    pub started_ns: u64,
    /// The CPU that it ran on last.
    pub last_cpu: u32,
}

/// Every online CPU's times.
pub fn cpu_times(host: &Host) -> Reading<BTreeMap<u32, CpuTimes>> {
    host.reading("/proc/stat").map(|text| parse_cpu_times(&text, tick_ns()))
}

/// Every process that can be seen, by pid. Costs one open, read and close for each: about 25 us, so 8 ms on a
/// machine with 300 processes. Processes that end meanwhile are left out.
pub fn processes(host: &Host) -> Reading<BTreeMap<i32, Process>> {
    let tick_ns = tick_ns();
    let mut buffer = Vec::with_capacity(1024);
    pids(host).map(|pids| {
        let read = |pid| Some((pid, read_process(host, pid, tick_ns, &mut buffer)?));
        pids.into_iter().filter_map(read).collect()
    })
}

/// The processes that can be seen: one reading of a folder.
pub fn pids(host: &Host) -> Reading<Vec<i32>> {
    match numbers_in(host, "/proc") {
        Ok(pids) => Reading::Known(pids),
        Err(error) => Reading::Unknown(format!("/proc: {}", super::host::error_text(&error))),
    }
}

/// The tasks of a process; none where it is gone.
pub fn tids(host: &Host, pid: i32) -> Vec<i32> {
    numbers_in(host, &format!("/proc/{pid}/task")).unwrap_or_default()
}

/// One process; `None` where it is gone.
pub fn process(host: &Host, pid: i32) -> Option<Process> {
    read_process(host, pid, tick_ns(), &mut Vec::with_capacity(1024))
}

/// Whether a process is neither gone nor waiting to be collected.
pub fn is_alive(pid: i32) -> bool {
    process(&Host::default(), pid).is_some_and(|process| !process.has_ended)
}

/// How many tasks the machine has made since boot, including those of other containers.
pub fn forks(host: &Host) -> Option<u64> {
    let text = host.read("/proc/stat").ok()?;
    text.lines().find_map(|line| line.strip_prefix("processes ")?.trim().parse().ok())
}

fn numbers_in(host: &Host, folder: &str) -> io::Result<Vec<i32>> {
    let entries = std::fs::read_dir(host.path(folder))?;
    Ok(entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect())
}

fn read_process(host: &Host, pid: i32, tick_ns: u64, buffer: &mut Vec<u8>) -> Option<Process> {
    buffer.clear();
    let mut file = std::fs::File::open(host.path(format!("/proc/{pid}/stat"))).ok()?;
    file.read_to_end(buffer).ok()?;
    parse_process(&lossy(buffer), tick_ns)
}

/// `pids` and all that descend from them.
pub fn family(processes: &BTreeMap<i32, Process>, pids: &BTreeSet<i32>) -> BTreeSet<i32> {
    let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for process in processes.values() {
        children.entry(process.parent).or_default().push(process.pid);
    }
    let mut open: Vec<i32> =
        pids.iter().copied().filter(|pid| processes.contains_key(pid)).collect();
    let mut family = BTreeSet::new();
    while let Some(pid) = open.pop() {
        if family.insert(pid) {
            open.extend(children.get(&pid).into_iter().flatten());
        }
    }
    family
}

/// The same process in another picture: pids are used again, start times are not.
pub fn same<'a>(processes: &'a BTreeMap<i32, Process>, process: &Process) -> Option<&'a Process> {
    processes.get(&process.pid).filter(|other| other.started_ns == process.started_ns)
}

/// The time that children used between two pictures, for each process of the second that collected them in between.
///
/// A collector is charged with the whole life of a child, so the time that a child of the first picture had used by
/// then is taken off again: from its parent, or where that has ended, too, from the nearest ancestors that live, as
/// far as they have been charged.
pub fn ended_children_ns(
    before: &BTreeMap<i32, Process>,
    after: &BTreeMap<i32, Process>,
) -> BTreeMap<i32, u64> {
    let charged = |process: &Process| {
        let earlier_ns = same(before, process).map_or(0, |earlier| earlier.children_ns);
        (process.pid, process.children_ns.saturating_sub(earlier_ns))
    };
    let mut ended: BTreeMap<i32, u64> = after.values().map(charged).collect();
    for gone in before.values().filter(|process| same(after, process).is_none()) {
        let mut credit_ns = gone.cpu_ns.saturating_add(gone.children_ns);
        // A picture of a changing tree may show a loop.
        let ancestors =
            std::iter::successors(before.get(&gone.parent), |child| before.get(&child.parent))
                .take(before.len());
        for ancestor in ancestors.filter(|ancestor| same(after, ancestor).is_some()) {
            let Some(ended_ns) = ended.get_mut(&ancestor.pid) else { continue };
            let taken_ns = credit_ns.min(*ended_ns);
            *ended_ns -= taken_ns;
            credit_ns -= taken_ns;
            if credit_ns == 0 || ancestor.pid == gone.parent {
                break;
            }
        }
    }
    ended
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
pub(super) fn parse_process(text: &str, tick_ns: u64) -> Option<Process> {
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
        name: name.to_string(),
        is_kernel_thread: number(9)? & PF_KTHREAD != 0,
        has_ended: matches!(*field(3)?, "Z" | "X" | "x"),
        threads: number(20)?.try_into().ok()?,
        cpu_ns: number(14)?.checked_add(number(15)?)?.checked_mul(tick_ns)?,
        children_ns: number(16)?.checked_add(number(17)?)?.checked_mul(tick_ns)?,
        started_ns: number(22)?.checked_mul(tick_ns)?,
        last_cpu: number(39)?.try_into().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: u64 = 10_000_000;

    #[test]
    fn per_cpu_times_are_distinguished_and_malformed_lines_left_out() {
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
            "42 ({name}) S 7 42 9 0 -1 2097152 1 2 3 4 15 5 70 7 20 0 1 0 300 1 2 3 \
             0 0 0 0 0 0 0 0 0 0 0 0 17 3 0 0"
        )
    }

    #[test]
    fn names_may_hold_anything() {
        for name in ["bash", "a b", ") S 1 (", "x) R 0", "", "\u{1b}[31m"] {
            let process = parse_process(&stat(name), TICK).unwrap();
            assert_eq!(process.name, name);
            assert_eq!((process.pid, process.parent), (42, 7), "{name}");
            assert_eq!(process.cpu_ns, 20 * TICK);
            assert_eq!(process.children_ns, 77 * TICK);
            assert_eq!(process.started_ns, 300 * TICK);
            assert_eq!(process.last_cpu, 3);
            assert!(process.is_kernel_thread && !process.has_ended);
            assert_eq!(process.threads, 1);
        }
        let zombie = stat("x").replace(" S 7 ", " Z 7 ");
        assert!(parse_process(&zombie, TICK).is_some_and(|process| process.has_ended));
        for wrong in ["", "42", "42 (x)", "42 (x) S 1 2", "x (y) S 7 42 9"] {
            assert_eq!(parse_process(wrong, TICK), None, "{wrong}");
        }
        let overflowing = stat("x").replace(" 15 5 ", " 18446744073709551615 5 ");
        assert_eq!(parse_process(&overflowing, TICK), None);
    }

    /// Processes by pid, parent, own CPU time and that of collected children.
    fn picture(processes: &[(i32, i32, u64, u64)]) -> BTreeMap<i32, Process> {
        let process = |&(pid, parent, cpu_ns, children_ns): &(i32, i32, u64, u64)| {
            let process = parse_process(&stat("p"), TICK).unwrap();
            (pid, Process { pid, parent, cpu_ns, children_ns, ..process })
        };
        processes.iter().map(process).collect()
    }

    #[test]
    fn a_family_is_its_roots_and_all_descendants() {
        let all = picture(&[
            (1, 0, 0, 0),
            (10, 1, 0, 0),
            (11, 10, 0, 0),
            (12, 11, 0, 0),
            (50, 1, 0, 0),
            (60, 61, 0, 0), // a loop, as a picture of a changing tree may show
            (61, 60, 0, 0),
        ]);
        let family = |pids: &[i32]| family(&all, &pids.iter().copied().collect());
        assert_eq!(family(&[10, 99]), BTreeSet::from([10, 11, 12]));
        assert_eq!(family(&[61]), BTreeSet::from([60, 61]));
    }

    #[test]
    fn ended_children_are_charged_once_and_for_the_time_between() {
        /// Name, processes before and after, and the time charged to each collector.
        type Case<'a> =
            (&'a str, &'a [(i32, i32, u64, u64)], &'a [(i32, i32, u64, u64)], &'a [(i32, u64)]);
        let cases: &[Case] = &[
            (
                "came and went",
                &[(1, 0, 0, 0), (5, 1, 9, 3)],
                &[(1, 0, 0, 0), (5, 1, 9, 10)],
                &[(5, 7)],
            ),
            ("a new collector", &[(1, 0, 0, 0)], &[(1, 0, 0, 0), (5, 1, 9, 10)], &[(5, 10)]),
            (
                "a child of before, which had collected some itself",
                &[(5, 1, 0, 3), (6, 5, 40, 2)],
                &[(5, 1, 0, 50)],
                &[(5, 5)],
            ),
            (
                "parent and child of before, to whom the child was charged first",
                &[(1, 0, 0, 0), (4, 1, 0, 0), (5, 4, 20, 0), (6, 5, 40, 0)],
                &[(1, 0, 0, 0), (4, 1, 0, 65)],
                &[(4, 5)],
            ),
            (
                "an orphan that init has collected: the sum holds, whose it is remains unknown",
                &[(1, 0, 0, 0), (4, 1, 0, 0), (5, 4, 20, 0), (6, 5, 40, 0)],
                &[(1, 0, 0, 43), (4, 1, 0, 21)],
                &[(1, 4)],
            ),
            (
                "a parent that ignores SIGCHLD is charged nothing, and nobody else is relieved",
                &[(1, 0, 0, 0), (5, 1, 0, 0), (6, 5, 40, 0)],
                &[(1, 0, 0, 30), (5, 1, 0, 0)],
                &[(1, 30)],
            ),
            (
                "a loop of parents, all gone",
                &[(1, 0, 0, 0), (60, 61, 5, 0), (61, 60, 5, 0)],
                &[(1, 0, 0, 2)],
                &[(1, 2)],
            ),
        ];
        for (name, before, after, expected) in cases {
            let mut ended = ended_children_ns(&picture(before), &picture(after));
            ended.retain(|_, ns| *ns > 0);
            assert_eq!(ended, expected.iter().copied().collect(), "{name}");
        }
        let mut after = picture(&[(5, 1, 9, 10)]);
        after.get_mut(&5).unwrap().started_ns += 1;
        let ended = ended_children_ns(&picture(&[(5, 1, 9, 8)]), &after);
        assert_eq!(ended, BTreeMap::from([(5, 10)]), "another process of the same pid");
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
