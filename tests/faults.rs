//! Faults in the middle of a run: workers and runners that die or hang, signals. Real processes; every wait
//! is for a condition.

use std::fs::File;
use std::process::{Child, Command, Output, Stdio};

use crate::home::Home;
use crate::pools;
use crate::support::{
    assert_gone, catches_term, done, ended, joined, metric, outcomes, signal, skip, stderr, stdout,
    wait_for,
};

/// A plan of one workload, with runs that last until something ends them.
pub fn endless(workload: &str) -> String {
    plan("duration = \"60s\"\nwindow = \"20ms\"\ngrace = \"100ms\"", workload)
}

fn plan(measure: &str, workload: &str) -> String {
    format!(
        "schema = 1\n[measure]\nrounds = 1\nwarmup = \"0s\"\n{measure}\n[[workload]]\n{workload}\n"
    )
}

pub fn start(home: &Home, plan: &str) -> Child {
    home.write("plan.toml", plan);
    spawn(home.command("run ./plan.toml"))
}

fn spawn(mut command: Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn run(home: &Home, plan: &str) -> Output {
    start(home, plan).wait_with_output().unwrap()
}

fn children(pid: u32) -> Vec<u32> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    text.unwrap_or_default().split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

/// The process group of a process.
fn group_of(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(2)?.parse().ok()
}

/// The runner of a schedlab process, once it has started `workers` threads or processes.
pub fn runner(schedlab: u32, workers: usize) -> u32 {
    wait_for("the runner's workers", || {
        let runner = *children(schedlab).first()?;
        // One that ends has no thread left.
        let threads =
            std::fs::read_dir(format!("/proc/{runner}/task")).ok()?.count().checked_sub(1)?;
        (threads + children(runner).len() >= workers).then_some(runner)
    })
}

/// Checks that the only run failed, and returns the text with the reason.
fn failure(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let text = stdout(output);
    assert!(text.contains("failed"), "{text}");
    joined(&text)
}

/// Kills a part of a run, and again when the run is repeated. `part` returns the process to kill, given a
/// runner and the number of its workers; no worker may be left. Returns the killed processes and schedlab's
/// output.
fn killed_twice(
    home: &Home,
    plan: &str,
    workers: usize,
    part: fn(u32) -> u32,
) -> ([u32; 2], Output) {
    let schedlab = start(home, plan);
    let (mut before, mut all_workers) = (0, Vec::new());
    let parts = [(); 2].map(|()| {
        let new = wait_for("a new runner", || {
            let runner = runner(schedlab.id(), workers);
            (runner != before).then_some(runner)
        });
        before = new;
        all_workers.extend(children(new));
        let part = part(new);
        signal(part, "-KILL");
        part
    });
    let output = schedlab.wait_with_output().unwrap();
    all_workers.into_iter().for_each(assert_gone);
    (parts, output)
}

/// Checks that a run is missing, and that `--resume` makes it.
fn assert_missing(home: &Home, output: &Output, why: &str) {
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let said = stderr(output);
    assert!(said.contains("error: 1 run is missing") && said.contains(why), "{said}");
    assert!(said.contains("; the run is made again\n"), "{said}");
    let command = said.rsplit_once("hint: schedlab ").expect("a command").1;
    let resumed = spawn(home.command(command));
    self::runner(resumed.id(), 1);
    signal(resumed.id(), "-INT");
    assert_eq!(resumed.wait_with_output().unwrap().status.code(), Some(130));
}

#[test]
fn a_run_whose_worker_process_is_killed_twice_is_missing() {
    let home = Home::new();
    let plan = endless("use = \"spin\"\ncount = 2\nworkers = \"processes\"");
    let ([_, worker], output) = killed_twice(&home, &plan, 2, |runner| children(runner)[1]);
    let reason = format!("worker 1 (spin) of spin (pid {worker}) was killed by signal 9");
    assert_missing(&home, &output, &reason);
}

#[test]
fn a_run_whose_runner_is_killed_twice_is_missing() {
    let home = Home::new();
    let plan = endless("use = \"spin\"\nworkers = \"processes\"");
    let (_, output) = killed_twice(&home, &plan, 1, |runner| runner);
    assert_missing(&home, &output, "the runner died: signal: 9");
}

#[test]
fn a_runner_that_hangs_is_killed_at_its_limit() {
    let home = Home::new();
    let short = plan("duration = \"200ms\"\ngrace = \"300ms\"", "use = \"spin\"");
    let schedlab = start(&home, &short.replace("200ms", "600ms"));
    let runner = runner(schedlab.id(), 1);
    signal(runner, "-STOP");
    let output = schedlab.wait_with_output().unwrap();
    assert!(
        failure(&output)
            .contains("no result within 900ms, which are its warm-up, duration and grace: killed"),
        "{}",
        stdout(&output)
    );
    assert_gone(runner);
}

#[test]
fn an_interrupt_leaves_a_resumable_plan_and_no_process() {
    let home = Home::new();
    let schedlab_process = start(&home, &endless("use = \"spin\"\ncount = 3"));
    let runner = runner(schedlab_process.id(), 3);
    signal(schedlab_process.id(), "-INT");
    let output = ended(schedlab_process.wait_with_output().unwrap(), 130);
    let said = stderr(&output);
    assert!(said.contains("hint: schedlab run --resume"), "{said}");
    assert_gone(runner);
    let resumed = spawn(home.command("run --resume --quiet"));
    self::runner(resumed.id(), 3);
    signal(resumed.id(), "-TERM");
    assert_eq!(resumed.wait_with_output().unwrap().status.code(), Some(130));
}

/// Two signals at once: the second comes before the first one has an effect.
#[test]
fn a_second_signal_ends_it_at_once_and_names_what_undoes_the_changes() {
    let pool = "[placement]\npool = \"faults\"\ncpus = \"0\"\n";
    // The nice value ends with its task.
    let mut cases = vec![("[[variant]]\nname = \"v\"\nnice = 1\n", false), ("", false)];
    if pools::may_make_a_cpuset() {
        cases.push((pool, true));
    } else {
        skip("privilege to make a cpuset");
    }
    for (more, has_changes) in cases {
        let home = Home::new();
        let plan = format!("{}{more}", endless("use = \"spin\""));
        let schedlab = start(&home, &plan);
        let runner = runner(schedlab.id(), 1);
        signal(schedlab.id(), "-STOP");
        signal(schedlab.id(), "-INT");
        signal(schedlab.id(), "-TERM");
        signal(schedlab.id(), "-CONT");
        let output = ended(schedlab.wait_with_output().unwrap(), 130);
        let said = stderr(&output);
        assert_eq!(said.contains("second signal"), has_changes, "{said}");
        assert_eq!(said.ends_with("hint: schedlab restore\n"), has_changes, "{said}");
        assert!(!said.contains("--resume"), "it was not at once: {said}");
        assert_gone(runner);
        let restored = home.ok("restore");
        assert_eq!(restored.starts_with("nothing to restore"), !has_changes, "{restored}");
    }
}

#[test]
fn a_run_that_failed_leaves_no_process_that_counts_against_the_limits_of_the_next() {
    let home = Home::new();
    let workload = "use = \"spin\"\ncount = 200\nworkers = \"processes\"";
    // Long enough for all workers to be seen on a busy machine.
    let text = plan("duration = \"1s\"\nwindow = \"1s\"", workload);
    let text = text.replace("rounds = 1", "rounds = 2");
    let schedlab = start(&home, &text);
    let first = runner(schedlab.id(), 200);
    signal(first, "-KILL");
    wait_for("the next runner", || {
        let leads = |child: &u32| *child != first && group_of(*child) == Some(*child);
        children(schedlab.id()).into_iter().find(leads)
    });
    // When the next run begins, no process of the previous one is left, dead or alive.
    let left = children(schedlab.id()).into_iter().filter(|child| group_of(*child) == Some(first));
    assert_eq!(left.collect::<Vec<_>>(), [0; 0], "of runner {first}");
    schedlab.wait_with_output().unwrap();
}

#[test]
fn what_nohup_ignores_stays_ignored() {
    let home = Home::with_plan(plan("duration = \"800ms\"", "use = \"spin\""));
    let script = format!("trap '' HUP; exec {} run ./plan.toml", env!("CARGO_BIN_EXE_schedlab"));
    let mut shell = Command::new("sh");
    shell.args(["-c", &script]).env("HOME", home.path()).current_dir(home.path());
    let process = spawn(shell);
    runner(process.id(), 1);
    signal(process.id(), "-HUP");
    done(process.wait_with_output().unwrap());
}

#[test]
fn a_runner_ends_at_its_limit_while_schedlab_is_stopped() {
    let home = Home::new();
    // One window's message is larger than a pipe.
    let workload = "use = \"burnwait\"\nqueue = [\"burn 1\", \"wait 50ms\"]\ncount = 1500";
    // Long enough to be seen on a busy machine.
    let schedlab = start(&home, &plan("duration = \"4s\"\ngrace = \"100ms\"", workload));
    let runner = runner(schedlab.id(), 1500);
    // Nothing reads the pipe, so the measuring thread waits without end.
    signal(schedlab.id(), "-STOP");
    assert_gone(runner);
    signal(schedlab.id(), "-CONT");
    schedlab.wait_with_output().unwrap();
}

#[test]
fn two_do_not_measure_each_other() {
    let home = Home::new();
    let mut first = start(&home, &endless("use = \"spin\""));
    runner(first.id(), 1);
    let said = home.says(3, "run smoke");
    assert!(said.contains("another schedlab is measuring"), "{said}");
    // An option that is wrong in any case does not wait for the machine.
    for wrong in
        ["--margin nonesuch=3%", "--metric nonesuch", "--variant a:nonesuch=1", "--rounds 0"]
    {
        let said = home.says(2, format!("run smoke {wrong}"));
        assert!(!said.contains("another schedlab"), "{wrong}: {said}");
    }
    first.kill().unwrap();
    first.wait().unwrap();
    home.ok("run smoke");
}

#[test]
fn killing_schedlab_ends_runner_and_workers() {
    let home = Home::new();
    let workload = "use = \"pipe\"\ncount = 2\nworkers = \"processes\"";
    let mut schedlab = start(&home, &endless(workload));
    let runner = runner(schedlab.id(), 4);
    let workers = children(runner);
    schedlab.kill().unwrap();
    schedlab.wait().unwrap();
    workers.into_iter().chain([runner]).for_each(assert_gone);
}

#[test]
fn every_workload_runs_as_threads_and_where_it_can_as_processes() {
    let specs = schedlab::workload::registry().iter().map(|workload| workload.spec());
    // Programs are processes anyway: tests/commands.rs.
    for workload in specs.filter(|spec| !spec.runs_programs).map(|spec| spec.name) {
        for workers in ["threads", "processes"] {
            let home = Home::new();
            let text = plan(
                "duration = \"300ms\"\nwindow = \"100ms\"",
                &format!("use = \"{workload}\"\nworkers = \"{workers}\""),
            );
            let output = run(&home, &text);
            let refused = stderr(&output).contains("threads");
            match output.status.code() {
                Some(0) => {
                    let run = outcomes(home.path(), "last").swap_remove(0);
                    let throughput = metric(&run, 0, "throughput");
                    assert!(throughput >= 0.0, "{workload} {workers}: {throughput}");
                }
                Some(2) if workers == "processes" && refused => {}
                _ => panic!("{workload} as {workers}: {output:?}"),
            }
        }
    }
}

#[test]
fn a_worker_set_that_cannot_start_says_why() {
    let home = Home::new();
    let workload = "use = \"forkexec\"\nhow = \"exec\"\nprogram = \"/there/is/none\"";
    let output = run(&home, &plan("duration = \"100ms\"", workload));
    assert!(failure(&output).contains("/there/is/none"), "{}", stdout(&output));
}

/// Pipes without another end, and pipes whose other end does nothing.
#[test]
fn a_signal_ends_the_wait_for_the_other_end_of_a_pipe() {
    let home = Home::new();
    home.write("trace.txt", crate::capture::trace());
    let pipe = home.at("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for (words, has_end) in [
        ("capture --from pipe -o own.toml", false),
        ("capture --from pipe -o own.toml", true),
        ("hunt --confirm pipe", false),
        ("hunt --confirm pipe", true),
        ("capture --from trace.txt -o pipe", false),
    ] {
        let _end = has_end.then(|| File::options().read(true).write(true).open(&pipe).unwrap());
        let schedlab = spawn(home.command(words));
        let pid = schedlab.id();
        wait_for("it to wait for the pipe", || {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            (catches_term(pid) && stat.rsplit_once(") ")?.1.starts_with('S')).then_some(())
        });
        signal(pid, "-TERM");
        assert_gone(pid);
        let said = stderr(&ended(schedlab.wait_with_output().unwrap(), 130));
        assert_eq!(said.matches("error").count(), 0, "{words}: {said}");
        assert!(!home.at("own.toml").exists());
    }
}
