//! A scenario of a hunt on several kernels: the rules that it breaks, and the rules whose figures differ.

use super::hunt_run::{Distances, Fault, Judged, NEAR};

/// A difference is so many times what other kernels come to.
const TIMES: f64 = 1.25;

/// How clear a difference is between a distance on a kernel and the largest on the others: 1 and more is one.
pub fn contrast(own: f64, others: f64) -> f64 {
    own / (TIMES * others).max(NEAR)
}

/// The runs that differ from those on other kernels, which come to `others` at most; none, where they are less than half
/// of all that were judged. Where two kernels do the same, the four furthest of sixteen runs are all on the one that a hunt
/// looks at with 4 % at most.
pub fn differing(mut shown: Vec<Judged>, judged: u32, others: f64) -> Vec<Judged> {
    shown.retain(|own| contrast(own.judgement.distance, others) >= 1.0);
    if 2 * shown.len() < judged as usize {
        shown.clear();
    }
    shown
}

/// A scenario that has a fault on a kernel.
pub struct Hit {
    pub case: usize,
    pub fault: Fault,
    /// Position of the kernel.
    pub at: usize,
}

/// The distances of a scenario on each kernel; `None`: its run gave no result.
pub struct Compared {
    pub case: usize,
    pub kernels: Vec<Option<Distances>>,
}

impl Compared {
    /// The gravest rule that each kernel breaks.
    pub fn broken(&self) -> Vec<Hit> {
        let hit = |(at, distances): (usize, &Option<Distances>)| {
            let (rule, _) = distances.iter().flatten().find(|(_, distance)| *distance >= 1.0)?;
            Some(Hit { case: self.case, fault: Fault::Broken(rule), at })
        };
        self.kernels.iter().enumerate().filter_map(hit).collect()
    }

    pub fn nearest(&self) -> f64 {
        largest(self.kernels.iter().flatten().flatten().map(|(_, distance)| *distance))
    }

    /// The gravest rule in which a kernel differs from all others.
    pub fn differing(&self) -> Vec<Hit> {
        let hit = |at: usize| {
            let (rule, _) = self.contrasts(at).find(|(_, contrast)| *contrast >= 1.0)?;
            Some(Hit { case: self.case, fault: Fault::Differs(rule), at })
        };
        (0..self.kernels.len()).filter_map(hit).collect()
    }

    /// How near the kernels are to a difference: 0 for kernels that do the same, 1 for one.
    pub fn nearest_difference(&self) -> f64 {
        let contrasts = (0..self.kernels.len()).flat_map(|at| self.contrasts(at));
        let same = 1.0 / TIMES;
        largest(contrasts.map(|(_, contrast)| (contrast - same) / (1.0 - same)))
    }

    /// How clearly a kernel differs from all others by each rule that could judge the scenario on all.
    fn contrasts(&self, at: usize) -> impl Iterator<Item = (&'static str, f64)> + '_ {
        self.kernels[at].iter().flatten().filter_map(move |(rule, distance)| {
            let others = self.kernels.iter().enumerate().filter(|(other, _)| *other != at);
            let same = others.map(|(_, distances)| {
                let mut all = distances.iter().flatten();
                all.find(|(other, _)| other == rule).map(|(_, distance)| *distance)
            });
            let same: Option<Vec<f64>> = same.collect();
            Some((*rule, contrast(*distance, largest(same?.into_iter()))))
        })
    }
}

/// 0 where there is none.
fn largest(distances: impl Iterator<Item = f64>) -> f64 {
    distances.fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compared(kernels: &[&[(&'static str, f64)]]) -> Compared {
        let kernels = kernels.iter().map(|distances| Some(distances.to_vec()));
        Compared { case: 7, kernels: kernels.collect() }
    }

    #[test]
    fn a_difference_is_near_a_bound_and_a_quarter_further_than_elsewhere() {
        for (own, others, differs) in
            [(0.5, 0.4, true), (0.49, 0.4, false), (0.4, 0.0, true), (0.39, 0.0, false)]
        {
            assert_eq!(contrast(own, others) >= 1.0, differs, "{own} {others}");
        }
    }

    #[test]
    fn the_kernel_that_comes_nearer_to_a_bound_differs_by_that_rule() {
        let mut compared = compared(&[
            &[("starvation", 0.6), ("fair shares", 0.6)],
            &[("starvation", 0.7), ("fair shares", 0.8)],
            &[("fair shares", 0.3)],
        ]);
        let hits = compared.differing();
        let hits: Vec<_> = hits.iter().map(|hit| (hit.case, hit.fault, hit.at)).collect();
        assert_eq!(hits, [(7, Fault::Differs("fair shares"), 1)]);
        assert!(compared.broken().is_empty());
        assert_eq!(compared.nearest(), 0.8);
        compared.kernels[0] = Some(vec![("starvation", 0.0)]);
        assert!(compared.differing().is_empty(), "fair shares could not be judged");
        compared.kernels[0] = None;
        assert!(compared.differing().is_empty());
        assert_eq!(compared.nearest_difference(), 0.0);
    }

    #[test]
    fn kernels_that_do_the_same_are_far_from_a_difference() {
        let nearest = |first: f64, second: f64| {
            compared(&[&[("fair shares", first)], &[("fair shares", second)]]).nearest_difference()
        };
        assert_eq!(nearest(0.7, 0.7), 0.0);
        assert!((nearest(0.88, 0.8) - 0.4).abs() < 1e-9, "{}", nearest(0.88, 0.8));
        assert!(nearest(1.0, 0.8) >= 1.0);
    }

    #[test]
    fn half_of_all_runs_have_to_differ() {
        let runs = |distances: &[f64]| -> Vec<Judged> {
            distances.iter().map(|distance| Judged::invented(*distance)).collect()
        };
        let kept = |distances: &[f64], others| differing(runs(distances), 4, others).len();
        assert_eq!(kept(&[0.5, 1.0, 0.41], 0.0), 3);
        assert_eq!(kept(&[0.5, 1.0, 0.41], 0.4), 2);
        assert_eq!(kept(&[0.5, 1.0, 0.41], 0.5), 0, "one alone is chance");
    }

    #[test]
    fn the_gravest_broken_rule_is_the_hit() {
        let hits = compared(&[&[("starvation", 1.0), ("fair shares", 2.0)]]).broken();
        let hits: Vec<_> = hits.iter().map(|hit| (hit.fault, hit.at)).collect();
        assert_eq!(hits, [(Fault::Broken("starvation"), 0)]);
    }
}
