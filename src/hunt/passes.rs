//! How the kernel balanced load while a case ran, in a sentence. Pure.
//!
//! Each pass of a CPU over one of its domains ends in one of five ways. /proc/schedstat counts all passes, and those that
//! found balance, no busier group, no CPU in it, or a task that could not be moved; the rest moved tasks. It counts the tasks
//! that came, too, but those that another CPU pushed stand at domains and kinds of idleness of their own.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::model::{Balance, DomainScore, times};

/// The passes of one CPU, or of all, over a domain.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Passes {
    all: u64,
    no_group: u64,
    no_queue: u64,
    /// Another CPU was to do it, or all tasks that could be moved are held where they are.
    left: u64,
    failed: u64,
    moved: u64,
}

impl Passes {
    fn add(&mut self, own: &Balance) {
        self.all += own.lb_count;
        self.no_group += own.lb_nobusyg;
        self.no_queue += own.lb_nobusyq;
        self.left += own.lb_balanced.saturating_sub(own.lb_nobusyg + own.lb_nobusyq);
        self.failed += own.lb_failed;
        self.moved += own.lb_count.saturating_sub(own.lb_balanced + own.lb_failed);
    }

    /// How they ended, the most frequent end first: `no busier group 12 times, no task given once`.
    fn describe(&self) -> String {
        let mut ends = vec![
            (self.no_group, "no busier group"),
            (self.no_queue, "no CPU with a task to give"),
            (self.left, "another CPU's turn or all tasks held there"),
            (self.failed, "no task given"),
            (self.moved, "tasks moved"),
        ];
        ends.retain(|(count, _)| *count > 0);
        ends.sort_by_key(|(count, _)| Reverse(*count));
        match ends[..] {
            [(count, end)] if count == self.all => format!("each time {end}"),
            _ => {
                let ends = ends.into_iter().map(|(count, end)| format!("{end} {}", times(count)));
                ends.collect::<Vec<_>>().join(", ")
            }
        }
    }
}

/// How a CPU that idled looked for load, or without one all CPUs. `None`: the kernel did not count it.
pub fn passes(idle_cpu: Option<u32>, domains: &[DomainScore]) -> Option<String> {
    let mut levels: BTreeMap<(u32, String), Passes> = BTreeMap::new();
    for own in domains.iter().filter(|own| idle_cpu.is_none_or(|cpu| cpu == own.cpu)) {
        let name = own.name.as_deref();
        let place = match (idle_cpu, name) {
            (Some(_), Some(name)) => format!("among CPUs {} in {name}", own.cpus),
            (Some(_), None) => format!("among CPUs {}", own.cpus),
            (None, Some(name)) => format!("in {name}"),
            (None, None) => format!("at level {}", own.domain),
        };
        let level = levels.entry((own.domain, place)).or_default();
        [&own.idle, &own.newly_idle].into_iter().for_each(|balance| level.add(balance));
        if idle_cpu.is_none() {
            level.add(&own.busy);
        }
    }
    if levels.is_empty() {
        return None;
    }
    let seen = levels.iter().filter(|(_, passes)| passes.all > 0).map(|((_, place), passes)| {
        format!("{} {place} ({})", times(passes.all), passes.describe())
    });
    let who = idle_cpu.map_or("all CPUs together".to_string(), |cpu| format!("CPU {cpu}, idle,"));
    let seen: Vec<String> = seen.collect();
    Some(match seen.is_empty() {
        true => format!("{who} never looked for load"),
        false => format!("{who} looked for load {}", seen.join(" and ")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn domain(
        cpu: u32,
        number: u32,
        name: Option<&str>,
        [busy, idle]: [Balance; 2],
    ) -> DomainScore {
        DomainScore {
            cpu,
            domain: number,
            name: name.map(str::to_string),
            cpus: if number == 0 { "0-1" } else { "0-3" }.parse().unwrap(),
            busy,
            idle,
            newly_idle: Balance { lb_count: 1, lb_balanced: 1, ..Balance::default() },
            ..DomainScore::default()
        }
    }

    #[test]
    fn each_pass_has_one_end() {
        let idle = Balance {
            lb_count: 41,
            lb_balanced: 30,
            lb_nobusyg: 20,
            lb_nobusyq: 3,
            lb_failed: 9,
            lb_gained: 7,
            ..Balance::default()
        };
        let busy = Balance { lb_count: 5, lb_balanced: 5, lb_nobusyg: 5, ..Balance::default() };
        let domains = [
            domain(1, 0, Some("MC"), [busy, idle]),
            domain(1, 1, None, [busy, Balance::default()]),
            domain(2, 0, Some("MC"), [busy, busy]),
        ];
        let own = passes(Some(1), &domains).unwrap();
        for part in [
            "CPU 1, idle, looked for load 42 times among CPUs 0-1 in MC (no busier group 20 times, ",
            "no task given 9 times, ",
            "held there 8 times, ",
            "to give 3 times, tasks moved 2 times) and once among CPUs 0-3 (each time another CPU's turn",
        ] {
            assert!(own.contains(part), "{part}: {own}");
        }
        let all = passes(None, &domains).unwrap();
        assert!(
            all.contains("looked for load 58 times in MC (no busier group 35 times, "),
            "{all}"
        );
        assert!(all.contains(" and 6 times at level 1 (no busier group 5 times, "), "{all}");
    }

    #[test]
    fn a_cpu_that_never_looks_is_another_thing_than_counts_that_lack() {
        assert_eq!(passes(Some(1), &[]), None);
        let quiet = DomainScore { cpu: 1, ..DomainScore::default() };
        let own = passes(Some(1), std::slice::from_ref(&quiet)).unwrap();
        assert!(own.ends_with("never looked for load"), "{own}");
        assert_eq!(passes(Some(2), &[quiet]), None, "nothing is known of that CPU");
    }
}
