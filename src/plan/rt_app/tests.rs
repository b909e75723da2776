//! Files of rt-app, and the plans that they become.

use super::*;
use crate::model::testing::rows;
use crate::model::{Plan, Work};
use crate::plan;

fn converted(text: &str) -> Plan {
    let made = from_rt_app("dir/app.json", text).unwrap_or_else(|errors| panic!("{errors}"));
    plan::parse("app.json", &made, None, Default::default()).unwrap_or_else(|errors| {
        panic!("{}\n{made}", errors.render());
    })
}

fn work(text: &str) -> Work {
    converted(text).works.remove(0)
}

/// The steps of each set.
fn steps(text: &str) -> Vec<(String, String)> {
    let sets = work(text).sets.into_iter();
    sets.map(|set| (set.name.clone(), set.params["steps"].to_string())).collect()
}

fn errors(text: &str) -> String {
    from_rt_app("app.json", text).unwrap_err().to_string()
}

fn task(events: &str) -> String {
    format!("{{ \"tasks\" : {{ \"a\" : {{ {events} }} }} }}")
}

#[test]
fn a_file_is_a_plan_that_a_person_can_read() {
    let text = r#"
        /* Two of a kind, and a third that wakes them. */
        {
            "global" : {
                "duration" : 6, "calibration" : "CPU0", "default_policy" : "SCHED_OTHER",
                "pi_enabled" : true, "lock_pages" : false, "logdir" : "./", "gnuplot" : true,
                "mem_buffer_size" : 65536,
            },
            "tasks" : {
                "worker" : {
                    "instance" : 2, "delay" : 1500, "priority" : -5,
                    "phases" : {
                        "light" : { "loop" : 10, "run" : 1000, "timer" : { "ref" : "unique", "period" : 30000 } },
                        "heavy" : {
                            "loop" : 10, "cpus" : [0, 1], "lock" : "m",
                            "wait" : { "ref" : "c", "mutex" : "m" }, "unlock" : "m", "mem" : 4096,
                            "timer" : { "ref" : "unique", "period" : 30000, "mode" : "absolute" },
                        }
                    }
                },
                "the waker" : { "loop" : 5, "sleep" : 0, "sync" : { "ref" : "c", "mutex" : "m" }, "run" : 1, "run" : 2 },
            }
        }"#;
    insta::assert_snapshot!(from_rt_app("dir/app.json", text).unwrap());
    let plan = converted(text);
    assert_eq!((plan.measure.duration_ns, plan.measure.warmup_ns), (6_000_000_000, 0));
    let [worker, waker] = &plan.works[0].sets[..] else { panic!("not two sets") };
    assert_eq!((worker.count, waker.count), (2, 1));
    assert_eq!(worker.knobs["nice"].as_int(), Some(-5));
    assert_eq!((waker.name.as_str(), waker.params["loops"].as_int()), ("the_waker", Some(5)));
}

#[test]
fn every_event_is_a_step() {
    let text = task(
        r#""run" : 10, "runtime" : 20, "sleep" : 0, "run_long" : 4000000,
           "timer" : { "period" : 5 }, "timer0" : { "ref" : "uniqueA", "period" : 0 },
           "lock" : "m", "unlock" : "m", "signal" : "c", "broad" : "c", "barrier" : "b",
           "suspend" : "ignored", "resume" : "a", "sem_post" : "s", "sem_wait" : "s",
           "yield" : "", "mem" : 7, "iorun" : 8"#,
    );
    let expected = "burn 10us,spin 20us,sleep 0ns,burn 4s,shared-timer unknown 5us,timer uniqueA 0ns,\
                    lock m,unlock m,signal c,broadcast c,barrier b 1,suspend a,resume a,post s,take s,\
                    yield,memory 7B,output 8B";
    assert_eq!(steps(&text), [("a".to_string(), expected.to_string())]);
}

#[test]
fn loops_are_of_the_task_or_of_its_phases() {
    let loops = |text: &str| {
        let set = work(&task(text)).sets.remove(0);
        let steps = set.params["steps"].to_string();
        (set.params.get("loops").and_then(crate::model::Value::as_int), steps)
    };
    let cases = [
        ("\"run\" : 1", None, "burn 1us"),
        ("\"loop\" : -1, \"run\" : 1", None, "burn 1us"),
        ("\"loop\" : 3, \"run\" : 1", Some(3), "burn 1us"),
        ("\"phases\" : { \"p\" : { \"run\" : 1 } }", None, "burn 1us"),
        (
            "\"loop\" : 2, \"phases\" : { \"p\" : { \"loop\" : 4, \"run\" : 1 } }",
            Some(2),
            "phase 4,burn 1us",
        ),
        (
            "\"phases\" : { \"p\" : { \"run\" : 1 }, \"p\" : { \"loop\" : -1, \"run\" : 2 } }",
            None,
            "phase 1,burn 1us,phase endless,burn 2us",
        ),
    ];
    for (text, expected, steps) in cases {
        assert_eq!(loops(text), (expected, steps.to_string()), "{text}");
    }
}

#[test]
fn scheduling_is_of_the_set_or_a_step_where_it_changes() {
    let knobs = |text: &str| -> Vec<String> {
        let set = work(&task(text)).sets.remove(0);
        set.knobs.iter().map(|(name, value)| format!("{name} {value}")).collect()
    };
    assert_eq!(knobs("\"run\" : 1"), [""; 0]);
    assert_eq!(
        knobs("\"policy\" : \"SCHED_FIFO\", \"cpus\" : [2, 0, 1], \"run\" : 1"),
        ["affinity 0-2", "policy fifo", "priority 10"]
    );
    assert_eq!(
        knobs(
            "\"policy\" : \"SCHED_OTHER\", \"priority\" : -19, \"dl-runtime\" : 3000, \"run\" : 1"
        ),
        ["nice -19", "policy other", "slice 3ms"]
    );
    assert_eq!(
        knobs(
            "\"policy\" : \"SCHED_DEADLINE\", \"dl-runtime\" : 2000, \"dl-period\" : 9000, \"run\" : 1"
        ),
        ["deadline 9ms", "period 9ms", "policy deadline", "runtime 2ms"]
    );
    assert_eq!(
        knobs(
            "\"policy\" : \"SCHED_DEADLINE\", \"period\" : 9000, \"runtime\" : 2000, \"phases\" : { \"p\" : { \"run\" : 1 } }"
        ),
        ["deadline 9ms", "period 9ms", "policy deadline", "runtime 2ms"]
    );
    assert_eq!(knobs("\"util_min\" : 512, \"util_max\" : -1, \"run\" : 1"), ["uclamp-min 50%"]);
    assert_eq!(
        knobs(
            "\"priority\" : 1, \"phases\" : { \"p\" : { \"priority\" : 7, \"util_max\" : 256, \"run\" : 1 } }"
        ),
        ["nice 7", "uclamp-max 25%"],
        "one phase is the task"
    );
    let phases = "\"cpus\" : [3], \"phases\" : { \
                  \"p\" : { \"policy\" : \"SCHED_RR\", \"cpus\" : [0], \"run\" : 1 }, \
                  \"q\" : { \"priority\" : 20, \"run\" : 2 } }";
    let expected = "phase 1,policy rr 10,cpus 0,burn 1us,phase 1,priority 20,cpus 3,burn 2us";
    assert_eq!(steps(&task(phases))[0].1, expected);
    let grouped = work(&task("\"taskgroup\" : \"/a/b\", \"run\" : 1"));
    assert_eq!(grouped.sets[0].cgroup.as_ref().unwrap().as_str(), "a/b");
    let default = "{ \"global\" : { \"default_policy\" : \"SCHED_BATCH\" }, \"tasks\" : { \"a\" : { \"run\" : 1 } } }";
    assert_eq!(work(default).sets[0].knobs["policy"].as_text(), Some("batch"));
}

#[test]
fn barriers_count_all_threads_and_forks_have_workers_of_their_own() {
    let text = r#"{ "tasks" : {
        "a" : { "instance" : 2, "loop" : 3, "barrier" : "b", "fork" : "f" },
        "f" : { "instance" : 0, "loop" : 1, "run" : 5 },
        "c" : { "barrier" : "b", "run" : 1 },
        "c" : { "instance" : 0, "run" : 1 } } }"#;
    let sets = work(text).sets;
    let shown: Vec<String> = sets
        .iter()
        .map(|set| format!("{} {} {}", set.name, set.count, set.params["steps"]))
        .collect();
    assert_eq!(shown, ["a 2 barrier b 3,fork f", "f-forks 6 burn 5us", "c 1 barrier b 3,burn 1us"]);
    assert_eq!(sets[1].params["forked"].as_text(), Some("f"));
    let endless = r#"{ "tasks" : { "a" : { "fork" : "f" }, "f" : { "run" : 1 } } }"#;
    let counts: Vec<u32> = work(endless).sets.iter().map(|set| set.count).collect();
    assert_eq!(counts, [1, 1, 100]);
    let itself = r#"{ "tasks" : { "f" : { "loop" : 1, "fork" : "f" } } }"#;
    let counts: Vec<u32> = work(itself).sets.iter().map(|set| set.count).collect();
    assert_eq!(counts, [1, 100]);
}

#[test]
fn a_suspension_is_of_the_task_or_of_the_text_that_older_files_resume() {
    let text = r#"{ "tasks" : {
        "a1" : { "suspend" : "A", "run" : 1 },
        "a2" : { "suspend" : "A", "run" : 2 },
        "b" : { "suspend", "resume" : "A" },
        "c" : { "suspend" : "b", "resume" : "b", "phases" : { "p" : { "resume" : "c" } } } } }"#;
    let refused = errors(text);
    assert!(refused.contains("unknown key `suspend` in a task"), "{refused}");
    let text =
        text.replace(", \"phases\" : { \"p\" : { \"resume\" : \"c\" } }", ", \"resume\" : \"c\"");
    let steps: Vec<String> = steps(&text).into_iter().map(|(_, steps)| steps).collect();
    let expected = [
        "suspend A,burn 1us",
        "suspend A,burn 2us",
        "suspend b,resume A",
        "suspend c,resume b,resume c",
    ];
    assert_eq!(steps, expected);
}

#[test]
fn what_is_wrong_is_an_error_with_its_place() {
    let sets = |count: usize| {
        let one = |n: usize| format!("\"t{n}\" : {{ \"run\" : 1 }}");
        let all: Vec<String> = (0..count).map(one).collect();
        format!("{{ \"tasks\" : {{ {} }} }}", all.join(", "))
    };
    let many = "\"yield\" : \"\", ".repeat(crate::workload::MAX_STEPS + 1);
    let huge = " ".repeat(MAX_TEXT_BYTES + 1);
    let hold = |text: &str, expected: &str| {
        let got = errors(text);
        assert!(got.contains(expected), "{}\n{got}", &text[..text.len().min(200)]);
    };
    let table = r#"
        [] => 1:1: the file is a list, not an object
        {} => 1:1: there are no `tasks`
        { "tasks" : {} } => 1:13: no task has a thread
        { "tasks" : { "a" : { "run" : 1 } }, "frag" : 1 } => 1:38: unknown key `frag` in the file
        { "global" : { "fork" : 1 }, "tasks" : { "a" : { "run" : 1 } } } => 1:16: unknown key `fork` in `global`
        { "global" : { "duration" : 0 }, "tasks" : { "a" : { "run" : 1 } } } => 1:29: `duration` is 0
        { "global" : { "duration" : "6" }, "tasks" : { "a" : { "run" : 1 } } }
          => 1:29: `duration` takes a whole number, not a text
        { "global" : { "io_device" : "/dev/sda" }, "tasks" : { "a" : { "run" : 1 } } }
          => 1:30: no file but /dev/null is written, not `/dev/sda`
    "#;
    rows(table).iter().for_each(|(text, expected)| hold(text, expected[0]));
    let table = r#"
        "rum" : 1 => 1:23: unknown key `rum` in a task
        "exec" : 1, "run" : 1 => 1:23: unknown key `exec` in a task
        "loop" : 1 => 1:15: `a` has no events
        "loop" : 1, "loop" : 2, "run" : 1 => 1:35: `loop` is there twice in a task
        "loop" : 0, "run" : 1 => 1:32: `loop` is 0
        "run" : 1.5 => 1:31: `run` takes a whole number, not 1.5
        "run" : 1e3 => 1:31: `run` takes a whole number in digits alone
        "run" : 1e30 => 1:31: `run` is 1e30, not 0 to 86400000000
        "run" : -1e400 => 1:31: `run` is -inf, not 0 to 86400000000
        "run" : nan => 1:31: `run` takes a whole number, not NaN
        "lock" : 1.5 => `lock` takes a text in quotes, not a number
        "run" : -1 => 1:31: `run` is -1, not 0 to 86400000000
        "run" : 86400000001 => 1:31: `run` is 86400000001, not 0 to 86400000000
        "resume" : "b" => 1:34: there is no task `b`
        "wait" : { "ref" : "c" } => 1:23: no condition with its mutex
        "timer" : { "ref" : "t" } => 1:23: a timer without a period
        "timer" : { "period" : 1, "mode" : "x" } => 1:58: there is no mode `x`
        "timer" : { "period" : 1, "perod" : 1 } => 1:49: unknown key `perod` in a timer
        "policy" : "SCHED_EXT", "run" : 1 => 1:34: there is no policy `SCHED_EXT`
        "policy" : "SCHED_DEADLINE", "run" : 1 => 1:15: SCHED_DEADLINE needs a runtime
        "policy" : "SCHED_DEADLINE", "dl-runtime" : 9, "dl-period" : 5, "run" : 1 => `runtime` is longer than
        "nodes_membind" : [0], "run" : 1 => 1:41: tasks have no memory nodes of their own here
        "memrun" : { "type" : "read" } => 1:23: `memrun` cannot be done here
        "taskgroup" : "a", "run" : 1 => 1:37: `a` is not a task group
        "taskgroup" : "/../x", "run" : 1 => is not a task group
        "cpus" : [], "run" : 1 => 1:32: no CPU is left
        "cpus" : [99999], "run" : 1 => 1:33: `cpus` is 99999, not 0 to 65535
        "instance" : 100001, "run" : 1 => `instance` is 100001, not 0 to 100000
        "phases" : { "p" : { "policy" : "SCHED_FIFO", "priority" : 99, "run" : 1 }, "q" : { "run" : 1 } }
          => `priority` is 99, not -20 to 98
        "phases" : { "p" : { "priority" : 50, "run" : 1 }, "q" : { "run" : 1 } }
          => `priority` 50 means nothing under SCHED_OTHER
        "policy" : "SCHED_FIFO", "phases" : { "p" : { "priority" : -5, "run" : 1 }, "q" : { "run" : 1 } }
          => `priority` -5 means nothing under SCHED_FIFO
        "policy" : "SCHED_FIFO", "taskgroup" : "/a", "run" : 1 => 1:62: a task group has no tasks of SCHED_FIFO
        "phases" : { "p" : { "policy" : "SCHED_RR", "taskgroup" : "/a", "run" : 1 }, "q" : { "run" : 1 } }
          => a task group has no tasks of SCHED_RR
        "phases" : { "p" : { "rum" : 1 } } => unknown key `rum` in a phase
        "phases" : { "p" : { "taskgroup" : "a", "run" : 1 }, "q" : { "run" : 1 } } => `a` is not a task group
        "phases" : { "p" : { "util_min" : 1, "run" : 1 }, "q" : { "run" : 1 } }
          => a task cannot change this from phase to phase here
    "#;
    rows(table).iter().for_each(|(text, expected)| hold(&task(text), expected[0]));
    let cases: &[(&str, &str)] = &[
        (&task("\"priority\" : 50, \"run\" : 1"), "1:36: "),
        (&sets(MAX_SETS + 1), "1:13: 257 tasks"),
        (&format!("{{ \"tasks\" : {{ {} }} }}", "\"t\":{},".repeat(40_000)), "1:13: 40000 tasks"),
        (&task(&many), "1:15: 1 events too many"),
        (&huge, "1:1: the file has 1048577 bytes"),
    ];
    cases.iter().for_each(|(text, expected)| hold(text, expected));
    assert_eq!(work(&sets(MAX_SETS)).sets.len(), MAX_SETS);
}

#[test]
fn tasks_of_one_name_have_timers_of_their_own() {
    let task = |end: &str| {
        format!("\"t\" : {{ \"timer\" : {{ \"ref\" : \"unique\", \"period\" : 10{end} }} }}")
    };
    let text =
        format!("{{ \"tasks\" : {{ {}, {} }} }}", task(""), task(", \"mode\" : \"absolute\""));
    let steps = steps(&text);
    let all: Vec<&str> = steps.iter().map(|(_, steps)| steps.as_str()).collect();
    assert_eq!(all, ["timer unique 10us", "timer unique 10us absolute"]);
}

#[test]
fn a_phase_has_the_policy_and_the_group_of_the_last_one_that_names_them() {
    let refused = "a task group has no tasks of SCHED_FIFO";
    let fifo = "\"policy\" : \"SCHED_FIFO\"";
    let cases = [
        ("\"taskgroup\" : \"/a\", ", fifo, "\"run\" : 2", Some(refused)),
        ("", fifo, "\"taskgroup\" : \"/a\"", Some(refused)),
        ("", "\"taskgroup\" : \"/a\"", fifo, Some(refused)),
        ("", "\"taskgroup\" : \"/\"", fifo, None),
        (
            "\"policy\" : \"SCHED_FIFO\", ",
            "\"priority\" : -5",
            "\"policy\" : \"SCHED_OTHER\"",
            Some("`priority` -5"),
        ),
        ("", "\"policy\" : \"SCHED_IDLE\", \"priority\" : 50", "\"run\" : 2", None),
        (
            "",
            "\"policy\" : \"SCHED_FIF\", \"priority\" : 50",
            "\"run\" : 2",
            Some("there is no policy"),
        ),
    ];
    for (own, first, second, expected) in cases {
        let text = task(&format!(
            "{own}\"phases\" : {{ \"p\" : {{ {first}, \"run\" : 1 }}, \"q\" : {{ {second}, \"run\" : 1 }} }}"
        ));
        match (from_rt_app("a.json", &text), expected) {
            (Ok(_), None) => {}
            (Err(_), Some(expected)) => {
                let shown = errors(&text);
                assert!(
                    shown.contains(expected) && shown.matches("app.json:").count() == 1,
                    "{shown}"
                );
            }
            (result, _) => panic!("{text}: {result:?}"),
        }
    }
}

#[test]
fn a_timer_is_absolute_for_all_that_use_it_or_for_nobody() {
    let text = r#"{ "tasks" : {
        "a" : { "phases" : {
            "one" : { "run" : 1, "timer" : { "ref" : "unique", "period" : 10, "mode" : "absolute" } },
            "two" : { "run" : 1, "timer" : { "ref" : "unique", "period" : 10 } },
            "three" : { "run" : 1, "timer" : { "ref" : "all", "period" : 10 } },
        } },
        "b" : { "run" : 1, "timer" : { "ref" : "unique", "period" : 10 },
                "timer2" : { "ref" : "all", "period" : 10, "mode" : "absolute" } },
    } }"#;
    let plan = from_rt_app("a.json", text).unwrap();
    let has = |step: &str| plan.matches(step).count();
    assert_eq!(
        [has("\"timer unique 10us absolute\""), has("\"timer unique 10us\"")],
        [2, 1],
        "{plan}"
    );
    assert_eq!(
        [has("\"shared-timer all 10us absolute\""), has("\"shared-timer all 10us\"")],
        [2, 0]
    );
}

#[test]
fn a_forked_task_cannot_wait_at_a_barrier() {
    let text = r#"{ "tasks" : { "m" : { "fork" : "t", "barrier" : "x" }, "t" : { "instance" : 0, "run" : 1, "barrier" : "x" } } }"#;
    assert!(errors(text).contains("1:91: a task that is forked cannot wait"), "{}", errors(text));
    let unforked = text.replace("\"fork\" : \"t\", ", "");
    assert!(from_rt_app("a.json", &unforked).is_ok());
}

#[test]
fn one_mistake_is_one_error() {
    let cases: &[(&str, &str)] = &[
        (&task("\"timer\" : { \"ref\" : \"t\", \"period\" : 1e3 }"), "in digits alone"),
        (&task("\"timer\" : { \"ref\" : \"t\", \"perid\" : 1000 }"), "unknown key `perid`"),
        (&task("\"timer\" : { \"ref\" : 3, \"period\" : 1000 }"), "`ref` takes a text"),
        (&task("\"wait\" : { \"ref\" : \"c\", \"mutex\" : 1 }"), "`mutex` takes a text"),
        (&task("\"wait\" : { \"ref\" : \"c\", \"mutx\" : \"m\" }"), "unknown key `mutx`"),
        (
            &task("\"policy\" : \"SCHED_DEADLINE\", \"dl-runtime\" : \"9\", \"run\" : 1"),
            "`dl-runtime` takes a whole number",
        ),
        (&task("\"cpus\" : [], \"run\" : 1"), "1:32: no CPU is left"),
        (&task("\"cpus\" : [-1], \"run\" : 1"), "1:33: `cpus` is -1"),
        ("{ \"task\" : { \"a\" : { \"run\" : 1 } } }", "unknown key `task`"),
    ];
    for (text, expected) in cases {
        let got = errors(text);
        assert!(got.contains(expected) && got.lines().count() == 1, "{text}\n{got}");
    }
    let hinted = from_rt_app("f.json", &task("\"run\" : 1.5e3")).unwrap_err().render();
    assert!(hinted.contains("hint: 1500\n"), "{hinted}");
}

#[test]
fn text_of_a_file_stays_text_in_the_plan() {
    let text = r#"{ "tasks" : { "a\"]\n[measure]\n\u001b[2J" : { "run" : 1, "lock" : "x\" y", "unlock" : "x\" y" } } }"#;
    let made = from_rt_app("a\"\u{1b}[2J\nb.json", text).unwrap();
    assert!(!made.contains('\u{1b}'), "{made:?}");
    let plan = plan::parse("p", &made, None, Default::default()).unwrap();
    assert_eq!(plan.works[0].sets[0].params["steps"].to_string(), "burn 1us,lock x__y,unlock x__y");
    assert!(
        is_rt_app("x", "\n /* c */ {")
            && is_rt_app("x.json", "")
            && !is_rt_app("x.toml", "schema = 1")
    );
}

#[test]
fn a_plan_has_the_sets_of_the_files_that_its_workloads_name() {
    let file = r#"{ "global" : { "duration" : 6 }, "tasks" : {
        "a" : { "instance" : 2, "delay" : 100, "policy" : "SCHED_BATCH", "run" : 10, "barrier" : "b" },
        "b c" : { "loop" : 3, "taskgroup" : "/x/y", "phases" : { "p" : { "loop" : 2, "run" : 1 } } } } }"#;
    let plan = "schema = 1\n[[workload]]\nname = \"one\"\nuse = \"dir/app.json\" # ours\n\
                [[workload.background]]\nuse = \"spin\"\n[[workload]]\nname = \"two\"\n\
                use = \"dir/app.json\"\ncount = 3\n[measure]\nduration = \"2s\"\n";
    assert_eq!(rt_app_files(plan).into_iter().collect::<Vec<_>>(), ["dir/app.json"]);
    let whole = with_rt_app_files(plan, &[("dir/app.json".to_string(), file.to_string())]).unwrap();
    assert_eq!(whole.lines().nth(4), plan.lines().nth(4), "lines stay: {whole}");
    let parsed = plan::parse("p.toml", &whole, None, Default::default());
    let parsed = parsed.unwrap_or_else(|errors| panic!("{errors}\n{whole}"));
    let alone = work(file).sets;
    let [one, two] = &parsed.works[..] else { panic!("{whole}") };
    assert_eq!((&one.sets[..2], one.sets.len()), (&alone[..], 3), "{whole}");
    assert_eq!(two.sets.iter().map(|set| set.count).collect::<Vec<_>>(), [2, 3]);
    assert_eq!(parsed.measure.duration_ns, 2_000_000_000);

    let unnamed = plan.replace("name = \"two\"\n", "");
    let unnamed = with_rt_app_files(&unnamed, &[("dir/app.json".to_string(), file.to_string())]);
    let errors = plan::parse("p.toml", &unnamed.unwrap(), None, Default::default()).unwrap_err();
    assert!(errors.to_string().contains("the workload has no `name`"), "{errors}");
    let of_set = "schema = 1\n[[workload]]\nname = \"m\"\n[[workload.set]]\nuse = \"app.json\"\n";
    assert!(rt_app_files(of_set).is_empty());
    let errors = plan::parse("p.toml", of_set, None, Default::default()).unwrap_err();
    assert!(errors.errors()[0].hint.contains("[[workload]]"), "{errors}");
    let both = plan.replace("background]]", "set]]");
    let both = with_rt_app_files(&both, &[("dir/app.json".to_string(), file.to_string())]).unwrap();
    let errors = plan::parse("p.toml", &both, None, Default::default()).unwrap_err();
    assert!(errors.to_string().contains("`use` next to sets"), "{errors}");
    let many = "[[workload]]\nuse = \"dir/app.json\"\n".repeat(20_000);
    let errors = with_rt_app_files(&many, &[("dir/app.json".to_string(), file.to_string())]);
    assert!(errors.unwrap_err().to_string().contains("with its files of rt-app"));
    let wrong = with_rt_app_files(plan, &[("dir/app.json".to_string(), "{ 3".to_string())]);
    assert!(wrong.unwrap_err().to_string().starts_with("dir/app.json:1:3"));
}

#[test]
fn tasks_of_one_name_are_sets_of_their_own_and_names_in_the_file_stay_those_of_their_tasks() {
    let text = r#"{ "tasks" : {
        "t" : { "run" : 1000, "suspend" : "x" },
        "t" : { "run" : 2000, "suspend" : "x" },
        "t1" : { "run" : 3000, "suspend" : "x" },
        "t" : { "run" : 4000, "suspend" : "x" },
        "waker" : { "resume" : "t1", "resume" : "t", "sleep" : 10 },
    } }"#;
    let steps = steps(text);
    let own: Vec<(&str, &str)> =
        steps.iter().map(|(name, steps)| (name.as_str(), steps.as_str())).collect();
    let expected = [
        ("t", "burn 1ms,suspend t"),
        ("t2", "burn 2ms,suspend t2"),
        ("t1", "burn 3ms,suspend t1"),
        ("t3", "burn 4ms,suspend t3"),
        ("waker", "resume t1,resume t,sleep 10us"),
    ];
    assert_eq!(own, expected);
    let made = from_rt_app("app.json", text).unwrap();
    assert!(made.contains("[[workload.set]]\n# t\nname = \"t2\""), "{made}");
    let forks =
        r#"{ "tasks" : { "t" : { "instance" : 0, "run" : 1 }, "t-forks" : { "fork" : "t" } } }"#;
    let names: Vec<String> = work(forks).sets.iter().map(|set| set.name.clone()).collect();
    assert_eq!(names, ["t-forks-2", "t-forks"]);
}

#[test]
fn an_error_of_the_plan_is_at_the_task_that_it_is_about() {
    let file = "{ \"tasks\" : {\n \"one\" : { \"run\" : 10 },\n \"two\" : { \"run\" : 10,\n  \
                \"delay\" : 2000000, \"sleep\" : 10 } },\n \"global\" : { \"duration\" : 1 } }";
    let files = [("dir/app.json".to_string(), file.to_string())];
    let named = "schema = 1\n[measure]\nduration = \"1s\"\n[[workload]]\nname = \"a\"\nuse = \"dir/app.json\"\n";
    let plans =
        [from_rt_app("dir/app.json", file).unwrap(), with_rt_app_files(named, &files).unwrap()];
    for made in plans {
        let found = plan::parse("p.toml", &made, None, Default::default()).unwrap_err();
        let placed = at_rt_app(found, &made, &files).render();
        for part in ["dir/app.json:3:2", "3 |  \"two\"", "^^^^^ this task"] {
            assert!(placed.contains(part), "{part}: {placed}");
        }
    }
    let made = from_rt_app("dir/app.json", file).unwrap();
    let other = made.replace("schema = 1", "schema = 1\nunknown = 3");
    let found = plan::parse("p.toml", &other, None, Default::default()).unwrap_err();
    let placed = at_rt_app(found, &other, &files).to_string();
    assert!(placed.starts_with("p.toml:"), "an error that is of no task stays: {placed}");
    let at_steps = made.replace("\"burn 10us\",\n  \"sleep", "\"brn 10us\",\n  \"sleep");
    let found = plan::parse("p.toml", &at_steps, None, Default::default()).unwrap_err();
    assert!(!at_rt_app(found, &at_steps, &files).to_string().contains("app.json"), "other text");
}

#[test]
fn cgroups_of_a_file_join_those_of_the_plan_however_they_are_written() {
    let file = r#"{ "tasks" : { "a" : { "run" : 10, "taskgroup" : "/x/y" } } }"#;
    let files = [("app.json".to_string(), file.to_string())];
    let cases = [
        "",
        "cgroup = {}\n",
        "cgroup = { x = { y = { weight = 50 } } }\n",
        "cgroup = { x = { weight = 50 } }\n",
        "cgroup.x = { weight = 50 }\n",
        "cgroup = { x = { y = {} } }\n",
        "cgroup = { x.y.weight = 50 }\n",
    ];
    for own in cases {
        let plan = format!("schema = 1\n{own}[[workload]]\nname = \"w\"\nuse = \"app.json\"\n");
        let whole = with_rt_app_files(&plan, &files).unwrap();
        let parsed = plan::parse("p.toml", &whole, None, Default::default());
        let parsed = parsed.unwrap_or_else(|errors| panic!("{errors}\n{whole}"));
        let set = &parsed.works[0].sets[0];
        assert_eq!(set.cgroup.as_ref().map(ToString::to_string).as_deref(), Some("x/y"), "{whole}");
        assert_eq!(whole.lines().nth(2).is_some(), plan.lines().nth(2).is_some());
    }
}

#[test]
fn a_sync_does_not_lock_what_its_thread_has() {
    let sync = "\"sync\" : { \"ref\" : \"c\", \"mutex\" : \"m\" }";
    let held = task(&format!("\"lock\" : \"m\", {sync}, \"unlock\" : \"m\", {sync}, \"run\" : 1"));
    let own = &steps(&held)[0].1;
    let pair = "lock m,signal c,wait c m,unlock m";
    assert_eq!(own, &format!("{pair},{pair},burn 1us"));
    let other = task(&format!("\"lock\" : \"n\", {sync}, \"unlock\" : \"n\", \"run\" : 1"));
    assert_eq!(steps(&other)[0].1, format!("lock n,{pair},unlock n,burn 1us"));
}

#[test]
fn a_thread_moves_to_the_task_group_of_a_phase_and_stays_there() {
    let phases = "\"taskgroup\" : \"/own\", \"phases\" : {
        \"a\" : { \"run\" : 1, \"taskgroup\" : \"/x/y\" }, \"b\" : { \"run\" : 2 },
        \"c\" : { \"run\" : 3, \"taskgroup\" : \"/\" } }";
    let work = work(&task(phases));
    let expected = "phase 1,cgroup x/y,burn 1us,phase 1,burn 2us,phase 1,cgroup /,burn 3us";
    assert_eq!(work.sets[0].params["steps"].to_string(), expected);
    assert_eq!(work.sets[0].cgroup.as_ref().unwrap().as_str(), "own");
    let paths: Vec<&str> = work.cgroups.iter().map(|cgroup| cgroup.path.as_str()).collect();
    assert_eq!(paths, ["own", "x", "x/y"]);
    assert!(work.changes_in_mid_run(&work.sets[0]), "its share of the CPUs is not one");
    // A single phase has the settings of its task.
    let one = task(
        "\"taskgroup\" : \"/own\", \"phases\" : { \"a\" : { \"run\" : 1, \"taskgroup\" : \"/\" } }",
    );
    let one = self::work(&one);
    assert_eq!((one.cgroups.len(), one.sets[0].cgroup.clone()), (0, None));
}

#[test]
fn steps_move_workers_to_cgroups_of_the_plan() {
    let steps = |steps: &str, after: &str| {
        format!("schema = 1\n[[workload]]\nuse = \"steps\"\nsteps = [{steps}]\n{after}")
    };
    let parse = |text: &str| plan::parse("p", text, None, Default::default());
    let fine = [
        steps("\"cgroup a\", \"cgroup /\", \"burn 1ms\"", "[cgroup.a]"),
        steps("\"cgroup /\", \"burn 1ms\"", ""),
        steps("\"cgroup a/b, burn 1ms\"", "[cgroup.a.b]"),
    ];
    fine.iter().for_each(|text| _ = parse(text).unwrap_or_else(|errors| panic!("{errors}")));
    let wrong = [
        (steps("\"cgroup b\", \"burn 1ms\"", ""), "p:4:10: there is no cgroup `b`"),
        (steps("\"cgroup /a\", \"burn 1ms\"", ""), "has neither the path of a cgroup nor /"),
        (
            steps("\"cgroup a/b\", \"burn 1ms\"", "[cgroup.a]\ncpus = \"0\"\n[cgroup.a.b]"),
            "p:4:10: a step moves its worker, and the cgroup `a` has CPUs of its own",
        ),
        (
            steps(
                "\"cgroup /\", \"cgroup b\", \"burn 1ms\"",
                "cgroup = \"a\"\n[cgroup]\na.cpus = \"0\"\nb = {}",
            ),
            "a step moves its worker, and the cgroup `a` has CPUs of its own",
        ),
        (
            steps("\"cgroup /\", \"burn 1ms\"", "cgroup = \"a\"\n[cgroup]\na.cpus = \"0\""),
            "a step moves its worker, and the cgroup `a` has CPUs of its own",
        ),
        (steps("\"burn 1ms\"", "[cgroup.a]"), "no worker set is in the cgroup `a`"),
    ];
    for (text, expected) in wrong {
        let errors = parse(&text).unwrap_err().to_string();
        assert!(errors.contains(expected) && errors.lines().count() == 1, "{text}\n{errors}");
    }
    let plan = parse(&fine[2]).unwrap();
    let paths: Vec<&str> = plan.works[0].cgroups.iter().map(|of| of.path.as_str()).collect();
    assert_eq!(paths, ["a", "a/b"]);
}
