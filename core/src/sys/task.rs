//! The scheduler's counts for one task, from /proc/PID/task/TID. Parsing is pure.
//!
//! `sched` has nearly all of them and exists on kernels with CONFIG_SCHED_DEBUG (Linux 6.15 made that
//! unconditional); `status` gives the switches elsewhere; `schedstat` gives the wait on the runqueue where the
//! kernel keeps it. A kernel prints counts that it does not keep as zeros: those come out as unknown.

use std::borrow::Cow;
use std::fs::File;
use std::io::Read;

use crate::model::Reading;

use super::Host;
use super::host::{error_text, lossy};
use super::load::{Process, parse_process, tick_ns};

/// Counts since the task began; callers take differences.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskStats {
    pub voluntary_switches: Reading<u64>,
    pub involuntary_switches: Reading<u64>,
    /// Migrations between CPUs.
    pub migrations: Reading<u64>,
    /// Runnable but not running.
    pub run_queue_wait_ns: Reading<u64>,
    /// How often it got a CPU.
    pub timeslices: Reading<u64>,
    /// The time on a CPU.
    pub run_ns: Reading<u64>,
}

/// Reads tasks one after the other through one buffer.
pub struct TaskReader {
    host: Host,
    buffer: Vec<u8>,
}

impl TaskReader {
    pub fn new(host: Host) -> Self {
        // More than any of the files holds, so that a reading does not grow it.
        TaskReader { host, buffer: Vec::with_capacity(16 * 1024) }
    }

    /// Two or three files of one task: about 20 us, most of it the kernel printing.
    pub fn stats(&mut self, pid: i32, tid: i32) -> TaskStats {
        let folder = format!("/proc/{pid}/task/{tid}");
        let sched = self.text(&format!("{folder}/sched")).map(|text| parse_sched(&text));
        let switches = match &sched {
            Reading::Known(sched) if sched.has_switches() => sched.switches(),
            _ => self.text(&format!("{folder}/status")).map(|text| parse_status(&text)),
        };
        let path = format!("{folder}/schedstat");
        let schedstat = self.text(&path).map(|text| parse_schedstat(&text));
        combine(sched, switches, schedstat, &path)
    }

    /// Run time and wait of the task, from one file. Zeros also where the kernel does not keep them; a task that
    /// has run, such as the own, shows that. `None`: not there, or the task is gone.
    pub fn schedstat(&mut self, pid: i32, tid: i32) -> Option<Schedstat> {
        let text = self.text(&format!("/proc/{pid}/task/{tid}/schedstat")).known()?;
        parse_schedstat(&text)
    }

    /// The identity of the task: its CPU times are its own, not those of its process.
    pub fn identity(&mut self, pid: i32, tid: i32) -> Option<Process> {
        let text = self.text(&format!("/proc/{pid}/task/{tid}/stat")).known()?;
        parse_process(&text, tick_ns())
    }

    /// Runnable but not running, on average for each time that the task got a CPU, since it
    /// began. For tasks that have run: zeros mean a kernel that does not count.
    pub fn mean_wait_ns(&mut self, pid: i32, tid: i32) -> Reading<u64> {
        let path = format!("/proc/{pid}/task/{tid}/schedstat");
        let stat = self.text(&path).map(|text| parse_schedstat(&text));
        three_numbers(stat, &path).and_then(|stat| {
            let why = format!("this kernel's schedstats are off: {path} reads zeros");
            Reading::from_option(stat.wait_ns.checked_div(stat.timeslices), why)
        })
    }

    /// Names in it may hold any bytes.
    fn text(&mut self, path: &str) -> Reading<Cow<'_, str>> {
        self.buffer.clear();
        let read = File::open(self.host.path(path))
            .and_then(|mut file| file.read_to_end(&mut self.buffer));
        match read {
            Ok(_) => Reading::Known(lossy(&self.buffer)),
            Err(error) => Reading::Unknown(format!("{path}: {}", error_text(&error))),
        }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Switches {
    voluntary: Option<u64>,
    involuntary: Option<u64>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Sched {
    run_ns: Option<u64>,
    migrations: Option<u64>,
    voluntary: Option<u64>,
    involuntary: Option<u64>,
}

impl Sched {
    fn has_switches(&self) -> bool {
        self.voluntary.is_some() && self.involuntary.is_some()
    }

    fn switches(&self) -> Reading<Switches> {
        Reading::Known(Switches { voluntary: self.voluntary, involuntary: self.involuntary })
    }
}

/// A task's `schedstat`, since it began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Schedstat {
    pub run_ns: u64,
    pub wait_ns: u64,
    /// How often it got a CPU.
    pub timeslices: u64,
}

/// `status`: `voluntary_ctxt_switches:\t12` and `nonvoluntary_ctxt_switches:\t3`.
fn parse_status(text: &str) -> Switches {
    let value = |line: &str, key: &str| line.strip_prefix(key)?.trim().parse().ok();
    let mut found = Switches::default();
    for line in text.lines() {
        found.voluntary = found.voluntary.or(value(line, "voluntary_ctxt_switches:"));
        found.involuntary = found.involuntary.or(value(line, "nonvoluntary_ctxt_switches:"));
    }
    found
}

/// `sched`: `name : value` lines; times are milliseconds with six decimals.
fn parse_sched(text: &str) -> Sched {
    let mut found = Sched::default();
    for line in text.lines() {
        let Some((name, value)) = line.split_once(':') else { continue };
        let value = value.trim();
        match name.trim() {
            "se.sum_exec_runtime" => found.run_ns = milliseconds_as_ns(value),
            "se.nr_migrations" => found.migrations = value.parse().ok(),
            "nr_voluntary_switches" => found.voluntary = value.parse().ok(),
            "nr_involuntary_switches" => found.involuntary = value.parse().ok(),
            _ => {}
        }
        if found.has_switches() {
            break; // All that is wanted comes before or with the switches.
        }
    }
    found
}

/// `199.497987` is 199,497,987 ns; other forms are not the kernel's.
fn milliseconds_as_ns(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.')?;
    if fraction.len() != 6 {
        return None;
    }
    whole.parse::<u64>().ok()?.checked_mul(1_000_000)?.checked_add(fraction.parse().ok()?)
}

/// `schedstat`: `RUN_NS WAIT_NS TIMESLICES`.
fn parse_schedstat(text: &str) -> Option<Schedstat> {
    let mut numbers = text.split_ascii_whitespace().map(|word| word.parse::<u64>().ok());
    let stat = Schedstat {
        run_ns: numbers.next()??,
        wait_ns: numbers.next()??,
        timeslices: numbers.next()??,
    };
    numbers.next().is_none().then_some(stat)
}

fn combine(
    sched: Reading<Sched>,
    switches: Reading<Switches>,
    schedstat: Reading<Option<Schedstat>>,
    path: &str,
) -> TaskStats {
    let pick = |of: fn(Switches) -> Option<u64>| {
        let why = "neither `status` nor `sched` counts switches";
        switches.clone().and_then(|switches| Reading::from_option(of(switches), why))
    };
    let migrations = sched.clone().and_then(|sched| {
        Reading::from_option(sched.migrations, "`sched` has no se.nr_migrations")
    });
    let schedstat = kept(&sched, &switches, schedstat, path);
    let run_ns = match (&schedstat, &sched) {
        (Reading::Known(stat), _) => Reading::Known(stat.run_ns),
        (Reading::Unknown(why), sched) => {
            let run_ns = sched.as_ref().known().and_then(|sched| sched.run_ns);
            Reading::from_option(run_ns, why)
        }
    };
    TaskStats {
        voluntary_switches: pick(|switches| switches.voluntary),
        involuntary_switches: pick(|switches| switches.involuntary),
        migrations,
        run_queue_wait_ns: schedstat.as_ref().map(|stat| stat.wait_ns),
        timeslices: schedstat.map(|stat| stat.timeslices),
        run_ns,
    }
}

/// A kernel that keeps no schedstats prints three zeros. So does one that does for a task
/// that has never run: the task's CPU time and switches, kept elsewhere, show which.
fn kept(
    sched: &Reading<Sched>,
    switches: &Reading<Switches>,
    schedstat: Reading<Option<Schedstat>>,
    path: &str,
) -> Reading<Schedstat> {
    let schedstat = three_numbers(schedstat, path);
    let Reading::Known(stat) = schedstat else { return schedstat };
    if stat != Schedstat::default() {
        return schedstat;
    }
    let run_ns = sched.as_ref().known().and_then(|sched| sched.run_ns);
    let switched = switches.as_ref().known().and_then(|s| Some(s.voluntary? + s.involuntary?));
    match (run_ns, switched) {
        (Some(0), Some(0)) => Reading::Known(stat),
        (Some(run_ns @ 1..), _) => Reading::Unknown(format!(
            "this kernel's schedstats are off: {path} reads zeros, but the task has run {run_ns} ns"
        )),
        (_, Some(count @ 1..)) => Reading::Unknown(format!(
            "this kernel's schedstats are off: {path} reads zeros, but the task has switched \
             {count} times"
        )),
        _ => Reading::Unknown(format!(
            "{path} reads zeros, and nothing else shows whether the task has run"
        )),
    }
}

fn three_numbers(schedstat: Reading<Option<Schedstat>>, path: &str) -> Reading<Schedstat> {
    schedstat
        .and_then(|stat| Reading::from_option(stat, format!("{path}: does not hold three numbers")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::testing::Tree;

    const SCHED: &str = "x (7, #threads: 1)\n-----\n\
        se.exec_start                                :       1829146.001770\n\
        se.sum_exec_runtime                          :             1.066158\n\
        se.nr_migrations                             :                   11\n\
        nr_switches                                  :                    9\n\
        nr_voluntary_switches                        :                    5\n\
        nr_involuntary_switches                      :                    4\n\
        prio                                         :                  120\n";
    const STATUS: &str =
        "Name:\tx\nvoluntary_ctxt_switches:\t50\nnonvoluntary_ctxt_switches:\t40\n";
    const FRESH_STATUS: &str = "voluntary_ctxt_switches:\t0\nnonvoluntary_ctxt_switches:\t0\n";

    /// The counts that are read, unknowns as `None`: switches, migrations, wait.
    fn read(files: &[(&str, &str)]) -> [Option<u64>; 4] {
        let tree = Tree::with_files(&[("/proc/7/task/7/comm", "x")]);
        files.iter().for_each(|(name, text)| tree.write(&format!("/proc/7/task/7/{name}"), text));
        let stats = TaskReader::new(tree.host()).stats(7, 7);
        [
            stats.voluntary_switches,
            stats.involuntary_switches,
            stats.migrations,
            stats.run_queue_wait_ns,
        ]
        .map(Reading::known)
    }

    #[test]
    fn each_kernel_gives_what_it_keeps_and_no_zero_for_the_rest() {
        let fresh =
            SCHED.replace("1.066158", "0.000000").replace("5\n", "0\n").replace("4\n", "0\n");
        type Case<'a> = (&'a str, Vec<(&'a str, &'a str)>, [Option<u64>; 4]);
        let some = |values: [u64; 4]| values.map(Some);
        let cases: Vec<Case> = vec![
            (
                "everything",
                vec![("sched", SCHED), ("status", STATUS), ("schedstat", "1066200 48944 9\n")],
                some([5, 4, 11, 48_944]),
            ),
            (
                "schedstats off",
                vec![("sched", SCHED), ("status", STATUS), ("schedstat", "0 0 0\n")],
                [Some(5), Some(4), Some(11), None],
            ),
            (
                "never ran",
                vec![("sched", &fresh), ("status", STATUS), ("schedstat", "0 0 0\n")],
                some([0, 0, 11, 0]),
            ),
            (
                "no CONFIG_SCHED_DEBUG",
                vec![("status", STATUS), ("schedstat", "1066200 0 9\n")],
                [Some(50), Some(40), None, Some(0)],
            ),
            (
                "neither",
                vec![("status", STATUS), ("schedstat", "0 0 0\n")],
                [Some(50), Some(40), None, None],
            ),
            (
                "neither, and nothing shows whether it ran",
                vec![("status", FRESH_STATUS), ("schedstat", "0 0 0\n")],
                [Some(0), Some(0), None, None],
            ),
            ("no CONFIG_SCHED_INFO", vec![("sched", SCHED)], [Some(5), Some(4), Some(11), None]),
            ("gone", vec![], [None; 4]),
            (
                "malformed",
                vec![
                    ("sched", "\u{0}:::\n"),
                    ("status", "voluntary_ctxt_switches:\t-1"),
                    ("schedstat", "1 2 3 4"),
                ],
                [None; 4],
            ),
        ];
        for (name, files, expected) in cases {
            assert_eq!(read(&files), expected, "{name}");
        }
    }

    #[test]
    fn run_time_is_known_without_schedstats_and_names_may_be_any_bytes() {
        let files = |sched: &str, schedstat: &str| {
            let tree = Tree::with_files(&[("/proc/7/task/7/schedstat", schedstat)]);
            let bytes = [b"\xff\xfe (".as_slice(), sched.as_bytes()].concat();
            std::fs::write(tree.host().path("/proc/7/task/7/sched"), bytes).unwrap();
            let stats = TaskReader::new(tree.host()).stats(7, 7);
            (stats.run_ns.known(), stats.timeslices.known(), stats.voluntary_switches.known())
        };
        let cases = [
            ("1066200 48944 9\n", (Some(1_066_200), Some(9), Some(5))),
            ("0 0 0\n", (Some(1_066_158), None, Some(5))),
        ];
        for (schedstat, expected) in cases {
            assert_eq!(files(SCHED, schedstat), expected, "{schedstat}");
        }
        assert_eq!(files("", "0 0 0\n"), (None, None, None));
    }

    #[test]
    fn unknown_says_which_file_and_why() {
        let tree = Tree::with_files(&[
            ("/proc/7/task/8/sched", SCHED),
            ("/proc/7/task/8/schedstat", "0 0 0"),
        ]);
        let stats = TaskReader::new(tree.host()).stats(7, 8);
        assert_eq!(
            stats.run_queue_wait_ns,
            Reading::Unknown(
                "this kernel's schedstats are off: /proc/7/task/8/schedstat reads zeros, but the \
                 task has run 1066158 ns"
                    .to_string()
            )
        );
    }

    #[test]
    fn milliseconds_are_read_exactly() {
        let cases = [
            ("199.497987", Some(199_497_987)),
            ("0.000000", Some(0)),
            ("18446744073709.551615", Some(u64::MAX)),
            ("18446744073709.551616", None),
            ("1.5", None),
            ("1", None),
            ("-1.000000", None),
            ("", None),
        ];
        for (text, expected) in cases {
            assert_eq!(milliseconds_as_ns(text), expected, "{text}");
        }
    }

    #[test]
    fn an_own_thread_that_worked_and_slept_shows_both() {
        let tid = crate::sys::sched::own_tid();
        let pid = std::process::id() as i32;
        let mut reader = TaskReader::new(Host::default());
        let switches = |stats: &TaskStats| stats.voluntary_switches.clone().known().unwrap();
        let before = reader.stats(pid, tid);
        crate::sys::clock::sleep_until(crate::sys::clock::monotonic_ns() + 1_000_000);
        let after = reader.stats(pid, tid);
        assert!(switches(&after) > switches(&before), "{before:?} {after:?}");
    }
}
