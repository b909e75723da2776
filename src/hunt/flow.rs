//! The largest CPU time that tasks can have on CPUs to which they are held: a maximum flow (Edmonds and Karp, *Theoretical
//! Improvements in Algorithmic Efficiency for Network Flow Problems*, JACM 19(2), 1972). Tasks with the same CPUs are
//! one node. Pure.

use std::collections::{BTreeMap, VecDeque};

use crate::model::CpuSet;

/// `demands`: for each task the time that it wants, and its CPUs. Each of `cpus` has `capacity_ns`.
pub fn max_flow<'a>(
    demands: impl Iterator<Item = (u64, &'a CpuSet)>,
    cpus: &[u32],
    capacity_ns: u64,
) -> u64 {
    let mut left: BTreeMap<&CpuSet, u64> = BTreeMap::new();
    for (wanted, allowed) in demands {
        *left.entry(allowed).or_default() += wanted;
    }
    let mut flow = Flow {
        allowed: left.keys().copied().collect(),
        left: left.into_values().collect(),
        cpus,
        room: vec![capacity_ns; cpus.len()],
        sent: Vec::new(),
    };
    flow.sent = vec![vec![0; cpus.len()]; flow.left.len()];
    while flow.augment() {}
    flow.sent.iter().flatten().sum()
}

struct Flow<'a> {
    allowed: Vec<&'a CpuSet>,
    /// The demand of each group that is not met yet.
    left: Vec<u64>,
    cpus: &'a [u32],
    room: Vec<u64>,
    /// By group, then by position in `cpus`.
    sent: Vec<Vec<u64>>,
}

impl Flow<'_> {
    /// Sends what a shortest path from a group with demand to a CPU with room takes; false: there is none.
    fn augment(&mut self) -> bool {
        let groups = self.left.len();
        // For each CPU the group before it on the path, and for each group the CPU.
        let mut before_cpu = vec![None; self.cpus.len()];
        let mut before_group = vec![None; groups];
        let mut seen: Vec<bool> = self.left.iter().map(|left| *left > 0).collect();
        let mut queue: VecDeque<usize> = (0..groups).filter(|group| seen[*group]).collect();
        while let Some(group) = queue.pop_front() {
            for at in 0..self.cpus.len() {
                if before_cpu[at].is_some() || !self.allowed[group].contains(self.cpus[at]) {
                    continue;
                }
                before_cpu[at] = Some(group);
                if self.room[at] > 0 {
                    self.send(at, &before_cpu, &before_group);
                    return true;
                }
                for other in 0..groups {
                    if !seen[other] && self.sent[other][at] > 0 {
                        seen[other] = true;
                        before_group[other] = Some(at);
                        queue.push_back(other);
                    }
                }
            }
        }
        false
    }

    fn send(&mut self, end: usize, before_cpu: &[Option<usize>], before_group: &[Option<usize>]) {
        let mut path = Vec::new();
        let (mut amount, mut at) = (self.room[end], end);
        while let Some(group) = before_cpu[at] {
            path.push((group, at));
            let Some(back) = before_group[group] else {
                amount = amount.min(self.left[group]);
                self.left[group] -= amount;
                break;
            };
            amount = amount.min(self.sent[group][back]);
            at = back;
        }
        self.room[end] -= amount;
        for (group, at) in path {
            self.sent[group][at] += amount;
            if let Some(back) = before_group[group] {
                self.sent[group][back] -= amount;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_have_as_much_as_their_cpus_can_give() {
        // The demands with their CPUs, the CPUs of the machine, and the flow at a capacity of 10.
        type Flows = (&'static [(u64, &'static str)], u32, u64);
        let cases: &[Flows] = &[
            (&[], 4, 0),
            (&[(10, "0-3")], 4, 10),
            (&[(10, "0"), (10, "0")], 4, 10),
            (&[(10, "0-1"), (10, "0")], 2, 20),
            // The first group has to make room on CPU 0.
            (&[(10, "0-1"), (10, "0"), (10, "1-2")], 3, 30),
            (&[(10, "1,3"), (40, "0,2-3")], 4, 40),
            (&[(3, "1"), (27, "0,2-3")], 4, 30),
            (&[(10, "7")], 4, 0),
        ];
        for (demands, cpus, expected) in cases {
            let demands: Vec<(u64, CpuSet)> =
                demands.iter().map(|(wanted, cpus)| (*wanted, cpus.parse().unwrap())).collect();
            let cpus: Vec<u32> = (0..*cpus).collect();
            let all = demands.iter().map(|(wanted, cpus)| (*wanted, cpus));
            assert_eq!(max_flow(all, &cpus, 10), *expected, "{demands:?}");
        }
    }
}
