//! Schedulers on laid-out trees. A shell plays the program that attaches one.

use std::time::Duration;

use crate::model::{Advice, Reading, Value};
use crate::sys::Host;
use crate::sys::testing::Tree;
use crate::variant::testing::{Machine, cell, variant};
use crate::variant::{Undone, apply, restore};

use super::*;

const QUICK: Limits =
    Limits { attach: Duration::from_millis(300), detach: Duration::from_millis(300) };
/// Limits for events that must come, on a loaded machine too.
const PATIENT: Limits = Limits { attach: Duration::from_secs(60), detach: Duration::from_secs(60) };

const FILES: [(&str, &str); 5] = [
    (STATE, "disabled\n"),
    (OPS, ""),
    (REJECTED, "3\n"),
    (BTF, "x"),
    ("/proc/self/status", "Name:\tx\nCapEff:\t000001ffffffffff\n"),
];

/// A program that does `then` with the functions `on`, `off` and `await` at hand.
fn program(host: &Host, then: &str) -> Scheduler {
    let (ops, state) = (host.path(OPS), host.path(STATE));
    let (ops, state) = (ops.display(), state.display());
    let script = format!(
        "on() {{ echo lavd_1.0 > {ops}; echo enabled > {state}; }}\n\
         off() {{ echo disabled > {state}; }}\n\
         await() {{ while :; do sleep 0.01; done; }}\n{then}"
    );
    Scheduler::Program { path: "/bin/sh".into(), words: vec!["-c".to_string(), script] }
}

const HEEDS: &str = "trap 'off; exit 0' INT; on; await";

/// Returns the error, and checks that no scheduler is in force after it.
fn refused(tree: &Tree, scheduler: &Scheduler) -> String {
    let error = attach(scheduler, &tree.host(), QUICK).unwrap_err();
    assert_eq!(state(&tree.host()).unwrap(), "disabled");
    error.to_string()
}

#[test]
fn names_are_our_own_or_have_a_slash() {
    let program = |path: &str, words: &[&str]| {
        let words = words.iter().map(|word| word.to_string()).collect();
        Some(Scheduler::Program { path: path.into(), words })
    };
    let cases = [
        ("fifo", Some(Scheduler::Own("fifo"))),
        ("vtime", Some(Scheduler::Own("vtime"))),
        ("bad", Some(Scheduler::Own("bad"))),
        ("./fifo", program("./fifo", &[])),
        ("/opt/scx_lavd --slice  5", program("/opt/scx_lavd", &["--slice", "5"])),
        ("./build/mine.bpf.o", Some(Scheduler::Object("./build/mine.bpf.o".into()))),
        ("./mine.bpf.o --slice 5", None),
        ("mine.bpf.o", None),
        ("scx_lavd", None),
        ("fifo x", None),
        ("", None),
        ("/a\n/b", None),
    ];
    for (text, expected) in cases {
        assert_eq!(Scheduler::parse(text), expected, "{text}");
    }
    assert_eq!(program("/a", &["-b", "c"]).unwrap().to_string(), "/a -b c");
}

#[test]
fn what_is_missing_says_what_to_do() {
    let own = Scheduler::Own("fifo");
    let describe = |error: SchedulerError| error.reason();
    let missing = |files: &[(&str, &str)], scheduler: &Scheduler| {
        let tree = Tree::with_files(&FILES);
        files.iter().for_each(|(path, text)| tree.write(path, text));
        check(scheduler, &tree.host()).err().map_or(String::new(), describe)
    };
    let none = check(&own, &Tree::with_files::<&str>(&[]).host()).err().map(describe).unwrap();
    assert!(none.contains("this kernel has no sched_ext"), "{none}");
    assert!(none.contains("hint: run under a kernel that has it: schedlab kernel get"), "{none}");
    if cfg!(feature = "bpf") {
        assert_eq!(missing(&[], &own), "");
    }
    let other = missing(&[(STATE, "enabled"), (OPS, "lavd_1")], &own);
    assert!(other.contains("sched_ext is enabled already: lavd_1; hint: stop"), "{other}");
    let user = missing(&[("/proc/self/status", "CapEff:\t0000000000000000\n")], &own);
    assert!(user.contains("needs CAP_BPF and CAP_PERFMON"), "{user}");
    let capable = missing(&[("/proc/self/status", "CapEff:\t000000c000000000\n")], &own);
    assert!(!capable.contains("CAP_"), "{capable}");
    if cfg!(feature = "bpf") {
        let object = |path: &str| missing(&[], &Scheduler::Object(path.into()));
        assert_eq!(object("/bin/sh"), "");
        assert!(object("/no/such.bpf.o").contains("/no/such.bpf.o: ENOENT, not there; hint: give"));
        assert!(object("/dev/zero").contains("not a regular file"));
    }
    let program = |path: &str| Scheduler::Program { path: path.into(), words: Vec::new() };
    assert_eq!(missing(&[], &program("/bin/sh")), "");
    assert!(missing(&[], &program("/no/such")).contains("/no/such: ENOENT, not there; hint: give"));
    assert!(missing(&[], &program("/proc/self/maps")).contains("not an executable file"));
    assert!(missing(&[], &program("/tmp/.")).contains("not an executable file"));
}

#[test]
fn a_program_is_awaited_and_ended_by_sigint() {
    let tree = Tree::with_files(&FILES);
    tree.write(EVENTS, "SCX_EV_A 0\nSCX_EV_SELECT_CPU_FALLBACK 12\nodd\n");
    let host = tree.host();
    let mut attached = attach(&program(&host, HEEDS), &host, PATIENT).unwrap();
    assert_eq!(attached.ops, "lavd_1.0");
    attached.check().unwrap();
    assert_eq!(attached.in_its_place(), None);
    tree.write(REJECTED, "5\n");
    let counted = attached.detach().unwrap();
    assert_eq!(counted.to_string(), "lavd_1.0, SCX_EV_SELECT_CPU_FALLBACK 12, nr_rejected 2");
    assert_eq!(state(&host).unwrap(), "disabled");
}

#[test]
fn one_that_is_dropped_is_detached_too() {
    let tree = Tree::with_files(&FILES);
    let host = tree.host();
    drop(attach(&program(&host, HEEDS), &host, PATIENT).unwrap());
    assert_eq!(state(&host).unwrap(), "disabled");
}

#[test]
fn one_that_is_never_attached_is_refused_with_its_words() {
    let tree = Tree::with_files(&FILES);
    let host = tree.host();
    let died = refused(&tree, &program(&host, "echo no BTF here >&2; exit 3"));
    assert!(died.contains("ended before it was attached (exit status: 3)"), "{died}");
    assert!(died.ends_with("; it wrote: no BTF here"), "{died}");
    let idle = refused(&tree, &program(&host, "trap 'exit 0' INT; await"));
    assert!(idle.contains("is not attached after 0.3 s"), "{idle}");
    assert!(idle.contains("state is disabled"), "{idle}");
    // Enabling takes time, and is not yet enabled.
    let state = host.path(STATE);
    let enabling = format!("on; echo enabling > {}", state.display());
    let script = format!("{enabling}; trap 'off; exit 0' INT; await");
    let slow = refused(&tree, &program(&host, &script));
    assert!(slow.contains("state is enabling"), "{slow}");
}

#[test]
fn one_that_does_not_heed_sigint_is_killed_and_reported() {
    let tree = Tree::with_files(&FILES);
    let host = tree.host();
    let limits = Limits { detach: QUICK.detach, ..PATIENT };
    let attached = attach(&program(&host, "trap '' INT; on; await"), &host, limits).unwrap();
    let error = attached.detach().unwrap_err().to_string();
    assert!(error.contains("sched_ext is still enabled after 0.3 s: lavd_1.0"), "{error}");
}

#[test]
fn an_ejection_is_seen() {
    let tree = Tree::with_files(&FILES);
    let host = tree.host();
    let mut attached = attach(&program(&host, HEEDS), &host, PATIENT).unwrap();
    tree.write(STATE, "disabled\n");
    let error = attached.check().unwrap_err().to_string();
    assert!(error.contains("(lavd_1.0) did not last: sched_ext is disabled"), "{error}");
    assert_eq!(attached.in_its_place().as_deref(), Some("disabled lavd_1.0"));
    tree.write(STATE, "enabled\n");
    tree.write(OPS, "rusty\n");
    let error = attached.check().unwrap_err().to_string();
    assert!(error.contains("rusty is in force in its place"), "{error}");
}

#[test]
fn a_program_that_ends_in_mid_run_is_seen() {
    let tree = Tree::with_files(&FILES);
    let host = tree.host();
    let go = host.path("/go");
    let then =
        format!("on; while [ ! -e {} ]; do sleep 0.01; done; echo stalled; exit 1", go.display());
    let mut attached = attach(&program(&host, &then), &host, PATIENT).unwrap();
    tree.write("/go", "");
    let deadline = Instant::now() + PATIENT.attach;
    let error = loop {
        match attached.check() {
            Err(error) => break error.to_string(),
            Ok(()) => assert!(Instant::now() < deadline),
        }
    };
    assert!(error.contains("the program ended by itself (exit status: 1)"), "{error}");
    assert!(error.ends_with("; it wrote: stalled"), "{error}");
    tree.write(STATE, "disabled\n");
}

/// A machine with sched_ext, and a value of the knob that a plan may hold for it.
fn machine(then: &str) -> (Machine, String) {
    let machine = Machine::new();
    FILES.iter().for_each(|(path, text)| machine.lay(path, text));
    let Scheduler::Program { words, .. } = program(&machine.host, then) else { unreachable!() };
    machine.lay("/scheduler.sh", &words[1]);
    let script = machine.host.path("/scheduler.sh");
    let value = format!("/bin/sh {}", script.display());
    (machine, value)
}

#[test]
fn the_knob_is_in_force_until_the_run_is_over() {
    let (machine, value) = machine(HEEDS);
    let cell = cell(variant(&[("scx", &value), ("preempt", "lazy")]), &[]);
    let mut applied = apply(&cell, &machine.host, &machine.journal()).unwrap();
    assert_eq!((machine.text(OPS), machine.journals()), ("lavd_1.0".to_string(), 1));
    let readings = applied.readings();
    let of_scx = readings.iter().find(|reading| reading.knob == "scx").unwrap();
    let value = Value::Text(value);
    assert_eq!((&of_scx.asked, &of_scx.got), (&value, &Reading::Known(value.clone())));
    let counted = applied.end_scheduler().unwrap().unwrap();
    assert_eq!(counted.knob, "scx-counts");
    let expected = "lavd_1.0, no events counted, nr_rejected 0".to_string();
    assert_eq!(counted.got, Reading::Known(Value::Text(expected)));
    assert_eq!(machine.text(STATE), "disabled");
    assert_eq!(applied.end_scheduler().unwrap(), None);
    applied.undo().unwrap();
    assert_eq!(machine.journals(), 0);
}

#[test]
fn a_run_whose_scheduler_was_ejected_fails_and_leaves_nothing() {
    let (machine, value) = machine(HEEDS);
    let cell = cell(variant(&[("scx", &value)]), &[]);
    let mut applied = apply(&cell, &machine.host, &machine.journal()).unwrap();
    machine.lay(STATE, "disabled\n");
    let got = applied.readings().pop().unwrap().got;
    assert_eq!(got, Reading::Known(Value::Text("disabled lavd_1.0".to_string())));
    let error = applied.end_scheduler().unwrap_err().to_string();
    assert!(error.contains("did not last"), "{error}");
    applied.undo().unwrap();
    assert_eq!(machine.journals(), 0);
}

#[test]
fn anothers_scheduler_is_not_waited_for_and_not_replaced() {
    let (machine, value) = machine(HEEDS);
    machine.lay(STATE, "enabled\n");
    machine.lay(OPS, "rusty\n");
    let cell = cell(variant(&[("scx", &value)]), &[]);
    let error = apply(&cell, &machine.host, &machine.journal()).unwrap_err();
    assert_eq!((error.knob.as_str(), error.still_changed.len()), ("scx", 0));
    assert!(error.message.contains("enabled already: rusty"), "{}", error.message);
    assert!(error.hint.starts_with("stop the program"), "{}", error.hint);
    assert_eq!(machine.journals(), 0);
}

#[test]
fn after_a_kill_its_end_is_awaited() {
    let (machine, value) = machine(HEEDS);
    let cell = cell(variant(&[("scx", &value)]), &[]);
    let applied = apply(&cell, &machine.host, &machine.journal()).unwrap();
    // The state after a kill: the journal is there, and the scheduler on its way out.
    let journal = std::fs::read_dir(machine.state_dir()).unwrap().next().unwrap().unwrap().path();
    let text = std::fs::read(&journal).unwrap();
    drop(applied);
    std::fs::write(&journal, text).unwrap();
    machine.lay(STATE, "disabling\n");
    let state = machine.host.path(STATE);
    let kernel = std::thread::spawn(move || std::fs::write(state, "disabled\n").unwrap());
    let restored = restore(&machine.state_dir(), &machine.host).unwrap();
    kernel.join().unwrap();
    assert_eq!((machine.text(STATE).as_str(), machine.journals()), ("disabled", 0));
    assert_eq!(restored.len(), 1);
    assert!(matches!(restored[0].outcome, Undone::PutBack | Undone::NothingToDo), "{restored:?}");
    assert!(restored[0].change.starts_with("sched_ext scheduler /bin/sh"), "{restored:?}");
}
