//! Variants that take turns inside one run, as they run on this machine.

use std::cell::RefCell;
use std::process::{Command, Stdio};

use schedlab::sys::sched::{self, Attr, Policy};
use serde_json::Value;

use crate::home::Home;
use crate::strace;
use crate::support::{ended, joined, metric, stderr, wait_for};

fn write_plan(home: &Home, block: &str, duration: &str, kind: &str) {
    let plan = format!(
        "schema = 1\n[measure]\nrounds = 2\nduration = \"{duration}\"\nwarmup = \"10ms\"\n\
         window = \"50ms\"\nrepeat-spoilt = false\nturns = \"{block}\"\n\
         [[variant]]\nname = \"default\"\n[[variant]]\nname = \"batch\"\npolicy = \"batch\"\n\
         [[workload]]\nuse = \"pipe\"\nworkers = \"{kind}\"\n"
    );
    home.write("plan.toml", plan);
}

#[test]
fn each_variant_has_a_result_of_its_own_by_the_time_that_counts() {
    for kind in ["threads", "processes"] {
        let home = Home::new();
        // Long enough for some operations in each half of the blocks on a machine that does much else.
        write_plan(&home, "250ms", "1s", kind);
        home.ok("run -q plan.toml");
        let events = home.events("last");
        let ended: Vec<&Value> =
            events.iter().filter(|event| event["event"] == "run_ended").collect();
        assert_eq!(ended.len(), 4, "two rounds of two variants");
        for run in ended {
            let (key, done) = (&run["key"], &run["outcome"]);
            let result = &done["result"];
            let workers = result["sets"][0]["workers"].as_array().expect("it was measured");
            let (ops, wall_ns) =
                (workers[0]["ops"].as_u64().unwrap(), workers[0]["wall_ns"].as_u64().unwrap());
            assert!(ops > 0 && wall_ns > 0, "{kind}: {workers:?}");
            assert!(wall_ns <= 1_000_000_000, "the washout does not count: {wall_ns}");
            let rate = ops as f64 * 1e9 / wall_ns as f64;
            let throughput = metric(done, 0, "throughput");
            assert!((rate / throughput - 1.0).abs() < 1e-6, "{rate} for {throughput}");
            let late_to_early = metric(done, 0, "late_to_early");
            // Other processes that come in a half move it far from 1.
            assert!(late_to_early.is_finite() && late_to_early > 0.0, "{late_to_early}");
            // The histogram has the latencies of the same time: one a round trip for each worker.
            let counts = result["sets"][0]["histograms"][0]["counts"].as_array().unwrap();
            let samples: u64 = counts.iter().map(|of| of[1].as_u64().unwrap()).sum();
            assert!(samples > 0, "{kind}");
            // The windows are the parts of the whole.
            let windows = events.iter().filter(|event| event["key"] == *key);
            let parts = windows.filter_map(|event| event["window"]["workers"][0]["ops"].as_u64());
            assert_eq!(parts.sum::<u64>(), ops, "{kind}");
            let knobs = result["knobs"].to_string();
            assert_eq!(knobs.contains("\"policy\""), key["cell"] == 1, "{knobs}");
            assert!(knobs.contains("\"switch\""), "{knobs}");
        }
        let report = joined(&home.ok("report last -v"));
        assert!(report.contains("in turns of 250ms inside one run, a switch takes"), "{report}");
    }
}

/// A block of 60 ms counts 4.8 periods: a worker in step with the blocks answers four in each.
#[test]
fn releases_that_the_ends_of_blocks_cut_off_are_no_misses() {
    let home = Home::new();
    write_plan(&home, "60ms", "1s", "threads");
    let jobs = home.read("plan.toml").replace(
        "use = \"pipe\"\nworkers = \"threads\"\n",
        "use = \"deadline\"\ncount = 8\nperiod = \"10ms\"\nwork = \"100us\"\n",
    );
    home.write("plan.toml", jobs);
    home.ok("run -q plan.toml --rounds 1");
    let events = home.events("last");
    let ended = events.iter().filter(|event| event["event"] == "run_ended");
    let known = ended.map(|run| metric(&run["outcome"], 0, "tolerance"));
    assert_eq!(known.count(), 2, "one of each variant");
}

/// Changes a worker until the run notices, at the end of a block.
fn fails_once_changed(knob: &str, change: impl Fn(i32)) {
    let home = Home::new();
    write_plan(&home, "50ms", "30s", "threads");
    let messages = std::fs::File::create(home.at("messages")).unwrap();
    let mut run = home.command("run -q plan.toml --rounds 1");
    let run = run.stdout(Stdio::null()).stderr(messages).spawn().unwrap();
    let tid = wait_for("a worker", || worker_below(run.id()));
    let run = RefCell::new(run);
    let status = wait_for("the end", || {
        change(tid);
        run.borrow_mut().try_wait().unwrap()
    });
    assert_eq!(status.code(), Some(3));
    let reason = home.read("messages");
    let expected = format!("no longer has its variant's `{knob}`");
    assert!(reason.contains(&expected), "{knob}: {reason}");
}

#[test]
fn a_worker_that_something_else_changes_fails_the_run_with_the_knob() {
    fails_once_changed("nice", |tid| _ = sched::set_nice(tid, 7));
    if sched::attr(0).is_ok_and(|own| own.runtime_ns > 0) {
        // The policy may be of either variant.
        let slice = Attr { flags: sched::KEEP_POLICY, runtime_ns: 7_000_000, ..Attr::default() };
        fails_once_changed("slice", |tid| _ = sched::set_attr(tid, &slice));
    } else {
        eprintln!("skipped: a_worker_that_something_else_changes needs kernel Linux 6.12");
    }
}

/// An operation fits in the washout on a CPU of its own, and takes ten times as long here.
#[test]
fn a_run_in_which_switches_cut_operations_fails() {
    let home = Home::new();
    write_plan(&home, "100ms", "200ms", "threads");
    let crowded = home.read("plan.toml").replace(
        "use = \"pipe\"\nworkers = \"threads\"\n",
        "use = \"spin\"\nwork = \"15ms\"\ncount = 10\n[placement]\ncpus = \"0\"\n",
    );
    home.write("plan.toml", crowded);
    let said = joined(&home.both(3, "run plan.toml --rounds 1"));
    assert!(said.contains("switches between variants cut"), "{said}");
    // Ten workers of 15 ms share a CPU. A block of 80 ms may see the ends of ten that began before, and of five more:
    // so one takes 50 ms at least, and a fifth of the block four of them.
    let turns = said.split("turns = \"").nth(1).expect(&said).split('"').next().unwrap();
    let block_ns = schedlab::model::duration_ns(turns).expect(&said);
    assert!(block_ns >= 1_000_000_000, "{said}");
}

#[test]
fn a_knob_is_read_on_a_set_that_has_none_of_its_own() {
    let home = Home::new();
    write_plan(&home, "50ms", "100ms", "threads");
    let sets = home.read("plan.toml").replace(
        "use = \"pipe\"\nworkers = \"threads\"\n",
        "name = \"two\"\n[[workload.set]]\nname = \"own\"\nuse = \"spin\"\nknobs = { policy = \"other\" }\n\
         [[workload.set]]\nname = \"free\"\nuse = \"spin\"\n",
    );
    home.write("plan.toml", sets);
    home.ok("run -q plan.toml --rounds 1");
    let events = home.events("last");
    let batch =
        events.iter().find(|event| event["event"] == "run_ended" && event["key"]["cell"] == 1);
    let knobs = batch.expect("it ran")["outcome"]["result"]["knobs"].as_array().unwrap().clone();
    let policy = knobs.iter().find(|knob| knob["knob"] == "policy").expect("it was read");
    assert!(policy.to_string().matches("batch").count() == 2, "asked and got: {policy}");
}

#[test]
fn a_run_in_turns_that_is_killed_in_a_block_leaves_no_worker_and_is_resumed() {
    let home = Home::new();
    write_plan(&home, "50ms", "1s", "threads");
    let mut run = home.command("run -q plan.toml --rounds 1");
    let mut run = run.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let tid = wait_for("a worker", || worker_below(run.id()));
    let is_batch = |now: Attr| now.policy == Policy::Batch.number();
    wait_for("a block of batch", || sched::attr(tid).is_ok_and(is_batch).then_some(()));
    run.kill().unwrap();
    run.wait().unwrap();
    wait_for("the worker's end", || sched::attr(tid).is_err().then_some(()));
    home.ok("list runs");
    home.ok("run -q --resume");
    let ended = |event: &&Value| event["event"] == "run_ended";
    assert_eq!(home.events("last").iter().filter(ended).count(), 2, "one round of two variants");
}

/// A worker of the runner that this process started.
fn worker_below(parent: u32) -> Option<i32> {
    let children = |pid: &str| {
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?;
        let of = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("children"));
        let all: Vec<String> = tasks.flatten().filter_map(|task| of(task).ok()).collect();
        all.concat().split_whitespace().next().map(str::to_string)
    };
    let runner = children(&parent.to_string())?;
    let tasks = std::fs::read_dir(format!("/proc/{runner}/task")).ok()?;
    let is_worker = |task: &std::fs::DirEntry| {
        let name = std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
        name.trim() == "ping"
    };
    let worker = tasks.flatten().find(is_worker)?;
    worker.file_name().to_str()?.parse().ok()
}

/// The trial takes all variants; it is a block that the kernel refuses, of each run.
#[test]
fn a_setting_that_the_kernel_refuses_in_a_block_fails_the_run_with_the_knob() {
    if !strace::works() {
        return;
    }
    let home = Home::new();
    write_plan(&home, "1s", "2s", "threads");
    // Three switches of two workers are the trial.
    let inject = "inject=sched_setattr:error=EPERM:when=9";
    let plain = home.command("run -q plan.toml");
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-o", "/dev/null", "-e", inject]);
    command.arg(plain.get_program()).args(plain.get_args()).current_dir(home.at(""));
    let values = plain.get_envs().filter_map(|(name, value)| Some((name, value?)));
    let output = command.env_clear().envs(values).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    let reason = stderr(&output);
    // The seed says whose block is the first.
    assert!(reason.contains("knob `policy`") && reason.contains("was refused (EPERM"), "{reason}");
    assert!(reason.contains("no run could be measured"), "{reason}");
}

#[test]
fn what_cannot_take_turns_is_refused_before_anything_runs() {
    let home = Home::new();
    write_plan(&home, "50ms", "80ms", "threads");
    let said = home.says(2, "run plan.toml");
    assert!(said.contains("needs 2 blocks of 50ms"), "{said}");
}

/// A variant under a policy that cannot be left without privilege, and a duration that is not whole blocks.
#[test]
fn a_dry_run_says_what_turns_cannot_be_and_what_they_cut() {
    let home = Home::new();
    write_plan(&home, "50ms", "220ms", "threads");
    let expected =
        "variants in turns of 50ms inside one run, 200ms of each, for 220ms is not whole blocks";
    let shown = joined(&home.ok("run --dry-run plan.toml"));
    assert!(shown.contains(expected), "{shown}");

    let batch = home.read("plan.toml");
    for (knob, why) in [
        ("policy = \"idle\"", "policy: SCHED_OTHER was refused (EPERM, leaving"),
        ("nice = 5", "nice: nice 0 was refused (EPERM"),
    ] {
        home.write("plan.toml", batch.replace("policy = \"batch\"", knob));
        for words in [&["run", "--dry-run", "plan.toml"][..], &["run", "plan.toml"]] {
            let message = stderr(&ended(home.unprivileged().args(words), 3));
            let expected = format!("variants cannot take turns: {why}");
            assert!(message.contains(&expected), "{words:?}: {message}");
            assert_eq!(message.contains("leave out `turns`"), knob.contains("nice"), "{message}");
        }
    }
}
