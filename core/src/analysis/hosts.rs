//! Hosts as a population: plans that are one plan on many machines, each machine one draw.
//!
//! Input: sampled plans, and tables with the values of all of them. Output: the machines, and tables
//! with a value for each. Pure. Method: docs/verdicts.md, "Over hosts".

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{Environment, Reading, SampledPlan};
use crate::stats::{self, Draw, Verdict};

use super::host::{Host, HostKind, HostRatio, OverHosts};
use super::lists::{grouped, once};
use super::note_finder::merged;
use super::notes::{Difference, Note};
use super::select::Selection;
use super::work::WorkKey;
use super::{Cell, Family, Row, WorkTable};

/// The plans that are one plan, and why the others are not: one that differs from `reference` in what
/// the sides take of it, or where that names none, from most of them.
pub fn alike(
    plans: Vec<SampledPlan>,
    sides: &[Selection],
    reference: Option<&str>,
) -> (Vec<SampledPlan>, Vec<Note>) {
    // Each list has the positions of plans that are alike.
    let mut lists: Vec<Vec<usize>> = Vec::new();
    for (at, plan) in plans.iter().enumerate().filter(|(_, plan)| is_of_one_machine(plan)) {
        let own = |list: &&mut Vec<usize>| difference(&plans[list[0]], plan, sides).is_none();
        match lists.iter_mut().find(own) {
            Some(list) => list.push(at),
            None => lists.push(vec![at]),
        }
    }
    let has = |list: &&Vec<usize>| list.iter().any(|at| Some(&*plans[*at].id) == reference);
    // The newest plan decides between lists of one length.
    let longest = lists.iter().max_by_key(|list| (list.len(), list.last().copied()));
    let kept: BTreeSet<usize> =
        lists.iter().find(has).or(longest).into_iter().flatten().copied().collect();
    let first = kept.first().map(|at| &plans[*at]);
    let others = plans.iter().enumerate().filter(|(at, _)| !kept.contains(at));
    let whys = others.map(|(_, plan)| {
        let first = first.filter(|_| is_of_one_machine(plan));
        let why = first.and_then(|first| difference(first, plan, sides));
        let plan = (plan.environments[0].hostname.clone(), plan.id.clone());
        (why.unwrap_or(Difference::Machines), plan)
    });
    let refused = grouped(whys).into_iter().map(|(why, plans)| Note::OtherPlan { plans, why });
    let refused = refused.collect();
    let plans = plans.into_iter().enumerate().filter(|(at, _)| kept.contains(at));
    (plans.map(|(_, plan)| plan).collect(), refused)
}

fn is_of_one_machine(plan: &SampledPlan) -> bool {
    plan.environments.iter().all(|of| is_same(&plan.environments[0], of))
}

/// The first difference between what the sides take of two plans.
fn difference(one: &SampledPlan, other: &SampledPlan, sides: &[Selection]) -> Option<Difference> {
    let [own, others] = [one, other].map(|plan| {
        let keys = plan.cells.iter().map(|cell| {
            let variant = Some(&cell.variant);
            WorkKey { plan, cell, variant, mixed: false }
        });
        let is_taken =
            |key: &WorkKey| sides.iter().any(|side| side.takes_variant(&key.cell.variant.name));
        let taken = keys.filter(is_taken).map(|key| (key.label(), key));
        taken.collect::<BTreeMap<String, WorkKey>>()
    });
    let lone = own.keys().find(|label| !others.contains_key(*label));
    let lone = lone.or_else(|| others.keys().find(|label| !own.contains_key(*label)));
    match lone {
        Some(label) => Some(Difference::OnlyOne(label.clone())),
        None => own.iter().find_map(|(label, key)| key.difference(&others[label])),
    }
}

/// Whether both were read on one machine. One boot is of one machine, whatever it calls itself; else
/// machines of one name are one where nothing says that they are not.
fn is_same(one: &Environment, other: &Environment) -> bool {
    type Fact = fn(&Environment) -> Option<&Reading<String>>;
    let both = |of: Fact| {
        let [own, others] = [one, other].map(|own| of(own)?.as_ref().known());
        Some(own? == others?)
    };
    let is_one_boot = both(|of| Some(&of.boot_id)) == Some(true);
    let facts: [Fact; 2] = [|of| of.machine_id.as_ref(), |of| Some(&of.cpu_model)];
    is_one_boot
        || (one.hostname == other.hostname && facts.into_iter().all(|of| both(of) != Some(false)))
}

/// The machines of plans that are [`alike`].
pub(super) struct Hosts {
    /// Hosts of one kind follow each other.
    pub hosts: Vec<Host>,
    /// The machine of each plan.
    of_plans: Vec<usize>,
}

impl Hosts {
    pub fn from_plans(plans: &[SampledPlan]) -> Hosts {
        // Positions of plans; of one machine in one list.
        let mut machines: Vec<Vec<usize>> = Vec::new();
        for (at, plan) in plans.iter().enumerate() {
            let environment = |at: &usize| &plans[*at].environments[0];
            let is_own = |machine: &Vec<usize>| {
                machine.iter().any(|other| is_same(environment(other), &plan.environments[0]))
            };
            let (own, others): (Vec<_>, Vec<_>) = machines.into_iter().partition(is_own);
            machines = others;
            machines.push(own.into_iter().flatten().chain([at]).collect());
        }
        let mut found: Vec<(Host, Vec<usize>)> =
            machines.into_iter().map(|own| (host(plans, &own), own)).collect();
        found.sort_by(|(a, plans), (b, others)| {
            let names = natural(&a.name).cmp(&natural(&b.name));
            a.kind().cmp(&b.kind()).then(names).then(plans.cmp(others))
        });
        let mut of_plans = vec![0; plans.len()];
        let mut hosts: Vec<Host> = Vec::new();
        for (host, own) in found {
            own.into_iter().for_each(|plan| of_plans[plan] = hosts.len());
            hosts.push(host);
        }
        let mut names: BTreeMap<String, usize> = BTreeMap::new();
        for host in &mut hosts {
            let known = names.entry(host.name.clone()).or_default();
            *known += 1;
            if *known > 1 {
                host.name = format!("{}#{known}", host.name);
            }
        }
        Hosts { hosts, of_plans }
    }

    /// Gives each table a value of each host in place of those of its rounds, which are counted
    /// through all plans; `begins`: where those of each plan begin.
    pub fn draw(&self, works: &mut [WorkTable], begins: &[u32]) {
        let host_of = |round: u32| {
            let plan = begins.partition_point(|begin| *begin <= round).saturating_sub(1);
            self.of_plans[plan]
        };
        let by_host = |cell: &Cell| {
            let mut values: BTreeMap<usize, Vec<(u32, f64)>> = BTreeMap::new();
            for (round, value) in &cell.values {
                values.entry(host_of(*round)).or_default().push((*round, *value));
            }
            values
        };
        for row in rows(works) {
            let sides: Vec<_> = row.cells.iter().map(by_host).collect();
            for (side, (cell, own)) in row.cells.iter_mut().zip(&sides).enumerate() {
                cell.take_medians(own);
                cell.over_hosts = (side > 0).then(|| self.over_hosts(&sides[0], own));
            }
        }
    }

    fn over_hosts(&self, baseline: &ByHost, side: &ByHost) -> OverHosts {
        let both = || side.iter().filter_map(|(host, own)| Some((*host, baseline.get(host)?, own)));
        let with_ratio = both().filter_map(|(host, base, own)| {
            let logs = stats::log_ratios(base, own)?;
            let (draw, ratio) = Draw::from_logs(&logs).zip(stats::ratio_from_logs(&logs))?;
            Some(HostRatio { host, ratio, differs: false, draw })
        });
        let hosts: Vec<HostRatio> = with_ratio.collect();
        // One host without a ratio, and all are compared by their differences: to leave it out would
        // favour one side.
        let has_difference = both().any(|(_, base, own)| {
            stats::paired_effect(base, own).is_ok_and(|effect| effect.ratio().is_none())
        });
        let (draws, no_change): (Vec<(u32, f64)>, f64) = if has_difference {
            (
                both()
                    .filter_map(|(host, base, own)| {
                        Some((host as u32, stats::mean(&stats::differences(base, own))?))
                    })
                    .collect(),
                0.0,
            )
        } else {
            (hosts.iter().map(|own| (own.host as u32, own.ratio.ratio)).collect(), 1.0)
        };
        let unchanged = draws.iter().map(|(host, _)| (*host, no_change)).collect();
        let kinds: Vec<usize> =
            self.hosts.chunk_by(|a, b| a.kind() == b.kind()).map(<[Host]>::len).collect();
        let ends = kinds.iter().scan(0, |end, count| {
            *end += count;
            Some(*end - count..*end)
        });
        let of_kind = |own: std::ops::Range<usize>| {
            let own = hosts.iter().filter(|of| own.contains(&of.host));
            let own: Vec<(u32, f64)> = own.map(|of| (of.host as u32, of.draw.mean_ln)).collect();
            stats::ratio_from_logs(&own)
        };
        let of_kinds = if kinds.len() > 1 { ends.map(of_kind).collect() } else { Vec::new() };
        let all: Vec<Draw> = hosts.iter().map(|of| of.draw).collect();
        OverHosts { further: stats::further(&all), hosts, kinds: of_kinds, draws, unchanged }
    }

    /// Notes that a reader of verdicts over hosts needs, once there are verdicts. `verdicts` counts those on
    /// headline metrics and those on others. Marks the hosts that differ.
    pub fn notes(
        &self,
        works: &mut [WorkTable],
        sides: &[Selection],
        verdicts: [usize; 2],
    ) -> Vec<Note> {
        let variants = sides.len().saturating_sub(1);
        let least = stats::min_rounds(stats::LEVEL, variants) as usize;
        let hosts = self.hosts.len();
        let few = (hosts < least).then_some(Note::TooFewHosts { hosts, least });
        let kinds = self.hosts.chunk_by(|a, b| a.kind() == b.kind());
        let kind = |own: &[Host]| HostKind {
            cpu_model: own[0].cpu_model.clone(),
            kernels: own[0].kernels.clone(),
            hosts: own.iter().map(|host| host.name.clone()).collect(),
        };
        let kinds: Vec<HostKind> = kinds.map(kind).collect();
        let kinds = (kinds.len() > 1).then_some(Note::HostKinds { kinds });
        let mut differing = Vec::new();
        for work in works {
            for set in &mut work.sets {
                for row in &mut set.rows {
                    let tests = match row.family {
                        Family::Headline => verdicts[0],
                        Family::Explaining => verdicts[1],
                        Family::None => continue,
                    };
                    for (side, host) in mark(row, tests) {
                        let (host, side) = (self.hosts[host].name.clone(), &sides[side].label);
                        let (side, work) = (side.clone(), work.label.clone());
                        let (set, metrics) = (set.name.clone(), Vec::new());
                        let note = Note::HostDiffers { host, side, work, set, metrics };
                        if row.family == Family::Headline {
                            differing.push((note, row.kind.name.clone()));
                        }
                    }
                }
            }
        }
        few.into_iter().chain(kinds).chain(merged(differing)).collect()
    }
}

/// Values by round of each host.
type ByHost = BTreeMap<usize, Vec<(u32, f64)>>;

fn rows(works: &mut [WorkTable]) -> impl Iterator<Item = &mut Row> {
    works.iter_mut().flat_map(|work| &mut work.sets).flat_map(|set| &mut set.rows)
}

/// Finds the hosts that differ in a row that is judged: each with its side.
fn mark(row: &mut Row, tests: usize) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    for (side, cell) in row.cells.iter_mut().enumerate() {
        let is_judged =
            cell.judged.as_ref().is_some_and(|of| !matches!(of.verdict, Verdict::Unjudged(_)));
        let Some(over) = cell.over_hosts.as_mut().filter(|_| is_judged) else { continue };
        let draws: Vec<Draw> = over.hosts.iter().map(|of| of.draw).collect();
        for at in stats::differing(&draws, tests) {
            over.hosts[at].differs = true;
            found.push((side, over.hosts[at].host));
        }
    }
    found
}

/// The sort key that puts `n2` before `n10`: the name before its last number, the number's length, and the number.
fn natural(name: &str) -> (&str, usize, &str) {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    (stem, name.len() - stem.len(), &name[stem.len()..])
}

fn host(plans: &[SampledPlan], own: &[usize]) -> Host {
    let own = || own.iter().map(|at| &plans[*at]);
    let environments = || own().flat_map(|plan| &plan.environments);
    let mut kernels = Vec::new();
    environments().for_each(|of| once(&mut kernels, of.kernel_release.clone()));
    let rounds = |plan: &SampledPlan| {
        plan.runs.iter().map(|run| run.key.round).collect::<BTreeSet<u32>>().len()
    };
    let last = environments().next_back();
    let unknown = || Reading::Unknown("no environment".to_string());
    Host {
        name: last.map(|of| of.hostname.clone()).unwrap_or_default(),
        cpu_model: last.map_or_else(unknown, |of| of.cpu_model.clone()),
        kernels,
        plans: own().map(|plan| plan.id.clone()).collect(),
        rounds: own().map(rounds).sum(),
    }
}

impl Cell {
    /// The median of each host in place of its values. Hosts are not equally fast, so their places
    /// are no noise and have no shapes.
    fn take_medians(&mut self, hosts: &ByHost) {
        let median = |(host, values): (&usize, &Vec<(u32, f64)>)| {
            let values: Vec<f64> = values.iter().map(|(_, value)| *value).collect();
            Some((*host as u32, stats::median(&values)?))
        };
        let values = hosts.iter().filter_map(median).collect();
        let unknown = std::mem::take(&mut self.unknown);
        let Cell { runs, lacking, .. } = *self;
        let with = Cell { values, unknown, runs, lacking, ..Cell::default() }.with_statistics();
        *self = Cell { cv: None, shapes: Vec::new(), ..with };
    }
}

#[cfg(test)]
mod tests;
