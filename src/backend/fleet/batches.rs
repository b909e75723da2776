//! Splits runs into the batches of tasks. Pure.

/// Tasks per node; a node that is done early takes another one.
const TASKS_PER_NODE: usize = 3;
/// Minimum number of runs per task and CPU, because booting a guest takes as long as some runs.
const MIN_RUNS_PER_CPU: usize = 8;
/// The same if nothing is booted: starting a task takes a while, too.
const MIN_RUNS_WITHOUT_BOOT: usize = 64;

/// The nodes that a fleet may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Nodes {
    pub count: usize,
    /// CPUs of the smallest node.
    pub cpus: usize,
    /// Maximum number of tasks in an array.
    pub max_tasks: usize,
}

/// Splits runs into tasks. `boots` has the number of each run's boot; a task is a list of positions in it.
pub fn split(boots: &[usize], has_boots: bool, nodes: Nodes) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (at, boot) in boots.iter().enumerate() {
        if groups.len() <= *boot {
            groups.resize(boot + 1, Vec::new());
        }
        groups[*boot].push(at);
    }
    let min = if has_boots { MIN_RUNS_PER_CPU * nodes.cpus.max(1) } else { MIN_RUNS_WITHOUT_BOOT };
    let mut size = boots.len().div_ceil(nodes.count.max(1) * TASKS_PER_NODE).max(min);
    let tasks = |size: usize| groups.iter().map(|group| group.len().div_ceil(size)).sum::<usize>();
    // With more boots than tasks this would never end, so the second condition stops it; Slurm then refuses
    // the array.
    while tasks(size) > nodes.max_tasks && size < boots.len() {
        size = size.saturating_mul(2);
    }
    let of_group = |group: &Vec<usize>| -> Vec<Vec<usize>> {
        let parts = group.len().div_ceil(size).max(1);
        group.chunks(group.len().div_ceil(parts).max(1)).map(<[usize]>::to_vec).collect()
    };
    let mut batches: Vec<Vec<usize>> = groups.iter().flat_map(of_group).collect();
    // The results are needed in the order of runs.
    batches.sort();
    batches
}

#[cfg(test)]
mod tests {
    use super::*;

    const THREE: Nodes = Nodes { count: 3, cpus: 2, max_tasks: 1000 };

    #[test]
    fn runs_of_one_boot_stay_together_and_every_run_is_made_once() {
        // Two kernels, sixteen runs of each: a boot for each half would take longer than the half.
        let boots: Vec<usize> = (0..32).map(|at| at % 2).collect();
        let batches = split(&boots, true, THREE);
        assert_eq!(batches.iter().map(Vec::len).collect::<Vec<_>>(), [16, 16]);
        for (runs, boots, has_boots, nodes) in [
            (1, 1, true, THREE),
            (1000, 3, true, THREE),
            (100_000, 1, false, THREE),
            (5000, 7, true, Nodes { count: 400, cpus: 1, max_tasks: 20 }),
            (10, 10, true, Nodes { count: 0, cpus: 0, max_tasks: 3 }),
        ] {
            let of_run: Vec<usize> = (0..runs).map(|at| at % boots).collect();
            let batches = split(&of_run, has_boots, nodes);
            let mut all: Vec<usize> = batches.concat();
            all.sort();
            assert_eq!(all, (0..runs).collect::<Vec<_>>(), "{runs} {boots}");
            for batch in &batches {
                assert!(batch.iter().all(|run| of_run[*run] == of_run[batch[0]]), "{batch:?}");
            }
            assert!(batches.len() <= nodes.max_tasks.max(boots), "{}", batches.len());
        }
        assert_eq!(split(&[], true, THREE), Vec::<Vec<usize>>::new());
    }

    #[test]
    fn many_runs_give_each_node_some_tasks() {
        let batches = split(&vec![0; 9000], false, THREE);
        assert_eq!(batches.iter().map(Vec::len).collect::<Vec<_>>(), [1000; 9]);
    }
}
