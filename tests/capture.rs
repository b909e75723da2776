//! `schedlab capture`, as a user runs it.

use crate::home::Home;
use crate::support::{skip, stderr};

#[test]
fn what_cannot_be_captured_is_refused_before_anything_is_recorded() {
    let home = Home::new();
    for (words, expected) in [
        ("", "nothing to capture"),
        ("--pid 999999999", "there is no process 999999999"),
        ("--cgroup /no-such-group", "there is no cgroup"),
        ("--cgroup=", "has no path"),
        ("--comm no-such-name", "there is no thread with the name `no-such-name`"),
        ("--for 0s -- true", "--for: no time at all"),
        ("--check -- true", "required arguments were not provided: -o <FILE>"),
        ("--pid 1 -- true", "cannot be used with"),
    ] {
        let shown = home.says(2, format!("capture {words}"));
        assert!(shown.contains(expected) && shown.contains("hint: "), "{words}: {shown}");
    }
}

#[test]
fn a_file_that_cannot_be_written_is_refused_before_anything_is_recorded() {
    let home = Home::new();
    for words in [
        "capture -o FILE",
        "capture --check -o FILE",
        "score --trace FILE",
        "score --output FILE",
        "score --interval 1s --output FILE",
        "run -o FILE",
        "run --format csv -o FILE",
        "run --events FILE",
    ] {
        for (file, hint) in [("nodir/x.csv", "mkdir -p nodir"), (".", "ls -ld .")] {
            let command = words.replace("FILE", file) + " -- touch begun";
            let said = home.says(3, command);
            assert!(said.contains(&format!("cannot write {file}: ")), "{words}: {said}");
            assert!(said.contains("hint: ") && said.contains(hint), "{words}: {said}");
            assert!(!home.at("begun").exists(), "{words}: {said}");
        }
    }
    // It measures for longer than this.
    let mut twin = std::process::Command::new("sh");
    let twin = twin.args(["-c", "ulimit -t 2; exec \"$@\"", "sh"]);
    let schedlab = home.command("twin -o .");
    let twin = twin.arg(schedlab.get_program()).args(schedlab.get_args()).current_dir(home.path());
    let said = stderr(&crate::support::ended(twin, 3));
    assert!(said.contains("cannot write .: ") && said.contains("hint: ls -ld ."), "{said}");
}

#[test]
fn a_command_becomes_a_plan_that_can_run() {
    let home = Home::new();
    let script = "i=0; while [ $i -lt 20 ]; do sleep 0.01; i=$((i+1)); done; exit 7";
    let words = ["capture", "--for", "1min", "-o", "own.toml", "--", "sh", "-c", script];
    let output = home.call(&words);
    let shown = stderr(&output);
    if shown.contains("not seen without the source bpf") {
        assert!(!home.at("own.toml").exists() && shown.contains("hint: "), "{shown}");
        return skip("privilege to load BPF programs");
    }
    assert_eq!(output.status.code(), Some(7), "the command's own: {shown}");
    assert!(shown.contains("cost: ") && shown.contains("run it: "), "{shown}");
    let text = home.read("own.toml");
    assert!(!text.contains("sleep 0.01") && !text.contains("\"sh"), "names: {text}");
    assert!(home.ok("run own.toml --dry-run").contains("captured"), "{text}");
}

/// Ten passes: a timer wakes the first thread, which works for 2 ms, and halfway wakes the second, which works for 3 ms.
pub fn trace() -> String {
    let line = |us: u64, running: &str, event: &str, fields: &str| {
        format!(
            "{running:>16} [000] d..2. {}.{:06}: {event}: {fields}\n",
            us / 1_000_000,
            us % 1_000_000
        )
    };
    let switch = |from: &str, left: &str, to: &str| {
        let (name, pid) = from.split_once('-').unwrap();
        let (to, to_pid) = to.split_once('-').unwrap();
        format!(
            "prev_comm={name} prev_pid={pid} prev_prio=120 prev_state={left} ==> next_comm={to} next_pid={to_pid} next_prio=120"
        )
    };
    let waking = |name: &str, pid: u32| format!("comm={name} pid={pid} prio=120 target_cpu=000");
    let pass = |at_us: u64| {
        [
            line(at_us, "<idle>-0", "sched_waking", &waking("front", 12)),
            line(at_us, "<idle>-0", "sched_switch", &switch("swapper/0-0", "R", "front-12")),
            line(at_us + 1_000, "front-12", "sched_waking", &waking("back", 20)),
            line(at_us + 2_000, "front-12", "sched_switch", &switch("front-12", "S", "back-20")),
            line(at_us + 5_000, "back-20", "sched_switch", &switch("back-20", "S", "swapper/0-0")),
        ]
    };
    (0..40).flat_map(|number| pass(10_000_000 + number * 20_000)).collect()
}

/// A thread that is woken at the end of the trace, and gets no CPU.
fn trace_end(name: &str, pid: u32) -> String {
    format!(
        "        <idle>-0 [000] d..2. 11.000000: sched_waking: comm={name} pid={pid} prio=120 target_cpu=000\n"
    )
}

/// So many threads, each on a CPU of its own, that work for most of the time.
fn busy(cpus: u32) -> String {
    let pass = |at_us: u64| {
        let switch = move |(cpu, at_us, from, left, to): (u32, u64, String, &str, String)| {
            let (seconds, us) = (at_us / 1_000_000, at_us % 1_000_000);
            let [from, to] = [from, to].map(|task| task.replace('-', " prev_pid="));
            let to = to.replace("prev_pid", "next_pid");
            format!(
                "x-1 [{cpu:03}] d..2. {seconds}.{us:06}: sched_switch: prev_comm={from} prev_prio=120 \
                 prev_state={left} ==> next_comm={to} next_prio=120\n"
            )
        };
        let waking = move |cpu: u32| {
            format!(
                "<idle>-0 [{cpu:03}] d..2. {}.{:06}: sched_waking: comm=w pid={} prio=120 target_cpu={cpu:03}\n",
                at_us / 1_000_000,
                at_us % 1_000_000,
                100 + cpu
            )
        };
        let (idle, own) =
            (|cpu: u32| format!("swapper/{cpu}-0"), |cpu: u32| format!("w-{}", 100 + cpu));
        let wakings = (0..cpus).map(waking);
        let begins = (0..cpus).map(move |cpu| switch((cpu, at_us + 1, idle(cpu), "R", own(cpu))));
        let ends = (0..cpus).map(move |cpu| switch((cpu, at_us + 9_000, own(cpu), "S", idle(cpu))));
        wakings.chain(begins).chain(ends).collect::<String>()
    };
    (0..40).map(|number| pass(10_000_000 + number * 10_000)).collect()
}

#[test]
fn a_trace_of_more_cpus_than_here_is_said_before_its_replay() {
    let home = Home::new();
    home.write("trace.txt", busy(2_000));
    let said = home.says(3, "capture --from trace.txt -o own.toml --check");
    for part in [
        "the trace has 2000 CPUs, and here are ",
        "no replay here is like it; the plan is",
        "--backend lab",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(!said.contains("check: "), "nothing ran: {said}");
    assert!(home.read("own.toml").contains("count = 2000"));
}

#[test]
fn a_trace_of_another_tool_becomes_a_plan() {
    let home = Home::new();
    home.write("trace.txt", trace());
    let said = home.says(0, "capture --from trace.txt --names -o own.toml");
    assert!(said.contains("run it: "), "{said}");
    let text = home.read("own.toml");
    for word in
        ["title = \"trace\"", "timer 20ms", "burn 999us", "post back", "take back", "burn 3ms"]
    {
        assert!(text.contains(word), "{word}: {text}");
    }
    home.ok("run own.toml --dry-run");
    home.write("own.toml", "changed by hand");
    let refused = home.says(2, "capture --from trace.txt -o own.toml");
    assert!(refused.contains("own.toml is there already"), "{refused}");
    assert!(refused.contains("remove this one: rm own.toml"), "{refused}");
    assert_eq!(home.read("own.toml"), "changed by hand");
    let chosen = home.ok("capture --from trace.txt --comm back");
    assert!(chosen.contains("role-1") && !chosen.contains("role-2"), "{chosen}");
    assert!(!chosen.contains("back") && !chosen.contains("trace"), "names: {chosen}");
    let other = home.says(2, "capture --from trace.txt --comm none");
    assert!(other.contains("no thread with the name none"), "{other}");
    assert!(
        other.contains("hint: schedlab capture --from trace.txt --comm back; it also has"),
        "{other}"
    );
    let other = home.says(2, "capture --from trace.txt --comm frnt");
    assert!(other.contains("hint: schedlab capture --from trace.txt --comm front\n"), "{other}");
    assert!(!other.contains("note: "), "{other}");
    home.write("trace.txt", trace().replace("next_prio=120", "next_prio=-1"));
    let noted = home.says(0, "capture --from trace.txt");
    assert!(noted.contains("threads of SCHED_DEADLINE"), "{noted}");
    home.write("trace.txt", trace() + &trace_end("late", 30));
    let unseen = home.both(None, "capture --from trace.txt --comm late");
    assert!(unseen.contains("none of these threads was seen at work"), "{unseen}");
    assert!(unseen.contains("hint: a longer trace") && !unseen.contains("--for"), "{unseen}");
    home.write("trace.txt", trace().replace(" 10.0", " 10,0"));
    let shown = home.says(2, "capture --from trace.txt -o other.toml");
    assert!(shown.contains("line 1: a wakeup whose task, CPU or time is not"), "{shown}");
    home.write("trace.txt", trace().replace("sched_waking", "sched_wakeup"));
    let shown = home.says(2, "capture --from trace.txt -o other.toml");
    assert!(shown.contains("no wakeups (sched_waking)"), "{shown}");
    assert!(shown.contains("--show-lost-events"), "{shown}");
    assert!(!home.at("other.toml").exists());
}
