//! The CPUs that the workers of a set may use. Pure.

use crate::model::CpuSet;

/// For parameters that mean CPUs or default to "one per CPU".
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pool {
    /// Empty: not known, as where a plan is read for another machine.
    pub cpus: CpuSet,
    /// The same CPUs by NUMA node.
    pub nodes: Vec<CpuSet>,
}

impl Pool {
    /// `nodes`: those that the machine reports. CPUs without one are together a node.
    pub fn new(cpus: CpuSet, nodes: &[CpuSet]) -> Pool {
        let cut = |node: &CpuSet| node.iter().filter(|&cpu| cpus.contains(cpu)).collect();
        let mut nodes: Vec<CpuSet> = nodes.iter().map(cut).collect();
        nodes.push(nodes.iter().fold(cpus.clone(), |rest, node| rest.minus(node)));
        nodes.retain(|node| !node.is_empty());
        Pool { cpus, nodes }
    }

    /// How many CPUs; 1 where that is not known.
    pub fn count(&self) -> u32 {
        self.cpus.len().max(1) as u32
    }

    /// The number of its CPUs times `ratio`, to the nearest, at least 1.
    pub fn times(&self, ratio: f64) -> f64 {
        (ratio * f64::from(self.count())).round().max(1.0)
    }

    /// CPUs 0 to `count` - 1, all of one node.
    #[cfg(test)]
    pub fn first(count: u32) -> Pool {
        Pool::new((0..count).collect(), &[])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_cut_to_the_pool_and_every_cpu_is_in_one() {
        // CPUs, the nodes that the machine reports, and the nodes of the pool.
        let cases: &[(&str, &[&str], &[&str])] = &[
            ("0-3", &["0-1,8", "2-3"], &["0-1", "2-3"]),
            ("2-3", &["0-1", "2-5"], &["2-3"]),
            ("0-3", &["1"], &["1", "0,2-3"]),
            ("0-3", &[], &["0-3"]),
        ];
        for (cpus, reported, expected) in cases {
            let sets = |texts: &[&str]| -> Vec<CpuSet> {
                texts.iter().map(|text| text.parse().unwrap()).collect()
            };
            let pool = Pool::new(cpus.parse().unwrap(), &sets(reported));
            assert_eq!(pool.nodes, sets(expected), "{cpus} {reported:?}");
        }
        let unknown = Pool::new(CpuSet::default(), &[]);
        assert_eq!((unknown.count(), unknown.nodes.len()), (1, 0));
    }
}
