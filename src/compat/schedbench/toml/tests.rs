//! Files in which every text means something to TOML, terminals or names.

use proptest::prelude::*;
use serde_json::json;

use crate::model::{Plan, WorkerKind};

use super::super::testing::{parse, usage};
use super::*;

fn imported(text: &str) -> String {
    plan_text(&parse(text).unwrap()).unwrap()
}

fn plan_of(text: &str) -> Plan {
    let made = imported(text);
    plan::parse("made.toml", &made, None, plan::Known::default()).unwrap_or_else(|errors| {
        panic!("{}\n{made}", errors.errors()[0].one_line());
    })
}

fn work_names(plan: &Plan) -> Vec<&str> {
    plan.works.iter().map(|work| work.name.as_str()).collect()
}

#[test]
fn the_sample_of_the_original() {
    let text = imported(include_str!("../testing/sample.bench"));
    insta::assert_snapshot!(text);
}

#[test]
fn runs_become_workloads_and_schedulers_variants() {
    let text = r#"{ "Runs": [
        { "Label": "both", "Scheduler": "batch", "Completed": true, "RuntimeSeconds": 3,
          "NumaDisable": false, "WorkerSets": [
            { "Params": { "Args": ["kHZ", "9", "burnwait", "7", "1500"] }, "Count": 3 },
            { "Params": { "Args": ["burnwait", "7", "1500"] }, "Count": 2 } ] },
        { "Label": "both", "Scheduler": "fifo", "RuntimeSeconds": 90, "WorkerSets": [
            { "Params": { "Args": ["burnwait", "7", "1500"] }, "Count": 3 },
            { "Params": { "Args": ["burnwait", "7", "1500"] }, "Count": 2 } ] },
        { "Label": "one", "Scheduler": "fifo", "Cpus": [5, 1], "NumaDisable": true,
          "WorkerSets": [ { "Params": { "Args": ["burnwait", "7", "0"] }, "Count": 1 } ] } ],
      "RunConfig": { "Cpus": [0, 1, 2] } }"#;
    let made = imported(text);
    let plan = plan_of(text);
    assert_eq!(work_names(&plan), ["set 0 1", "set 0 3 + set 1 2"], "solo runs first\n{made}");
    let sets: Vec<_> = plan.works.iter().flat_map(|work| &work.sets).collect();
    assert!(sets.iter().all(|set| set.kind == WorkerKind::Processes && set.workload == "burnwait"));
    assert_eq!(sets.iter().map(|set| set.count).collect::<Vec<_>>(), [1, 3, 2]);
    assert_eq!(sets[1].params["queue"].to_string(), "burn 7,wait 1500ns");
    let variants: Vec<_> = plan.variants.iter().map(|variant| variant.name.as_str()).collect();
    assert_eq!(variants, ["fifo", "batch"]);
    assert_eq!(plan.variants[0].knobs["priority"].as_int(), Some(1));
    assert_eq!(plan.variants[0].knobs["policy"].as_text(), Some("fifo"));
    assert_eq!(plan.measure.duration_ns, 90 * NS_PER_S);
    // The first run's placement; the others' as comments.
    assert_eq!(plan.placement.cpus.as_ref().map(CpuSet::to_string).as_deref(), Some("1,5"));
    assert_eq!(plan.placement.memory, MemoryPlacement::Interleave);
    for line in [
        "duration = \"90s\"  # of the longest run",
        "# other runs have CPUs 0-2",
        "memory = \"interleave\"  # NumaDisable true\n# memory = \"kernel\"  # NumaDisable false",
        "# In the file not every workload has every scheduler.",
    ] {
        assert!(made.contains(line), "{line}\n{made}");
    }
}

#[test]
fn what_a_plan_cannot_say_is_in_comments() {
    let sets = |count: usize, workers: u32| {
        let set = format!(
            "{{ \"Params\": {{ \"Args\": [\"burnwait\", \"1\", \"1\"] }}, \"Count\": {workers} }}"
        );
        vec![set; count].join(",")
    };
    let text = format!(
        r#"{{ "WorkerType": 1, "Pool": "../\u001b[31m", "SoftAffinity": "0-1", "Runs": [
        {{ "Label": "many\nschema = 2", "Scheduler": "credit", "WorkerSets": [{}] }},
        {{ "Label": "crowd", "Scheduler": "x\"\n[[variant]]", "WorkerSets": [{}] }},
        {{ "Label": "fits", "Scheduler": "credit", "WorkerSets": [{}] }} ] }}"#,
        sets(17, 1),
        sets(1, 100_001),
        sets(16, 2)
    );
    let (made, plan) = (imported(&text), plan_of(&text));
    assert_eq!((plan.works.len(), plan.works[0].sets.len()), (1, 16), "{made}");
    assert_eq!(plan.variants.len(), 1);
    assert_eq!(plan.variants[0].name, "credit");
    assert_eq!(plan.works[0].sets[0].kind, WorkerKind::Guests);
    let soft = plan.works[0].sets[15].knobs.get(XEN_SOFT).map(ToString::to_string);
    assert_eq!(soft.as_deref(), Some("0-1"));
    assert_eq!((&*plan.lab.kernel, plan.lab.cpus), ("xen:4.17", 5));
    assert_eq!(plan.placement.pool, None);
    for line in [
        "# [[variant]]\n# name = 'x\"\\n[[variant]]'",
        "# left out: many\\nschema = 2: 17 worker sets, and a plan takes 16",
        "# left out: crowd: 100001 workers, and a plan takes 100000",
    ] {
        assert!(made.contains(line), "{line}\n{made}");
    }
}

#[test]
fn a_file_that_makes_no_plan_is_refused_with_the_reason() {
    let run = |sets: &str| format!("{{\"Runs\":[{{\"Label\":\"a\",\"WorkerSets\":[{sets}]}}]}}");
    let crowd = "{\"Params\":{\"Args\":[\"burnwait\",\"1\",\"1\"]},\"Count\":1000000}";
    let cases = [
        ("{}".to_string(), "`Input` is missing"),
        (run(""), "`Runs[0].WorkerSets`: there is no worker set"),
        (run("{\"Count\":1}"), "`Runs[0].WorkerSets[0].Params.Args[0]`"),
        (run(crowd), "it makes no plan: "),
    ];
    for (text, expected) in cases {
        let why = usage(plan_text(&parse(&text).unwrap()));
        assert!(why.contains(expected) && why.contains("\nhint: "), "{why}");
    }
}

#[test]
fn presets_lend_their_names_each_once() {
    let text = |workers: &str| {
        format!(
            r#"{{ "Input": {{ "WorkerPresets": {{
              "A": {{ "Args": ["burnwait", "1", "1"] }}, "B": {{ "Args": ["burnwait", "1", "1"] }},
              "-v": {{ "Args": ["burnwait", "2", "2"] }} }},
            "SimpleMatrix": {{ "Workers": [{workers}], "Count": [2] }} }} }}"#
        )
    };
    let cases = [
        (r#""B", "A", "P001""#, "B 2 + A 2 + P001 2"),
        (r#""A", "A", "A""#, "A 2 + B 2 + set 2 2"),
        (r#""-v", "B""#, "set 0 2 + B 2"),
    ];
    for (workers, expected) in cases {
        let plan = plan_of(&text(workers));
        assert_eq!(work_names(&plan).last(), Some(&expected), "{workers}");
    }
}

/// Names with letters that mean something to TOML, to terminals or to names.
fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        "[A-C]",
        "[-'\"\\\\#\\[\\]= \u{1b}\n\r\t\u{7f}\u{202e}\u{200d}é𝛼x.]{0,6}",
        Just("x".repeat(70)),
        any::<String>(),
    ]
}

fn scheduler() -> impl Strategy<Value = String> {
    prop_oneof![
        proptest::sample::select(vec![
            "", "other", "batch", "idle", "fifo", "rr", "deadline", "credit", "default"
        ])
        .prop_map(str::to_string),
        name(),
    ]
}

fn args() -> impl Strategy<Value = Vec<String>> {
    let item = (1u64..=1_000_000_000, 0u64..=3_600_000_000_000);
    proptest::collection::vec(item, 1..4).prop_map(|items| {
        let words =
            |(kops, wait): (u64, u64)| ["burnwait".into(), kops.to_string(), wait.to_string()];
        items.into_iter().flat_map(words).collect()
    })
}

fn run_config() -> impl Strategy<Value = serde_json::Value> {
    let cpus = proptest::option::of(proptest::collection::vec(0u32..200, 1..5));
    (scheduler(), name(), cpus, any::<Option<bool>>()).prop_map(|(scheduler, pool, cpus, off)| {
        json!({ "Scheduler": scheduler, "Pool": pool, "Cpus": cpus, "NumaDisable": off })
    })
}

fn run() -> impl Strategy<Value = serde_json::Value> {
    let set = (args(), 1u32..5_000, name());
    let sets = proptest::collection::vec(set, 1..18);
    (name(), sets, run_config(), 0u64..=86_400).prop_map(|(label, sets, mut run, seconds)| {
        let set = |(args, count, pool)| {
            json!({ "Params": { "Args": args }, "Config": { "Pool": pool }, "Count": count })
        };
        run["Label"] = label.into();
        run["RuntimeSeconds"] = seconds.into();
        run["WorkerSets"] = sets.into_iter().map(set).collect();
        run
    })
}

fn bench() -> impl Strategy<Value = String> {
    let presets = proptest::collection::btree_map(name(), args(), 1..4);
    let runs = proptest::collection::vec(run(), 0..5);
    let matrix = (
        proptest::collection::vec(scheduler(), 0..4),
        proptest::collection::vec(any::<bool>(), 0..3),
        proptest::collection::vec(1u32..5_000, 0..4),
    );
    (presets, matrix, runs, run_config(), 0..2).prop_map(|(presets, matrix, runs, config, kind)| {
        let (schedulers, numa_disable, count) = matrix;
        let workers: Vec<_> = presets.keys().collect();
        let presets: serde_json::Map<_, _> =
            presets.iter().map(|(name, args)| (name.clone(), json!({ "Args": args }))).collect();
        json!({
            "Input": { "WorkerPresets": presets, "SimpleMatrix": {
                "Schedulers": schedulers, "Workers": workers,
                "Count": count, "NumaDisable": numa_disable } },
            "WorkerType": kind, "RunConfig": config, "Runs": runs,
        })
        .to_string()
    })
}

proptest! {
    #[test]
    fn every_file_becomes_a_plan_with_its_queues_and_counts(text in bench()) {
        let file = parse(&text).unwrap();
        let runs = all_runs(&file).unwrap();
        let too_large = |run: &Pending| {
            run.sets.len() > MAX_SETS
                || run.sets.iter().map(|set| set.count as usize).sum::<usize>() > plan::MAX_WORKERS
        };
        let fitting: Vec<_> = runs.iter().filter(|run| !too_large(run)).collect();
        if fitting.is_empty() {
            prop_assert!(usage(plan_text(&file)).contains("it makes no plan"));
            return Ok(());
        }
        let made = imported(&text);
        let plan = plan_of(&text);
        let expected = distinct(fitting.iter().map(|run| combination(run)));
        let found: Vec<Combination> = plan.works.iter().map(|work| {
            work.sets.iter().map(|set| {
                let steps: Vec<&str> = set.params["queue"].as_list().unwrap().iter()
                    .flat_map(|step| step.as_text().unwrap().split(',')).map(str::trim).collect();
                let queue = crate::workload::parse_burn_queue(&steps).unwrap();
                (queue, set.count)
            }).collect()
        }).collect();
        prop_assert_eq!(found, expected);
        let unprintable = made.chars().find(|&c| c != '\n' && c.is_control());
        prop_assert_eq!(unprintable, None);
    }
}
