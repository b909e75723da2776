//! CPU time that cannot be: more than the CPUs had. Some schedulers outside of mainline count it twice. Values that
//! are computed from such a count are left out. Pure.

/// Error that clock ticks may add, and the time between the readings of the two clocks.
const SLACK_NS: u64 = 100_000_000;

/// Why nothing is computed from CPU time, where [`is_above_wall`].
pub const ABOVE_WALL: &str =
    "the kernel counted more CPU time than there was, so it is not known which of it is true";

/// Whether `cpus` CPUs cannot have `cpu_ns` of CPU time in `wall_ns`, by more than reading them explains.
pub fn is_above_wall(cpu_ns: u64, wall_ns: u64, cpus: usize) -> bool {
    let had_ns = wall_ns.saturating_mul(cpus as u64);
    cpu_ns > had_ns.saturating_add(had_ns / 4).saturating_add(SLACK_NS)
}

/// Whether workers of one thread each, by CPU time and wall time, have more than they can: each more than
/// one CPU, or together more than all CPUs, where their number is known.
pub fn are_above_wall(workers: impl Iterator<Item = (u64, u64)>, cpus: Option<usize>) -> bool {
    let (mut all_ns, mut longest_ns, mut any) = (0u64, 0, false);
    for (cpu_ns, wall_ns) in workers {
        any |= is_above_wall(cpu_ns, wall_ns, 1);
        all_ns = all_ns.saturating_add(cpu_ns);
        longest_ns = wall_ns.max(longest_ns);
    }
    any || cpus.is_some_and(|cpus| is_above_wall(all_ns, longest_ns, cpus))
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn more_than_there_was_is_found_and_what_reading_adds_is_not() {
        // CPU time and wall time of workers in ms, CPUs, whether that cannot be.
        type Case = (&'static [(u64, u64)], Option<usize>, bool);
        let cases: &[Case] = &[
            (&[], Some(4), false),
            (&[(10_000, 10_000)], Some(1), false),
            (&[(10_090, 10_000)], Some(1), false),
            (&[(0, 0)], Some(1), false),
            (&[(50, 0)], Some(1), false),
            (&[(20_000, 10_000)], None, true),
            (&[(5_000, 10_000), (20_000, 10_000)], Some(64), true),
            // Eight workers that share four CPUs, counted once and twice.
            (&[(5_000, 10_000); 8], Some(4), false),
            (&[(10_000, 10_000); 8], Some(4), true),
            (&[(10_000, 10_000); 8], None, false),
            // Workers that were there for a part of the time.
            (&[(1_000, 1_000), (10_000, 10_000)], Some(1), false),
        ];
        for (workers, cpus, expected) in cases {
            let in_ns = workers.iter().map(|(cpu, wall)| (cpu * S / 1000, wall * S / 1000));
            assert_eq!(are_above_wall(in_ns, *cpus), *expected, "{workers:?} {cpus:?}");
        }
        assert!(!is_above_wall(u64::MAX, u64::MAX, 4), "and nothing overflows");
    }
}
