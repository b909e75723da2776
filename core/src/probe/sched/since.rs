//! The difference between two readings of a session, from counts that only grow. Pure.

use std::collections::HashMap;

use crate::model::{
    Bucket, CpuScore, Distances, Migrations, PairKind, PairScore, TaskScore, Times,
};

use super::Counted;

/// The last reading of a session.
#[derive(Default)]
pub struct Since {
    wall_ns: u64,
    /// Living tasks by number.
    tasks: HashMap<i32, TaskScore>,
    cpus: HashMap<u32, CpuScore>,
    pairs: HashMap<(PairKind, String, String), (u64, u64)>,
    /// The largest count of a bucket, after which it counts from 1 again.
    full_bucket: Option<u64>,
}

impl Since {
    #[cfg(any(feature = "bpf", test))]
    pub fn new(full_bucket: Option<u64>) -> Since {
        Since { full_bucket, ..Since::default() }
    }

    /// The counts since the last step. The input is counted from the beginning on, except for maxima, which are
    /// since the last step. `gone` are tasks that will not come again; `so_far` has those that may, at least where
    /// something happened to them.
    pub fn step(&mut self, gone: Vec<TaskScore>, so_far: Counted) -> Counted {
        let wall_ns = so_far.wall_ns.saturating_sub(self.wall_ns);
        self.wall_ns = so_far.wall_ns;
        // A number that is used again belongs to one that is gone first.
        let mut tasks: Vec<TaskScore> =
            gone.into_iter().filter_map(|task| self.task(task, true)).collect();
        tasks.extend(so_far.tasks.into_iter().filter_map(|task| self.task(task, false)));
        let cpus = so_far.cpus.into_iter().map(|cpu| self.cpu(cpu)).collect();
        let pairs = so_far.pairs.map(|pairs| self.pairs(pairs));
        Counted { wall_ns, tasks, cpus, pairs, ..so_far }
    }

    /// `None`: nothing happened to it.
    fn task(&mut self, now: TaskScore, is_gone: bool) -> Option<TaskScore> {
        let before = self.tasks.remove(&now.tid);
        if !is_gone {
            let kept = TaskScore {
                name: String::new(),
                process: String::new(),
                cgroup: None,
                ..now.clone()
            };
            self.tasks.insert(now.tid, kept);
        }
        let Some(before) = before else { return Some(now).filter(happened) };
        let task = TaskScore {
            run_ns: less(now.run_ns, before.run_ns),
            wait: self.times(now.wait, before.wait),
            slice: self.times(now.slice, before.slice),
            voluntary: less(now.voluntary, before.voluntary),
            involuntary: less(now.involuntary, before.involuntary),
            wakeups: less(now.wakeups, before.wakeups),
            migrations: migrations(now.migrations, before.migrations),
            cpus: stays(now.cpus, before.cpus),
            ..now
        };
        Some(task).filter(happened)
    }

    fn times(&self, now: Option<Times>, before: Option<Times>) -> Option<Times> {
        let (now, before) = (now?, before?);
        let counted: HashMap<u64, u64> =
            before.buckets.iter().map(|bucket| (bucket.low_ns, bucket.count)).collect();
        let mut buckets: Vec<Bucket> = now.buckets;
        for bucket in &mut buckets {
            let old = counted.get(&bucket.low_ns).copied().unwrap_or(0);
            let again = if old > bucket.count { self.full_bucket.unwrap_or(old) } else { 0 };
            bucket.count = (bucket.count + again).saturating_sub(old);
        }
        buckets.retain(|bucket| bucket.count > 0);
        let count = now.count.saturating_sub(before.count);
        // If a bucket was full more than once meanwhile, it is the one with most samples.
        let samples: u64 = buckets.iter().map(|bucket| bucket.count).sum();
        if let (Some(full), Some(most)) =
            (self.full_bucket, buckets.iter_mut().max_by_key(|bucket| bucket.count))
        {
            most.count += count.saturating_sub(samples) / full * full;
        }
        let total_ns = now.total_ns.saturating_sub(before.total_ns);
        Some(Times { count, total_ns, max_ns: now.max_ns.filter(|_| count > 0), buckets })
    }

    fn cpu(&mut self, now: CpuScore) -> CpuScore {
        let Some(before) = self.cpus.insert(now.cpu, now.clone()) else { return now };
        let lengths = now.lengths.zip(before.lengths).map(|(mut now, before)| {
            now.iter_mut().zip(before).for_each(|(now, before)| *now = now.saturating_sub(before));
            now
        });
        CpuScore {
            cpu: now.cpu,
            busy_ns: less(now.busy_ns, before.busy_ns),
            switches: less(now.switches, before.switches),
            idle_entries: less(now.idle_entries, before.idle_entries),
            lengths,
        }
    }

    fn pairs(&mut self, now: Vec<PairScore>) -> Vec<PairScore> {
        let mut pairs = Vec::new();
        for pair in now {
            let key = (pair.kind, pair.by.clone(), pair.name.clone());
            let seen = self.pairs.entry(key).or_default();
            let count = pair.count.saturating_sub(seen.0);
            let lost_ns = pair.lost_ns.map(|ns| ns.saturating_sub(seen.1));
            // A pair on its way from one table to the other is counted with the next reading.
            *seen = (seen.0.max(pair.count), seen.1.max(pair.lost_ns.unwrap_or(0)));
            if count > 0 || lost_ns > Some(0) {
                pairs.push(PairScore { count, lost_ns, ..pair });
            }
        }
        pairs
    }
}

fn less(now: Option<u64>, before: Option<u64>) -> Option<u64> {
    now.zip(before).map(|(now, before)| now.saturating_sub(before))
}

fn migrations(now: Option<Migrations>, before: Option<Migrations>) -> Option<Migrations> {
    let (now, before) = (now?, before?);
    let by_distance = now.by_distance.zip(before.by_distance).map(|(now, before)| Distances {
        within_llc: now.within_llc.saturating_sub(before.within_llc),
        across_llc: now.across_llc.saturating_sub(before.across_llc),
        across_node: now.across_node.saturating_sub(before.across_node),
    });
    Some(Migrations { total: now.total.saturating_sub(before.total), by_distance })
}

fn stays(now: Option<Vec<(u32, u64)>>, before: Option<Vec<(u32, u64)>>) -> Option<Vec<(u32, u64)>> {
    let before: HashMap<u32, u64> = before?.into_iter().collect();
    let ran = |(cpu, ns): (u32, u64)| {
        let ns = ns.saturating_sub(before.get(&cpu).copied().unwrap_or(0));
        (ns > 0).then_some((cpu, ns))
    };
    now.map(|now| now.into_iter().filter_map(ran).collect())
}

fn happened(task: &TaskScore) -> bool {
    let counts = [
        task.run_ns,
        task.wait.as_ref().map(|wait| wait.count),
        task.wait.as_ref().map(|wait| wait.total_ns),
        task.voluntary,
        task.involuntary,
        task.wakeups,
        task.waiting_ns,
    ];
    counts.into_iter().flatten().any(|count| count > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(max_ns: u64, buckets: &[(u64, u64)]) -> Option<Times> {
        let bucket = |&(low_ns, count)| Bucket { low_ns, high_ns: low_ns + 32, count };
        Some(Times {
            count: buckets.iter().map(|(_, count)| count).sum(),
            total_ns: buckets.iter().map(|(low_ns, count)| low_ns * count).sum(),
            max_ns: Some(max_ns),
            buckets: buckets.iter().map(bucket).collect(),
        })
    }

    fn task(tid: i32, run_ns: u64, wait: Option<Times>) -> TaskScore {
        TaskScore {
            tid,
            pid: tid,
            name: format!("task {tid}"),
            run_ns: Some(run_ns),
            wait,
            voluntary: Some(run_ns / 10),
            cpus: Some(vec![(0, run_ns / 2), (1, run_ns - run_ns / 2)]),
            ..TaskScore::default()
        }
    }

    fn counted(wall_ns: u64, tasks: Vec<TaskScore>) -> Counted {
        Counted { wall_ns, tasks, ..Counted::default() }
    }

    #[test]
    fn each_step_has_what_came_since_the_last_one() {
        let mut since = Since::default();
        let first = task(7, 100, times(300, &[(256, 2)]));
        let step = since.step(Vec::new(), counted(1_000, vec![first.clone(), task(8, 5, None)]));
        assert_eq!((step.wall_ns, &step.tasks[0]), (1_000, &first));
        let now = task(7, 150, times(900, &[(256, 3), (512, 4)]));
        let step = since.step(Vec::new(), counted(1_500, vec![now, task(8, 5, None)]));
        assert_eq!((step.wall_ns, step.tasks.len()), (500, 1));
        let seen = &step.tasks[0];
        assert_eq!((seen.run_ns, seen.voluntary), (Some(50), Some(5)));
        assert_eq!(seen.wait, times(900, &[(256, 1), (512, 4)]));
        assert_eq!((seen.name.as_str(), &seen.cpus), ("task 7", &Some(vec![(0, 25), (1, 25)])));
        // It ran and did not wait: no wait has a maximum.
        let ran = task(7, 160, times(900, &[(256, 3), (512, 4)]));
        let step = since.step(Vec::new(), counted(1_600, vec![ran]));
        let none = Times { max_ns: None, ..times(0, &[]).unwrap() };
        assert_eq!(step.tasks[0].wait, Some(none));
    }

    #[test]
    fn one_that_is_gone_is_not_the_next_one_of_its_number() {
        let mut since = Since::default();
        since.step(Vec::new(), counted(1, vec![task(7, 100, None)]));
        let step = since.step(vec![task(7, 130, None)], counted(2, vec![task(7, 40, None)]));
        let ran: Vec<Option<u64>> = step.tasks.iter().map(|task| task.run_ns).collect();
        assert_eq!(ran, [Some(30), Some(40)]);
        let step = since.step(Vec::new(), counted(3, vec![task(7, 41, None)]));
        assert_eq!(step.tasks[0].run_ns, Some(1));
    }

    #[test]
    fn one_that_only_waits_is_there() {
        let mut since = Since::default();
        since.step(Vec::new(), counted(1, vec![task(7, 100, None)]));
        let waits = TaskScore { waiting_ns: Some(5), ..task(7, 100, None) };
        assert_eq!(since.step(Vec::new(), counted(2, vec![waits])).tasks.len(), 1);
    }

    #[test]
    fn buckets_that_were_full_go_on_from_one() {
        let cases: &[(u64, u64, u64)] = &[
            // Counts before and now, and the samples meanwhile.
            (10, 15, 5),
            (65_530, 3, 8),
            (65_535, 1, 1),
            (10, 15, 5 + 65_535),
            (65_530, 3, 8 + 2 * 65_535),
        ];
        for &(before, now, samples) in cases {
            let mut since = Since::new(Some(65_535));
            let [before, mut now] = [before, now].map(|count| times(1, &[(256, count), (512, 1)]));
            since.step(Vec::new(), counted(1, vec![task(7, 1, before.clone())]));
            let mut count = before.unwrap().count + samples;
            now.iter_mut().for_each(|now| std::mem::swap(&mut now.count, &mut count));
            let step = since.step(Vec::new(), counted(2, vec![task(7, 2, now)]));
            let wait = step.tasks[0].wait.as_ref().unwrap();
            let counts: Vec<u64> = wait.buckets.iter().map(|bucket| bucket.count).collect();
            assert_eq!((wait.count, counts), (samples, vec![samples]));
        }
    }

    #[test]
    fn cpus_and_pairs_are_differences() {
        let cpu = |busy_ns, idle| CpuScore {
            cpu: 3,
            busy_ns: Some(busy_ns),
            switches: Some(busy_ns / 2),
            lengths: Some(vec![idle, 1]),
            ..CpuScore::default()
        };
        let pair = |by: &str, count| PairScore {
            kind: PairKind::Delayed,
            by: by.to_string(),
            name: "b".to_string(),
            count,
            lost_ns: Some(count * 10),
        };
        let all = |busy_ns, idle, pairs| Counted {
            cpus: vec![cpu(busy_ns, idle)],
            pairs: Some(pairs),
            ..Counted::default()
        };
        let mut since = Since::default();
        since.step(Vec::new(), all(100, 4, vec![pair("a", 3), pair("c", 1)]));
        let step = since.step(Vec::new(), all(160, 9, vec![pair("a", 5), pair("c", 1)]));
        let expected = CpuScore { lengths: Some(vec![5, 0]), ..cpu(60, 0) };
        assert_eq!((step.cpus, step.pairs), (vec![expected], Some(vec![pair("a", 2)])));
    }
}
