//! The English about results.

use std::collections::BTreeMap;

use proptest::prelude::*;
use unicode_width::UnicodeWidthStr;

use super::super::layout::clean;
use super::*;
use crate::analysis::{Analysis, Cell, Family, NoValue, Note, Pairing, Side, UselessKnob};
use crate::model::{
    Cgroup, CgroupChange, Disturbance, DisturbanceFact, DisturbanceKind, Lab, Offline, Reading,
    SetChange, Unit, Value, Work, WorkerSet,
};
use crate::report::testing::{self, LOWER, NEUTRAL};
use crate::stats::{Distance, Effect, NoEffect, Ratio, Rounds, Unjudged, Verdict, Why};

fn named(labels: &[&str], columns: usize) -> Vec<String> {
    let sides: Vec<Side> = labels.iter().map(|label| testing::side(label)).collect();
    names(&sides, columns, clean, "…")
}

#[test]
fn names_stay_distinct_and_fit() {
    let cases: &[(&[&str], &[&str])] = &[
        (&["default", "batch"], &["default", "batch"]),
        (&["default", "default"], &["default#1", "default#2"]),
        (&["default", "default", "default#1"], &["default#1", "default#2", "default…#3"]),
        (&["6.18.5-custom-one", "6.18.5-custom-two"], &["…one", "…two"]),
        (&["6.18.5-lavd", "6.6.87-cfs"], &["6.18.5…", "6.6.87-cfs"]),
        (&["a-long-name-a", "a-long-name-a"], &["a-long…a#1", "a-long…a#2"]),
        (&["6.12.0-rc1-tip", "6.12.0-rc1-tip+debug"], &["…tip", "…tip+debug"]),
        (&["", "a\n"], &["#1", "a\\n"]),
        (&["kernel=6.1", "kernel=6.12"], &["6.1", "6.12"]),
        (&["kernel=", "kernel=6.12"], &["kernel=", "…6.12"]),
        (&["kernel=6.1", "plan=last"], &["kernel=6.1", "plan=last"]),
        (&["kernel=6.12.0-rc1-tip+", "kernel=6.12.0-rc1-parity+"], &["…tip+", "…parity+"]),
    ];
    for (labels, expected) in cases {
        assert_eq!(named(labels, 10), *expected);
    }
    let points = ["eevdf slice=1ms", "eevdf slice=10ms"];
    assert_eq!(named(&points, 12), ["…slice=1ms", "…slice=10ms"]);
    assert_eq!(named(&points, 8), ["…1ms", "…10ms"]);
    // Both ends are needed, and neither is a number's work.
    let grid = ["6.12s slice=3ms", "6.12s slice=10ms", "6.18s slice=3ms", "6.18s slice=10ms"];
    assert_eq!(named(&grid, 12), ["6.12s…3ms", "6.12s…10ms", "6.18s…3ms", "6.18s…10ms"]);
    let crossed = |slice: &str, policy: &str| format!("6.12s slice={slice} policy={policy}");
    let crossed = ["3ms", "10ms"].map(|slice| ["other", "batch"].map(|of| crossed(slice, of)));
    let crossed: Vec<&str> = crossed.iter().flatten().map(String::as_str).collect();
    let expected = ["…3ms…other", "…3ms…batch", "…10ms…other", "…10ms…batch"];
    assert_eq!(named(&crossed, 12), expected);
    let packed = ["aaaaaaaaaaaaaaaaa1", "baaaaaaaaaaaaaaaa1", "baaaaaaaaaaaaaaaa2"];
    assert_eq!(named(&packed, 8), ["a…aaaaa1", "b…aaaaa1", "b…aaaaa2"]);
    let full = names(&[testing::side("k=a"), testing::side("k=b")], usize::MAX, clean, "…");
    assert_eq!(full, ["k=a", "k=b"], "nothing has to go");
}

#[test]
fn notes_of_one_cause_are_one() {
    let mut analysis = testing::sides_only();
    let text = |text: &str| text.to_string();
    let few = |side: &str, work: &str, metric: &str, runs, reason: String| {
        let (side, work, set, metrics) = (text(side), text(work), text(work), vec![text(metric)]);
        Note::NoValue(NoValue { side, work, set, metrics, runs, of: 10, reason: Some(reason) })
    };
    let failed = |side: &str, work: &str, reason: String, others| Note::Failed {
        side: text(side),
        work: text(work),
        runs: 10,
        of: 12,
        reason,
        others,
    };
    for (at, work) in ["web", "chat"].into_iter().enumerate() {
        for side in ["default", "batch"] {
            let why = |p: &str| format!("1{at} samples, and a {p} takes 300");
            analysis.notes.push(few(side, work, "wakeup_p99", 10, why("p99")));
            analysis.notes.push(few(side, work, "wakeup_p99.9", 10, why("p99.9")));
            let reason = format!("worker set `{work}`: pid {at}7 died");
            analysis.notes.push(failed(side, work, reason, at));
        }
    }
    analysis.notes.push(Note::Unpaired);
    analysis.notes.push(failed("batch", "mail", text("`sendmail` is not there"), 0));
    analysis.notes.push(failed("batch", "post", text("`exim` is not there"), 0));
    for side in ["default", "batch"] {
        let (side, knob, works) = (text(side), text("nice"), vec![text("web")]);
        let knob = UselessKnob { side, knob, works, scheduler: None, own_of_sets: false };
        analysis.notes.push(Note::KnobWithoutEffect(knob));
    }
    let folded = |analysis: &Analysis| {
        let notes = folded_notes(analysis, |note| *note != Note::Unpaired).into_iter();
        notes.map(|(_, word, text)| format!("{word}: {text}")).collect::<Vec<_>>()
    };
    let expected = [
        "missing: no value of wakeup_p99 and wakeup_p99.9 in all runs of web and chat, for example: 10 samples, and \
         a p99 takes 300",
        "failed: 40 of 48 runs of web and chat, for example: worker set `web`: pid 07 died (2 for other reasons)",
        "failed: batch: 10 of 12 runs of mail: `sendmail` is not there",
        "failed: batch: 10 of 12 runs of post: `exim` is not there",
        "note: default and batch: nice changes nothing in web: nothing with another value competes there",
    ];
    assert_eq!(folded(&analysis), expected);
    let Note::NoValue(first) = &mut analysis.notes[0] else { panic!() };
    first.runs = 9;
    analysis.notes.retain(
        |note| !matches!(note, Note::NoValue(of) if of.side == "default" && of.work == "chat"),
    );
    let partly =
        "missing: no value of wakeup_p99 and wakeup_p99.9 in some runs of web and chat (batch), ";
    assert!(folded(&analysis)[0].starts_with(partly), "{:?}", folded(&analysis));
}

fn tally(analysis: &Analysis, side: usize, family: Family) -> Tally {
    Tally::count(analysis.rows_of(family), side)
}

#[test]
fn verdicts_are_counted_by_family_with_the_rounds_for_all() {
    let analysis = testing::ordinary();
    let headlines = tally(&analysis, 1, Family::Headline);
    assert_eq!(headlines.counts(), "2 BETTER, 1 WORSE, 1 SAME, 1 bounded, 1 open");
    assert_eq!(headlines.rounds, Some(Needed::About(31)));
    let explaining = Tally { same: 1, ..Tally::default() };
    assert_eq!(tally(&analysis, 1, Family::Explaining), explaining);
    assert_eq!(tally(&analysis, 1, Family::None), Tally::default());
    assert_eq!(tally(&analysis, 0, Family::Headline), Tally::default(), "the baseline");
    let troubled = tally(&testing::troubled(), 2, Family::Headline);
    assert_eq!((troubled.open, troubled.unjudged), (2, 1));
    assert_eq!(troubled.rounds, Some(Needed::MoreThan(1000)));
}

#[test]
fn of_two_needs_the_later_one_holds() {
    let cases: &[(Needed, Needed, Needed)] = &[
        (Needed::About(9), Needed::About(3), Needed::About(9)),
        (Needed::About(9), Needed::MoreThan(1000), Needed::MoreThan(1000)),
        (Needed::AtLeast(6), Needed::MoreThan(1000), Needed::MoreThan(1000)),
        (Needed::AtLeast(6), Needed::About(3), Needed::AtLeast(6)),
        (Needed::AtLeast(6), Needed::About(9), Needed::AtLeast(9)),
    ];
    for (one, other, expected) in cases {
        assert_eq!(later(*one, *other), *expected);
        assert_eq!(later(*other, *one), *expected);
    }
    let few = Why::TooFewRounds { least: 6 };
    let judged = |verdict| testing::values(1.0, 0.1).judged(verdict, 1.0, 0.9, 1.1).judged.unwrap();
    let needs = |why, number| rounds(&judged(testing::open(why, number)));
    assert_eq!(needs(few, Rounds::MoreThan(1000)), Some(Needed::AtLeast(6)), "of one round");
    assert_eq!(needs(few, Rounds::Number(14)), Some(Needed::About(14)));
    assert_eq!(needs(Why::Noise, Rounds::MoreThan(1000)), Some(Needed::MoreThan(1000)));
    assert_eq!(rounds(&judged(Verdict::Same)), None);
    let mut of_three = judged(testing::open(few, Rounds::Number(491)));
    let ratio = of_three.effect.unwrap().ratio().unwrap();
    of_three.effect = Ok(Effect::Ratio(Ratio { pairs: 3, ..ratio }));
    assert_eq!(rounds(&of_three), Some(Needed::AtLeast(6)), "three rounds have no spread yet");
    let shown = [Needed::About(14), Needed::MoreThan(9), Needed::AtLeast(6)].map(show_rounds);
    assert_eq!(shown, ["~14", ">9", ">=6"]);
}

#[test]
fn the_words_of_a_verdict_are_those_of_the_direction() {
    let analysis = testing::ordinary();
    let words = |direction| {
        let verdicts = [
            Verdict::Better,
            Verdict::Worse,
            Verdict::Same,
            testing::open(Why::Noise, Rounds::Number(9)),
            testing::open(Why::Denied, Rounds::Number(9)),
            // These may stand next to an interval that excludes 1.
            testing::open(Why::TooFewRounds { least: 8 }, Rounds::Number(9)),
            testing::open(Why::OnlyAlone, Rounds::Number(9)),
            Verdict::Unjudged(Unjudged::NoEffect(NoEffect::NoPairs)),
            Verdict::Unjudged(Unjudged::Neutral),
        ];
        verdicts.map(|of| {
            let cell = testing::values(1.0, 0.1).judged(of, 1.0, 1.0, 1.0);
            let row = testing::row("x_p99", Unit::Ns, direction, Vec::new());
            verdict(&analysis, &row, &cell).unwrap_or_default()
        })
    };
    let open = ["open", "open", "too-few", "maybe", "-", ""].map(str::to_string);
    assert_eq!(words(LOWER)[..3], ["BETTER", "WORSE", "SAME"]);
    assert_eq!(words(NEUTRAL)[..3], ["LESS", "MORE", "SAME"]);
    assert_eq!((&words(LOWER)[3..], &words(NEUTRAL)[3..]), (&open[..], &open[..]));
}

/// A bound never says less than was shown, and none is said that nobody could use.
#[test]
fn what_is_not_decided_has_its_bound_rounded_up() {
    let cases: &[(&str, Unit, Distance, Option<&str>)] = &[
        ("throughput", Unit::OpsPerS, Distance::Ratio(0.0611), Some("6.2 %")),
        ("throughput", Unit::OpsPerS, Distance::Ratio(0.06), Some("6.0 %")),
        ("throughput", Unit::OpsPerS, Distance::Ratio(0.4901), Some("50 %")),
        ("throughput", Unit::OpsPerS, Distance::Ratio(0.51), None),
        ("wakeup_p99", Unit::Ns, Distance::Ratio(0.51), Some("51 %")),
        ("wakeup_p99", Unit::Ns, Distance::Ratio(1.01), None),
        ("misses", Unit::Ratio, Distance::Difference(0.0091), Some("0.0091")),
        ("throughput", Unit::OpsPerS, Distance::Difference(0.45), Some("0.45 /s")),
        ("throughput", Unit::OpsPerS, Distance::Difference(0.7), None),
        ("wakeup_p99", Unit::Ns, Distance::Difference(0.7), Some("0.70 ns")),
        ("wakeup_p99", Unit::Ns, Distance::Difference(1_234_000.0), None),
    ];
    // The mean of the baseline is 1.
    for (metric, unit, distance, expected) in cases {
        let noise = testing::open(Why::Noise, Rounds::Number(9));
        let mut cell = testing::values(1.0, 0.1).judged(noise, 1.0, 0.9, 1.1);
        cell.judged.as_mut().unwrap().bound = Some(*distance);
        let row = testing::row(metric, *unit, LOWER, vec![testing::values(1.0, 0.1), cell]);
        assert_eq!(bound(&row, &row.cells[1]).as_deref(), *expected, "{metric} {distance:?}");
        let word = expected.map_or("open".to_string(), |bound| format!("<{bound}"));
        assert_eq!(verdict(&testing::ordinary(), &row, &row.cells[1]), Some(word));
        let mut maybe = row.cells[1].clone();
        maybe.judged.as_mut().unwrap().verdict = testing::open(Why::OnlyAlone, Rounds::Number(9));
        let word = expected.map_or("maybe".to_string(), |bound| format!("maybe <{bound}"));
        assert_eq!(verdict(&testing::ordinary(), &row, &maybe), Some(word));
        let mut of_zero = row.clone();
        of_zero.cells[0] = testing::values(0.0, 0.1);
        if let Distance::Difference(_) = distance {
            assert!(bound(&of_zero, &of_zero.cells[1]).is_some(), "a part of nothing: {metric}");
        }
    }
}

#[test]
fn why_a_verdict_is_open_depends_on_its_family() {
    let reason =
        |why, family| super::why(&testing::open(why, Rounds::Number(9)), Unit::Ns, family, "round");
    for why in [Why::OnlyAlone, Why::SameOnlyAlone] {
        assert!(reason(why, 7).unwrap().contains("7 verdicts"));
        let alone = reason(why, 1).unwrap();
        assert!(!alone.contains("verdicts") && alone.contains("a verdict takes more"), "{alone}");
    }
    let floors: &[(f64, &str)] =
        &[(0.103_949, "10 %"), (0.005_312, "0.53 %"), (0.0996, "10 %"), (1.234, "123 %")];
    for (floor, expected) in floors {
        assert_eq!(floor_percent(*floor), *expected);
        let said = reason(Why::BelowFloor { floor: Distance::Ratio(*floor) }, 7).unwrap();
        assert!(said.contains("floor") && said.ends_with(expected), "{said}");
    }
    let said = reason(Why::BelowFloor { floor: Distance::Difference(13_658_556.0) }, 7).unwrap();
    assert!(said.ends_with("13.7 ms"), "{said}");
    assert!(reason(Why::TooFewRounds { least: 6 }, 7).unwrap().contains('6'));
    assert_eq!(reason(Why::Noise, 7), None, "the interval shows it");
    assert_eq!(super::why(&Verdict::Better, Unit::Ns, 7, "round"), None);
    // Rounds count from 1 wherever people read them.
    let why = NoEffect::NotFinite { round: 2, value: f64::INFINITY };
    let infinite = Verdict::Unjudged(Unjudged::NoEffect(why));
    assert!(super::why(&infinite, Unit::Ns, 7, "host").unwrap().contains("host 3 "));
    let said = super::why(&infinite, Unit::Ns, 7, "round").unwrap();
    assert!(said.contains("round 3 ") && said.contains("inf"), "{said}");
}

#[test]
fn a_family_of_one_verdict_is_singular() {
    let mut analysis = testing::ordinary();
    assert!(method(&analysis).join("; ").contains("headline family of 6 verdicts,"));
    (analysis.method.headline_verdicts, analysis.method.explaining_verdicts) = (1, 0);
    let said = method(&analysis).join("; ");
    assert!(said.contains("headline family of 1 verdict,"), "{said}");
    assert!(!said.contains("explaining"), "{said}");
}

#[test]
fn sides_that_share_no_rounds_are_exact_or_what_changed_is_in_the_ratios() {
    let paired = |mut analysis: Analysis| {
        analysis.method.pairing = Pairing::None;
        method(&analysis).remove(0)
    };
    assert!(paired(testing::in_the_lab(0)).contains("exact runs"));
    for other in [testing::in_the_lab(1), testing::ordinary()] {
        assert!(paired(other).contains("what changed in between is in the ratios"));
    }
}

#[test]
fn a_side_without_runs_is_not_as_the_baseline() {
    let mut analysis = testing::judged(&["default", "ours", "same"], &[]);
    analysis.sides[1].runs = 0;
    analysis.sides[2].plans = vec!["other".to_string()];
    let own = compared(&analysis, true).own.unwrap();
    assert_eq!(own[1], "not measured");
}

#[test]
fn the_clock_of_all_sides_is_said_once() {
    assert_eq!(analysis_time(&testing::ordinary()), None);
    let clock = |wrong| analysis_time(&testing::in_the_lab(wrong)).unwrap();
    assert_eq!(clock(0), "lab, virtual time, exact in all 80 runs");
    assert_eq!(clock(2), "lab, virtual time, NOT exact in 2 of 80 runs");
    let mut mixed = testing::in_the_lab(0);
    mixed.sides[0] = testing::side("host");
    let expected = "lab, virtual time, exact in all 40 runs; 40 runs on a host";
    assert_eq!(analysis_time(&mixed).unwrap(), expected);
}

#[test]
fn a_side_is_described_by_what_its_runs_have_in_common() {
    let about = |change: fn(&mut Side)| {
        let mut side = testing::side("default");
        change(&mut side);
        super::about(&testing::nothing(), &side)
    };
    let all = about(|_| {});
    assert_eq!(
        all,
        "kernel 6.18.5; machine epyc; backend local; 40 runs in 1 boot; plan 20260203-1405"
    );
    assert_eq!(about(|side| side.runs = 0), "no measured run");
    let mut others = testing::sides_only();
    others.sides[0].runs = 0;
    let side = others.sides[0].label.clone();
    others.notes = vec![Note::OtherRuns { side, runs: 3, plans: Vec::new() }];
    assert_eq!(super::about(&others, &others.sides[0]), "3 runs, of which none is compared");
    assert!(about(|side| side.boots = None).contains("40 runs in unknown boots"));
    assert!(about(|side| (side.runs, side.boots) = (1, Some(2))).contains("1 run in 2 boots"));
    let many = about(|side| side.plans = (1..9).map(|plan| format!("p{plan}")).collect());
    assert!(many.ends_with("plans p1, p2, p3, p4 and 4 more"), "{many}");
}

#[test]
fn a_round_has_its_number_only_where_the_plan_has_it() {
    let values = [0, 2, 3, 4, 5, 6, 7, 8].map(|round| (round, 1e6)).to_vec();
    let shapes = [testing::TWO_MODES, testing::TREND, testing::OUTLIER];
    let cell = Cell { shapes: shapes.to_vec(), ..testing::cell(values) };
    let row = testing::row("x", Unit::Ns, LOWER, Vec::new());
    let mut analysis = testing::ordinary();
    let said = |analysis: &Analysis| super::shapes(analysis, &row, &cell);
    let of_rounds = said(&analysis);
    let has = |said: &[String], parts: [&str; 3]| {
        said.len() == 3 && said.iter().zip(parts).all(|(said, part)| said.contains(part))
    };
    assert!(of_rounds[0].contains("12.0 ms and 31.0 ms"), "{of_rounds:?}");
    assert!(of_rounds[1].contains("3 %") && of_rounds[1].contains("p 0.0020"), "{of_rounds:?}");
    assert!(of_rounds[2].contains("9.00 ms") && of_rounds[2].contains("1.00 ms"));
    assert!(
        has(&of_rounds, ["(4 of 10 rounds)", "the last round", "round 8 "])
            || has(&of_rounds, ["(4 of 10 rounds)", "first round", "round 8 "]),
        "{of_rounds:?}"
    );
    let of_values = ["(4 of 10 values)", "first value", "value 7 of 8 "];
    analysis.sides[1].plans.push("another".to_string());
    assert!(has(&said(&analysis), of_values), "rounds of several plans are counted through");
    analysis.sides[1].plans.pop();
    analysis.method.pairing = Pairing::None;
    assert!(has(&said(&analysis), of_values), "there are no common rounds");
}

#[test]
fn changes_are_in_the_order_of_their_moments() {
    let knobs = |name: &str, value| BTreeMap::from([(name.to_string(), value)]);
    let change = SetChange {
        at_ns: 2_000_000_000,
        knobs: knobs("nice", Value::Int(5)),
        cgroup: Some("web".parse().unwrap()),
        count: Some(3),
    };
    let set =
        WorkerSet { name: "a".to_string(), changes: vec![change.clone()], ..Default::default() };
    let of_cgroup = |at_ns, weight, cpus: Option<&str>| CgroupChange {
        at_ns,
        knobs: knobs("cgroup-weight", Value::Int(weight)),
        cpus: cpus.map(|cpus| cpus.parse().unwrap()),
    };
    let cgroup = Cgroup {
        path: "web".parse().unwrap(),
        knobs: BTreeMap::new(),
        cpus: None,
        changes: vec![of_cgroup(1_000_000, 7, Some("0-1")), of_cgroup(3_000_000_000, 8, None)],
    };
    let (at_ns, for_ns) = (500_000_000, Some(1_500_000_000));
    let offline = vec![Offline { at_ns, for_ns, cpus: "1,3".parse().unwrap() }];
    let (sets, cgroups) = (vec![set], vec![cgroup.clone()]);
    let work = Work { sets, cgroups, offline, ..Default::default() };
    let expected = "at 1ms cgroup web weight 7, CPUs 0-1; at 500ms CPUs 1,3 off; at 2s CPUs 1,3 back; at 2s a nice 5, in cgroup web, count 3; \
                    at 3s cgroup web weight 8";
    assert_eq!(changes(&work).as_deref(), Some(expected));
    assert_eq!(changes(&Work::default()), None);
    let mut table = testing::in_the_lab(0).works.swap_remove(0).sets.swap_remove(0);
    (table.changes, table.cgroups, table.workers) = (vec![change], vec![cgroup], None);
    let text = super::set(&table);
    let expected = "in cgroup web (at 1ms weight 7, CPUs 0-1, at 3s weight 8), at 2s nice 5, in \
                    cgroup web, count 3";
    assert!(text.contains(expected), "{text}");
}

#[test]
fn lists_are_short() {
    let of = |count: usize| {
        let names: Vec<String> = (1..=count).map(|at| format!("n{at}")).collect();
        listed(&names)
    };
    assert_eq!([0, 1, 2, 3].map(of), ["", "n1", "n1 and n2", "n1, n2 and n3"]);
    assert_eq!(of(5), "n1, n2, n3, n4 and n5");
    assert_eq!(of(6), "n1, n2, n3, n4 and 2 more");
}

#[test]
fn a_set_is_named_by_its_work_and_by_its_own_name_where_that_has_several() {
    let mut analysis = testing::ordinary();
    let place = |analysis: &Analysis, work: usize, set: usize| {
        let work = &analysis.works[work];
        super::place(work, &work.sets[set])
    };
    assert_eq!(place(&analysis, 0, 0), "web threads=2");
    let mut second = analysis.works[0].sets[0].clone();
    second.name = "mail".to_string();
    analysis.works[0].sets.push(second);
    assert_eq!(place(&analysis, 0, 1), "web threads=2 mail");
    assert_eq!(place(&analysis, 0, 0), "web threads=2 web");
    assert_eq!(place(&analysis, 1, 0), "web threads=4");
}

/// Tasks outside of the plan compete with its workers.
#[test]
fn a_knob_without_effect_has_one_against_load_from_outside() {
    let mut analysis = testing::ordinary();
    let knob = |scheduler: Option<&str>| {
        Note::KnobWithoutEffect(UselessKnob {
            side: "batch".to_string(),
            knob: "cgroup-idle".to_string(),
            works: vec!["web".to_string()],
            scheduler: scheduler.map(str::to_string),
            own_of_sets: false,
        })
    };
    let heeds =
        "batch: cgroup-idle changes nothing in web: the scheduler scx fifo does not heed it";
    let alone =
        "batch: cgroup-idle changes nothing in web: nothing with another value competes there";
    let with_load = "batch: cgroup-idle changes nothing in web but against load from outside: nothing of the plan \
                  with another value competes there";
    let kind = DisturbanceKind::OutsideLoad;
    let fact = DisturbanceFact::Text { kind, detail: "dd".to_string() };
    let worst = Disturbance { share: Some(0.3), fact };
    let disturbed = Note::Disturbed { kind, runs: vec![("batch".to_string(), 2, 10)], worst };
    for (notes, expected) in [(Vec::new(), alone), (vec![disturbed], with_load)] {
        analysis.notes = notes;
        assert_eq!(note(&analysis, &knob(None)).1, expected);
        assert_eq!(note(&analysis, &knob(Some("fifo"))).1, heeds);
    }
}

#[test]
fn where_a_plan_counts_all_rounds_the_key_says_why() {
    let mut analysis = testing::ordinary();
    let spoilt = Note::AllSpoilt { works: vec![("web threads=2".to_string(), 9, 10)] };
    assert!(note(&analysis, &spoilt).1.contains("most rounds, so none is left out: "));
    analysis.plans[0].measure.repeat_spoilt = false;
    let said = note(&analysis, &spoilt).1;
    assert!(said.contains("most rounds, and `repeat-spoilt = false` leaves none out: "), "{said}");
}

#[test]
fn rounds_with_failed_runs_are_counted_once_and_named_once() {
    let mut analysis = testing::ordinary();
    analysis.plans[0].rounds_done = 13;
    (analysis.plans[0].rounds_failed, analysis.plans[0].rounds_lost) = (4, 4);
    analysis.plans[0].measure.rounds = 9;
    let said = plan(&analysis, &analysis.plans[0]);
    assert!(said.starts_with("13 rounds (9 asked for; runs failed in 4)"), "{said}");
    let spoilt = Note::AllSpoilt { works: vec![("web".to_string(), 9, 9)] };
    let said = note(&analysis, &spoilt).1;
    assert!(
        said.contains("web (9 of 9 measured); asked for: 9 rounds, measured again: 4"),
        "{said}"
    );
    assert!(in_all(&analysis, Needed::About(14)).starts_with("about 14 measured rounds in all"));
    let more = more_rounds(&analysis, Needed::About(14)).unwrap();
    assert!(more.contains(" --rounds 14"), "{more}");
    // Where one of several works failed, the others have all rounds.
    let mut partly = analysis.clone();
    partly.plans[0].rounds_lost = 0;
    assert!(in_all(&partly, Needed::About(14)).starts_with("about 14 rounds in all"));
    analysis.plans[0].measure.until_decided = true;
    assert!(in_all(&analysis, Needed::About(14)).starts_with("about 14 rounds in all"));
}

#[test]
fn of_a_spoilt_work_its_rounds_are_counted_and_those_that_replace_them() {
    let mut analysis = testing::ordinary();
    let works = ["web threads=2", "gone"].map(|work| (work.to_string(), 3, 9)).to_vec();
    for spoilt in [Note::AllSpoilt { works: works.clone() }, Note::SpoiltRounds { works }] {
        let said = note(&analysis, &spoilt).1;
        assert!(said.contains("web threads=2 (3 of 9) and gone (3 of 9)"), "{said}");
        assert!(!said.contains("asked for"), "{said}");
        let rounds = analysis.plans[0].rounds_done;
        analysis.plans[0].measure.rounds = rounds - 3;
        let said = note(&analysis, &spoilt).1;
        let counts = format!("; asked for: {} rounds, measured again: 3", rounds - 3);
        assert!(said.contains(&counts), "{said}");
        let asked = format!("{rounds} rounds ({} asked for)", rounds - 3);
        assert!(plan(&analysis, &analysis.plans[0]).starts_with(&asked));
        analysis.plans[0].measure.until_decided = true;
        assert!(!note(&analysis, &spoilt).1.contains("asked for"), "as many as it takes");
        analysis.plans[0].measure.until_decided = false;
        analysis.plans[0].measure.rounds = rounds;
    }
}

#[test]
fn a_plan_is_described_by_its_rounds_time_and_machine() {
    let analysis = testing::ordinary();
    let said = plan(&analysis, &analysis.plans[0]);
    assert_eq!(said, "10 rounds in 1 min 38 s, Linux 6.18.5, 8 CPUs (kvm)");
    let mut one = analysis.clone();
    (one.plans[0].rounds_done, one.plans[0].took_ns) = (1, None);
    one.plans[0].ended = None;
    one.plans[0].environments[0].virtualisation = Reading::Known("none".to_string());
    one.plans[0].environments[0].topology.allowed = "3".parse().unwrap();
    assert_eq!(plan(&one, &one.plans[0]), "1 round, Linux 6.18.5, 1 CPU, not ended");
    // The null backend invents its runs, which take no time.
    one.plans[0].took_ns = Some(0);
    assert!(plan(&one, &one.plans[0]).starts_with("1 round, Linux"));
    one.plans[0].measure.turns_ns = Some(100_000_000);
    assert!(plan(&one, &one.plans[0]).contains("turns of 100ms inside one run"));
    one.plans[0].durations_ns = [950_000_000, 50_000_000].into();
    assert!(plan(&one, &one.plans[0]).contains("0ns of each, for 50ms is not whole blocks"));
    let mut lab = testing::in_the_lab(0);
    let clock = ", lab, virtual time, exact in all 80 runs";
    lab.plans[0].lab = Some(Lab { cpus: 4, ..Lab::first_default() });
    assert!(plan(&lab, &lab.plans[0]).contains(&format!(", 4 virtual CPUs{clock}")));
    lab.plans[0].durations_ns = [50_000_000, 400_000_000, 4_000_000_000].into();
    assert!(plan(&lab, &lab.plans[0]).contains(&format!("CPUs, runs of 50ms to 4s{clock}")));
}

#[test]
fn more_rounds_in_the_lab_take_the_hosts_time_where_all_were_made_now() {
    let mut analysis = testing::ordinary();
    analysis.plans[0].took_ns = None;
    assert_eq!(in_all(&analysis, Needed::About(30)), "about 30 rounds in all");
    analysis.plans[0].simulated_ns = Some(100_000_000_000);
    assert_eq!(in_all(&analysis, Needed::About(30)), "about 30 rounds in all (5 min)");
}

#[test]
fn times_have_two_units() {
    let cases = [
        (450_000_000, "450ms"),
        (999_999_999, "1 s"),
        (38_000_000_000, "38 s"),
        (98_000_000_000, "1 min 38 s"),
        (10_920_000_000_000, "3 h 2 min"),
    ];
    for (ns, expected) in cases {
        assert_eq!(time(ns), expected);
    }
}

#[test]
fn every_note_is_a_clean_sentence_with_the_names_in_it() {
    for found in testing::notes("na\x1bme") {
        let (word, text) = note(&testing::ordinary(), &found);
        assert!(!word.is_empty() && !text.is_empty(), "{found:?}");
        assert!(!text.contains(|c: char| c.is_control()), "{text:?}");
        assert!(!text.ends_with(['.', ' ', ':']), "{text}");
        let has_names = format!("{found:?}").contains("na\\u{1b}me");
        assert_eq!(text.contains("na\\u{1b}me"), has_names, "{found:?}: {text}");
        let is_gap = ["failed", "skipped", "missing", "knob"].contains(&word);
        assert_eq!(is_gap, found.is_gap(), "{word}: {found:?}");
        assert_eq!(word == "refused", found.is_refusal(), "{word}: {found:?}");
    }
}

#[test]
fn a_reason_carries_its_hint_in_the_same_sentence() {
    let cases: &[(&str, &str)] = &[
        ("it died", "it died"),
        ("no files\nhint: ulimit -n 9", "no files; hint: ulimit -n 9"),
        ("a\nb\nhint: c\n", "a\\nb; hint: c\\n"),
    ];
    for (text, expected) in cases {
        assert_eq!(one_line(text), *expected);
    }
}

proptest! {
    #[test]
    fn any_names_fit_and_stay_distinct(
        labels in proptest::collection::vec("(kernel=)?(6\\.1[0-2]-){0,3}[a-b漢#1-3]{0,9}", 1..6),
        columns in 8usize..24,
    ) {
        let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
        let names = named(&labels, columns);
        for (at, name) in names.iter().enumerate() {
            prop_assert!(name.width() <= columns && !name.is_empty(), "{:?}", names);
            prop_assert!(!names[..at].contains(name), "{:?}", names);
        }
    }
}

#[test]
fn estimated_times_are_rounded_to_what_matters() {
    const S: u64 = 1_000_000_000;
    for (ns, expected) in
        [(S / 3, "0 s"), (119 * S, "119 s"), (299 * S, "5 min"), (7255 * S, "2 h 1 min")]
    {
        assert_eq!(rough_time(ns), expected);
    }
}

#[test]
fn the_machine_of_a_guest_has_what_differs_from_one_of_a_kind() {
    let one = Lab { cpus: 16, ..Lab::default() };
    let cases = [
        (one.clone(), "16 virtual CPUs"),
        (Lab { sockets: 2, llcs: 2, ..one.clone() }, "16 virtual CPUs, 2 sockets"),
        (
            Lab { sockets: 2, llcs: 4, ..one.clone() },
            "16 virtual CPUs, 2 sockets, 4 last-level caches",
        ),
        (
            Lab { threads: 2, nodes: 2, node_distance: Some(31), ..one },
            "16 virtual CPUs in cores of 2, 2 NUMA nodes at distance 31",
        ),
    ];
    for (lab, expected) in cases {
        assert_eq!(guest(&lab), expected);
    }
}
