//! Wrong plans with their messages, right plans with their meaning, and properties of both. The tests have
//! their own words, so that no workload or knob changes these tables.

use proptest::prelude::*;

use crate::model::testing::rows;
use crate::model::{
    CpuSet, Field, Kind, LookRule, MemoryPlacement, Params, Placement, Plan, PoolName, ProbeMetric,
    ProbeSpec, Statistic, Topology, Value, WorkerKind,
};
use crate::variant;
use crate::workload::{self, Load, Request, Role, Spec, Workload, WorkloadError};

use super::fields::{
    MAX_CELLS, MEASURE, OFFLINE, PARAMETERS, PLACEMENT, SET, SET_KEYS, TOP_KEYS, VARIANT_KEYS,
    WORKLOAD, WORKLOAD_KEYS, Words, report,
};
use super::round_order;
use super::{Known, PlanErrors, builtin, builtins, cells, embedded, json_schema, parse, read};

struct Fake;

const ESCAPE: char = '\u{1b}';

const THREADS: Kind = Kind::Int { min: 1, max: 200_000 };
const ITEM: Kind = Kind::Duration { min_ns: 1_000, max_ns: 1_000_000_000 };

const FAKE: Spec = Spec {
    name: "web",
    about: "for tests",
    params: &[
        Field::new("threads", THREADS).about("threads").default("2"),
        Field::new("footprint", Kind::Size { min_bytes: 1, max_bytes: 1 << 30 })
            .about("memory")
            .default("256KiB"),
        Field::new("mode", Kind::Choice(&["futex", "pipe"])).about("how").default("pipe"),
        Field::new("items", Kind::List(&ITEM)).about("a queue"),
        Field::new("lock", Kind::Bool).about("whether").default("true"),
        Field::new("note", Kind::Text).about("a text"),
    ],
    roles: &[Role { name: "web", counts: true }],
    throughput: crate::model::Importance::Headline,
    ops: "requests",
    ..Spec::PLAIN
};

impl Workload for Fake {
    fn spec(&self) -> &'static Spec {
        &FAKE
    }

    fn layout(&self, request: &Request) -> Result<Vec<usize>, WorkloadError> {
        let threads = request.params["threads"].as_int().unwrap_or_default() as usize;
        match threads {
            13 => {
                let problem = format!("13 threads on {} CPUs", request.pool.count());
                return Err(WorkloadError::Conflict { problem, hint: None, param: None });
            }
            14 => return Err(WorkloadError::conflict("14 threads".into(), "threads = 12".into())),
            _ => {}
        }
        Ok(vec![0; threads * request.count as usize])
    }

    fn prepare(&self, _request: &Request) -> Result<Box<dyn Load>, WorkloadError> {
        Err(WorkloadError::Unset("plans run nothing"))
    }
}

const FORMATS: &[&str] = &["text", "json", "csv", "schbench", "lkml"];

const COUNT: &[ProbeMetric] = &[ProbeMetric::rate("count", "a metric", Statistic::Count)];

const fn probe(name: &'static str, metrics: &'static [ProbeMetric]) -> ProbeSpec {
    ProbeSpec { name, about: "a probe", needs: "nothing", metrics }
}

/// Two probes with the same metrics, and one with other metrics.
static PROBES: [ProbeSpec; 3] =
    [probe("sched", COUNT), probe("sched-light", COUNT), probe("power", &[])];

const KNOWN: Known = Known { probes: &[&PROBES[0], &PROBES[1], &PROBES[2]], formats: FORMATS };

fn words() -> Words {
    let slice = Kind::Duration { min_ns: 100_000, max_ns: 100_000_000 };
    let policy = Kind::Choice(&["other", "batch", "idle"]);
    let knob = |name, kind| Field { name, kind, default: None, about: "a knob" };
    Words {
        known: KNOWN,
        knobs: vec![
            knob("policy", policy),
            knob("slice", slice),
            knob("nice", Kind::Int { min: -20, max: 19 }),
            knob("uclamp-min", Kind::Percent { min: 0.0, max: 100.0 }),
            knob("features", Kind::List(&Kind::Text)),
            knob("affinity", Kind::Cpus),
        ],
        task_knobs: vec![
            knob("policy", policy),
            knob("slice", slice),
            knob("nice", Kind::Int { min: -20, max: 19 }),
            knob("affinity", Kind::Cpus),
        ],
        workloads: &[&Fake],
        refused: Vec::new(),
        programs: Vec::new(),
    }
}

/// A machine with two CPUs; schedlab may use both.
fn two_cpus() -> Topology {
    let all: CpuSet = (0..2).collect();
    Topology { online: all.clone(), allowed: all, ..Topology::default() }
}

fn parse_here(text: &str) -> Result<Plan, PlanErrors> {
    read::plan("p.toml", text, Some(&two_cpus()), words())
}

fn errors(text: &str) -> Vec<String> {
    let Err(errors) = parse_here(text) else { return Vec::new() };
    // Errors of any plan can also be rendered.
    assert!(!errors.render().is_empty());
    let lines = errors.errors().iter().map(|error| error.one_line());
    lines.map(|line| line.strip_prefix("p.toml:").unwrap_or(&line).to_string()).collect()
}

/// A plan with one workload line, at line 3; other lines follow from line 4.
fn with_web(lines: &str) -> String {
    format!("schema = 1\n[[workload]]\nuse = \"web\"\n{lines}")
}

fn hold(cases: &[(&str, &[&str])]) {
    for (text, expected) in cases {
        assert_eq!(errors(text), *expected, "{text}");
    }
}

/// As [`hold`], for a table of [`rows`], of whose texts a function makes plans.
fn hold_all(plan: impl Fn(&str) -> String, table: &str) {
    for (text, expected) in rows(table) {
        assert_eq!(errors(&plan(&text)), expected, "{text}");
    }
}

#[test]
fn wrong_documents() {
    let long_name =
        format!("schema = 1\n[[workload]]\nuse = \"web\"\nname = \"{}\"", "x".repeat(65));
    let table = r#"
        [rig] | cpus = 1 => 4:2: unknown key `rig` in a plan
        [lab] | cpus = 1 =>
        [lab] | cores = 1 => 5:1: unknown key `cores` in [lab]
        [lab] | cpus = 65 => 5:8: 65 is above the most that is accepted
        [lab] | cpus = 4 | sockets = 3 => 6:11: 4 CPUs cannot be spread evenly over 3 sockets
        [lab] | cpus = 8 | sockets = 2 | llcs = 1 => 7:8: 1 caches on 2 sockets
        [lab] | clocks = "shared" | speed = "3ns" => 6:9: an instruction of a shared clock cannot take 3 ns
        [lab] | speed = "0.2ns" => 5:9: 0.2ns is below the least that is accepted
        [lab] | skew = "1s" => 5:8: 1s is above the most that is accepted
    "#;
    hold_all(with_web, table);
    let table = r#"
        schema = 2 | new-key = 1 => 1:10: a plan of schema `2` cannot be read
        schema = 0x1_0 => 1:10: a plan of schema `0x10` cannot be read
        schema = 99999999999999999999 => 1:10: a plan of schema `99999999999999999999` cannot be read
        [[workload]] | use = "web" => 1:1: `schema` is missing
        schema = 1 | workload = [] => 2:12: `workload` is empty
        schema = 1 | workload = [1] => 2:13: `workload` holds a number, not a table
        schema = 1 | [workload] | use = "web" => 2:2: `workload` is a table, not a list of tables
        schema = 1 | rig = 1 | [[workload]] | use = "web" => 2:1: unknown key `rig` in a plan
        schema = 1 | lab = 1 | [[workload]] | use = "web" => 2:7: `lab` is a number, not a table
        schema = 1 | title = 3 | [[workload]] | use="web" => 2:9: `title` takes a text, not a number
        schema = 1 | title = "" | [[workload]] | use="web" => 2:9: `title` has 0 characters
        schema = 1 | title = "a\u001b[31m" | [[workload]] | use="web"
          => 2:9: `a\u{1b}[31m` holds `\u{1b}`, which cannot be shown
    "#;
    hold_all(str::to_string, table);
    hold(&[
        ("", &["1:1: `schema` is missing", "1:1: the plan has no workload"]),
        (&with_web("").replace('1', "\"1\""), &["1:10: `schema` takes a number, not a text"]),
        (&long_name, &["4:8: `name` has 65 characters"]),
    ]);
    let huge = format!("schema = 1 #{}", "x".repeat(super::MAX_TEXT_BYTES));
    assert_eq!(errors(&huge), ["1:1: the plan has 1048588 bytes"]);
}

#[test]
fn broken_toml() {
    hold(&[
        ("schema = ", &["1:10: not TOML: string values must be quoted, expected literal string"]),
        ("schema = 1\nschema = 1", &["2:1: not TOML: duplicate key"]),
    ]);
    let several = errors("schema = 1\na = \nb = 2\nc = [\n");
    assert_eq!(several.len(), 2, "{several:?}");
    assert!(several[0].starts_with("2:") && several[1].starts_with("4:"), "{several:?}");
    let escape = parse_here("a = \"\u{1b}]0;title\u{7}\"").unwrap_err();
    assert!(!escape.render().contains(ESCAPE), "a plan steers no terminal");
}

#[test]
fn wrong_measure_and_placement() {
    let table = r#"
        [measure] | duration = 5 | ruonds = 3 | warmup = "1" | window = "9ms" | seed = -1
          => 5:12: `5` has no unit
          => 6:1: unknown key `ruonds` in [measure]
          => 7:10: `1` has no unit
          => 8:10: 9ms is below the least that is accepted
          => 9:8: -1 is below the least that is accepted
        [measure] | rounds = [1, 2] => 5:10: a list does not fit here
        [measure] | rounds = 100001 => 5:10: 100001 is above the most that is accepted
        [measure] | rounds = 2021-01-01 => 5:10: a date does not fit here
        [measure] | rounds = {} => 5:10: a table does not fit here
        [measure] | duration = "1s" | window = "2s" => 6:10: `window` is longer than `duration`
        [[measure]] | rounds = 1 => 4:1: `measure` is a list, not a table
        [placement] | cpus = "0-3" => 5:8: CPUs 2-3 not on this machine
        [placement] | cpus = "2" => 5:8: CPU 2 not on this machine
        [placement] | cpus = "1-0" => 5:8: the range 1-0 runs backwards
        [placement] | cpu = "0" => 5:1: unknown key `cpu` in [placement]
        [placement] | memory = "local" => 5:10: `local` is not known here
        [placement] | pool = 7 => 5:8: `7` does not fit here
        [placement] | pool = "../x" => 5:8: `../x` is not the name of a pool
        [placement] | pool = ".x" => 5:8: `.x` is not the name of a pool
        [placement] | pool = "a/b" => 5:8: `a/b` is not the name of a pool
        [placement] | pool = "" => 5:8: `` is not the name of a pool
    "#;
    hold_all(with_web, table);
}

#[test]
fn a_plan_chooses_its_report_among_those_that_there_are() {
    let table = r#"
        [report] | format = "schbnech" => 5:10: `schbnech` is not known here
        [report] | format = ["text"] => 5:10: a list does not fit here
        [report] | fromat = "text" => 5:1: unknown key `fromat` in [report]
        report = "text" => 4:1: unknown key `report` in workload `web`
        [[report]] | format = "text" => 4:1: `report` is a list, not a table
        [report] =>
    "#;
    hold_all(with_web, table);
    for name in FORMATS {
        let plan = parse_here(&with_web(&format!("[report]\nformat = \"{name}\""))).unwrap();
        assert_eq!(plan.report_format.as_deref(), Some(*name));
    }
    // A plan that was stored before the field existed can be read, and is written unchanged.
    let plan = parse_here(&with_web("")).unwrap();
    assert_eq!(plan.report_format, None);
    let stored = serde_json::to_string(&plan).unwrap();
    assert!(!stored.contains("report_format"), "{stored}");
    assert_eq!(serde_json::from_str::<Plan>(&stored).unwrap(), plan);
}

#[test]
fn wrong_variants() {
    let table = r#"
        [[variant]] | slice = "1ms" => 4:1: the variant has no `name`
        [[variant]] | name = "a" | [[variant]] | name = "a" => 7:8: a second variant is named `a`
        [[variant]] | name = "a" | slice = ["1ms", "2ms"] | policy = "bacth" | nice = 20 | uclamp-min = "101%"
          => 7:10: `bacth` is not known here
          => 8:8: 20 is above the most that is accepted
          => 9:14: 101% is above the most that is accepted
        [[variant]] | name = "a" | features = [] => 6:12: the list is empty
        [[variant]] | name = "a" | features = ["A", 1] => 6:18: `1` does not fit here
        [[variant]] | name = "-a" => 5:8: `-a` begins with `-`, which a command line takes for an option
        [[variant]] | name = " a" => 5:8: ` a` begins or ends with a space
        [[variant]] | name = "a\tb" => 5:8: `a\tb` holds `\t`, which cannot be shown
        [[variant]] | name = "a\u202eb" => 5:8: `a\u{202e}b` holds `\u{202e}`, which cannot be shown
        [variant] | name = "a" => 4:2: `variant` is a table, not a list of tables
    "#;
    hold_all(with_web, table);
}

/// The names of a plan's variants with the values of their knobs.
fn variants_of(lines: &str) -> Vec<String> {
    let plan = parse_here(&with_web(lines)).unwrap_or_else(|wrong| panic!("{lines}: {wrong:?}"));
    let knobs = |knobs: &std::collections::BTreeMap<String, Value>| {
        let knobs = knobs.iter().map(|(knob, value)| format!("{knob}={value}"));
        knobs.collect::<Vec<_>>().join(" ")
    };
    let variants = plan.variants.iter();
    variants.map(|variant| format!("{}: {}", variant.name, knobs(&variant.knobs))).collect()
}

#[test]
fn lists_of_a_variants_knobs_are_axes() {
    let both = "[[variant]]\nname = \"a\"\nslice = [\"1ms\", \"100us\"]\nnice = [5, 1]\npolicy = \"batch\"";
    let crossed = [
        "a slice=1ms nice=5: nice=5 policy=batch slice=1ms",
        "a slice=1ms nice=1: nice=1 policy=batch slice=1ms",
        "a slice=100us nice=5: nice=5 policy=batch slice=100us",
        "a slice=100us nice=1: nice=1 policy=batch slice=100us",
    ];
    assert_eq!(variants_of(both), crossed, "in the order written, the first slowest");
    let lists = "[[variant]]\nname = \"a\"\nfeatures = [\"A\", \"B\"]\n[[variant]]\nname = \"b\"\n\
        features = [[\"A\", \"B\"], [\"C\"]]\n[[variant]]\nname = \"c\"\nnice = [3]";
    let expected = [
        "a: features=A,B",
        "b features=A,B: features=A,B",
        "b features=C: features=C",
        "c nice=3: nice=3",
    ];
    assert_eq!(variants_of(lists), expected, "a list knob takes a list of lists");
}

#[test]
fn wrong_axes_of_variants() {
    let of = |lines: &str| with_web(&format!("[[variant]]\nname = \"a\"\n{lines}"));
    let list = |n: i64| (0..n).map(|i| format!("\"{}us\"", 100 + i)).collect::<Vec<_>>().join(",");
    let long = with_web(&format!("[[variant]]\nname = \"{}\"\nnice = [1]", "a".repeat(60)));
    let table = r#"
        slice = [] => 6:9: the axis is empty
        slice = ["1ms", "1000us"] => 6:17: `1ms` is twice on this axis
        slice = ["1ms", "1"] => 6:17: `1` has no unit
        features = [["A"], []] => 6:20: the list is empty
        policy = ["other", "idle"] | slice = "1ms"
          => 7:1: with variant `a policy=idle`: `slice` means nothing under policy `idle`
        affinity = ["0", "1-2"] | nice = [1, 2] | [placement] | cpus = "0-1"
          => 6:1: `affinity` has CPU 2, which the placement leaves out
        nice = [1, 2] | [[variant]] | name = "a nice=1" => 8:8: a second variant is named `a nice=1`
        slice = ["1ms"] | [[variant]] | name = "a" | nice = [1] => 8:8: a second variant is named `a`
    "#;
    hold_all(of, table);
    hold(&[
        (
            &of(&format!("slice = [{}]\nnice = [{}]", list(90_000), "1,2")),
            &["5:8: the knobs of `a` have 180000 points"],
        ),
        (
            &with_web(&format!(
                "threads = [1, 2]\n[[variant]]\nname = \"a\"\nslice = [{}]",
                list(60_000)
            )),
            &["2:1: the plan has 120000 cells up to here"],
        ),
    ]);
    let errors = errors(&long);
    assert!(errors.len() == 1 && errors[0].ends_with("` has 67 characters"), "{errors:?}");
    assert!(errors[0].starts_with("5:8: "), "{errors:?}");
}

#[test]
fn an_expectation_names_a_variant_with_axes_or_one_of_its_points() {
    let expected = |variants: &str, named: &str| -> Vec<String> {
        let text =
            with_web(&format!("{variants}\n[[expect]]\n{named}metric = \"m\"\nis = \"same\""));
        match parse_here(&text) {
            Ok(plan) => plan.expectations.into_iter().map(|of| of.variant).collect(),
            Err(_) => errors(&text),
        }
    };
    let base = "[[variant]]\nname = \"base\"\n[[variant]]\nname = \"e\"\nnice = [1, 2]";
    assert_eq!(expected(base, ""), ["e nice=1", "e nice=2"], "one table alone is compared");
    assert_eq!(expected(base, "variant = \"e\"\n"), ["e nice=1", "e nice=2"]);
    assert_eq!(expected(base, "variant = \"e nice=2\"\n"), ["e nice=2"]);
    let alone = "[[variant]]\nname = \"e\"\nnice = [1, 2, 3]";
    let others = ["e nice=2", "e nice=3"];
    assert_eq!(expected(alone, ""), others, "the first point is the baseline");
    assert_eq!(expected(alone, "variant = \"e\"\n"), others);
    let of_baseline = expected(alone, "variant = \"e nice=1\"\n");
    assert_eq!(of_baseline, ["8:11: the baseline is what others are compared with"]);
    assert_eq!(
        expected(alone, "variant = \"e nice=4\"\n"),
        ["8:11: no variant is named `e nice=4`"]
    );
}

#[test]
fn wrong_workloads() {
    let table = r#"
        [[workload]] | use = "web" => 4:1: a second workload is named `web`
        name = "a" | [[workload]] | use = "web" | name = "a" => 7:8: a second workload is named `a`
        [[workload]] | use = "web" | name = "-x"
          => 6:8: `-x` begins with `-`, which a command line takes for an option
        threads = 13 | lock = 1 => 5:8: `1` does not fit here
        threads = [] => 4:11: the axis is empty
        threads = [1, 2, 1] => 4:18: `1` is twice on this axis
        footprint = ["1024B", "1KiB"] => 4:23: `1KiB` is twice on this axis
        threads = [1, 0, "x"]
          => 4:15: 0 is below the least that is accepted
          => 4:18: `x` does not fit here
        count = 0 | workers = "fibres"
          => 4:9: 0 is below the least that is accepted
          => 5:11: `fibres` is not known here
        note = "a\nb" => 4:8: `a\nb` holds `\n`, which cannot be shown
        items = [["1ms"], "2ms"] => 4:10: a list does not fit here
        lock = 1.5 => 4:8: `1.5` does not fit here
        threads = 13 => 2:1: `web` cannot be run: set `web`: 13 threads on 2 CPUs
        threads = 14 => 2:1: `web` cannot be run: set `web`: 14 threads
        threads = [1, 13] => 2:1: `web threads=13` cannot be run: set `web`: 13 threads on 2 CPUs
        count = 100000 | threads = 2 => 4:9: `web` has 200000 workers, and one cell at most 100000
        Threads = 1 | cache = 2
          => 4:1: unknown key `Threads` in workload `web`
          => 5:1: unknown key `cache` in workload `web`
    "#;
    hold_all(with_web, table);
    let table = r#"
        schema = 1 | [[workload]] | name = "a" => 2:1: the workload has no `use`
        schema = 1 | [[workload]] | use = "wbe" => 3:7: there is no workload `wbe`
        schema = 1 | [[workload]] | use = ["web"] => 3:7: `use` takes a text, not a list
    "#;
    hold_all(str::to_string, table);
}

#[test]
fn wrong_sets() {
    let mix = |lines: &str| format!("schema = 1\n[[workload]]\n{lines}");
    let many = format!("name = \"m\"\n{}", "[[workload.set]]\nuse = \"web\"\n".repeat(257));
    let table = r#"
        [[workload.set]] | use = "web" => 2:1: the workload has no `name`
        name = "m" | use = "web" | [[workload.set]] | use = "web" => 4:1: `use` next to sets
        name = "m" | threads = 1 | [[workload.set]] | use = "web"
          => 4:1: unknown key `threads` in a workload with sets
        name = "m" | rate = "2x" | [[workload.set]] | use = "web" => 4:1: unknown key `rate` in a workload with sets
        name = "m" | [[workload.set]] | use = "web" | [[workload.set]] | use = "web"
          => 7:7: a second set is named `web`
        name = "m" | [[workload.set]] | threads = 1 => 4:1: the workload has no `use`
        name = "m" | count = 2 | [[workload.set]] | use = "web" | count = 1 => 4:1: every set has its own `count`
        name = "m" | set = 1
          => 2:1: the workload has no `use`
          => 4:1: `set` is a number, not a list of tables
        use = "nope" | [[workload.background]] | use = "nope" => 3:7: there is no workload `nope` (also in line 5)
    "#;
    hold_all(mix, table);
    let table = r#"
        [[workload.background]] | use = "web" => 5:7: a second set is named `web`
    "#;
    hold_all(with_web, table);
    hold(&[(&mix(&many), &["2:1: 257 worker sets"])]);
}

#[test]
fn wrong_loads_and_solos() {
    let mix = |lines: &str| format!("schema = 1\n[[workload]]\nname = \"m\"\n{lines}");
    let table = r#"
        load = "2" => 4:8: `2` has no x
        load = 2 => 4:8: `2` has no unit
        load = -2 => 4:8: `-2` does not fit here
        load = "-1x" => 4:8: -1x is below the least that is accepted
        load = "0x" => 4:8: 0x is below the least that is accepted
        load = "x" => 4:8: `x` is not a number
        load = "infx" => 4:8: `infx` is not a number
        load = "1e3x" => 4:8: `1e3x` is not a number
        load = ["1x", "0x"] => 4:15: 0x is below the least that is accepted
        load = ["1x", "1.0x"] => 4:15: `1x` is twice on this axis
        load = "100001x" => 4:8: 100001x is above the most that is accepted
        load = ["1x", "50001x"] => 4:8: 50001x of 2 CPUs are more workers than a set takes
        count = 2 | load = "1x" => 5:1: both `count` and `load`
        load = "1x" | count = [1, 2] => 5:1: both `count` and `load`
        solo = 1 => 4:8: `1` does not fit here
        count = 2 | solo = true | [[workload]] | name = "web solo web" | use = "web"
          => 7:8: a second workload is named `web solo web`
    "#;
    hold_all(with_web, table);
    let table = r#"
        count = 2 | load = "2x" | [[workload.set]] | use = "web" => 5:1: both `count` and `load`
        [[workload.set]] | use = "web" | solo = true => 6:1: unknown key `solo` in a set of workload `web`
    "#;
    hold_all(mix, table);
    let unknown = read::plan("p", &with_web("load = \"2x\""), None, words()).unwrap_err();
    assert_eq!(unknown.to_string(), "p:4:8: of how many CPUs is not known here");
    let hint = |text: &str| parse_here(text).unwrap_err().errors()[0].hint.clone();
    assert_eq!(hint(&with_web("load = \"60000x\"")), "at most 100000: \"50000x\"");
    assert_eq!(hint(&with_web("load = 2")), "write it with its unit, such as \"2x\"");
    let ratio = "a ratio with its x, above \"0x\" and up to \"100000x\": \"2x\", \"0.5x\"";
    for load in ["\"0x\"", "\"-1x\"", "\"2\"", "-2"] {
        assert_eq!(hint(&with_web(&format!("load = {load}"))), ratio, "{load}");
    }
}

/// The labels of all works, each with the numbers of workers of its sets.
fn shape(text: &str) -> Vec<String> {
    let plan = parse_here(text).unwrap_or_else(|errors| panic!("{text}\n{errors}"));
    let one = |work: &crate::model::Work| {
        let sets = work.sets.iter().map(|set| format!("{}*{}", set.name, set.count));
        format!("{}: {}", work.label(), sets.collect::<Vec<_>>().join(" "))
    };
    plan.works.iter().map(one).collect()
}

#[test]
fn a_load_is_a_multiple_of_the_pools_cpus_rounded_and_one_or_more() {
    let ratios = "load = [\"0.01x\", \"0.7x\", \"0.8x\", \"1x\", \"1.5x\", \"2x\"]";
    // A load of two CPUs, then of the only one that a placement leaves.
    let counts = |text: &str| -> Vec<u32> {
        parse_here(text).unwrap().works.iter().map(|work| work.sets[0].count).collect()
    };
    assert_eq!(counts(&with_web(ratios)), [1, 1, 2, 2, 3, 4]);
    let placed = format!("{}\n[placement]\ncpus = \"1\"", with_web(ratios));
    assert_eq!(counts(&placed), [1, 1, 1, 1, 2, 2]);
    // The machine has eight CPUs and schedlab may use three. A placement may name any of them: the run
    // reports whether it can have them.
    let confined =
        Topology { online: (0..8).collect(), allowed: (1..4).collect(), ..Topology::default() };
    let count = |text: &str, machine: &Topology| {
        read::plan("p", text, Some(machine), words()).unwrap().works[0].sets[0].count
    };
    let twice = with_web("load = \"2x\"");
    assert_eq!(count(&twice, &confined), 6);
    let placed = format!("{twice}\n[placement]\ncpus = \"0-7\"");
    assert_eq!(count(&placed, &confined), 16);
    let untold = Topology { allowed: CpuSet::default(), ..confined };
    assert_eq!(count(&twice, &untold), 16, "all that are online");
    let plan = parse_here(&twice).unwrap();
    assert!(!plan.works[0].sets[0].params.contains_key("load"), "the count says it all");
    // Next to sets it holds for sets that have neither key.
    let mix = "schema = 1\n[[workload]]\nname = \"m\"\nload = [\"1x\", \"2x\"]\n\
        [[workload.set]]\nuse = \"web\"\nname = \"a\"\n\
        [[workload.set]]\nuse = \"web\"\nname = \"b\"\ncount = 5\n\
        [[workload.set]]\nuse = \"web\"\nname = \"c\"\nload = \"3x\"\n";
    assert_eq!(shape(mix), ["m load=1x: a*2 b*5 c*6", "m load=2x: a*4 b*5 c*6"]);
}

#[test]
fn last_level_caches_are_an_axis_of_all_workloads_or_of_one() {
    let cpus = |cpus: &str| -> CpuSet { cpus.parse().unwrap() };
    let machine =
        Topology { online: cpus("0-3"), llcs: vec![cpus("0"), cpus("1-3")], ..Topology::default() };
    let works = |text: &str| -> Vec<String> {
        let plan = read::plan("p.toml", text, Some(&machine), words()).expect(text);
        let work = |work: &crate::model::Work| {
            format!("{} {:?} *{}", work.label(), work.llcs, work.sets[0].count)
        };
        plan.works.iter().map(work).collect()
    };
    // A load is a multiple of the CPUs of these caches. A number that the machine lacks is skipped in the run.
    let text = "schema = 1\n[placement]\nllcs = [1, 2, 9]\n[[workload]]\nuse = \"web\"\n\
                load = [\"1x\", \"2x\"]\n[[workload]]\nname = \"b\"\nuse = \"web\"\nload = \"1x\"\nllcs = 2";
    assert_eq!(
        works(text),
        [
            "web llcs=1 load=1x Some(1) *1",
            "web llcs=1 load=2x Some(1) *2",
            "web llcs=2 load=1x Some(2) *4",
            "web llcs=2 load=2x Some(2) *8",
            "web llcs=9 load=1x Some(9) *4",
            "web llcs=9 load=2x Some(9) *8",
            "b llcs=2 Some(2) *4",
        ]
    );
    // A set's want may differ with its caches.
    assert_eq!(
        works(&with_web("llcs = [1, 2]\nsolo = true\ncount = 3")),
        [
            "web solo web llcs=1 Some(1) *1",
            "web solo web llcs=2 Some(2) *1",
            "web llcs=1 Some(1) *3",
            "web llcs=2 Some(2) *3",
        ]
    );
    let pool = "schema = 1\n[placement]\npool = \"p\"\nllcs = 1\n[[workload]]\nuse = \"web\"";
    let affinity = "schema = 1\n[[variant]]\nname = \"v\"\naffinity = \"0\"\n\
                    [[workload]]\nuse = \"web\"\nllcs = 1";
    hold(&[
        (pool, &["4:1: `llcs` and `pool` both say which CPUs workers have"]),
        (affinity, &["7:1: `llcs` and `affinity` both say which CPUs workers have"]),
        (&with_web("llcs = 0"), &["4:8: 0 is below the least that is accepted"]),
        (&with_web("llcs = []"), &["4:8: the axis is empty"]),
    ]);
}

#[test]
fn solo_adds_each_set_alone_once() {
    let set = |name: &str, more: &str| {
        format!("[[workload.set]]\nuse = \"web\"\nname = \"{name}\"\n{more}\n")
    };
    let mix = |lines: &str| format!("schema = 1\n[[workload]]\nname = \"m\"\n{lines}");
    let background = "[[workload.background]]\nuse = \"web\"\nname = \"bg\"\nthreads = 7\n";
    let (a, b) = (set("a", "count = 2"), set("b", "count = [1, 3]\nthreads = [1, 4]"));
    let cases: &[(String, &[&str])] = &[
        // The axes that make other workers are axes of the solo runs, numbers are not.
        (
            mix(&format!("solo = true\n{a}{b}{background}")),
            &[
                "m solo a: a*1",
                "m solo b b.threads=1: b*1",
                "m solo b b.threads=4: b*1",
                "m b.count=1 b.threads=1: a*2 b*1 bg*1",
                "m b.count=1 b.threads=4: a*2 b*1 bg*1",
                "m b.count=3 b.threads=1: a*2 b*3 bg*1",
                "m b.count=3 b.threads=4: a*2 b*3 bg*1",
            ],
        ),
        (mix(&format!("solo = false\n{a}")), &["m: a*2"]),
        // Equal sets have one solo run.
        (mix(&format!("solo = true\n{a}{}", set("c", ""))), &["m solo a: a*1", "m: a*2 c*1"]),
        // But not with another knob, or as processes.
        (
            mix(&format!(
                "solo = true\n{a}{}{}",
                set("c", "knobs = { nice = 5 }"),
                set("d", "workers = \"processes\"")
            )),
            &["m solo a: a*1", "m solo c: c*1", "m solo d: d*1", "m: a*2 c*1 d*1"],
        ),
        // A work that is already a solo run gets no other, wherever it stands.
        (with_web("solo = true\ncount = [1, 2]"), &["web count=1: web*1", "web count=2: web*2"]),
        (
            format!(
                "{}\n[[workload]]\nname = \"w\"\nuse = \"web\"",
                mix(&format!("solo = true\n{a}"))
            ),
            &["m: a*2", "w: web*1"],
        ),
        // A set next to a background is not a solo run.
        (
            with_web(&format!("solo = true\n{background}")),
            &["web solo web: web*1", "web: web*1 bg*1"],
        ),
        // Two workloads with equal sets share one solo run.
        (
            format!(
                "{}solo = true\ncount = 3\n[[workload]]\nname = \"w\"\nuse = \"web\"\nload = \"2x\"\nsolo = true",
                with_web("")
            ),
            &["web solo web: web*1", "web: web*3", "w: web*4"],
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(shape(text), *expected, "{text}");
    }
}

#[test]
fn solo_runs_count_among_the_cells() {
    let points = (20..20_000).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
    let five = (1..=5).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
    let text = |solo| with_web(&format!("threads = [{points}]\ncount = [{five}]\nsolo = {solo}"));
    assert_eq!(errors(&text(false)), [] as [&str; 0]);
    assert_eq!(errors(&text(true)), ["2:1: the plan has 119880 cells up to here"]);
}

#[test]
fn wrong_knobs_of_sets() {
    let idle = "[[variant]]\nname = \"a\"\n[[variant]]\nname = \"b\"\npolicy = \"idle\"\n\
                [[variant]]\nname = \"c\"\npolicy = \"idle\"\n";
    let table = r#"
        knobs = 3 => 4:9: `knobs` is a number, not a table
        [[workload.knobs]] | nice = 5 => 4:1: `knobs` is a list, not a table
        knobs = { nice = [1, 2] } => 4:18: a list does not fit here
        [workload.knobs] | nice = 20 => 5:8: 20 is above the most that is accepted
        knobs = { features = ["A"], turbo = 1 }
          => 4:11: `features` acts on more than one worker set
          => 4:29: unknown key `turbo` in the knobs of a worker set
        knobs = { policy = "idle", nice = 5 } => 4:28: `nice` means nothing under policy `idle`
        # A set with a policy of its own does not take what depends on the variant's.
        knobs = { policy = "idle" } | [[variant]] | name = "a" | nice = 5 =>
        # A fault of the variant alone is noted there alone.
        knobs = { slice = "1ms" } | [[variant]] | name = "a" | uclamp-min = "50%" | features = ["a"]
          => 8:1: `a` is not understood
        [[workload.background]] | use = "web" | name = "bg" | [workload.background.knobs] | slice = 1
          => 8:9: `1` has no unit
    "#;
    hold_all(with_web, table);
    hold(&[
        // If two variants have the conflict, the first is named.
        (
            &with_web(&format!("[workload.knobs]\nnice = 5\n{idle}")),
            &["5:1: with variant `b`: `nice` means nothing under policy `idle`"],
        ),
    ]);
    let table = r#"
        schema = 1 | [[workload]] | name = "m" | knobs = { nice = 5 } | [[workload.set]] | use = "web"
          => 4:1: `knobs` next to sets
    "#;
    hold_all(str::to_string, table);
}

#[test]
fn wrong_cgroups() {
    let used = |lines: &str| format!("{}cgroup = \"a\"\n{lines}", with_web(""));
    let table = r#"
        [cgroup.a] =>
        [cgroup] | a = 5
          => 4:10: there is no cgroup `a`
          => 6:1: `a` is a number, not a cgroup
        [cgroup.a] | weigth = 5 => 6:1: unknown key `weigth` in a cgroup
        [cgroup.a] | weight = 0 => 6:10: 0 is below the least that is accepted
        [cgroup.a] | weight = 5 | idle = true
          => 6:1: an idle cgroup has no weight: `cgroup-weight` with `cgroup-idle = true`
        [cgroup.a] | [cgroup.b] => 6:9: no worker set is in the cgroup `b`
        [cgroup.a] | [cgroup."a/b"] => 6:9: `a/b` is not a name for a cgroup
        [cgroup.a] | [cgroup.a.".."] => 6:11: `..` is not a name for a cgroup
        [cgroup.a] | cpus = "0-1" | [placement] | cpus = "1" => 6:1: CPUs 0 are not among those above it
    "#;
    hold_all(used, table);
    hold(&[
        (&used("[cgroup.a.\"cpu.max\"]\n"), &["5:11: `cpu.max` is not a name for a cgroup"]),
        (&with_web("cgroup = \"x\""), &["4:10: there is no cgroup `x`"]),
        (&with_web("cgroup = [\"x\"]"), &["4:10: `cgroup` takes a text, not a list"]),
    ]);
}

#[test]
fn sets_are_in_cgroups_and_have_all_above_them() {
    let text = "schema = 1\n[cgroup.web]\nweight = 200\n[cgroup.web.front]\nmax = \"50%\"\n\
        cpus = \"1\"\n[cgroup.db]\n[[workload]]\nname = \"m\"\nsolo = true\n\
        [[workload.set]]\nuse = \"web\"\ncgroup = \"web/front\"\n\
        [[workload.set]]\nuse = \"web\"\nname = \"db\"\ncgroup = \"db\"\n\
        [[workload]]\nuse = \"web\"\n";
    let plan = parse_here(text).unwrap();
    let shape = |work: &crate::model::Work| {
        let cgroups = work.cgroups.iter().map(|cgroup| cgroup.path.to_string());
        (work.name.clone(), cgroups.collect::<Vec<_>>().join(" "))
    };
    let expected = [
        ("m solo web", "web web/front"),
        ("m solo db", "db"),
        ("m", "db web web/front"),
        ("web", ""),
    ];
    let expected = expected.map(|(name, cgroups)| (name.to_string(), cgroups.to_string()));
    assert_eq!(plan.works.iter().map(shape).collect::<Vec<_>>(), expected);
    let front = &plan.works[2].cgroups[2];
    assert_eq!(front.knobs, Params::from([("cgroup-max".to_string(), Value::Percent(50.0))]));
    assert_eq!(front.cpus, Some("1".parse().unwrap()));
    // The stored form of a plan without cgroups does not mention them.
    let stored = serde_json::to_string(&plan.works[3]).unwrap();
    assert!(!stored.contains("cgroup"), "{stored}");
}

#[test]
fn an_affinity_lies_within_the_placement() {
    let placed = |lines: &str| with_web(&format!("{lines}\n[placement]\ncpus = \"0\""));
    let message = "`affinity` has CPU 1, which the placement leaves out";
    hold(&[
        (&placed("knobs = { affinity = \"0-1\" }"), &[&format!("4:11: {message}")]),
        (&placed("[[variant]]\nname = \"a\"\naffinity = \"1\""), &[&format!("6:1: {message}")]),
        (&placed("knobs = { affinity = \"0\" }"), &[]),
        // Without a placement there is nothing to leave.
        (&with_web("knobs = { affinity = \"0-1\" }"), &[]),
    ]);
}

#[test]
fn workers_stay_below_the_priority_of_the_measuring_thread() {
    let text = |priority| {
        format!(
            "schema = 1\n[[workload]]\nuse = \"spin\"\n\
             knobs = {{ policy = \"fifo\", priority = {priority} }}"
        )
    };
    assert!(parse("p", &text(98), None, KNOWN).is_ok());
    let refused = parse("p", &text(99), None, KNOWN).unwrap_err().to_string();
    assert_eq!(refused, "p:4:39: 99 is above the most that is accepted");
}

#[test]
fn sets_have_knobs_of_their_own_in_either_form() {
    let text = "schema = 1\n[[variant]]\nname = \"a\"\nnice = 1\n[[workload]]\nname = \"m\"\n\
        [[workload.set]]\nuse = \"web\"\nthreads = [1, 2]\n[workload.set.knobs]\nnice = 5\n\
        [[workload.set]]\nuse = \"web\"\nname = \"w2\"\n\
        [[workload.background]]\nuse = \"web\"\nname = \"bg\"\n\
        knobs = { policy = \"batch\", slice = \"1ms\" }\n\
        [[workload]]\nuse = \"web\"\n[workload.knobs]\nnice = -5\n";
    let plan = parse_here(text).unwrap();
    let nice = |value| Params::from([("nice".to_string(), Value::Int(value))]);
    assert_eq!(plan.works.len(), 3, "knobs make no axis");
    for work in &plan.works[..2] {
        assert_eq!(work.sets[0].knobs, nice(5));
        assert_eq!(work.sets[1].knobs, Params::new(), "the variant's are not the set's own");
        assert_eq!(work.sets[2].knobs["policy"], Value::Text("batch".into()));
        assert_eq!(work.sets[2].knobs["slice"], Value::DurationNs(1_000_000));
    }
    assert_eq!(plan.works[2].sets[0].knobs, nice(-5));
    // A plan that was stored before sets had knobs.
    let mut stored = serde_json::to_value(&plan.works[2].sets[0]).unwrap();
    stored.as_object_mut().unwrap().remove("knobs").unwrap();
    let read: crate::model::WorkerSet = serde_json::from_value(stored).unwrap();
    assert_eq!(read.knobs, Params::new());
}

#[test]
fn crosses_are_counted_before_they_are_made() {
    let list = |n: usize| (1..=n).map(|i| i.to_string()).collect::<Vec<_>>().join(",");
    let two = with_web(&format!("count = [{0}]\nthreads = [{0}]", list(400)));
    let runs = format!(
        "{}[measure]\nrounds = 100000",
        with_web("count = [1, 2]\nthreads = [1, 2]\n[[variant]]\nname = \"a\"\n")
            .replace("threads = [1, 2]", &format!("threads = [{}]", list(60)))
    );
    let sets: String = (0..16)
        .map(|i| format!("[[workload.set]]\nuse = \"web\"\nname = \"s{i}\"\ncount = [{0}]\nthreads = [{0}]\n", list(1024)))
        .collect();
    hold(&[
        (&two, &["2:1: the plan has 160000 cells up to here"]),
        (&runs, &["9:10: 120 cells in 100000 rounds are 12000000 runs"]),
        (
            &format!("schema = 1\n[[workload]]\nname = \"m\"\n{sets}"),
            &["3:8: the plan has more than 10^12 cells up to here"],
        ),
    ]);
    let most = with_web(&format!("threads = [{}]\ncount = [{}]", list(12), list(8_000)));
    let plan = read::plan("p", &most, None, words()).unwrap();
    assert_eq!(cells(&plan).len(), 96_000);
}

#[test]
fn hints_name_what_was_meant() {
    let hint = |text: &str| parse_here(text).unwrap_err().errors()[0].hint.clone();
    let twice = "schema = 1\n[[variant]]\nname = \"a\"\n[[variant]]\nname = \"a\"\nnice = 1\n\
                 [[workload]]\nuse = \"spin\"\n";
    let expected = "give each variant a name of its own: name = \"a-2\" (--variant a-2:KNOB=VALUE)";
    assert_eq!(hint(twice), expected);
    let thrice = twice.replacen("[[variant]]", "[[variant]]\nname = \"a-2\"\n[[variant]]", 1);
    assert!(hint(&thrice).contains("--variant a-3:KNOB=VALUE"), "{}", hint(&thrice));
    let table = r#"
        [measure] | duratoin = "1s" => did you mean `duration`?
        [[variant]] | name = "a" | uclamp_min = "1%" => did you mean `uclamp-min`?
        [[variant]] | name = "a" | policy = "bacth" => did you mean "batch"?
        [[variant]] | name = "a" | taskset = "0" => did you mean `affinity`?
        worker_threads = 2 => did you mean `threads`?
        [[variant]] | name = "a" | features = { "kernel.sched_x" = 5 } => write a list of texts: ["sched_x=5"]
        [[variant]] | name = "a" | [variant.features] | A = true | B = false => write a list of texts: ["A", "NO_B"]
        [placement] | xyzzy = 1 => known here: `cpus`, `pool`, `memory`, `llcs`
        [measure] | rounds = [1, 2]
          => one value here: only parameters of workloads and knobs of variants make axes; a whole number from 1 to 100000
        rounds = 5 => `rounds` belongs in [measure]
        [measure] | probes = ["sched"] => `probes` stands above the first [table] of the plan
        title = "x" => `title` stands above the first [table] of the plan
        [variant] | name = "a" | [variant] | name = "b"
          => write each of several with two brackets, the first one too: [[variant]]
        [[variant]] | name = "a" | [variant] | name = "b"
          => write each of several with two brackets, the first one too: [[variant]]
        [measure] | rounds = 3 | [measure] | seed = 1 => one [measure] has all of its keys
        format = 5 => `format` belongs in [report]
        [measure] | lab-duration = "5s" => `lab-duration` belongs in [[workload]]
        [report] | format = "schbnech" => did you mean "schbench"?
        [report] | format = "html" => one of "text", "json", "csv", "schbench", "lkml"
        workers = 2
          => count = 2 is their number; workers is one of "threads", "processes", "guests", "guests-or-processes"
        threads = 13 => change the parameters that do not go together
        threads = 14 => threads = 12
        [measure] | warmup = 1 => write it with its unit, such as "1ms"
        [placement] | cpus = "7" => this machine has CPUs 0-1
    "#;
    for (text, expected) in rows(table) {
        assert_eq!([hint(&with_web(&text))], expected[..], "{text}");
    }
    let cases = [
        (with_web("").replace("web", "wbe"), "did you mean `web`?"),
        (
            "schema = 1\nschema = 1".to_string(),
            "a plan is written in TOML (https://toml.io); see: schedlab run --print quick",
        ),
        (format!("probes = [\"shced\"]\n{}", with_web("")), "did you mean `sched`?"),
        (
            format!("probes = [\"perf\"]\n{}", with_web("")),
            "known here: `sched`, `sched-light`, `power`",
        ),
        (
            format!("probes = \"sched\"\n{}", with_web("")),
            "write: probes = [\"sched\"]: schedlab list probes",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(hint(&text), expected, "{text}");
    }
}

#[test]
fn an_error_is_drawn_with_its_line_and_a_caret() {
    let lines =
        "variant = [{ name = \"grün\", nice = 20 }]\n[[workload]]\nuse = \"web\"\nwrokers = 1\n";
    let errors = parse_here(&format!("schema = 1\n{lines}")).unwrap_err();
    insta::assert_snapshot!(errors.render(), @r#"
    error: 20 is above the most that is accepted
     --> p.toml:2:36
    1 | schema = 1
    2 | variant = [{ name = "grün", nice = 20 }]
      |                                    ^^ this value
    3 | [[workload]]
    hint: from -20 to 19

    error: unknown key `wrokers` in workload `web`
     --> p.toml:5:1
    4 | use = "web"
    5 | wrokers = 1
      | ^^^^^^^ not known here
    hint: did you mean `workers`?
    "#);
    assert_eq!(
        errors.to_string(),
        "p.toml:2:36: 20 is above the most that is accepted\n\
         p.toml:5:1: unknown key `wrokers` in workload `web`"
    );
    let many: String = (0..60).map(|index| format!("k{index} = 1\n")).collect();
    let drawn = parse_here(&with_web(&many)).unwrap_err().render();
    assert!(drawn.contains("`k49`") && !drawn.contains("`k50`"));
    assert!(drawn.ends_with("\nand 10 more\n"), "{drawn}");
}

#[test]
fn a_plan_means_what_it_says() {
    let plan = parse_here(
        r#"
schema = 1
title  = "Grüße"
[measure]
duration = "0.5s"
budget = "20min"
[[variant]]
name = "default"
[[variant]]
name = "short slice"
slice = "100us"
features = ["A", "NO_B"]
[[workload]]
name = "w"
use = "web"
threads = [2, 4]
items = [["1ms"], ["1ms", "2ms"]]
lock = false
[[workload]]
name = "mix"
count = [1, 3]
[[workload.set]]
use = "web"
workers = "processes"
[[workload.set]]
use = "web"
name = "b"
count = 2
mode = ["futex", "pipe"]
[[workload.background]]
use = "web"
name = "bg"
[placement]
cpus = "1"
pool = "bench"
memory = "interleave"
"#,
    )
    .unwrap();
    assert_eq!(plan.title, "Grüße");
    assert_eq!(plan.measure.window_ns, 500_000_000, "the default yields to the duration");
    assert_eq!((plan.measure.rounds, plan.measure.seed), (10, 1));
    assert_eq!(plan.measure.budget_ns, Some(1_200_000_000_000));
    assert_eq!(plan.variants[0].knobs, Params::new());
    assert_eq!(plan.variants[1].knobs["slice"], Value::DurationNs(100_000));
    assert_eq!(plan.variants[1].knobs["features"].to_string(), "A,NO_B");
    assert_eq!(plan.placement.cpus.as_ref().map(CpuSet::to_string).as_deref(), Some("1"));
    assert_eq!(plan.placement.pool.as_ref().map(PoolName::as_str), Some("bench"));
    assert_eq!(plan.placement.memory, MemoryPlacement::Interleave);
    let labels: Vec<String> = plan.works.iter().map(|work| work.label()).collect();
    assert_eq!(
        labels,
        [
            "w threads=2 items=1ms",
            "w threads=2 items=1ms,2ms",
            "w threads=4 items=1ms",
            "w threads=4 items=1ms,2ms",
            "mix count=1 b.mode=futex",
            "mix count=1 b.mode=pipe",
            "mix count=3 b.mode=futex",
            "mix count=3 b.mode=pipe",
        ]
    );
    let plain = &plan.works[2].sets[0];
    assert_eq!((plain.name.as_str(), plain.workload.as_str(), plain.count), ("web", "web", 1));
    assert_eq!(plain.params["threads"], Value::Int(4));
    assert_eq!(plain.params["lock"], Value::Bool(false));
    assert_eq!(plain.params["mode"], Value::Text("pipe".into()), "a default");
    assert!(!plain.params.contains_key("count") && !plain.params.contains_key("note"));
    let mix = &plan.works[6].sets;
    let shape: Vec<_> =
        mix.iter().map(|set| (&*set.name, set.count, set.kind, set.background)).collect();
    assert_eq!(
        shape,
        [
            ("web", 3, WorkerKind::Processes, false),
            ("b", 2, WorkerKind::Threads, false),
            ("bg", 1, WorkerKind::Threads, true),
        ]
    );
    assert_eq!(mix[1].params["mode"], Value::Text("futex".into()));
}

#[test]
fn files_of_other_systems_are_read() {
    let windows = format!("\u{feff}{}", with_web("threads = 3\n").replace('\n', "\r\n"));
    assert_eq!(parse_here(&windows).unwrap().works[0].sets[0].params["threads"], Value::Int(3));
    assert_eq!(errors(&format!("{windows}x = 1\r\n")), ["5:1: unknown key `x` in workload `web`"]);
}

#[test]
fn what_is_not_written_has_its_default() {
    let plan = read::plan("dir/some plan.toml", &with_web(""), None, words()).unwrap();
    assert_eq!(plan.title, "some plan");
    assert_eq!(plan.variants.len(), 1);
    assert_eq!((plan.variants[0].name.as_str(), plan.variants[0].knobs.len()), ("default", 0));
    assert_eq!(plan.placement, Placement::default());
    let measure = &plan.measure;
    assert_eq!((measure.duration_ns, measure.warmup_ns), (5_000_000_000, 1_000_000_000));
    assert_eq!((measure.window_ns, measure.grace_ns), (1_000_000_000, 30_000_000_000));
    assert_eq!(plan.works[0].axes, []);
}

#[test]
fn cells_stand_in_written_order_with_the_variants_of_a_work_together() {
    let plan = parse_here(&with_web(
        "threads = [1, 2]\n[[variant]]\nname = \"a\"\n[[variant]]\nname = \"b\"",
    ))
    .unwrap();
    let cells: Vec<_> = cells(&plan)
        .iter()
        .map(|cell| format!("{} {} {}", cell.index, cell.work.label(), cell.variant.name))
        .collect();
    assert_eq!(
        cells,
        ["0 web threads=1 a", "1 web threads=1 b", "2 web threads=2 a", "3 web threads=2 b"]
    );
}

fn order(plan: &Plan) -> Vec<crate::model::RunKey> {
    (0..plan.measure.rounds).flat_map(|round| round_order(plan, round)).collect()
}

/// Stored plans are resumed in this order: a change here loses their place.
#[test]
fn the_order_never_changes() {
    let text = with_web(
        "threads = [1, 2, 3, 4]\n[[variant]]\nname = \"a\"\n[[variant]]\nname = \"b\"\n[measure]\nrounds = 3\nseed = 42",
    );
    let plan = parse_here(&text).unwrap();
    let shown: Vec<String> =
        order(&plan).iter().map(|key| format!("{}:{}", key.round, key.cell)).collect();
    insta::assert_snapshot!(shown.join(" "), @"0:4 0:5 0:0 0:3 0:6 0:7 0:1 0:2 1:4 1:5 1:7 1:2 1:0 1:3 1:1 1:6 2:4 2:5 2:0 2:7 2:2 2:6 2:3 2:1");
}

#[test]
fn a_plan_that_is_measured_until_it_is_decided_has_the_rule_for_looks() {
    let measure = |text: &str| parse_here(&with_web(&format!("[measure]\n{text}")));
    let fixed = measure("rounds = 5\nrepeat-spoilt = false").unwrap().measure;
    assert_eq!((fixed.until_decided, fixed.looks), (false, LookRule::Early));
    assert!(!fixed.repeat_spoilt && measure("").unwrap().measure.repeat_spoilt);
    let until = measure("until-decided = true\nbudget = \"2min\"").unwrap().measure;
    assert_eq!((until.until_decided, until.looks), (true, LookRule::Even));
    assert_eq!(until.rounds, super::MAX_DECIDING_ROUNDS);
}

#[test]
fn every_builtin_plan_parses_and_keeps_its_limits() {
    for entry in builtins() {
        let plan = parse(entry.name, entry.text, Some(&two_cpus()), KNOWN)
            .unwrap_or_else(|errors| panic!("{}", errors.render()));
        assert_eq!(plan.title, entry.title(), "{}", entry.name);
        assert_eq!(builtin(entry.name), Some(entry));
        assert_eq!(embedded().filter(|other| other.name == entry.name).count(), 1);
        let runs = order(&plan);
        assert_eq!(runs.len(), cells(&plan).len() * plan.measure.rounds as usize);
        let run_ns = plan.measure.warmup_ns + plan.measure.duration_ns;
        let all_ns = runs.len() as u64 * run_ns;
        let total_s = all_ns.min(plan.measure.budget_ns.unwrap_or(u64::MAX)) / 1_000_000_000;
        // A first plan is short; a table to be mailed and what predicts a machine take longer.
        let limit_s = match entry.name {
            "schbench-v1" => 15 * 60,
            "fidelity" => 20 * 60,
            // Suites: `--scale small` takes minutes.
            "throughput" | "lkml" => 75 * 60,
            _ => 120,
        };
        assert!(!runs.is_empty() && total_s <= limit_s, "{} takes {total_s} s", entry.name);
    }
    assert_eq!(builtin("no such plan"), None);
}

#[test]
fn no_field_takes_the_name_of_a_key_or_of_another_and_every_default_fits() {
    let knobs = variant::fields();
    let mut tables: Vec<(&str, Vec<&str>, Vec<Field>)> = vec![
        ("[measure]", vec![], MEASURE.to_vec()),
        ("[placement]", vec![], PLACEMENT.to_vec()),
        ("[report]", vec![], report(FORMATS).to_vec()),
        ("[[variant]]", VARIANT_KEYS.to_vec(), knobs),
    ];
    for workload in workload::registry() {
        let spec = workload.spec();
        let keys = [WORKLOAD_KEYS, SET_KEYS].concat();
        let fields = [WORKLOAD, SET, spec.params].concat();
        tables.push((spec.name, keys, fields));
    }
    for (place, mut keys, fields) in tables {
        keys.sort();
        keys.dedup();
        for field in fields {
            assert!(!keys.contains(&field.name), "{place}: `{}` is taken", field.name);
            keys.push(field.name);
            let fits = field.default.is_none() || field.default_value().is_some();
            assert!(fits && !field.about.is_empty(), "{place}: {}", field.name);
        }
    }
}

#[test]
fn a_plan_names_probes_that_report_different_metrics() {
    let text = |probes: &str| format!("probes = {probes}\n{}", with_web(""));
    let plan = parse_here(&text("[\"power\", \"sched\"]")).unwrap();
    assert_eq!(plan.probes, ["power", "sched"]);
    let twice = text("[\"sched\", \"sched-light\"]");
    hold(&[(&twice, &["1:20: `sched` reports metrics that `sched-light` reports too"])]);
}

#[test]
fn the_command_line_adds_probes_to_those_of_a_plan() {
    let mut plan = parse_here(&format!("probes = [\"power\"]\n{}", with_web(""))).unwrap();
    for name in ["sched", "power"] {
        super::add_probe(&mut plan, name, KNOWN).unwrap();
    }
    assert_eq!(plan.probes, ["power", "sched"]);
    let mut refused = |name: &str| super::add_probe(&mut plan, name, KNOWN).unwrap_err();
    assert_eq!(refused("shced").hint, "did you mean `sched`?");
    let twice = refused("sched-light").message;
    assert_eq!(twice, "`sched` reports metrics that `sched-light` reports too");
    assert_eq!(plan.probes.len(), 2);
}

/// A plan with a workload of a program and these lines.
fn parse_command(lines: &str) -> Result<Plan, PlanErrors> {
    let text = format!("schema = 1\n[[workload]]\nname = \"a\"\nuse = \"command\"\n{lines}\n");
    parse("p.toml", &text, Some(&two_cpus()), KNOWN)
}

#[test]
fn words_of_a_program_have_parameters_of_any_name() {
    let plan = parse_command(
        "command = [\"make\", \"-j{n}\", \"{}\", \"{x.y}\"]\n\
         parameters = { n = [1, 2], \"x.y\" = \"z\" }\ncount = [1, 3]",
    )
    .unwrap();
    let labels: Vec<String> = plan.works.iter().map(|work| work.label()).collect();
    let expected = ["a n=1 count=1", "a n=1 count=3", "a n=2 count=1", "a n=2 count=3"];
    assert_eq!(labels, expected);
    assert_eq!(plan.works[2].sets[0].params["n"], Value::Int(2));
    for (wrong, expected) in [
        ("", "it has no `command`"),
        ("command = []", "the list is empty"),
        ("command = \"true\"\nparameters = { n = 1 }", "has the parameter `n`"),
        ("command = \"{count}\"\nparameters = { count = 1 }", "`count` is not a name"),
        ("command = \"{exit}\"\nparameters = { exit = 1 }", "`exit` is not a name"),
        ("command = \"{a b}\"\nparameters = { \"a b\" = 1 }", "`a b` is not a name"),
        ("command = \"{n}\"\nparameters = { n = [] }", "the axis is empty"),
        ("command = \"{n}\"\nparameters = { n = [1, \"a\"] }", "does not fit"),
        ("command = \"{n}\"\nparameters = { n = true }", "does not fit"),
        ("command = \"{n}\"\nparameters = 3", "not a table"),
        ("command = \"true\"\nparameter = 3", "unknown key `parameter`"),
    ] {
        let errors = parse_command(wrong).unwrap_err().to_string();
        assert!(errors.contains(expected), "{wrong}: {errors}");
    }
}

#[test]
fn numbers_of_a_programs_output_are_metrics() {
    let parse = |more: &str| parse_command(&format!("command = \"true\"\n{more}"));
    let right = "[[workload.metric]]\nname = \"mips\"\npattern = '^Tot: (\\d+)'\nunit = \"M/s\"\n\
                 better = \"higher\"\n";
    let plan = parse(right).unwrap();
    let [metric] = plan.works[0].sets[0].params["metric"].as_outputs() else { panic!("{plan:?}") };
    let place = crate::model::OutputPlace::Pattern(r"^Tot: (\d+)".to_string());
    assert_eq!((metric.name.as_str(), &metric.place), ("mips", &place));
    assert_eq!((metric.unit, metric.scale), (crate::model::Unit::OpsPerS, 1e6));
    let without = |line: &str| {
        right.lines().filter(|own| !own.starts_with(line)).collect::<Vec<_>>().join("\n")
    };
    for (wrong, expected) in [
        (without("pattern"), "needs `pattern` or `json`"),
        (format!("{right}json = \"/a\"\n"), "needs `pattern` or `json`"),
        (right.replace("pattern = '^Tot: (\\d+)'", "json = \"a\""), "`a` is not a path into JSON"),
        (without("name"), "needs `name`"),
        (without("unit"), "needs `unit`"),
        (without("better"), "needs `better`"),
        (right.replace("M/s", "MIPS"), "`MIPS`"),
        (right.replace("higher", "more"), "`more`"),
        (right.replace("mips", "time"), "has a metric `time` of its own"),
        (right.replace("(", "(("), "unclosed group"),
        (format!("{right}{right}"), "a second metric is named `mips`"),
        ("metric = 3".to_string(), "not a list of tables"),
        ("workers = \"processes\"".to_string(), "its programs are processes anyway"),
        ("failure = \"(\"".to_string(), "unclosed group"),
    ] {
        let errors = parse(&wrong).unwrap_err().to_string();
        assert!(errors.contains(expected), "{wrong}: {errors}");
    }
}

#[test]
fn the_schema_names_every_key_that_the_parser_takes() {
    let schema = json_schema(KNOWN);
    let keys = |at: &str| -> Vec<String> {
        let table = schema.pointer(at).and_then(|table| table.as_object());
        table.unwrap_or_else(|| panic!("no {at}")).keys().cloned().collect()
    };
    let sorted = |names: Vec<&str>| {
        let mut names: Vec<String> = names.into_iter().map(str::to_string).collect();
        names.sort();
        names
    };
    let fields = |fields: &[Field]| fields.iter().map(|field| field.name).collect::<Vec<_>>();
    assert_eq!(keys("/properties"), sorted(TOP_KEYS.to_vec()));
    assert_eq!(keys("/properties/measure/properties"), sorted(fields(MEASURE)));
    assert_eq!(keys("/properties/placement/properties"), sorted(fields(PLACEMENT)));
    assert_eq!(keys("/properties/report/properties"), sorted(fields(&report(FORMATS))));
    let knobs = [VARIANT_KEYS.to_vec(), fields(&variant::fields())].concat();
    assert_eq!(keys("/properties/variant/items/properties"), sorted(knobs));
    for (index, workload) in workload::registry().iter().enumerate() {
        let spec = workload.spec();
        let parameters = if spec.runs_programs { vec![PARAMETERS, "metric"] } else { Vec::new() };
        let own = [fields(SET), fields(spec.params), parameters].concat();
        let more = [fields(WORKLOAD), vec!["background", OFFLINE]].concat();
        let set = [SET_KEYS.to_vec(), own.clone(), more].concat();
        let at = format!("/properties/workload/items/anyOf/{index}/properties");
        assert_eq!(keys(&at), sorted(set));
        let at = format!("/$defs/set-of-{}/properties", spec.name);
        assert_eq!(keys(&at), sorted([SET_KEYS.to_vec(), own].concat()));
    }
    let at = format!("/properties/workload/items/anyOf/{}/properties", workload::registry().len());
    let of_sets =
        [vec!["name", "set", "background", OFFLINE, "rate"], fields(WORKLOAD), fields(SET)]
            .concat();
    assert_eq!(keys(&at), sorted(of_sets));
    assert_eq!(keys("/$defs/knobs/properties"), sorted(fields(&variant::set_fields())));
    let text = schema.to_string();
    for reference in text.split("\"$ref\":\"#").skip(1) {
        let at = reference.split('"').next().unwrap();
        assert!(schema.pointer(at).is_some(), "no {at}");
    }
}

/// A plan as a user might write it: the expected plan and its text.
#[derive(Debug, Clone)]
struct Meant {
    rounds: u32,
    seed: u32,
    duration_ms: u64,
    slices_us: Vec<Option<u64>>,
    threads: Vec<i64>,
    count: Vec<u32>,
    modes: Vec<&'static str>,
    background: Option<u32>,
}

fn distinct<T: std::fmt::Debug + Ord + Clone>(
    point: impl Strategy<Value = T>,
    most: usize,
) -> impl Strategy<Value = Vec<T>> {
    prop::collection::btree_set(point, 1..=most).prop_map(Vec::from_iter).prop_shuffle()
}

fn meant() -> impl Strategy<Value = Meant> {
    let slice = prop::option::of(100_u64..=100_000);
    (
        (1_u32..=6, any::<u32>(), 10_u64..100_000),
        prop::collection::vec(slice, 1..4),
        distinct((1_i64..100).prop_filter("refused", |n| ![13, 14].contains(n)), 4),
        distinct(1_u32..50, 3),
        distinct(prop::sample::select(vec!["futex", "pipe"]), 2),
        prop::option::of(1_u32..9),
    )
        .prop_map(
            |((rounds, seed, duration_ms), slices_us, threads, count, modes, background)| Meant {
                rounds,
                seed,
                duration_ms,
                slices_us,
                threads,
                count,
                modes,
                background,
            },
        )
}

impl Meant {
    fn written(&self) -> String {
        let list = |points: &dyn std::fmt::Debug, single: bool| {
            let list = format!("{points:?}");
            if single { list.trim_matches(['[', ']']).to_string() } else { list }
        };
        let mut text = format!(
            "schema = 1\n[measure]\nrounds = {}\nseed = {}\nduration = \"{}ms\"\n",
            self.rounds, self.seed, self.duration_ms
        );
        for (index, slice_us) in self.slices_us.iter().enumerate() {
            text.push_str(&format!("[[variant]]\nname = \"v{index}\"\n"));
            if let Some(us) = slice_us {
                text.push_str(&format!("slice = \"{us}us\"\n"));
            }
        }
        text.push_str(&format!(
            "[[workload]]\nuse = \"web\"\nmode = {}\nthreads = {}\ncount = {}\n",
            list(&self.modes, self.modes.len() == 1),
            list(&self.threads, self.threads.len() == 1),
            list(&self.count, self.count.len() == 1),
        ));
        if let Some(count) = self.background {
            text.push_str(&format!(
                "[[workload.background]]\nuse = \"web\"\nname = \"bg\"\ncount = {count}\n"
            ));
        }
        text
    }
}

proptest! {
    #[test]
    fn a_written_plan_is_read_as_meant(meant in meant()) {
        let plan = parse_here(&meant.written()).map_err(|e| TestCaseError::fail(e.to_string()))?;
        prop_assert_eq!(plan.measure.rounds, meant.rounds);
        prop_assert_eq!(plan.measure.seed, u64::from(meant.seed));
        prop_assert_eq!(plan.measure.duration_ns, meant.duration_ms * 1_000_000);
        let slices: Vec<Option<u64>> = plan.variants.iter()
            .map(|v| v.knobs.get("slice").and_then(Value::as_duration_ns).map(|ns| ns / 1000))
            .collect();
        prop_assert_eq!(&slices, &meant.slices_us);
        let mut expected = Vec::new();
        for mode in &meant.modes {
            for threads in &meant.threads {
                for count in &meant.count {
                    expected.push((mode.to_string(), *threads, *count, meant.background));
                }
            }
        }
        let got: Vec<_> = plan.works.iter().map(|work| {
            let set = &work.sets[0];
            let mode = set.params["mode"].as_text().unwrap_or_default().to_string();
            let background = work.sets.get(1).map(|set| set.count);
            (mode, set.params["threads"].as_int().unwrap_or_default(), set.count, background)
        }).collect();
        prop_assert_eq!(got, expected);
        prop_assert!((cells(&plan).len() as u64) <= MAX_CELLS);
    }

    #[test]
    fn each_round_visits_every_cell_once_and_more_rounds_change_none(meant in meant()) {
        let mut plan = parse_here(&meant.written()).map_err(|e| TestCaseError::fail(e.to_string()))?;
        let cells = cells(&plan).len();
        let runs = order(&plan);
        for (round, keys) in runs.chunks(cells).enumerate() {
            prop_assert!(keys.iter().all(|key| key.round == round as u32));
            let mut seen: Vec<u32> = keys.iter().map(|key| key.cell).collect();
            seen.sort();
            prop_assert_eq!(seen, (0..cells as u32).collect::<Vec<_>>());
        }
        plan.measure.rounds += 3;
        let longer = order(&plan);
        prop_assert_eq!(longer.len(), runs.len() + 3 * cells);
        prop_assert_eq!(&longer[..runs.len()], &runs[..]);
    }

    #[test]
    fn any_text_is_a_plan_or_gets_its_errors(text in "\\PC*|[a-z\\[\\]=\"\n.#\u{1b}ü0-9]{0,80}") {
        if let Err(errors) = parse_here(&text) {
            prop_assert!(!errors.errors().is_empty());
            let drawn = errors.render();
            prop_assert!(!drawn.is_empty() && !drawn.contains(ESCAPE), "{}", drawn);
        }
    }
}

/// The error is the workload's own, with the place of the wrong value, not of the workload.
#[test]
fn what_a_workload_refuses_has_its_caret_below_the_value() {
    let command = "use = \"command\"\ncommand = [\"true\"]\n";
    let metric = "[[workload.metric]]\nname = \"rate\"\nunit = \"ms\"\nbetter = \"lower\"\n";
    let server = format!("{command}server = [\"cat\"]\n");
    let cases: &[(String, &str)] = &[
        (
            format!("{command}failure = [\"ok\", \"(\"]"),
            "5:18: failure = `(` is not a regular expression: unclosed group",
        ),
        (
            format!("{command}{metric}pattern = \"[0\""),
            "9:11: pattern = `[0` is not a regular expression: unclosed character class",
        ),
        (format!("{command}{metric}json = \"a/b\""), "9:8: json = `a/b` is not a path into JSON"),
        (format!("{command}{metric}json = \"/a~2\""), "9:8: json = `/a~2` is not a path into JSON"),
        (
            format!("{server}ready = \"tpc:80\""),
            "6:9: ready = `tpc:80` says nothing that can be waited for",
        ),
        (
            format!("{server}ready = \"output:(\""),
            "6:9: ready = `(` is not a regular expression: unclosed group",
        ),
        (format!("{command}ready = \"tcp:80\""), "5:9: it has `ready` and no `server`"),
        (
            format!("{command}parameters = {{ n = 3 }}"),
            "5:20: no word of its programs has the parameter `n`",
        ),
        (
            "use = \"burnwait\"\nqueue = [\"burn 3ms\", \"wit 5us\"]".to_string(),
            "4:22: queue: step 2, `wit 5us`, is not a wait",
        ),
    ];
    for (lines, expected) in cases {
        let text = format!("schema = 1\n[[workload]]\n{lines}\n");
        let errors = super::parse("p.toml", &text, None, Known::default()).unwrap_err();
        assert_eq!(errors.errors()[0].one_line(), format!("p.toml:{expected}"), "{text}");
    }
}

fn durations_ms(plan: &Plan) -> Vec<u64> {
    plan.works.iter().map(|work| plan.duration_ns(work) / 1_000_000).collect()
}

#[test]
fn a_work_has_a_duration_of_its_own() {
    let text = format!("{}count = 2\nduration = \"200ms\"\nsolo = true\n", with_web(""));
    let text = text.replace("use = ", "name = \"w\"\nuse = ");
    let text = format!("{text}[[workload]]\nuse = \"web\"\ncount = 2\n");
    let mut plan = parse_here(&text).unwrap();
    assert_eq!(durations_ms(&plan), [200, 200, 5000], "solo runs last as long");
    plan.has_lab_durations = true;
    assert_eq!(durations_ms(&plan), [200, 200, 5000], "the lab's, as it has none of its own");
    let in_lab = text.replacen("solo", "lab-duration = \"3s\"\nsolo", 1);
    let mut both = parse_here(&in_lab).unwrap();
    assert_eq!(durations_ms(&both), [200, 200, 5000]);
    both.has_lab_durations = true;
    assert_eq!(durations_ms(&both), [3000, 3000, 5000]);
    super::set_measure(&mut both, "duration", &crate::model::Raw::Text("2s".to_string())).unwrap();
    both.has_lab_durations = false;
    assert_eq!(durations_ms(&both), [2000; 3], "the command line's is for all");

    let turns = "[measure]\nturns = \"100ms\"\n[[variant]]\nname = \"a\"\n[[variant]]\nname = \"b\"\nnice = 1\n";
    let error = parse_here(
        &with_web("duration = \"150ms\"").replace("[[workload]]", &format!("{turns}[[workload]]")),
    );
    let error = error.unwrap_err().to_string();
    assert!(error.contains("each variant has 150ms and needs 2 blocks of 100ms"), "{error}");

    let table = r#"
        duration = "1ms" => 4:12: 1ms is below the least that is accepted
        duration = ["1s", "2s"] => 4:12: a list does not fit here
        at = "2s" | duration = "1s" => 4:1: `web` begins at 2s, and a run has 1s
        duration = "1s" | [[workload.change]] | at = "2s" | knobs = { nice = 1 }
          => 6:1: a change at 2s, and a run has 1s
    "#;
    hold_all(with_web, table);
}

#[test]
fn a_work_has_a_duration_of_its_own_in_the_lab() {
    let text = format!("{}count = 2\nlab-duration = \"3s\"\nsolo = true\n", with_web(""));
    let text = text.replace("use = ", "name = \"w\"\nuse = ");
    let mut plan = parse_here(&format!("{text}[[workload]]\nuse = \"web\"\ncount = 2\n")).unwrap();
    assert_eq!(durations_ms(&plan), [5000; 3], "as long as nobody says that it runs in the lab");
    plan.has_lab_durations = true;
    assert_eq!(durations_ms(&plan), [3000, 3000, 5000], "solo runs last as long");
    assert_eq!(plan.mean_run_ns() / 1_000_000, 1000 + 11_000 / 3);
    super::set_measure(&mut plan, "duration", &crate::model::Raw::Text("2s".to_string())).unwrap();
    assert_eq!(durations_ms(&plan), [2000; 3], "the command line's is for all");

    let table = r#"
        lab-duration = "1ms" => 4:16: 1ms is below the least that is accepted
        at = "2s" | lab-duration = "1s" => 5:16: `web` begins at 2s, and a run has 1s
        lab-duration = "1s" | [[workload.change]] | at = "2s" | knobs = { nice = 1 }
          => 4:16: a change at 2s, and a run has 1s
    "#;
    hold_all(with_web, table);
}
