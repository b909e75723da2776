//! Tests of fairness: invented results with answers by hand, and where there is none.

use super::super::testing::parse;
use super::super::{Averages, html, text};
use super::*;

/// Kops and ms of CPU time in each window of a second.
type Windows = Vec<(i64, i64)>;

const A: &str = r#""burnwait","70","200000""#;
const B: &str = r#""burnwait","10","300000""#;
const CPUS: &str = r#""Cpus":[0,1,2,3],"Scheduler":"credit","Completed":true"#;

/// Two windows alike.
fn steady(kops: i64, cpu_ms: i64) -> Windows {
    vec![(kops, cpu_ms); 2]
}

/// The text of a run in a file. A worker without windows has never reported.
fn run(label: &str, fields: &str, sets: &[(&str, Vec<Windows>)]) -> String {
    let mut raw = Vec::new();
    for (set, (_, workers)) in sets.iter().enumerate() {
        for (id, windows) in workers.iter().enumerate().filter(|(_, windows)| !windows.is_empty()) {
            let (mut kops, mut cpu_ms) = (0, 0);
            let mut report = |second: usize, kops: i64, cpu_ms: i64| {
                raw.push(format!(
                    r#"{{"Id":{{"Set":{set},"Id":{id}}},"Now":{second}000000000,"Kops":{kops},"MaxDelta":0,"Cputime":{}}}"#,
                    cpu_ms * 1_000_000
                ));
            };
            report(1, 0, 0);
            for (at, window) in windows.iter().enumerate() {
                (kops, cpu_ms) = (kops + window.0, cpu_ms + window.1);
                report(at + 2, kops, cpu_ms);
            }
        }
    }
    let sets: Vec<String> = sets
        .iter()
        .map(|(args, workers)| {
            format!(r#"{{"Params":{{"Args":[{args}]}},"Count":{}}}"#, workers.len())
        })
        .collect();
    format!(
        r#"{{"Label":"{label}",{fields},"WorkerSets":[{}],"Results":{{"Raw":[{}]}}}}"#,
        sets.join(","),
        raw.join(",")
    )
}

fn solo(args: &str, kops: i64, cpu_ms: i64) -> String {
    run("solo", CPUS, &[(args, vec![steady(kops, cpu_ms)])])
}

fn file(runs: &[String]) -> String {
    format!(r#"{{"RunConfig":{{}},"Runs":[{}]}}"#, runs.join(","))
}

/// The fairness of the last run.
fn fairness(source: &str) -> Option<Reading<RunFairness>> {
    let figures = parse(source).unwrap().figures(Averages::Right).unwrap();
    figures.last().unwrap().fairness.clone()
}

fn table(source: &str) -> RunFairness {
    match fairness(source) {
        Some(Reading::Known(table)) => table,
        other => panic!("{other:?}"),
    }
}

/// The heading if there is no table.
fn heading(source: &str) -> String {
    let shown = shown(&fairness(source).expect("a line"));
    assert!(shown.rows.is_empty() && shown.lines.is_empty(), "{shown:?}");
    shown.heading
}

/// The text about fairness in the last run, without the table of sets and the heading.
fn said(source: &str) -> String {
    let figures = parse(source).unwrap().figures(Averages::Right).unwrap();
    let mut out = Vec::new();
    text::write(&mut out, &figures, 0, Averages::Right).unwrap();
    let text = String::from_utf8(out).unwrap();
    text.split("\nfairness").last().unwrap().trim_end().to_string()
}

/// The worked examples of the README: a worker that wants half a CPU of four gets it next to four
/// others, and is entitled to 40 % next to nine.
#[test]
fn five_that_want_half_a_cpu_of_four_are_entitled_to_it_and_ten_to_four_tenths() {
    let competing = |count: usize, cpu_ms: i64| {
        let workers = vec![steady(2 * cpu_ms, cpu_ms); count];
        said(&file(&[solo(A, 1000, 500), run("A", CPUS, &[(A, workers)])]))
    };
    let five = " on 4 CPUs
                                       got /   rate /    max /   window
     set     want entitled      got entitled     solo      min       cv
       0     0.50     0.50     0.50     1.00     1.00     1.00     0.00
Jain's index of got / entitled: 1.000";
    assert_eq!(competing(5, 500), five);
    let ten = " on 4 CPUs
                                       got /   rate /    max /   window
     set     want entitled      got entitled     solo      min       cv
       0     0.50     0.40     0.30     0.75     0.60     1.00     0.00
Jain's index of got / entitled: 1.000";
    assert_eq!(competing(10, 300), ten);
}

/// B wants a quarter, which leaves 1.75 CPUs to two of A, who want one each: 0.875.
#[test]
fn sets_are_compared_and_no_want_exceeds_a_cpu() {
    let fields = CPUS.replace("0,1,2,3", "7,5");
    let alone = |args, kops, cpu_ms| run("solo", &fields, &[(args, vec![steady(kops, cpu_ms)])]);
    let a = vec![vec![(600, 600), (800, 800)], vec![(1400, 1400), (1400, 1400)]];
    let sets = [(A, a), (B, vec![steady(250, 250)])];
    let source = file(&[alone(A, 1400, 1400), alone(B, 250, 250), run("A + B", &fields, &sets)]);
    // Window cv: of 600 and 800 it is 141.42 / 700, of alike ones 0. Jain: of 0.8, 1.6 and 1,
    // 3.4^2 / (3 * 4.2).
    let expected = " on 2 CPUs
                                       got /   rate /    max /   window
     set     want entitled      got entitled     solo      min       cv
       0     1.00     0.88     1.05     1.20     0.75     2.00     0.10
       1     0.25     0.25     0.25     1.00     1.00        -     0.00
Jain's index of got / entitled: 0.917
- of set 1: one worker: nothing to compare";
    assert_eq!(said(&source), expected);
}

#[test]
fn a_starved_worker_is_seen() {
    let workers = vec![steady(1000, 500), steady(0, 0)];
    let source = file(&[solo(A, 1000, 500), run("A", CPUS, &[(A, workers)])]);
    let expected = " on 4 CPUs
                                       got /   rate /    max /   window
     set     want entitled      got entitled     solo      min       cv
       0     0.50     0.50     0.25     0.50     0.50        -        -
Jain's index of got / entitled: 0.500
- of set 0: a worker completed nothing";
    assert_eq!(said(&source), expected);
}

#[test]
fn without_cpus_what_depends_on_them_is_unknown_and_nothing_else() {
    let none = CPUS.replace(r#""Cpus":[0,1,2,3]"#, r#""Cpus":null"#);
    let runs = |fields: &str| {
        let alone = run("solo", fields, &[(A, vec![steady(1000, 500)])]);
        file(&[alone, run("A", fields, &[(A, vec![steady(800, 400); 2])])])
    };
    let expected = "; entitlement is unknown: the run has no `Cpus`
                                       got /   rate /    max /   window
     set     want entitled      got entitled     solo      min       cv
       0     0.50        -     0.40        -     0.80     1.00     0.00
Jain's index of got / entitled: -";
    assert_eq!(said(&runs(&none)), expected);
    assert_eq!(said(&runs(&none.replace("null", "[]"))), expected);
    let text = said(&runs(&none.replace("null", "[-1,2]")));
    assert!(
        text.starts_with(
            "; entitlement is unknown: the run's `Cpus` are not all numbers of CPUs\n"
        )
    );
    // The CPUs of all runs hold if a run names none.
    let all = runs(&none).replace(r#""RunConfig":{}"#, r#""RunConfig":{"Cpus":[2,3,3]}"#);
    assert_eq!(table(&all).cpus, Reading::Known(2), "a CPU counts once");
}

#[test]
fn sets_in_several_pools_have_no_known_entitlement() {
    let set = |args, pool: &str, count: i64| {
        format!(r#"{{"Params":{{"Args":[{args}]}},"Config":{{"Pool":"{pool}"}},"Count":{count}}}"#)
    };
    let reports = |set: usize| {
        let of = |now: i64| {
            format!(
                r#"{{"Id":{{"Set":{set},"Id":0}},"Now":{now}000000000,"Kops":{now},"MaxDelta":0,"Cputime":{now}00000000}}"#
            )
        };
        [of(1), of(2)].join(",")
    };
    let of = |sets: &[String], raw: &[String]| {
        let (sets, raw) = (sets.join(","), raw.join(","));
        format!(r#"{{{CPUS},"WorkerSets":[{sets}],"Results":{{"Raw":[{raw}]}}}}"#)
    };
    let solos = [of(&[set(A, "p", 1)], &[reports(0)]), of(&[set(B, "q", 1)], &[reports(0)])];
    let competing = |pool: &str| {
        let both = of(&[set(A, "p", 1), set(B, pool, 1)], &[reports(0), reports(1)]);
        file(&[solos.to_vec(), vec![both]].concat())
    };
    let separate = table(&competing("q"));
    assert_eq!(separate.cpus, Reading::Unknown("its worker sets are in several pools".to_string()));
    assert_eq!(separate.sets[1][0], Reading::Known(0.1));
    assert_eq!(
        heading(&competing("p")),
        format!("fairness: no solo run of set 1: {NO_SUCH_RUN}"),
        "the other pool is none of its own"
    );
}

#[test]
fn a_set_without_a_solo_run_is_named_with_what_is_missing() {
    let sets = [
        (A, vec![steady(800, 400)]),
        (B, vec![steady(800, 400)]),
        (r#""burnwait","1","1""#, vec![steady(1, 1)]),
        (r#""burnwait","2","1""#, vec![steady(1, 1)]),
    ];
    let both = run("all", CPUS, &sets);
    let todo = CPUS.replace("true", "false");
    let todo = run(r"B\u001b[2J\u202e ", &todo, &[(B, vec![vec![]])]);
    let source = file(&[solo(A, 1000, 500), todo.clone(), todo, both]);
    assert_eq!(
        heading(&source),
        format!(
            "fairness: no solo run of set 1: run 1 `B\\u{{1b}}[2J\\u{{202e}}` is not completed; \
             no solo run of set 2, 3: {NO_SUCH_RUN}"
        )
    );
    assert!(!said(&source).contains(['\u{1b}', '\u{202e}']));
}

#[test]
fn a_solo_run_is_one_of_the_same_words_and_the_same_place() {
    let whole = |alone: &str, args: &str, all: &str| {
        let competing = run(
            "A",
            &format!(r#""Pool":"p","NumaDisable":false,{CPUS}"#),
            &[(A, vec![steady(800, 400); 2])],
        );
        let alone = run("solo", alone, &[(args, vec![steady(1000, 500)])]);
        file(&[alone, competing]).replace(r#""RunConfig":{}"#, &format!(r#""RunConfig":{{{all}}}"#))
    };
    let same = format!(r#""Pool":"p","NumaDisable":false,{CPUS}"#);
    let alike: &[(&str, &str, &str)] = &[
        (&same, A, ""),
        (&same.replace("[0,1,2,3]", "[3,1,2,0,0]"), A, ""),
        (&same, r#""kHZ","2100000","burnwait","70","200000""#, ""),
        (&same.replace(r#""NumaDisable":false,"#, ""), A, ""),
        (r#""Completed":true"#, A, r#""Scheduler":"credit","Pool":"p","Cpus":[0,1,2,3]"#),
        (&same, A, r#""Scheduler":"x","Pool":"x","Cpus":[9],"NumaDisable":true"#),
    ];
    for (fields, args, all) in alike {
        let found = table(&whole(fields, args, all));
        assert_eq!(found.sets[0][0], Reading::Known(0.5), "{fields} {args} {all}");
    }
    let other: &[(&str, &str, &str)] = &[
        (&same.replace("credit", "credit2"), A, ""),
        (&same.replace(r#""p""#, r#""q""#), A, ""),
        (&same.replace("[0,1,2,3]", "[0,1,2]"), A, ""),
        (&same.replace(r#""Cpus":[0,1,2,3],"#, ""), A, ""),
        (&same.replace(r#""NumaDisable":false"#, r#""NumaDisable":true"#), A, ""),
        (&same.replace(r#""NumaDisable":false,"#, ""), A, r#""NumaDisable":true"#),
        // The value of a run overrides the value of all runs.
        (&same.replace("credit", "credit2"), A, r#""Scheduler":"x""#),
        (&same.replace(r#""p""#, r#""q""#), A, r#""Pool":"x""#),
        (&same.replace("[0,1,2,3]", "[0,1,2]"), A, r#""Cpus":[9]"#),
        (&same, B, ""),
        (&same, r#""burnwait","70","200000","kHZ","1""#, ""),
    ];
    for (fields, args, all) in other {
        let found = heading(&whole(fields, args, all));
        assert_eq!(found, format!("fairness: no solo run of set 0: {NO_SUCH_RUN}"), "{fields}");
    }
}

#[test]
fn the_last_completed_solo_run_counts() {
    let competing = run("A", CPUS, &[(A, vec![steady(800, 400); 2])]);
    let todo = run("todo", &CPUS.replace("true", "false"), &[(A, vec![steady(1, 900)])]);
    let runs = [solo(A, 1000, 700), competing, solo(A, 1600, 500), todo];
    let figures = |runs: &[String]| {
        let source = file(runs);
        parse(&source).unwrap().figures(Averages::Right).unwrap()
    };
    let all = figures(&runs);
    let Some(Reading::Known(found)) = &all[1].fairness else { panic!("{:?}", all[1].fairness) };
    assert_eq!(found.sets[0][0], Reading::Known(0.5));
    assert_eq!(found.sets[0][4], Reading::Known(0.5));
    let silent = [0, 2, 3].map(|at| all[at].fairness.is_none());
    assert_eq!(silent, [true; 3], "solo runs have none");
}

#[test]
fn runs_that_are_not_completed_and_the_originals_averages_have_none() {
    let competing = |fields: &str| run("A", fields, &[(A, vec![steady(800, 400); 2])]);
    assert_eq!(fairness(&file(&[solo(A, 1, 1), competing(&CPUS.replace("true", "false"))])), None);
    let source = file(&[solo(A, 1000, 500), competing(CPUS)]);
    assert!(fairness(&source).is_some());
    let original = parse(&source).unwrap().figures(Averages::Original).unwrap();
    assert!(original.iter().all(|run| run.fairness.is_none()));
}

#[test]
fn what_reports_do_not_say_is_unknown_and_never_zero() {
    let of = |alone: Windows, workers: Vec<Windows>| {
        let alone = run("solo", CPUS, &[(A, vec![alone])]);
        file(&[alone, run("A", CPUS, &[(A, workers)])])
    };
    let row = |source: &str| {
        let text = said(source);
        let row = text.lines().nth(3).unwrap().split_whitespace().skip(1).collect::<Vec<_>>();
        (row.join(" "), text.lines().skip(4).collect::<Vec<_>>().join("\n"))
    };
    let jain = "Jain's index of got / entitled";
    let good = || vec![steady(1000, 400); 2];
    let cases = [
        (
            of(steady(1000, 0), good()),
            "- - 0.40 - 1.00 1.00 0.00",
            format!("{jain}: -\n- of set 0: in a solo run a worker's CPU time is not known"),
        ),
        (
            of(vec![], good()),
            "- - 0.40 - - 1.00 0.00",
            format!("{jain}: -\n- of set 0: in a solo run a worker has no window"),
        ),
        (
            of(steady(0, 0), good()),
            "- - 0.40 - - 1.00 0.00",
            format!("{jain}: -\n- of set 0: no operations in its solo run"),
        ),
        (
            of(steady(1000, 500), vec![steady(1000, 400), steady(1000, 0)]),
            "0.50 0.50 - - 1.00 1.00 0.00",
            format!("{jain}: -\n- of set 0: a worker's CPU time is not known"),
        ),
        (
            of(steady(1000, 500), vec![steady(1000, 400), vec![(900, 400), (900, -400)]]),
            "0.50 0.50 - - 0.95 1.11 0.00",
            format!("{jain}: -\n- of set 0: a worker's CPU time is not known"),
        ),
        (
            of(steady(1000, 500), vec![steady(1000, 400), vec![]]),
            "0.50 0.50 - - - - -",
            format!("{jain}: -\n- of set 0: a worker has no window"),
        ),
        (
            of(steady(1000, 500), vec![steady(1000, 400), vec![(1000, 400)]]),
            "0.50 0.50 0.40 0.80 1.00 1.00 -",
            format!("{jain}: 1.000\n- of set 0: a worker has one window only"),
        ),
    ];
    for (source, cells, lines) in cases {
        assert_eq!(row(&source), (cells.to_string(), lines));
    }
    assert_eq!(
        heading(&of(steady(1000, 500), vec![vec![], vec![]])),
        "fairness: no worker of set 0 has reported"
    );
}

/// B did nothing alone: what it wants is not known, nor what that leaves to A.
#[test]
fn a_worker_that_did_nothing_alone_leaves_all_entitlements_unknown() {
    let sets = [(A, vec![steady(1000, 500); 2]), (B, vec![steady(100, 100)])];
    let found = table(&file(&[solo(A, 1000, 500), solo(B, 0, 0), run("A + B", CPUS, &sets)]));
    let nothing = Reading::Unknown(NO_SOLO_OPERATIONS.to_string());
    assert_eq!(found.jain, nothing);
    assert_eq!(found.sets[0][..2], [Reading::Known(0.5), nothing.clone()]);
    assert_eq!(found.sets[1][..3], [nothing.clone(), nothing, Reading::Known(0.1)]);
}

#[test]
fn a_want_of_a_disturbed_solo_run_is_marked() {
    let found = r#""Results":{"Schedlab":{"Disturbances":["load \u001b","steal"]},"#;
    let alone = solo(A, 1000, 500).replace(r#""Results":{"#, found);
    let sets = [(A, vec![steady(800, 400); 2]), (B, vec![steady(250, 250)])];
    let source = file(&[alone, solo(B, 250, 250), run("A + B", CPUS, &sets)]);
    let text = said(&source);
    let wants = text.lines().skip(3).map(|row| row.split_whitespace().nth(1).unwrap());
    assert_eq!(wants.take(2).collect::<Vec<_>>(), ["0.50*", "0.25"]);
    assert!(
        text.ends_with("\n* want of set 0: its solo run was disturbed: load \\u{1b}; steal"),
        "{text}"
    );
    let figures = parse(&source).unwrap().figures(Averages::Right).unwrap();
    let mut page = Vec::new();
    html::write(&mut page, std::path::Path::new("t"), &figures, Averages::Right).unwrap();
    let page = String::from_utf8(page).unwrap();
    assert!(
        page.contains("<td>0.50*</td>") && page.contains("disturbed: load \\u{1b}<br>"),
        "{page}"
    );
}

#[test]
fn recorded_cpus_replace_those_that_the_file_does_not_ask_for() {
    let found = r#""Results":{"Schedlab":{"Cpus":[1,0,1]},"#;
    let competing = |fields: &str| {
        let competing = run("A", fields, &[(A, vec![steady(800, 400); 3])]);
        let alone = run("solo", fields, &[(A, vec![steady(1000, 900)])]);
        table(&file(&[alone, competing.replace(r#""Results":{"#, found)]))
    };
    let none = CPUS.replace(r#""Cpus":[0,1,2,3],"#, "");
    let here = competing(&none);
    assert_eq!(here.cpus, Reading::Known(2));
    assert_eq!(here.sets[0][1], Reading::Known(2.0 / 3.0));
    assert_eq!(competing(CPUS).cpus, Reading::Known(4), "what the file asks for holds");
}

#[test]
fn the_page_has_the_same_cells_and_lets_nothing_through() {
    let evil = "<script>x</script>";
    let todo = run(evil, &CPUS.replace("true", "false"), &[(B, vec![vec![]])]);
    let competing = run("A", CPUS, &[(A, vec![steady(600, 300); 10])]);
    let other = run("B", CPUS, &[(B, vec![steady(600, 300); 2])]);
    let source = file(&[solo(A, 1000, 500), todo, competing, other]);
    let page = |averages: Averages| {
        let figures = parse(&source).unwrap().figures(averages).unwrap();
        let mut out = Vec::new();
        html::write(&mut out, std::path::Path::new("t"), &figures, averages).unwrap();
        String::from_utf8(out).unwrap()
    };
    let right = page(Averages::Right);
    for part in [
        LEGEND,
        ">fairness on 4 CPUs</p>",
        "<th scope=\"col\">want</th><th scope=\"col\">entitled</th><th scope=\"col\">got</th>\
         <th scope=\"col\">got / entitled</th><th scope=\"col\">rate / solo</th>\
         <th scope=\"col\">max / min</th><th scope=\"col\">window cv</th></tr>",
        "<td>0.50</td><td>0.40</td><td>0.30</td><td>0.75</td><td>0.60</td><td>1.00</td><td>0.00</td>",
        ">Jain&#x27;s index of got / entitled: 1.000</p>",
        ">fairness: no solo run of set 0: run 1 `&lt;script&gt;x&lt;/script&gt;` is not completed</p>",
    ] {
        assert_eq!(right.replace("&#x2f;", "/").matches(part).count(), 1, "{part}\n{right}");
    }
    assert_eq!(right.matches("<script").count(), 1);
    assert!(!page(Averages::Original).to_lowercase().contains("entitled"));
}
