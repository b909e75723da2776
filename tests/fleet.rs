//! `schedlab run --fleet slurm`: with a real Slurm of three nodes on loopback, run by this user, and with
//! stubs for exact faults.

use std::fs::{self, File};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::home::{Home, Words};
use crate::support::{done, ended, signal, skip, stderr, stdout, wait_for, write_script};

const NODES: usize = 3;
const DAEMONS: [&str; 4] = ["munged", "slurmctld", "slurmd", "sbatch"];

/// A plan of the null backend with `rounds` rounds of six cells.
fn plan(home: &Home, rounds: u32) {
    let text = format!(
        "schema = 1\ntitle = \"fleet\"\n[measure]\nrounds = {rounds}\nduration = \"1s\"\n\
         [[variant]]\nname = \"a\"\n[[variant]]\nname = \"b\"\n\
         [[workload]]\nuse = \"spin\"\nbatch = [10, 20, 30]\n"
    );
    home.write("plan.toml", text);
}

const RUN: &str = "run ./plan.toml --backend null --quiet";

/// The events of the newest plan of a store, without the parts that differ in every plan.
fn events(home: &Home, db: &str) -> Vec<Value> {
    let id = id(home, db);
    let plain = |mut event: Value| {
        ["id", "started_unix_ns"].iter().for_each(|own| event[*own] = Value::Null);
        event
    };
    home.events(&format!("{id} --db {db}")).into_iter().map(plain).collect()
}

/// The beginning of the id of a store's only plan.
fn id(home: &Home, db: &str) -> String {
    let text = home.ok(format!("list runs --db {db}"));
    let rows: Vec<&str> = text.lines().skip(1).collect();
    assert_eq!(rows.len(), 1, "{text}");
    rows[0].split_whitespace().next().expect("an id").to_string()
}

/// The events of the same plan on this machine.
fn at_home(home: &Home) -> Vec<Value> {
    done(home.command(RUN).args(["--db", "home.db"]));
    events(home, "home.db")
}

/// A schedlab in the background, with its output.
struct Controller {
    child: Child,
    log: PathBuf,
}

impl Controller {
    fn start(mut command: Command, home: &Home) -> Controller {
        let log = home.at("controller.log");
        let file = File::create(&log).unwrap();
        command.stdout(file.try_clone().unwrap()).stderr(file).stdin(Stdio::null());
        Controller { child: command.spawn().unwrap(), log }
    }

    fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    fn waits_until_said(&self, text: &str) {
        wait_for(text, || self.said().contains(text).then_some(()));
    }

    fn end(mut self) -> (ExitStatus, String) {
        wait_for("the controller's end", || self.has_ended().then_some(()));
        (self.child.wait().unwrap(), self.said())
    }

    fn has_ended(&self) -> bool {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id()));
        stat.map_or(true, |stat| stat.contains(") Z "))
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// slurmctld, three slurmd and munged; all end with it.
struct Cluster {
    home: Home,
    daemons: Vec<(String, Child)>,
}

impl Cluster {
    /// `None`, after a loud skip, if its programs are missing.
    fn start() -> Option<Cluster> {
        if DAEMONS.iter().any(|name| daemon(name).is_none()) {
            skip("Slurm and munge (scripts/need.sh fleet)");
            return None;
        }
        let home = Home::new();
        let mut cluster = Cluster { home, daemons: Vec::new() };
        cluster.configure();
        let munge = cluster.path("munge");
        let option = |name: &str| format!("--{name}={}", munge.join(name).display());
        let mut words =
            ["key-file", "socket", "pid-file", "log-file", "seed-file"].map(option).to_vec();
        words.extend(["--foreground", "--force"].map(str::to_string));
        cluster.daemon("munged", "munged", &words);
        wait_for("munge", || munge.join("socket").exists().then_some(()));
        cluster.slurmctld();
        for node in 0..NODES {
            let words = ["-D", "-N", &format!("n{node}")].map(str::to_string);
            cluster.daemon("slurmd", &format!("n{node}"), &words);
        }
        wait_for("three idle nodes", || {
            let sinfo = cluster.slurm("sinfo", &["--noheader", "--Node", "--format=%t"]);
            (sinfo.split_whitespace().filter(|state| *state == "idle").count() == NODES)
                .then_some(())
        });
        Some(cluster)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.at(name)
    }

    fn configure(&self) {
        for folder in ["munge", "state"] {
            fs::create_dir(self.path(folder)).unwrap();
        }
        fs::set_permissions(self.path("munge"), fs::Permissions::from_mode(0o700)).unwrap();
        let key: Vec<u8> =
            (0..128u32).flat_map(|at| Sha256::digest(at.to_le_bytes())[..1].to_vec()).collect();
        fs::write(self.path("munge/key-file"), key).unwrap();
        fs::set_permissions(self.path("munge/key-file"), fs::Permissions::from_mode(0o600))
            .unwrap();
        let ports: Vec<TcpListener> =
            (0..=NODES).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let port = |at: usize| ports[at].local_addr().unwrap().port();
        let user = Command::new("id").arg("-un").output().unwrap();
        let (user, root) = (stdout(&user), self.home.path().display());
        let user = user.trim();
        let mut text = format!(
            "ClusterName=test\nSlurmctldHost=localhost(127.0.0.1)\nSlurmctldPort={}\nSlurmUser={user}\n\
             SlurmdUser={user}\nAuthType=auth/munge\nAuthInfo=socket={root}/munge/socket,cred_expire=5\n\
             StateSaveLocation={root}/state\nSlurmdSpoolDir={root}/spool-%n\n\
             SlurmctldPidFile={root}/slurmctld.pid\nSlurmdPidFile={root}/%n.pid\n\
             SlurmctldLogFile={root}/slurmctld.log\nSlurmdLogFile={root}/%n.log\n\
             ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nSelectType=select/cons_tres\n\
             SelectTypeParameters=CR_CPU\nMpiDefault=none\nReturnToService=2\nSlurmdTimeout=10\nKillWait=2\n\
             JobAcctGatherType=jobacct_gather/none\nAccountingStorageType=accounting_storage/none\n",
            port(0)
        );
        for node in 0..NODES {
            fs::create_dir(self.path(&format!("spool-n{node}"))).unwrap();
            let port = port(node + 1);
            text.push_str(&format!(
                "NodeName=n{node} NodeHostname=localhost NodeAddr=127.0.0.1 Port={port} CPUs=1\n"
            ));
        }
        text.push_str("PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n");
        fs::write(self.path("slurm.conf"), text).unwrap();
    }

    fn daemon(&mut self, program: &str, name: &str, words: &[String]) {
        let mut command = Command::new(daemon(program).unwrap());
        command.args(words).env("SLURM_CONF", self.path("slurm.conf")).stdin(Stdio::null());
        let log = File::create(self.path(&format!("{name}.out"))).unwrap();
        let child = command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
        self.daemons.push((name.to_string(), child));
    }

    fn slurmctld(&mut self) {
        self.daemon("slurmctld", "slurmctld", &["-D".to_string()]);
    }

    fn end(&mut self, name: &str) {
        let at = self.daemons.iter().position(|(own, _)| own == name).unwrap();
        let (_, mut child) = self.daemons.remove(at);
        // SIGTERM makes it save its jobs.
        signal(child.id(), "-TERM");
        child.wait().unwrap();
    }

    /// The output of one of Slurm's programs.
    fn slurm(&self, program: &str, words: &[&str]) -> String {
        let mut command = Command::new(program);
        stdout(&command.args(words).env("SLURM_CONF", self.path("slurm.conf")).output().unwrap())
    }

    fn schedlab(&self, words: impl Words) -> Command {
        let mut command = self.home.command(words);
        command.env("SLURM_CONF", self.path("slurm.conf"));
        command
    }

    fn run(&self) -> Controller {
        let mut command = self.schedlab(RUN);
        command.args(["--db", "fleet.db", "--fleet", "slurm"]);
        Controller::start(command, &self.home)
    }

    /// The process of a task that has begun, stopped.
    fn stop_a_task(&self) -> u32 {
        let task =
            wait_for("a task", || self.processes(b"/schedlab\0fleet-task\0").first().copied());
        signal(task, "-STOP");
        task
    }

    /// Processes that know of this cluster and have a word in their command line.
    fn processes(&self, word: &[u8]) -> Vec<u32> {
        let own = self.home.path().as_os_str().as_encoded_bytes().to_vec();
        let has = |text: &[u8], part: &[u8]| text.windows(part.len()).any(|window| window == part);
        let is_any = word.is_empty();
        let pids = fs::read_dir("/proc").unwrap().flatten();
        let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let is_own = |pid: &u32| {
            let read = |file: &str| fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
            let line = read("cmdline");
            (has(&line, &own) || has(&read("environ"), &own)) && (is_any || has(&line, word))
        };
        pids.filter(is_own).filter(|pid| *pid != std::process::id()).collect()
    }

    fn queue(&self) -> String {
        self.slurm("squeue", &["--noheader"])
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if !self.daemons.is_empty() {
            self.slurm(
                "scancel",
                &["--state=RUNNING", "--full", "--signal=KILL", "--quiet", "--user", &me()],
            );
        }
        for (_, child) in &mut self.daemons {
            _ = child.kill();
            _ = child.wait();
        }
        // Processes that slurmd started outlive it.
        for pid in self.processes(b"") {
            _ = Command::new("kill").args(["-KILL", &pid.to_string()]).output();
        }
    }
}

fn me() -> String {
    stdout(&Command::new("id").arg("-un").output().unwrap()).trim().to_string()
}

/// A program's place; daemons are not on everybody's PATH.
fn daemon(name: &str) -> Option<PathBuf> {
    let places =
        ["/usr/sbin", "/usr/bin", "/sbin", "/bin"].map(|folder| Path::new(folder).join(name));
    places.into_iter().find(|place| place.is_file())
}

#[test]
fn a_cluster_gives_what_this_machine_gives_also_where_a_task_runs_twice() {
    let Some(cluster) = Cluster::start() else { return };
    let home = &cluster.home;
    plan(home, 60);
    let controller = cluster.run();
    let task = cluster.stop_a_task();
    let environment = fs::read(format!("/proc/{task}/environ")).unwrap();
    let mut variables = environment.split(|byte| *byte == 0).map(String::from_utf8_lossy);
    let job = variables.find_map(|one| Some(one.strip_prefix("SLURM_JOB_ID=")?.to_string()));
    let job = job.expect("a job");
    cluster.slurm("scontrol", &["requeue", &job]);
    // Slurm ends the first copy, and starts another one.
    let (status, said) = controller.end();
    assert!(status.success(), "{said}");
    let shown = cluster.slurm("scontrol", &["show", "job", &job]);
    assert!(shown.contains("Restarts=1"), "{shown}");
    assert_eq!(events(home, "fleet.db"), at_home(home));
    wait_for("nothing left with Slurm", || cluster.queue().is_empty().then_some(()));
    let left = fs::read_dir(home.at(".local/state/schedlab/fleet")).unwrap().count();
    assert_eq!(left, 0, "the folder of a plan that has ended is removed");
}

#[test]
fn an_interrupted_plan_is_cancelled_and_goes_on() {
    let Some(cluster) = Cluster::start() else {
        return;
    };
    let home = &cluster.home;
    plan(home, 60);
    let controller = cluster.run();
    cluster.stop_a_task();
    let id = wait_for("the plan", || {
        let plans = fs::read_dir(home.at(".local/state/schedlab/arrays")).ok()?;
        plans.flatten().next()?.file_name().into_string().ok()
    });
    let again = format!("run --resume {id} --db fleet.db --fleet slurm --quiet");
    let second = stderr(&ended(cluster.schedlab(&*again), 3));
    assert!(second.contains("another schedlab is running the plan"), "{second}");
    signal(controller.child.id(), "-INT");
    let (status, said) = controller.end();
    assert_eq!(status.code(), Some(130), "{said}");
    assert!(said.contains(&format!("--resume {id} --db fleet.db --fleet slurm")), "{said}");
    wait_for("the jobs' end", || cluster.queue().is_empty().then_some(()));
    done(cluster.schedlab(again));
    assert_eq!(run_events(&events(home, "fleet.db")), run_events(&at_home(home)));
}

/// The events of runs; those of the plan differ, because a resumed plan has begun twice.
fn run_events(events: &[Value]) -> Vec<Value> {
    events.iter().filter(|event| event["event"] == "run_ended").cloned().collect()
}

#[test]
fn a_slurmctld_that_is_restarted_is_waited_for() {
    let Some(mut cluster) = Cluster::start() else {
        return;
    };
    plan(&cluster.home, 60);
    let controller = cluster.run();
    let task = cluster.stop_a_task();
    cluster.end("slurmctld");
    controller.waits_until_said("warning: Slurm does not answer");
    cluster.slurmctld();
    controller.waits_until_said("it works again");
    signal(task, "-CONT");
    let (status, said) = controller.end();
    assert!(status.success(), "{said}");
    assert_eq!(events(&cluster.home, "fleet.db"), at_home(&cluster.home));
}

const HOSTS: &str = "run ./plan.toml --backend null --fleet slurm,exclusive --db=fleet.db";

#[test]
fn each_host_measures_the_whole_plan_and_goes_on_after_an_interruption() {
    let Some(cluster) = Cluster::start() else { return };
    let home = &cluster.home;
    plan(home, 400);
    let mut command = cluster.schedlab(HOSTS);
    command.args(["--rounds", "300"]);
    let controller = Controller::start(command, home);
    let hosts = wait_for("three hosts", || {
        let hosts = cluster.processes(b"/hosts/n");
        (hosts.len() == NODES).then_some(hosts)
    });
    signal(hosts[0], "-STOP");
    signal(controller.child.id(), "-INT");
    let (status, said) = controller.end();
    assert_eq!(status.code(), Some(130), "{said}");
    wait_for("the jobs' end", || cluster.queue().is_empty().then_some(()));
    let again = said.lines().find_map(|line| line.split_once("schedlab run ")).expect(&said).1;
    assert!(again.ends_with(" --db fleet.db --fleet slurm,exclusive"), "{again}");
    let resumed = cluster.schedlab(format!("run {again}")).output().unwrap();
    let said = stderr(&resumed);
    assert!(said.contains("n2: "), "{said}");
    let list = home.ok("list runs --db fleet.db");
    assert_eq!(list.matches("300/300").count(), NODES, "{list}");
    assert_eq!(list.matches("fleet-").count(), NODES, "{list}");
    // The nodes are one machine, and count here as one draw.
    assert!(stdout(&resumed).contains("over 1 host"), "{}{said}", stdout(&resumed));
    let left = fs::read_dir(home.at(".local/state/schedlab/fleet")).unwrap().count();
    assert_eq!(left, 0, "the folder of a fleet that has ended is removed");
}

/// Stubs of Slurm's programs, which note how they are called.
struct Stubs {
    home: Home,
}

/// Notes the call, and sets `last` to the last task of an array that is not only a test.
const SBATCH: &str = r#"echo "sbatch $*" >>CALLS
for word; do
    case $word in
    --test-only) exit 0 ;;
    --array=0-*) last=${word#--array=0-} last=${last%"%"*} ;;
    esac
done
while [ $# -gt 4 ]; do shift; done
SUBMIT
echo 7"#;

/// Makes each task, once for each restart count of RESTARTS.
const MAKES_TASKS: &str = r#"for restart in $RESTARTS; do
    task=0
    while [ "$task" -le "$last" ]; do
        SLURM_ARRAY_TASK_ID=$task SLURM_RESTART_COUNT=$restart SLURMD_NODENAME=stub \
            sh "$1" "$2" "$3" "$4" >>"$2/output/$4-$task" 2>&1
        task=$((task + 1))
    done
done"#;

impl Stubs {
    /// `submit` is what sbatch does with an array whose last task is `$last`, except in a test.
    fn new(submit: &str) -> Stubs {
        let home = Home::new();
        fs::create_dir(home.at("bin")).unwrap();
        let stubs = Stubs { home };
        let calls = stubs.path("calls").display().to_string();
        let script = SBATCH.replace("CALLS", &calls).replace("SUBMIT", submit);
        stubs.put("sbatch", &script);
        ["sinfo", "scontrol"].iter().for_each(|name| stubs.put(name, "exit 1"));
        stubs
            .put("squeue", &format!("cat '{}' 2>/dev/null; exit 0", stubs.path("queue").display()));
        stubs.put("scancel", &format!("echo \"scancel $*\" >>'{calls}'"));
        plan(&stubs.home, 2);
        stubs
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.at(name)
    }

    fn put(&self, name: &str, script: &str) {
        write_script(&self.path("bin").join(name), script);
    }

    fn schedlab(&self, words: impl Words) -> Command {
        let mut command = self.home.command(words);
        command.env("PATH", format!("{}:/usr/bin:/bin", self.path("bin").display()));
        command
    }

    fn run(&self, more: &[&str]) -> Command {
        self.asked("slurm", more)
    }

    fn asked(&self, fleet: &str, more: &[&str]) -> Command {
        let mut command = self.schedlab(RUN);
        command.args(["--db", "fleet.db", "--fleet", fleet]).args(more);
        command
    }

    /// Number of submitted arrays.
    fn arrays(&self) -> usize {
        let calls = self.calls();
        let submits = |call: &&str| call.starts_with("sbatch") && !call.contains("--test-only");
        calls.lines().filter(submits).count()
    }

    fn calls(&self) -> String {
        fs::read_to_string(self.path("calls")).unwrap_or_default()
    }

    /// The folder of the only running plan, once its first array is submitted.
    fn submitted(&self) -> PathBuf {
        wait_for("an array", || {
            let is_submitted = self.arrays() > 0;
            let mut plans = fs::read_dir(self.path(".local/state/schedlab/fleet")).ok()?.flatten();
            is_submitted.then(|| plans.next().map(|plan| plan.path()))?
        })
    }
}

#[test]
fn a_task_that_ran_twice_counts_once() {
    let stubs = Stubs::new(MAKES_TASKS);
    // The later copy answers before the earlier one, which then answers everything again.
    let run = stubs
        .asked("slurm,nodes=2,partition=a b", &["--", "--time=5"])
        .env("RESTARTS", "1 0")
        .output();
    done(run.unwrap());
    assert_eq!(events(&stubs.home, "fleet.db"), at_home(&stubs.home));
    let calls = stubs.calls();
    let array = calls.lines().find(|call| !call.contains("--test-only")).unwrap();
    for option in ["--time=5 --partition=a b ", " --array=0-0%2 ", " --requeue ", " --exclusive "] {
        assert!(array.contains(option), "{array}");
    }
    assert!(calls.lines().last().unwrap().starts_with("scancel --name=schedlab-20"), "{calls}");
}

/// A line as tasks write it.
fn line(subject: &str, json: &str) -> String {
    let mut hash = Sha256::new();
    for part in [subject, json] {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    let sum: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{sum} {subject} {json}")
}

/// The lines that the first task of a plan writes, made without the plan's knowledge.
fn answers_elsewhere(stubs: &Stubs, folder: &Path) -> Vec<String> {
    let elsewhere = stubs.path("elsewhere");
    let array = elsewhere.join("array-1");
    [&array, &elsewhere.join("answers")].iter().for_each(|path| fs::create_dir_all(path).unwrap());
    for file in ["job.json", "0.json"] {
        fs::copy(folder.join("array-1").join(file), array.join(file)).unwrap();
    }
    let mut task = stubs.schedlab(&["fleet-task", elsewhere.to_str().unwrap(), "1"]);
    done(task.env("SLURM_ARRAY_TASK_ID", "0").env("SLURMD_NODENAME", "n1"));
    let text = fs::read_to_string(elsewhere.join("answers/1-0.0")).unwrap();
    text.lines().map(str::to_string).collect()
}

#[test]
fn answers_that_differ_are_an_alarm_and_both_are_kept() {
    let stubs = Stubs::new("");
    let home = &stubs.home;
    let controller = Controller::start(stubs.run(&[]), home);
    let folder = stubs.submitted();
    let name = folder.file_name().unwrap().to_str().unwrap().to_string();
    fs::write(stubs.path("queue"), format!("schedlab-{name}.1|0|R|None\n")).unwrap();
    let answers = answers_elsewhere(&stubs, &folder);
    let (last, all) = answers.split_last().unwrap();
    let mut words = all[1].splitn(3, ' ').skip(1);
    let (subject, json) = (words.next().unwrap(), words.next().unwrap());
    let other = json.replacen("\"measured_ns\":1000000000", "\"measured_ns\":1000000001", 1);
    assert_ne!(json, other);
    let mut forged = all.to_vec();
    forged[1] = line(subject, &other);
    for (lines, copy) in [(&forged[..], "1-0.1"), (all, "1-0.0")] {
        fs::write(stubs.path("new"), lines.join("\n") + "\n").unwrap();
        fs::rename(stubs.path("new"), folder.join("answers").join(copy)).unwrap();
    }
    controller.waits_until_said("ALARM: different answers for one run");
    fs::write(folder.join("answers/1-0.2"), format!("{last}\n")).unwrap();
    let (status, said) = controller.end();
    assert_eq!(status.code(), Some(3), "{said}");
    assert!(said.contains("error: two nodes gave different answers"), "{said}");
    assert!(folder.join("answers/1-0.0").exists() && folder.join("answers/1-0.1").exists());
    let show = home.ok(format!("show {} --db fleet.db", id(home, "fleet.db")));
    assert!(show.contains("two nodes gave"), "{show}");
}

#[test]
fn what_slurm_does_not_take_is_an_error_before_anything_runs() {
    let refuses = "printf 'sbatch: error: invalid partition specified: \\033[2Jx\\n' >&2; exit 1";
    let stubs = Stubs::new("");
    stubs.put("sbatch", refuses);
    let said = stderr(&ended(stubs.asked("slurm,partition=x", &[]), 3));
    assert!(said.contains("sbatch: error: invalid partition specified: \\u{1b}[2Jx"), "{said}");
    let left = fs::read_dir(stubs.path(".local/state/schedlab/fleet")).unwrap().count();
    assert_eq!(left, 0, "nothing was submitted");
    fs::remove_file(stubs.path("bin/sbatch")).unwrap();
    let mut run = stubs.run(&[]);
    // The real programs may be on the PATH.
    let said = stderr(&ended(run.env("PATH", stubs.path("bin")), 3));
    assert!(
        said.contains("there is no `sbatch` on the PATH") && said.contains("slurm-client"),
        "{said}"
    );
    let list = stdout(&stubs.home.call("list runs --db fleet.db"));
    assert!(!list.contains("fleet"), "{list}");
    for (more, text) in [
        (["--fleet", "slurm"].as_slice(), "--fleet slurm,exclusive measures"),
        (
            &["--fleet", "slurm", "--backend", "null", "--", "--wrap=x"],
            "sets sbatch's option --wrap",
        ),
        (
            &["--fleet", "slurm", "--backend", "null", "--", "x.sh"],
            "`x.sh` is not an option of sbatch",
        ),
        (&["--nodes", "2"], "hint: --fleet slurm,nodes=8"),
        (&["--exclusive"], "hint: --fleet slurm,exclusive"),
        (&["--fleet", "slurm,exclusive", "--against", "last"], "--against is not for"),
        (&["--fleet", "slurm,exclusive", "--backend", "lab"], "without exclusive"),
        (&["--fleet", "slurm,exclusive", "--", "-n4"], "sets sbatch's option -n"),
        (&["--fleet", "slurm,exclusive", "--rounds", "0"], "--rounds"),
    ] {
        let run = ended(stubs.schedlab("run ./plan.toml").args(more), 2);
        assert!(stderr(&run).contains(text), "{}", stderr(&run));
    }
}

#[test]
fn runs_that_no_task_answers_are_missing_in_the_end() {
    let stubs = Stubs::new("printf 'no room on \\033[2Jthis node\\n' >\"$2/output/$4-0\"");
    let said = stderr(&ended(stubs.run(&[]), 3));
    assert!(
        said.contains("which are submitted again")
            && said.contains("no room on \\u{1b}[2Jthis node"),
        "{said}"
    );
    assert!(said.contains("12 runs are missing") && said.contains("3 tasks have ended"), "{said}");
    assert!(said.contains("\nhint: schedlab run --resume "), "{said}");
    assert_eq!(run_events(&events(&stubs.home, "fleet.db")).len(), 0);
    assert_eq!(stubs.arrays(), 3);
}

#[test]
fn a_host_that_can_measure_nothing_says_why() {
    let job = "SLURMD_NODENAME=n1 sh \"$2\" \"$3\" \"$4\" >>\"${1#--output=}\" 2>&1";
    let stubs = Stubs::new(job);
    stubs.put("sinfo", "echo 'n1|idle'");
    let plan = "schema = 1\n[measure]\nrounds = 1\nduration = \"10ms\"\nwarmup = \"0s\"\n\
                [[workload]]\nuse = \"command\"\ncommand = [\"false\"]\n";
    fs::write(stubs.path("plan.toml"), plan).unwrap();
    let words = "run ./plan.toml --fleet slurm,exclusive --db fleet.db";
    let said = stderr(&ended(stubs.schedlab(words), 3));
    assert!(said.contains("n1 has measured nothing: "), "{said}");
    assert!(said.contains("no run could be measured") && said.contains("exit status"), "{said}");
    assert!(!said.contains("has not finished"), "{said}");
}

#[test]
fn the_folder_of_a_killed_controller_that_submitted_nothing_is_removed() {
    let stubs = Stubs::new("");
    // sbatch is asked whether it would take the job, and does not return.
    let made = stubs.path("made");
    let block = format!("--test-only) touch '{}'; exec sleep 50 ;;", made.display());
    let text = fs::read_to_string(stubs.path("bin/sbatch")).unwrap();
    stubs.put("sbatch", &text.replace("--test-only) exit 0 ;;", &block));
    let mut controller = Controller::start(stubs.run(&[]), &stubs.home);
    wait_for("sbatch", || made.exists().then_some(()));
    controller.child.kill().unwrap();
    controller.child.wait().unwrap();
    let folders = || fs::read_dir(stubs.path(".local/state/schedlab/fleet")).unwrap().count();
    assert_eq!(folders(), 1);
    let restored = stdout(&stubs.schedlab("restore").output().unwrap());
    assert!(restored.contains("of a killed run that had submitted nothing: removed"), "{restored}");
    assert_eq!(folders(), 0);
    let again = stdout(&stubs.schedlab("restore").output().unwrap());
    assert!(again.starts_with("nothing to restore"), "{again}");
}

#[test]
fn what_a_killed_controller_left_is_cancelled_and_its_answers_count() {
    let stubs = Stubs::new(MAKES_TASKS);
    let home = &stubs.home;
    // sbatch has made the task, and does not return.
    let block = format!("{MAKES_TASKS}\ntouch '{}'\nexec sleep 50", stubs.path("made").display());
    let text = fs::read_to_string(stubs.path("bin/sbatch")).unwrap();
    stubs.put("sbatch", &text.replace(MAKES_TASKS, &block));
    let mut run = stubs.run(&[]);
    run.env("RESTARTS", "0");
    let mut controller = Controller::start(run, home);
    wait_for("the task's end", || stubs.path("made").exists().then_some(()));
    controller.child.kill().unwrap();
    controller.child.wait().unwrap();
    let restore = stubs.schedlab("restore").output().unwrap();
    assert!(stdout(&restore).contains("of a killed run: cancelled"), "{restore:?}");
    assert!(stubs.calls().lines().last().unwrap().starts_with("scancel --name=schedlab-20"));
    let id = id(home, "fleet.db");
    done(stubs.schedlab(format!("run --resume {id} --db fleet.db --fleet slurm --quiet")));
    assert_eq!(run_events(&events(home, "fleet.db")), run_events(&at_home(home)));
    assert_eq!(stubs.arrays(), 1, "all was answered by then");
}
