//! Tests of entitlements and of the shares that sets got of them: worked examples and properties.

use proptest::prelude::*;

use super::*;

/// Entitlements on `capacity` CPUs that all may use.
fn entitlements(claims: &[Claim], capacity: f64) -> Vec<f64> {
    grant(claims, &vec![0; claims.len()], &[Union { classes: 1, cpus: capacity }])
}

/// Claims of one rank, by want and weight.
fn weighted(pairs: &[(f64, f64)]) -> Vec<Claim> {
    pairs.iter().map(|&(want, weight)| Claim { want, weight, rank: 0 }).collect()
}

fn alike(wants: &[f64], weight: f64) -> Vec<Claim> {
    wants.iter().map(|&want| Claim { want, weight, rank: 0 }).collect()
}

/// Entitlements without weights, as the book has them.
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
fn five_that_want_half_a_cpu_of_four_get_it_and_ten_get_four_tenths() {
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
        // The heavy one does not want its part: the others share the rest.
        (&[(0.25, 6.0), (1.0, 1.0), (1.0, 2.0)], 1.0, &[0.25, 0.25, 0.5]),
        // The smallest want need not be met first: the least want for its weight comes first.
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
        (&[claim(1.0, 1.0, 0), claim(0.5, 1.0, 1), claim(1.0, 3.0, 0)], 1.5, &[0.25, 0.5, 0.75]),
        (&[claim(1.0, 88761.0, 0), claim(1.0, 1.0, 2), claim(1.0, 1.0, 1)], 1.5, &[0.0, 1.0, 0.5]),
        // Among themselves evenly.
        (&[claim(1.0, 9.0, 0), claim(1.0, 1.0, 7), claim(1.0, 1.0, 7)], 1.0, &[0.0, 0.5, 0.5]),
    ];
    for (claims, capacity, expected) in cases {
        assert_eq!(entitlements(claims, *capacity), *expected, "{claims:?} of {capacity}");
    }
}

/// A set of workers on these CPUs, each with its want and the share that it got.
fn competing(held: &str, priority: Priority, workers: &[(f64, f64)]) -> CompetingSet {
    let worker = |&(want, got): &(f64, f64)| Competitor {
        want: Reading::Known(want),
        got: Reading::Known(got),
        rate: Reading::Known(100.0 * got),
    };
    CompetingSet {
        cgroup: None,
        cpus: Reading::Known(cpus(held)),
        priority,
        workers: workers.iter().map(worker).collect(),
        rate: Reading::Known(1.0),
        solo_rate: Reading::Known(2.0),
        is_want_measured: true,
    }
}

const NICE_0: Priority = Priority { weight: 1024.0, rank: 0 };

fn unknown<T>(why: &str) -> Reading<T> {
    Reading::Unknown(why.to_string())
}

#[test]
fn a_set_is_compared_with_what_it_was_entitled_to() {
    let known = Reading::Known::<f64>;
    // Each set: want and got of its worker; then entitled and got / entitled.
    type Case<'a> = (&'a [(f64, f64)], &'a [(f64, Reading<f64>)]);
    let nothing = || unknown("it is entitled to nothing");
    let cases: &[Case] = &[
        (&[(1.0, 0.75), (1.0, 0.25)], &[(0.5, known(1.5)), (0.5, known(0.5))]),
        // The other is entitled to the share that the first does not want.
        (&[(0.25, 0.25), (1.0, 0.375)], &[(0.25, known(1.0)), (0.75, known(0.5))]),
        (&[(0.0, 0.1), (0.5, 0.0)], &[(0.0, nothing()), (0.5, known(0.0))]),
        // A want above one CPU is one.
        (&[(3.0, 0.5), (1.0, 0.5)], &[(0.5, known(1.0)), (0.5, known(1.0))]),
    ];
    for (workers, expected) in cases {
        let sets: Vec<CompetingSet> =
            workers.iter().map(|worker| competing("0", NICE_0, &[*worker])).collect();
        let found = fairness(&sets, &[]).sets;
        let found: Vec<_> =
            found.into_iter().map(|set| (set.entitled, set.got_over_entitled)).collect();
        let expected: Vec<_> =
            expected.iter().map(|(entitled, ratio)| (known(*entitled), ratio.clone())).collect();
        assert_eq!(found, expected, "{workers:?}");
    }
}

#[test]
fn what_a_cgroup_is_granted_is_shared_in_it() {
    let cgroup = |parent, weight, max| CompetingCgroup { parent, weight, max };
    let [web, front, db] = [(None, 1024.0), (Some(0), 512.0), (None, 2048.0)]
        .map(|(parent, weight)| cgroup(parent, weight, f64::INFINITY));
    let capped = CompetingCgroup { max: 0.25, ..db };
    // Cgroups; each set's cgroup and the wants of its workers; the entitlement of each set's worker.
    type Case<'a> = (&'a [CompetingCgroup], &'a [(Option<usize>, &'a [f64])], &'a [f64]);
    let cases: &[Case] = &[
        // One CPU: web has a third; its worker gets two thirds of that, and web/front one.
        (
            &[web, front, db],
            &[(Some(0), &[1.0]), (Some(1), &[1.0]), (Some(2), &[1.0, 1.0])],
            &[2.0 / 9.0, 1.0 / 9.0, 1.0 / 3.0],
        ),
        // A worker next to cgroups is one of their siblings.
        (&[web, front], &[(None, &[1.0]), (Some(1), &[1.0])], &[0.5, 0.5]),
        // The share that a worker does not want goes to the next one in its cgroup first.
        (
            &[web, front, db],
            &[(Some(0), &[0.1]), (Some(1), &[1.0]), (Some(2), &[1.0])],
            &[0.1, 1.0 / 3.0 - 0.1, 2.0 / 3.0],
        ),
        (&[web, front, capped], &[(Some(0), &[1.0]), (Some(2), &[1.0])], &[0.75, 0.25]),
    ];
    for (cgroups, sets, expected) in cases {
        let set = |(cgroup, wants): &(Option<usize>, &[f64])| {
            let workers: Vec<(f64, f64)> = wants.iter().map(|want| (*want, 0.5)).collect();
            CompetingSet { cgroup: *cgroup, ..competing("0", NICE_0, &workers) }
        };
        let sets: Vec<CompetingSet> = sets.iter().map(set).collect();
        let found = fairness(&sets, cgroups).sets;
        let found: Vec<f64> = found.into_iter().filter_map(|set| set.entitled.known()).collect();
        assert_eq!(found.len(), expected.len(), "{cgroups:?}");
        let is_near = |(found, expected): (&f64, &f64)| (found - expected).abs() < 1e-12;
        assert!(found.iter().zip(*expected).all(is_near), "{found:?} for {expected:?}");
    }
    let elsewhere = CompetingSet { cgroup: Some(0), ..competing("1", NICE_0, &[(1.0, 1.0)]) };
    let two = [competing("0", NICE_0, &[(1.0, 1.0)]), elsewhere];
    assert_eq!(
        fairness(&two, &[web]).sets[0].entitled,
        unknown("sets in cgroups may use different CPUs")
    );
}

#[test]
fn figures_of_a_set_are_means_over_its_workers() {
    let sets = [
        competing("0-1", NICE_0, &[(1.0, 0.75), (0.5, 0.25)]),
        CompetingSet { is_want_measured: false, ..competing("0,2", NICE_0, &[(1.0, 0.1)]) },
    ];
    let found = fairness(&sets, &[]);
    assert_eq!(found.cpus, Reading::Known(3));
    let SetShare { want, entitled, got, got_over_entitled, throughput_vs_solo, max_over_min } =
        &found.sets[0];
    let known = Reading::Known::<f64>;
    assert_eq!([want, entitled, got], [&known(0.75), &known(0.75), &known(0.5)]);
    assert_eq!([got_over_entitled, throughput_vs_solo], [&known(2.0 / 3.0), &known(0.5)]);
    assert_eq!(max_over_min, &known(3.0));
    assert_eq!(found.sets[1].max_over_min, unknown("one worker: nothing to compare"));
    // Computed from 0.75 and 0.5; the assumed want is left out: 1.25^2 / (2 * 0.8125).
    let Reading::Known(jain) = found.jain else { panic!("{:?}", found.jain) };
    assert!((jain - 1.5625 / 1.625).abs() < 1e-12, "{jain}");
}

#[test]
fn one_unknown_want_or_unknown_cpus_leave_every_entitlement_unknown_and_nothing_else() {
    let whole = || [competing("0", NICE_0, &[(0.5, 0.5)]), competing("0", NICE_0, &[(0.5, 0.5)])];
    let mut want = whole();
    want[1].workers[0].want = unknown("no want");
    let mut placed = whole();
    placed[1].cpus = unknown("no CPUs");
    let mut ways: Vec<CompetingSet> =
        (0..9).map(|cpu| competing(&cpu.to_string(), NICE_0, &[(0.5, 0.5)])).collect();
    let many = "the sets may use different CPUs in more than 8 ways";
    for (sets, why) in [(&want[..], "no want"), (&placed, "no CPUs"), (&ways, many)] {
        let found = fairness(sets, &[]);
        assert_eq!(found.jain, unknown(why));
        for set in &found.sets {
            assert_eq!((&set.entitled, &set.got_over_entitled), (&unknown(why), &unknown(why)));
            assert_eq!(set.got, Reading::Known(0.5));
        }
        assert_eq!(found.sets[0].want, Reading::Known(0.5));
    }
    assert_eq!(fairness(&placed, &[]).cpus, unknown("no CPUs"));
    ways.pop();
    assert_eq!(fairness(&ways, &[]).jain, Reading::Known(1.0));
}

#[test]
fn what_a_worker_got_or_did_may_be_unknown() {
    let mut sets = [competing("0-1", NICE_0, &[(0.5, 0.5), (0.5, 0.0)])];
    assert_eq!(fairness(&sets, &[]).sets[0].max_over_min, unknown(COMPLETED_NOTHING));
    sets[0].workers[0].got = unknown("not read");
    sets[0].workers[1].rate = unknown("not counted");
    sets[0].solo_rate = Reading::Known(0.0);
    let found = fairness(&sets, &[]);
    let set = &found.sets[0];
    assert_eq!([&found.jain, &set.got], [&unknown("not read"), &unknown("not read")]);
    assert_eq!(set.entitled, Reading::Known(0.5));
    assert_eq!(set.max_over_min, unknown("not counted"));
    assert_eq!(set.throughput_vs_solo, unknown(NO_SOLO_OPERATIONS));
}

fn cpus(text: &str) -> CpuSet {
    text.parse().unwrap()
}

#[test]
fn claims_share_the_cpus_that_they_may_use() {
    // Claims (count, want, CPUs) of one weight, and what each of them is entitled to.
    type Case<'a> = (&'a [(usize, f64, &'a str)], &'a [f64]);
    let third = 1.0 / 3.0;
    let cases: &[Case] = &[
        (&[(4, 1.0, "0")], &[0.25]),
        (&[(2, 1.0, "0"), (2, 1.0, "1")], &[0.5, 0.5]),
        (&[(3, 1.0, "0"), (1, 1.0, "1")], &[third, 1.0]),
        // A worker that may use both leaves the CPU that is in demand.
        (&[(3, 1.0, "0"), (1, 1.0, "0-1")], &[third, 1.0]),
        (&[(1, 1.0, "0"), (3, 1.0, "0-1")], &[0.5, 0.5]),
        (&[(1, 0.25, "0"), (3, 1.0, "0-1")], &[0.25, 1.75 / 3.0]),
        // A chain: the middle ones go where the ends leave room.
        (
            &[(4, 1.0, "0"), (1, 1.0, "0-1"), (1, 1.0, "1-2"), (1, 1.0, "2")],
            &[0.25, 2.0 * third, 2.0 * third, 2.0 * third],
        ),
        // No pair exceeds its CPUs, but all three do.
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
    let claims = [claim(0.5, 1.0, 7), claim(1.0, 3.0, 0), claim(1.0, 1.0, 0), claim(0.75, 1.0, 0)];
    let granted = entitlements_on(&claims, &[&zero, &zero, &zero, &both]).unwrap();
    assert_eq!(granted, [0.5, 0.375, 0.125, 0.75]);
}

#[test]
fn more_than_eight_ways_of_placement_are_refused() {
    let sets: Vec<CpuSet> = (0..9).map(|cpu| [cpu].into_iter().collect()).collect();
    let held: Vec<&CpuSet> = sets.iter().collect();
    assert_eq!(entitlements_on(&alike(&[1.0; 9], 1.0), &held), None);
    assert_eq!(entitlements_on(&alike(&[1.0; 8], 1.0), &held[..8]), Some(vec![1.0; 8]));
}

#[test]
fn the_largest_over_the_smallest() {
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
    let claim = (0.0f64..1.0, 1.0f64..100_000.0, 0u32..3).prop_map(|(want, weight, rank)| Claim {
        want,
        weight,
        rank,
    });
    proptest::collection::vec(claim, 0..40)
}

proptest! {
    #[test]
    fn jain_is_one_where_all_got_their_entitlement_and_less_elsewhere(
        pairs in proptest::collection::vec((0.001f64..1.0, 1.0f64..100.0), 2..40),
        capacity in 1u32..16,
        taken in 0.05f64..0.9,
    ) {
        let claims = weighted(&pairs);
        let pool: CpuSet = (0..capacity).collect();
        let due = entitlements(&claims, f64::from(capacity));
        let index = |got: &[f64]| {
            let set = |(claim, &got): (&Claim, &f64)| CompetingSet {
                cpus: Reading::Known(pool.clone()),
                ..competing("0", Priority { weight: claim.weight, rank: 0 }, &[(claim.want, got)])
            };
            fairness(&claims.iter().zip(got).map(set).collect::<Vec<_>>(), &[]).jain.known()
        };
        prop_assert!(index(&due).is_some_and(|index| index > 1.0 - 1e-12));
        let mut robbed = due.clone();
        robbed[0] *= 1.0 - taken;
        prop_assert!(index(&robbed).is_some_and(|index| index < 1.0 - 1e-6));
    }

    #[test]
    fn cpus_are_used_up_no_grant_exceeds_its_want_and_the_rest_is_shared_by_weight(
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
                // A worker that got less than it wanted got the fair share for its weight, and nobody got more than
                // that.
                let short = claim.want - granted > 1e-9;
                prop_assert!(!short || share * claim.weight - granted < 1e-6);
            }
        }
    }

    /// The definition: the grants are possible, and a worker that wants more is among claims that use up all their
    /// CPUs, none of which has more for its weight or a lower rank.
    #[test]
    fn a_claim_below_its_want_is_limited_by_claims_of_no_higher_level(
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
    fn equal_weights_give_the_same_bits_as_no_weights(
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
