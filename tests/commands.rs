//! `schedlab run -- COMMAND`: unchanged programs are measured, stored, judged and ended.

use std::path::Path;
use std::process::Output;

use serde_json::Value;

use crate::home::Home;
use crate::support::{
    assert_gone, done, ended, is_gone, joined, metric, outcomes, signal, skip, stderr, stdout,
    wait_for,
};

/// One short round of a script with the shell's own arguments before it.
fn run(home: &Home, options: &[&str], script: &str) -> Output {
    let words = [&["run", "--rounds", "1", "--duration", "10ms"], options, &["--", "sh", "-c"]];
    let words = [&words.concat()[..], &[script]].concat();
    home.call(&words)
}

/// The id and the text of the newest plan.
fn newest(home: &Home) -> (String, String) {
    let started = home.events("last").swap_remove(0);
    let text = |key: &str| started[key].as_str().unwrap().to_string();
    (text("id"), text("source"))
}

#[test]
fn a_command_is_measured_and_a_stored_one_runs_again() {
    let home = Home::new();
    let options = ["-q", "--variant", "batch:policy=batch", "-L", "n", "1,2"];
    done(run(&home, &options, "echo {n}; sleep 0.001"));
    let (id, source) = newest(&home);
    let runs = outcomes(home.path(), &id);
    // A round that other load spoilt is measured again.
    assert!(
        runs.len() >= 4 && runs.len().is_multiple_of(2),
        "two variants of two works: {}",
        runs.len()
    );
    for run in runs {
        assert!(metric(&run, 0, "time") >= 1e6, "it sleeps for a millisecond: {run}");
        assert!(metric(&run, 0, "executions") >= 1.0, "{run}");
        assert!(metric(&run, 0, "voluntary_switches") > 0.0, "{run}");
        assert!(!run.to_string().contains("throughput"), "it is of what works itself: {run}");
    }
    let again = ["run", "-q", "--rounds", "1", "--duration", "10ms", &format!("plan={id}")];
    home.ok(&again);
    let (second, source_of_second) = newest(&home);
    assert_ne!(second, id);
    assert_eq!(source_of_second, source);
}

/// Hardware counters depend on the machine; these counts exist on every one.
#[test]
fn the_probe_counters_counts_a_command_with_its_children() {
    let home = Home::new();
    for (probe, of_what) in [("counters", "cpus"), ("counters-by-role", "command")] {
        done(run(&home, &["-q", "--probe", probe], "sh -c 'sh -c :; :'; :"));
        let faults = format!("{of_what}_page_faults");
        let (id, _) = newest(&home);
        for run in outcomes(home.path(), &id) {
            let metrics = run["result"]["sets"][0]["metrics"].as_array().unwrap();
            let of =
                |name: &str| &metrics.iter().find(|own| own["name"] == name).expect(name)["value"];
            if let Some(why) = of(&faults)["unknown"].as_str() {
                return skip(&format!("privilege: {why}"));
            }
            let seconds = run["result"]["measured_ns"].as_f64().unwrap() / 1e9;
            let faults = metric(&run, 0, &faults) * seconds;
            let executions = metric(&run, 0, "executions");
            // Three programs are started, and no one does with fewer pages than this.
            assert!(faults > 3.0 * 20.0 * executions, "{faults} faults, {executions} executions");
            assert!(metric(&run, 0, &format!("{of_what}_context_switches")) > 0.0, "{run}");
            for name in [&format!("{of_what}_cycles"), &format!("{of_what}_ipc"), "energy_package"]
            {
                let (known, why) = (of(name)["known"].as_f64(), of(name)["unknown"].as_str());
                let is_there = known.is_some_and(|value| value > 0.0);
                assert!(is_there || why.is_some_and(|why| !why.is_empty()), "{name}: {run}");
            }
        }
        let shown = home.ok("report last -v");
        assert!(shown.contains(&faults), "{shown}");
    }
    let output = ended(run(&home, &["-q", "--probe", "conuters"], ":"), 2);
    assert!(stderr(&output).contains("hint: did you mean `counters`?"), "{output:?}");
}

#[test]
fn a_command_that_fails_is_reported_with_the_last_that_it_wrote() {
    let home = Home::new();
    let script = "yes | head -c 3000000; echo; printf 'last \\377words\\n' >&2; exit 3";
    let output = ended(run(&home, &["--strict"], script), 3);
    let shown = joined(&stdout(&output));
    assert!(shown.contains("`sh` failed with exit status 3"), "{shown}");
    assert!(shown.contains("last \u{fffd}words"), "{shown}");
    assert!(run(&home, &["-q"], "yes | head -c 3000000").status.success());
}

#[test]
fn what_a_command_leaves_behind_is_ended() {
    let home = Home::new();
    // A run that load from outside spoilt is made again before the clean-up.
    let leave = "rm -f ready; mkfifo ready; setsid sh -c 'echo $$ > pid; echo > ready; exec sleep 1000' & read x < ready";
    done(run(&home, &["-q", "--cleanup", "rm ready"], leave));
    let pid = home.read("pid");
    let words = std::fs::read_to_string(format!("/proc/{}/cmdline", pid.trim()));
    assert!(!words.is_ok_and(|words| words.contains("1000")), "{pid} lives");
}

#[test]
fn a_clean_up_follows_a_failure_and_a_command_excludes_a_plan() {
    let home = Home::new();
    let options = ["-q", "--prepare", "echo > made", "--cleanup", "rm made"];
    ended(run(&home, &options, "exit 1"), 3);
    assert!(!home.at("made").exists());
    for words in [
        &["run", "--"][..],
        &["run", "quick", "--", "true"],
        &["run", "-L", "n", "1,2", "quick"],
        &["run", "-L", "n", "1", "-L", "n", "2", "--", "echo", "{n}"],
        &["run", "plan=nonesuch"],
    ] {
        home.ends(2, words);
    }
    for plan in ["quick ", ""] {
        let text = home.ok(format!("run --variant own:nice=5 {plan}--dry-run --backend null"));
        assert!(text.contains("web / own"), "a plan gets a variant more: {text}");
    }
}

#[test]
fn what_runs_in_the_background_goes_on_until_the_others_have_ended() {
    let plan = |foreground: &str, background: &str| {
        let text = format!(
            "schema = 1\n[measure]\nrounds = 1\nduration = \"10ms\"\nwarmup = \"0s\"\nwindow = \"10ms\"\n\
             [[workload]]\nname = \"a\"\nuse = \"command\"\ncommand = [\"sh\", \"-c\", \"{foreground}\"]\n\
             [[workload.background]]\nuse = \"command\"\nname = \"b\"\n\
             command = [\"sh\", \"-c\", \"{background}\"]\n"
        );
        let home = Home::with_plan(text);
        home.ok("run -q ./plan.toml");
    };
    // The foreground ends when the background was executed twice.
    plan("until test -e twice; do sleep 0.01; done", "test -e once && : > twice; : > once");
    plan("true", "sleep 1000");
}

/// A plan of one command with these keys.
fn plan_of(keys: &str) -> String {
    format!(
        "schema = 1\n[measure]\nrounds = 1\nduration = \"10ms\"\nwarmup = \"0s\"\nwindow = \"10ms\"\n\
         repeat-spoilt = false\n[[workload]]\nname = \"a\"\nuse = \"command\"\n{keys}\n"
    )
}

/// The output of `run` for a plan in its own folder.
fn of_plan(home: &Home, plan: &str, options: &[&str]) -> String {
    home.write("plan.toml", plan);
    let words = [&["run", "./plan.toml"], options].concat();
    joined(&home.both(None, &words))
}

/// The outcomes of a plan of one command with these keys, in its own folder.
fn of_keys(home: &Home, keys: &str) -> String {
    of_plan(home, &plan_of(keys), &[])
}

#[test]
fn what_hangs_is_named_with_the_last_that_it_wrote() {
    let home = Home::new();
    let hang = "[\"sh\", \"-c\", \"echo some words; sleep 1000\"]";
    for (phase, more) in
        [("command", ""), ("setup", "command = \"true\"\n"), ("cleanup", "command = \"true\"\n")]
    {
        let plan = plan_of(&format!("{more}{phase} = {hang}\n"));
        let plan = plan.replace("rounds = 1", "rounds = 1\ngrace = \"300ms\"");
        let shown = of_plan(&home, &plan, &[]);
        let expected = format!("{phase} `sh` has not ended within 310ms");
        assert!(shown.contains(&expected), "{phase}: {shown}");
        assert!(shown.contains("its output ended: some words"), "{phase}: {shown}");
        assert!(shown.contains("grace = \"30s\" unless"), "{phase}: {shown}");
    }
}

#[test]
fn programs_of_a_user_have_that_users_environment() {
    // Only root may become another user.
    if !std::fs::read_to_string("/proc/self/status").unwrap().contains("\nUid:\t0\t") {
        return skip("privilege: root");
    }
    let home = Home::new();
    let script = "echo \\\"$USER $LOGNAME $HOME, $OTHER\\\"; test $USER = nobody";
    let keys = format!(
        "command = [\"sh\", \"-c\", \"{script}\"]\nuser = \"nobody\"\nenvironment = [\"LOGNAME=me\", \"OTHER=x\"]"
    );
    of_keys(&home, &keys);
    let kept = home.ok("show last --program-output");
    assert!(kept.contains("nobody me /nonexistent, x"), "{kept}");
}

#[test]
fn output_of_programs_names_the_runs_that_failed() {
    let home = Home::new();
    home.write("made", "");
    let script =
        format!("cd {}; echo x >> made; test $(wc -l < made) -ne 2", home.path().display());
    let plan = plan_of(&format!("command = [\"sh\", \"-c\", \"echo out; {script}\"]\n"));
    of_plan(&home, &plan.replace("rounds = 1", "rounds = 3"), &[]);
    let shown = home.call("show last --program-output");
    let (out, messages) = (stdout(&shown), stderr(&shown));
    assert_eq!(out.matches("==> round ").count(), 2, "{out}");
    assert!(messages.contains("1 run failed"), "{messages}");
    let (_, command) = messages.split_once(": schedlab ").expect(&messages);
    assert!(joined(&home.ok(command.trim())).contains("failed with exit status 1"), "{command}");
}

#[test]
fn a_version_is_one_line_and_one_that_differs_is_noted() {
    let home = Home::new();
    let version = |script: &str| {
        let keys = format!("command = \"true\"\nversion = [\"sh\", \"-c\", \"{script}\"]");
        let shown = of_keys(&home, &keys);
        let kept = home.ok("show last --program-output");
        assert!(kept.contains("version "), "{shown} {kept}");
        (kept, newest(&home).0)
    };
    let (kept, first) = version("echo; echo one 1.0; echo copyright");
    assert!(kept.contains("version one 1.0") && !kept.contains("copyright"), "{kept}");
    let (kept, second) = version("exit 3");
    assert!(kept.contains("version (version `sh` failed with exit status 3)"), "{kept}");
    let shown = joined(&home.ok(format!("compare plan={first} plan={second} -v")));
    assert!(
        shown.contains("the program is not of one version") && shown.contains("one 1.0 in"),
        "{shown}"
    );
}

#[test]
fn a_program_is_no_plan_and_a_plan_names_its_file() {
    let home = Home::new();
    let mine = "about = \"mine\"\ncommand = [\"echo\", \"{n}\"]\nparameters = { n = 3 }\n\
                package = { debian = \"a\", fedora = \"b\" }\n";
    home.write("mine.toml", mine);
    let run = home.both(None, "run mine.toml");
    assert!(run.contains("this is a program, not a plan") && !run.contains("unknown key"), "{run}");
    let list = home.ok("list workloads mine.toml");
    assert!(list.contains("echo {n}") && list.contains("fedora=b"), "{list}");
    let plan = plan_of("").replace("use = \"command\"", "use = \"mine\"");
    let of_mine = |plan: &str| of_plan(&home, plan, &["--dry-run"]);
    assert!(of_mine(&plan).contains("hint: use = \"mine.toml\""), "{}", of_mine(&plan));
    // Lines may end as in other systems' editors, in texts of several lines, too.
    let plan =
        plan.replace("\"mine\"", "\"mine.toml\"\nprepare = [\"sh\", \"-c\", '''\ntrue\ntrue\n''']");
    assert!(of_mine(&plan.replace('\n', "\r\n")).contains("a / default: ok"), "{}", of_mine(&plan));
}

#[test]
fn what_would_be_installed_is_said_and_nothing_is() {
    let home = Home::new();
    let keys = "command = \"no-such-program\"\npackage = { debian = \"b a\", fedora = \"c\", arch = \"c\", opensuse = \"c\" }";
    let of = |keys: &str| of_plan(&home, &plan_of(keys), &["--install", "--dry-run"]);
    let shown = of(keys);
    assert!(shown.contains("--install would execute: "), "{shown}");
    assert!(shown.contains("install a b") || shown.contains(" c"), "{shown}");
    let shown = of("command = \"true\"");
    assert!(shown.contains("--install: nothing that has a package is missing"), "{shown}");
}

/// Ends a process even if the test fails.
struct EndedOnPanic(u32);

impl Drop for EndedOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            signal(self.0, "-KILL");
        }
    }
}

#[test]
fn what_a_killed_schedlab_left_is_ended_by_the_next() {
    let home = Home::new();
    let leave = "trap '' TERM; setsid sh -c 'trap \"\" TERM HUP; echo $$ > left; mv left pid; while :; do sleep 1000; done' & wait";
    let words = ["run", "-q", "--rounds", "1", "--prepare", leave, "--", "true"];
    let mut killed = home.command(&words).spawn().unwrap();
    while !home.at("pid").exists() {
        assert_eq!(killed.try_wait().unwrap(), None);
        std::thread::yield_now();
    }
    killed.kill().unwrap();
    killed.wait().unwrap();
    let pid: u32 = home.read("pid").trim().parse().unwrap();
    let _guard = EndedOnPanic(pid);
    // The command continues, and its runner ends soon after schedlab.
    wait_for("the end of what is left", || {
        let said = home.ok("restore");
        // The next may be a schedlab of another test: what is left belongs to the machine.
        let is_ended = said.contains(&format!("(process {pid}) of a killed run: ended"));
        (is_ended || is_gone(pid)).then_some(())
    });
    assert_gone(pid);
}

const SERVER: &str = "trap 'echo ended > log; exit' TERM; echo up; while :; do sleep 0.01; done";

#[test]
fn a_server_is_there_before_and_gone_after_with_its_folder() {
    let home = Home::new();
    let keys = format!(
        "setup = [\"sh\", \"-c\", \"echo 7 > $1/a\", \"sh\", \"{{folder}}\"]\n\
         server = [\"sh\", \"-c\", \"{SERVER}\"]\nready = \"output:^up$\"\n\
         fill = [\"cp\", \"{{folder}}/a\", \"{{folder}}/b\"]\nversion = [\"echo\", \"1.2\"]\n\
         environment = [\"A={{n}}\"]\nparameters = {{ n = \"1x\" }}\n\
         command = [\"sh\", \"-c\", \"echo {{folder}} $A; printf '{{\\\"a\\\": ['; cat {{folder}}/b; echo ']}}'\"]\n\
         [[workload.metric]]\nname = \"n\"\njson = \"/a/0\"\nunit = \"count\"\nbetter = \"higher\"\n"
    );
    let shown = of_keys(&home, &keys);
    assert_eq!(metric(&outcomes(home.path(), "last")[0], 0, "n"), 7.0, "{shown}");
    assert_eq!(home.read("log"), "ended\n");
    let kept = home.ok("show last --program-output");
    assert!(kept.contains("round 1, a, default, command, version 1.2"), "{kept}");
    let line = kept.lines().find(|line| line.starts_with('/')).unwrap();
    let (folder, threads) = line.split_once(' ').unwrap();
    assert!(!Path::new(folder).exists() && threads.parse::<u32>().unwrap() >= 1, "{kept}");
}

#[test]
fn a_server_that_is_not_there_or_was_there_before_fails_the_run() {
    let home = Home::new();
    let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    let server = |script: &str, ready: &str| {
        format!(
            "command = \"true\"\nserver = [\"sh\", \"-c\", \"{script}\"]\nready = \"{ready}\"\n"
        )
    };
    for (keys, expected) in [
        (server("echo no luck; exit 3", "tcp:{port}"), "ended with exit status 3 before it was ready"),
        (server("echo no luck; exit 3", "unix:{folder}/s"), "no luck"),
        (
            server("echo $$ > pid; echo up; read x < gate", "output:up")
                .replace("\"true\"", "[\"sh\", \"-c\", \"test -p gate && echo > gate && rm gate; until grep -q ') Z' /proc/$(cat pid)/stat; do :; done\"]")
                + "setup = [\"mkfifo\", \"gate\"]\n",
            "while it was used",
        ),
        (server(SERVER, &format!("tcp:{port}")), "listens at 127.0.0.1:"),
        ("command = \"true\"\nsetup = \"false\"\n".to_string(), "setup `false` failed"),
        ("command = \"true\"\nuser = \"no-such\"\n".to_string(), "no user `no-such`"),
        (server(SERVER, "udp:1"), "says nothing that can be"),
    ] {
        let shown = of_keys(&home, &keys);
        assert!(shown.contains(expected), "{keys}: {shown}");
    }
    assert!(!home.at("log").exists(), "no server was started where one was");
}

#[test]
fn folders_of_a_killed_schedlab_are_removed_by_the_next() {
    let home = Home::new();
    let temporary = home.at("tmp");
    std::fs::create_dir(&temporary).unwrap();
    let command = |script: &str| {
        let mut command = home.command(&["run", "-q", "--rounds", "1", "--", "sh", "-c", script]);
        command.env("TMPDIR", &temporary);
        command
    };
    let mut killed =
        command("mkfifo {folder}/gate; echo > ready; read x < {folder}/gate").spawn().unwrap();
    while !home.at("ready").exists() {
        assert_eq!(killed.try_wait().unwrap(), None);
        std::thread::yield_now();
    }
    killed.kill().unwrap();
    killed.wait().unwrap();
    let folders = || std::fs::read_dir(&temporary).unwrap().count();
    assert_eq!(folders(), 1);
    // The runner ends soon after; another run does not remove the folder of a living one.
    while folders() > 0 {
        assert!(command("true").status().unwrap().success());
    }
}

/// For programs that cannot be installed here, these made-up outputs have their numbers.
#[test]
fn numbers_are_found_in_what_programs_that_cannot_be_shipped_print() {
    let home = Home::new();
    let jbb = "Tests are skipped.\nRUN RESULT: hbIR (max attempted) = 9000, hbIR (settled) = 8000, \
               max-jOPS = 7650, critical-jOPS = 1234\n";
    let wrk = "  Latency Distribution (HdrHistogram - Recorded Latency)\n 50.000%    2.11ms\n 99.000%    \
               11.50ms\n 99.900%    0.90s \nRequests/sec:    499.51\n";
    let transactions = "  41234.56  \n";
    type Numbers = &'static [(&'static str, f64)];
    let cases: &[(&str, &str, &str, Numbers)] = &[
        ("specjbb", "{path}", jbb, &[("max_jops", 7650.0), ("critical_jops", 1234.0)]),
        (
            "deathstarbench",
            "{path}{threads}{connections}{seconds}{rate}",
            wrk,
            &[("requests", 499.51), ("latency_p99", 11.5e6)],
        ),
        ("netperf", "{test}{seconds}", transactions, &[("transactions", 41234.56)]),
    ];
    for (name, words, output, expected) in cases {
        home.write("output", output);
        let server = match *name {
            "netperf" => {
                "server = [\"sh\", \"-c\", \"echo up; sleep 1000\"]\nready = \"output:up\"\n"
            }
            _ => "",
        };
        let plan = format!(
            "schema = 1\n[measure]\nrounds = 1\nduration = \"10ms\"\nwarmup = \"0s\"\nwindow = \"10ms\"\n\
             [[workload]]\nuse = \"{name}\"\nneeds = \"cat\"\nversion = \"true\"\n{server}\
             command = [\"sh\", \"-c\", \"cat output\", \"{words}\"]\n"
        );
        home.write("plan.toml", plan);
        let run = home.command("run -q ./plan.toml");
        let output = { run }.output().unwrap();
        assert!(output.status.success(), "{name}: {output:?}");
        let outcomes = outcomes(home.path(), "last");
        for (metric_name, value) in *expected {
            // All executions print the same, so this is the mean.
            let found = metric(&outcomes[0], 0, metric_name) / value;
            assert!((found - 1.0).abs() < 1e-9, "{name}: {}", outcomes[0]);
        }
    }
}

/// The smallest parameters: enough to run and to print metrics.
const SMALLEST: &[(&str, &str)] = &[
    ("7zip", "threads = 1"),
    ("cyclictest", "seconds = 1"),
    ("ffmpeg", "seconds = 1"),
    ("hackbench", "groups = 1, loops = 10"),
    ("iperf3", "seconds = 1"),
    ("john", "seconds = 1"),
    ("kernel-build", "parts = \"kernel/sched/\""),
    ("memcached", "seconds = 1"),
    ("nginx", "seconds = 1"),
    ("pgbench", "seconds = 1"),
    ("primesieve", "limit = \"1e8\""),
    ("redis", "requests = 1000"),
    ("sockperf", "seconds = 1"),
    ("stress-ng", "seconds = 1"),
    ("sysbench-cpu", "seconds = 1"),
    ("sysbench-threads", "seconds = 1"),
    ("tbench", "seconds = 2"),
];

/// Programs that are in no package of Debian.
const ELSEWHERE: &[&str] = &["deathstarbench", "netperf", "specjbb"];

#[test]
fn every_known_program_runs_and_prints_its_metrics() {
    let home = Home::new();
    let listed = home.ok("list workloads");
    let mut plan = "schema = 1\n[measure]\nrounds = 1\nduration = \"10ms\"\nwarmup = \"0s\"\n\
                    window = \"10ms\"\ngrace = \"5min\"\nrepeat-spoilt = false\n"
        .to_string();
    for (name, parameters) in SMALLEST {
        let table = format!("[[workload]]\nuse = \"{name}\"\nparameters = {{ {parameters} }}\n");
        plan.push_str(&table);
    }
    home.write("plan.toml", plan);
    home.ok("run -q ./plan.toml");
    let outcomes = outcomes(home.path(), "last");
    let known = SMALLEST.iter().map(|(name, _)| *name).chain(ELSEWHERE.iter().copied());
    let known: std::collections::BTreeSet<&str> = known.collect();
    let files = std::fs::read_dir("programs").unwrap().map(|file| file.unwrap().file_name());
    assert_eq!(files.count(), known.len(), "{known:?}");
    for (name, _) in SMALLEST {
        assert!(listed.contains(name), "{name} is not listed: {listed}");
        let is_own = |outcome: &&Value| outcome["result"]["sets"][0]["name"] == *name;
        match outcomes.iter().find(is_own) {
            Some(outcome) => {
                let first = &outcome["result"]["sets"][0]["metrics"][0];
                assert!(first["value"]["known"].as_f64() > Some(0.0), "{name}: {first}");
                assert_eq!(first["importance"], "headline", "{name}: {first}");
            }
            None => {
                let hint = outcomes.iter().find_map(|of| of["reason"].as_str()).expect(name);
                assert!(hint.contains("apt-get install"), "{name}: {hint}");
                skip(hint);
            }
        }
    }
}
