//! Who was entitled to how much of a pool of CPUs, and how evenly that was kept. Pure.
//!
//! A worker *wants* what it uses when it is alone, at most one CPU. Max-min fairness
//! (Bertsekas and Gallager, *Data Networks*, section 6.5.2) entitles it to its want or to the
//! fair share, whichever is less; what those who want less leave over raises the share of the
//! others, until the pool is used up or all wants are met. Here the fair share is in proportion
//! to weights, as if who has twice the weight were two: weighted water filling. And who has a
//! higher rank is served first.

use std::collections::BTreeSet;

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

/// Weighted max-min fair entitlements in CPUs, on `capacity` CPUs, in the order of `claims`.
pub fn entitlements(claims: &[Claim], capacity: f64) -> Vec<f64> {
    let mut granted = vec![0.0; claims.len()];
    let mut left = capacity.max(0.0);
    let counting = || (0..claims.len()).filter(|&at| claims[at].counts());
    let ranks: BTreeSet<u32> = counting().map(|at| claims[at].rank).collect();
    for rank in ranks.into_iter().rev() {
        let members = counting().filter(|&at| claims[at].rank == rank).collect();
        left = serve(claims, members, left, &mut granted);
    }
    granted
}

/// Grants the `members` their part of `left` CPUs; what is left after that.
fn serve(claims: &[Claim], mut members: Vec<usize>, mut left: f64, granted: &mut [f64]) -> f64 {
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
    // Who wants the least for its weight first: who wants less than its part of the rest takes
    // its want, and from the first that wants more on all have the same for their weight.
    for (&at, remainder) in members.iter().zip(remainders.iter().rev()) {
        let share = left * weight(at) / remainder;
        granted[at] = claims[at].want.min(share);
        left = (left - granted[at]).max(0.0);
    }
    left
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

/// The share of each competitor for a pool of `capacity` CPUs, in their order.
pub fn shares(competitors: &[Competitor], capacity: f64) -> Vec<Share> {
    let claims: Vec<Claim> = competitors.iter().map(|competitor| competitor.claim).collect();
    let share = |(competitor, entitled): (&Competitor, f64)| {
        let ratio = competitor.got / entitled;
        let known = entitled > 0.0 && ratio.is_finite() && ratio >= 0.0;
        Share { entitled, got_over_entitled: known.then_some(ratio) }
    };
    competitors.iter().zip(entitlements(&claims, capacity)).map(share).collect()
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
        type Case<'a> = (&'a [(f64, f64)], f64, &'a [(f64, Option<f64>)]);
        let cases: &[Case] = &[
            (&[(1.0, 0.75), (1.0, 0.25)], 1.0, &[(0.5, Some(1.5)), (0.5, Some(0.5))]),
            // Who wants little is owed little, and what it leaves is owed to the other.
            (&[(0.25, 0.25), (1.0, 0.375)], 1.0, &[(0.25, Some(1.0)), (0.75, Some(0.5))]),
            (&[(0.0, 0.1), (0.5, 0.0)], 1.0, &[(0.0, None), (0.5, Some(0.0))]),
            (&[(0.5, f64::NAN), (0.5, -1.0)], 1.0, &[(0.5, None), (0.5, None)]),
            (&[], 1.0, &[]),
        ];
        for (pairs, capacity, expected) in cases {
            let told: Vec<(f64, Option<f64>)> = shares(&competitors(pairs), *capacity)
                .iter()
                .map(|share| (share.entitled, share.got_over_entitled))
                .collect();
            assert_eq!(told, *expected, "{pairs:?} of {capacity}");
        }
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
            capacity in 0.1f64..16.0,
            taken in 0.05f64..0.9,
        ) {
            let claims = weighted(&pairs);
            let due = entitlements(&claims, capacity);
            let index = |got: &[f64]| {
                let both = claims.iter().zip(got);
                let both = both.map(|(&claim, &got)| Competitor { claim, got });
                let shares = shares(&both.collect::<Vec<_>>(), capacity);
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
