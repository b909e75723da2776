//! Tests of planning: order, labels, what is inherited, what is refused.

use super::super::file::Plan;
use super::super::json;
use super::super::testing::{parse, usage};
use super::*;

const PRESETS: &str = r#""WorkerPresets":{"A":{"Args":["burnwait","70","200000"],"note":1},"B":{"Args":["burnwait","10","300000","burnwait","30","300000"]}}"#;

fn with(matrix: &str) -> String {
    format!("{{\"Input\":{{{PRESETS},\"SimpleMatrix\":{{{matrix}}}}}}}")
}

fn labels(matrix: &str) -> Vec<String> {
    let text = with(matrix);
    let mut file = parse(&text).unwrap();
    file.expand().unwrap();
    file.plan.runs.iter().map(|run| run.label.clone()).collect()
}

#[test]
fn runs_come_in_the_originals_order_with_its_labels() {
    let full = r#""Schedulers":["credit","credit2"],"Workers":["A","B"],"Count":[1,4],"NumaDisable":[true,false]"#;
    let expected = [
        "A baseline credit NumaOff",
        "A baseline credit NumaOn ",
        "A baseline credit2 NumaOff",
        "A baseline credit2 NumaOn ",
        "B baseline credit NumaOff",
        "B baseline credit NumaOn ",
        "B baseline credit2 NumaOff",
        "B baseline credit2 NumaOn ",
        "A 1 + B 1 credit NumaOff",
        "A 1 + B 1 credit NumaOn ",
        "A 1 + B 1 credit2 NumaOff",
        "A 1 + B 1 credit2 NumaOn ",
        "A 4 + B 4 credit NumaOff",
        "A 4 + B 4 credit NumaOn ",
        "A 4 + B 4 credit2 NumaOff",
        "A 4 + B 4 credit2 NumaOn ",
    ];
    assert_eq!(labels(full), expected);
    let cases: &[(&str, &[&str])] = &[
        (r#""Workers":["A"],"Count":[2]"#, &["A baseline ", "A 2 "]),
        (r#""Workers":["A"],"Count":[2],"Schedulers":[]"#, &["A baseline", "A 2"]),
        (r#""Workers":["P001"],"Count":[],"NumaDisable":[]"#, &["P001 baseline "]),
        (r#""Workers":["A"],"Schedulers":["x"],"NumaDisable":[false]"#, &["A baseline x NumaOn "]),
    ];
    for (matrix, expected) in cases {
        assert_eq!(labels(matrix), *expected, "{matrix}");
    }
}

#[test]
fn a_plan_is_written_as_the_original_writes_it() {
    let text = with(r#""Workers":["A"],"NumaDisable":[true]"#);
    let mut file = parse(&text).unwrap();
    file.expand().unwrap();
    let mut out = Vec::new();
    json::write(&mut out, &Plan { input: None, ..file.plan }).unwrap();
    let expected = r#"{"Pool":"","SoftAffinity":"","RunConfig":{"Scheduler":"","Pool":"","Cpus":null},"Runs":[{"Label":"A baseline  NumaOff","WorkerSets":[{"Params":{"Args":["burnwait","70","200000"]},"Config":{"Pool":"","SoftAffinity":""},"Count":1}],"SoftAffinity":"","Scheduler":"","Cpus":null,"NumaDisable":true,"RuntimeSeconds":10,"Completed":false,"Results":{}}]}"#;
    assert_eq!(String::from_utf8(out).unwrap(), expected);
}

#[test]
fn a_file_with_runs_keeps_them_and_a_template_gives_none() {
    let text = with(r#""Workers":["A"]"#).replacen('{', "{\"Runs\":[{\"Label\":\"mine\"}],", 1);
    let mut file = parse(&text).unwrap();
    assert!(usage(file.expand()).contains("t.bench has 1 runs already"));
    assert_eq!(file.plan.runs[0].label, "mine");
    file.clear_runs();
    file.expand().unwrap();
    assert_eq!(file.plan.runs[0].label, "A baseline ");
}

#[test]
fn what_cannot_be_planned_is_named_and_nothing_is_made() {
    let preset = |args: &str| {
        format!(
            "{{\"Input\":{{\"WorkerPresets\":{{\"X\":{{\"Args\":{args}}}}},\
             \"SimpleMatrix\":{{\"Workers\":[\"X\"]}}}}}}"
        )
    };
    let cases = [
        ("{}".to_string(), "`Input` is missing"),
        ("{\"Input\":{}}".to_string(), "`Input.SimpleMatrix` is missing"),
        (with(r#""Count":[1]"#), "`Input.SimpleMatrix.Workers` names no worker"),
        (with(r#""Workers":[]"#), "`Input.SimpleMatrix.Workers` names no worker"),
        (
            with(r#""Workers":["A","\u001b"]"#),
            "Workers[1]`: preset `\\u{1b}` is not defined; there are `A`, `B`, `P001`",
        ),
        (
            with(r#""Workers":["A"],"Count":[1,0]"#),
            "`Input.SimpleMatrix.Count[1]`: 0 workers, not 1 to",
        ),
        (with(r#""Workers":["A"],"Count":[-3]"#), "Count[0]`: -3 workers"),
        (
            with(r#""Workers":["A","B"],"Count":[1,50001]"#),
            "`Input.SimpleMatrix.Count`: 50001: the run has more than 100000 workers",
        ),
        (preset("null"), "`Input.WorkerPresets.X.Args[0]`: there is no `burnwait"),
        (preset(r#"["burnwait","70"]"#), "Args[0]`: `burnwait` has no WAIT_NS after it"),
        (preset(r#"["burnwait","70","1","spin"]"#), "X.Args[3]`: `spin` is not a kind of work"),
    ];
    for (text, expected) in cases {
        let mut file = parse(&text).unwrap();
        let why = usage(file.expand());
        assert!(why.starts_with("t.bench: ") && why.contains(expected), "{text}: {why}");
        assert!(why.contains("\nhint: ") && file.plan.runs.is_empty(), "{why}");
    }
}

fn run_of(top: &str, run: &str) -> String {
    format!(
        "{{{top}\"Runs\":[{{\"Label\":\"done\",\"Completed\":true}},{{\"Label\":\"todo\"{run}}}]}}"
    )
}

const SET: &str =
    r#","WorkerSets":[{"Params":{"Args":["kHZ","5","burnwait","70","200000"]},"Count":3}]"#;

#[test]
fn a_pending_run_inherits_what_it_does_not_say() {
    let bare = run_of("", SET);
    let pending = &parse(&bare).unwrap().pending().unwrap()[..];
    let [run] = pending else { panic!("{pending:?}") };
    assert_eq!((run.index, &*run.label, run.runtime_seconds), (1, "todo", 10));
    assert_eq!((&run.scheduler, &run.sets[0].pool, &run.cpus), (&None, &None, &None));
    assert!(!run.numa_disable, "nobody said so; the original crashes");
    assert_eq!(run.sets[0].count, 3);
    assert_eq!(args::to_queue(&run.sets[0].queue), ["burn 70", "wait 200000ns"]);

    let top = r#""Pool":"wp","SoftAffinity":"0-1","RunConfig":{"Scheduler":"s","Pool":"rp","Cpus":[3,1],"NumaDisable":false},"#;
    let inherited = &run_of(top, SET);
    let run = &parse(inherited).unwrap().pending().unwrap()[0];
    assert_eq!(run.scheduler.as_deref(), Some("s"));
    assert_eq!(run.cpus.as_deref(), Some(&[3, 1][..]));
    assert_eq!(run.sets[0].pool.as_deref(), Some("wp"));
    assert_eq!(run.sets[0].soft_affinity.as_deref(), Some("0-1"));

    let own = r#","Scheduler":"own","Pool":"own","Cpus":[7],"NumaDisable":true,"RuntimeSeconds":3,"WorkerSets":[{"Params":{"Args":["burnwait","1","1"]},"Config":{"Pool":"set"},"Count":1}]"#;
    let own = run_of(&top.replace("0-1", ""), own);
    let run = &parse(&own).unwrap().pending().unwrap()[0];
    assert_eq!(run.scheduler.as_deref(), Some("own"));
    assert_eq!(run.cpus.as_deref(), Some(&[7][..]));
    assert_eq!((run.numa_disable, run.runtime_seconds), (true, 3));
    assert_eq!(run.sets[0].pool.as_deref(), Some("set"));
    // The run's own pool overrides the one of all workers, as with SoftAffinity.
    let of_run = own.replace(r#""Config":{"Pool":"set"},"#, "");
    let run = &parse(&of_run).unwrap().pending().unwrap()[0];
    assert_eq!(run.sets[0].pool.as_deref(), Some("own"));

    let object = run_of(r#""WorkerConfig":{"Pool":"o","SoftAffinity":"2"},"#, SET);
    let set = parse(&object).unwrap().pending().unwrap()[0].sets[0].clone();
    assert_eq!((set.pool.as_deref(), set.soft_affinity.as_deref()), (Some("o"), Some("2")));

    let pool_of = |top: &str, run: &str| {
        let text = run_of(top, &format!("{run}{SET}"));
        parse(&text).unwrap().pending().unwrap()[0].sets[0].pool.clone()
    };
    let config = r#""RunConfig":{"Pool":"rp"},"#;
    assert_eq!(pool_of(config, "").as_deref(), Some("rp"));
    assert_eq!(pool_of(config, r#","Pool":"own""#).as_deref(), Some("own"));
    let whole = pool_of(config, r#","Pool":"Pool-0""#);
    assert_eq!(whole, None, "the original's default pool is the whole machine");
}

#[test]
fn a_pending_run_that_cannot_be_run_is_reported_by_its_path() {
    let set = |set: &str| format!(",\"WorkerSets\":[{set}]");
    let cases = [
        (String::new(), "WorkerSets`: there is no worker set"),
        (
            set(r#"{"Params":{"Args":["burnwait","1"]},"Count":1}"#),
            "WorkerSets[0].Params.Args[0]`: ",
        ),
        (set(r#"{"Params":{"Args":["burnwait","1","1"]}}"#), "WorkerSets[0].Count`: 0 workers"),
        (
            format!("{SET},\"x\":[").replace("\"Count\":3", "\"Count\":99999").replace(
                "}],\"x\":[",
                "},{\"Params\":{\"Args\":[\"burnwait\",\"1\",\"1\"]},\"Count\":2}]",
            ),
            "WorkerSets[1].Count`: 2: the run has more than 100000 workers",
        ),
        (format!("{SET},\"RuntimeSeconds\":-1"), "RuntimeSeconds`: -1, not 1 to 86400"),
        (format!("{SET},\"Cpus\":[]"), "Cpus`: the list is empty"),
        (format!("{SET},\"Cpus\":[1,-2]"), "Cpus`: -2 is not a number of a CPU"),
        (format!("{SET},\"NumaDisable\":true,\"SoftAffinity\":\"1\""), "NumaDisable`: true, but"),
    ];
    for (run, expected) in cases {
        let text = run_of("", &run);
        let why = usage(parse(&text).unwrap().pending());
        let place = format!("t.bench: run 1 `todo`: `Runs[1].{expected}");
        assert!(why.starts_with(&place), "{run}: {why}");
    }
}

#[test]
fn a_plan_is_written_over_a_plan_and_over_nothing_else() {
    let run = |fields: &str| format!("{{\"Runs\":[{{\"Label\":\"x\"{fields}}}]}}");
    let raw = r#","Results":{"Raw":[{}]}"#;
    let check = |text: &str| parse(text).unwrap().check_replaceable(text);
    for good in [run(""), run(r#","Results":{"Raw":[ ]}"#), "{\"Input\":{}}".to_string()] {
        assert_eq!(check(&good), Ok(()), "{good}");
    }
    let bad = [
        (run(r#","Completed":true"#), "t.bench is there already, with results of 1 runs"),
        (run(raw), "with results of 1 runs"),
        ("{}".to_string(), "no .bench file"),
        ("{\"Pool\":\"\"}".to_string(), "no .bench file"),
    ];
    for (text, expected) in bad {
        let why = usage(check(&text));
        assert!(why.contains(expected) && why.contains("\nhint: -f NEW "), "{text}: {why}");
    }
}
