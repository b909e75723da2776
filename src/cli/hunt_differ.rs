//! A scenario of a hunt on several kernels: the rules that it breaks, and the rules whose figures differ.

use super::hunt_run::{Fault, Judged, NEAR};

/// A difference is so many times what other kernels come to.
const TIMES: f64 = 1.25;
/// Added to the seed of a hunt: a case that was made smaller with some seeds has to hold with others.
pub const OTHER_SEEDS: u64 = 1_000_000;

/// How clear a difference is between a distance on a kernel and the largest on the others: 1 and more is one.
pub fn contrast(own: f64, others: f64) -> f64 {
    own / (TIMES * others).max(NEAR)
}

/// Whether these are half of the judged runs. Where two kernels do the same, the four furthest of sixteen runs are all on
/// the one that a hunt looks at with 4 %.
pub fn are_enough(shown: &[(u64, Judged)], judged: u32) -> bool {
    judged > 0 && 2 * shown.len() >= judged as usize
}

/// The runs that differ from those on other kernels, which come to `others` at most; none, where they are too few.
pub fn differing(mut shown: Vec<(u64, Judged)>, judged: u32, others: f64) -> Vec<(u64, Judged)> {
    shown.retain(|(_, own)| contrast(own.judgement.distance, others) >= 1.0);
    if !are_enough(&shown, judged) {
        return Vec::new();
    }
    if let Some((_, first)) = shown.first_mut() {
        let own = first.judgement.distance;
        first.text += &format!(
            "; that is {own:.2} of the rule's bound, and on other kernels runs come to {others:.2} at most"
        );
    }
    shown
}

/// A scenario that has a fault on these kernels, by their positions.
pub struct Hit {
    pub case: usize,
    pub fault: Fault,
    pub kernels: Vec<usize>,
}

/// The rules that have something to say of a run, the gravest first, with its distance from their bounds.
pub type Distances = Vec<(&'static str, f64)>;

/// The distances of a scenario on each kernel; `None`: its run gave no result.
pub struct Compared {
    pub case: usize,
    pub kernels: Vec<Option<Distances>>,
}

impl Compared {
    /// The gravest broken rule of each kernel, once for all kernels that break it.
    pub fn broken(&self) -> Vec<Hit> {
        let mut hits: Vec<Hit> = Vec::new();
        for (at, distances) in self.kernels.iter().enumerate() {
            let broken = distances.iter().flatten().find(|(_, distance)| *distance >= 1.0);
            let Some((rule, _)) = broken else { continue };
            let fault = Fault::Broken(rule);
            match hits.iter_mut().find(|hit| hit.fault == fault) {
                Some(hit) => hit.kernels.push(at),
                None => hits.push(Hit { case: self.case, fault, kernels: vec![at] }),
            }
        }
        hits
    }

    pub fn nearest(&self) -> f64 {
        largest(self.kernels.iter().flatten().flatten().map(|(_, distance)| *distance))
    }

    /// The gravest rule in which a kernel differs from all others.
    pub fn differing(&self) -> Vec<Hit> {
        let hit = |at: usize| {
            let (rule, _) = self.contrasts(at).find(|(_, contrast)| *contrast >= 1.0)?;
            Some(Hit { case: self.case, fault: Fault::Differs(rule), kernels: vec![at] })
        };
        (0..self.kernels.len()).filter_map(hit).collect()
    }

    pub fn nearest_difference(&self) -> f64 {
        let contrasts = (0..self.kernels.len()).flat_map(|at| self.contrasts(at));
        largest(contrasts.map(|(_, contrast)| contrast))
    }

    /// How clearly a kernel differs from all others by each rule; nothing, where a kernel gave no result.
    fn contrasts(&self, at: usize) -> impl Iterator<Item = (&'static str, f64)> + '_ {
        let is_whole = self.kernels.iter().all(Option::is_some);
        let own = self.kernels[at].iter().filter(move |_| is_whole).flatten();
        own.map(move |(rule, distance)| {
            let others = self.kernels.iter().enumerate().filter(|(other, _)| *other != at);
            let others = others.flat_map(|(_, distances)| distances.iter().flatten());
            let same = others.filter(|(other, _)| other == rule).map(|(_, distance)| *distance);
            (*rule, contrast(*distance, largest(same)))
        })
    }
}

/// 0 where there is none: a rule that has nothing to say is far from its bound.
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
        let hits: Vec<_> =
            hits.iter().map(|hit| (hit.case, hit.fault, hit.kernels.as_slice())).collect();
        assert_eq!(hits, [(7, Fault::Differs("fair shares"), &[1][..])]);
        assert!(compared.broken().is_empty());
        assert_eq!(compared.nearest(), 0.8);
        compared.kernels[0] = None;
        assert!(compared.differing().is_empty());
        assert_eq!(compared.nearest_difference(), 0.0);
    }

    #[test]
    fn a_rule_that_two_kernels_break_is_one_hit() {
        let both: &[_] = &[("starvation", 1.0), ("fair shares", 2.0)];
        let hits = compared(&[both, &[("fair shares", 1.0)], both]).broken();
        let hits: Vec<_> = hits.iter().map(|hit| (hit.fault, hit.kernels.as_slice())).collect();
        let expected =
            [(Fault::Broken("starvation"), &[0, 2][..]), (Fault::Broken("fair shares"), &[1][..])];
        assert_eq!(hits, expected);
    }
}
