//! Who was entitled to how much of a pool of CPUs, and how evenly that was kept. Pure.
//!
//! A worker *wants* what it uses when it is alone, at most one CPU. Max-min fairness
//! (Bertsekas and Gallager, *Data Networks*, section 6.5.2) entitles it to its want or to the
//! fair share, whichever is less; what those who want less leave over raises the share of the
//! others, until the pool is used up or all wants are met.

/// Max-min fair entitlements of workers that want `wants` CPUs each, on `capacity` CPUs, in
/// the order of `wants`. Wants are at least 0; what is no number is entitled to nothing.
pub fn entitlements(wants: &[f64], capacity: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wants.len()).filter(|&at| wants[at] > 0.0).collect();
    order.sort_unstable_by(|&a, &b| wants[a].total_cmp(&wants[b]));
    let mut granted = vec![0.0; wants.len()];
    let mut left = capacity.max(0.0);
    // The least first: who wants less than an even share of the rest takes its want, and from
    // the first that wants more on all have the same.
    for (served, &at) in order.iter().enumerate() {
        let share = left / (order.len() - served) as f64;
        granted[at] = wants[at].min(share);
        left -= granted[at];
    }
    granted
}

/// A worker on a pool: what it wants, and what it got, in CPUs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Competitor {
    pub want: f64,
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
    let wants: Vec<f64> = competitors.iter().map(|competitor| competitor.want).collect();
    let share = |(competitor, entitled): (&Competitor, f64)| {
        let ratio = competitor.got / entitled;
        let known = entitled > 0.0 && ratio.is_finite() && ratio >= 0.0;
        Share { entitled, got_over_entitled: known.then_some(ratio) }
    };
    competitors.iter().zip(entitlements(&wants, capacity)).map(share).collect()
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

    /// The worked examples of schedbench's README: competitors that want half a CPU each, on
    /// four CPUs.
    #[test]
    fn five_who_want_half_a_cpu_of_four_get_it_and_ten_get_four_tenths() {
        assert_eq!(entitlements(&[0.5; 5], 4.0), [0.5; 5]);
        for granted in entitlements(&[0.5; 10], 4.0) {
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
            assert_eq!(entitlements(wants, *capacity), *expected, "{wants:?} of {capacity}");
        }
    }

    #[test]
    fn a_share_is_told_against_what_was_due_and_not_against_nothing() {
        let competitors = |pairs: &[(f64, f64)]| -> Vec<Competitor> {
            pairs.iter().map(|&(want, got)| Competitor { want, got }).collect()
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

    proptest! {
        #[test]
        fn who_all_got_their_due_have_a_jain_of_one_and_who_did_not_have_less(
            wants in proptest::collection::vec(0.001f64..1.0, 2..40),
            capacity in 0.1f64..16.0,
            taken in 0.05f64..0.9,
        ) {
            let due = entitlements(&wants, capacity);
            let index = |got: &[f64]| {
                let both = wants.iter().zip(got).map(|(&want, &got)| Competitor { want, got });
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
        fn nothing_is_wasted_nobody_gets_more_than_wanted_and_who_wants_more_gets_no_less(
            wants in proptest::collection::vec(0.0f64..1.0, 0..40),
            capacity in 0.0f64..16.0,
        ) {
            let granted = entitlements(&wants, capacity);
            let (wanted, sum) = (wants.iter().sum::<f64>(), granted.iter().sum::<f64>());
            prop_assert!((sum - wanted.min(capacity)).abs() < 1e-9, "{sum}");
            let share = granted.iter().copied().fold(0.0, f64::max);
            for (want, granted) in wants.iter().zip(&granted) {
                prop_assert!(granted <= want);
                // Who got less than wanted got the fair share, and nobody got more than that.
                prop_assert!((want - granted) < 1e-9 || (share - granted) < 1e-9);
            }
        }
    }
}
