//! Worker sets with a phase, and bursts, as they run on this machine.

use serde_json::Value;

use crate::home::Home;
use crate::support::{joined, metric};

/// The events of one round of these works: three windows of 100 ms, which are ten times as long where a busy machine
/// did not do enough in them.
fn events(home: &Home, works: &str, is_enough: impl Fn(&[Value]) -> bool) -> Vec<Value> {
    let arguments = ["run", "-q", "plan.toml"];
    let mut plan = [MEASURE, works].concat();
    for _ in 0..2 {
        let events = events_of(home, &plan, &arguments);
        if is_enough(&events) {
            return events;
        }
        plan = plan.replace("00ms", "000ms");
    }
    events_of(home, &plan, &arguments)
}

const MEASURE: &str = "schema = 1\n[measure]\nrounds = 1\nduration = \"300ms\"\n\
                       warmup = \"10ms\"\nwindow = \"100ms\"\nrepeat-spoilt = false\n";

fn events_of(home: &Home, plan: &str, arguments: &[&str]) -> Vec<Value> {
    home.write("plan.toml", plan);
    home.ok(arguments);
    home.events("last")
}

/// Whether each of these workers did something in the second window.
fn did_work(events: &[Value], workers: &[usize]) -> bool {
    workers.iter().all(|&at| windows(events, at)[1].1 > 0)
}

/// The active time and the operations of worker `at`, by window.
fn windows(events: &[Value], at: usize) -> Vec<(u64, u64)> {
    let windows = events.iter().filter(|event| event["event"] == "window");
    let number = |own: &Value, key: &str| own[key].as_u64().expect(key);
    let own = windows.map(|event| &event["window"]["workers"][at]);
    own.map(|own| (number(own, "wall_ns"), number(own, "ops"))).collect()
}

fn outcome(events: &[Value]) -> &Value {
    &events.iter().find(|event| event["event"] == "run_ended").unwrap()["outcome"]
}

const MIX: &str = "[[workload]]\nname = \"mix\"\n[[workload.set]]\nuse = \"spin\"\nbatch = 100\n";

#[test]
fn a_set_with_a_phase_does_nothing_in_the_windows_around_it() {
    for kind in ["threads", "processes"] {
        let home = Home::new();
        let job = format!(
            "[[workload.set]]\nname = \"job\"\nuse = \"spin\"\nbatch = 100\nworkers = \"{kind}\"\n\
             at = \"100ms\"\nfor = \"100ms\"\n"
        );
        let events = events(&home, &[MIX, &job].concat(), |events| did_work(events, &[1]));
        let [before, within, after] = windows(&events, 1)[..] else { panic!("not three windows") };
        assert_eq!((before, after), ((0, 0), (0, 0)), "{kind}");
        let (active_ns, ops) = within;
        assert!(active_ns > 0 && ops > 0, "{kind}: {within:?}");
        assert!(windows(&events, 0).iter().all(|&(active_ns, _)| active_ns > 0));
        let done = outcome(&events);
        let worker = &done["result"]["sets"][1]["workers"][0];
        assert_eq!((&worker["wall_ns"], &worker["ops"]), (&active_ns.into(), &ops.into()));
        assert_eq!(worker["counted_wall_ns"], worker["wall_ns"]);
        let rate = metric(done, 1, "throughput") * active_ns as f64 / 1e9;
        assert!((rate - ops as f64).abs() < 1e-3, "by its own time: {rate} of {ops}");
        assert_eq!(done["result"]["disturbances"].to_string().find("starved"), None);
    }
}

#[test]
fn a_burst_is_timed_to_its_last_operation_and_one_that_is_not_done_is_unknown() {
    let home = Home::new();
    let burst = |name: &str, ops: u64| {
        format!(
            "[[workload.set]]\nname = \"{name}\"\nuse = \"pipe\"\ncount = 2\nat = \"100ms\"\n\
             ops = {ops}\n"
        )
    };
    let sets = [MIX, &burst("short", 20), &burst("endless", 1_000_000_000)].concat();
    let events = events(&home, &sets, |events| {
        // One that has not done all has no time, though others of its set have a throughput.
        let metrics = outcome(events)["result"]["sets"][1]["metrics"].as_array().unwrap();
        metrics.iter().any(|own| own["name"] == "time" && own["value"]["known"].is_f64())
    });
    let done = outcome(&events);
    let workers = done["result"]["sets"][1]["workers"].as_array().unwrap();
    let ops: Vec<u64> = workers.iter().map(|worker| worker["ops"].as_u64().unwrap()).collect();
    assert_eq!(ops, [20, 0, 20, 0], "a pong counts nothing");
    let walls = workers.iter().step_by(2).map(|worker| worker["wall_ns"].as_u64().unwrap());
    let time_ns = metric(done, 1, "time");
    assert_eq!(walls.max().map(|wall_ns| wall_ns as f64), Some(time_ns));
    let rate = 20.0 / time_ns * 1e9;
    assert!(metric(done, 1, "throughput") >= 2.0 * rate * 0.999, "by what each took");
    let endless_ns = done["result"]["sets"][2]["workers"][0]["wall_ns"].as_f64().unwrap();
    assert!(time_ns < endless_ns, "not to the end of the run: {time_ns} of {endless_ns}");
    let endless = &done["result"]["sets"][2]["metrics"][0];
    assert_eq!(endless["name"], "time");
    let why = endless["value"]["unknown"].as_str().expect("not known");
    assert!(why.contains("2 of 2 workers had not done their 1000000000"), "{why}");
}

/// As at the end of a run, running programs come to their end and none begins; the run goes on.
#[test]
fn programs_are_executed_within_their_phase() {
    let home = Home::new();
    let program = |table: &str, name: &str, phase: &str| {
        format!(
            "[[workload.{table}]]\nname = \"{name}\"\nuse = \"command\"\n\
             command = [\"sh\", \"-c\", \"echo >> {}/{name}\"]\n{phase}",
            home.path().display()
        )
    };
    let phase = "at = \"100ms\"\nfor = \"100ms\"\n";
    let background = program("background", "back", phase);
    let late = "[[workload.set]]\nname = \"late\"\nuse = \"spin\"\nbatch = 100\n\
                at = \"200ms\"\nfor = \"100ms\"\n";
    let sets = [MIX, &program("set", "front", phase), late, &background].concat();
    let file = |name: &str| home.at(name);
    let events = events(&home, &sets, |events| {
        let is_enough = did_work(events, &[1, 3]);
        if !is_enough {
            for name in ["front", "back"] {
                _ = std::fs::remove_file(file(name));
            }
        }
        is_enough
    });
    for at in [1, 3] {
        let [before, within, ..] = windows(&events, at)[..] else { panic!("no windows") };
        assert_eq!(before, (0, 0));
        assert!(within.1 > 0, "{within:?}");
    }
    let [_, _, within, ..] = windows(&events, 2)[..] else { panic!("no windows") };
    assert!(within.0 > 0, "its phase begins when the programs have ended: {within:?}");
    let of_all_ns = outcome(&events)["result"]["measured_ns"].as_u64().unwrap();
    assert!(of_all_ns >= 300_000_000, "{of_all_ns}");
    let lines = |name: &str| home.read(name).len() as f64;
    assert_eq!(metric(outcome(&events), 1, "executions"), lines("front"));
    assert!(lines("back") > 0.0);
}

#[test]
fn a_phase_beyond_a_run_that_is_made_shorter_is_refused() {
    let plan = "schema = 1\n[[workload]]\nuse = \"spin\"\nat = \"2s\"\n";
    let home = Home::with_plan(plan);
    let words = ["run", "-q", "plan.toml", "--backend", "null", "--duration", "1s"];
    let said = home.says(2, &words);
    assert!(said.contains("begins at 2s"), "{said}");
    home.ok(&words[..5]);
}

/// Otherwise a set whose workers wait longer than the run would look quick, or as if nobody had waited.
#[test]
fn latencies_that_have_not_ended_count_with_their_age_at_the_end_of_the_set() {
    let home = Home::new();
    let set = |name: &str, more: &str| {
        format!(
            "[[workload.set]]\nname = \"{name}\"\nuse = \"schbench\"\nthreads = 10\n\
             sleep = \"1h\"\n{more}"
        )
    };
    let short = set("short", "at = \"100ms\"\nfor = \"100ms\"\n");
    let plan = [MEASURE, MIX, &set("whole", ""), &short].concat();
    let arguments = ["run", "-q", "plan.toml", "--duration", "1s"];
    let events = events_of(&home, &plan, &arguments);
    let done = outcome(&events);
    let result = &done["result"];
    assert_eq!(result["sets"][1]["workers"][1]["ops"], 0, "no request ends");
    let found = result["disturbances"].as_array().unwrap().iter().map(|found| &found["fact"]);
    let found = found.filter(|fact| fact["kind"] == "under_way" && fact["latency"] == "request");
    let whole: Vec<&Value> = found.clone().filter(|fact| fact["set"] == "whole").collect();
    let [whole] = whole[..] else { panic!("{result}") };
    assert_eq!((&whole["under_way"], &whole["of"]), (&10.into(), &10.into()));
    let p50_ns = metric(done, 1, "request_p50");
    assert!(whole["quantiles"].to_string().contains("request_p50"), "{whole}");
    assert!(p50_ns > 0.0 && p50_ns <= metric(done, 1, "request_max"));
    assert_eq!(whole["oldest_ns"].as_f64(), Some(metric(done, 1, "request_max")));
    // The oldest value is not older than the phase, though the run lasts 800 ms longer.
    let oldest = found.filter(|fact| fact["set"] == "short").map(|fact| &fact["oldest_ns"]);
    assert!(oldest.flat_map(Value::as_u64).all(|oldest_ns| oldest_ns <= 100_000_000), "{result}");
    let words = "10 of 10 latencies `request` of `whole` had begun and not ended";
    let text = joined(&home.ok("report last -v"));
    assert!(text.contains(words), "{text}");
}
