//! Plans as files of rt-app, and back; and what has no words there.

use super::*;
use crate::model::testing::rows;
use crate::plan::{self, from_rt_app};

fn parsed(text: &str) -> Plan {
    plan::parse("p", text, None, Default::default()).unwrap_or_else(|errors| {
        panic!("{}\n{text}", errors.render());
    })
}

fn plan_of(sets: &str) -> Plan {
    parsed(&format!("schema = 1\n[[workload]]\nname = \"app\"\n{sets}"))
}

fn set(keys: &str) -> String {
    format!("[[workload.set]]\nname = \"a\"\nuse = \"steps\"\n{keys}\n")
}

fn read_back(plan: &Plan) -> (String, Plan) {
    let file = to_rt_app(plan).unwrap_or_else(|wrong| panic!("{wrong:?}"));
    let again = from_rt_app("app.json", &file).unwrap_or_else(|errors| panic!("{errors}\n{file}"));
    let again = parsed(&again);
    (file, again)
}

/// Sets of all kinds that rt-app has words for.
const PIPELINE: &str = r#"
[[workload.set]]
name = "producer"
use = "steps"
knobs = { nice = -5, slice = "3ms", uclamp-min = "33%", affinity = "0,2-3" }
steps = ["burn 300us", "post frames 2", "timer 4ms", "timer b 6ms absolute", "shared-timer tick 1s"]
[[workload.set]]
name = "consumer"
use = "steps"
count = 2
loops = 7
delay = "1500us"
knobs = { policy = "rr" }
steps = ["take frames", "burn 2ms", "lock m", "wait c m", "unlock m", "memory 4KiB", "barrier b 2"]
memory = "64KiB"
[[workload.set]]
name = "phased"
use = "steps"
steps = [
  "phase 10", "policy fifo 50", "cpus 0-1", "spin 1ms", "suspend phased",
  "phase endless", "priority 7", "cpus all", "sleep 0s", "signal c", "broadcast c", "output 1B", "yield",
]
memory = "64KiB"
[[workload.set]]
name = "waker"
use = "steps"
loops = 3
knobs = { policy = "deadline", runtime = "2ms", period = "9ms" }
steps = ["resume phased", "fork helper", "burn 1us"]
[[workload.set]]
name = "helpers"
use = "steps"
count = 3
loops = 1
forked = "helper"
steps = ["burn 2147483647us"]
"#;

#[test]
fn plans_are_the_same_load_after_they_were_files() {
    let own = "[[workload.set]]\nname = \"f\"\nuse = \"steps\"\ncount = 2\nloops = 2\nsteps = [\"burn 1ms\"]\n";
    let forks = "name = \"f-forks\"\nforked = \"f\"\ncount = 12";
    let both =
        own.replacen("name = \"f\"\n", &format!("{forks}\n"), 1).replacen("count = 2\n", "", 1);
    let plans = [
        set(""),
        set("steps = [\"phase 3\", \"burn 1ms\"]\ninherit = true\nloops = 1"),
        set(
            "steps = [\"lock unnamed\", \"unlock unnamed\", \"timer unique-x 1ms\"]\ncgroup = \"g/h\"",
        ) + "[cgroup.g.h]\n",
        set("knobs = { policy = \"idle\", uclamp-max = \"12.5%\" }"),
        set("knobs = { policy = \"batch\", nice = 19 }"),
        set("steps = [\"part a\", \"timer 5ms\", \"burn 1ms\"]\norder = \"a*39\"\ncount = 2"),
        format!("{own}{both}{}", set("loops = 3\ncount = 4\nsteps = [\"fork f\"]")),
        PIPELINE.to_string(),
    ];
    for text in plans {
        let plan = plan_of(&text);
        let (file, again) = read_back(&plan);
        assert_eq!(difference(&plan, &again), None, "{text}\n{file}");
        assert_eq!(again.measure.duration_ns, plan.measure.duration_ns);
        assert_eq!(to_rt_app(&again).unwrap(), file, "the same file again");
        serde_json::from_str::<serde_json::Value>(&file).unwrap();
    }
}

#[test]
fn cgroups_of_steps_are_task_groups_of_phases() {
    let steps = set(
        "cgroup = \"own\"\nsteps = [\"phase 3\", \"priority 3\", \"cgroup x/y\", \"yield\", \
                     \"phase 1\", \"burn 1ms\", \"phase 1\", \"cgroup /\", \"yield\"]\n[cgroup.x.y]\n[cgroup.own]",
    );
    let plan = plan_of(&steps);
    let (file, again) = read_back(&plan);
    assert!(file.contains("\"taskgroup\" : \"/x/y\"") && file.contains(": \"/\""), "{file}");
    assert_eq!(difference(&plan, &again), None, "{file}");
    let (two, late) = ("\"cgroup x\", \"cgroup /\", \"yield\"", "\"yield\", \"cgroup x\"");
    for (events, expected) in [(two, "and one task group"), (late, "at the begin of one of")] {
        let text = format!("steps = [\"phase 1\", {events}, \"phase 1\", \"yield\"]\n[cgroup.x]");
        let wrong = to_rt_app(&plan_of(&set(&text))).unwrap_err();
        assert!(wrong.message.contains(expected), "{wrong:?}");
    }
}

#[test]
fn what_rt_app_cannot_hold_is_an_error_with_set_and_key() {
    let steps = |steps: &str| set(&format!("steps = [{steps}]"));
    let phases =
        |first: &str| steps(&format!("\"phase 1\", {first}, \"phase 2\", \"cpus 1\", \"yield\""));
    let hold = |text: &str, expected: &str| {
        let wrong = to_rt_app(&plan_of(text)).expect_err(text);
        assert!(wrong.message.contains(expected), "{text}\n{wrong:?}");
        assert!(wrong.message.contains("set `") && !wrong.hint.is_empty(), "{wrong:?}");
    };
    let table = r#"
        workers = "processes" => set `a`: rt-app cannot hold `workers`
        at = "1s" => set `a`: rt-app cannot hold `at`
        for = "1s" => set `a`: rt-app cannot hold `for`
        knobs = { timer-slack = "1ns" } => set `a`: rt-app cannot hold `timer-slack`
        knobs = { slice = "1000001ns" } => set `a`: rt-app cannot hold `slice`
        delay = "1ns" => set `a`: rt-app cannot hold `delay`
        [[workload.set.change]] | at = "1s" | knobs = { nice = 5 } => set `a`: rt-app cannot hold `change`
        steps = ["part a", "yield", "part b", "yield"] | order = "a*2 b" => set `a`: rt-app cannot hold `order`
        delay = "1500ns" => whole microseconds, not 1500ns
    "#;
    rows(table).iter().for_each(|(text, expected)| hold(&set(text), expected[0]));
    let table = r#"
        "burn 1ms|2ms" => a `burn` draws one of several
        "read s" => `s` is written and read
        "write s 2" => `s` is written and read
        "sleep 1500ns" => whole microseconds, not 1500ns
        "phase 1", "yield", "phase 2", "burn 2147483648us" => have 32 bits, and 2147483648us does not fit
        "timer t 1ms", "timer t 1ms absolute" => a timer is `absolute` or not in all its steps, and `unique-t` is both
        "post s 10000", "yield" => the plan is too long: 10001 events
        "phase 2", "post s 9998", "phase endless", "yield" => the plan is too long: 10001 events
        "policy fifo 5", "yield" => at the begin of one of several phases
        "phase 2", "policy fifo 5", "yield" => its only phase
        "suspend b" => a thread suspends itself, `a`, not `b`
        "resume b" => `resume b` names no set
        "fork b" => `fork b` names no set
        "barrier b 3" => `barrier b 3` is for 1
        "shared-timer uniq 1ms", "shared-timer unique 1ms" => are not shared: `unique`
        "timer 1ms", "timer unique 2ms" => two of its timers
        "lock -a" => `-a` begins with `-`, and a name does not
    "#;
    rows(table).iter().for_each(|(text, expected)| hold(&steps(text), expected[0]));
    let cases: &[(String, &str)] = &[
        (
            "[[workload.set]]\nname = \"a\"\nuse = \"spin\"\n".into(),
            "set `a`: rt-app cannot hold `use`",
        ),
        (
            set("steps = [\"mem 1B\"]").replace("mem ", "memory ")
                + &set("memory = \"1MiB\"\nsteps = [\"memory 1B\"]").replace("\"a\"", "\"b\""),
            "set `b`: rt-app cannot hold `memory`",
        ),
        (
            set("") + &set("inherit = true").replace("\"a\"", "\"b\""),
            "set `b`: rt-app cannot hold `inherit`",
        ),
        (
            steps("\"shared-timer t 1ms absolute\"")
                + &steps("\"shared-timer t 1ms\"").replace("\"a\"", "\"b\""),
            "a timer is `absolute` or not in all its steps, and `t` is both",
        ),
        (phases("\"yield\""), "those of the task, not of the phase before it"),
        (phases("\"cpus 0\", \"yield\", \"priority 3\""), "at the begin of one of several phases"),
        (
            phases("\"cpus 0\", \"priority 3\", \"priority 4\", \"yield\""),
            "one policy, one priority",
        ),
        (
            steps(&format!("\"take {}\"", "s".repeat(60))),
            "has 60 characters, and a name has 49 at most",
        ),
        (set("").replace("\"a\"", "\"my set\""), "cannot hold `name`: `my set` has ` ` in it"),
    ];
    cases.iter().for_each(|(text, expected)| hold(text, expected));
}

#[test]
fn a_plan_is_not_too_long_for_a_file() {
    let name = "s".repeat(40);
    let most = |set_name: &str| {
        set(&format!("steps = [\"post {name} 10000\"]")).replace("\"a\"", &format!("{set_name:?}"))
    };
    let plan = plan_of(&most("a"));
    let (_, again) = read_back(&plan);
    assert_eq!(difference(&plan, &again), None);
    let wrong = to_rt_app(&plan_of(&(most("a") + &most("b")))).unwrap_err();
    assert!(wrong.message.contains("the plan is too long for rt-app: its file would"), "{wrong:?}");
}

#[test]
fn a_plan_that_is_more_than_sets_is_an_error_with_its_table() {
    let with = |top: &str, more: &str| {
        format!("schema = 1\n{top}\n[[workload]]\nname = \"app\"\nuse = \"steps\"\n{more}\n")
    };
    let cases = [
        (with("", "count = [1, 2]"), "has one load, and the plan 2"),
        (
            with("", "[[workload.offline]]\nat = \"1s\"\ncpus = \"1\""),
            "[[workload]]: rt-app cannot hold `offline`",
        ),
        (with("[measure]\nduration = \"1500ms\"", ""), "[measure]: rt-app cannot hold `duration`"),
        (with("[placement]\ncpus = \"0-1\"", ""), "[placement]: rt-app cannot hold `cpus`"),
        (
            with("[placement]\nmemory = \"interleave\"", ""),
            "[placement]: rt-app cannot hold `memory`",
        ),
        (
            with("[cgroup.g.h]\nweight = 200", "cgroup = \"g/h\""),
            "[cgroup.g.h]: rt-app cannot hold `weight`",
        ),
        (
            with("", "[[workload.background]]\nname = \"b\"\nuse = \"steps\""),
            "set `b`: rt-app cannot hold `background`",
        ),
    ];
    for (text, expected) in &cases {
        let wrong = to_rt_app(&parsed(text)).expect_err(text);
        assert!(wrong.message.contains(expected), "{text}\n{wrong:?}");
    }
}

#[test]
fn a_file_that_would_be_another_load_is_found() {
    let plan = plan_of(PIPELINE);
    let (_, again) = read_back(&plan);
    type Change = (&'static str, fn(&mut Plan));
    let changes: [Change; 6] = [
        ("count", |plan| plan.works[0].sets[1].count = 3),
        ("loops", |plan| _ = plan.works[0].sets[1].params.insert("loops".into(), Value::Int(8))),
        ("steps", |plan| {
            let steps = Value::List(vec![Value::Text("burn 301us".into())]);
            plan.works[0].sets[1].params.insert("steps".into(), steps);
        }),
        ("knobs", |plan| _ = plan.works[0].sets[1].knobs.insert("nice".into(), Value::Int(1))),
        ("cgroup", |plan| plan.works[0].sets[1].cgroup = "g".parse().ok()),
        ("name", |plan| plan.works[0].sets[1].name = "other".into()),
    ];
    for (key, change) in changes {
        let mut other = again.clone();
        change(&mut other);
        let found = difference(&plan, &other).unwrap();
        let expected = format!("set `consumer`: rt-app cannot hold `{key}`");
        assert!(found.message.starts_with(&expected), "{found:?}");
    }
    let mut more = again;
    let copy = WorkerSet { name: "more".into(), ..more.works[0].sets[0].clone() };
    more.works[0].sets.push(copy);
    assert!(difference(&plan, &more).unwrap().message.contains("read back as 6"));
}
