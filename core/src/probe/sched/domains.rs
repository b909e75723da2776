//! Load balancing between two moments, by scheduling domain, from /proc/schedstat: whichever
//! source counts tasks. Reads two files, each twice.

use crate::model::DomainScore;
use crate::sys::Host;
use crate::sys::schedstat::{self, Schedstat};

use super::DomainsError;

const FILE: &str = "/proc/schedstat";
/// The counters stand still where this is 0.
const SWITCH: &str = "/proc/sys/kernel/sched_schedstats";

/// The first reading, waiting for the second.
pub struct Domains {
    host: Host,
    before: Result<Schedstat, DomainsError>,
}

impl Domains {
    /// Lets the kernel count from now on. For guests: whoever owns the machine has set this.
    pub fn count(host: &Host) {
        // Without the switch the kernel counts always or never, which reading it says.
        _ = host.write(SWITCH, "1");
    }

    pub fn begin(host: Host) -> Domains {
        let before = read(&host);
        Domains { host, before }
    }

    /// The counts since, or why they are not known.
    pub fn end(self) -> Result<Vec<DomainScore>, DomainsError> {
        let (before, after) = (self.before?, read(&self.host)?);
        schedstat::between(&before, &after).map_err(DomainsError::Rebuilt)
    }
}

fn read(host: &Host) -> Result<Schedstat, DomainsError> {
    let text = host.text(FILE)?;
    if host.read(SWITCH).is_ok_and(|text| text.trim() == "0") {
        return Err(DomainsError::Off { switch: SWITCH });
    }
    schedstat::parse(&text).map_err(|source| DomainsError::Content { file: FILE, source })
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
    fn there_are_differences_or_the_reason_why_not() {
        let tree = Tree::with_files::<&str>(&[]);
        let end = |before: Domains| {
            let domains = before.end().map_err(|error| error.to_string());
            domains.map(|domains| domains[0].busy.lb_count)
        };
        let begin = || {
            tree.write(FILE, &file(5));
            Domains::begin(tree.host())
        };
        let absent = Domains::begin(tree.host());
        let missing = "load balancing is not counted: /proc/schedstat: ENOENT, not there";
        assert_eq!(end(absent).unwrap_err(), missing);
        let before = begin();
        tree.write(FILE, &file(9));
        assert_eq!(end(before), Ok(4));
        let before = begin();
        tree.write(SWITCH, "0\n");
        assert!(end(before).unwrap_err().contains("sysctl kernel.sched_schedstats=1"));
        Domains::count(&tree.host());
        let before = begin();
        tree.write(FILE, &file(7));
        assert_eq!(end(before), Ok(2));
        let before = begin();
        tree.write(FILE, "version 99\n");
        let unknown = "load balancing is not counted: /proc/schedstat: has version 99; \
                       15 to 17 are understood";
        assert_eq!(end(before).unwrap_err(), unknown);
    }
}
