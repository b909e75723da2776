//! Scenarios at random: the same seed gives the same ones. A part of them are changes of such as came near the bound
//! of a rule, or made the kernel execute other code. Pure.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use crate::model::CpuSet;

use super::case::{
    Case, Change, Clamp, DURATION_MS, Group, LaterWeight, Load, Machine, OffCpus, Policy, Tasks,
};

const MAX_SETS: u32 = 4;
const MAX_COUNT: u32 = 6;
/// A fork is executed, instruction by instruction: six tasks that fork take a minute of a CPU.
const MAX_FORKING: u32 = 2;
/// Cgroups of a case, without those that hold them: a plan of 16 cases has at most 64 with them.
const MAX_GROUPS: usize = 3;
const WEIGHTS: [u32; 8] = [1, 7, 25, 60, 150, 400, 1500, 10_000];
/// In percent of a CPU.
const LIMITS: [u32; 2] = [50, 150];
/// One that is shorter than the kernel's own, and one that is longer than its tick.
const SLICES_US: [u32; 2] = [100, 20_000];
const NICES: [i32; 4] = [-10, -5, 5, 10];
/// Scenarios that are kept to be changed.
const MAX_NEAR: usize = 8;
/// Variations of each: one that came near by chance would take them all, since no other comes nearer.
const MAX_VARIATIONS: u32 = 12;
/// Draws of a variation until it is another scenario.
const MAX_DRAWS: u32 = 8;
/// A scenario further from all bounds is no better than a new one.
const MIN_DISTANCE: f64 = 0.3;

pub struct Generator {
    random: ChaCha8Rng,
    machine: Machine,
    is_of_sched_ext: bool,
    has_slices: bool,
    has_clamps: bool,
    /// The cases that came nearest to a bound, the nearest first.
    near: Vec<Near>,
    /// The last cases that executed new code, the last one first.
    new: Vec<Near>,
}

/// Things that sets of a case may have in common.
struct Common {
    groups: Vec<Group>,
    cpus: Vec<Option<CpuSet>>,
    mix: Mix,
}

/// How many sets of a case are of a kind. Each case has its own mix: several sets alike are rare where each is drawn by
/// itself.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Mix {
    in_cgroups: Part,
    /// On CPUs that they have in common.
    together: Part,
    /// With a load that sleeps or yields, which the first set never has.
    restless: Part,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Part {
    None,
    Half,
    All,
}

/// A case that is worth variations.
struct Near {
    /// From the bound of a rule.
    distance: f64,
    case: Case,
    /// The number of variations that it has had.
    variations: u32,
}

impl Generator {
    /// `done`: scenarios of the hunts that this one goes on with.
    pub fn new(seed: u64, done: u64, machine: Machine) -> Generator {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        key[8..16].copy_from_slice(&done.to_le_bytes());
        key[16..20].copy_from_slice(&machine.cpus.to_le_bytes());
        key[20..24].copy_from_slice(&machine.llcs.to_le_bytes());
        key[24..28].copy_from_slice(&machine.nodes.to_le_bytes());
        key[28..32].copy_from_slice(&machine.threads.to_le_bytes());
        Generator {
            random: ChaCha8Rng::from_seed(key),
            machine,
            is_of_sched_ext: false,
            has_slices: false,
            has_clamps: false,
            near: Vec::new(),
            new: Vec::new(),
        }
    }

    /// The machine of all its cases.
    pub fn machine(&self) -> Machine {
        self.machine
    }

    /// Cases without what schedulers of sched_ext need not or cannot cope with: limits of cgroups, and real-time tasks that
    /// never sleep, which starve tasks that wait for their CPU until the kernel throws the scheduler out.
    pub fn for_sched_ext(self) -> Generator {
        Generator { is_of_sched_ext: true, ..self }
    }

    /// Cases with slices of their own, which tasks have since Linux 6.12.
    pub fn with_slices(self) -> Generator {
        Generator { has_slices: true, ..self }
    }

    /// Cases with clamps of utilisation, which not every kernel has.
    pub fn with_clamps(self) -> Generator {
        Generator { has_clamps: true, ..self }
    }

    /// Remembers a case that did not hold as a fault: `distance` is below 1, the bound.
    pub fn came_near(&mut self, case: &Case, distance: f64) {
        if distance < MIN_DISTANCE || self.near.iter().any(|own| own.case == *case) {
            return;
        }
        // A newer case takes the place of one that came as near.
        let at = self.near.partition_point(|own| own.distance > distance);
        self.near.insert(at, Near { distance, case: case.clone(), variations: 0 });
        self.near.truncate(MAX_NEAR);
    }

    /// Remembers a case that made the kernel execute code of its scheduler which none did before. Such cases become rare, so
    /// a newer one takes the place of the oldest.
    pub fn reached_new_code(&mut self, case: &Case) {
        if !self.new.iter().any(|own| own.case == *case) {
            self.new.insert(0, Near { distance: 0.0, case: case.clone(), variations: 0 });
            self.new.truncate(MAX_NEAR);
        }
    }

    pub fn next_case(&mut self) -> Case {
        let has_parents = !self.near.is_empty() || !self.new.is_empty();
        let varied = if has_parents && self.below(2) == 0 { self.variation() } else { None };
        varied.unwrap_or_else(|| self.drawn())
    }

    /// Another case that is like one of those that came near or executed new code: of either kind if there are both.
    fn variation(&mut self) -> Option<Case> {
        let is_new = self.near.is_empty() || !self.new.is_empty() && self.below(2) == 0;
        let kept = if is_new { self.new.len() } else { self.near.len() };
        let at = self.below(kept as u32) as usize;
        let kept = if is_new { &mut self.new } else { &mut self.near };
        kept[at].variations += 1;
        let case = match kept[at].variations {
            MAX_VARIATIONS => kept.remove(at).case,
            _ => kept[at].case.clone(),
        };
        (0..MAX_DRAWS).map(|_| self.changed(case.clone())).find(|changed| *changed != case)
    }

    fn drawn(&mut self) -> Case {
        let count = 1 + self.below(MAX_SETS);
        let mut groups = [self.group(), self.group()];
        if self.below(2) == 0 {
            groups[1].outer = groups[0].outer;
        }
        let cpus = vec![self.cpus(), self.cpus()];
        let common = Common { groups: groups.to_vec(), cpus, mix: self.mix() };
        let sets = (0..count).map(|at| self.tasks(at == 0, &common)).collect();
        let offline = (self.below(5) == 0).then(|| self.offline());
        self.allowed(Case { sets, offline })
    }

    /// One set of it is drawn again, is one more or is left out, or one thing about it is another, or the CPUs that are
    /// off.
    fn changed(&mut self, mut case: Case) -> Case {
        let at = self.below(case.sets.len() as u32) as usize;
        let mut groups: Vec<Group> = case.sets.iter().filter_map(|set| set.cgroup).collect();
        groups.push(self.group());
        let cpus = case.sets.iter().map(|set| set.cpus.clone()).collect();
        let mix = self.mix();
        let other = self.tasks(at == 0, &Common { groups, cpus, mix });
        let sets = case.sets.len();
        let set = &mut case.sets[at];
        match self.below(14) {
            0 if sets < MAX_SETS as usize => case.sets.push(other),
            1 if at > 0 => _ = case.sets.remove(at),
            2 => case.offline = Some(self.offline()),
            3 | 4 => set.count = other.count,
            5 | 6 => set.cpus = other.cpus,
            7 => set.cgroup = other.cgroup,
            8 | 9 => set.change = Some(self.change(&set.cpus)),
            10 => (set.nice, set.policy) = (other.nice, other.policy),
            11 => (set.load, set.slice_us) = (other.load, other.slice_us),
            _ => *set = other,
        }
        self.allowed(case)
    }

    /// The first set is there all the time: a rule needs somebody to look at.
    fn tasks(&mut self, is_first: bool, common: &Common) -> Tasks {
        let is_plain = |own: &mut Generator, one_in: u32| own.below(one_in) > 0;
        let is_restless = !is_first && self.is_in(common.mix.restless);
        let load = if is_restless { self.restless_load() } else { Load::Spin };
        let nice = if is_plain(self, 5) { 0 } else { self.nice() };
        let policy = if is_plain(self, 6) {
            Policy::Other
        } else {
            self.one_of(&[Policy::Batch, Policy::Idle, Policy::Fifo])
        };
        // One that never sleeps hides most of what else may happen on its CPU.
        let load = match (policy, load) {
            (Policy::Fifo, Load::Spin) if !is_first && self.below(2) == 0 => Load::Nap,
            _ => load,
        };
        let has_slice = self.has_slices && !is_plain(self, 4);
        let slice_us = has_slice.then(|| self.one_of(&SLICES_US));
        let has_clamp = self.has_clamps && !is_plain(self, 6);
        let clamp = has_clamp.then(|| self.one_of(&[Clamp::AtMost, Clamp::AtLeast]));
        let at_ms = if is_first || is_plain(self, 3) { 0 } else { 100 * (1 + self.below(4)) };
        let for_ms = (!is_first && !is_plain(self, 3))
            .then(|| (100 * (3 + self.below(6))).min(DURATION_MS - at_ms));
        let is_in_cgroup = self.is_in(common.mix.in_cgroups);
        let cgroup = is_in_cgroup.then(|| self.one_of(&common.groups));
        let count = 1 + self.below(MAX_COUNT);
        let cpus = if self.is_in(common.mix.together) {
            common.cpus[self.below(common.cpus.len() as u32) as usize].clone()
        } else {
            self.cpus()
        };
        let change = (!is_plain(self, 4)).then(|| self.change(&cpus));
        Tasks { load, count, cpus, nice, policy, slice_us, clamp, at_ms, for_ms, cgroup, change }
    }

    fn restless_load(&mut self) -> Load {
        match self.below(13) {
            0 | 1 => Load::Burnwait,
            2..=5 => Load::Nap,
            6 => Load::Barrier,
            7 => Load::Yield,
            8 => Load::Lock,
            9 => Load::InheritingLock,
            10 | 11 => Load::Chain,
            _ => Load::Fork,
        }
    }

    fn mix(&mut self) -> Mix {
        let mut part = || self.one_of(&[Part::None, Part::Half, Part::Half, Part::All]);
        Mix { in_cgroups: part(), together: part(), restless: part() }
    }

    fn is_in(&mut self, part: Part) -> bool {
        match part {
            Part::None => false,
            Part::Half => self.below(2) == 0,
            Part::All => true,
        }
    }

    fn group(&mut self) -> Group {
        let max = (self.below(3) == 0).then(|| self.one_of(&LIMITS));
        let weight = (self.below(8) > 0).then(|| self.weight());
        let later = (self.below(3) == 0)
            .then(|| LaterWeight { at_ms: self.moment_ms(), weight: self.weight() });
        Group {
            outer: (self.below(3) == 0).then(|| self.weight()),
            weight,
            max: max.filter(|_| !self.is_of_sched_ext),
            later: later.filter(|later| weight.is_some_and(|weight| weight != later.weight)),
        }
    }

    fn weight(&mut self) -> u32 {
        self.one_of(&WEIGHTS)
    }

    /// A change of tasks that have had these CPUs.
    fn change(&mut self, cpus: &Option<CpuSet>) -> Change {
        let at_ms = self.moment_ms();
        let nice = if self.below(2) == 0 { 0 } else { self.nice() };
        let count = (self.below(2) == 0).then(|| 1 + self.below(MAX_COUNT));
        let policy = (self.below(4) == 0)
            .then(|| self.one_of(&[Policy::Other, Policy::Batch, Policy::Idle]));
        let slice_us = (self.has_slices && self.below(4) == 0).then(|| self.one_of(&SLICES_US));
        let has_other = count.or(slice_us).is_some() || policy.is_some();
        let stays = has_other && self.below(2) == 0;
        let cpus = if stays { cpus.clone() } else { self.cpus() };
        Change { at_ms, cpus, nice, count, policy, slice_us }
    }

    /// One CPU or two, and never CPU 0.
    fn offline(&mut self) -> OffCpus {
        let own = |own: &mut Generator| 1 + own.below(own.machine.cpus - 1);
        let cpus = [own(self), own(self)];
        let at_ms = self.moment_ms();
        let for_ms = (self.below(2) == 0).then(|| 100 * (3 + self.below(5)));
        let first = if self.below(2) == 0 { &cpus[..1] } else { &cpus[..] };
        OffCpus { cpus: first.iter().copied().collect(), at_ms, for_ms }
    }

    /// When something changes: half of a run or more is left after it, to be judged.
    fn moment_ms(&mut self) -> u32 {
        100 * (3 + self.below(7))
    }

    fn nice(&mut self) -> i32 {
        self.one_of(&NICES)
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u32) as usize]
    }

    fn cpus(&mut self) -> Option<CpuSet> {
        let all = self.machine.cpus;
        if self.machine.llcs > 1 && self.below(6) == 0 {
            let (each, cache) = (all / self.machine.llcs, self.below(self.machine.llcs));
            return Some((cache * each..(cache + 1) * each).collect());
        }
        let wanted = self.one_of(&[1, 1, 2, 2, 3, all]).min(all);
        let mut cpus: Vec<u32> = (0..all).collect();
        for at in 0..wanted {
            let other = at + self.below(all - at);
            cpus.swap(at as usize, other as usize);
        }
        (wanted < all).then(|| cpus[..wanted as usize].iter().copied().collect())
    }

    /// Real-time tasks leave a CPU to the others, who measure, and change no more. A nice value means something to fair
    /// tasks alone, as a slice does, and a number where it changes. Sets share the first cgroup where there are too many.
    /// A scheduler of sched_ext may end when a CPU goes.
    fn allowed(&self, case: Case) -> Case {
        let mut case = case.with_possible_offline();
        case.offline = case.offline.filter(|_| !self.is_of_sched_ext);
        let off = case.offline.as_ref().map_or(0, |off| off.cpus.len() as u32);
        let mut left = if self.is_of_sched_ext { 0 } else { self.machine.cpus - 1 - off };
        let most = |set: &Tasks| if set.load == Load::Fork { MAX_FORKING } else { MAX_COUNT };
        for set in &mut case.sets {
            set.count = set.count.min(most(set)).max(set.min_count());
        }
        for set in case.sets.iter_mut().filter(|set| set.policy == Policy::Fifo) {
            if set.count > left {
                set.policy = Policy::Other;
            } else {
                left -= set.count;
                (set.change, set.cgroup) = (None, None);
                // Nobody counts the CPU time of real-time children that others lack.
                if set.load == Load::Fork {
                    set.load = Load::Nap;
                }
            }
        }
        for set in &mut case.sets {
            let later = set.change.as_ref().and_then(|change| change.policy);
            if ![Some(set.policy), later].into_iter().flatten().all(Policy::has_nice) {
                (set.nice, set.slice_us) = (0, None);
                set.change.iter_mut().for_each(|change| (change.nice, change.slice_us) = (0, None));
            }
            let (count, policy, slice_us) = (set.count, set.policy, set.slice_us);
            let (most, may_be_fewer) = (most(set), set.may_be_fewer());
            set.change.iter_mut().for_each(|change| {
                let later = change.count.map(|own| own.min(most));
                change.count = later.filter(|own| may_be_fewer && *own != count);
                change.policy = change.policy.filter(|own| *own != policy);
                change.slice_us = change.slice_us.filter(|own| Some(*own) != slice_us);
            });
        }
        let mut groups: Vec<Group> = Vec::new();
        for own in case.sets.iter_mut().filter_map(|set| set.cgroup.as_mut()) {
            match groups.contains(own) {
                true => {}
                false if groups.len() == MAX_GROUPS => *own = groups[0],
                false => groups.push(*own),
            }
        }
        case
    }

    /// Multiply and shift: spelled out, so that no other version of a library gives another number for the same bits.
    fn below(&mut self, end: u32) -> u32 {
        ((u128::from(self.random.next_u64()) * u128::from(end)) >> 64) as u32
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::hunt::{Place, Target, plan_text};
    use crate::plan::{self, Known};

    const MACHINE: Machine = Machine { cpus: 4, llcs: 2, nodes: 2, threads: 2 };

    fn cases(seed: u64) -> Vec<Case> {
        cases_after(seed, 0)
    }

    fn cases_after(seed: u64, done: u64) -> Vec<Case> {
        let mut generator = Generator::new(seed, done, MACHINE).with_slices().with_clamps();
        let cases = (0..1000).map(|at| {
            let case = generator.next_case();
            generator.came_near(&case, f64::from(at % 10) / 10.0);
            case
        });
        cases.collect()
    }

    #[test]
    fn a_seed_gives_the_same_cases_and_another_one_others() {
        assert_eq!(cases(1), cases(1));
        assert_ne!(cases(1), cases(2));
        assert_ne!(cases(1), cases_after(1, 48));
        assert_eq!(cases_after(1, 48), cases_after(1, 48));
    }

    #[test]
    fn a_case_that_came_near_has_so_many_variations_and_none_is_the_same() {
        for generator in
            [Generator::new(5, 0, MACHINE), Generator::new(5, 0, MACHINE).for_sched_ext()]
        {
            let mut generator = generator;
            let first = generator.drawn();
            for at in 1..=MAX_VARIATIONS {
                assert!(generator.near.is_empty() == (at == 1));
                generator.came_near(&first, 0.9);
                let variation = generator.variation().unwrap();
                assert_ne!(variation, first, "the {at}. variation");
            }
            assert!(generator.near.is_empty());
        }
    }

    #[test]
    fn cases_with_new_code_have_variations_next_to_those_that_came_near() {
        let mut generator = Generator::new(5, 0, MACHINE);
        let drawn: Vec<Case> = (0..MAX_NEAR + 3).map(|_| generator.drawn()).collect();
        drawn.iter().for_each(|case| generator.reached_new_code(case));
        generator.reached_new_code(&drawn[MAX_NEAR]);
        let kept: Vec<&Case> = generator.new.iter().map(|own| &own.case).collect();
        assert!(kept.into_iter().eq(drawn[3..].iter().rev()), "the last ones, once");
        generator.came_near(&drawn[0], 0.9);
        (1..MAX_VARIATIONS).for_each(|_| _ = generator.variation().unwrap());
        let variations = |kept: &[Near]| kept.iter().map(|own| own.variations).sum::<u32>();
        let of = [&generator.near[..], &generator.new].map(variations);
        assert!(of[0] > 0 && of[1] > 0 && of[0] + of[1] == MAX_VARIATIONS - 1, "{of:?}");
        (generator.near, generator.new) = (Vec::new(), vec![generator.new.swap_remove(0)]);
        (0..2 * MAX_VARIATIONS).for_each(|_| _ = generator.next_case());
        assert!(generator.new.len() <= 1);
        while !generator.new.is_empty() {
            generator.next_case();
        }
    }

    #[test]
    fn sets_compete_for_the_same_cpus() {
        let cases = cases(5);
        let share = |case: &&Case| {
            let cpus: Vec<_> = case.sets.iter().filter_map(|set| set.cpus.as_ref()).collect();
            let different: BTreeSet<String> = cpus.iter().map(|own| own.to_string()).collect();
            different.len() < cpus.len()
        };
        let shared = cases.iter().filter(share).count();
        assert!(4 * shared > cases.len(), "{shared} of {} cases", cases.len());
        let of_a_cache = |set: &&Tasks| set.cpus == "2-3".parse().ok();
        let caches = cases.iter().flat_map(|case| &case.sets).filter(of_a_cache).count();
        // Two CPUs that were drawn are those of a cache in half as many.
        assert!(caches > 220, "{caches}");
        for count in 1..=MAX_SETS as usize {
            assert!(cases.iter().any(|case| case.sets.len() == count), "{count} sets");
        }
    }

    /// Each set for itself would give an eighth of them.
    #[test]
    fn a_quarter_of_large_cases_have_later_sets_all_alike_and_another_quarter_none() {
        let mut generator = Generator::new(5, 0, MACHINE);
        let cases = (0..4000).map(|_| generator.drawn()).filter(|case| case.sets.len() == 4);
        let cases: Vec<Case> = cases.collect();
        let is_grouped = |set: &Tasks| set.cgroup.is_some() || set.policy == Policy::Fifo;
        let is_restless = |set: &Tasks| set.load != Load::Spin;
        for (name, is_alike) in
            [("in cgroups", &is_grouped as &dyn Fn(&Tasks) -> bool), ("restless", &is_restless)]
        {
            let later = |alike: usize| {
                let own = |case: &&Case| case.sets[1..].iter().filter(|set| is_alike(set)).count();
                cases.iter().filter(|case| own(case) == alike).count()
            };
            for alike in [0, 3] {
                assert!(4 * later(alike) > cases.len(), "{name}: {} with {alike}", later(alike));
            }
        }
        let weights: BTreeSet<u32> = cases
            .iter()
            .flat_map(|case| &case.sets)
            .filter_map(|set| set.cgroup.and_then(|own| own.weight))
            .collect();
        assert!(weights.into_iter().eq(WEIGHTS));
    }

    #[test]
    fn every_case_is_a_plan() {
        for part in cases(3).chunks(16) {
            let scx = Some("./a \"b\"");
            let target = Target { kernel: "debian:6.18", scx, place: Place::new(MACHINE) };
            let text = plan_text(&target, "a \"title\"", part, 1, 2);
            let plan = plan::parse("hunt.toml", &text, None, Known::default());
            let plan = plan.unwrap_or_else(|why| panic!("{}\n{text}", why.render()));
            for (work, case) in plan.works.iter().zip(part) {
                let counts = work.sets.iter().map(|set| (set.count, set.max_count()));
                let drawn = case.sets.iter().map(|set| (set.count, set.max_count()));
                assert!(counts.eq(drawn), "{case}");
            }
            assert_eq!(plan.variants[0].scx(), scx);
            let crate::model::Plan { lab, works, .. } = plan;
            assert_eq!((works.len(), lab.cpus, lab.llcs), (part.len(), 4, 2));
            assert_eq!((lab.nodes, lab.threads), (2, 2));
        }
    }

    #[test]
    fn changes_of_slices_and_policies_and_clamps_are_drawn() {
        let cases: Vec<Case> = (5..13).flat_map(cases).collect();
        let sets = || cases.iter().flat_map(|case| &case.sets);
        for clamp in [Clamp::AtMost, Clamp::AtLeast] {
            assert!(sets().any(|set| set.clamp == Some(clamp)), "{clamp:?}");
        }
        assert!(sets().all(|set| set.count >= set.min_count()));
        let mut forking = sets().filter(|set| set.load == Load::Fork);
        assert!(forking.all(|set| set.policy != Policy::Fifo && set.max_count() <= MAX_FORKING));
        for later in [Policy::Other, Policy::Batch, Policy::Idle] {
            let is_it = |own: &&Change| own.policy == Some(later);
            let changes = sets().filter_map(|set| set.change.as_ref()).filter(is_it);
            let count = changes.count();
            assert!(count > 10, "{later:?}: {count}");
        }
        let slice = |set: &Tasks| set.change.as_ref().and_then(|change| change.slice_us);
        assert!(sets().any(|set| slice(set).is_some() && set.slice_us.is_none()));
        assert!(sets().filter(|set| slice(set).is_some()).all(|set| set.policy.has_nice()));
        let mut generator = Generator::new(5, 0, MACHINE).for_sched_ext();
        let of_sched_ext: Vec<Case> = (0..300).map(|_| generator.next_case()).collect();
        let mut sets = of_sched_ext.iter().flat_map(|case| &case.sets);
        assert!(sets.all(|set| set.clamp.is_none() && slice(set).is_none()));
    }

    #[test]
    fn a_chain_of_real_time_tasks_leaves_a_cpu_of_two() {
        let mut generator = Generator::new(5, 0, "2x1".parse().unwrap());
        for _ in 0..3000 {
            let case = generator.next_case();
            let real_time = case.sets.iter().filter(|set| set.policy == Policy::Fifo);
            assert!(real_time.map(|set| set.count).sum::<u32>() < 2, "{case}");
        }
    }

    #[test]
    fn all_that_a_case_can_have_is_drawn_and_real_time_leaves_a_cpu() {
        let cases = cases(5);
        let sets: Vec<&Tasks> = cases.iter().flat_map(|case| &case.sets).collect();
        for load in [
            Load::Spin,
            Load::Burnwait,
            Load::Nap,
            Load::Barrier,
            Load::Yield,
            Load::Lock,
            Load::InheritingLock,
            Load::Chain,
            Load::Fork,
        ] {
            assert!(sets.iter().any(|set| set.load == load), "{load:?}");
        }
        for policy in [Policy::Other, Policy::Batch, Policy::Idle, Policy::Fifo] {
            assert!(sets.iter().any(|set| set.policy == policy), "{policy:?}");
        }
        assert!(sets.iter().any(|set| set.at_ms > 0 && set.for_ms.is_some()));
        let offline = cases.iter().filter_map(|case| case.offline.as_ref());
        let count = |has: fn(&&OffCpus) -> bool| offline.clone().filter(has).count();
        assert!(20 * count(|_| true) > cases.len(), "{}", count(|_| true));
        assert!(count(|off| off.for_ms.is_some()) > 10 && count(|off| off.cpus.len() > 1) > 10);
        assert_eq!(count(|off| off.cpus.contains(0)), 0);
        assert!(sets.iter().any(|set| set.slice_us.is_some() && set.policy == Policy::Batch));
        let has_nice = |set: &&Tasks| set.policy.has_nice();
        assert!(sets.iter().filter(|set| set.slice_us.is_some()).all(has_nice));
        assert!(sets.iter().any(|set| set.nice < 0 && set.cgroup.is_some()));
        let has =
            |has: fn(&Group) -> bool| sets.iter().any(|set| set.cgroup.as_ref().is_some_and(has));
        assert!(has(|own| own.max.is_some() && own.outer.is_some() && own.later.is_some()));
        assert!(has(|own| own.max.is_none() && own.outer.is_none() && own.later.is_none()));
        assert!(has(|own| own.weight.is_none() && own.max.is_some()));
        assert!(!has(|own| own.weight.is_none() && own.later.is_some()));
        assert!(sets.iter().any(|set| set.change.is_some() && set.for_ms.is_some()));
        let later = |set: &Tasks| set.change.as_ref().and_then(|change| change.count).is_some();
        let more = sets.iter().filter(|set| set.max_count() > set.count).count();
        let fewer = sets.iter().filter(|set| later(set)).count() - more;
        assert!(40 * more > sets.len() && 40 * fewer > sets.len(), "{more} and {fewer}");
        assert!(!sets.iter().any(|set| later(set) && set.load == Load::Barrier));
        assert!(sets.iter().any(|set| later(set) && set.load == Load::InheritingLock));
        let naps = sets.iter().filter(|set| set.load == Load::Nap).count();
        assert!(10 * naps > sets.len(), "{naps} of {} sets", sets.len());
        let are_siblings = |case: &&Case| {
            let groups: Vec<Group> = case.sets.iter().filter_map(|set| set.cgroup).collect();
            let of_first = |group: &Group| group.outer == groups[0].outer && *group != groups[0];
            groups.iter().any(|group| group.outer.is_some() && of_first(group))
        };
        let siblings = cases.iter().filter(are_siblings).count();
        assert!(50 * siblings > cases.len(), "{siblings} of {} cases", cases.len());
        let mut generator = Generator::new(5, 0, MACHINE).for_sched_ext();
        let of_sched_ext: Vec<Case> = (0..300).map(|_| generator.next_case()).collect();
        assert!(of_sched_ext.iter().all(|case| case.offline.is_none()));
        let sets: Vec<Tasks> = of_sched_ext.into_iter().flat_map(|case| case.sets).collect();
        let groups = sets.iter().filter_map(|set| set.cgroup);
        assert_eq!(groups.map(|group| group.max).max(), Some(None));
        assert!(sets.iter().all(|set| set.policy != Policy::Fifo && set.slice_us.is_none()));
        for case in &cases {
            let groups: BTreeSet<Group> = case.sets.iter().filter_map(|set| set.cgroup).collect();
            assert!(groups.len() <= MAX_GROUPS, "{case}");
            let real_time = case.sets.iter().filter(|set| set.policy == Policy::Fifo);
            let off = case.offline.as_ref().map_or(0, |off| off.cpus.len() as u32);
            assert!(real_time.map(|set| set.count).sum::<u32>() + off < MACHINE.cpus, "{case}");
        }
    }
}
