//! Verdicts of tables made by hand, and of a few hundred made up ones with known truth. The
//! full simulations are rows of `make bench`.

use std::cmp::Ordering;

use super::flips::{Flips, Series};
use super::labels::{self, Labels, MAX_UNITS};
use super::state::{State, Table};
use super::stepdown::{Limit, NULLS, Null, Part, adjusted};
use super::*;
use crate::model::Direction;
use crate::stats::effect::{Distance, Effect, MeanDifference, NoEffect};
use crate::stats::inversion::MAX_SIGNS;
use crate::stats::sample::folded;
use crate::stats::simulate::{Noise, Random, Setting, Simulated, experiment};

type Values = Vec<(u32, f64)>;

fn side(values: impl IntoIterator<Item = f64>) -> Values {
    (0..).zip(values).collect()
}

/// Higher is better; margin 2 %.
fn comparison<'a>(
    block: usize,
    baseline: &'a [(u32, f64)],
    variant: &'a [(u32, f64)],
) -> Comparison<'a> {
    Comparison {
        block,
        paired: true,
        baseline,
        variant,
        direction: Direction::HigherIsBetter,
        margin: 0.02,
        floor: None,
    }
}

fn comparisons(table: &[Simulated]) -> Vec<Comparison<'_>> {
    table.iter().map(|one| comparison(one.block, &one.variants[0], &one.variants[1])).collect()
}

fn family(seed: u64) -> Family {
    Family { draws: 199, ..Family::new(1, seed) }
}

/// The adjusted p-values of one side.
fn p_values(series: &[Series], side: usize) -> Vec<f64> {
    let all = vec![Part::Tested; series.len()];
    let p_values = adjusted(Flips::new(series, 4_000, 1), [&all, &all, &all], &Limit::NONE);
    p_values[side].iter().map(|p_value| p_value.unwrap()).collect()
}

fn one(block: usize, logs: &[(u32, f64)]) -> Series<'_> {
    Series { block, logs, margin_ln: 2.5 }
}

#[test]
fn one_comparison_by_hand() {
    // Among 8 patterns of signs, 2 are as far from 0 as 1 + 2 + 4.
    let up = side([1.0, 2.0, 4.0]);
    assert_eq!(p_values(&[one(0, &up)], 0), [2.0 / 8.0]);
    // |1 - 2 + 4| = 3: 3, 5, 7 and their negatives.
    let mixed = side([1.0, -2.0, 4.0]);
    assert_eq!(p_values(&[one(0, &mixed)], 0), [6.0 / 8.0]);
    // Less 2.5: -1.5, -0.5, 1.5, in all -0.5. At most that: -3.5, -2.5 and twice -0.5.
    assert_eq!(p_values(&[one(0, &up)], 1), [4.0 / 8.0]);
    // Plus 2.5: all positive, and only the unflipped one is as large.
    assert_eq!(p_values(&[one(0, &up)], 2), [1.0 / 8.0]);
}

#[test]
fn metrics_of_a_block_share_their_signs_and_blocks_do_not() {
    let logs = side([1.0, 1.5, 0.5, 1.0, 2.0]);
    let alone = p_values(&[one(0, &logs)], 0);
    assert_eq!(alone, [2.0 / 32.0]);
    assert_eq!(p_values(&[one(0, &logs), one(0, &logs)], 0), [alone[0], alone[0]]);
    // Two blocks: either reaches it in 2 of 32.
    let either = 1.0 - (1.0 - alone[0]).powi(2);
    let separate = p_values(&[one(0, &logs), one(7, &logs)], 0);
    assert!(
        separate.iter().all(|p_value| (p_value - either).abs() < 1e-12),
        "{separate:?} {either}"
    );
}

/// All patterns of both blocks, statistic by statistic: the fast way has to agree with this.
fn slowly(series: &[Series]) -> Vec<f64> {
    let statistic = |one: &Series, pattern: u32| {
        let signed = one.logs.iter().map(|(round, log)| {
            let bit = one.block as u32 * 5 + round;
            if pattern >> bit & 1 == 1 { -log } else { *log }
        });
        let squares: f64 = one.logs.iter().map(|(_, log)| log * log).sum();
        (signed.sum::<f64>() / squares.sqrt()).abs()
    };
    let patterns: Vec<u32> = (0..1 << 10).collect();
    step_down(series.len(), &patterns, 0, |at, pattern| statistic(&series[at], pattern))
}

/// The p-values of a step-down test over these patterns, of which one was observed.
fn step_down(
    count: usize,
    patterns: &[u32],
    own: u32,
    statistic: impl Fn(usize, u32) -> f64,
) -> Vec<f64> {
    let observed: Vec<f64> = (0..count).map(|at| statistic(at, own)).collect();
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by(|a, b| observed[*b].total_cmp(&observed[*a]));
    let (mut p_values, mut least) = (vec![0.0; count], 0.0f64);
    for (done, at) in order.iter().enumerate() {
        let reached = patterns.iter().filter(|pattern| {
            order[done..].iter().any(|o| statistic(*o, **pattern) >= observed[*at] - 1e-9)
        });
        least = least.max(reached.count() as f64 / patterns.len() as f64);
        p_values[*at] = least;
    }
    p_values
}

#[test]
fn a_table_agrees_with_the_slow_way() {
    let mut random = Random::new(5);
    for _ in 0..5 {
        let logs: Vec<Vec<(u32, f64)>> =
            (0..5).map(|at| side((0..5).map(|_| random.normal() + f64::from(at)))).collect();
        let mut gap = logs[3].clone();
        gap.remove(2);
        // Every round stands in some comparison of its block.
        let series = [one(0, &logs[0]), one(1, &logs[1]), one(0, &logs[2]), one(1, &gap)];
        let (fast, slow) = (p_values(&series, 0), slowly(&series));
        let is_near = fast.iter().zip(&slow).all(|(fast, slow)| (fast - slow).abs() < 1e-12);
        assert!(is_near, "{fast:?} {slow:?}");
    }
}

#[test]
fn drawn_patterns_come_near_to_all_of_them() {
    // 14 rounds are enumerated; one round more of almost nothing is drawn.
    let mut random = Random::new(3);
    let logs: Vec<f64> = (0..14).map(|_| random.normal() + 0.35).collect();
    let (all, drawn) = (side(logs.clone()), side(logs.into_iter().chain([1e-12])));
    let (exact, near) = (p_values(&[one(0, &all)], 0)[0], p_values(&[one(0, &drawn)], 0)[0]);
    assert!((0.01..0.3).contains(&exact), "{exact}");
    // Three standard errors of 4,000 draws.
    let error = 3.0 * (exact * (1.0 - exact) / 4_000.0).sqrt();
    assert!((exact - near).abs() < error && exact != near, "{exact} {near}");
}

/// Values against 100, and their verdicts.
const AGAINST_100: [(f64, Direction, Verdict); 7] = [
    (100.0, Direction::HigherIsBetter, Verdict::Same),
    (101.0, Direction::HigherIsBetter, Verdict::Same),
    (103.0, Direction::HigherIsBetter, Verdict::Better),
    (97.0, Direction::HigherIsBetter, Verdict::Worse),
    (103.0, Direction::LowerIsBetter, Verdict::Worse),
    (97.0, Direction::LowerIsBetter, Verdict::Better),
    (97.0, Direction::Neutral, Verdict::Unjudged(Unjudged::Neutral)),
];

#[test]
fn equal_values_are_the_same_and_different_ones_better_or_worse() {
    let baseline = side(vec![100.0; 10]);
    for (value, direction, expected) in AGAINST_100 {
        let variant = side(vec![value; 10]);
        let one = Comparison { direction, ..comparison(0, &baseline, &variant) };
        let judged = judge(&[one], &Family::new(1, 1));
        assert_eq!(judged[0].verdict, expected, "{value} {direction:?} {judged:?}");
    }
}

#[test]
fn each_side_of_the_same_has_half_of_alpha() {
    let equal = side(vec![100.0; 5]);
    let judged = judge(&[comparison(0, &equal, &equal)], &Family::new(1, 1))[0];
    // One pattern of 32 on each side, reported doubled.
    assert_eq!(judged.p_same, Some(2.0 / 32.0));
    assert!(matches!(judged.verdict, Verdict::Inconclusive { .. }), "{judged:?}");
}

#[test]
fn a_side_that_a_look_excluded_stays_excluded() {
    // Eight rounds exclude ratios above the margin, all later ones those below it.
    let logs = (0..22).map(|round| match round {
        0..8 => [-0.03, 0.012][round % 2],
        _ => 0.03,
    });
    let variant = side(logs.map(|log: f64| 100.0 * log.exp()));
    let baseline = side(vec![100.0; 22]);
    let table = [comparison(0, &baseline, &variant)];
    let judged = replay(&table, &Family::new(1, 1), &Schedule::default(), 22, false)[0];
    assert_eq!(judged.excluded, Excluded { above: true, below: true }, "{judged:?}");
    // All rounds together say what the first eight excluded: no row says SAME next to that.
    assert!(matches!(judged.verdict, Verdict::Inconclusive { why: Why::Denied, .. }), "{judged:?}");
    let at_once = judge(&table, &Family::new(1, 1))[0];
    assert!(at_once.verdict != Verdict::Same, "{at_once:?}");
}

#[test]
fn either_side_of_the_margin_may_be_excluded_alone() {
    // The ratio is 1 % to 5 % above: not below the margin, and not shown to be within it.
    let baseline = side(vec![100.0; 10]);
    let variant = side((0..10).map(|round| 101.0 + f64::from(round % 5)));
    let judged = judge(&[comparison(0, &baseline, &variant)], &Family::new(1, 1))[0];
    assert_eq!(judged.excluded, Excluded { above: false, below: true }, "{judged:?}");
    let swapped = judge(&[comparison(0, &variant, &baseline)], &Family::new(1, 1))[0];
    assert_eq!(swapped.excluded, Excluded { above: true, below: false }, "{swapped:?}");
    let equal = judge(&[comparison(0, &baseline, &baseline)], &Family::new(1, 1))[0];
    assert_eq!(equal.excluded, Excluded { above: true, below: true });
    let short = &baseline[..4];
    let short = judge(&[comparison(0, short, short)], &Family::new(1, 1))[0];
    assert_eq!(short.excluded, Excluded::default());
}

#[test]
fn what_is_at_the_margin_is_seldom_excluded_in_any_row() {
    for effect in [1.02, 1.0 / 1.02] {
        let setting = Setting::moved(10, 6, 6, effect);
        let wrong = (0..300).filter(|seed| {
            let table = experiment(&setting, 2, &mut Random::new(*seed));
            let judged = judge(&comparisons(&table), &family(*seed));
            judged
                .iter()
                .any(|one| if effect > 1.0 { one.excluded.above } else { one.excluded.below })
        });
        let wrong = wrong.count();
        // Half of 4 % of 300 are 6, with a deviation of 2.4.
        assert!(wrong <= 13, "{effect}: {wrong} of 300");
    }
}

#[test]
fn what_is_not_decided_says_why() {
    let noise = [0.0, 3.0, -2.0, 1.0, -4.0, 2.0, -1.0, 4.0, -3.0, 0.5];
    let values = |count: usize, shift: f64, spread: f64| {
        side(noise[..count].iter().map(move |noise| 100.0 + shift + spread * noise))
    };
    let few = side(vec![110.0; 5]);
    let cases: &[(&str, Values, Why)] = &[
        ("five rounds", few, Why::TooFewRounds { least: 6 }),
        ("much noise", values(10, 0.0, 2.0), Why::Noise),
        ("alone a difference", values(10, 1.9, 0.8), Why::OnlyAlone),
        ("alone the same", values(10, 0.0, 0.9), Why::SameOnlyAlone),
    ];
    let baseline = side(vec![100.0; 10]);
    // Nineteen comparisons that only make the table longer, each of a work of its own.
    let mut random = Random::new(9);
    let others: Vec<Vec<(u32, f64)>> =
        (0..19).map(|_| side((0..10).map(|_| 90.0 + 20.0 * random.uniform()))).collect();
    for (name, variant, expected) in cases {
        let mut table = vec![comparison(0, &baseline, variant)];
        let rest = others.iter().enumerate();
        table.extend(rest.map(|(at, other)| comparison(1 + at, &baseline, other)));
        let judged = judge(&table, &Family::new(1, 1))[0];
        let Verdict::Inconclusive { why, rounds } = judged.verdict else {
            panic!("{name}: {judged:?}");
        };
        assert_eq!(why, *expected, "{name}: {judged:?}");
        let Rounds::Number(rounds) = rounds else { panic!("{name}: {judged:?}") };
        assert!(rounds > variant.len() as u32, "{name}: {judged:?}");
    }
}

#[test]
fn what_cannot_be_compared_is_left_out_and_says_why() {
    let baseline = side(vec![100.0; 10]);
    let (better, broken) = (side(vec![110.0; 10]), side([vec![100.0; 9], vec![f64::NAN]].concat()));
    let away: Vec<(u32, f64)> = vec![(10, 1.0)];
    let table = [
        comparison(0, &baseline, &better),
        comparison(0, &baseline, &broken),
        comparison(0, &baseline, &away),
    ];
    let judged = judge(&table, &Family::new(1, 1));
    assert_eq!(judged[0], judge(&table[..1], &Family::new(1, 1))[0]);
    assert_refused(&judged[1], 9);
    assert_eq!(judged[2].verdict, Verdict::Unjudged(Unjudged::NoEffect(NoEffect::NoPairs)));
    assert_eq!((judged[1].p_difference, judged[1].p_same), (None, None));
}

#[test]
fn each_look_has_its_share_and_what_is_decided_stays() {
    let baseline = side(vec![100.0; 30]);
    let better = side(vec![110.0; 30]);
    // From round 12 on it is hardly better.
    let turned = side([vec![110.0; 12], vec![100.2; 18]].concat());
    let at = |variants, variant: &[(u32, f64)], rounds| {
        let table = [comparison(0, &baseline, variant)];
        let family = Family::new(variants, 1);
        let judged = replay(&table, &family, &Schedule::default(), rounds, false)[0];
        (judged.verdict, judged.decided_at)
    };
    // 2/256 of one variant is below 0.02, of three it is not; 3 * 2/1024 is below 0.04 / 6.
    assert_eq!(at(1, &better, 8), (Verdict::Better, Some(8)));
    assert_eq!(at(1, &turned, 30), (Verdict::Better, Some(8)));
    assert_eq!(at(3, &better, 10), (Verdict::Better, Some(10)));
    let open = |why| Verdict::Inconclusive { why, rounds: Rounds::Number(10) };
    assert_eq!(at(3, &better, 8), (open(Why::TooFewRounds { least: 9 }), None));
    let open = |why| Verdict::Inconclusive { why, rounds: Rounds::Number(8) };
    assert_eq!(at(1, &better, 7), (open(Why::TooFewRounds { least: 8 }), None));
    // Seven rounds that will stay seven may be looked at, with all of alpha.
    let table = [comparison(0, &baseline, &better)];
    let ended = replay(&table, &Family::new(1, 1), &Schedule::default(), 7, true)[0];
    assert_eq!((ended.verdict, ended.decided_at), (Verdict::Better, Some(7)));
}

/// The limit for the p-value behind a verdict: alpha, or the share of it that the deciding look had; without a
/// verdict the last look's. `None` where nothing was tested.
fn p_limit(judged: &Judged, family: &Family, looks: &[Look]) -> Option<f64> {
    judged.p_difference?;
    let decided = looks.iter().find(|look| Some(look.rounds) == judged.decided_at);
    let share = decided.or(looks.last()).map_or(1.0, |look| look.share);
    Some(family.alpha * share)
}

#[test]
fn p_values_come_with_the_limit_that_they_were_held_against() {
    let (looks, mut kinds) = (Schedule::default(), [0; 3]);
    for seed in 0..40 {
        let effect = [1.0, 1.008, 1.02, 1.04][seed as usize % 4];
        let setting = Setting { drift: 0.0, cv: 0.012, ..Setting::moved(32, 3, 2, effect) };
        let table = experiment(&setting, 2, &mut Random::new(seed));
        for has_ended in [false, true] {
            let made = looks.looks_at(32, has_ended);
            let judged = replay(&comparisons(&table), &family(seed), &looks, 32, has_ended);
            for one in judged {
                let limit = p_limit(&one, &family(seed), &made).unwrap();
                let (differs, same) = (one.p_difference.unwrap(), one.p_same.unwrap());
                let kind = match one.verdict {
                    Verdict::Better | Verdict::Worse => (0, differs <= limit),
                    Verdict::Same => (1, same <= limit),
                    _ => (2, differs > limit && same > limit),
                };
                assert!(kind.1, "{seed}: {one:?} {limit}");
                kinds[kind.0] += 1;
            }
        }
    }
    assert!(kinds.iter().all(|count| *count > 5), "{kinds:?}");
    // The first look has half of alpha, one at fixed rounds all, one that was not made none.
    let (baseline, better) = (side(vec![100.0; 9]), side(vec![110.0; 9]));
    let table = [comparison(0, &baseline, &better)];
    let at = |rounds| replay(&table, &family(1), &looks, rounds, false)[0];
    let limit = |rounds| p_limit(&at(rounds), &family(1), &looks.looks_at(rounds, false));
    assert_eq!((limit(7), limit(9)), (None, Some(LEVEL / 2.0)));
    assert_eq!(p_limit(&judge(&table, &family(1))[0], &family(1), &[]), Some(LEVEL));
    // A metric that ends after 12 rounds is decided by the look at 13, whose share is 1/12.
    let ends: Values = (0..12).map(|round| (round, 110.0)).collect();
    let long = side(vec![100.0; 30]);
    let five = Family::new(5, 1);
    let judged = replay(&[comparison(0, &long, &ends)], &five, &looks, 30, false)[0];
    assert_eq!((judged.verdict, judged.decided_at), (Verdict::Better, Some(13)));
    let limit = p_limit(&judged, &five, &looks.looks_at(30, false)).unwrap();
    assert!((limit - LEVEL / 12.0).abs() < 1e-15, "{limit}");
}

#[test]
fn rounds_that_came_later_change_no_look() {
    let setting = Setting { rounds: 24, ..Setting::moved(24, 3, 3, 1.04) };
    let table = experiment(&setting, 2, &mut Random::new(2));
    let all = comparisons(&table);
    let now = replay(&all, &family(1), &Schedule::default(), 14, false);
    let cut: Vec<Vec<(u32, f64)>> =
        table.iter().map(|one| one.variants[1][..14].to_vec()).collect();
    let early: Vec<Comparison> =
        table.iter().zip(&cut).map(|(one, cut)| comparison(0, &one.variants[0], cut)).collect();
    assert_eq!(now, replay(&early, &family(1), &Schedule::default(), 14, false));
    let later = replay(&all, &family(1), &Schedule::default(), 24, false);
    let decided = now.iter().zip(&later).filter(|(now, _)| now.decided_at.is_some());
    let kept: Vec<bool> = decided.map(|(now, later)| now.verdict == later.verdict).collect();
    assert!(!kept.is_empty() && kept.iter().all(|kept| *kept), "{now:?} {later:?}");
}

fn assert_refused(judged: &Judged, expected: u32) {
    let Verdict::Unjudged(Unjudged::NoEffect(NoEffect::NotFinite { round, .. })) = judged.verdict
    else {
        panic!("{judged:?}");
    };
    assert_eq!(round, expected, "{judged:?}");
}

#[test]
fn a_value_that_cannot_be_compared_undoes_no_look_before_it() {
    let baseline = side(vec![100.0; 20]);
    let mut random = Random::new(3);
    let mut noisy = |shift: f64| side((0..20).map(|_| 100.0 * (shift + random.normal()).exp()));
    let others = [noisy(0.0), noisy(1.2), noisy(2.0)];
    for (bad, paired) in [(0.0, true), (f64::NAN, true), (-1.0, false), (f64::INFINITY, false)] {
        let is_refused = !f64::is_finite(bad);
        let mut broken = side(vec![110.0; 20]);
        broken[15].1 = bad;
        let table = |broken: &[(u32, f64)], rounds, has_ended| {
            let mut table = vec![comparison(0, &baseline, broken)];
            table.extend((1..).zip(&others).map(|(at, one)| comparison(at, &baseline, one)));
            table.iter_mut().for_each(|one| one.paired = paired);
            replay(&table, &family(1), &Schedule::default(), rounds, has_ended)
        };
        // Up to round 14, and at the look at 13, all is as if the value had never come.
        for rounds in [8, 10, 13, 15] {
            let never = table(&broken[..15], rounds, false);
            assert_eq!(table(&broken, rounds, false), never, "{bad} {rounds}");
        }
        let (then, later) = (table(&broken, 15, false), table(&broken, 20, true));
        assert_eq!(then[0].verdict, Verdict::Better);
        if is_refused {
            assert_eq!(
                (later[0].verdict, later[0].decided_at),
                (then[0].verdict, then[0].decided_at)
            );
            assert!(matches!(later[0].effect, Err(NoEffect::NotFinite { round: 15, .. })), "{bad}");
        } else {
            // One round at 0 leaves a mean difference that may be none.
            let denied = matches!(later[0].verdict, Verdict::Inconclusive { why: Why::Denied, .. });
            assert!(denied && later[0].decided_at.is_none(), "{bad}: {:?}", later[0]);
        }
        // Undecided when it comes: refused.
        broken.iter_mut().for_each(|(round, value)| {
            *value *= if round.is_multiple_of(2) { 1.0 } else { 0.8 };
        });
        let never_decided = &table(&broken, 20, true)[0];
        if is_refused {
            assert_refused(never_decided, 15)
        } else {
            assert!(matches!(never_decided.verdict, Verdict::Inconclusive { .. }))
        }
    }
}

#[test]
fn the_first_round_that_is_refused_is_named_in_any_order() {
    let baseline = side(vec![100.0; 10]);
    let mut variant = side(vec![100.0; 10]);
    (variant[3].1, variant[7].1) = (f64::NAN, f64::INFINITY);
    variant.reverse();
    for paired in [true, false] {
        let one = Comparison { paired, ..comparison(0, &baseline, &variant) };
        assert_refused(&judge(&[one], &family(1))[0], 3);
    }
}

#[test]
fn draws_that_end_early_change_no_decision() {
    let looks = Schedule::default();
    let mut seen = [0; 3];
    for seed in 0..12 {
        let paired = seed % 2 == 0;
        // Some are decided at once, some late, some never.
        let effect = [1.0, 1.01, 1.02, 1.04][seed as usize % 4];
        let setting = Setting { drift: 0.0, cv: 0.01, ..Setting::moved(49, 4, 2, effect) };
        let table = experiment(&setting, 2, &mut Random::new(seed));
        let mut all = comparisons(&table);
        all.iter_mut().for_each(|one| one.paired = paired);
        let mut whole = Table::new(&all);
        whole.ends_early = false;
        let mut state = State::new(all.len());
        looks.looks_at(49, true).into_iter().for_each(|look| {
            state.look(&whole, &family(seed), look, false);
        });
        let progress = Progress { schedule: &looks, rounds_done: 49, has_ended: true };
        let whole = state.judged(&whole, &family(seed), Some(progress));
        let early = replay(&all, &family(seed), &looks, 49, true);
        for (whole, early) in whole.iter().zip(&early) {
            assert_eq!((whole.verdict, whole.decided_at), (early.verdict, early.decided_at));
            assert_eq!(whole.effect, early.effect);
            seen[0] += usize::from(whole.decided_at == Some(8));
            seen[1] += usize::from(whole.decided_at > Some(8));
            seen[2] += usize::from(whole.p_difference != early.p_difference);
        }
    }
    assert!(seen.iter().all(|count| *count > 2), "{seen:?}");
}

#[test]
fn a_difference_that_a_late_look_sees_first_is_found_by_it() {
    // The variant's metric is there from round 64 on: 19 rounds at the tenth look, more patterns
    // than are gone through, and a share of alpha that 199 draws could not reach.
    let baseline = side(vec![100.0; 83]);
    let variant: Values = (64..83).map(|round| (round, 110.0)).collect();
    for paired in [true, false] {
        let one = Comparison { paired, ..comparison(0, &baseline, &variant) };
        let judged = replay(&[one], &family(1), &Schedule::default(), 83, false)[0];
        assert_eq!((judged.verdict, judged.decided_at), (Verdict::Better, Some(83)), "{paired}");
        let p_value = judged.p_difference.unwrap();
        assert!(p_value > 0.0 && p_value <= LEVEL / 110.0, "{paired}: {p_value}");
    }
}

#[test]
fn a_block_that_stopped_keeps_its_verdicts_and_its_place() {
    let looks = Schedule { rule: LookRule::Even, ends: Vec::new() };
    let mut stopped = 0;
    for seed in 0..20 {
        // The first block is plain, the second needs more rounds.
        let setting = Setting { drift: 0.0, cv: 0.01, ..Setting::moved(35, 2, 2, 1.008) };
        let slow = experiment(&setting, 2, &mut Random::new(seed));
        let plain = side((0..35).map(|round| 100.0 + f64::from(round % 3)));
        let better = side((0..35).map(|round| 110.0 + f64::from(round % 2)));
        let mut all = comparisons(&slow);
        all.iter_mut().for_each(|one| one.block = 1);
        all.push(comparison(0, &plain, &better));
        let judged = |all: &[Comparison], rounds, has_ended| {
            replay(all, &family(seed), &looks, rounds, has_ended)
        };
        let at_ten = judged(&all, 10, false);
        assert_eq!(at_ten[2].decided_at, Some(10));
        let (baseline, variant) = (&plain[..10], &better[..10]);
        let cut = [all[0], all[1], Comparison { baseline, variant, ..all[2] }];
        let (whole, early) = (judged(&all, 35, true), judged(&cut, 35, true));
        // It is not tested again, and the others meet as many chances as if it had gone on.
        assert_eq!((early[2].verdict, early[2].decided_at), (Verdict::Better, Some(10)));
        assert_eq!(early[2].p_difference, at_ten[2].p_difference);
        for (whole, early) in whole[..2].iter().zip(&early) {
            let near = |one: &Judged| one.p_difference.unwrap();
            assert!((near(whole) - near(early)).abs() < 0.05, "{seed}: {whole:?} {early:?}");
            stopped += usize::from(early.decided_at.is_some_and(|rounds| rounds > 10));
        }
    }
    assert!(stopped > 3, "{stopped}");
}

#[test]
fn a_block_whose_last_run_failed_has_not_stopped() {
    let looks = Schedule { rule: LookRule::Even, ends: Vec::new() };
    let plain = side((0..30).map(|round| 100.0 + f64::from(round % 3)));
    // Up to the first look nothing, then much.
    let late = side((0..30).map(|round| {
        let gain = if round < 10 { 0.0 } else { 20.0 };
        100.0 + f64::from(round % 3) + gain * f64::from(1 + round % 2)
    }));
    let whole = comparison(0, &plain, &plain);
    let judged = |failed: Comparison| {
        let judged = replay(&[whole, failed], &family(1), &looks, 30, true);
        judged[1].decided_at
    };
    let all = judged(comparison(1, &plain, &late));
    assert!(all.is_some_and(|rounds| rounds > 10), "{all:?}");
    let last = all.map_or(0, |rounds| rounds as usize - 1);
    assert_eq!(judged(comparison(1, &plain[..last], &late[..last])), all);
}

#[test]
fn a_drawn_p_value_counts_what_was_measured() {
    let logs = side((0..30).map(|round| 1.0 + f64::from(round) / 100.0));
    let below = side((0..30).map(|round| f64::from(round) / 100.0));
    // So few draws do not reach the extreme of 30 rounds that all rise.
    let all = [Part::Tested];
    let tested = [&all[..]; 3];
    for draws in [99, 1_000] {
        let least = Some(1.0 / (f64::from(draws) + 1.0));
        let flipped = adjusted(Flips::new(&[one(0, &logs)], draws, 1), tested, &Limit::NONE);
        assert_eq!(flipped[0][0], least);
        let labels = Labels::new(&[two(0, &below, &logs)], draws, 1);
        assert_eq!(adjusted(labels, tested, &Limit::NONE)[0][0], least);
    }
}

#[test]
fn a_larger_table_needs_more_rounds() {
    let setting = Setting { drift: 0.0, cv: 0.1, ..Setting::moved(8, 40, 1, 1.04) };
    let table = experiment(&setting, 2, &mut Random::new(1));
    let rounds = |count: usize, variants: usize, paired: bool| {
        let mut all = comparisons(&table);
        all.truncate(count);
        all.iter_mut().for_each(|one| one.paired = paired);
        match judge(&all, &Family::new(variants, 1))[0].verdict {
            Verdict::Inconclusive { rounds: Rounds::Number(rounds), .. } => rounds,
            other => panic!("{count} {variants}: {other:?}"),
        }
    };
    for paired in [true, false] {
        let needed = [(1, 1), (5, 1), (40, 1), (40, 3)].map(|(n, v)| rounds(n, v, paired));
        assert!(needed.is_sorted_by(|few, more| few < more), "{needed:?}");
    }
}

#[test]
fn swapped_sides_swap_verdicts_and_order_does_not_matter() {
    let table = experiment(&Setting::moved(12, 6, 3, 1.08), 2, &mut Random::new(4));
    let there = judge(&comparisons(&table), &family(1));
    let swapped: Vec<Comparison> =
        table.iter().map(|one| comparison(0, &one.variants[1], &one.variants[0])).collect();
    let back = judge(&swapped, &family(1));
    let mut reversed = comparisons(&table);
    reversed.reverse();
    let mut reversed = judge(&reversed, &family(1));
    reversed.reverse();
    assert!(there.iter().any(|one| one.verdict == Verdict::Better), "{there:?}");
    for ((there, back), reversed) in there.iter().zip(&back).zip(&reversed) {
        assert_eq!(there.p_difference, back.p_difference);
        assert_eq!(there.p_same, back.p_same);
        assert_eq!(there.verdict == Verdict::Better, back.verdict == Verdict::Worse);
        assert_eq!(there, reversed);
    }
}

/// Tables in which any verdict fulfils `what`.
fn tables(count: u64, setting: &Setting, what: fn(&Verdict) -> bool) -> usize {
    let hits = (0..count).filter(|seed| {
        let table = experiment(setting, 2, &mut Random::new(*seed));
        judge(&comparisons(&table), &family(*seed)).iter().any(|one| what(&one.verdict))
    });
    hits.count()
}

#[test]
fn tables_without_a_difference_seldom_show_one() {
    for noise in [Noise::Normal, Noise::LogNormal, Noise::HeavyTailed, Noise::Bimodal] {
        let short = Setting { blocks: 1, metrics_per_block: 6, ..Setting::same(8, noise, 0.3) };
        let setting = Setting { drift_within: 1.0, ..short };
        let alarms = tables(150, &setting, |v| matches!(v, Verdict::Better | Verdict::Worse));
        // 5 % of 150 are 7.5, with a deviation of 2.7.
        assert!((1..=14).contains(&alarms), "{noise:?}: {alarms} of 150");
    }
}

#[test]
fn three_percent_are_found_in_twenty_rounds() {
    let setting = Setting::moved(20, 1, 1, 1.03);
    let found = tables(200, &setting, |verdict| *verdict == Verdict::Better);
    assert!(found >= 190, "{found} of 200");
}

#[test]
fn twice_the_margin_is_not_the_same() {
    let setting = Setting { noise: Noise::HeavyTailed, ..Setting::moved(12, 8, 8, 1.02 * 1.02) };
    let same = tables(100, &setting, |verdict| *verdict == Verdict::Same);
    assert_eq!(same, 0, "of 100");
    let close = Setting { cv: 0.004, ..Setting::moved(12, 8, 8, 1.005) };
    let same = tables(20, &close, |verdict| *verdict == Verdict::Same);
    assert_eq!(same, 20, "of 20");
}

fn unpaired<'a>(baseline: &'a [(u32, f64)], variant: &'a [(u32, f64)]) -> Comparison<'a> {
    Comparison { paired: false, ..comparison(0, baseline, variant) }
}

fn two<'a>(
    block: usize,
    baseline: &'a [(u32, f64)],
    variant: &'a [(u32, f64)],
) -> labels::Series<'a> {
    labels::Series { block, logs: [baseline, variant], margin_ln: 0.7 }
}

fn p_values_unpaired(series: &[labels::Series], side: usize, draws: u32) -> Vec<f64> {
    let all = vec![Part::Tested; series.len()];
    let p_values = adjusted(Labels::new(series, draws, 1), [&all, &all, &all], &Limit::NONE);
    p_values[side].iter().map(|p_value| p_value.unwrap()).collect()
}

#[test]
fn two_sides_by_hand() {
    // Among 20 ways to choose 3 of 6, that and its mirror are the extremes.
    let (low, high) = (side([1.0, 2.0, 4.0]), side([7.0, 9.0, 12.0]));
    assert_eq!(p_values_unpaired(&[two(0, &low, &high)], 0, 99), [2.0 / 20.0]);
    // Rounds only distinguish runs.
    let later: Values = high.iter().map(|(round, log)| (round + 70, *log)).collect();
    assert_eq!(p_values_unpaired(&[two(0, &low, &later)], 0, 99), [2.0 / 20.0]);
    // Against "at least 0.7 lower" speaks this one alone, and nothing against "0.7 higher".
    assert_eq!(p_values_unpaired(&[two(0, &low, &high)], 2, 99), [1.0 / 20.0]);
    assert_eq!(p_values_unpaired(&[two(0, &low, &high)], 1, 99), [1.0]);
    // One run has no spread: nothing can be said.
    assert_eq!(p_values_unpaired(&[two(0, &low, &high[..1])], 0, 99), [1.0]);
    // Other blocks have labels of their own.
    let both = p_values_unpaired(&[two(0, &low, &high), two(1, &low, &high)], 0, 99);
    assert!(both.iter().all(|p| (p - (1.0 - 0.9f64.powi(2))).abs() < 1e-12), "{both:?}");
    let joint = p_values_unpaired(&[two(0, &low, &high), two(0, &low, &high)], 0, 99);
    assert_eq!(joint, [2.0 / 20.0; 2]);
}

/// Welch's t as printed, by its p-value; 0 of fewer than two values on a side.
fn welch(logs: [&[f64]; 2]) -> f64 {
    let counts = logs.map(|side| side.len() as f64);
    if counts.iter().any(|count| *count < 2.0) {
        return 0.0;
    }
    let [below, above] = [0, 1].map(|at| logs[at].iter().sum::<f64>() / counts[at]);
    let square = |at: usize, mean: f64| {
        let squares: f64 = logs[at].iter().map(|log| (log - mean).powi(2)).sum();
        squares / (counts[at] - 1.0) / counts[at]
    };
    let (a, b) = (square(0, below), square(1, above));
    let freedom = (a + b).powi(2) / (a * a / (counts[0] - 1.0) + b * b / (counts[1] - 1.0));
    let t = (above - below) / (a + b).sqrt();
    let deviate = (freedom * (1.0 + t * t / freedom).ln()).sqrt();
    (deviate * (8.0 * freedom + 1.0) / (8.0 * freedom + 3.0)).copysign(t)
}

/// All ways to label 4 + 3 runs of one block, statistic by statistic.
fn slowly_unpaired(series: &[labels::Series], side: Null) -> Vec<f64> {
    let (shift, turn) = side.shift_and_turn(0.7);
    let statistic = |one: &labels::Series, pattern: u32| {
        let runs = one.logs[0].iter().map(|(run, log)| (*run, *log));
        let runs = runs.chain(one.logs[1].iter().map(|(run, log)| (run + 4, log - shift)));
        let (above, below): (Vec<_>, Vec<_>) = runs.partition(|(run, _)| pattern >> run & 1 == 1);
        let [below, above] =
            [below, above].map(|side| side.into_iter().map(|run| run.1).collect::<Vec<f64>>());
        let turned = turn * welch([&below, &above]);
        if side == Null::NoDifference { turned.abs() } else { turned }
    };
    let patterns: Vec<u32> = (0..1u32 << 7).filter(|pattern| pattern.count_ones() == 3).collect();
    step_down(series.len(), &patterns, 0b111_0000, |at, pattern| statistic(&series[at], pattern))
}

#[test]
fn a_table_of_two_sides_agrees_with_the_slow_way() {
    let mut random = Random::new(5);
    for _ in 0..10 {
        let mut sides = |count: u32, center: f64| -> Values {
            side((0..count).map(|_| center + random.normal()))
        };
        let (below, above) = ([0, 1, 2].map(|_| sides(4, 9.0)), [0, 1, 2].map(|_| sides(3, 10.0)));
        // Metrics that miss in runs; each run is in the first.
        let (short, gap) = (&below[1][1..], [above[2][0], above[2][2]]);
        let table =
            [two(0, &below[0], &above[0]), two(0, short, &above[1]), two(0, &below[2], &gap)];
        for (at, side) in NULLS.into_iter().enumerate() {
            let (fast, slow) = (p_values_unpaired(&table, at, 99), slowly_unpaired(&table, side));
            let is_near = fast.iter().zip(&slow).all(|(fast, slow)| (fast - slow).abs() < 1e-9);
            assert!(is_near, "{side:?}: {fast:?} {slow:?}");
        }
    }
}

#[test]
fn drawn_labels_come_near_to_all_of_them() {
    let mut random = Random::new(3);
    let mut sides =
        |count: u32, center: f64| -> Values { side((0..count).map(|_| center + random.normal())) };
    // 5 of 17 are 6,188 ways; another block's 3 of 6 make them too many to go through all. One run far away
    // distinguishes the labels of few from those of many.
    let (few, mut many) = (sides(5, 0.9), sides(12, 0.0));
    many[4].1 += 9.0;
    let (low, high) = (side(vec![1.0; 3]), side(vec![1.0; 3]));
    for (below, above) in [(&few, &many), (&many, &few)] {
        for at in 0..NULLS.len() {
            let exact = p_values_unpaired(&[two(0, below, above)], at, 99)[0];
            // Equal values have the statistic 0: they take nothing from statistics above it.
            let still = labels::Series { margin_ln: 0.0, ..two(1, &low, &high) };
            let both = [two(0, below, above), still];
            let drawn = p_values_unpaired(&both[..], at, 4_000)[0];
            let error = 4.0 * (exact * (1.0 - exact) / 4_000.0).sqrt();
            let is_below = exact > 0.4 && at > 0;
            assert!(is_below || (exact - drawn).abs() < error, "{at}: {exact} {drawn}");
        }
    }
}

#[test]
fn long_series_change_labels_in_groups_and_keep_their_p_values() {
    let mut random = Random::new(8);
    let count = 2 * MAX_UNITS.max(MAX_SIGNS) as u32 + 89;
    let mut sides =
        |count: u32, center: f64| -> Values { side((0..count).map(|_| center + random.normal())) };
    let normal_p = |t: f64| {
        use statrs::distribution::{ContinuousCDF, Normal};
        2.0 * Normal::standard().cdf(-t.abs())
    };
    let moments = |logs: &[(u32, f64)]| {
        let count = logs.len() as f64;
        let mean = logs.iter().map(|(_, log)| log).sum::<f64>() / count;
        let squares: f64 = logs.iter().map(|(_, log)| (log - mean).powi(2)).sum();
        (mean, squares / (count - 1.0) / count)
    };
    let flipped = sides(count, 0.05);
    let (mean, square) = moments(&flipped);
    let (got, expected) = (p_values(&[one(0, &flipped)], 0)[0], normal_p(mean / square.sqrt()));
    assert!((0.05..0.6).contains(&expected), "{expected}");
    // Three standard errors of 4,000 draws, and what groups take.
    assert!((got - expected).abs() < 0.05, "{got} {expected}");
    for (fewer, more) in [(count, count + 55), (90, count)] {
        let (below, above) = (sides(fewer, 0.0), sides(more, 0.06));
        let (at, of) = (moments(&below), moments(&above));
        let expected = normal_p((of.0 - at.0) / (of.1 + at.1).sqrt());
        for table in [two(0, &below, &above), two(0, &above, &below)] {
            let got = p_values_unpaired(&[table], 0, 4_000)[0];
            assert!((got - expected).abs() < 0.05, "{fewer} {more}: {got} {expected}");
        }
    }
}

#[test]
fn groups_of_runs_are_of_one_size_and_no_side_is_left_with_few() {
    let cases = [
        ([20, 10], [20, 10], 1),
        ([256, 256], [256, 256], 1),
        ([257, 300], [128, 150], 2),
        ([5_000, 5_000], [250, 250], 20),
        ([5_000, 300], [555, 33], 9),
        ([5_000, 10], [5_000, 10], 1),
    ];
    for (runs, units, size) in cases {
        assert_eq!(labels::units_of(runs), (units, size), "{runs:?}");
    }
}

#[test]
fn equal_sides_are_the_same_and_different_ones_better_or_worse() {
    // Enough runs to be sure, not from the same rounds.
    let baseline: Values = (30..36).map(|round| (round, 100.0)).collect();
    for (value, direction, expected) in AGAINST_100 {
        let variant = side(vec![value; 9]);
        let one = Comparison { direction, ..unpaired(&baseline, &variant) };
        let judged = judge(&[one], &Family::new(1, 1))[0];
        assert_eq!(judged.verdict, expected, "{value} {direction:?} {judged:?}");
        assert_eq!(judged.effect.unwrap().pairs(), 6);
    }
    // One comparison that is not paired makes the whole table so.
    let paired = Comparison { paired: true, ..unpaired(&baseline, &baseline) };
    let table = [unpaired(&baseline, &baseline), paired];
    let judged = judge(&table, &Family::new(1, 1));
    assert_eq!(judged[0], judged[1]);
}

#[test]
fn what_two_sides_do_not_decide_says_why() {
    let noise = [0.0, 3.0, -2.0, 1.0, -4.0, 2.0, -1.0, 4.0, -3.0, 0.5];
    let values = |count: usize, shift: f64, spread: f64| {
        side(noise[..count].iter().map(move |noise| 100.0 + shift + spread * noise))
    };
    let baseline = values(10, 0.0, 0.2);
    let open = |runs: usize, variant: &Values| {
        judge(&[unpaired(&baseline[..runs], variant)], &Family::new(1, 1))[0].verdict
    };
    let Verdict::Inconclusive { why, rounds } = open(3, &values(3, 20.0, 0.1)) else {
        panic!("decided")
    };
    assert_eq!((why, rounds), (Why::TooFewRounds { least: 6 }, Rounds::Number(6)));
    // Five runs against ten fall in 3,003 ways, but the signs of five pairs in 32.
    let Verdict::Inconclusive { why, .. } = open(10, &values(5, 20.0, 0.1)) else {
        panic!("decided")
    };
    assert_eq!(why, Why::TooFewRounds { least: 6 });
    assert_eq!(open(10, &values(6, 20.0, 0.1)), Verdict::Better);
    let Verdict::Inconclusive { why: Why::Noise, rounds: Rounds::Number(rounds) } =
        open(10, &values(8, 0.0, 2.0))
    else {
        panic!("decided, or for another reason")
    };
    assert!(rounds > 8, "{rounds}");
    let nothing = NoEffect::NoRuns;
    assert_eq!(open(10, &Vec::new()), Verdict::Unjudged(Unjudged::NoEffect(nothing)));
    let judged = judge(&[unpaired(&baseline, &[])], &Family::new(1, 1))[0];
    let json = serde_json::to_value(judged).unwrap();
    assert_eq!(json["ratio"], serde_json::json!({"none": "no_runs"}));
}

#[test]
fn what_is_not_judged_takes_nothing_from_the_others() {
    let noise = [0.0, 3.0, -2.0, 1.0, -4.0, 2.0, -1.0, 4.0, -3.0, 0.5];
    let baseline = side(noise.map(|noise| 100.0 + noise));
    let variant = side(noise.map(|noise| 102.0 - noise));
    let open = comparison(0, &baseline, &variant);
    let neutral = Comparison { direction: Direction::Neutral, ..open };
    let first = |table: &[Comparison]| {
        let judged = judge(table, &Family::new(1, 1))[0];
        match judged.verdict {
            Verdict::Inconclusive { rounds: Rounds::Number(rounds), .. } => (rounds, judged.bound),
            other => panic!("{other:?}"),
        }
    };
    let alone = first(&[open]);
    assert_eq!(first(&[open, neutral, neutral]), alone);
    let among_three = first(&[open, open, open]);
    assert!(among_three.0 > alone.0 && among_three.1 != alone.1, "{alone:?} {among_three:?}");
}

#[test]
fn looks_see_both_sides_up_to_their_round() {
    let (baseline, better) = (side(vec![100.0; 30]), side(vec![110.0; 30]));
    let late: Values = better.iter().map(|(round, value)| (round + 9, *value)).collect();
    let at = |variant: &Values, rounds| {
        let table = [unpaired(&baseline, variant)];
        replay(&table, &Family::new(1, 1), &Schedule::default(), rounds, false)[0]
    };
    assert_eq!((at(&better, 8).verdict, at(&better, 8).decided_at), (Verdict::Better, Some(8)));
    assert_eq!(at(&late, 9).verdict, Verdict::Unjudged(Unjudged::NoEffect(NoEffect::NoRuns)));
    assert_eq!((at(&late, 22).verdict, at(&late, 22).decided_at), (Verdict::Better, Some(22)));
}

#[test]
fn what_is_no_larger_than_the_floor_is_no_verdict() {
    let baseline = side(vec![100.0; 10]);
    let open = |rounds| Verdict::Inconclusive {
        why: Why::BelowFloor { floor: Distance::Ratio(0.05) },
        rounds,
    };
    let never = open(Rounds::MoreThan(MAX_ROUNDS));
    let cases = [
        (100.0 * 1.0501, 0.05, Verdict::Better),
        (100.0 * 1.05, 0.05, never),
        (103.0, 0.05, never),
        (103.0, 0.0, Verdict::Better),
        (100.0 / 1.05, 0.05, never),
        (100.0 / 1.0501, 0.05, Verdict::Worse),
        // SAME needs no floor.
        (101.0, 0.05, Verdict::Same),
    ];
    for (value, floor, expected) in cases {
        let variant = side(vec![value; 10]);
        for paired in [true, false] {
            let floor = Some(Distance::Ratio(floor));
            let one = Comparison { floor, paired, ..comparison(0, &baseline, &variant) };
            let judged = judge(&[one], &Family::new(1, 1))[0];
            assert_eq!(judged.verdict, expected, "{value} {floor:?} {paired}");
            // The difference is as real as before.
            assert!(judged.p_difference.unwrap() <= LEVEL);
        }
    }
}

#[test]
fn below_the_floor_the_rounds_are_those_to_the_same_and_later_looks_may_decide() {
    // Real, near the margin from within, and under the floor.
    let logs = |shift: f64| (0..10).map(move |at| shift + 0.008 * [1.0, -1.0][at % 2]);
    let baseline = side(vec![100.0; 10]);
    let variant = side(logs(0.013).map(|log: f64| 100.0 * log.exp()));
    let at = |floor| {
        let floor = Some(Distance::Ratio(floor));
        let one = Comparison { floor, ..comparison(0, &baseline, &variant) };
        judge(&[one], &Family::new(1, 1))[0].verdict
    };
    assert_eq!(at(0.0), Verdict::Better);
    let Verdict::Inconclusive { why, rounds: Rounds::Number(rounds) } = at(0.05) else {
        panic!("{:?}", at(0.05))
    };
    assert_eq!(why, Why::BelowFloor { floor: Distance::Ratio(0.05) });
    assert!((11..40).contains(&rounds), "{rounds}");
    // Eight rounds find it, and it is above the floor only after ten.
    let baseline = side(vec![100.0; 10]);
    let rising = side([vec![104.5; 8], vec![111.0; 2]].concat());
    let one =
        Comparison { floor: Some(Distance::Ratio(0.05)), ..comparison(0, &baseline, &rising) };
    let look = |rounds| {
        let judged = replay(&[one], &Family::new(1, 1), &Schedule::default(), rounds, false)[0];
        (judged.verdict, judged.decided_at)
    };
    let never = Rounds::MoreThan(MAX_ROUNDS);
    let below = Verdict::Inconclusive {
        why: Why::BelowFloor { floor: Distance::Ratio(0.05) },
        rounds: never,
    };
    assert_eq!(look(8), (below, None));
    assert_eq!(look(10), (Verdict::Better, Some(10)));
}

/// Tables of two sides in which any verdict fulfils `what`; the baseline has `runs` of them.
fn tables_unpaired(
    count: u64,
    setting: &Setting,
    runs: usize,
    what: fn(&Verdict) -> bool,
) -> usize {
    let hits = (0..count).filter(|seed| {
        let table = experiment(setting, 2, &mut Random::new(*seed));
        let table: Vec<Comparison> = table
            .iter()
            .map(|one| Comparison {
                block: one.block,
                ..unpaired(&one.variants[0][..runs], &one.variants[1])
            })
            .collect();
        judge(&table, &family(*seed)).iter().any(|one| what(&one.verdict))
    });
    hits.count()
}

#[test]
fn sides_without_a_difference_seldom_show_one() {
    let is_alarm = |verdict: &Verdict| matches!(verdict, Verdict::Better | Verdict::Worse);
    let few = |rounds, noise| Setting {
        blocks: 1,
        metrics_per_block: 3,
        ..Setting::steady(rounds, noise)
    };
    let cases = [
        (Noise::Normal, 10, 10),
        (Noise::LogNormal, 8, 16),
        (Noise::HeavyTailed, 10, 10),
        (Noise::Bimodal, 16, 16),
    ];
    for (noise, runs, rounds) in cases {
        let alarms = tables_unpaired(100, &few(rounds, noise), runs, is_alarm);
        // At most 4 % of 100 are 4, with a deviation of 2.
        assert!(alarms <= 10, "{noise:?} {runs}: {alarms} of 100");
    }
    // The side of fewer runs scatters three times as much, or a third: pooled variances would give
    // alarms in every third table, or none.
    for spread in [3.0, 1.0 / 3.0] {
        let setting = Setting { spread, ..few(20, Noise::Normal) };
        let alarms = tables_unpaired(100, &setting, 10, is_alarm);
        assert!(alarms <= 10, "{spread}: {alarms} of 100");
    }
    // So does one of two sides of ten in a long table: labels alone have 19 alarms here.
    let setting = Setting { spread: 10.0, ..Setting::steady(10, Noise::Normal) };
    let alarms = tables_unpaired(100, &setting, 10, is_alarm);
    assert!(alarms <= 10, "{alarms} of 100");
}

#[test]
fn the_longer_side_is_folded_to_as_many_groups_as_the_shorter_has_runs() {
    let short = side([1.0, 2.0, 4.0]);
    let long = side([10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0]);
    // Groups of 2, 2 and 3.
    assert_eq!(folded([&short, &long]), [(0, 14.0), (1, 33.0), (2, 56.0)]);
    assert_eq!(folded([&long, &short]), [(0, -14.0), (1, -33.0), (2, -56.0)]);
    assert_eq!(folded([&short, &short]), [(0, 0.0), (1, 0.0), (2, 0.0)]);
    assert_eq!(folded([&short, &[]]), []);
}

#[test]
fn between_two_sides_both_labels_and_flips_have_to_speak() {
    let logs = |one: &Values| -> Values { one.iter().map(|(at, v)| (*at, v.ln())).collect() };
    let mut random = Random::new(6);
    let mut larger = [0, 0];
    for _ in 0..20 {
        let mut noise = |spread: f64| side((0..7).map(|_| (0.02 + spread * random.normal()).exp()));
        let (below, above) = (noise(0.01), noise(0.05));
        let judged = judge(&[unpaired(&below, &above)], &Family::new(1, 1))[0];
        let sides = [&logs(&below)[..], &logs(&above)[..]];
        let pairs = folded(sides);
        let flipped = p_values(&[one(0, &pairs)], 0)[0];
        let permuted = p_values_unpaired(&[two(0, sides[0], sides[1])], 0, 99)[0];
        assert_eq!(judged.p_difference, Some(flipped.max(permuted)));
        larger[usize::from(permuted > flipped)] += 1;
    }
    assert!(larger[0] > 0 && larger[1] > 0, "{larger:?}");
}

#[test]
fn what_is_there_is_found_between_two_sides() {
    let steady = Setting { drift: 0.0, ..Setting::moved(20, 1, 1, 1.03) };
    let found = tables_unpaired(200, &steady, 20, |verdict| *verdict == Verdict::Better);
    assert!(found >= 190, "{found} of 200");
    let far = Setting { drift: 0.0, ..Setting::moved(12, 8, 8, 1.02 * 1.02) };
    assert_eq!(tables_unpaired(100, &far, 12, |verdict| *verdict == Verdict::Same), 0, "of 100");
    let close = Setting { drift: 0.0, cv: 0.004, ..Setting::moved(12, 8, 8, 1.005) };
    assert_eq!(tables_unpaired(20, &close, 12, |verdict| *verdict == Verdict::Same), 20, "of 20");
}

/// Counts of misses: of `of` frames in each round a share of `misses` is missed.
fn misses(misses: f64, of: u32, rounds: u32, random: &mut Random) -> Values {
    let one = |random: &mut Random| (0..of).filter(|_| random.uniform() < misses).count() as f64;
    side((0..rounds).map(|_| one(random) / f64::from(of)))
}

fn lower_is_better<'a>(
    block: usize,
    baseline: &'a [(u32, f64)],
    variant: &'a [(u32, f64)],
) -> Comparison<'a> {
    Comparison { direction: Direction::LowerIsBetter, ..comparison(block, baseline, variant) }
}

#[test]
fn from_never_to_often_is_worse_and_back_is_better() {
    let never = side(vec![0.0; 8]);
    let often = misses(0.05, 250, 8, &mut Random::new(1));
    for paired in [true, false] {
        let worse = Comparison { paired, ..lower_is_better(0, &never, &often) };
        let better = Comparison { paired, ..lower_is_better(0, &often, &never) };
        let [worse, better] = [worse, better].map(|one| judge(&[one], &Family::new(2, 1))[0]);
        assert_eq!((worse.verdict, better.verdict), (Verdict::Worse, Verdict::Better), "{worse:?}");
        let Ok(Effect::Difference(MeanDifference { difference, interval, .. })) = worse.effect
        else {
            panic!("{worse:?}");
        };
        assert!((0.03..0.07).contains(&difference) && interval.unwrap().low > 0.0, "{worse:?}");
        assert_eq!((worse.p_same, worse.excluded), (None, Excluded::default()));
    }
    // A throughput that starves in one round has no ratio either.
    let steady = side(vec![100.0; 10]);
    let starved = side((0..10).map(|round| if round == 4 { 0.0 } else { 3.0 }));
    assert_eq!(judge(&[comparison(0, &steady, &starved)], &family(1))[0].verdict, Verdict::Worse);
    // Without a margin in the metric's unit only values that are equal in each of enough rounds are SAME.
    for equal in [&never, &often, &starved] {
        let one = judge(&[lower_is_better(0, equal, equal)], &family(1))[0];
        assert_eq!((one.verdict, one.bound), (Verdict::Same, None), "{one:?}");
    }
    let few = judge(&[lower_is_better(0, &never[..3], &never[..3])], &family(1))[0];
    let is_too_few = |of| matches!(of, Verdict::Inconclusive { why: Why::TooFewRounds { .. }, .. });
    assert!(is_too_few(few.verdict) && few.bound.is_none(), "{few:?}");
    let mut nearly = starved.clone();
    nearly[2].1 += 1.0;
    let nearly = judge(&[lower_is_better(0, &starved, &nearly)], &family(1))[0];
    assert!(matches!(nearly.verdict, Verdict::Inconclusive { .. }), "{nearly:?}");
    assert!(matches!(nearly.bound, Some(Distance::Difference(of)) if of > 0.0), "{nearly:?}");
}

#[test]
fn what_a_look_found_is_no_verdict_where_all_rounds_say_the_opposite() {
    let baseline = side(vec![100.0; 40]);
    let noise = |round: u32| f64::from(round % 5) * 0.2;
    for turn in [10, 12, 15] {
        let factor = |round: u32| if round < turn { 1.3 } else { 0.3 };
        let variant = side((0..40).map(|round| 100.0 * factor(round) + noise(round)));
        let table = [comparison(0, &baseline, &variant)];
        let one = replay(&table, &family(1), &Schedule::default(), 40, true)[0];
        let why = match one.verdict {
            Verdict::Inconclusive { why, .. } => why,
            other => panic!("{turn}: {other:?}"),
        };
        assert_eq!(why, Why::Denied, "{turn}");
        assert_eq!(one.effect.unwrap().side(), Ordering::Less, "{turn}");
    }
}

#[test]
fn a_bound_is_no_smaller_than_the_interval_next_to_it() {
    let mut random = Random::new(3);
    let (mut one_row, mut bounds) = (0.0f64, 0);
    for _ in 0..40 {
        let baseline = side((0..20).map(|_| 100.0 + random.normal()));
        let variant = side((0..20).map(|_| 100.0 + 3.0 * random.normal()));
        let one = judge(&[comparison(0, &baseline, &variant)], &family_of(1))[0];
        let Some(bound) = one.bound else { continue };
        let Some(Distance::Ratio(reach)) = one.effect.unwrap().reach() else { panic!("{one:?}") };
        let Distance::Ratio(bound) = bound else { panic!("{one:?}") };
        assert!(bound >= reach, "{one:?}");
        one_row = one_row.max(bound);
        bounds += 1;
    }
    assert!(bounds > 20 && one_row > 0.0, "{bounds}");
}

#[test]
fn few_tables_of_counts_with_zeros_have_a_false_verdict_and_the_rare_are_found() {
    // Rare, not so rare and frequent misses next to a throughput, in two works.
    let shares = [0.0005, 0.002, 0.01];
    let (mut wrong, mut found) = (0, 0);
    for seed in 0..250 {
        let mut random = Random::new(seed);
        let sides: Vec<[Values; 2]> = shares
            .iter()
            .map(|share| [(); 2].map(|()| misses(*share, 250, 8, &mut random)))
            .collect();
        let mut noisy = || side((0..8).map(|_| 100.0 * (0.02 * random.normal()).exp()));
        let (one, other) = (noisy(), noisy());
        let mut table = vec![comparison(0, &one, &other)];
        let counts = sides.iter().enumerate();
        table.extend(counts.map(|(at, [one, other])| lower_is_better(at % 2, one, other)));
        let is_wrong = |one: &Judged| matches!(one.verdict, Verdict::Better | Verdict::Worse);
        wrong += usize::from(judge(&table, &family(seed)).iter().any(is_wrong));
        let never = side(vec![0.0; 8]);
        let often = misses(0.05, 250, 8, &mut random);
        let last = table.len() - 1;
        table[last] = lower_is_better(1, &never, &often);
        found += usize::from(judge(&table, &family(seed))[last].verdict == Verdict::Worse);
    }
    // 5 % of 250 are 12.5, with a deviation of 3.4; the full figures are rows of `make bench`.
    assert!(wrong <= 22, "{wrong} of 250");
    assert!(found >= 245, "{found} of 250");
}

#[test]
fn no_row_is_better_or_worse_where_its_interval_holds_no_change() {
    let (mut decided, mut denied) = (0, 0);
    for seed in 0..400u64 {
        let mut random = Random::new(seed);
        let noise = [Noise::HeavyTailed, Noise::LogNormal, Noise::Bimodal][seed as usize % 3];
        let rounds = [6, 8, 13, 20][seed as usize % 4];
        let setting = Setting {
            noise,
            cv: 0.1,
            drift: 0.0,
            effect_ln: 0.15 * random.normal(),
            ..Setting::moved(rounds, 3, 2, 1.0)
        };
        let mut table = experiment(&setting, 2, &mut random);
        // Zeros among them.
        if seed % 5 == 0 {
            table[0].variants[1][2].1 = 0.0;
        }
        let mut all = comparisons(&table);
        all.iter_mut().for_each(|one| one.paired = seed % 2 == 0);
        let looks = Schedule::default();
        for judged in
            [judge(&all, &family(seed)), replay(&all, &family(seed), &looks, rounds, true)]
        {
            for one in judged {
                let effect = one.effect.unwrap();
                match one.verdict {
                    Verdict::Better | Verdict::Worse => {
                        let better = one.verdict == Verdict::Better;
                        let side = if better { Ordering::Greater } else { Ordering::Less };
                        assert_eq!(effect.side(), side, "{seed}: {one:?}");
                        decided += 1;
                    }
                    Verdict::Same => assert!(effect.is_within(0.02), "{seed}: {one:?}"),
                    Verdict::Inconclusive { why: Why::Denied, .. } => denied += 1,
                    _ => {}
                }
            }
        }
    }
    assert!(decided > 300, "{decided}");
    // The test and the interval are one thing, so they seldom differ.
    assert!(denied * 20 < decided, "{denied} of {decided}");
}

#[test]
fn what_is_not_decided_is_bounded_by_the_level_of_the_whole_table() {
    let noise = [0.0, 6.0, -4.0, 2.0, -8.0, 4.0, -2.0, 8.0, -6.0, 1.0, 5.0, -5.0];
    let baseline = side(vec![100.0; 12]);
    let variant = side(noise.map(|noise| 100.0 + noise));
    let table = [comparison(0, &baseline, &variant), comparison(1, &baseline, &variant)];
    let bound = |table: &[Comparison], variants: usize| match judge(table, &family_of(variants))[0]
    {
        Judged { bound: Some(Distance::Ratio(bound)), .. } => bound,
        other => panic!("{other:?}"),
    };
    let alone = bound(&table[..1], 1);
    // A bound at 4 % is an end of the 92 % interval; the interval that is shown goes further.
    let limits = crate::stats::interval::paired_limits(&logs_of(&variant), 0.95).unwrap();
    assert!((alone - (limits.high.max(-limits.low).exp() - 1.0)).abs() < 1e-12, "{alone}");
    assert!(bound(&table, 1) > alone && bound(&table[..1], 2) == bound(&table, 1));
    // Decided comparisons and those with too few rounds have no bound.
    let better = side(vec![110.0; 12]);
    let few = &variant[..5];
    for (baseline, variant) in [(&baseline[..], &better[..]), (&baseline[..5], few)] {
        let judged = judge(&[comparison(0, baseline, variant)], &family_of(1))[0];
        assert_eq!(judged.bound, None, "{judged:?}");
    }
    // A look's bound has its share, and uses the data of that look.
    let looks = Schedule::default();
    let at = |rounds| replay(&table[..1], &family_of(1), &looks, rounds, false)[0].bound;
    assert_eq!(at(7), None, "before the first look");
    assert_eq!((at(8), at(10)), (at(9), at(12)));
    assert!(at(8) != at(10));
}

#[test]
fn a_bound_is_no_nearer_than_the_mean_with_the_floor_and_keeps_its_scale() {
    let noise = [0.0, 6.0, -4.0, 2.0, -8.0, 4.0, -2.0, 8.0, -6.0, 1.0, 5.0, -5.0];
    let baseline = side(vec![100.0; 12]);
    let variant = side(noise.map(|noise| 100.0 + noise));
    for paired in [true, false] {
        let own = Comparison { paired, ..comparison(0, &baseline, &variant) };
        let bound = |floor| judge(&[Comparison { floor, ..own }], &family_of(1))[0].bound;
        let Some(Distance::Ratio(alone)) = bound(None) else { panic!("{:?}", bound(None)) };
        assert_eq!(bound(Some(Distance::Ratio(0.001))), bound(None));
        let Some(Distance::Ratio(floored)) = bound(Some(Distance::Ratio(0.3))) else { panic!() };
        let mean = logs_of(&variant).iter().sum::<f64>() / 12.0;
        assert!((floored - (mean.abs().exp() * 1.3 - 1.0)).abs() < 1e-12, "{floored}");
        assert!(floored > alone);
    }
    // Differences: their floor is in the metric's unit.
    let zeros = side([0.0; 12].to_vec());
    let spread = side(noise.map(|noise| 500.0 * noise).to_vec());
    let own = Comparison { ..comparison(0, &zeros, &spread) };
    let floor = Some(Distance::Difference(9_000.0));
    let bound = judge(&[Comparison { floor, ..own }], &family_of(1))[0].bound;
    let mean = noise.iter().sum::<f64>() * 500.0 / 12.0;
    let Some(Distance::Difference(bound)) = bound else { panic!("{bound:?}") };
    assert!((bound - (mean.abs() + 9_000.0)).abs() < 1e-6, "{bound}");
    // The look had a ratio, and a value of 0 behind it leaves only a difference: neither is the other's bound.
    let looks = Schedule::default();
    let at = |values: &[(u32, f64)]| {
        let table = [comparison(0, &baseline[..9], values)];
        replay(&table, &family_of(1), &looks, 9, false)[0].bound
    };
    let mut zero = variant[..9].to_vec();
    assert!(at(&zero).is_some());
    zero[8].1 = 0.0;
    assert_eq!(at(&zero), None);
}

fn family_of(variants: usize) -> Family {
    Family::new(variants, 1)
}

fn logs_of(values: &[(u32, f64)]) -> Vec<f64> {
    values.iter().map(|(_, value)| (value / 100.0).ln()).collect()
}
