//! The answer: short, and with every headline metric that changed.

use proptest::prelude::*;

use super::*;
use crate::analysis::{NoValue, PlanFacts, SetTable, WorkTable};
use crate::model::{Lab, LookRule, PlanEnd, Unit};
use crate::report::testing::{self, NEUTRAL, open, render, values};
use crate::report::{Options, find};
use crate::stats::{NoEffect, Rounds, Why};

/// The answer of the text, without the table above it.
fn answer(analysis: &Analysis, width: usize) -> String {
    let text = find("text").expect("text");
    let shown = render(text, analysis, Options { width, ..Options::default() });
    let (_, answer) = shown.trim_end().rsplit_once("\n\n").expect("an answer");
    answer.to_string()
}

const INFINITE: NoEffect = NoEffect::NotFinite { round: 0, value: f64::INFINITY };
const NOISE: Verdict = Verdict::Inconclusive { why: Why::Noise, rounds: Rounds::Number(30) };

#[test]
fn what_changed_is_named_with_its_interval_the_largest_first() {
    let works = [
        ("web", Verdict::Worse, 0.9),
        ("chat", Verdict::Better, 1.3),
        ("mail", Verdict::Worse, 0.5),
        ("pipe", Verdict::Same, 1.0),
        ("fork", NOISE, 1.01),
    ];
    let works = works.map(|(name, verdict, ratio)| (name.to_string(), vec![(verdict, ratio)]));
    let found = answer(&testing::judged(&["default", "batch"], &works), 80);
    let words = testing::words(&found);
    for part in [
        "batch worse: mail throughput -50 % +-1.0, web throughput -10 % +-1.8",
        "better: chat throughput +30 % +-2.6",
        "open 1 of 5: fork throughput",
        "about 30 rounds",
        "again schedlab compare plan=20260203-1405",
    ] {
        assert!(words.contains(part), "{part} is not in\n{found}");
    }
    assert!(!found.contains("pipe"), "{found}");
}

/// A metric without a verdict is named, and nothing is said of "no change".
#[test]
fn a_headline_metric_that_was_not_judged_is_named() {
    let same = ("pipe".to_string(), vec![(Verdict::Same, 1.0)]);
    let mut analysis =
        testing::judged(&["default", "batch"], &[same, ("web".to_string(), vec![(NOISE, 1.0)])]);
    assert!(answer(&analysis, 80).contains("no change found"));
    let mut partly = analysis.clone();
    partly.notes.push(Note::NoValue(NoValue {
        side: "batch".to_string(),
        work: "web".to_string(),
        set: "web".to_string(),
        metrics: vec!["throughput".to_string()],
        runs: 11,
        of: 12,
        reason: None,
    }));
    let few = Verdict::Inconclusive {
        why: Why::TooFewRounds { least: 6 },
        rounds: Rounds::MoreThan(1000),
    };
    let cell = &mut partly.works[1].sets[0].rows[0].cells[1];
    cell.judged.as_mut().unwrap().verdict = few;
    partly.plans = vec![testing::plan("p")];
    partly.plans[0].rounds_done = 12;
    let found = answer(&partly, 80);
    assert!(!found.contains("no change") && !found.contains("at least 6"), "{found}");
    let missing = testing::row(
        "miss_ratio",
        Unit::Ratio,
        testing::LOWER,
        vec![values(0.5, 0.01), testing::cell(vec![(0, f64::INFINITY)]).not_compared(INFINITE)],
    );
    let work = testing::work("game", &[], "game", "deadline", vec![missing]);
    analysis.works.push(work);
    analysis.works[2].sets[0].rows[0].family = Family::Headline;
    let found = testing::words(&answer(&analysis, 80));
    assert!(found.contains("not judged: game miss_ratio"), "{found}");
    assert!(!found.contains("no change"), "{found}");
    // Nothing done on both sides is not "the same".
    let zeros = || testing::cell(vec![(0, 0.0), (1, 0.0)]);
    let row = testing::row("rate", Unit::OpsPerS, testing::HIGHER, vec![zeros(), zeros()]);
    let mut idle = analysis.clone();
    idle.works[2] = testing::work("idle", &[], "idle", "command", vec![row]);
    idle.works[2].sets[0].rows[0].family = Family::Headline;
    let found = testing::words(&answer(&idle, 80));
    assert!(found.contains("not judged: idle rate"), "{found}");
    // Nor where nothing else was.
    analysis.works.drain(..2);
    let found = testing::words(&answer(&analysis, 80));
    assert!(found.contains("batch not judged: game miss_ratio"), "{found}");
}

/// From never to often comes before every factor.
#[test]
fn a_difference_is_named_first_and_in_its_unit() {
    let mut analysis =
        testing::judged(&["a", "b"], &[("web".to_string(), vec![(Verdict::Worse, 0.1)])]);
    let missed = values(0.79, 0.0).differing(Verdict::Worse, 0.79, 0.78, 0.8);
    let cells = vec![values(0.0, 0.0), missed];
    let row = testing::row("miss_ratio", Unit::Ratio, testing::LOWER, cells);
    analysis.works.push(testing::work("game", &[], "game", "deadline", vec![row]));
    analysis.works[1].sets[0].rows[0].family = Family::Headline;
    let found = testing::words(&answer(&analysis, 80));
    assert!(found.contains("worse: game miss_ratio +0.790 +-0.010, web"), "{found}");
}

/// The table says what is open; how far a change is certain is the answer.
#[test]
fn what_is_open_is_counted_where_it_is_much() {
    let mut works = vec![("web".to_string(), vec![(Verdict::Worse, 0.5)])];
    works.extend((0..60).map(|at| (format!("open-work-{at}"), vec![(NOISE, 1.0)])));
    let found = testing::words(&answer(&testing::judged(&["a", "b"], &works), 80));
    assert!(found.contains("web throughput -50 % +-1.0"), "{found}");
    assert!(
        found.contains("open 60 of 61 rounds about 30 rounds in all (5 min) decide the 60"),
        "{found}"
    );
}

/// Where a look is left; a plan of fixed rounds has spent its error rate.
#[test]
fn the_answer_names_the_command_that_adds_rounds() {
    let mut analysis = testing::judged(&["a", "b"], &[("web".to_string(), vec![(NOISE, 1.0)])]);
    analysis.plans[0].rounds_done = 10;
    analysis.plans[0].ended = Some(PlanEnd::Budget);
    analysis.plans[0].measure.until_decided = true;
    analysis.plans[0].measure.looks = LookRule::Even;
    let adds = "schedlab run --resume 20260203-1405 --rounds +20";
    let found = testing::words(&answer(&analysis, 80));
    assert!(found.contains(adds), "{found}");
    // Added rounds that were interrupted: their rest is too few.
    let mut added = analysis.clone();
    added.plans[0].ended = Some(PlanEnd::Interrupted);
    added.plans[0].measure.ends = vec![8];
    added.plans[0].measure.rounds = 20;
    let found = testing::words(&answer(&added, 80));
    assert!(found.contains("schedlab run plan=20260203-1405 "), "{found}");
    assert!(found.contains(" --rounds ") && !found.contains("--resume"), "{found}");
    let mut fixed = analysis.clone();
    fixed.plans[0].ended = Some(PlanEnd::Interrupted);
    fixed.plans[0].measure.until_decided = false;
    for (planned, command) in [
        (29, "schedlab run plan=20260203-1405 --duration 5s --rounds 30"),
        (30, "schedlab run --resume 20260203-1405"),
    ] {
        fixed.plans[0].measure.rounds = planned;
        let found = testing::words(&answer(&fixed, 80));
        assert!(found.contains(command) && !found.contains(adds), "{planned}: {found}");
    }
    for ended in [None, Some(PlanEnd::Interrupted)] {
        let plans = vec![PlanFacts { ended, ..analysis.plans[0].clone() }];
        let found = testing::words(&answer(&Analysis { plans, ..analysis.clone() }, 80));
        assert!(!found.contains(adds), "{found}");
    }
    analysis.plans[0].measure.looks = LookRule::Early;
    let found = testing::words(&answer(&analysis, 80));
    assert!(found.contains("schedlab run plan=20260203-1405 --duration 5s --rounds 30"), "{found}");
    // The plan's text may have none of these: they were options.
    let plan = &mut analysis.plans[0];
    (plan.aa, plan.backend) = (true, "lab".to_string());
    plan.lab = Some(Lab { kernel: "debian:6.12".to_string(), ..Lab::default() });
    plan.measure.duration_ns = 200_000_000;
    plan.measure.budget_ns = Some(120_000_000_000);
    let found = testing::words(&answer(&analysis, 200));
    // Ten rounds took 98 s.
    let command = "schedlab run plan=20260203-1405 --backend lab --kernel debian:6.12 --aa \
                   --duration 200ms --budget 6min --rounds 30";
    assert!(found.contains(command), "{found}");
}

/// A plan of a host that has ended, and has something to decide.
#[test]
fn the_answer_names_the_same_plan_in_the_lab() {
    let shown = |verdict, ended, in_lab_ns| {
        let works = [("web".to_string(), vec![(verdict, 1.0)])];
        let mut analysis = testing::judged(&["a", "b"], &works);
        let plan = analysis.plans[0].clone();
        analysis.plans[0] = PlanFacts { ended, in_lab_ns, ..plan };
        testing::words(&answer(&analysis, 80))
    };
    let (ended, six) = (Some(PlanEnd::Complete), Some(360_000_000_000));
    let found = shown(NOISE, ended, six);
    let expected =
        "lab without noise, in about 6 min: schedlab run --resume 20260203-1405 --and-lab";
    assert!(found.contains(expected), "{found}");
    for (verdict, ended, in_lab_ns) in [
        (Verdict::Same, ended, six),
        (NOISE, Some(PlanEnd::Interrupted), six),
        (NOISE, None, six),
        (NOISE, ended, None),
    ] {
        let found = shown(verdict, ended, in_lab_ns);
        assert!(!found.contains("--and-lab"), "{found}");
    }
}

#[test]
fn without_a_change_the_answer_says_so() {
    let one = |verdict| testing::judged(&["a", "b"], &[("web".to_string(), vec![(verdict, 1.0)])]);
    assert!(
        answer(&one(Verdict::Same), 80).starts_with("b         the same in 1 headline metric\n")
    );
    let open = answer(&one(NOISE), 80);
    assert!(open.starts_with("b         nothing decided of 1 headline metric\n"), "{open}");
    let both = [("web", Verdict::Same), ("chat", NOISE)];
    let both = both.map(|(name, verdict)| (name.to_string(), vec![(verdict, 1.0)]));
    let both = testing::words(&answer(&testing::judged(&["a", "b"], &both), 80));
    assert!(both.contains("1 headline metric the same, 1 open"), "{both}");
    assert!(answer(&testing::sides_only(), 80).starts_with("batch     no verdict\n"));
}

/// No number of rounds decides a row in which nothing can make a difference.
#[test]
fn rows_that_a_variant_cannot_change_are_not_open() {
    let works = ["web", "chat"].map(|name| (name.to_string(), vec![(NOISE, 1.0), (NOISE, 1.0)]));
    let mut analysis = testing::judged(&["a", "b", "c"], &works);
    let set_all = |analysis: &mut Analysis, works: usize| {
        let rows = analysis.works.iter_mut().take(works).map(|work| &mut work.sets[0].rows[0]);
        rows.for_each(|row| row.cells[1].changes_nothing = true);
    };
    set_all(&mut analysis, 1);
    let found = testing::words(&answer(&analysis, 80));
    assert!(found.contains("open 3 of 4: chat throughput, web throughput (c) rounds"), "{found}");
    assert!(found.contains("decide the 3 open rows"), "{found}");
    set_all(&mut analysis, 2);
    let found = testing::words(&answer(&analysis, 80));
    assert!(found.contains("b its knobs change nothing in 2 headline metrics"), "{found}");
    assert!(found.contains("open 2 of 4"), "{found}");
}

#[test]
fn a_side_is_named_where_only_some_are_open() {
    let works = [
        ("web".to_string(), vec![(NOISE, 1.0), (Verdict::Same, 1.0)]),
        ("chat".to_string(), vec![(NOISE, 1.0), (NOISE, 1.0)]),
    ];
    let found = testing::words(&answer(&testing::judged(&["a", "b", "c"], &works), 80));
    assert!(found.contains("open 3 of 4: web throughput (b), chat throughput "), "{found}");
}

/// A row without a verdict has an answer where the data exclude something, the smallest bound first.
#[test]
fn what_is_bounded_is_not_open() {
    let works = ["web", "chat", "mail"].map(|name| (name.to_string(), vec![(NOISE, 1.0)]));
    let mut analysis = testing::judged(&["a", "b"], &works);
    for (work, bound) in analysis.works.iter_mut().zip([0.0611, 0.031, 0.9]) {
        let judged = work.sets[0].rows[0].cells[1].judged.as_mut().unwrap();
        judged.bound = Some(Distance::Ratio(bound));
    }
    let found = testing::words(&answer(&analysis, 80));
    assert!(
        found.contains("no difference above: chat throughput 3.1 %, web throughput 6.2 %"),
        "{found}"
    );
    assert!(found.contains("open 1 of 3: mail throughput"), "{found}");
    assert!(found.contains("decide the 3 bounded or open rows"), "{found}");
}

/// Beyond the margin and below the floor a row gets neither verdict.
#[test]
fn what_is_below_the_floor_is_named_and_not_among_what_rounds_decide() {
    let floor = Distance::Ratio(0.027);
    let below = |rounds| open(Why::BelowFloor { floor }, rounds);
    let works = [
        ("web", below(Rounds::MoreThan(1000)), 0.975),
        ("chat", below(Rounds::Number(20)), 0.99),
        ("mail", NOISE, 1.0),
    ];
    let works = works.map(|(name, verdict, ratio)| (name.to_string(), vec![(verdict, ratio)]));
    let floor = "floor equal runs differ by as much here, so no number of rounds decides: web throughput 2.7 %";
    for bound in [None, Some(Distance::Ratio(0.04))] {
        let mut analysis = testing::judged(&["a", "b"], &works);
        let rows = analysis.works.iter_mut().map(|work| &mut work.sets[0].rows[0]);
        rows.for_each(|row| row.cells[1].judged.as_mut().unwrap().bound = bound);
        let found = testing::words(&answer(&analysis, 80));
        let what = if bound.is_some() { "bounded" } else { "open" };
        assert!(found.contains(floor), "{found}");
        assert!(found.contains(&format!("decide the 2 {what} rows")), "{found}");
        analysis.works.truncate(1);
        let found = testing::words(&answer(&analysis, 80));
        assert!(found.contains(floor) && !found.contains("1000 rounds"), "{found}");
    }
}

/// One row that nothing decides does not speak for the others.
#[test]
fn what_takes_too_many_rounds_does_not_hide_the_number_of_the_others() {
    let never = open(Why::Noise, Rounds::MoreThan(1000));
    let works =
        ["web", "chat", "mail"].map(|name| (name.to_string(), vec![(NOISE, 1.0), (NOISE, 1.0)]));
    let mut works = works.to_vec();
    works[1].1[1].0 = never;
    let found = testing::words(&answer(&testing::judged(&["a", "b", "c"], &works), 80));
    let expected = "open 6 of 6: web throughput, chat throughput, mail throughput rounds about 30 \
                    rounds in all (5 min) decide 5 of the 6 open rows: schedlab run \
                    plan=20260203-1405 --duration 5s --rounds 30";
    assert!(found.contains(expected), "{found}");
    works.iter_mut().for_each(|(_, verdicts)| verdicts.fill((never, 1.0)));
    let found = testing::words(&answer(&testing::judged(&["a", "b", "c"], &works), 80));
    assert!(found.contains("the 6 open rows take more than 1000 rounds"), "{found}");
}

#[test]
fn more_of_a_counter_is_neither_better_nor_worse() {
    let mut analysis = testing::judged(
        &["a", "b"],
        &[
            ("web".to_string(), vec![(Verdict::Worse, 1.2)]),
            ("chat".to_string(), vec![(Verdict::Better, 0.8)]),
        ],
    );
    analysis.works.iter_mut().for_each(|of| of.sets[0].rows[0].kind.direction = NEUTRAL);
    let found = testing::words(&answer(&analysis, 80));
    assert!(!found.contains("worse:") && !found.contains("better:"), "{found}");
    assert!(found.contains("more: web throughput +20 %"), "{found}");
    assert!(found.contains("less: chat throughput -20 %"), "{found}");
}

#[test]
fn a_measurement_that_load_spoilt_says_so_in_the_answer() {
    let mut analysis = testing::ordinary();
    analysis.notes = vec![Note::AllSpoilt { works: vec![("web threads=2".to_string(), 9, 10)] }];
    let text = find("text").expect("text");
    let shown = render(text, &analysis, Options::default());
    let found = testing::words(&answer(&analysis, 80));
    assert!(found.contains("spoilt load from outside"), "{found}");
    // The verdicts of that work alone have a mark, with -v too.
    for verbose in [0, 1] {
        let shown = render(text, &analysis, Options { verbose, ..Options::default() });
        let (table, _) = shown.rsplit_once("\n\n").expect("an answer");
        let row = |begin: &str| table.lines().find(|line| line.contains(begin)).unwrap_or_default();
        assert!(row("-40 %").contains("BETTER!"), "{shown}");
        assert_eq!(table.matches("BETTER!").count(), 1, "{shown}");
        assert!(!table.contains("WORSE!"), "{shown}");
    }
    assert!(found.contains("verdicts with ! are about that load"), "{found}");
    assert!(found.contains("web threads=2 (9 of 10)"), "{found}");
    assert_eq!(testing::words(&shown).matches("9 of 10").count(), 1, "once: {shown}");
    // No verdict of that work has a mark to explain.
    analysis.notes = vec![Note::AllSpoilt { works: vec![("other".to_string(), 9, 10)] }];
    let found = testing::words(&answer(&analysis, 80));
    assert!(found.contains("other (9 of 10)") && !found.contains("verdicts with !"), "{found}");
}

/// One of these, with its ratio.
fn any_verdict() -> impl Strategy<Value = (Verdict, f64)> {
    prop_oneof![
        (0.1..0.97f64).prop_map(|ratio| (Verdict::Worse, ratio)),
        (1.03..20.0f64).prop_map(|ratio| (Verdict::Better, ratio)),
        Just((Verdict::Same, 1.0)),
        Just((open(Why::Noise, Rounds::MoreThan(1000)), 1.01)),
        Just((open(Why::OnlyAlone, Rounds::Number(40)), 1.02)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn the_answer_is_short_and_names_every_side_and_every_change_that_fits(
        sides in 1usize..=8,
        names in proptest::collection::vec("[a-z]{2,12}( [a-z]=[0-9])?", 0..14),
        verdicts in proptest::collection::vec(any_verdict(), 7 * 14),
        long_command: bool,
        spoilt: bool,
    ) {
        let labels: Vec<String> = (0..sides).map(|side| format!("variant-{side}")).collect();
        let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
        let works = names.iter().enumerate().map(|(at, name)| {
            let own = &verdicts[7 * at..7 * at + sides - 1];
            (format!("{name}{at}"), own.to_vec())
        });
        let mut analysis = testing::judged(&labels, &works.collect::<Vec<_>>());
        if long_command {
            analysis.command = format!("schedlab compare{}", " plan=20260203-1405".repeat(9));
        }
        if spoilt {
            let works = vec![("web threads=2".to_string(), 9, 10)];
            analysis.notes = vec![Note::AllSpoilt { works }];
        }
        let found = answer(&analysis, 80);
        // A line for each side, what stands below them, and commands.
        let commands = 6 + found.matches("plan=").count() / 2;
        prop_assert!(found.lines().count() <= MAX_LINES.max(sides + 8) + commands, "{}", found);
        for label in labels.iter().skip(1) {
            prop_assert!(found.lines().any(|line| line.starts_with(label)), "{}", found);
        }
        let has = |label: &str| found.lines().any(|line| line.starts_with(label));
        prop_assert!(has("again") && has("more") && has("spoilt") == spoilt, "{}", found);
        let is_open = |(.., row): (&WorkTable, &SetTable, &Row)| {
            let judged = row.cells.iter().filter_map(|cell| cell.judged);
            judged.into_iter().any(|of| matches!(of.verdict, Verdict::Inconclusive { .. }))
        };
        prop_assert_eq!(has("open"), analysis.rows().any(is_open), "{}", found);
        // Every change by its name and size, as short as it may be.
        let mut columns = 0;
        let mut changed = Vec::new();
        for (work, _, row) in analysis.rows() {
            for cell in row.cells.iter().skip(1) {
                let Some(judged) = cell.judged else { continue };
                let name = format!("{} throughput", work.label);
                columns += name.len() + ", +1.23 %".len();
                if matches!(judged.verdict, Verdict::Better | Verdict::Worse) {
                    changed.push(name);
                }
            }
        }
        // Lines of 65 columns, of which wrapping wastes some and each list begins a new one.
        let lines = columns / 40 + 2 * sides + 3 + found.matches("plan=").count() / 2;
        let words = testing::words(&found);
        if lines <= MAX_LINES && !spoilt {
            for name in changed {
                prop_assert!(words.contains(&name), "{} is not in\n{}", name, found);
            }
        }
    }
}
