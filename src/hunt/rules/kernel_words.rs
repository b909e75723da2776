//! The kernel says itself that something is wrong: a panic, which every warning and oops becomes on the command line of a
//! case, a lockup, a stall, a hung task, or a sched_ext scheduler that it throws out. Source: the words of
//! kernel/panic.c, kernel/watchdog.c, kernel/rcu/tree_stall.h, kernel/hung_task.c and kernel/sched/ext.c, in the end
//! of a failed guest's console. No tolerance.

use crate::hunt::contract::{Judgement, Rule};
use crate::hunt::seen::Seen;

const WORDS: &[&str] = &[
    "Kernel panic - not syncing",
    "BUG: ",
    "Oops: ",
    "WARNING: CPU",
    "soft lockup",
    "detected stalls on",
    "self-detected stall",
    "blocked for more than",
    "runnable task stall",
    // Also a scheduler that ends itself.
    "did not last: ",
];

pub struct KernelWords;

impl Rule for KernelWords {
    fn name(&self) -> &'static str {
        "kernel words"
    }

    fn judge(&self, seen: &Seen) -> Option<Judgement> {
        let reason = seen.failure.as_ref()?;
        let is_there = WORDS.iter().any(|words| reason.contains(words));
        is_there.then(|| Judgement { distance: 1.0, figure: 1.0, ..Judgement::default() })
    }

    fn explain(&self, seen: &Seen, _: &Judgement) -> String {
        let reason = seen.failure.as_deref().unwrap_or_default();
        format!("the kernel gives up or complains: {reason}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hunt::testing::failed;

    #[test]
    fn words_of_the_kernel_are_its_own_and_other_failures_are_not() {
        let broken = |reason: &str| KernelWords.judge(&failed(reason)).is_some();
        assert!(broken(
            "the guest's kernel gave up: Kernel panic - not syncing: kernel: panic_on_warn set"
        ));
        assert!(broken(
            "it hung; the end of its console: rcu: INFO: rcu_sched self-detected stall on CPU"
        ));
        assert!(!broken("no memory is left for QEMU"));
    }
}
