//! Has the kernel forget how long its searches for work took while the machine booted.
//!
//! A CPU that becomes idle looks for tasks of other CPUs if it expects to be idle for longer than the longest such search
//! took. The kernel lowers that time by 1 % a second. So one search of a millisecond during the boot keeps a CPU of a
//! guest from all of them for minutes, and `exec::shuffle` changes nothing about it.

use std::fs;
use std::path::PathBuf;

use super::Host;

/// Where kernels show their scheduling domains: from 5.13 on, and before.
const FOLDERS: [&str; 2] = ["/sys/kernel/debug/sched/domains", "/proc/sys/kernel/sched_domain"];
/// Newer kernels (6.12, not 6.1) show them only if this is on.
const SHOWN: &str = "/sys/kernel/debug/sched/verbose";
const LONGEST_SEARCH_NS: &str = "max_newidle_lb_cost";

pub fn show_domains(host: &Host) {
    // A kernel without this file shows its domains in any case, or has none to show.
    _ = host.write(SHOWN, "Y");
}

pub fn forget_longest_searches(host: &Host) {
    let inside = |folder: PathBuf| {
        let entries = fs::read_dir(host.path(&folder)).into_iter().flatten().flatten();
        entries.map(move |entry| folder.join(entry.file_name()))
    };
    let cpus = FOLDERS.iter().flat_map(|folder| inside(folder.into()));
    for domain in cpus.flat_map(inside) {
        // A kernel that shows none, or no such time, keeps what it has.
        _ = host.write(domain.join(LONGEST_SEARCH_NS), "0");
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Tree;
    use super::*;

    #[test]
    fn the_longest_searches_are_forgotten_in_each_domain_and_nothing_else() {
        let tree = Tree::with_files::<&str>(&[]);
        forget_longest_searches(&tree.host());
        let domains = FOLDERS.map(|folder| {
            ["cpu0/domain0", "cpu0/domain1", "cpu9/domain0"].map(|name| format!("{folder}/{name}"))
        });
        for domain in domains.as_flattened() {
            tree.write(&format!("{domain}/{LONGEST_SEARCH_NS}"), "1441938\n");
            tree.write(&format!("{domain}/imbalance_pct"), "117\n");
        }
        forget_longest_searches(&tree.host());
        for domain in domains.as_flattened() {
            let text = |name| tree.host().read(format!("{domain}/{name}")).unwrap();
            assert_eq!([text(LONGEST_SEARCH_NS), text("imbalance_pct")], ["0", "117"]);
        }
    }
}
