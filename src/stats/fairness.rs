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

    proptest! {
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
