//! Disturbances of invented machines.

use super::*;
use crate::sys::testing::Tree;

const SECOND_NS: u64 = 1_000_000_000;
const CPU: &str = "/sys/devices/system/cpu";
const CLOCK_SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

/// Four CPUs, with the pool on the first two, our process 10 and a stranger, 99.
fn machine() -> Tree {
    let tree = Tree::with_files(&[
        ("/sys/devices/system/cpu/online", "0-3\n"),
        (CLOCK_SOURCE, "tsc\n"),
        ("/sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count", "7\n"),
        ("/sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq", "3600000\n"),
        ("/sys/devices/system/cpu/cpu1/cpufreq/scaling_max_freq", "3600000\n"),
        ("/sys/devices/system/cpu/cpu3/cpufreq/scaling_max_freq", "3600000\n"),
        ("/sys/devices/system/cpu/cpufreq/boost", "1\n"),
        ("/proc/self/mountinfo", "1 1 0:1 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"),
        ("/proc/self/cgroup", "0::/user/me\n"),
        ("/sys/fs/cgroup/user/cpu.stat", "usage_usec 5\nnr_throttled 3\n"),
    ]);
    process(&tree, 10, "schedlab", 1, 100, 0);
    process(&tree, 13, "child", 10, 0, 1);
    process(&tree, 99, "chrome", 1, 50, 1);
    process(&tree, 98, "cc1", 99, 60, 1);
    stat(&tree, [(0, 0); 4]);
    tree
}

/// Busy and stolen ticks of each CPU.
fn stat(tree: &Tree, cpus: [(u64, u64); 4]) {
    let line = |(cpu, (busy, steal))| format!("cpu{cpu} {busy} 0 0 0 0 0 0 {steal} 0 0\n");
    let text: String = cpus.into_iter().enumerate().map(line).collect();
    tree.write("/proc/stat", &text);
}

fn process(tree: &Tree, pid: i32, name: &str, parent: i32, ticks: u64, last_cpu: u32) {
    process_with_ended(tree, pid, name, parent, (ticks, 0), last_cpu);
}

/// The ticks are the process's own and its collected children's.
fn process_with_ended(
    tree: &Tree,
    pid: i32,
    name: &str,
    parent: i32,
    (ticks, children): (u64, u64),
    last_cpu: u32,
) {
    tree.write(
        &format!("/proc/{pid}/stat"),
        &format!(
            "{pid} ({name}) S {parent} {pid} {pid} 0 -1 0 1 2 3 4 {ticks} 0 {children} 0 20 0 1 0 \
             {pid} 1 2 3 0 0 0 0 0 0 0 0 0 0 0 0 17 {last_cpu} 0 0\n"
        ),
    );
}

/// The disturbances found after `change`, `seconds` later, in a run that used 1 s of CPU time.
fn found(seconds: u64, change: impl FnOnce(&Tree)) -> Vec<Disturbance> {
    found_with(seconds, change, |_| ())
}

fn found_with(
    seconds: u64,
    change: impl FnOnce(&Tree),
    retouch: impl FnOnce(&mut Picture),
) -> Vec<Disturbance> {
    found_by(Own::Families([10].into()), seconds, change, retouch)
}

fn found_by(
    own: Own,
    seconds: u64,
    change: impl FnOnce(&Tree),
    retouch: impl FnOnce(&mut Picture),
) -> Vec<Disturbance> {
    let tree = machine();
    let pool: CpuSet = "0-1".parse().unwrap();
    let before = Picture::take(&tree.host(), &pool, &Own::family());
    change(&tree);
    let mut after = Picture::take(&tree.host(), &pool, &Own::family());
    after.clocks = before.clocks;
    after.clocks.monotonic_ns += seconds * SECOND_NS;
    retouch(&mut after);
    let own_cpu_ns = SECOND_NS;
    let (before, after, pool, own) = (&before, &after, &pool, &own);
    let span = Span { before, after, pool, own, own_cpu_ns, counts_all_steal: false };
    span.disturbances()
}

fn only(found: Vec<Disturbance>) -> Disturbance {
    let [one] = found.try_into().expect("one disturbance");
    one
}

/// The interfering processes, in thousandths of a CPU; others; named and unnamed share in thousandths.
type Load = (Vec<(String, i32, u64)>, Option<(u32, u64)>, Option<u64>, Option<u64>);

fn load_of(found: Vec<Disturbance>) -> Load {
    let Disturbance { share, fact } = only(found);
    let DisturbanceFact::OutsideLoad { named_share, interferences, others, unnamed_share } = fact
    else {
        panic!("{fact:?}")
    };
    let sum = named_share.unwrap_or(0.0) + unnamed_share.unwrap_or(0.0);
    assert_eq!(share, Some(sum));
    let thousandths = |share: f64| (share * 1000.0).round() as u64;
    let who = interferences.into_iter().map(|own| {
        assert_eq!(own.cpu_share, own.cpu_ns as f64 / (10.0 * SECOND_NS as f64));
        let children = if own.with_children { "+" } else { "" };
        (format!("{}{children}", own.who), own.pid, thousandths(own.cpu_share))
    });
    (
        who.collect(),
        others.map(|others| (others.processes, thousandths(others.cpu_share))),
        named_share.map(thousandths),
        unnamed_share.map(thousandths),
    )
}

fn who(name: &str, pid: i32, thousandths: u64) -> (String, i32, u64) {
    (name.to_string(), pid, thousandths)
}

#[test]
fn a_quiet_machine_disturbs_nothing() {
    assert_eq!(found(10, |_| ()), []);
    // Our own work, a stranger below the threshold, and one on CPUs outside the pool.
    let quiet = found(10, |tree| {
        process(tree, 10, "schedlab", 1, 1500, 0);
        process(tree, 11, "runner", 10, 300, 0);
        process(tree, 13, "child", 1, 300, 1); // orphaned meanwhile
        process(tree, 99, "chrome", 1, 50 + 40, 1);
        process(tree, 97, "elsewhere", 1, 900, 3);
        stat(tree, [(1000, 0), (1000, 0), (900, 0), (900, 900)]);
    });
    assert_eq!(quiet, []);
}

#[test]
fn other_processes_are_named_largest_first() {
    let found = found(10, |tree| {
        process(tree, 99, "chrome", 1, 50 + 370, 1);
        process(tree, 20, "cc1", 1, 41, 0);
        process(tree, 21, "\u{1b}[31mred)", 1, 42, 0);
        process(tree, 22, "a", 1, 5, 0);
        process(tree, 23, "b", 1, 5, 1);
    });
    let named = vec![who("chrome", 99, 370), who("\\u{1b}[31mred)", 21, 42), who("cc1", 20, 41)];
    assert_eq!(load_of(found), (named, Some((2, 10)), Some(232), None));
}

#[test]
fn short_lived_load_is_named_by_who_collected_it_and_nothing_counts_twice() {
    let found = found(10, |tree| {
        // The compiler of the first picture ended; of its 100 ticks 60 were used by then.
        tree.remove("/proc/98/stat");
        process_with_ended(tree, 99, "chrome", 1, (50, 100), 1);
        process_with_ended(tree, 20, "bash", 1, (10, 390), 0);
        process(tree, 21, "cc1", 20, 100, 0);
        // Time that our own family collected is its own.
        process_with_ended(tree, 10, "schedlab", 1, (100, 500), 0);
        // Busy 14.4 s: 1 s of it the run's by its own count, more by /proc.
        stat(tree, [(720, 0), (720, 0), (0, 0), (0, 0)]);
    });
    let named = vec![who("bash+", 20, 400), who("cc1", 21, 100), who("chrome+", 99, 40)];
    assert_eq!(load_of(found), (named, None, Some(270), Some(200)));
}

#[test]
fn the_threshold_of_outside_load_is_a_share_of_the_pool_and_more_than_rounding() {
    let kinds = |seconds: u64, ticks: u64| {
        found(seconds, |tree| process(tree, 99, "chrome", 1, 50 + ticks, 1)).len()
    };
    assert_eq!(kinds(10, 40), 0, "2 % of two CPUs");
    assert_eq!(kinds(10, 41), 1);
    assert_eq!(kinds(0, 1), 0, "one tick may be rounding, however short the run");
    assert_eq!(kinds(0, 2), 1);
}

#[test]
fn a_reused_pid_counts_from_its_own_start() {
    let found = found(10, |tree| {
        let text = "99 (new) S 1 99 99 0 -1 0 1 2 3 4 60 0 0 0 20 0 1 0 12345 1 2 3 \
                    0 0 0 0 0 0 0 0 0 0 0 0 17 1 0 0\n";
        tree.write("/proc/99/stat", text);
    });
    assert_eq!(load_of(found), (vec![who("new", 99, 60)], None, Some(30), None));
}

#[test]
fn busy_time_that_no_process_shows_is_found() {
    // 20 s of CPU time, 1 s of it ours: 13 s unnamed. Sampling error at 2000 ticks: 3.4 %.
    let unnamed = found(10, |tree| stat(tree, [(700, 0), (700, 0), (0, 0), (0, 0)]));
    assert_eq!(load_of(unnamed), (vec![], None, None, Some(650)));
    let busy = |tree: &Tree| stat(tree, [(700, 0), (700, 0), (0, 0), (0, 0)]);
    let alone =
        found_by(Own::Machine, 10, busy, |after| after.processes = Reading::Known(BTreeMap::new()));
    assert_eq!(alone, [], "timers that are aligned with ticks look like it");
    let within_sampling = found(10, |tree| stat(tree, [(130, 0), (130, 0), (0, 0), (0, 0)]));
    assert_eq!(within_sampling, []);
    let muqss = found(10, |tree| {
        stat(tree, [(700, 0), (700, 0), (0, 0), (0, 0)]);
        tree.write("/proc/sys/kernel/rr_interval", "6\n");
    });
    assert_eq!(muqss, [], "busy time is counted twice there");
    // Under any scheduler: CPU 0 was busy for 19 of 10 seconds.
    let twice = only(found(10, |tree| stat(tree, [(1900, 0), (700, 0), (0, 0), (0, 0)])));
    let of = CpuTimeOf::Cpus;
    let fact = DisturbanceFact::CpuTimeAboveWall { of, counted_cpus: 1.9, cpus: 1 };
    assert_eq!(twice, unsized_fact(fact));
}

#[test]
fn steal_counts_on_the_pool_only() {
    let found = only(found(10, |tree| stat(tree, [(0, 30), (0, 10), (0, 900), (0, 0)])));
    let fact = DisturbanceFact::Steal { share: 0.02, worst_cpu: 0, worst_cpu_share: 0.03 };
    assert_eq!(found, Disturbance { share: Some(0.02), fact });
}

#[test]
fn throttling_frequency_and_clock_source() {
    let found = found(10, |tree| {
        tree.write(&format!("{CPU}/cpu0/thermal_throttle/core_throttle_count"), "9\n");
        tree.write("/sys/fs/cgroup/user/cpu.stat", "usage_usec 5\nnr_throttled 4\n");
        for cpu in [0, 1, 3] {
            let path = format!("{CPU}/cpu{cpu}/cpufreq/scaling_max_freq");
            tree.write(&path, "1200000\n");
        }
        tree.write(&format!("{CPU}/cpufreq/boost"), "0\n");
        tree.write(CLOCK_SOURCE, "hpet\n");
    });
    let cgroup = ThrottledPart::Cgroup("/sys/fs/cgroup/user".to_string());
    let throttled = vec![
        Throttled { part: ThrottledPart::Core(0), events: 2 },
        Throttled { part: cgroup, events: 1 },
    ];
    let change = |setting: &str, cpus: CpuSet, before: &str, after: &str| SettingChange {
        setting: setting.to_string(),
        cpus,
        before: before.to_string(),
        after: after.to_string(),
    };
    let changes = vec![
        change("cpufreq/boost", CpuSet::default(), "1", "0"),
        change("scaling_max_freq", "0-1".parse().unwrap(), "3600000", "1200000"),
    ];
    let (before, after) = ("tsc".to_string(), "hpet".to_string());
    let expected = [
        DisturbanceFact::Throttling { parts: throttled },
        DisturbanceFact::FrequencyChange { changes },
        DisturbanceFact::ClockSourceChange { before, after },
    ];
    assert_eq!(found, expected.map(unsized_fact));
}

#[test]
fn hotplug_in_the_pool_has_a_share() {
    let hotplug = |pool: &str, elsewhere: &str, came: &str| DisturbanceFact::CpuHotplug {
        pool_cpus: 2,
        lost_from_pool: pool.parse().unwrap_or_default(),
        lost_elsewhere: elsewhere.parse().unwrap_or_default(),
        came: came.parse().unwrap_or_default(),
    };
    let lost = found(10, |tree| {
        tree.write(&format!("{CPU}/online"), "0,2-4\n");
        tree.write("/proc/stat", "cpu0 0 0 0 0 0 0 0 0\n");
    });
    let expected = Disturbance { share: Some(0.5), fact: hotplug("1", "", "4") };
    assert_eq!(only(lost), expected);
    let elsewhere = found(10, |tree| tree.write(&format!("{CPU}/online"), "0-1\n"));
    assert_eq!(only(elsewhere), unsized_fact(hotplug("", "2-3", "")));
}

#[test]
fn clock_steps_and_suspends_are_distinguished() {
    let stepped = |wall_ns: i64, boot_ns: i64| {
        let retouch = |after: &mut Picture| {
            after.clocks.wall_offset_ns += wall_ns;
            after.clocks.boot_offset_ns += boot_ns;
        };
        found_with(10, |_| (), retouch)
    };
    let step = |stepped_ns, suspended_ns| {
        [unsized_fact(DisturbanceFact::ClockStep { stepped_ns, suspended_ns })]
    };
    assert_eq!(stepped(1_000_000, 0), []);
    assert_eq!(stepped(1_500_000, 0), step(1_500_000, 0));
    assert_eq!(stepped(-2_000_000, 0), step(-2_000_000, 0));
    assert_eq!(stepped(3_000_000_000, 3_000_000_000), step(0, 3_000_000_000));
}

#[test]
fn what_cannot_be_read_is_no_disturbance() {
    let empty = Tree::with_files(&[("/etc/nothing", "")]);
    let pool: CpuSet = "0-1".parse().unwrap();
    assert_eq!(Watch::begin(&empty.host(), &pool, Own::Families(BTreeSet::new())).end(0), []);
    let tree = machine();
    let watch = Watch::begin(&tree.host(), &pool, Own::Families(BTreeSet::new()));
    ["/proc/stat", CLOCK_SOURCE, "/sys/devices/system/cpu/online"]
        .iter()
        .for_each(|path| tree.remove(path));
    assert_eq!(watch.end(0), []);
}

#[test]
fn a_run_alone_on_its_machine_looks_at_no_processes() {
    let here = Host::default();
    let pool = topology::affinity().unwrap();
    let seen = |own| Watch::begin(&here, &pool, own).before.processes.known().unwrap().len();
    assert_eq!(seen(Own::Machine), 0);
    assert!(seen(Own::family()) > 1);
}

/// A shell that works until the test ends, and no longer than half a minute or so if that
/// cannot end it: a script whose children work must bound their number.
struct Busy(std::process::Child);

impl Busy {
    fn start(script: &str) -> Busy {
        let script = format!("ulimit -t 30; {script}");
        let child = std::process::Command::new("sh").args(["-c", &script]).spawn();
        Busy(child.expect("sh"))
    }

    fn pid(&self) -> i32 {
        self.0.id() as i32
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A process as an interference, if it is one.
fn offence(before: &Picture, after: &Picture, own: &Own, pid: i32) -> Option<Interference> {
    let pool = after.online.clone().known().unwrap();
    let pool = &pool;
    let span = Span { before, after, pool, own, own_cpu_ns: 0, counts_all_steal: false };
    let outside = span.outside().expect("/proc can be read");
    let found = outside.offenders.iter().find(|offender| offender.process.pid == pid);
    found.map(|offender| span.interference(offender))
}

#[test]
fn a_busy_process_is_found_and_our_own_is_not() {
    let host = Host::default();
    let pool = topology::online(&host).known().unwrap();
    let before = Picture::take(&host, &pool, &Own::family());
    let busy = Busy::start("while :; do :; done");
    let pid = busy.pid();
    while clock::process_cpu_ns(pid).expect("the busy process lives") < 100_000_000 {
        std::thread::yield_now();
    }
    let after = Picture::take(&host, &pool, &Own::family());
    let Interference { who, cpu_ns: used_ns, with_children, is_kernel_thread, .. } =
        offence(&before, &after, &Own::Families(BTreeSet::new()), pid).expect("an offender");
    assert_eq!((&*who, with_children, is_kernel_thread), ("sh", false, false));
    // Its time so far, rounded down to ticks: user and system time each.
    assert!(used_ns >= 100_000_000 - 2 * load::tick_ns(), "{used_ns}");
    assert_eq!(offence(&before, &after, &Own::Families([pid].into()), pid), None);
}

#[test]
fn a_shell_whose_children_end_one_after_the_other_is_found_with_them() {
    let host = Host::default();
    let pool = topology::online(&host).known().unwrap();
    let busy = Busy::start(
        "for n in $(seq 2000); do (i=0; while [ $i -lt 5000 ]; do i=$((i+1)); done); done",
    );
    let pid = busy.pid();
    let of_shell = |picture: &Picture| picture.processes.clone().known().unwrap()[&pid].clone();
    let before = Picture::take(&host, &pool, &Own::family());
    let earlier = of_shell(&before);
    let (after, later) = loop {
        let picture = Picture::take(&host, &pool, &Own::family());
        let shell = of_shell(&picture);
        if shell.children_ns >= earlier.children_ns + 100_000_000 {
            break (picture, shell);
        }
    };
    let Interference { who, cpu_ns: used_ns, with_children, .. } =
        offence(&before, &after, &Own::Families(BTreeSet::new()), pid).expect("an offender");
    assert_eq!((&*who, with_children), ("sh", true));
    let children_ns = later.children_ns - earlier.children_ns;
    // Less what a child had that the first picture has met in the middle of its life.
    let own = Own::Families([pid].into());
    assert_eq!(offence(&before, &after, &own, pid), None);
    let met_ns: u64 = before
        .processes
        .known()
        .unwrap()
        .values()
        .filter(|process| process.parent == pid)
        .map(|child| child.cpu_ns)
        .sum();
    assert_eq!(used_ns, later.cpu_ns - earlier.cpu_ns + children_ns - met_ns);
}
