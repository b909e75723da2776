//! Load balancing between two moments, by scheduling domain, from /proc/schedstat: whichever
//! source counts tasks. Reads two files, each twice.

use crate::model::{DomainScore, Reading};
use crate::sys::Host;
use crate::sys::schedstat::{self, Schedstat};

const FILE: &str = "/proc/schedstat";
/// Where this is 0, the counters stand still.
const SWITCH: &str = "/proc/sys/kernel/sched_schedstats";

/// The first reading, waiting for the second.
pub struct Domains {
    host: Host,
    before: Result<Schedstat, String>,
}

impl Domains {
    pub fn begin(host: Host) -> Domains {
        let before = read(&host);
        Domains { host, before }
    }

    /// What happened since, or why that is not known.
    pub fn end(&self) -> Result<Vec<DomainScore>, String> {
        let told = |why: String| format!("load balancing is not counted: {why}");
        let before = self.before.as_ref().map_err(|why| told(why.clone()))?;
        let after = read(&self.host).map_err(told)?;
        schedstat::between(before, &after).map_err(told)
    }
}

fn read(host: &Host) -> Result<Schedstat, String> {
    let text = match host.reading(FILE) {
        Reading::Known(text) => text,
        Reading::Unknown(why) => return Err(why),
    };
    if host.read(SWITCH).is_ok_and(|text| text.trim() == "0") {
        return Err(format!("{SWITCH} is 0 (hint: sysctl kernel.sched_schedstats=1)"));
    }
    schedstat::parse(&text).map_err(|why| format!("{FILE}: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::testing::Tree;

    fn file(calls: u32) -> String {
        let rest = ["0"; 35].join(" ");
        format!("version 16\ntimestamp 1\ncpu0 0 0 0 0 0 0 0 0 0\ndomain0 3 {calls} {rest}\n")
    }

    #[test]
    fn differences_are_told_or_why_there_are_none() {
        let tree = Tree::of::<&str>(&[]);
        let end = |before: &Domains| before.end().map(|domains| domains[0].busy.lb_count);
        let absent = Domains::begin(tree.host());
        tree.write(FILE, &file(5));
        let missing = "load balancing is not counted: /proc/schedstat: ENOENT, not there";
        assert_eq!(end(&absent).unwrap_err(), missing);
        let before = Domains::begin(tree.host());
        tree.write(FILE, &file(9));
        assert_eq!(end(&before), Ok(4));
        tree.write(SWITCH, "0\n");
        assert!(end(&before).unwrap_err().contains("sysctl kernel.sched_schedstats=1"));
        tree.write(SWITCH, "1\n");
        tree.write(FILE, "version 99\n");
        let unknown = "load balancing is not counted: /proc/schedstat: has version 99; \
                       15 to 17 are understood";
        assert_eq!(end(&before).unwrap_err(), unknown);
    }
}
