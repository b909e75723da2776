//! The lab, with QEMU and with Debian's kernels: identity to the last bit under load, failures of guests, and
//! that no QEMU outlives schedlab. `make test` runs this target next to the others: guests fill the CPUs, and
//! other load does not disturb them.

#[expect(dead_code, reason = "the other target uses the rest")]
mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use support::{
    assert_gone, done, ended, metric, schedlab, signal, skip, stderr, stdout, wait_for, with_mounts,
};

const QEMU: &str = "qemu-system-x86_64";
const KERNELS: [&str; 3] = ["debian:6.1", "debian:6.18", "xen:4.17"];
/// The longest time of a load on the host.
const LOAD_SECONDS: &str = "500";
/// QEMU behind a script, which executes that of a test's home first. All tests have the same one: another script would
/// be another QEMU, whose machines are booted anew.
const EMULATOR: &str = "#!/bin/sh\n[ ! -e \"$HOME/before-qemu\" ] || . \"$HOME/before-qemu\"\n\
                        exec /usr/bin/qemu-system-x86_64 \"$@\"\n";
/// The folder of saved machines, below a home.
const MACHINES: &str = ".cache/schedlab/machines";
const NO_GUESTS: &str = "case $1 in --version | -L) ;; *) echo no guest >&2; exit 9;; esac";
const NO_BOOTS: &str = "case \"$*\" in *' -kernel '*) echo no boot >&2; exit 9;; esac";

/// The home with the kernels of all tests here, fetched once, or what this machine lacks.
fn fetched() -> &'static Result<PathBuf, &'static str> {
    static FETCHED: OnceLock<Result<PathBuf, &'static str>> = OnceLock::new();
    FETCHED.get_or_init(|| {
        if std::env::consts::ARCH != "x86_64" {
            return Err("hardware: an x86-64 machine");
        }
        if !Path::new("/usr/bin/apt-get").exists() {
            return Err("apt-get, which no package brings to a machine that is not a Debian");
        }
        let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join("lab");
        write_emulator(&home.join("qemu"), EMULATOR);
        let got = schedlab(&home, &[&["kernel", "get"], &KERNELS[..]].concat()).output().unwrap();
        let message = stderr(&got);
        if message.contains("has no Debian archive") || message.contains("no suite could be read") {
            return Err("network: a Debian mirror among apt's sources");
        }
        assert_eq!(got.status.code(), Some(0), "{message}");
        assert!(stdout(&got).starts_with("debian:6.1 is debian:6.1."), "{}", stdout(&got));
        Ok(home)
    })
}

/// Writes the script in QEMU's place.
fn write_emulator(folder: &Path, script: &str) {
    fs::create_dir_all(folder).unwrap();
    fs::write(folder.join(QEMU), script).unwrap();
    fs::set_permissions(folder.join(QEMU), fs::Permissions::from_mode(0o755)).unwrap();
}

/// A temporary home, whose cache has the kernels of all tests.
struct Laboratory(TempDir);

impl Laboratory {
    /// With the machines that other tests booted: a boot takes longer than most runs. `None`: the test is skipped, which
    /// is reported.
    fn open() -> Option<Laboratory> {
        let laboratory = Laboratory::without_machines()?;
        laboratory.share_machines(fetched().as_ref().ok()?);
        Some(laboratory)
    }

    /// For a test of boots: without any machine.
    fn without_machines() -> Option<Laboratory> {
        if Command::new(QEMU).arg("--version").output().is_err() {
            skip("QEMU: sh scripts/need.sh");
            return None;
        }
        match fetched() {
            Ok(fetched) => {
                let laboratory = Laboratory(tempfile::tempdir().unwrap());
                laboratory.share(".cache/schedlab/kernels", fetched);
                Some(laboratory)
            }
            Err(needs) => {
                skip(needs);
                None
            }
        }
    }

    /// Takes the machines of this home, and saves its own there.
    fn share_machines(&self, home: &Path) {
        self.share(MACHINES, home);
    }

    /// Has this folder of another home.
    fn share(&self, folder: &str, home: &Path) {
        fs::create_dir_all(home.join(folder)).unwrap();
        fs::create_dir_all(self.path(folder).parent().unwrap()).unwrap();
        symlink(home.join(folder), self.path(folder)).unwrap();
    }

    /// With links to the machines that other tests have saved until now: each kernel has booted with one CPU. What changes
    /// here is not theirs.
    fn with_booted() -> Option<Laboratory> {
        static BOOTED: OnceLock<()> = OnceLock::new();
        let other = Laboratory::open()?;
        let load = format!("{BOTH}{WAKES}");
        BOOTED.get_or_init(|| _ = other.measures(&plan(PATIENT, "cpus = 1", &load), &[]));
        let laboratory = Laboratory::without_machines()?;
        fs::create_dir_all(laboratory.path(MACHINES)).unwrap();
        for machine in other.machines() {
            let link = laboratory.path(MACHINES).join(machine.file_name().unwrap());
            symlink(fs::canonicalize(machine).unwrap(), link).unwrap();
        }
        // Tests of other builds have saved machines, too.
        laboratory.shows(&["cache", "rm", "stale"]);
        Some(laboratory)
    }

    fn path(&self, below: &str) -> PathBuf {
        self.0.path().join(below)
    }

    fn guests(&self) -> PathBuf {
        self.path(".local/state/schedlab/lab")
    }

    fn run(&self, plan: &str, more: &[&str]) -> Command {
        fs::write(self.path("plan.toml"), plan).unwrap();
        let words = ["run", "./plan.toml", "--backend", "lab", "--quiet", "--events", "events"];
        _ = fs::remove_file(self.path("events"));
        self.schedlab(&[&words[..], more].concat())
    }

    /// schedlab with this home.
    fn schedlab(&self, words: &[&str]) -> Command {
        let mut command = schedlab(self.0.path(), words);
        command.env("PATH", concat!(env!("CARGO_TARGET_TMPDIR"), "/lab/qemu:/usr/bin:/bin"));
        // All machines of all tests together are more than a user keeps.
        command.env("SCHEDLAB_MACHINES", "16GiB");
        command
    }

    /// The end of each run: the lines of the event file, in order.
    fn ended(&self) -> Vec<String> {
        let events = fs::read_to_string(self.path("events")).unwrap();
        let ended = events.lines().filter(|line| line.contains("\"event\":\"run_ended\""));
        ended.map(str::to_string).collect()
    }

    /// The events of this kind, in order.
    fn events(&self, kind: &str) -> Vec<Value> {
        let events = fs::read_to_string(self.path("events")).unwrap();
        let events = events.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        events.filter(|event| event["event"] == kind).collect()
    }

    fn runs(&self) -> Vec<Value> {
        self.events("run_ended")
    }

    /// Runs a plan that must succeed.
    fn measures(&self, plan: &str, more: &[&str]) -> Output {
        done(self.run(plan, more))
    }

    /// The output of another command of this home.
    fn shows(&self, words: &[&str]) -> String {
        stdout(&self.schedlab(words).output().unwrap())
    }

    /// The clock of the first run's guest.
    fn time(&self) -> Value {
        self.runs()[0]["outcome"]["result"]["guest"]["time"].clone()
    }

    /// The status of each cell, with the reason of a failure.
    fn outcomes(&self) -> Vec<(String, String)> {
        let outcome = |event: &Value| {
            let text = |name: &str| event["outcome"][name].as_str().unwrap_or_default().to_string();
            let cell = event["key"]["cell"].as_u64().unwrap();
            (cell, (text("status"), text("reason")))
        };
        let mut outcomes: Vec<_> = self.runs().iter().map(outcome).collect();
        outcomes.sort();
        outcomes.into_iter().map(|(_, outcome)| outcome).collect()
    }

    /// Lets a script of sh go before each QEMU from now on.
    fn before_qemu(&self, script: &str) {
        fs::write(self.path("before-qemu"), format!("{script}\n")).unwrap();
    }

    /// The PATH of another build of the same version of QEMU.
    fn other_qemu(&self) -> String {
        let folder = self.path("other-qemu");
        write_emulator(&folder, &format!("{EMULATOR}# another build\n"));
        format!("{}:/usr/bin:/bin", folder.display())
    }

    /// The files of saved machines.
    fn machines(&self) -> BTreeSet<PathBuf> {
        let saved = fs::read_dir(self.path(MACHINES)).unwrap().map(|file| file.unwrap().path());
        // Another name is of a file that is being written.
        let is_whole = |path: &PathBuf| !path.to_string_lossy().ends_with(".tmp");
        saved.filter(is_whole).collect()
    }

    /// Results in the cache.
    fn kept(&self) -> usize {
        fs::read_dir(self.path(".cache/schedlab/results")).unwrap().count()
    }

    /// Removes the results in the cache. Returns them by their names.
    fn take_results(&self) -> BTreeMap<String, Vec<u8>> {
        let files = fs::read_dir(self.path(".cache/schedlab/results")).unwrap();
        let taken = files.map(|file| {
            let path = file.unwrap().path();
            let bytes = fs::read(&path).unwrap();
            fs::remove_file(&path).unwrap();
            (path.file_name().unwrap().to_string_lossy().into_owned(), bytes)
        });
        taken.collect()
    }

    /// Starts a run, and waits until it has guests. Also gives their processes.
    fn with_guests(&self, plan: &str) -> (Child, Vec<u32>) {
        let mut command = self.run(plan, &[]);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let guests = wait_for("a guest", || {
            let guests = guests_of(child.id());
            (!guests.is_empty()).then_some(guests)
        });
        (child, guests)
    }
}

/// A text whose lines are wrapped.
fn unwrapped(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Guests among the children of this process's threads.
fn guests_of(pid: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let children = threads
        .map(|thread| fs::read_to_string(thread.path().join("children")).unwrap_or_default())
        .collect::<Vec<_>>()
        .join(" ");
    let children = children.split_whitespace().filter_map(|pid| pid.parse().ok());
    // A QEMU that prints its version is not a guest.
    let is_guest = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains("\0-name\0schedlab-guest")
    };
    children.filter(is_guest).collect()
}

/// Two busy loops on the host's CPUs, until this is dropped.
struct Load([Child; 2]);

impl Load {
    fn begin() -> Load {
        Load([(); 2].map(|()| {
            let mut command = Command::new("timeout");
            command.args([LOAD_SECONDS, "sh", "-c", "while :; do :; done"]);
            command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
        }))
    }

    /// Whether the host was loaded until now.
    fn is_there(&mut self) -> bool {
        self.0.iter_mut().all(|child| child.try_wait().unwrap().is_none())
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // The load may have ended by its limit. It passes the signal on to its shell.
            _ = Command::new("kill").arg(child.id().to_string()).status();
            _ = child.wait();
        }
    }
}

fn plan(measure: &str, lab: &str, rest: &str) -> String {
    format!(
        "schema = 1\n[measure]\nduration = \"100ms\"\nwarmup = \"20ms\"\nwindow = \"50ms\"\n\
         {measure}\n[lab]\nkernel = \"debian:6.1\"\nseeds = 1\n{lab}\n{rest}\n"
    )
}

/// A guest's limits are multiples of it, in CPU time: on a slow host a boot takes a minute.
const PATIENT: &str = "grace = \"300s\"";
const BOTH: &str = "[[variant]]\nname = \"old\"\n\
                    [[variant]]\nname = \"new\"\nkernel = \"debian:6.18\"\n";
/// Its wakeups show the slightest difference in time, and little of it is executed.
const WAKES: &str = "[[workload]]\nuse = \"burnwait\"\nqueue = \"burn 20us, wait 100us\"\n";
const BURSTS: &str = "[[workload]]\nuse = \"spin\"\nwork = \"100us\"\n";
/// Executed: a run takes long enough to be killed.
const SPIN: &str = "[[workload]]\nuse = \"spin\"\n";
/// The machine of QEMU without clocks of its CPUs, with its speed.
const SHARED: &str = "cpus = 2\nclocks = \"shared\"\nspeed = \"1ns\"";

/// A sched_ext scheduler on the newest kernel, and on several CPUs also CFS, each with telemetry.
fn kernels_on(cpus: u32) -> String {
    let cfs = if cpus == 1 { "" } else { "[[variant]]\nname = \"cfs\"\n" };
    let rest = "[[variant]]\nname = \"fifo\"\nkernel = \"debian:6.18\"\nscx = \"fifo\"\n\
                [[workload]]\nuse = \"schbench\"\nthreads = 3\ncache-footprint = \"64KiB\"\n";
    let lab = format!("cpus = {cpus}\nthreads = {}", cpus.min(2));
    let plan = plan(PATIENT, &lab, &format!("{cfs}{rest}"));
    format!("probes = [\"sched\", \"counters\"]\n{plan}")
}

/// All runs done, in exact time.
fn assert_exact(laboratory: &Laboratory, output: &Output) {
    assert_exact_runs(laboratory, output, 2);
}

fn assert_exact_runs(laboratory: &Laboratory, output: &Output, runs: usize) {
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let ended = laboratory.runs();
    assert_eq!(ended.len(), runs, "{ended:?}");
    ended.iter().for_each(assert_exact_run);
}

fn assert_exact_run(event: &Value) {
    assert_eq!(event["outcome"]["status"], "done", "{event}");
    assert_eq!(event["outcome"]["result"]["guest"]["time"], "exact", "{event}");
}

/// Checks that the kernel's events were counted, those of the scheduler by BPF, and none of the CPU, which has no
/// counters.
fn assert_counted(event: &Value) {
    let outcome = &event["outcome"];
    assert!(metric(outcome, 0, "cpus_context_switches") > 0.0, "{event}");
    assert!(metric(outcome, 0, "worker_wakeups") > 0.0, "{event}");
    let metrics = outcome["result"]["sets"][0]["metrics"].as_array().unwrap();
    let cycles = metrics.iter().find(|own| own["name"] == "cpus_cycles").unwrap();
    assert!(cycles["value"]["unknown"].is_string(), "{cycles}");
}

/// Two homes for a machine with `cpus` CPUs. The second one takes what the first one has booted.
struct Twins {
    cpus: u32,
    first: Laboratory,
    second: Laboratory,
}

impl Twins {
    fn open(cpus: u32) -> Option<Twins> {
        let [first, second] = [(); 2].map(|()| Laboratory::without_machines());
        let (first, second) = (first?, second?);
        second.share_machines(first.0.path());
        Some(Twins { cpus, first, second })
    }

    fn run(&self, more: &[&str]) -> Command {
        self.first.run(&kernels_on(self.cpus), more)
    }

    fn runs(&self) -> usize {
        self.cpus.min(2) as usize
    }

    fn assert_exact(&self, laboratory: &Laboratory, output: &Output) {
        assert_exact_runs(laboratory, output, self.runs());
    }

    /// Boots the machines, makes each run, and makes it again from the machines that were saved.
    fn boot(&self) {
        self.assert_exact(&self.first, &self.run(&[]).output().unwrap());
        let booted = self.first.ended();
        self.first.before_qemu(NO_BOOTS);
        self.assert_exact(&self.first, &self.run(&["--again"]).output().unwrap());
        assert_eq!(self.first.ended(), booted, "from saved machines");
    }

    /// The results of the same runs without probes, in another process from the same booted machines.
    fn results_without_probes(&self) -> Vec<String> {
        let plan = kernels_on(self.cpus).replace("probes = [\"sched\", \"counters\"]", "");
        self.assert_exact(&self.second, &self.second.run(&plan, &["--again"]).output().unwrap());
        self.second.ended()
    }

    /// Makes each run twice in another process: from the machines that were saved, and from others that it boots.
    /// Returns the results.
    fn assert_same(&self) -> Vec<String> {
        self.second.before_qemu("case \"$*\" in *' -kernel '*) echo >> \"$HOME/booted\";; esac");
        let verified = self.second.run(&kernels_on(self.cpus), &["--verify"]).output().unwrap();
        self.assert_exact(&self.second, &verified);
        let runs = if self.runs() == 1 { "1 run" } else { "2 runs" };
        let done_twice = format!("verified: {runs}, each done twice");
        assert!(stderr(&verified).contains(&done_twice), "{verified:?}");
        let booted = fs::read_to_string(self.second.path("booted")).unwrap();
        assert_eq!(booted.len(), self.runs(), "one machine of each kernel is a saved one");
        let results = self.first.ended();
        assert_eq!(self.second.ended(), results, "with load and without");
        self.first.runs().iter().for_each(assert_counted);
        results
    }

    /// Without guests, only the cache gives answers, and only for this QEMU.
    fn assert_kept(&self, results: &[String]) {
        self.first.before_qemu(NO_GUESTS);
        self.assert_exact(&self.first, &self.run(&[]).output().unwrap());
        assert_eq!(self.first.ended(), results, "as it was kept");
        for (is_other, more) in [(false, &["--again"][..]), (false, &["--verify"]), (true, &[])] {
            let mut run = self.run(more);
            if is_other {
                run.env("PATH", self.first.other_qemu());
            }
            let output = ended(run, 3);
            let outcomes = self.first.outcomes();
            assert!(outcomes.iter().all(|(_, why)| why.contains("no guest")), "{output:?}");
        }
    }
}

/// Both machines at once: a host is loaded for as short a time as possible, and what comes then from boots and from saved
/// machines is compared with what comes without load.
#[test]
fn one_and_four_cpus_are_the_same_to_the_bit_on_a_loaded_host() {
    let (Some(one), Some(four)) = (Twins::open(1), Twins::open(4)) else { return };
    let mut load = Load::begin();
    let plain = std::thread::scope(|scope| {
        let one = scope.spawn(|| {
            one.boot();
            one.results_without_probes()
        });
        four.boot();
        one.join().unwrap()
    });
    assert!(load.is_there());
    drop(load);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            one.assert_kept(&one.assert_same());
            assert_eq!(one.results_without_probes(), plain, "with load and without");
        });
        four.assert_kept(&four.assert_same());
    });
}

/// The real thing: apt, the mirror, and a package that Debian signed.
#[test]
fn a_kernel_comes_from_the_machines_own_mirror() {
    let home = match fetched() {
        Ok(home) => home,
        Err(needs) => return skip(needs),
    };
    let list = ["kernel", "list", "debian:6.1", "--format", "json"];
    let listed: Value =
        serde_json::from_str(&stdout(&schedlab(home, &list).output().unwrap())).unwrap();
    let kernel = &listed["kernels"][0];
    assert_eq!((&kernel["scheduler"], &kernel["sched_ext"]), (&"CFS".into(), &false.into()));
    assert!(kernel["release"].as_str().unwrap().ends_with("-cloud-amd64"), "{kernel}");
    assert!(kernel["size_bytes"].as_u64().unwrap() > 5_000_000, "{kernel}");
    assert!(kernel["modules"].is_string(), "virtio is a module in 6.1: {kernel}");
}

#[test]
fn a_machine_without_qemu_gets_a_hint() {
    let home = tempfile::tempdir().unwrap();
    let mut command = schedlab(home.path(), &["run", "smoke", "--backend", "lab"]);
    let output = ended(command.env("PATH", home.path()), 3);
    let message = stderr(&output);
    assert!(message.contains("qemu-system-x86_64 cannot be started"), "{message}");
    assert!(message.contains("hint: install it: apt-get install qemu-system-x86"), "{message}");
}

#[test]
fn a_plan_without_its_kernels_fails_before_anything_runs() {
    if Command::new(QEMU).arg("--version").output().is_err() {
        return skip("QEMU: sh scripts/need.sh");
    }
    let home = tempfile::tempdir().unwrap();
    for more in [&["--dry-run"][..], &[]] {
        let arguments = [&["run", "lab-quick", "--backend", "lab"], more].concat();
        let output = ended(schedlab(home.path(), &arguments), 3);
        assert_eq!(stdout(&output), "", "no table and no report");
        let message = stderr(&output);
        let hint = "hint: schedlab kernel get debian:6.1 debian:6.12\n";
        assert!(message.ends_with(hint), "{message}");
    }
    assert!(!home.path().join(".local/share/schedlab").exists(), "nothing is stored");
}

#[test]
fn a_kernel_that_is_missing_costs_its_own_runs_only() {
    let Some(laboratory) = Laboratory::open() else { return };
    let rest = "[[variant]]\nname = \"here\"\n\
                [[variant]]\nname = \"missing\"\nkernel = \"debian:6.2\"\n";
    let plan = plan(PATIENT, "cpus = 1", &format!("{rest}{WAKES}"));
    let output = laboratory.measures(&plan, &["--dry-run"]);
    let text = unwrapped(&stdout(&output));
    assert!(text.contains("1 run (1 seed), ") && text.contains("kernel get debian:6.2"), "{text}");
    // A budget that nobody gave.
    let until = plan.replace("[measure]", "[measure]\nuntil-decided = true");
    for (plan, more) in [(&plan, &["--dry-run", "--until-decided"][..]), (&until, &["--dry-run"])] {
        let output = laboratory.run(plan, more).output().unwrap();
        let text = unwrapped(&stdout(&output));
        assert!(text.contains("or what the budget of 2min has time for"), "{text} {output:?}");
    }
    let fixed = laboratory.measures(&until, &["--dry-run", "--rounds", "40"]);
    assert!(!unwrapped(&stdout(&fixed)).contains("budget"), "{fixed:?}");
}

#[test]
fn a_file_that_cannot_be_read_is_said_before_anything_runs() {
    let Some(laboratory) = Laboratory::open() else { return };
    let load =
        "[[workload]]\nuse = \"command\"\ncommand = [\"true\"]\nfiles = [\"/no/such/file\"]\n";
    for more in [&["--dry-run"][..], &[]] {
        let output = ended(laboratory.run(&plan(PATIENT, "cpus = 1", load), more), 2);
        let said = stdout(&output) + &stderr(&output);
        assert!(said.contains("cannot read /no/such/file: No such file"), "{said}");
        assert!(!said.contains("--resume"), "{said}");
    }
    assert!(!laboratory.path(".local/share/schedlab").exists(), "nothing is stored");
}

/// A guest failed with these words in its reason, and its whole console is kept.
fn assert_kept(laboratory: &Laboratory, outcome: &(String, String), words: &[&str]) {
    let (status, reason) = outcome;
    assert_eq!(status, "failed", "{reason}");
    for word in words {
        assert!(reason.contains(word), "{word}: {reason}");
    }
    let path = reason.rsplit_once("all of it: ").expect(reason).1;
    assert!(Path::new(path).starts_with(laboratory.guests().join("failed")), "{reason}");
    assert!(!fs::read_to_string(path).unwrap().is_empty(), "{reason}");
}

#[test]
fn guests_that_fail_report_why_and_the_others_run() {
    let Some(laboratory) = Laboratory::open() else { return };
    let rest = "[[variant]]\nname = \"sound\"\n\
                [[variant]]\nname = \"panics\"\nkernel-args = \"rdinit=/nonesuch\"\n\
                [[variant]]\nname = \"other\"\nkernel-args = \"nr_cpus=1\"\n\
                [[variant]]\nname = \"no-scx\"\nscx = \"fifo\"\n";
    let plan = plan(PATIENT, "cpus = 2", &format!("{rest}{WAKES}"));
    let said = stderr(&ended(laboratory.run(&plan, &[]), 3));
    assert!(said.contains("/ panics: each run failed: the guest's kernel gave up"), "{said}");
    let outcomes = laboratory.outcomes();
    let [sound, panics, other, no_scx] = &outcomes[..] else { panic!("{outcomes:?}") };
    assert_eq!(sound.0, "done", "{sound:?}");
    let gave_up = "the guest's kernel gave up: Kernel panic - not syncing: VFS: Unable to mount";
    assert_kept(&laboratory, panics, &[gave_up, "; the end of its console: ["]);
    assert_eq!(other.0, "failed", "{other:?}");
    assert_eq!(other.1, "the guest's CPUs are 0, asked for 0-1");
    assert_eq!(no_scx.0, "skipped", "{no_scx:?}");
    assert!(no_scx.1.contains("`scx` needs CONFIG_SCHED_CLASS_EXT"), "{no_scx:?}");
}

#[test]
fn a_qemu_that_was_not_kept_in_step_is_not_called_exact() {
    let (boots, runs) = (Laboratory::without_machines(), Laboratory::open());
    let (Some(boots), Some(runs)) = (boots, runs) else { return };
    let why = "QEMU was not kept in step: no thread of virtual CPUs was found";
    let time = serde_json::json!({ "not_exact": why });
    for (guest, laboratory) in [("-kernel", boots), ("-incoming", runs)] {
        let script = format!("case \"$*\" in *' {guest} '*) unset LD_PRELOAD;; esac");
        laboratory.before_qemu(&script);
        // Without the library the CPUs share one clock and have another speed.
        laboratory.measures(&plan(PATIENT, SHARED, WAKES), &[]);
        assert_eq!(laboratory.time(), time, "{guest}");
        let report = laboratory.shows(&["report", "last"]);
        assert!(report.contains("NOT exact"), "{report}");
        assert_eq!(laboratory.kept(), 0, "it may be otherwise next time");
    }
}

#[test]
fn a_machine_that_differs_when_it_is_booted_again_is_found_by_verify() {
    let Some(laboratory) = Laboratory::with_booted() else { return };
    // Each boot from now on has coarse timers, which every boot shows. A mere difference in time may by chance
    // become quiet at the same tick.
    laboratory.before_qemu(
        "case \"$*\" in *' -kernel '*) for each; do shift\n\
         case \"$each\" in *rdinit=*) each=\"$each highres=off\";; esac\n\
         set -- \"$@\" \"$each\"; done;; esac",
    );
    ended(laboratory.run(&plan(PATIENT, "cpus = 1", WAKES), &["--verify"]), 3);
    let (status, why) = &laboratory.outcomes()[0];
    assert_eq!(status, "failed");
    assert!(why.starts_with("not exact: two boots differ: "), "{why}");
    assert_eq!(laboratory.kept(), 0);
}

/// A plan with probes that the saved machines have not loaded.
fn with_new_probes() -> String {
    let plan = plan(PATIENT, "cpus = 1", WAKES);
    format!("probes = [\"counters\"]\n{plan}")
}

#[test]
fn a_machine_is_booted_once_for_all_plans() {
    let Some(laboratory) = Laboratory::with_booted() else { return };
    let booted = laboratory.machines();
    let plan = with_new_probes().replace("seeds = 1", "seeds = 3");
    let counted = "case \"$*\" in *' -incoming '*) echo >> \"$HOME/copied\";; esac";
    laboratory.before_qemu(&format!("{NO_BOOTS}\n{counted}"));
    let run = || laboratory.run(&plan, &["--again"]);
    done(run());
    let started = fs::read_to_string(laboratory.path("copied")).unwrap();
    assert_eq!(
        started, "\n\n",
        "one QEMU loads the probes, another makes the copies for all three runs"
    );
    let first = laboratory.ended();
    // This build takes it, and says what it is of.
    let listed = laboratory.shows(&["cache"]);
    assert!(listed.contains(" MiB ") && !listed.contains("stale"), "{listed}");
    let gives_the_same = || {
        done(run());
        assert_eq!(laboratory.ended(), first);
    };
    gives_the_same();
    // A truncated machine is not used. One that loads its probes again needs no boot.
    let machines = laboratory.machines();
    let [loaded] = machines.difference(&booted).collect::<Vec<_>>()[..] else {
        panic!("{machines:?} {booted:?}")
    };
    // Without its holes.
    let bytes = || fs::metadata(loaded).unwrap().blocks() * 512;
    let whole_bytes = bytes();
    let truncate = |machine: &PathBuf| {
        let whole = fs::read(machine).unwrap();
        // It may be a link to the file of other tests.
        fs::remove_file(machine).unwrap();
        fs::write(machine, &whole[..whole.len() / 2]).unwrap();
    };
    truncate(loaded);
    let words = ["run", "./plan.toml", "--backend", "lab", "--again"];
    let said = unwrapped(&stderr(&done(laboratory.schedlab(&words))));
    assert!(said.contains(" is damaged, and is made again"), "{said}");
    truncate(loaded);
    gives_the_same();
    let saved_bytes = bytes();
    assert!(saved_bytes > whole_bytes * 9 / 10, "saved again: {saved_bytes}");
    machines.iter().for_each(truncate);
    ended(run(), 3);
    assert!(laboratory.outcomes()[0].1.contains("no boot"), "{:?}", laboratory.outcomes());
}

#[test]
fn a_machine_that_cannot_be_saved_is_made_each_time() {
    let Some(laboratory) = Laboratory::with_booted() else { return };
    // The new file system has the machine that has booted, and no room for another one.
    let machines = laboratory.path(MACHINES);
    let links = laboratory.path("links");
    fs::rename(&machines, &links).unwrap();
    fs::create_dir(&machines).unwrap();
    let fill = format!("cp -P -t '{}' '{}'/*", machines.display(), links.display());
    laboratory.before_qemu(NO_BOOTS);
    fs::write(laboratory.path("plan.toml"), with_new_probes()).unwrap();
    let run =
        laboratory.schedlab(&["run", "./plan.toml", "--backend", "lab", "--events", "events"]);
    let Some(output) = run_confined(run, &machines, "size=256k", &fill) else {
        return skip("privilege to mount a file system");
    };
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let said = unwrapped(&stderr(&output));
    assert_eq!(said.matches("the booted machine is not kept").count(), 1, "{said}");
    assert!(
        said.contains("No space left on device") && said.contains("; hint: make room"),
        "{said}"
    );
    assert_eq!(laboratory.outcomes()[0].0, "done");
}

#[test]
fn a_machine_that_somebody_writes_to_while_it_is_used_gives_no_results() {
    let Some(laboratory) = Laboratory::with_booted() else { return };
    for machine in laboratory.machines() {
        let bytes = fs::read(&machine).unwrap();
        // It may be a link to the file of other tests.
        fs::remove_file(&machine).unwrap();
        fs::write(&machine, bytes).unwrap();
    }
    laboratory.before_qemu(
        "case \"$*\" in *' -incoming '*) [ -e \"$HOME/wrote\" ] || { : >\"$HOME/wrote\"\n\
         for each in \"$HOME\"/.cache/schedlab/machines/*; do\n\
         printf x | dd of=\"$each\" bs=1 seek=100000 conv=notrunc 2>/dev/null; done; };; esac",
    );
    fs::write(laboratory.path("plan.toml"), plan(PATIENT, "cpus = 1", WAKES)).unwrap();
    let words = ["run", "./plan.toml", "--backend", "lab", "--events", "events"];
    let said = unwrapped(&stderr(&done(laboratory.schedlab(&words))));
    assert!(said.contains(" changed while it was used; the run is made again"), "{said}");
    let ended = laboratory.ended();
    laboratory.measures(&plan(PATIENT, "cpus = 1", WAKES), &["--again"]);
    assert_eq!(laboratory.ended(), ended);
}

/// Notes each new time of day that a virtual CPU's thread reads: the library of the lab answers it.
const NOTES_TIMES: &str = r#"
    #define _GNU_SOURCE
    #include <dlfcn.h>
    #include <fcntl.h>
    #include <stdlib.h>
    #include <sys/time.h>
    #include <unistd.h>
    int gettimeofday(struct timeval *restrict time, void *restrict zone)
    {
        static __thread struct timeval last;
        int (*call)(struct timeval *, void *) = dlsym(RTLD_NEXT, "gettimeofday");
        int failed = call(time, zone);
        if (time->tv_sec >= 4000000000 && timercmp(time, &last, !=)) {
            int file = open(getenv("TIMES"), O_WRONLY | O_APPEND | O_CREAT, 0600);
            if (write(file, time, sizeof *time) != sizeof *time)
                abort();
            close(file);
            last = *time;
        }
        return failed;
    }"#;

#[test]
fn the_time_of_day_in_a_guests_qemu_moves_with_its_instructions() {
    let Some(laboratory) = Laboratory::with_booted() else { return };
    fs::write(laboratory.path("notes.c"), NOTES_TIMES).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-o"]);
    compiler.args(["notes.so", "notes.c"].map(|name| laboratory.path(name)));
    assert!(compiler.status().unwrap().success());
    laboratory.before_qemu(
        "export TIMES=\"$HOME/times\" LD_PRELOAD=\"$HOME/notes.so${LD_PRELOAD:+:$LD_PRELOAD}\"",
    );
    laboratory.measures(&plan(PATIENT, "cpus = 1", WAKES), &["--again"]);
    assert_eq!(laboratory.time(), "exact");
    let times = fs::read(laboratory.path("times")).unwrap();
    assert!(times.len() > 2 * 16, "it stands still: {times:?}");
}

#[test]
fn a_machine_larger_than_the_limit_is_made_each_time_and_a_plan_says_so() {
    let Some(laboratory) = Laboratory::with_booted() else { return };
    laboratory.before_qemu(NO_BOOTS);
    fs::write(laboratory.path("plan.toml"), with_new_probes()).unwrap();
    let words = ["run", "./plan.toml", "--backend", "lab", "--events", "events"];
    let mut run = laboratory.schedlab(&words);
    let output = ended(run.env("SCHEDLAB_MACHINES", "1MiB"), 0);
    let said = unwrapped(&stderr(&output));
    let limit = "all machines together at most 1.0 MiB; hint: SCHEDLAB_MACHINES=";
    assert_eq!(said.matches(limit).count(), 1, "{said}");
    assert_eq!(laboratory.outcomes()[0].0, "done");
    assert_eq!(laboratory.machines().len(), 1, "the one that was used");
    // With 0 none is taken, either.
    fs::remove_file(laboratory.path("events")).unwrap();
    run.arg("--again");
    let output = ended(run.env("SCHEDLAB_MACHINES", "0"), 3);
    assert!(laboratory.outcomes()[0].1.contains("no boot"), "{:?}", laboratory.outcomes());
    assert!(!stderr(&output).contains("is not kept"), "{}", stderr(&output));
    let refused = ended(run.env("SCHEDLAB_MACHINES", "much"), 2);
    let said = stderr(&refused);
    assert!(said.contains("SCHEDLAB_MACHINES: `much` does not begin with a number"), "{said}");
}

#[test]
fn real_time_is_reported_and_nothing_of_it_is_kept() {
    let Some(laboratory) = Laboratory::open() else { return };
    let output =
        laboratory.run(&plan(PATIENT, "cpus = 1", WAKES), &["--realtime"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(laboratory.time(), "real");
    let report = laboratory.shows(&["report", "last"]);
    assert!(report.contains("real time"), "{report}");
    assert_eq!(laboratory.kept(), 0);
}

#[test]
fn seeds_are_added_until_all_is_decided() {
    let Some(laboratory) = Laboratory::open() else { return };
    // Two variants that do the same have equal trajectories; the first look is after ten.
    let variants = "[[variant]]\nname = \"one\"\n[[variant]]\nname = \"other\"\nnice = 0\n";
    let until = format!("{PATIENT}\nuntil-decided = true\nbudget = \"1h\"");
    let until = plan(&until, "cpus = 1", &format!("{variants}{WAKES}"));
    // QEMU takes longer than the budget to start, but all of the plan's seeds must be run.
    laboratory.before_qemu("case \"$*\" in *' -incoming '*) sleep 1;; esac");
    let owed = until.replace("1h", "1s").replace("seeds = 1", "seeds = 3");
    laboratory.measures(&owed, &[]);
    laboratory.before_qemu("");
    assert_eq!(laboratory.ended().len(), 6);
    let report = unwrapped(&laboratory.shows(&["report", "last"]));
    assert!(report.contains("ended by its budget of 1s"), "{report}");
    laboratory.measures(&until, &[]);
    let runs = laboratory.runs();
    assert_eq!(runs.len(), 20, "ten seeds of two variants");
    let began_ns =
        runs.iter().map(|run| run["outcome"]["result"]["started_unix_ns"].as_u64().unwrap());
    let (first_ns, last_ns) = (began_ns.clone().min().unwrap(), began_ns.max().unwrap());
    assert!(
        last_ns - first_ns > 30_000_000,
        "a start is shifted by 20 ms, and each seed shuffles the machine"
    );
    let kept = laboratory.kept();
    laboratory.measures(&until, &[]);
    assert_eq!((laboratory.ended().len(), laboratory.kept()), (20, kept), "from the cache");
    // Fixed beforehand.
    laboratory.measures(&until, &["--rounds", "2"]);
    assert_eq!(laboratory.ended().len(), 4);
}

/// The throughput of each worker set of a plan's only run.
fn throughputs(laboratory: &Laboratory, plan: &str) -> Vec<f64> {
    laboratory.measures(plan, &[]);
    assert_eq!(laboratory.time(), "exact");
    let event = laboratory.runs().remove(0);
    let sets = event["outcome"]["result"]["sets"].as_array().unwrap().len();
    (0..sets).map(|set| metric(&event["outcome"], set, "throughput")).collect()
}

#[test]
fn each_busy_cpu_has_its_full_speed() {
    let Some(laboratory) = Laboratory::open() else { return };
    let ops = |lab: &str, count: u32| {
        let spin = format!("[[workload]]\nuse = \"spin\"\ncount = {count}\n");
        throughputs(&laboratory, &plan(PATIENT, lab, &spin))[0]
    };
    let own = "cpus = 2";
    let alone = ops(own, 1);
    let ratio = ops(own, 2) / alone;
    // The agent's own work on one CPU counts in a short run.
    assert!((ratio - 2.0).abs() < 0.02, "{ratio}");
    let ratio = ops(SHARED, 2) / alone;
    assert!((ratio - 0.5).abs() < 0.02, "two share what takes twice as long: {ratio}");
}

#[test]
fn where_cpus_cannot_have_clocks_of_their_own_they_share_one_and_reports_say_so() {
    let Some(laboratory) = Laboratory::open() else { return };
    laboratory.before_qemu("export SCHEDLAB_CLOCKS=none");
    let output = laboratory.measures(&plan(PATIENT, "cpus = 2", WAKES), &[]);
    let warning = "all virtual CPUs share one clock, at 1 ns an instruction: this QEMU has no";
    assert!(stderr(&output).contains(warning), "{}", stderr(&output));
    assert_eq!(laboratory.time(), "exact");
    let report = laboratory.shows(&["report", "last"]).replace('\n', " ");
    assert!(report.contains("one clock for all CPUs, 1 ns an instruction"), "{report}");
}

/// Two sets burn and one mostly sleeps, on one CPU.
#[test]
fn work_that_is_skipped_gives_what_executed_work_gives() {
    let Some(laboratory) = Laboratory::open() else { return };
    let set = |name: &str, queue: &str, nice: u32| {
        format!(
            "[[workload.set]]\nname = \"{name}\"\nuse = \"burnwait\"\nqueue = \"{queue}\"\n\
             knobs = {{ nice = {nice} }}\n"
        )
    };
    let sets = [
        "[[workload]]\nname = \"mix\"\n".to_string(),
        set("first", "burn 1ms, wait 0ns", 0),
        set("second", "burn 100us, wait 0ns", 5),
        set("sleeper", "burn 20us, wait 1ms", 0),
    ];
    let of = |burn: &str| {
        let lab = format!("cpus = 1\nburn = \"{burn}\"");
        // In 1 s, one worker's turn is a small part.
        throughputs(&laboratory, &plan(PATIENT, &lab, &sets.concat()).replace("100ms", "1s"))
    };
    let (skipped, executed) = (of("skipped"), of("executed"));
    for (skipped, executed) in skipped.iter().zip(&executed) {
        assert!((skipped / executed - 1.0).abs() < 0.03, "{skipped} us/s, {executed} executed");
    }
    let share = skipped[0] / (skipped[0] + skipped[1]);
    // The share follows from the kernel's weights of nice 0 and 5.
    assert!((share - 1024.0 / (1024.0 + 335.0)).abs() < 0.03, "{share}");
}

#[test]
fn a_machine_that_cannot_be_read_is_an_error_with_a_hint() {
    let home = tempfile::tempdir().unwrap();
    let lab = "machine = \"machine.toml\"\n";
    fs::write(home.path().join("plan.toml"), plan("", lab, WAKES)).unwrap();
    let cases = [
        (None, "machine.toml cannot be read: No such file"),
        (Some("version = 7\n"), "version 7; this schedlab reads version 1"),
        (Some("version = 1\nspeed = 3\n"), "unknown field `speed`"),
    ];
    for (text, says) in cases {
        if let Some(text) = text {
            fs::write(home.path().join("machine.toml"), text).unwrap();
        }
        let run = ["run", "./plan.toml", "--backend", "lab"];
        let output = ended(schedlab(home.path(), &run), 2);
        let message = stderr(&output);
        assert!(message.contains(says) && message.contains("hint: "), "{message}");
        assert!(message.contains("schedlab twin -o "), "{message}");
        // `--machine` is refused in the same way, whether or not the plan names a machine.
        let run = ["run", "smoke", "--backend", "lab", "--machine", "machine.toml"];
        let output = ended(schedlab(home.path(), &run), 2);
        assert!(stderr(&output).contains(says), "{output:?}");
    }
}

/// The costs of `[lab.model]` show in a plan's figures, which stay exact.
struct Model {
    laboratory: Laboratory,
    lab: &'static str,
    /// The workloads of the plan.
    load: &'static str,
    metric: &'static str,
}

impl Model {
    fn plan(&self, keys: &str) -> String {
        let lab = format!("kernel = \"debian:6.18\"\n{}\n[lab.model]\n{keys}", self.lab);
        let plan = plan(PATIENT, &lab, self.load).replacen("kernel = \"debian:6.1\"\n", "", 1);
        plan.replace("100ms", "400ms")
    }

    /// The metric of the first worker set where the model has these keys.
    fn with(&self, keys: &str) -> f64 {
        self.laboratory.measures(&self.plan(keys), &[]);
        assert_eq!(self.laboratory.time(), "exact");
        metric(&self.laboratory.runs()[0]["outcome"], 0, self.metric)
    }
}

#[test]
fn an_idle_cpu_and_a_timer_take_the_time_of_the_model() {
    let Some(laboratory) = Laboratory::open() else { return };
    let load = "[[workload]]\nuse = \"burnwait\"\nqueue = \"burn 20us, wait 1ms\"\n";
    let model = Model { laboratory, lab: "cpus = 1", load, metric: "wakeup_p50" };
    let off = model.with("timer-slack = \"1ns\"");
    // Delays belong to runs.
    model.laboratory.before_qemu(NO_BOOTS);
    let exit = model.with("timer-slack = \"1ns\"\nidle-exit = \"30us\"") - off;
    assert!((29_000.0..31_000.0).contains(&exit), "{exit} ns");
    for (below, expected) in [("900us", 30_000.0), ("1100us", 5_000.0)] {
        let keys =
            format!("idle-exit = \"30us\"\nidle-exit-short = \"5us\"\nidle-short = \"{below}\"");
        let exit = model.with(&format!("timer-slack = \"1ns\"\n{keys}")) - off;
        assert!((exit - expected).abs() < 1000.0, "idle for less than {below}: {exit} ns");
    }
    let slack = model.with("timer-slack = \"40us\"") - off;
    assert!((30_000.0..41_000.0).contains(&slack), "{slack} ns");
}

/// A worker on one CPU is woken by a message thread on another one.
#[test]
fn an_interrupt_takes_the_time_of_the_model_by_distance() {
    let Some(laboratory) = Laboratory::open() else { return };
    let load = "[[workload]]\nuse = \"schbench\"\nthreads = 1\nrequest = \"200us\"\n\
                message-cpus = \"0\"\nworker-cpus = \"1\"\n";
    let mut model = Model { laboratory, lab: "cpus = 2", load, metric: "wakeup_p50" };
    let off = model.with("ipi-near = \"off\"");
    let near = model.with("ipi-near = \"20us\"") - off;
    assert!((19_000.0..21_000.0).contains(&near), "{near} ns");
    let other = model.with("ipi-far = \"20us\"");
    assert_eq!(other, off, "no CPU is far");
    model.lab = "cpus = 2\nsockets = 2";
    let off = model.with("ipi-near = \"20us\"\nipi-far = \"off\"");
    let far = model.with("ipi-near = \"20us\"\nipi-far = \"30us\"") - off;
    assert!((28_500.0..31_500.0).contains(&far), "{far} ns");
}

/// Three workers on two CPUs move between them.
#[test]
fn a_migration_to_another_cache_takes_the_time_of_the_model() {
    let Some(laboratory) = Laboratory::open() else { return };
    let load = "[[workload]]\nuse = \"spin\"\nwork = \"100us\"\ncount = 3\n";
    let mut model = Model { laboratory, lab: "cpus = 2\nsockets = 2", load, metric: "throughput" };
    let ratio = |model: &Model| {
        model.with("migration-cost = \"5ms\"") / model.with("migration-cost = \"off\"")
    };
    let far = ratio(&model);
    assert!(far < 0.99, "{far}");
    model.lab = "cpus = 2";
    // Other settings of the plan move the workers a little.
    let near = ratio(&model);
    assert!((0.995..1.005).contains(&near), "one cache: {near}");
}

/// Weights of 100, 200 and 400; two sets with 100 and 300 share the part of the last cgroup.
#[test]
fn cgroups_of_sets_have_their_weights() {
    let Some(laboratory) = Laboratory::open() else { return };
    let cgroups = "[cgroup]\na.weight = 100\nb.weight = 200\nc.weight = 400\n\
                   c.x.weight = 100\nc.y.weight = 300\n[[workload]]\nname = \"tree\"\n";
    let set = |name: &str, cgroup: &str, count: u32| {
        format!(
            "[[workload.set]]\nuse = \"spin\"\nwork = \"100us\"\nname = \"{name}\"\n\
             cgroup = \"{cgroup}\"\ncount = {count}\n"
        )
    };
    let sets = [("a", "a", 1), ("b", "b", 2), ("x", "c/x", 1), ("y", "c/y", 1)];
    let sets: String = sets.iter().map(|(name, cgroup, count)| set(name, cgroup, *count)).collect();
    let plan = plan(PATIENT, "cpus = 1", &format!("{cgroups}{sets}"));
    // Ten rounds of some 30 ms among all of them.
    let plan = plan.replace("duration = \"100ms\"", "duration = \"2s\"");
    let shares = throughputs(&laboratory, &plan);
    let all: f64 = shares.iter().sum();
    for (share, weight) in shares.iter().zip([1.0, 2.0, 1.0, 3.0]) {
        let ratio = share / all * 7.0 / weight;
        assert!((0.98..1.02).contains(&ratio), "{shares:?}");
    }
}

/// The cell of each window in the order of cells, and the share of a CPU of each worker that is there.
fn window_shares(laboratory: &Laboratory) -> Vec<(u64, Vec<f64>)> {
    let shares = |event: &Value| {
        let number = |worker: &Value, name: &str| worker[name].as_f64().unwrap();
        let workers = event["window"]["workers"].as_array().unwrap().iter();
        let there = workers.filter(|worker| number(worker, "wall_ns") > 0.0);
        let workers: Vec<&Value> = there.collect();
        // One that comes right before the window ends has hardly a part of it.
        let wall_ns = workers.iter().map(|worker| number(worker, "wall_ns")).fold(0.0, f64::max);
        workers.into_iter().map(|worker| number(worker, "cpu_ns") / wall_ns).collect()
    };
    let windows = laboratory.events("window").into_iter();
    let windows = windows.map(|event| (event["key"]["cell"].as_u64().unwrap(), shares(&event)));
    let mut windows: Vec<(u64, Vec<f64>)> = windows.collect();
    windows.sort_by_key(|(cell, _)| *cell);
    windows
}

/// The cgroups and works of the test below: two busy sets, of which the second changes after two seconds. The last one
/// moves itself.
fn changing_works() -> String {
    let cgroups = "[cgroup.low]\nweight = 25\n[cgroup.fixed]\ncpus = \"0\"\nweight = 300\n\
                   [cgroup.changed]\ncpus = \"0\"\nweight = 300\n\
                   [[cgroup.changed.change]]\nat = \"2s\"\nweight = 100\n\
                   [cgroup.moved]\ncpus = \"0\"\n\
                   [[cgroup.moved.change]]\nat = \"2s\"\ncpus = \"1\"\n";
    let set = |name: &str, of: &str| {
        format!("[[workload.set]]\nname = \"{name}\"\nuse = \"spin\"\nwork = \"100us\"\n{of}\n")
    };
    let on_0 = "knobs = { affinity = \"0\" }";
    let fixed = "cgroup = \"fixed\"";
    let works = [
        ("nice", on_0, on_0, "knobs = { nice = 5 }"),
        ("affinity", on_0, on_0, "knobs = { affinity = \"1\" }"),
        ("weight", fixed, "cgroup = \"changed\"", ""),
        ("move", fixed, on_0, fixed),
        ("cpus", on_0, "cgroup = \"moved\"", ""),
        ("count", on_0, on_0, "count = 3"),
        ("off", "", "", ""),
    ];
    let mover = "[[workload]]\nname = \"steps\"\n[[workload.set]]\nname = \"mover\"\nuse = \"steps\"\n\
                 steps = [\"cgroup low\", \"spin 2s\", \"cgroup /\", \"spin 2s\"]\n";
    let mover = format!("{mover}{on_0}\n{}", set("b", on_0));
    let work = |(name, first, second, change): (&str, &str, &str, &str)| {
        let (first, second) = (set("a", first), set("b", second));
        let head = "[[workload.set.change]]\nat = \"2s\"\n";
        let change = if change.is_empty() { String::new() } else { format!("{head}{change}\n") };
        let off = "[[workload.offline]]\nat = \"2s\"\ncpus = \"1\"\n";
        let off = if name == "off" { off } else { "" };
        format!("[[workload]]\nname = \"{name}\"\n{off}{first}{second}{change}")
    };
    format!("{cgroups}{}{mover}", works.map(work).concat())
}

/// Shares in the two seconds before the changes and in the two after them, by the weights: of nice 0 and 5 1024 and
/// 335, of cgroups those of the plan.
#[test]
fn changes_in_mid_run_are_made_at_their_moment() {
    let Some(laboratory) = Laboratory::open() else { return };
    let plan = plan(PATIENT, "cpus = 2", &changing_works()).replace("\"20ms\"", "\"0s\"");
    let plan = plan.replace("\"100ms\"", "\"4s\"").replace("\"50ms\"", "\"2s\"");
    let (alone, even) = ([1.0, 1.0], [0.5, 0.5]);
    let expected: [[&[f64]; 2]; 8] = [
        [&even, &[1024.0 / 1359.0, 335.0 / 1359.0]],
        [&even, &alone],
        [&even, &[0.75, 0.25]],
        // Before, a task next to a cgroup of weight 300; after, two tasks in it.
        [&[0.75, 0.25], &even],
        [&even, &alone],
        // The third and the fourth come at the change.
        [&[0.5, 0.5, 0.0, 0.0], &[0.25; 4]],
        [&alone, &even],
        // A cgroup whose weight is a quarter of a task's, and that of the run.
        [&[0.2, 0.8], &even],
    ];
    let output = laboratory.run(&plan, &[]).output().unwrap();
    assert_exact_runs(&laboratory, &output, expected.len());
    let windows = window_shares(&laboratory);
    assert_eq!(windows.len(), 2 * expected.len());
    for ((_, shares), expected) in windows.iter().zip(expected.iter().flatten()) {
        let is_near = |(share, of): (&f64, &f64)| (share - of).abs() <= (0.02 * of).max(1e-4);
        assert_eq!(shares.len(), expected.len(), "{windows:?}");
        assert!(shares.iter().zip(*expected).all(is_near), "{windows:?}");
    }
    let with_changes = |event: &Value| event["key"]["cell"] != 7;
    for event in laboratory.runs().into_iter().filter(with_changes) {
        let knobs = event["outcome"]["result"]["knobs"].as_array().unwrap();
        let made = knobs.iter().find(|knob| knob["knob"] == "change at 2s").expect("a change");
        let made_ns = made["got"]["known"]["duration_ns"].as_u64().unwrap();
        // A thread that moves to another cgroup waits for a grace period of RCU, and a CPU that goes for several.
        let is_slow = [3, 6].contains(&event["key"]["cell"].as_u64().unwrap());
        let limit_ns = if is_slow { 50_000_000 } else { 200_000 };
        assert!((2_000_000_000..2_000_000_000 + limit_ns).contains(&made_ns), "{made_ns}");
    }
}

/// Two guests on one CPU, of which the second has twice the weight, in one boot of Xen for both schedulers.
#[test]
fn guests_of_xen_have_their_weights() {
    let Some(laboratory) = Laboratory::open() else { return };
    let set = |name: &str, weight: u32| {
        format!(
            "[[workload.set]]\nname = \"{name}\"\nuse = \"spin\"\nwork = \"100us\"\nworkers = \"guests\"\n\
             knobs = {{ xen-weight = {weight}, guest-memory = \"384MiB\" }}\n"
        )
    };
    let variant = |name: &str, more: &str| {
        format!("[[variant]]\nname = \"{name}\"\nxen-scheduler = \"{name}\"\n{more}")
    };
    let rest = format!(
        "{}{}[[workload]]\nname = \"shares\"\n{}{}",
        variant("credit", "xen-timeslice = \"30ms\"\nxen-ratelimit = \"2ms\"\n"),
        variant("credit2", "xen-ratelimit = \"700us\"\n"),
        set("light", 256),
        set("heavy", 512)
    );
    let lab = "cpus = 2\nmemory = \"2GiB\"\n";
    let plan = plan(PATIENT, lab, &rest).replace("debian:6.1\"", "xen:4.17\"");
    let plan = plan.replace("duration = \"100ms\"", "duration = \"6s\"");
    // No other test has this machine, so QEMU is there without a script.
    let run = |more: &[&str]| {
        let output = laboratory.run(&plan, more).env("PATH", "/usr/bin:/bin").output().unwrap();
        assert_exact(&laboratory, &output);
        laboratory.ended()
    };
    let first = run(&[]);
    // Another process, from the saved machine and from one that is booted again; in a fork and in a QEMU of its own.
    assert_eq!(run(&["--verify"]), first);
    for event in laboratory.runs() {
        let result = &event["outcome"]["result"];
        let scheduler = result["guest"]["kernel"]["scheduler"]["known"].as_str().unwrap();
        assert!(scheduler.starts_with("Xen 4.17 with guests of 6.1."), "{event}");
        assert_eq!(result["pool_cpus"], "1", "{event}");
        let cpu_ns = |set: usize| result["sets"][set]["workers"][0]["cpu_ns"].as_f64().unwrap();
        let (light, heavy) = (cpu_ns(0), cpu_ns(1));
        assert!((1.94..2.06).contains(&(heavy / light)), "{light} {heavy}");
        // One CPU, and nothing else on it.
        assert!((0.99..1.01).contains(&((light + heavy) / 6e9)), "{light} {heavy}");
        let ops = |set: usize| metric(&event["outcome"], set, "throughput");
        assert!((1.94..2.06).contains(&(ops(1) / ops(0))), "by what they did: {event}");
        let all = (ops(0) + ops(1)) / 10_000.0;
        assert!((0.97..1.001).contains(&all), "no more than one CPU can do: {event}");
        for set in 0..2 {
            let ready = metric(&event["outcome"], set, "ready");
            let waited = 1.0 - cpu_ns(set) / 6e9;
            assert!((0.97..1.02).contains(&(ready / waited)), "{ready} of {waited}");
        }
        let knobs = result["knobs"].as_array().unwrap();
        let heavy = knobs.iter().find(|knob| knob["knob"] == "heavy: xen-weight").unwrap();
        assert_eq!(heavy["got"]["known"]["int"], 512, "{knobs:?}");
        let parameters = knobs.iter().filter(|knob| !knob["asked"]["duration_ns"].is_null());
        let kept = parameters.filter(|knob| knob["asked"] == knob["got"]["known"]).count();
        let is_credit = event.to_string().contains("\"xen-timeslice\"");
        assert_eq!(kept, if is_credit { 2 } else { 1 }, "{knobs:?}");
    }
}

/// One CPU has a runner and a sleeper. With the patch the sleeper waits for the runner's slice, at least 300 times.
const TRIED: &str = "\
schema = 1
[measure]
rounds = 10
warmup = \"50ms\"
duration = \"2s\"
window = \"200ms\"
grace = \"300s\"
[lab]
cpus = 1
seeds = 10
[[workload]]
name = \"shares\"
[[workload.set]]
name = \"runner\"
use = \"spin\"
work = \"100us\"
[[workload.set]]
name = \"sleeper\"
use = \"burnwait\"
queue = [\"burn 250us\", \"wait 1ms\"]
";

const NO_WAKEUP_PREEMPTION: &str = "\
--- a/kernel/sched/features.h
+++ b/kernel/sched/features.h
@@ -47 +47 @@
-SCHED_FEAT(WAKEUP_PREEMPTION, true)
+SCHED_FEAT(WAKEUP_PREEMPTION, false)
";

/// Compiles Debian's sources once, and in each test what the patch changes.
#[test]
fn a_patch_is_judged_from_its_sources() {
    if Laboratory::open().is_none() {
        return;
    }
    let Ok(home) = fetched() else { return };
    let base = "debian-source:6.1";
    done(schedlab(home, &["kernel", "build", base, "--name", "base"]));
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_string()
    };
    let (patch, plan) = (file("off.patch", NO_WAKEUP_PREEMPTION), file("plan.toml", TRIED));
    let words = ["try", &patch, "--base", base, "--plan", &plan, "--format", "json"];
    let tried = done(schedlab(home, &words));
    let answer: Value = serde_json::from_str(&stdout(&tried)).unwrap();
    let verdicts = |set: usize, name: &str| {
        let set = &answer["analyses"][0]["works"][0]["sets"][set];
        let rows = set["rows"].as_array().unwrap();
        let row = rows.iter().find(|row| row["name"] == name).unwrap();
        // The base's has none.
        [1, 2].map(|variant| row["cells"][variant]["judged"]["verdict"].clone())
    };
    assert_eq!(verdicts(0, "throughput"), ["better", "same"], "the runner's");
    assert_eq!(verdicts(1, "throughput"), ["worse", "same"], "the sleeper's");
    assert_eq!(verdicts(1, "wakeup_p99"), ["worse", "same"], "the sleeper's");
}

/// One task of nice 0 next to four of nice 10 on a CPU is entitled to 70 % of it. A scheduler that knows no weights
/// gives it a fifth.
#[test]
fn a_scheduler_that_knows_no_weights_breaks_a_rule_and_the_kernels_own_only_where_a_case_says_so() {
    let Some(laboratory) = Laboratory::open() else { return };
    let confirm = |name: &str, scx: &str| {
        let set = "[[workload.set]]\nuse = \"spin\"\nwork = \"100us\"\n";
        let text = format!(
            "schema = 1\n[measure]\nduration = \"2s\"\nwarmup = \"0s\"\nwindow = \"100ms\"\n{PATIENT}\n\
             [lab]\ncpus = 1\nseeds = 1\n[[variant]]\nname = \"v\"\n{scx}\n[[workload]]\nname = \"w\"\n\
             {set}name = \"one\"\ncount = 1\n\
             {set}name = \"four\"\ncount = 4\n[workload.set.knobs]\nnice = 10\n"
        );
        fs::write(laboratory.path(name), text).unwrap();
        let words = ["hunt", "--confirm", name, "--kernel", "debian:6.18"];
        let output = laboratory.schedlab(&words).output().unwrap();
        (output.status.code(), stdout(&output), stderr(&output))
    };
    let (code, found, message) = confirm("./fifo.toml", "scx = \"fifo\"");
    assert_eq!(code, Some(1), "{found}{message}");
    assert!(found.starts_with("debian:6.18: fair shares in 4 of 4 runs: "), "{found}");
    assert!(unwrapped(&found).contains("1 task of set `one` on CPU 0"), "{found}");
    // The wait that follows from the rule is in the trace: four of five tasks always wait.
    let words = unwrapped(&found);
    for part in [
        "These runs have seeds 1 to 4 and no trace. With seeds 1 to 8 and the trace on",
        "The trace shows: ",
    ] {
        assert!(words.contains(part), "{found}");
    }
    assert!(words.contains("is broken in 8 of 8 runs. The trace"), "{found}");
    let picture = fs::read_to_string(laboratory.path("fifo-debian-6.18.svg")).unwrap();
    assert_eq!(picture.matches(">CPU 0<").count(), 2, "the whole, and closer: {picture}");
    assert!(picture.contains("one 1: CPUs 0") && picture.contains("four 4: CPUs 0"), "{picture}");
    let trace = fs::read(laboratory.path("fifo-debian-6.18.pftrace")).unwrap();
    let switches = trace.windows(4).filter(|name| name == b"spin").count();
    assert!(switches > 100, "{switches}");
    // A case that comes with schedlab, on the kernel on which it holds with nearly all trajectories.
    let case = ["hunt", "--confirm", "idle-next-to-idle-policy", "--kernel", "debian:6.1"];
    let output = laboratory.schedlab(&case).output().unwrap();
    let found = stdout(&output);
    assert_eq!(output.status.code(), Some(1), "{found}{}", stderr(&output));
    assert!(found.starts_with("debian:6.1: work conservation in "), "{found}");
    // Tasks under SCHED_IDLE have next to no load, so no group is busier than that of the CPU that idles.
    let passes = [", idle, looked for load ", " among CPUs 0-3 (each time no busier group)"];
    assert!(passes.iter().all(|part| unwrapped(&found).contains(part)), "{found}");
    let (code, found, message) = confirm("./own.toml", "");
    assert_eq!((code, found.contains("no rule is broken")), (Some(0), true), "{found}{message}");
    // With two tasks, the one whose slice has ended is in no queue when the next one is chosen.
    let rest = "[[variant]]\nname = \"v\"\nkernel = \"debian:6.18\"\nscx = \"vtime\"\n\
                [[workload]]\nname = \"two\"\n[[workload.set]]\nuse = \"spin\"\nwork = \"100us\"\nname = \"one\"\n\
                [[workload.set]]\nuse = \"spin\"\nwork = \"100us\"\nname = \"other\"\n\
                knobs = { nice = 10 }\n";
    let two = plan(PATIENT, "cpus = 1", rest).replace("duration = \"100ms\"", "duration = \"1s\"");
    let shares = throughputs(&laboratory, &two);
    let share = shares[0] / shares.iter().sum::<f64>();
    assert!((0.88..0.92).contains(&share), "weights of 100 and 11: {shares:?}");
    // A task that was alone has no longer slice than others: 5 ms, which end at a tick of 4 ms.
    let rest = "[[variant]]\nname = \"v\"\nkernel = \"debian:6.18\"\nscx = \"fifo\"\n\
                [[workload]]\nname = \"waits\"\n[[workload.set]]\nuse = \"spin\"\nwork = \"100us\"\nname = \"alone\"\n\
                [[workload.set]]\nuse = \"burnwait\"\nname = \"late\"\n\
                queue = [\"burn 100us, wait 31ms\"]\n";
    let late = plan(PATIENT, "cpus = 1", rest).replace("duration = \"100ms\"", "duration = \"1s\"");
    laboratory.measures(&late, &[]);
    let longest_ns = metric(&laboratory.runs().remove(0)["outcome"], 1, "wakeup_max");
    assert!((2e6..9e6).contains(&longest_ns), "{longest_ns}");
}

/// Each is found among the first scenarios, all of which the first guests run. Ctrl-C while the case is made smaller keeps it.
#[test]
fn a_hunt_finds_each_wrong_scheduler_and_keeps_its_case_when_it_is_interrupted() {
    let Some(laboratory) = Laboratory::open() else { return };
    let found = |scx: &str, folder: &str| {
        let words = ["hunt", "--scx", scx, "--for", "1ms", "--seed", "1", "--topology", "2x1,4x2"];
        let mut hunt = laboratory.schedlab(&[&words[..], &["-o", folder]].concat());
        let said = fs::File::create(laboratory.path("said")).unwrap();
        let mut hunt = hunt.stderr(said).spawn().unwrap();
        let case = laboratory.path(&format!("{folder}/hunt-1.toml"));
        while !case.exists() && hunt.try_wait().unwrap().is_none() {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        assert!(case.exists(), "nothing was found under {scx}");
        signal(hunt.id(), "-INT");
        assert_eq!(hunt.wait().unwrap().code(), Some(130), "{scx}");
        let said = fs::read_to_string(laboratory.path("said")).unwrap();
        assert!(said.contains("interrupted: this ends as soon as"), "{said}");
        fs::read_to_string(case).unwrap()
    };
    for scx in ["bad", "lossy", "stray"] {
        let text = found(scx, scx);
        assert!(text.contains(&format!("scx = \"{scx}\"\n")), "{text}");
        let stored = laboratory.shows(&["list", "hunts", "COLUMNS=400"]);
        let note = format!("{scx}/hunt-1.toml, hunted with --seed 1, interrupted while it was ");
        assert_eq!(stored.matches(&note).count(), 1, "{stored}");
        assert!(stored.contains(&format!(" on debian:6.18 with {scx}\n")), "{stored}");
        let progress = fs::read_to_string(laboratory.path(&format!("{scx}/hunts.json"))).unwrap();
        let progress: Value = serde_json::from_str(&progress).unwrap();
        let own = &progress[format!("debian:6.18 with {scx}, 2x1,4x2, seed 1")];
        let case = &own["unfinished"][0];
        assert_eq!((&own["scenarios"], &case["number"]), (&json!(16), &json!(1)), "{progress}");
    }
    // The hunt and `--confirm` count the same runs.
    let text = fs::read_to_string(laboratory.path("bad/hunt-1.toml")).unwrap();
    assert!(text.contains("\nseed = 1\n") && text.contains("\nseeds = 4\n"), "{text}");
    let (_, held) = text.split_once("# It held with ").unwrap();
    let counted = format!(" in {} runs: ", &held[..held.find(" seeds").unwrap()]);
    let output = laboratory.schedlab(&["hunt", "--confirm", "bad/hunt-1.toml"]).output();
    let confirmed = stdout(&output.unwrap());
    assert!(unwrapped(&confirmed).contains(&counted), "{counted}: {confirmed}");
    assert_same_code(&laboratory, || _ = found("bad", "again"));
    let nothing = ["hunt", "--scx", "bad", "--seed", "2", "-o", "bad", "--resume"];
    let output = ended(laboratory.schedlab(&nothing), 2);
    assert!(stderr(&output).contains("no hunt of debian:6.18 with bad, "), "{output:?}");
    let console = fs::read_to_string(laboratory.path("stray/hunt-1.log")).unwrap();
    assert!(console.contains("schedlab_stray\" disabled"), "{console}");
}

/// The code of each run of a hunt is the same when it is repeated, and no result is another one where nobody asks for it.
fn assert_same_code(laboratory: &Laboratory, repeat: impl Fn()) {
    let before = laboratory.take_results();
    // After the digest, which is a line.
    let is_code = |result: &[u8]| result[65..].starts_with(&[0x1f, 0x8b]);
    let assert_same = |after: &BTreeMap<String, Vec<u8>>, with_code: bool, at_least: usize| {
        let same = after.iter().filter(|(name, _)| before.contains_key(*name));
        let same: Vec<_> = same.filter(|(_, result)| is_code(result) == with_code).collect();
        same.iter().for_each(|(name, result)| assert_eq!(before[*name], **result, "{name}"));
        assert!(same.len() >= at_least, "{} are the same", same.len());
    };
    repeat();
    let again = laboratory.take_results();
    assert_same(&again, false, 16);
    assert_same(&again, true, 16);
    let codes: BTreeSet<_> = again.values().filter(|result| is_code(result)).collect();
    assert!(codes.len() > 8, "scenarios execute different code: {}", codes.len());
    done(laboratory.schedlab(&["run", "bad/hunt-1.toml", "--backend", "lab", "--quiet"]));
    let plain = laboratory.take_results();
    assert!(!plain.values().any(|result| is_code(result)));
    assert_same(&plain, false, 4);
}

/// A guest's topology says which CPUs a last-level cache has.
#[test]
fn work_runs_on_the_last_level_caches_that_a_guest_has() {
    let Some(laboratory) = Laboratory::open() else { return };
    // A boot checks that the kernel sees each of these.
    let lab = "cpus = 16\nthreads = 2\nsockets = 2\nnodes = 2\nnode-distance = 31";
    let load = "[[workload]]\nuse = \"spin\"\nwork = \"100us\"\ncount = 16\nllcs = 2\n";
    let mut model = Model { laboratory, lab, load, metric: "throughput" };
    let both = model.with("");
    model.load = "[[workload]]\nuse = \"spin\"\nwork = \"100us\"\ncount = 16\nllcs = 1\n";
    let one = model.with("");
    assert!((79_000.0..80_500.0).contains(&one), "eight CPUs, each 10,000 a second: {one}");
    assert!(both > 1.2 * one, "the other eight, too: {both} and {one}");
    let three = model.plan("").replace("llcs = 1", "llcs = 3");
    let output = ended(model.laboratory.run(&three, &[]), 3);
    let said = unwrapped(&stderr(&output));
    assert!(said.contains("the CPUs 0-15 have 2 last-level caches"), "{said}");
}

#[test]
fn work_takes_as_much_longer_as_the_model_says() {
    let Some(mut laboratory) = Laboratory::open() else { return };
    let load = "[[workload]]\nuse = \"spin\"\nwork = \"100us\"\n";
    for lab in ["cpus = 1\nburn = \"skipped\"", "cpus = 1\nburn = \"executed\""] {
        let model = Model { laboratory, lab, load, metric: "throughput" };
        let off = model.with("slowdown = \"0%\"");
        let longer = model.with("slowdown = \"25%\"");
        assert!((0.79..0.81).contains(&(longer / off)), "{lab}: {longer} of {off}");
        // One alone may end with as many operations as there are without.
        let jitters = ["15%", "20%"]
            .map(|jitter| model.with(&format!("slowdown = \"25%\"\njitter = \"{jitter}\"")));
        for jitter in jitters {
            assert!((0.98..1.02).contains(&(jitter / longer)), "{lab}: {jitter} of {longer}");
        }
        assert_ne!(jitters, [longer; 2]);
        laboratory = model.laboratory;
    }
}

/// A measured machine with two CPUs and so many last-level caches.
fn machine(llcs: u32) -> String {
    let known = |ns| {
        format!("{{ known = {{ median_ns = {ns}, p10_ns = 1.0, p90_ns = 1e5, samples = 9 }} }}")
    };
    let machine = format!(
        "version = 1\ncpu_model = {{ known = \"a CPU\" }}\nkernel_release = \"6.18\"\n\
         virtualisation = {{ known = \"none\" }}\ntick_hz = {{ known = 250 }}\n\
         preemption = {{ known = \"lazy\" }}\ntimer_slack_ns = {{ known = 0 }}\n\
         other_load = {{ known = 0.0 }}\n[topology]\ncpus = 2\nsockets = 1\nllcs = {llcs}\nnodes = 1\n\
         threads_per_core = {{ known = 1 }}\n[costs]\nidle-exit = {}\nipi-near = {}\n\
         ipi-far = {{ unknown = \"busy\" }}\nmigration-far = {}\n",
        known(7000),
        known(1000),
        known(12_000)
    );
    let machine = format!("{machine}work-busy = {}\n", known(1_200_000));
    machine.replace("p90_ns = 1e5", "p90_ns = 1.3e6")
}

/// The host's answer and the lab's stand next to each other; then the lab alone is asked again.
#[test]
fn a_plan_is_measured_here_and_in_the_lab() {
    let Some(laboratory) = Laboratory::open() else { return };
    fs::write(laboratory.path("machine.toml"), machine(1)).unwrap();
    let rest = "[[variant]]\nname = \"default\"\n[[variant]]\nname = \"batch\"\n\
                policy = \"batch\"\n[[workload]]\nuse = \"spin\"\nwork = \"100us\"\n";
    let text = plan(&format!("rounds = 2\n{PATIENT}"), "machine = \"machine.toml\"", rest);
    fs::write(laboratory.path("plan.toml"), text).unwrap();
    let both = |words: &[&str]| {
        let words = [&["run", "--and-lab"], words].concat();
        stdout(&done(laboratory.schedlab(&words)))
    };
    let backends = || {
        let lines = laboratory.shows(&["export"]);
        let events = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let backends = events.filter_map(|event| Some(event["backend"].as_str()?.to_string()));
        backends.collect::<Vec<_>>()
    };
    let shown = both(&["./plan.toml", "-v"]);
    assert_eq!(backends(), ["local", "lab"], "{shown}");
    let columns = |shown: &str| {
        let row = |line: &&str| line.starts_with("throughput ") && line.contains(" batch ");
        shown.lines().rfind(row).map(str::to_string).unwrap_or_default()
    };
    assert!(shown.contains("schedlab compare --fidelity plan="), "{shown}");
    assert!(!columns(&shown).is_empty() && !shown.contains("--and-lab"), "{shown}");
    let (_, command) = shown.rsplit_once("compare --fidelity plan=").unwrap();
    let id = command.split_whitespace().next().unwrap();
    let again = both(&["--resume", id, "-v"]);
    assert_eq!(backends(), ["local", "lab", "lab"], "the host's runs are there: {again}");
    assert_eq!(columns(&again), columns(&shown));
}

#[test]
fn a_guest_with_all_of_the_model_is_the_same_to_the_bit() {
    let Some(laboratory) = Laboratory::open() else { return };
    // Two CPUs in each of two caches, so that interrupts are near and far.
    let machine = machine(2).replace("cpus = 2", "cpus = 4");
    fs::write(laboratory.path("machine.toml"), machine).unwrap();
    let lab = "machine = \"machine.toml\"\nsockets = 2\n\
               [lab.model]\nipi-far = \"3us\"\nmigration-cost = \"11us\"";
    let load = "[[variant]]\nname = \"new\"\nkernel = \"debian:6.18\"\n\
                [[workload]]\nuse = \"schbench\"\nthreads = 6\nrequest = \"300us\"\n\
                [[workload]]\nuse = \"loopback\"\ntest = [\"tcp-rr\", \"udp-stream\"]\n";
    laboratory.measures(&plan(PATIENT, lab, load), &["--verify"]);
    assert_eq!(laboratory.time(), "exact");
    let statuses: Vec<String> =
        laboratory.outcomes().into_iter().map(|(status, _)| status).collect();
    assert_eq!(statuses, ["done"; 3], "the loopback interface of a guest is up, too");
    let report = unwrapped(&laboratory.shows(&["report", "last", "--format", "lkml"]));
    assert!(report.contains("fidelity twin: own clocks"), "{report}");
    assert!(report.contains("exit from idle 7us"), "{report}");
}

/// A shell that reads a file and executes another program: guests have only the packed files.
fn shell(laboratory: &Laboratory, executes: &str) -> String {
    let data = laboratory.path("data");
    fs::write(&data, "packed\n").unwrap();
    let data = data.display();
    let script = format!("read x < {data} && test $x = packed && {executes}");
    format!(
        "[[workload]]\nname = \"sh\"\nuse = \"command\"\ncommand = [\"sh\", \"-c\", \"{script}\"]\n\
         files = [\"{data}\", \"/bin/sleep\"]\n"
    )
}

#[test]
fn a_program_that_is_not_packed_is_not_in_a_guest() {
    let Some(laboratory) = Laboratory::open() else { return };
    let plan = plan(PATIENT, "cpus = 2", &shell(&laboratory, "/bin/true"));
    ended(laboratory.run(&plan, &[]), 3);
    let (status, reason) = &laboratory.outcomes()[0];
    assert_eq!(status, "failed");
    assert!(reason.contains("exit status 127") && reason.contains("not found"), "{reason}");
}

/// The guest's clock is exact, so are the moments at which sets begin and end.
fn assert_phase_or_burst(event: &Value) {
    let set = &event["outcome"]["result"]["sets"][1];
    let first = &set["metrics"][0];
    if event["key"]["cell"] == 0 {
        // The tolerance is the time that the measuring thread takes for its readings.
        let wall_ns = set["workers"][0]["wall_ns"].as_f64().unwrap();
        assert!((wall_ns - 50e6).abs() < 1e6, "{wall_ns}");
        assert_eq!(first["name"], "throughput");
    } else {
        let ops = set["workers"].as_array().unwrap().iter().map(|worker| &worker["ops"]);
        assert_eq!(ops.collect::<Vec<_>>(), [9, 9]);
        let time_ns = first["value"]["known"].as_f64().unwrap();
        assert!(first["name"] == "time" && time_ns > 0.0 && time_ns < 80e6, "{first}");
    }
}

fn assert_headlines_known(event: &Value) {
    let sets = event["outcome"]["result"]["sets"].as_array().unwrap();
    for metric in sets.iter().flat_map(|set| set["metrics"].as_array().unwrap()) {
        let is_headline = metric["importance"] == "headline";
        let value = metric["value"]["known"].as_f64();
        assert!(!is_headline || value > Some(0.0), "{metric}");
    }
}

/// Whether the run is of a program that this machine may lack, in the test below.
fn is_program(event: &Value) -> bool {
    [4, 5].contains(&event["key"]["cell"].as_u64().unwrap())
}

/// The second boot of `--verify` serves all of them. The known benchmarks have floating-point numbers, page faults,
/// shot-down TLBs, and a random choice by the seed; known programs share nothing with schedlab.
#[test]
fn works_of_all_kinds_are_the_same_to_the_bit_in_a_guest() {
    let Some(laboratory) = Laboratory::open() else { return };
    let works = "[cgroup.low]\nweight = 25\n[[cgroup.low.change]]\nat = \"50ms\"\nweight = 400\n\
                 [[workload]]\nname = \"mix\"\n[[workload.set]]\nuse = \"pipe\"\n\
                 [[workload.set]]\nuse = \"spin\"\nworkers = \"processes\"\n\
                 at = \"50ms\"\nfor = \"50ms\"\n\
                 [[workload]]\nname = \"burst\"\n[[workload.set]]\nuse = \"pipe\"\n\
                 [[workload.set]]\nuse = \"spin\"\ncount = 2\nat = \"20ms\"\nops = 9\n\
                 [[workload]]\nname = \"benchmarks\"\n\
                 [[workload.set]]\nuse = \"c-ray\"\ncount = 2\nwidth = 80\n\
                 [[workload.set]]\nuse = \"ebizzy\"\ncount = 2\n\
                 [[workload]]\nuse = \"stream\"\ncount = 2\narray = \"64KiB\"\n\
                 [[workload]]\nuse = \"hackbench\"\nparameters = { groups = 1, loops = 5 }\n\
                 [[workload]]\nuse = \"primesieve\"\nparameters = { limit = \"1e7\" }\n\
                 [[workload]]\nname = \"changes\"\n[[workload.offline]]\nat = \"20ms\"\ncpus = \"1\"\n\
                 [[workload.set]]\nuse = \"steps\"\n\
                 steps = [\"cgroup low\", \"spin 30ms\", \"cgroup /\", \"spin 30ms\"]\n\
                 [[workload.set]]\nuse = \"spin\"\nwork = \"100us\"\n\
                 [[workload.set.change]]\nat = \"30ms\"\nknobs = { nice = 5, affinity = \"0\" }\n\
                 [[workload.set]]\nname = \"more\"\nuse = \"spin\"\nwork = \"100us\"\n\
                 [[workload.set.change]]\nat = \"40ms\"\ncgroup = \"low\"\ncount = 3\n";
    // With a security module a process has a label.
    let no_module = "{ read label < /proc/self/attr/current; test -z $label; }";
    let sh = shell(&laboratory, &format!("/bin/sleep 0.01 && {no_module}"));
    let plan = plan(PATIENT, "cpus = 2", &format!("{works}{sh}"));
    let output = laboratory.run(&plan, &["--verify"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let (skipped, mut ended): (Vec<Value>, Vec<Value>) =
        laboratory.runs().into_iter().partition(|event| event["outcome"]["status"] == "skipped");
    for event in &skipped {
        assert!(is_program(event), "{event}");
        skip(event["outcome"]["reason"].as_str().unwrap());
    }
    assert_eq!(ended.len() + skipped.len(), 8, "{ended:?}");
    ended.iter().for_each(assert_exact_run);
    ended.sort_by_key(|event| event["key"]["cell"].as_u64().unwrap());
    ended[..2].iter().for_each(assert_phase_or_burst);
    ended[2..4].iter().for_each(assert_headlines_known);
    for event in ended.iter().filter(|event| is_program(event)) {
        let first = &event["outcome"]["result"]["sets"][0]["metrics"][0];
        assert!(first["value"]["known"].as_f64() > Some(0.0), "{first}");
    }
    let windows = laboratory.events("window").into_iter();
    let mix = windows.filter(|event| event["key"]["cell"] == 0);
    let ops: Vec<u64> =
        mix.map(|event| event["window"]["workers"][2]["ops"].as_u64().unwrap()).collect();
    assert!(ops[0] == 0 && ops[1] > 0, "{ops:?}");
}

/// Times of a file of rt-app: work, timers and wakeups, one after the other.
#[test]
fn a_file_of_rt_app_takes_its_times_exactly() {
    let Some(laboratory) = Laboratory::open() else { return };
    let file = r#"{ "global" : { "duration" : 2 }, "tasks" : {
        "periodic" : { "cpus" : [0], "run" : 3000, "timer" : { "ref" : "unique", "period" : 10000 } },
        "worker" : { "cpus" : [3], "run" : 5000 },
        "sleeper" : { "cpus" : [1], "run" : 1000, "sleep" : 4000 },
        "waker" : { "cpus" : [2], "sem_post" : "s", "timer" : { "ref" : "unique", "period" : 20000 } },
        "woken" : { "cpus" : [2], "sem_wait" : "s", "runtime" : 2000 } } }"#;
    fs::write(laboratory.path("app.json"), file).unwrap();
    let words = ["run", "app.json", "--backend", "lab", "--kernel", "debian:6.1", "--rounds", "1"];
    let more = ["--quiet", "--events", "events"];
    done(laboratory.schedlab(&[&words[..], &more].concat()));
    assert_eq!(laboratory.time(), "exact");
    let outcome = &laboratory.runs()[0]["outcome"];
    let sets = outcome["result"]["sets"].as_array().unwrap();
    let of = |name: &str, own: &str| {
        let set = sets.iter().position(|set| set["name"] == name).expect(name);
        metric(outcome, set, own)
    };
    // No two work on one CPU at the same time.
    for (name, pass_ms, late_us) in [
        ("periodic", 10.0, 100.0),
        ("worker", 5.0, 300.0),
        ("sleeper", 5.0, 300.0),
        ("waker", 20.0, 100.0),
        ("woken", 20.0, 300.0),
    ] {
        let longest_ms = of(name, "pass_max") / 1e6;
        assert!((0.0..late_us / 1e3).contains(&(longest_ms - pass_ms)), "{name}: {longest_ms}");
    }
    let passes = |name: &str| {
        let set = sets.iter().find(|set| set["name"] == name).expect(name);
        set["workers"][0]["ops"].as_u64().unwrap()
    };
    // The last one ends with the run.
    assert_eq!((passes("periodic"), passes("waker")), (199, 99));
    assert_eq!(of("periodic", "miss_ratio"), 0.0);
    assert!(of("woken", "wakeup_max") < 300e3);
}

#[test]
fn a_guest_that_hangs_is_ended_when_its_time_is_up() {
    let Some(laboratory) = Laboratory::open() else { return };
    let rest = "[[variant]]\nname = \"hangs\"\n\
                kernel-args = \"rdinit=/nonesuch root=/dev/nonesuch rootwait loglevel=7\"\n";
    let plan = plan("grace = \"1s\"", "cpus = 1", &format!("{rest}{WAKES}"));
    ended(laboratory.run(&plan, &[]), 3);
    let late = "the guest did not start its first process within 3 s of CPU time";
    // On a loaded host its console may still be empty.
    let (status, reason) = &laboratory.outcomes()[0];
    assert!(status == "failed" && reason.starts_with(late), "{reason}");
}

#[test]
fn a_guest_that_runs_out_of_memory_says_so() {
    let Some(laboratory) = Laboratory::open() else { return };
    let load = "[[workload]]\nuse = \"schbench\"\nthreads = 32\ncache-footprint = \"64MiB\"\n";
    let plan = plan(PATIENT, "cpus = 1", load);
    ended(laboratory.run(&plan, &[]), 3);
    assert_kept(&laboratory, &laboratory.outcomes()[0], &["Out of memory"]);
    assert_eq!(laboratory.kept(), 0, "no run");
}

fn ours() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/ci/ours.bpf.c")
}

/// A scheduler like `docs/ci/ours.bpf.c`, with slices of this length.
fn compile(laboratory: &Laboratory, source: &Path, slice_ms: u32) {
    let mut clang = Command::new("clang-19");
    clang.args(["-target", "bpf", "-mcpu=v3", "-g", "-O2", "-Wall", "-Werror", "-c"]);
    clang.arg(format!("-DSLICE_MS={slice_ms}")).arg(source);
    let compiled = clang.arg("-o").arg(laboratory.path("ours.bpf.o")).output().unwrap();
    assert!(compiled.status.success(), "{}", stderr(&compiled));
}

#[test]
fn a_scheduler_that_was_compiled_again_boots_nothing() {
    if Command::new("clang-19").arg("--version").output().is_err() {
        return skip("clang-19: sh scripts/need.sh ci");
    }
    let Some(laboratory) = Laboratory::open() else { return };
    let object = laboratory.path("ours.bpf.o");
    let rest = format!(
        "[[variant]]\nname = \"ours\"\nkernel = \"debian:6.18\"\nscx = \"{}\"\n\
         [[workload]]\nuse = \"spin\"\nwork = \"100us\"\ncount = 3\n",
        object.display()
    );
    let plan = plan(PATIENT, "cpus = 1", &rest);
    let run = || laboratory.run(&plan, &[]);
    let runs = || {
        done(run());
        laboratory.ended()
    };
    compile(&laboratory, &ours(), 5);
    let first = runs();
    assert!(first[0].contains("\"ours, "), "the scheduler in force, by its name: {}", first[0]);
    laboratory.before_qemu(NO_BOOTS);
    compile(&laboratory, &ours(), 1);
    assert_ne!(runs(), first, "slices are shorter");

    fs::write(&object, "not an object").unwrap();
    ended(run(), 3);
    let (status, reason) = &laboratory.outcomes()[0];
    assert_eq!(status, "failed", "the machine lacks nothing");
    assert!(reason.contains("/scx/ours.bpf.o cannot be read: "), "{reason}");
    let source = fs::read_to_string(ours()).unwrap();
    let source = source.replace("return scx_bpf_create_dsq(QUEUE, -1);", "return -12;");
    fs::write(laboratory.path("failing.bpf.c"), source).unwrap();
    compile(&laboratory, &laboratory.path("failing.bpf.c"), 5);
    ended(run(), 3);
    let (_, reason) = &laboratory.outcomes()[0];
    assert!(reason.contains("the kernel threw /scx/ours.bpf.o out while it began"), "{reason}");

    compile(&laboratory, &ours(), 5);
    laboratory.before_qemu(NO_GUESTS);
    assert_eq!(runs(), first, "what was measured is known");
}

/// Real-time work leaves a sched_ext scheduler no time: the kernel ejects it after 30 s.
#[test]
fn a_scheduler_that_the_kernel_ejects_fails_its_run() {
    let Some(laboratory) = Laboratory::open() else { return };
    let rest = "[[variant]]\nname = \"ejected\"\nkernel = \"debian:6.18\"\nscx = \"fifo\"\n\
                policy = \"fifo\"\n[[workload]]\nuse = \"spin\"\nwork = \"10ms\"\n";
    let plan = plan(PATIENT, "cpus = 1", rest).replace("100ms", "45s");
    ended(laboratory.run(&plan, &[]), 3);
    let did_not_last = "the scheduler fifo (schedlab_fifo) did not last: sched_ext is ";
    // By its own watchdog or, with the guest of another build, by RCU's, which comes at the same time.
    let kernels_word = "BPF scheduler \"schedlab_fifo\" disabled (";
    assert_kept(&laboratory, &laboratory.outcomes()[0], &[did_not_last, kernels_word]);
}

/// The folders of processes with guests.
fn folders(laboratory: &Laboratory) -> BTreeSet<String> {
    let entries = fs::read_dir(laboratory.guests()).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with(|first: char| first.is_ascii_digit())).collect()
}

/// Long enough to be killed in the middle of a run.
fn to_be_killed() -> String {
    plan(PATIENT, "cpus = 1\nseeds = 2", SPIN).replace("seeds = 1\n", "").replace("100ms", "400ms")
}

#[test]
fn a_guest_that_is_killed_is_made_again_and_gives_the_same() {
    let (Some(whole), Some(killed)) = (Laboratory::open(), Laboratory::open()) else { return };
    let output = whole.run(&to_be_killed(), &[]).output().unwrap();
    assert_exact(&whole, &output);
    let (process, _) = killed.with_guests(&to_be_killed());
    let is_copy = |guest: &u32| {
        let line = fs::read(format!("/proc/{guest}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains("\0-incoming\0")
    };
    // The QEMU whose copies the runs are: they end with it.
    let copied = wait_for("a copy that runs", || {
        let mut guests = guests_of(process.id()).into_iter().filter(is_copy);
        guests.find(|guest| !guests_of(*guest).is_empty())
    });
    signal(copied, "-KILL");
    let output = process.wait_with_output().unwrap();
    assert_exact(&killed, &output);
    assert_eq!(killed.ended(), whole.ended());
}

#[test]
fn a_machine_whose_boots_were_killed_is_booted_for_the_run_that_is_made_again() {
    let Some(laboratory) = Laboratory::without_machines() else { return };
    // Kills as many boots as one run tries.
    laboratory.before_qemu(
        "case \"$*\" in *' -kernel '*) mkdir \"$HOME/first\" 2>/dev/null ||\n\
         mkdir \"$HOME/second\" 2>/dev/null && kill -KILL $$;; esac",
    );
    laboratory.measures(&plan(PATIENT, "cpus = 1", WAKES), &[]);
    assert!(laboratory.path("second").exists(), "it was killed twice");
    assert_eq!(laboratory.outcomes()[0].0, "done");
}

#[test]
fn runs_whose_guests_are_always_killed_are_missing_until_they_are_resumed() {
    let Some(laboratory) = Laboratory::open() else { return };
    laboratory.before_qemu("case \"$*\" in *' -incoming '*) kill -KILL $$;; esac");
    let plan = plan(PATIENT, "cpus = 1", WAKES).replace("seeds = 1", "seeds = 2");
    let output = ended(laboratory.run(&plan, &[]), 3);
    let said = stderr(&output);
    assert!(said.contains("2 runs are missing"), "{said}");
    assert!(said.contains("QEMU ended with signal: 9 (SIGKILL)"), "{said}");
    assert!(said.contains("\nhint: schedlab run --resume "), "{said}");
    assert_eq!(laboratory.ended().len(), 0);
    fs::remove_file(laboratory.path("events")).unwrap();
    laboratory.before_qemu("");
    let resume = ["run", "--resume", "--events", "events"];
    let output = laboratory.schedlab(&resume).output().unwrap();
    assert_exact(&laboratory, &output);
}

#[test]
fn an_interrupt_ends_all_guests_and_the_plan_can_be_resumed() {
    let Some(laboratory) = Laboratory::without_machines() else { return };
    let (process, guests) = laboratory.with_guests(&plan(PATIENT, "cpus = 1", WAKES));
    signal(process.id(), "-INT");
    let output = ended(process.wait_with_output().unwrap(), 130);
    assert!(stderr(&output).contains("hint: schedlab run --resume"), "{}", stderr(&output));
    guests.into_iter().for_each(assert_gone);
    assert_eq!(folders(&laboratory), BTreeSet::new());
    // The machine is that of other tests now.
    laboratory.share_machines(fetched().as_ref().unwrap());
    done(laboratory.schedlab(&["run", "--resume"]));
    // Comparisons would take an environment of another name for another machine.
    let report = laboratory.shows(&["report", "--format", "json"]);
    let report: Value = serde_json::from_str(&report).unwrap();
    let sessions = report["analyses"][0]["plans"][0]["environments"].as_array().unwrap();
    let kernels: Vec<&Value> = sessions.iter().map(|of| &of["kernel_release"]).collect();
    assert_eq!(kernels.len(), 2, "{kernels:?}");
    assert_eq!(kernels[0], kernels[1]);
}

#[test]
fn a_kill_ends_all_guests_and_the_next_run_removes_their_files() {
    let Some(laboratory) = Laboratory::without_machines() else { return };
    let (mut process, guests) = laboratory.with_guests(&plan(PATIENT, "cpus = 1", WAKES));
    process.kill().unwrap();
    process.wait().unwrap();
    guests.into_iter().for_each(assert_gone);
    let left = folders(&laboratory);
    let of_it = format!("{}-", process.id());
    assert!(left.len() == 1 && left.iter().all(|name| name.starts_with(&of_it)), "{left:?}");
    laboratory.before_qemu(NO_GUESTS);
    ended(laboratory.run(&plan(PATIENT, "cpus = 1", WAKES), &[]), 3);
    assert_eq!(folders(&laboratory), BTreeSet::new());
}

/// Runs a command while a folder is a separate file system with these limits, which a script fills; `None` if it cannot be
/// mounted.
fn run_confined(plain: Command, folder: &Path, limit: &str, fill: &str) -> Option<Output> {
    fs::create_dir_all(folder).unwrap();
    let mount = format!("mount -t tmpfs -o {limit} none '{}'", folder.display());
    let may_mount = with_mounts(&mount, &plain).output().is_ok_and(|tried| tried.status.success());
    let script = format!("{mount} && {fill} && exec \"$0\" \"$@\"");
    may_mount.then(|| with_mounts(&script, &plain).output().unwrap())
}

#[test]
fn a_run_for_which_the_disk_has_no_room_is_missing() {
    let Some(laboratory) = Laboratory::open() else { return };
    let run = laboratory.run(&plan(PATIENT, "cpus = 1", WAKES), &[]);
    // A guest's root needs more; the database is elsewhere.
    let Some(output) = run_confined(run, &laboratory.guests(), "size=256k", "true") else {
        return skip("privilege to mount a file system");
    };
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let said = stderr(&output);
    assert!(
        said.contains("1 run is missing") && said.contains("No space left on device"),
        "{said}"
    );
    assert_eq!(laboratory.ended().len(), 0);
}

#[test]
fn a_result_for_which_the_cache_has_no_room_is_reported_and_a_plan_says_so_once() {
    let Some(laboratory) = Laboratory::open() else { return };
    fs::write(laboratory.path("plan.toml"), plan(PATIENT, "cpus = 1", &format!("{BOTH}{WAKES}")))
        .unwrap();
    let words = ["run", "./plan.toml", "--backend", "lab", "--events", "events"];
    let (run, results) = (laboratory.schedlab(&words), laboratory.path(".cache/schedlab/results"));
    let Some(output) = run_confined(run, &results, "nr_inodes=1", "true") else {
        return skip("privilege to mount a file system");
    };
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let said = unwrapped(&stderr(&output));
    assert_eq!(said.matches("the result is not kept").count(), 1, "{said}");
    assert!(
        said.contains("No space left on device") && said.contains("; hint: make room"),
        "{said}"
    );
    assert!(laboratory.outcomes().iter().all(|(status, _)| status == "done"), "{said}");
    assert_eq!(laboratory.ended().len(), 2);
}

/// Each part has one of the two kernels.
#[test]
fn parts_of_a_plan_are_joined_to_what_one_run_gives() {
    let (Some(whole), Some(parts)) = (Laboratory::open(), Laboratory::open()) else {
        return;
    };
    let text = plan(PATIENT, "cpus = 1", &format!("{BOTH}{WAKES}"));
    assert_exact(&whole, &whole.run(&text, &[]).output().unwrap());
    let mut ended = Vec::new();
    for (part, db) in [("1/2", "1.db"), ("2/2", "2.db")] {
        let output = parts.measures(&text, &["--shard", part, "--db", db]);
        assert_eq!(parts.ended().len(), 1, "{output:?}");
        ended.extend(parts.ended());
    }
    let mut expected = whole.ended();
    ended.sort();
    expected.sort();
    assert_eq!(ended, expected);
    let import = ["import", "1.db", "2.db", "--db", "all.db"];
    let import = parts.schedlab(&import).output().unwrap();
    assert!(stderr(&import).contains("all 2 parts, 2 of 2 runs"), "{import:?}");
}

/// nginx as a web server that takes PUT, from those who know the password; by HTTP and by HTTPS, with a
/// certificate that nobody but its own file knows.
struct WebServer {
    folder: TempDir,
    child: Child,
    ports: [u16; 2],
}

impl WebServer {
    /// `None`: the test is skipped, which is reported.
    fn start() -> Option<WebServer> {
        let nginx = Path::new("/usr/sbin/nginx");
        let has_openssl = Command::new("openssl").arg("version").output().is_ok();
        if !nginx.exists() || !has_openssl {
            skip("nginx and openssl: sh scripts/need.sh lab");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let certificate = "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost \
            -addext subjectAltName=IP:127.0.0.1 \
            -addext basicConstraints=critical,CA:FALSE -keyout key.pem -out certificate.pem";
        let mut made = Command::new("openssl");
        made.args(certificate.split_whitespace()).current_dir(folder.path());
        done(made);
        // They are free until nginx takes them.
        let free = || TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let ports = [free(), free()];
        fs::create_dir(folder.path().join("data")).unwrap();
        fs::write(folder.path().join("passwords"), "ci:{PLAIN}s3cret\n").unwrap();
        let text = nginx_configuration(ports);
        fs::write(folder.path().join("nginx.conf"), text).unwrap();
        let log = folder.path().join("error.log");
        let mut command = Command::new(nginx);
        command.arg("-p").arg(folder.path()).args(["-c", "nginx.conf", "-e"]).arg(&log);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let server = WebServer { folder, child, ports };
        for port in ports {
            wait_for("the web server", || TcpStream::connect(("127.0.0.1", port)).ok());
        }
        Some(server)
    }

    fn url(&self, scheme: &str) -> String {
        let port = self.ports[usize::from(scheme == "https")];
        format!("{scheme}://127.0.0.1:{port}/team")
    }

    fn certificate(&self) -> PathBuf {
        self.folder.path().join("certificate.pem")
    }

    /// Replaces the answers of guests in the cache by other ones.
    fn put_other_answers(&self) {
        let data = self.folder.path().join("data/team");
        for entry in fs::read_dir(data.join("ac")).unwrap().flatten() {
            const MEASURED: &str = "\"measured_ns\":";
            let bytes = fs::read(entry.path()).unwrap();
            let text = String::from_utf8_lossy(&bytes);
            let named = text.split('@').nth(1).unwrap_or_default().get(..64).unwrap();
            let mut answer = String::new();
            let packed = fs::read(data.join("cas").join(named)).unwrap();
            GzDecoder::new(&packed[..]).read_to_string(&mut answer).unwrap();
            let Some(at) = answer.find(MEASURED) else { continue };
            let digit = at + MEASURED.len();
            let other = if answer[digit..].starts_with('1') { "2" } else { "1" };
            answer.replace_range(digit..=digit, other);
            let mut packer = GzEncoder::new(Vec::new(), Compression::best());
            packer.write_all(answer.as_bytes()).unwrap();
            let packed = packer.finish().unwrap();
            let digest = Sha256::digest(&packed);
            let name: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
            fs::write(data.join("cas").join(&name), &packed).unwrap();
            fs::write(entry.path(), action_result(&name, packed.len())).unwrap();
        }
    }
}

/// An entry as servers of the Remote Execution API keep it, for an answer of 128 to 16,383 bytes.
fn action_result(sha256: &str, bytes: usize) -> Vec<u8> {
    let size = [0x10, bytes as u8 | 0x80, (bytes >> 7) as u8];
    let digest = [&[0x0a, 64], sha256.as_bytes(), &size].concat();
    let file = [&[0x0a, 18], &b"schedlab-answer.gz"[..], &[0x12, digest.len() as u8], &digest];
    let file = file.concat();
    [&[0x12, file.len() as u8], &file[..]].concat()
}

fn nginx_configuration([http, https]: [u16; 2]) -> String {
    let folders = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    let folders: String =
        folders.iter().map(|name| format!("{name}_temp_path temporary;\n")).collect();
    format!(
        "daemon off;\nmaster_process off;\npid pid;\nerror_log error.log;\nevents {{}}\n\
         http {{\naccess_log access.log;\n{folders}server {{\nlisten 127.0.0.1:{http};\n\
         listen 127.0.0.1:{https} ssl;\nssl_certificate certificate.pem;\n\
         ssl_certificate_key key.pem;\nroot data;\nlocation / {{\ndav_methods PUT;\n\
         create_full_put_path on;\nlimit_except GET {{\nauth_basic cache;\n\
         auth_basic_user_file passwords;\n}}\n}}\n}}\n}}\n"
    )
}

impl Drop for WebServer {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

#[test]
fn what_one_user_measured_another_one_takes_from_a_web_server() {
    let users = || Some([(); 4].map(|()| Laboratory::open()));
    let Some([Some(first), Some(second), Some(stranger), Some(careful)]) = users() else { return };
    let Some(server) = WebServer::start() else { return };
    let two_works = plan(PATIENT, "cpus = 1", &format!("{WAKES}{BURSTS}"));
    let run = |user: &Laboratory, scheme: &str, more: &[&str]| {
        let (trust, more): (Vec<&str>, Vec<&str>) =
            more.iter().partition(|word| word.starts_with("trust="));
        let cache = [&[server.url(scheme).as_str()], &trust[..]].concat().join(",");
        user.run(&two_works, &[&["--cache", &cache], &more[..]].concat())
    };

    // Sending needs a password, in a file that others cannot read.
    let netrc = first.path(".netrc");
    fs::write(&netrc, "machine 127.0.0.1 login ci password s3cret\n").unwrap();
    fs::set_permissions(&netrc, fs::Permissions::from_mode(0o644)).unwrap();
    let readable = ended(run(&first, "http", &[]), 2);
    assert!(stderr(&readable).contains("hint: chmod 600 "), "{readable:?}");
    fs::set_permissions(&netrc, fs::Permissions::from_mode(0o600)).unwrap();
    let measured = run(&first, "http", &[]).output().unwrap();
    assert_exact(&first, &measured);
    let kept = fs::read_dir(server.folder.path().join("data/team/ac")).unwrap().count();
    assert_eq!(kept, 3, "two answers, and that this QEMU has clocks: {measured:?}");

    // A server without a trusted certificate causes a warning.
    let warned = run(&stranger, "https", &[]).output().unwrap();
    assert_exact(&stranger, &warned);
    assert_eq!(stranger.ended(), first.ended());
    let text = stderr(&warned);
    assert!(text.contains("cannot be reached") && text.contains("certificate"), "{text}");

    // The cache's answers are compared with measured ones, and the measured ones are used.
    server.put_other_answers();
    let compared = run(&careful, "http", &["trust=0%"]).output().unwrap();
    assert_exact(&careful, &compared);
    assert_eq!(careful.ended(), first.ended());
    let text = stderr(&compared);
    assert!(text.contains("has another answer than this machine for "), "{text}");
    let differing = fs::read_dir(careful.path(".local/state/schedlab/cache-differences"));
    assert!(differing.unwrap().count() >= 2, "both are kept");
    let shown = unwrapped(&careful.shows(&["show", "last"]));
    assert!(shown.contains("has another answer than this machine for "), "{shown}");

    // The first user repairs the cache. The second one gets everything by HTTPS, without a guest.
    let again = run(&first, "http", &["--again"]).output().unwrap();
    assert_exact(&first, &again);
    second.before_qemu(NO_GUESTS);
    let mut taken = run(&second, "https", &["trust=100%"]);
    let taken = taken.env("SSL_CERT_FILE", server.certificate()).output().unwrap();
    assert_exact(&second, &taken);
    assert_eq!(second.ended(), first.ended());
    assert!(stderr(&taken).is_empty(), "{taken:?}");
}
