//! Who was entitled to how much of a pool of CPUs, and how evenly that was kept. Pure.
//!
//! A worker *wants* what it uses when it is alone, at most one CPU. Max-min fairness
//! (Bertsekas and Gallager, *Data Networks*, section 6.5.2) entitles it to its want or to the
//! fair share, whichever is less; what those who want less leave over raises the share of the
//! others, until the pool is used up or all wants are met. Here the fair share is in proportion
//! to weights, as if who has twice the weight were two: weighted water filling. And who has a
//! higher rank is served first. Where workers are held to different CPUs the same filling
//! goes on until each worker is held up by CPUs that are used up.

use std::collections::BTreeSet;

use crate::model::CpuSet;

/// What a worker may ask of a pool.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Claim {
    /// CPUs.
    pub want: f64,
    /// Only how it compares with the weights of others of its rank matters.
    pub weight: f64,
    /// Those of a higher rank leave to the lower what they do not want.
    pub rank: u32,
}

impl Claim {
    /// What is no number, or is nothing, is entitled to nothing.
    fn counts(&self) -> bool {
        self.want > 0.0 && self.weight > 0.0 && self.weight.is_finite()
    }
}

/// Claims are told apart by the CPUs that they are held to in at most so many ways: the unions
/// of these that are looked at are two to this power.
const MAX_CLASSES: usize = 8;

/// Some classes of claims, and how many CPUs there are that one of them may use.
struct Union {
    /// A bit for each class.
    classes: u32,
    cpus: f64,
}

impl Union {
    fn holds(&self, class: usize) -> bool {
        self.classes & 1 << class != 0
    }
}

/// Weighted max-min fair entitlements in CPUs, on `capacity` CPUs that all may use, in the
/// order of `claims`.
pub fn entitlements(claims: &[Claim], capacity: f64) -> Vec<f64> {
    grant(claims, &vec![0; claims.len()], &[Union { classes: 1, cpus: capacity }])
}

/// As [`entitlements`], where each claim is held to CPUs of its own, given in the order of
/// `claims`. `None` where they differ in more than eight ways.
fn entitlements_on(claims: &[Claim], held_to: &[&CpuSet]) -> Option<Vec<f64>> {
    let sets: BTreeSet<&CpuSet> = held_to.iter().copied().collect();
    let sets: Vec<&CpuSet> = sets.into_iter().collect();
    if sets.len() > MAX_CLASSES {
        return None;
    }
    let class = |cpus: &&CpuSet| sets.binary_search(cpus).unwrap_or_default();
    let class_of: Vec<usize> = held_to.iter().map(class).collect();
    let union = |classes: u32| {
        let own = sets.iter().enumerate().filter(|(class, _)| classes & 1 << class != 0);
        let cpus: BTreeSet<u32> = own.flat_map(|(_, cpus)| cpus.iter()).collect();
        Union { classes, cpus: cpus.len() as f64 }
    };
    let unions: Vec<Union> = (1..1 << sets.len()).map(union).collect();
    Some(grant(claims, &class_of, &unions))
}

/// Grants can be had if, and only if, those of each union's classes add up to no more than its
/// CPUs (the cut that is a maximum flow from claims to CPUs), as nobody wants more than a CPU.
fn grant(claims: &[Claim], class_of: &[usize], unions: &[Union]) -> Vec<f64> {
    let mut granted = vec![0.0; claims.len()];
    let counting = || (0..claims.len()).filter(|&at| claims[at].counts());
    let ranks: BTreeSet<u32> = counting().map(|at| claims[at].rank).collect();
    for rank in ranks.into_iter().rev() {
        let mut open: Vec<usize> = counting().filter(|&at| claims[at].rank == rank).collect();
        // What all have for their weight rises until a union is used up: its members have
        // what they have, and the others rise on.
        while let Some(tightest) = tightest(claims, class_of, unions, &granted, &open) {
            tightest.parts.iter().for_each(|&(at, part)| granted[at] = part);
            let served: BTreeSet<usize> = tightest.parts.iter().map(|&(at, _)| at).collect();
            open.retain(|at| !served.contains(at));
        }
    }
    granted
}

/// The open claims of a union, served with what is left of it.
struct Served {
    parts: Vec<(usize, f64)>,
    /// What those have for their weight who want more; endless where nobody does.
    level: f64,
}

/// Of all unions with open claims the one that is used up first.
fn tightest(
    claims: &[Claim],
    class_of: &[usize],
    unions: &[Union],
    granted: &[f64],
    open: &[usize],
) -> Option<Served> {
    let served = unions.iter().filter_map(|union| {
        let members: Vec<usize> =
            open.iter().copied().filter(|&at| union.holds(class_of[at])).collect();
        let own = granted.iter().zip(class_of).filter(|(_, class)| union.holds(**class));
        let used: f64 = own.map(|(granted, _)| granted).sum();
        let left = (union.cpus - used).max(0.0);
        (!members.is_empty()).then(|| serve(claims, members, left))
    });
    served.min_by(|a, b| a.level.total_cmp(&b.level))
}

/// Grants the `members` their part of `left` CPUs.
fn serve(claims: &[Claim], mut members: Vec<usize>, mut left: f64) -> Served {
    // Of the largest: weights that are all equal are 1, and divide without an error.
    let largest = members.iter().map(|&at| claims[at].weight).fold(0.0, f64::max);
    let weight = |at: usize| claims[at].weight / largest;
    let level = |at: usize| claims[at].want / weight(at);
    members.sort_unstable_by(|&a, &b| level(a).total_cmp(&level(b)));
    // Added from the end, so that no rounding makes a weight more than its remainder.
    let mut remainders: Vec<f64> = Vec::with_capacity(members.len());
    for &at in members.iter().rev() {
        remainders.push(remainders.last().unwrap_or(&0.0) + weight(at));
    }
    let mut served = Served { parts: Vec::with_capacity(members.len()), level: f64::INFINITY };
    // Who wants the least for its weight first: who wants less than its part of the rest takes
    // its want, and from the first that wants more on all have the same for their weight.
    for (&at, remainder) in members.iter().zip(remainders.iter().rev()) {
        let share = left * weight(at) / remainder;
        let part = claims[at].want.min(share);
        if part < claims[at].want {
            served.level = served.level.min(part / claims[at].weight);
        }
        served.parts.push((at, part));
        left = (left - part).max(0.0);
    }
    served
}

/// A worker on a pool: what it may ask for, and what it got, in CPUs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Competitor {
    pub claim: Claim,
    pub got: f64,
}

/// What a competitor was entitled to, in CPUs, and what it got of that: 1 is its due. No
/// ratio where it was entitled to nothing or where what it got is no number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share {
    pub entitled: f64,
    pub got_over_entitled: Option<f64>,
}

/// The share of each competitor, in their order. `held_to`: the CPUs that each may use.
/// `None` where these differ in more than eight ways.
pub fn shares(competitors: &[Competitor], held_to: &[&CpuSet]) -> Option<Vec<Share>> {
    let claims: Vec<Claim> = competitors.iter().map(|competitor| competitor.claim).collect();
    let share = |(competitor, entitled): (&Competitor, f64)| {
        let ratio = competitor.got / entitled;
        let known = entitled > 0.0 && ratio.is_finite() && ratio >= 0.0;
        Share { entitled, got_over_entitled: known.then_some(ratio) }
    };
    let entitled = entitlements_on(&claims, held_to)?;
    Some(competitors.iter().zip(entitled).map(share).collect())
}

/// The largest value over the least. `None` below two values, where one is not finite or is
/// negative, and where the least is 0.
pub fn max_over_min(values: &[f64]) -> Option<f64> {
    let sound = values.len() >= 2 && values.iter().all(|value| value.is_finite());
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(0.0, f64::max);
    (sound && least > 0.0).then_some(most / least)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Claims of one rank, by want and weight.
    fn weighted(pairs: &[(f64, f64)]) -> Vec<Claim> {
        pairs.iter().map(|&(want, weight)| Claim { want, weight, rank: 0 }).collect()
    }

    fn alike(wants: &[f64], weight: f64) -> Vec<Claim> {
        wants.iter().map(|&want| Claim { want, weight, rank: 0 }).collect()
    }

    /// Without weights, as the book has it.
    fn unweighted(wants: &[f64], capacity: f64) -> Vec<f64> {
        let mut order: Vec<usize> = (0..wants.len()).filter(|&at| wants[at] > 0.0).collect();
        order.sort_unstable_by(|&a, &b| wants[a].total_cmp(&wants[b]));
        let mut granted = vec![0.0; wants.len()];
        let mut left = capacity;
        for (served, &at) in order.iter().enumerate() {
            granted[at] = wants[at].min(left / (order.len() - served) as f64);
            left -= granted[at];
        }
        granted
    }

    /// The worked examples of schedbench's README: competitors that want half a CPU each, on
    /// four CPUs.
    #[test]
    fn five_who_want_half_a_cpu_of_four_get_it_and_ten_get_four_tenths() {
        assert_eq!(entitlements(&alike(&[0.5; 5], 1024.0), 4.0), [0.5; 5]);
        for granted in entitlements(&alike(&[0.5; 10], 1024.0), 4.0) {
            assert!((granted - 0.4).abs() < 1e-12, "{granted}");
        }
    }

    #[test]
    fn what_some_do_not_want_raises_the_share_of_the_others() {
        let cases: &[(&[f64], f64, &[f64])] = &[
            (&[0.25, 1.0, 1.0], 1.25, &[0.25, 0.5, 0.5]),
            (&[1.0, 0.25, 1.0], 1.25, &[0.5, 0.25, 0.5]),
            (&[0.5, 0.25], 4.0, &[0.5, 0.25]),
            (&[], 4.0, &[]),
            (&[1.0, 1.0], 0.0, &[0.0, 0.0]),
            (&[f64::NAN, -1.0, 1.0], 2.0, &[0.0, 0.0, 1.0]),
        ];
        for (wants, capacity, expected) in cases {
            let granted = entitlements(&alike(wants, 1024.0), *capacity);
            assert_eq!(granted, *expected, "{wants:?} of {capacity}");
        }
    }

    #[test]
    fn the_fair_share_is_in_proportion_to_weights() {
        type Case<'a> = (&'a [(f64, f64)], f64, &'a [f64]);
        let cases: &[Case] = &[
            (&[(1.0, 3.0), (1.0, 1.0)], 1.0, &[0.75, 0.25]),
            (&[(1.0, 1.0), (1.0, 3.0)], 1.0, &[0.25, 0.75]),
            // The heavy one does not want its part: the others share what it leaves.
            (&[(0.25, 6.0), (1.0, 1.0), (1.0, 2.0)], 1.0, &[0.25, 0.25, 0.5]),
            // Who wants the least is not who has enough: first comes the least for its weight.
            (&[(0.375, 1.0), (0.5, 3.0)], 0.75, &[0.25, 0.5]),
            (&[(1.0, 3.0), (1.0, 1.0)], 2.0, &[1.0, 1.0]),
            // A want ends at the pool's end, whatever the weight.
            (&[(1.0, 7.0), (1.0, 1.0), (1.0, 1.0)], 2.0, &[1.0, 0.5, 0.5]),
            (
                &[(1.0, 0.0), (1.0, f64::NAN), (1.0, f64::INFINITY), (1.0, -1.0), (1.0, 1.0)],
                2.0,
                &[0.0, 0.0, 0.0, 0.0, 1.0],
            ),
        ];
        for (pairs, capacity, expected) in cases {
            let granted = entitlements(&weighted(pairs), *capacity);
            assert_eq!(granted, *expected, "{pairs:?} of {capacity}");
        }
    }

    #[test]
    fn a_higher_rank_is_served_first_and_leaves_what_it_does_not_want() {
        let claim = |want, weight, rank| Claim { want, weight, rank };
        let cases: &[(&[Claim], f64, &[f64])] = &[
            (
                &[claim(1.0, 1.0, 0), claim(0.5, 1.0, 1), claim(1.0, 3.0, 0)],
                1.5,
                &[0.25, 0.5, 0.75],
            ),
            (
                &[claim(1.0, 88761.0, 0), claim(1.0, 1.0, 2), claim(1.0, 1.0, 1)],
                1.5,
                &[0.0, 1.0, 0.5],
            ),
            // Among themselves evenly.
            (&[claim(1.0, 9.0, 0), claim(1.0, 1.0, 7), claim(1.0, 1.0, 7)], 1.0, &[0.0, 0.5, 0.5]),
        ];
        for (claims, capacity, expected) in cases {
            assert_eq!(entitlements(claims, *capacity), *expected, "{claims:?} of {capacity}");
        }
    }

    #[test]
    fn a_share_is_told_against_what_was_due_and_not_against_nothing() {
        let competitors = |pairs: &[(f64, f64)]| -> Vec<Competitor> {
            let claim = |want| Claim { want, weight: 1024.0, rank: 0 };
            pairs.iter().map(|&(want, got)| Competitor { claim: claim(want), got }).collect()
        };
        type Case<'a> = (&'a [(f64, f64)], &'a [(f64, Option<f64>)]);
        let cases: &[Case] = &[
            (&[(1.0, 0.75), (1.0, 0.25)], &[(0.5, Some(1.5)), (0.5, Some(0.5))]),
            // Who wants little is owed little, and what it leaves is owed to the other.
            (&[(0.25, 0.25), (1.0, 0.375)], &[(0.25, Some(1.0)), (0.75, Some(0.5))]),
            (&[(0.0, 0.1), (0.5, 0.0)], &[(0.0, None), (0.5, Some(0.0))]),
            (&[(0.5, f64::NAN), (0.5, -1.0)], &[(0.5, None), (0.5, None)]),
            (&[], &[]),
        ];
        for (pairs, expected) in cases {
            let one = cpus("0");
            let told: Vec<(f64, Option<f64>)> =
                shares(&competitors(pairs), &vec![&one; pairs.len()])
                    .unwrap()
                    .iter()
                    .map(|share| (share.entitled, share.got_over_entitled))
                    .collect();
            assert_eq!(told, *expected, "{pairs:?}");
        }
    }

    fn cpus(text: &str) -> CpuSet {
        text.parse().unwrap()
    }

    #[test]
    fn who_is_held_to_few_cpus_shares_these_and_leaves_the_others_to_others() {
        // Claims (count, want, CPUs) of one weight, and what each of them is entitled to.
        type Case<'a> = (&'a [(usize, f64, &'a str)], &'a [f64]);
        let third = 1.0 / 3.0;
        let cases: &[Case] = &[
            (&[(4, 1.0, "0")], &[0.25]),
            (&[(2, 1.0, "0"), (2, 1.0, "1")], &[0.5, 0.5]),
            (&[(3, 1.0, "0"), (1, 1.0, "1")], &[third, 1.0]),
            // Who may use both leaves the one that is in demand.
            (&[(3, 1.0, "0"), (1, 1.0, "0-1")], &[third, 1.0]),
            (&[(1, 1.0, "0"), (3, 1.0, "0-1")], &[0.5, 0.5]),
            (&[(1, 0.25, "0"), (3, 1.0, "0-1")], &[0.25, 1.75 / 3.0]),
            // A chain: the middle ones go where the ends leave room.
            (
                &[(4, 1.0, "0"), (1, 1.0, "0-1"), (1, 1.0, "1-2"), (1, 1.0, "2")],
                &[0.25, 2.0 * third, 2.0 * third, 2.0 * third],
            ),
            // No pair is too much for its CPUs, all three are.
            (&[(2, 0.75, "0-1"), (2, 0.75, "1-2"), (2, 0.75, "0,2")], &[0.5, 0.5, 0.5]),
        ];
        for (groups, expected) in cases {
            let sets: Vec<CpuSet> = groups.iter().map(|(.., held)| cpus(held)).collect();
            let (mut claims, mut held_to, mut due) = (Vec::new(), Vec::new(), Vec::new());
            for ((&(count, want, _), set), &expected) in groups.iter().zip(&sets).zip(*expected) {
                claims.extend(alike(&vec![want; count], 1024.0));
                held_to.extend(vec![set; count]);
                due.extend(vec![expected; count]);
            }
            let granted = entitlements_on(&claims, &held_to).unwrap();
            let close = granted.iter().zip(&due).all(|(own, due)| (own - due).abs() < 1e-12);
            assert!(close, "{groups:?}: {granted:?}");
        }
    }

    #[test]
    fn ranks_and_weights_hold_within_what_each_may_use() {
        let (zero, both) = (cpus("0"), cpus("0-1"));
        let claim = |want, weight, rank| Claim { want, weight, rank };
        // The first goes before all on CPU 0; its like for fair ones is there by weight.
        let claims =
            [claim(0.5, 1.0, 7), claim(1.0, 3.0, 0), claim(1.0, 1.0, 0), claim(0.75, 1.0, 0)];
        let granted = entitlements_on(&claims, &[&zero, &zero, &zero, &both]).unwrap();
        assert_eq!(granted, [0.5, 0.375, 0.125, 0.75]);
    }

    #[test]
    fn more_ways_than_are_reckoned_with_are_told() {
        let sets: Vec<CpuSet> = (0..9).map(|cpu| [cpu].into_iter().collect()).collect();
        let held: Vec<&CpuSet> = sets.iter().collect();
        assert_eq!(entitlements_on(&alike(&[1.0; 9], 1.0), &held), None);
        assert_eq!(entitlements_on(&alike(&[1.0; 8], 1.0), &held[..8]), Some(vec![1.0; 8]));
    }

    #[test]
    fn the_largest_over_the_least() {
        let cases: &[(&[f64], Option<f64>)] = &[
            (&[3.0, 1.0, 2.0], Some(3.0)),
            (&[2.0, 2.0], Some(1.0)),
            (&[2.0], None),
            (&[2.0, 0.0], None),
            (&[2.0, f64::NAN], None),
            (&[2.0, f64::INFINITY], None),
            (&[-1.0, 2.0], None),
            (&[], None),
        ];
        for (values, expected) in cases {
            assert_eq!(max_over_min(values), *expected, "{values:?}");
        }
    }

    /// Wants of up to a CPU, the weights that the kernel gives to nice values and beyond.
    fn claims() -> impl Strategy<Value = Vec<Claim>> {
        let claim = (0.0f64..1.0, 1.0f64..100_000.0, 0u32..3)
            .prop_map(|(want, weight, rank)| Claim { want, weight, rank });
        proptest::collection::vec(claim, 0..40)
    }

    proptest! {
        #[test]
        fn who_all_got_their_due_have_a_jain_of_one_and_who_did_not_have_less(
            pairs in proptest::collection::vec((0.001f64..1.0, 1.0f64..100.0), 2..40),
            capacity in 1u32..16,
            taken in 0.05f64..0.9,
        ) {
            let claims = weighted(&pairs);
            let pool: CpuSet = (0..capacity).collect();
            let due = entitlements(&claims, f64::from(capacity));
            let index = |got: &[f64]| {
                let both = claims.iter().zip(got);
                let both = both.map(|(&claim, &got)| Competitor { claim, got });
                let shares = shares(&both.collect::<Vec<_>>(), &vec![&pool; claims.len()]);
                let shares = shares.unwrap();
                let ratios: Option<Vec<f64>> =
                    shares.iter().map(|share| share.got_over_entitled).collect();
                ratios.and_then(|ratios| crate::stats::jain(&ratios))
            };
            prop_assert!(index(&due).is_some_and(|index| index > 1.0 - 1e-12));
            let mut robbed = due.clone();
            robbed[0] *= 1.0 - taken;
            prop_assert!(index(&robbed).is_some_and(|index| index < 1.0 - 1e-6));
        }

        #[test]
        fn nothing_is_wasted_nobody_gets_more_than_wanted_and_the_rest_is_shared_by_weight(
            claims in claims(),
            capacity in 0.0f64..16.0,
        ) {
            let granted = entitlements(&claims, capacity);
            let mut left = capacity;
            for rank in (0..3).rev() {
                let own = || claims.iter().zip(&granted).filter(|(claim, _)| claim.rank == rank);
                let wanted: f64 = own().map(|(claim, _)| claim.want).sum();
                let sum: f64 = own().map(|(_, granted)| granted).sum();
                prop_assert!((sum - wanted.min(left)).abs() < 1e-9, "{sum} of {left}");
                left = (left - sum).max(0.0);
                let level = |(claim, granted): (&Claim, &f64)| granted / claim.weight;
                let share = own().map(level).fold(0.0, f64::max);
                for (claim, granted) in own() {
                    prop_assert!((0.0..=claim.want).contains(granted));
                    // Who got less than wanted got the fair share for its weight, and nobody
                    // got more than that.
                    let short = claim.want - granted > 1e-9;
                    prop_assert!(!short || share * claim.weight - granted < 1e-6);
                }
            }
        }

        /// The definition: what is granted can be had, and who wants more is among claims that
        /// use up all their CPUs, none of which has more for its weight or a lower rank.
        #[test]
        fn who_wants_more_is_held_up_by_claims_that_have_no_more_for_their_weight(
            held in proptest::collection::vec((proptest::collection::vec(0u32..5, 1..4), 0u32..2), 1..4),
            pairs in proptest::collection::vec((0.01f64..1.0, 1.0f64..100.0, 0usize..4), 1..12),
        ) {
            let sets: Vec<CpuSet> = held.iter().map(|(cpus, _)| cpus.iter().copied().collect()).collect();
            let of = |at: usize| at % sets.len();
            let claims: Vec<Claim> = pairs.iter()
                .map(|&(want, weight, set)| Claim { want, weight, rank: held[of(set)].1 }).collect();
            let held_to: Vec<&CpuSet> = pairs.iter().map(|&(.., set)| &sets[of(set)]).collect();
            let granted = entitlements_on(&claims, &held_to).unwrap();
            let mut held_up = vec![false; claims.len()];
            // Every choice of CPUs: who is held to these has no more than they are.
            for choice in 1u32..1 << 5 {
                let inside = |at: &usize| held_to[*at].iter().all(|cpu| choice & 1 << cpu != 0);
                let own: Vec<usize> = (0..claims.len()).filter(inside).collect();
                let sum: f64 = own.iter().map(|&at| granted[at]).sum();
                prop_assert!(sum <= f64::from(choice.count_ones()) + 1e-9);
                if sum < f64::from(choice.count_ones()) - 1e-9 {
                    continue;
                }
                let level = |at: usize| granted[at] / claims[at].weight;
                for &at in &own {
                    held_up[at] |= own.iter().all(|&other| {
                        granted[other] <= 1e-9
                            || claims[other].rank > claims[at].rank
                            || claims[other].rank == claims[at].rank && level(other) <= level(at) + 1e-9
                    });
                }
            }
            for (at, claim) in claims.iter().enumerate() {
                prop_assert!((0.0..=claim.want).contains(&granted[at]));
                prop_assert!(granted[at] >= claim.want - 1e-9 || held_up[at], "{at} of {claims:?}: {granted:?}");
            }
        }

        #[test]
        fn only_how_weights_compare_matters(
            claims in claims(),
            capacity in 0.0f64..16.0,
            factor in 0.001f64..1000.0,
        ) {
            let scaled: Vec<Claim> = claims.iter()
                .map(|claim| Claim { weight: factor * claim.weight, ..*claim }).collect();
            let both = entitlements(&claims, capacity).into_iter()
                .zip(entitlements(&scaled, capacity));
            for (own, scaled) in both {
                prop_assert!((own - scaled).abs() < 1e-9, "{own} {scaled}");
            }
        }

        #[test]
        fn equal_weights_are_as_if_there_were_none_to_the_last_bit(
            wants in proptest::collection::vec(0.0f64..1.0, 0..40),
            capacity in 0.0f64..16.0,
            weight in 0.001f64..100_000.0,
        ) {
            prop_assert_eq!(
                entitlements(&alike(&wants, weight), capacity),
                unweighted(&wants, capacity)
            );
        }

        #[test]
        fn twice_the_weight_is_two_workers(
            pairs in proptest::collection::vec((0.0f64..1.0, 1.0f64..100.0), 1..20),
            capacity in 0.0f64..16.0,
        ) {
            let whole = entitlements(&weighted(&pairs), capacity);
            let halves: Vec<(f64, f64)> = std::iter::repeat_n((pairs[0].0 / 2.0, pairs[0].1 / 2.0), 2)
                .chain(pairs[1..].iter().copied()).collect();
            let halved = entitlements(&weighted(&halves), capacity);
            prop_assert!((halved[0] + halved[1] - whole[0]).abs() < 1e-9);
            for (own, other) in whole[1..].iter().zip(&halved[2..]) {
                prop_assert!((own - other).abs() < 1e-9);
            }
        }
    }
}
