//! /proc/schedstat, versions 15 to 17: counts of load balancing, for each CPU and scheduling domain. Facts from the
//! kernel's Documentation/scheduler/sched-stats.rst. Pure over text.
//!
//! A domain's line is `domainN [NAME] CPUMASK` and counters: three groups, one for each kind of idleness, then 12
//! others. Version 15 has the groups in the order idle, busy, newly idle, later ones busy, idle, newly idle; up to
//! 16 a group has 8 counters, in 17 it has 11.

use crate::model::clean;
use crate::model::{Balance, CpuSet, DomainScore};

const OTHERS: usize = 12;

/// The counters of all CPUs and domains, since they were set up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedstat {
    pub version: u32,
    domains: Vec<Domain>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Domain {
    cpu: u32,
    number: u32,
    name: Option<String>,
    cpus: CpuSet,
    /// In the order of the file. The kernel's are 32 bits wide, and sums of imbalances overflow.
    counters: Vec<u32>,
}

/// Why counters cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchedstatError {
    #[error("has version {0}; 15 to 17 are understood")]
    Version(u32),
    #[error("begins with `{}`, not a version", clean(.0))]
    NoVersion(String),
    #[error("line {line}: {what}")]
    Line { line: usize, what: BadLine },
    #[error("the scheduling domains were set up anew meanwhile")]
    Rebuilt,
}

/// The fault of a line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadLine {
    #[error("a domain before any CPU")]
    NoCpu,
    #[error("{words} words, fewer than {wanted} counters")]
    Short { words: usize, wanted: usize },
    #[error("{words} words for {wanted} counters and a mask")]
    Long { words: usize, wanted: usize },
    #[error("`{}` is not a counter", clean(.0))]
    Counter(String),
    #[error("`{}` is not a mask of CPUs", clean(.0))]
    Mask(String),
}

pub fn parse(text: &str) -> Result<Schedstat, SchedstatError> {
    let mut lines = text.lines();
    let head = lines.next().unwrap_or_default();
    let version = head.strip_prefix("version ").and_then(|version| version.trim().parse().ok());
    let version = match version {
        Some(version @ 15..=17) => version,
        Some(version) => return Err(SchedstatError::Version(version)),
        None => return Err(SchedstatError::NoVersion(head.to_string())),
    };
    let (mut cpu, mut domains) = (None, Vec::new());
    for (at, line) in lines.enumerate() {
        let number = |word: &str, kind: &str| word.strip_prefix(kind)?.parse::<u32>().ok();
        let first = line.split_ascii_whitespace().next().unwrap_or_default();
        if let Some(number) = number(first, "cpu") {
            cpu = Some(number);
        } else if let Some(number) = number(first, "domain") {
            let wrong = |what| SchedstatError::Line { line: at + 2, what };
            let cpu = cpu.ok_or_else(|| wrong(BadLine::NoCpu))?;
            domains.push(parse_domain(line, version, cpu, number).map_err(wrong)?);
        }
    }
    Ok(Schedstat { version, domains })
}

fn group(version: u32) -> usize {
    if version < 17 { 8 } else { 11 }
}

/// Counted from the end, as a kernel of version 17 may be built without names.
fn parse_domain(line: &str, version: u32, cpu: u32, number: u32) -> Result<Domain, BadLine> {
    let words: Vec<&str> = line.split_ascii_whitespace().skip(1).collect();
    let wanted = 3 * group(version) + OTHERS;
    let (before, counters) = words
        .split_at_checked(words.len().saturating_sub(wanted))
        .filter(|(_, counters)| counters.len() == wanted)
        .ok_or(BadLine::Short { words: words.len(), wanted })?;
    let (name, mask) = match before {
        [mask] => (None, mask),
        [name, mask] if version >= 17 => (Some(name.to_string()), mask),
        _ => return Err(BadLine::Long { words: words.len(), wanted }),
    };
    let counters =
        counters.iter().map(|word| word.parse().map_err(|_| BadLine::Counter(word.to_string())));
    Ok(Domain {
        cpu,
        number,
        name,
        cpus: cpus(mask)?,
        counters: counters.collect::<Result<_, _>>()?,
    })
}

/// Hexadecimal, the highest CPUs first, a comma after each 32 of them.
fn cpus(mask: &str) -> Result<CpuSet, BadLine> {
    let mut cpus = Vec::new();
    for (at, word) in mask.rsplit(',').enumerate() {
        let bits = u32::from_str_radix(word, 16).map_err(|_| BadLine::Mask(mask.to_string()))?;
        let first = u32::try_from(at).map_or(u32::MAX, |at| at.saturating_mul(32));
        cpus.extend(
            (0..32).filter(|bit| bits >> bit & 1 == 1).map(|bit| first.saturating_add(bit)),
        );
    }
    Ok(cpus.into_iter().collect())
}

/// The counts between two readings. Fails if the domains were set up anew in between, which begins their counters
/// at 0.
pub fn between(before: &Schedstat, after: &Schedstat) -> Result<Vec<DomainScore>, SchedstatError> {
    if (before.version, before.domains.len()) != (after.version, after.domains.len()) {
        return Err(SchedstatError::Rebuilt);
    }
    let both = before.domains.iter().zip(&after.domains);
    both.map(|(from, to)| difference(from, to, after.version).ok_or(SchedstatError::Rebuilt))
        .collect()
}

/// `None`: not the same domain.
fn difference(from: &Domain, to: &Domain, version: u32) -> Option<DomainScore> {
    let who = |of: &Domain| (of.cpu, of.number, of.name.clone(), of.cpus.clone());
    if who(from) != who(to) {
        return None;
    }
    let group = group(version);
    // Counts do not overflow within a run; of sums the difference is right all the same.
    let is_sum = |at: usize| at < 3 * group && (3..group - 4).contains(&(at % group));
    let pairs = from.counters.iter().zip(&to.counters).enumerate();
    let counts = pairs.map(|(at, (from, to))| {
        if is_sum(at) {
            Some(u64::from(to.wrapping_sub(*from)))
        } else {
            to.checked_sub(*from).map(u64::from)
        }
    });
    let counts: Vec<u64> = counts.collect::<Option<_>>()?;
    let (groups, others) = counts.split_at(3 * group);
    let balance = |at: usize| balance(&groups[at * group..][..group]);
    let (busy, idle) = if version == 15 { (1, 0) } else { (0, 1) };
    let &[alb_count, alb_failed, alb_pushed, sbe_count, sbe_balanced, sbe_pushed, ref others @ ..] =
        others
    else {
        return None;
    };
    let &[
        sbf_count,
        sbf_balanced,
        sbf_pushed,
        ttwu_wake_remote,
        ttwu_move_affine,
        ttwu_move_balance,
    ] = others
    else {
        return None;
    };
    Some(DomainScore {
        cpu: to.cpu,
        domain: to.number,
        name: to.name.clone(),
        cpus: to.cpus.clone(),
        busy: balance(busy)?,
        idle: balance(idle)?,
        newly_idle: balance(2)?,
        alb_count,
        alb_failed,
        alb_pushed,
        sbe_count,
        sbe_balanced,
        sbe_pushed,
        sbf_count,
        sbf_balanced,
        sbf_pushed,
        ttwu_wake_remote,
        ttwu_move_affine,
        ttwu_move_balance,
    })
}

fn balance(counts: &[u64]) -> Option<Balance> {
    let (&[lb_count, lb_balanced, lb_failed], rest) = counts.split_first_chunk()?;
    let (sums, &[lb_gained, lb_hot_gained, lb_nobusyq, lb_nobusyg]) = rest.split_last_chunk()?;
    let own = Balance {
        lb_count,
        lb_balanced,
        lb_failed,
        lb_gained,
        lb_hot_gained,
        lb_nobusyq,
        lb_nobusyg,
        ..Balance::default()
    };
    match *sums {
        [sum] => Some(Balance { lb_imbalance: Some(sum), ..own }),
        [load, util, task, misfit] => Some(Balance {
            lb_imbalance_load: Some(load),
            lb_imbalance_util: Some(util),
            lb_imbalance_task: Some(task),
            lb_imbalance_misfit: Some(misfit),
            ..own
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of two CPUs with a domain each, and counters `from`, `from` + 1 and so on.
    fn file(version: u32, name: &str, from: u32) -> String {
        let count = 3 * group(version) + OTHERS;
        let counters: Vec<String> = (from..).take(count).map(|n| n.to_string()).collect();
        let cpu = |cpu: u32| {
            format!(
                "cpu{cpu} 0 0 1 2 3 4 5 6 7\ndomain0 {name}80000001,00000003 {}\n",
                counters.join(" ")
            )
        };
        format!("version {version}\ntimestamp 4295\n{}{}", cpu(0), cpu(1))
    }

    /// Grows by its own position, from 0.
    fn grown(version: u32, name: &str) -> DomainScore {
        let zero = file(version, name, 0);
        let zero = zero.lines().map(|line| match line.split_once("00000003 ") {
            Some((head, counters)) => {
                let zeros = vec!["0"; counters.split(' ').count()];
                format!("{head}00000003 {}", zeros.join(" "))
            }
            None => line.to_string(),
        });
        let zero = zero.collect::<Vec<_>>().join("\n");
        let domains =
            between(&parse(&zero).unwrap(), &parse(&file(version, name, 1)).unwrap()).unwrap();
        assert_eq!(domains.iter().map(|domain| domain.cpu).collect::<Vec<_>>(), [0, 1]);
        domains.into_iter().next().unwrap()
    }

    /// Calls of each kind and one counter further on, by their places in the documentation.
    fn calls(domain: &DomainScore) -> [u64; 3] {
        [domain.busy.lb_count, domain.idle.lb_count, domain.newly_idle.lb_count]
    }

    #[test]
    fn each_version_has_its_counters_in_its_places() {
        let cases = [
            (15, "", [9, 1, 17], Some(12), None, [13, 16, 25, 36]),
            (16, "", [1, 9, 17], Some(4), None, [5, 8, 25, 36]),
            (17, "MC ", [1, 12, 23], None, Some([4, 5, 6, 7]), [8, 11, 34, 45]),
            (17, "", [1, 12, 23], None, Some([4, 5, 6, 7]), [8, 11, 34, 45]),
        ];
        for (version, name, expected, imbalance, four, others) in cases {
            let domain = grown(version, name);
            assert_eq!(calls(&domain), expected, "{version}");
            let busy = domain.busy;
            assert_eq!((busy.lb_balanced, busy.lb_failed), (expected[0] + 1, expected[0] + 2));
            assert_eq!(busy.lb_imbalance, imbalance, "{version}");
            let seen = (|| {
                Some([
                    busy.lb_imbalance_load?,
                    busy.lb_imbalance_util?,
                    busy.lb_imbalance_task?,
                    busy.lb_imbalance_misfit?,
                ])
            })();
            assert_eq!(seen, four, "{version}");
            let seen =
                [busy.lb_gained, busy.lb_nobusyg, domain.alb_count, domain.ttwu_move_balance];
            assert_eq!(seen, others, "{version}");
            assert_eq!((busy.lb_hot_gained, busy.lb_nobusyq), (others[0] + 1, others[0] + 2));
            assert_eq!(domain.sbe_count + 3, domain.sbf_count);
            assert_eq!(domain.cpus.to_string(), "0-1,32,63", "{version}");
            assert_eq!(domain.name.as_deref(), (!name.is_empty()).then_some("MC"));
        }
    }

    #[test]
    fn what_cannot_be_understood_gives_its_reason() {
        let short = file(17, "MC ", 0).replace(" 44\n", "\n");
        let cases = [
            ("", "begins with ``, not a version"),
            ("version 14\n", "has version 14; 15 to 17 are understood"),
            ("version 18\n", "has version 18; 15 to 17 are understood"),
            ("version -\u{1b}\n", "begins with `version -\\u{1b}`, not a version"),
            ("version 15\ndomain0 3 1\n", "line 2: a domain before any CPU"),
            ("version 15\ncpu0 1\ndomain0\n", "line 3: 0 words, fewer than 36 counters"),
            (&file(16, "MC ", 0), "line 4: 38 words for 36 counters and a mask"),
            (&short, "line 4: `MC` is not a mask of CPUs"),
            (&file(16, "", 0).replace(" 7 ", " x "), "line 4: `x` is not a counter"),
            (
                &file(16, "", 0).replace(" 7 ", " 4294967296 "),
                "line 4: `4294967296` is not a counter",
            ),
            (
                &file(16, "", 0).replace("80000001,", "8000000g,"),
                "line 4: `8000000g,00000003` is not a mask of CPUs",
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(parse(text).unwrap_err().to_string(), expected, "{text}");
        }
        assert_eq!(parse("version 16\ntimestamp 1\ncpu0 1 2\n").unwrap().domains, []);
    }

    #[test]
    fn sums_overflow_but_counts_that_fall_were_begun_anew() {
        let domains = |from: &str, to: &str| {
            let file = |name| file(17, "MC ", 10).replace(" 13 ", from).replace(" 11 ", name);
            between(&parse(&file(" 11 ")).unwrap(), &parse(&file(to).replace(from, " 6 ")).unwrap())
        };
        let seen = domains(" 4294967290 ", " 12 ").unwrap();
        assert_eq!((seen[0].busy.lb_imbalance_load, seen[0].busy.lb_balanced), (Some(12), 1));
        let rebuilt = SchedstatError::Rebuilt;
        assert_eq!(domains(" 13 ", " 9 ").unwrap_err(), rebuilt);
        let (mc, numa) =
            (parse(&file(17, "MC ", 0)).unwrap(), parse(&file(17, "NUMA ", 0)).unwrap());
        assert_eq!(between(&mc, &numa).unwrap_err(), rebuilt);
        let fewer = Schedstat { domains: mc.domains[..1].to_vec(), ..mc.clone() };
        assert_eq!(between(&mc, &fewer).unwrap_err(), rebuilt);
    }
}
