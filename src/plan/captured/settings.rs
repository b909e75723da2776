//! How threads were set, and the knobs for it. Pure.

use std::collections::BTreeMap;

use crate::model::{CpuSet, TracedTask};
use crate::plan::table::toml_text as quoted;

use super::parts::time;

/// How the threads of a role were set.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Settings {
    pub policy: Option<&'static str>,
    pub slice_ns: Option<u64>,
    pub affinity: Option<CpuSet>,
}

impl Settings {
    /// The knobs of threads with this priority of the kernel, where they are not usual.
    pub fn knobs(&self, prio: u16) -> Vec<String> {
        let is_real_time = prio < 99;
        let policy = self.policy.filter(|word| matches!(*word, "fifo" | "rr") == is_real_time);
        let policy = policy.or(is_real_time.then_some("fifo"));
        let mut knobs: Vec<String> =
            policy.map(|word| format!("policy = \"{word}\"")).into_iter().collect();
        match prio {
            // 99 is that of the thread that measures.
            0..=98 => knobs.push(format!("priority = {}", (99 - prio).min(98))),
            100..=139 if prio != 120 && policy != Some("idle") => {
                knobs.push(format!("nice = {}", i32::from(prio) - 120))
            }
            _ => {}
        }
        // Sleeps are as long as they were seen: with the slack of those timers.
        knobs.extend((!is_real_time).then(|| "timer-slack = \"1ns\"".to_string()));
        knobs.extend(self.slice_ns.map(|ns| format!("slice = {}", quoted(&time(ns)))));
        let affinity = self.affinity.as_ref();
        knobs.extend(affinity.map(|cpus| format!("affinity = {}", quoted(&cpus.to_string()))));
        knobs
    }
}

/// The settings of each of these tasks. One of which none are known has those of its namesakes, where they agree.
pub fn with_namesakes(tasks: &[TracedTask], known: &BTreeMap<i32, Settings>) -> Vec<Settings> {
    let name = |task: &TracedTask| (task.process.clone(), task.name.clone(), task.tid == task.pid);
    let mut alike: BTreeMap<_, Option<&Settings>> = BTreeMap::new();
    for task in tasks {
        let Some(own) = known.get(&task.tid) else { continue };
        let all = alike.entry(name(task)).or_insert(Some(own));
        *all = all.filter(|all| *all == own);
    }
    let settings = |task: &TracedTask| {
        let own = known.get(&task.tid);
        own.or_else(|| *alike.get(&name(task))?).cloned().unwrap_or_default()
    };
    tasks.iter().map(settings).collect()
}
