//! Comparisons of scoreboards that are laid out here, with exact numbers.

use super::*;
use crate::model::{Bucket, DomainScore, Migrations};

fn task(name: &str, pid: i32, run_ns: u64, waits: &[(u64, u64)]) -> TaskScore {
    let bucket = |&(low_ns, count): &(u64, u64)| Bucket { low_ns, high_ns: low_ns + 1, count };
    TaskScore {
        tid: pid,
        pid,
        name: name.to_string(),
        process: format!("{name}-main"),
        cgroup: Some(format!("/{}", &name[..1])),
        watched: true,
        run_ns: Some(run_ns),
        wait: Some(Times {
            count: waits.iter().map(|(_, count)| count).sum(),
            total_ns: waits.iter().map(|(ns, count)| ns * count).sum(),
            max_ns: waits.iter().map(|(ns, _)| *ns).max(),
            buckets: waits.iter().map(bucket).collect(),
        }),
        voluntary: Some(10),
        involuntary: Some(run_ns / 1000),
        wakeups: Some(5),
        migrations: Some(Migrations { total: 2, by_distance: None }),
        ..TaskScore::default()
    }
}

fn pair(kind: PairKind, by: &str, name: &str, count: u64, lost_ns: u64) -> PairScore {
    let lost_ns = (kind != PairKind::Woke).then_some(lost_ns);
    PairScore { kind, by: by.to_string(), name: name.to_string(), count, lost_ns }
}

fn saved(id: &str, wall_ns: u64, tasks: Vec<TaskScore>, pairs: Vec<PairScore>) -> SavedScore {
    let cpu = |cpu, busy_ns| CpuScore {
        cpu,
        busy_ns: Some(busy_ns),
        switches: Some(busy_ns),
        lengths: Some(vec![1, 3]),
        ..CpuScore::default()
    };
    let mut domain = DomainScore { name: Some("MC".to_string()), ..DomainScore::default() };
    domain.idle.lb_count = wall_ns / 1_000_000;
    SavedScore {
        id: id.to_string(),
        started_unix_ns: 1,
        hostname: "big".to_string(),
        kernel_release: "6.18.1".to_string(),
        score: Score {
            source: Some("bpf".to_string()),
            watched: Watched::Command(vec!["web".to_string()]),
            wall_ns,
            tasks,
            cpus: vec![cpu(0, wall_ns / 2), cpu(1, wall_ns / 4)],
            pairs: Some(pairs),
            llcs: Some(vec!["0-1".parse().unwrap()]),
            domains: Some(vec![domain]),
            ..Score::default()
        },
    }
}

const S: u64 = 1_000_000_000;

fn compared(before: &SavedScore, after: &SavedScore, by: By) -> ScoreComparison {
    compare(before, after, [&[], &[]], by)
}

fn values(changes: &[Change]) -> Vec<(&str, Option<f64>, Option<f64>)> {
    changes.iter().map(|change| (change.name, change.before, change.after)).collect()
}

fn labels(rows: &[RowChange]) -> Vec<&str> {
    rows.iter().map(|row| row.label.as_str()).collect()
}

#[test]
fn what_changed_most_comes_first_with_all_its_numbers() {
    let before = vec![task("idler", 1, 500, &[]), task("web", 2, 4_000, &[(1_000, 4)])];
    let after = vec![task("idler", 3, 500, &[]), task("web", 4, 3_000, &[(1_000, 2), (9_000, 2)])];
    let of = compared(&saved("a", S, before, vec![]), &saved("b", S, after, vec![]), By::Name);
    assert_eq!((of.per_second, labels(&of.rows)), (false, vec!["web", "idler"]));
    let known = |a: f64, b: f64| (Some(a), Some(b));
    let expected = [
        ("run", known(4_000.0, 3_000.0)),
        ("waits", known(4.0, 4.0)),
        ("waited", known(4_000.0, 20_000.0)),
        ("wait p50", known(1_000.0, 1_001.0)),
        ("wait p99", known(1_000.0, 9_000.0)),
        ("wait max", known(1_000.0, 9_000.0)),
        ("voluntary", known(10.0, 10.0)),
        ("involuntary", known(4.0, 3.0)),
        ("migrations", known(2.0, 2.0)),
        ("wakeups", known(5.0, 5.0)),
    ];
    assert_eq!(values(&of.rows[0].changes), expected.map(|(name, (a, b))| (name, a, b)));
    let run = &of.rows[0].changes[0];
    assert_eq!((run.difference, run.relative, run.unit), (Some(-1000.0), Some(-0.25), Unit::Ns));
    // A quantity that is 0 on both sides says nothing.
    assert!(of.rows[1].changes.iter().all(|change| change.name != "waits"), "{:?}", of.rows[1]);
}

#[test]
fn unlike_lengths_are_compared_per_second_and_lengths_within_a_percent_are_alike() {
    let web = |run_ns| vec![task("web", 2, run_ns, &[(1_000, 8)])];
    let pairs = |count| vec![pair(PairKind::Delayed, "a", "b", count, 100 * count)];
    let before = saved("a", 2 * S, web(4_000), pairs(2));
    let of = compared(&before, &saved("b", S, web(3_000), pairs(2)), By::Name);
    assert!(of.per_second);
    let changes = &of.rows[0].changes;
    assert_eq!(
        values(&changes[..2]),
        [("run", Some(2_000.0), Some(3_000.0)), ("waits", Some(4.0), Some(8.0)),]
    );
    assert_eq!((changes[0].unit, changes[1].unit), (Unit::NsPerS, Unit::CountPerS));
    let p50 = changes.iter().find(|change| change.name == "wait p50").unwrap();
    assert_eq!((p50.unit, p50.difference), (Unit::Ns, Some(0.0)), "one wait is as long");
    assert_eq!(
        values(&of.pairs[0].changes),
        [("ran", Some(100.0), Some(200.0)), ("preempted", Some(1.0), Some(2.0))]
    );
    assert!(!compared(&before, &saved("b", 2 * S + S / 100, web(1), vec![]), By::Name).per_second);
}

#[test]
fn one_that_is_on_one_side_alone_did_nothing_on_the_other() {
    let before = saved("a", S, vec![task("old", 1, 1_000, &[(10, 1)])], vec![]);
    let mut new = task("new", 2, 3_000, &[]);
    (new.wakeups, new.migrations) = (None, None);
    let of = compared(&before, &saved("b", S, vec![new], vec![]), By::Name);
    assert_eq!(labels(&of.rows), ["new", "old"]);
    let [new, old] = [0, 1].map(|at| &of.rows[at].changes);
    assert_eq!(values(&new[..1]), [("run", Some(0.0), Some(3_000.0))]);
    assert_eq!(new[0].relative, None, "no share of nothing");
    assert!(new.iter().all(|change| change.name != "wakeups"), "not counted: {new:?}");
    assert_eq!((old[0].after, old[0].relative), (Some(0.0), Some(-1.0)));
}

#[test]
fn tasks_are_folded_by_process_without_its_number_and_by_cgroup() {
    let tasks = || vec![task("a1", 1, 10, &[]), task("a2", 2, 20, &[]), task("b", 3, 30, &[])];
    let other = || saved("b", S, vec![], vec![]);
    let of = |by| compared(&saved("a", S, tasks(), vec![]), &other(), by);
    let sorted = |by| {
        let of = of(by);
        let mut labels: Vec<String> = of.rows.iter().map(|row| row.label.clone()).collect();
        labels.sort_unstable();
        labels
    };
    assert_eq!(sorted(By::Name), ["a1", "a2", "b"]);
    assert_eq!(sorted(By::Process), ["a1-main", "a2-main", "b-main"]);
    assert_eq!(sorted(By::Cgroup), ["/a", "/b"]);
    let mut unwatched = tasks();
    unwatched[0].watched = false;
    let of = compared(&saved("a", S, unwatched, vec![]), &other(), By::Name);
    assert_eq!(of.rows.len(), 2, "what was not asked for is left out");
}

#[test]
fn pairs_by_lost_time_then_wakeups_and_what_is_folded_last() {
    use PairKind::{Delayed, Woke};
    let folded = PairScore::UNWATCHED;
    let before = vec![
        pair(Woke, "a", "b", 1000, 0),
        pair(Delayed, "a", "b", 3, 300),
        pair(Delayed, folded, folded, 1, 0),
    ];
    let after = vec![
        pair(Woke, "a", "b", 10, 0),
        pair(Delayed, "a", "b", 3, 500),
        pair(Delayed, "b", "a", 1, 9_000),
        pair(Delayed, folded, folded, 1, 99_000),
    ];
    let of = compared(&saved("a", S, vec![], before), &saved("b", S, vec![], after), By::Name);
    let order: Vec<(PairKind, &str)> =
        of.pairs.iter().map(|pair| (pair.kind, pair.by.as_str())).collect();
    assert_eq!(order, [(Delayed, "b"), (Delayed, "a"), (Delayed, folded), (Woke, "a")]);
    let mut blind = saved("c", S, vec![], vec![]);
    blind.score.pairs = None;
    let of = compared(&saved("a", S, vec![], vec![pair(Woke, "a", "b", 1, 0)]), &blind, By::Name);
    assert_eq!(of.pairs, [], "a source that sees no pairs has not seen them vanish");
}

/// Kept by an earlier schedlab: how often is the same quantity, for how long is not.
#[test]
fn who_ran_while_others_waited_is_unknown_where_only_preemptors_were_counted() {
    let before = vec![pair(PairKind::Preempted, "bell", "victim", 10, 2_000)];
    let after = vec![
        pair(PairKind::Delayed, "bell", "victim", 10, 4),
        pair(PairKind::Delayed, "thief", "victim", 0, 1_996),
    ];
    let of = compared(&saved("a", S, vec![], before), &saved("b", S, vec![], after), By::Name);
    let by = |name| of.pairs.iter().find(|pair| pair.by == name).map(|pair| values(&pair.changes));
    assert_eq!(
        by("bell"),
        Some(vec![("ran", None, Some(4.0)), ("preempted", Some(10.0), Some(10.0))])
    );
    assert_eq!(by("thief"), Some(vec![("ran", None, Some(1_996.0))]));
}

#[test]
fn cpus_caches_and_domains() {
    let (before, mut after) = (saved("a", S, vec![], vec![]), saved("b", 2 * S, vec![], vec![]));
    after.score.cpus[1].busy_ns = Some(2 * S);
    let of = compared(&before, &after, By::Name);
    assert_eq!(labels(&of.cpus), ["CPU 1", "CPU 0"], "what changed most first");
    assert_eq!(
        values(&of.cpus[0].changes),
        [
            ("busy", Some(0.25), Some(1.0)),
            ("switches", Some(2.5e8), Some(2.5e8)),
            ("queue mean", Some(0.75), Some(0.75)),
        ]
    );
    assert_eq!(labels(&of.llcs), ["cache of CPUs 0-1"]);
    assert_eq!(values(&of.llcs[0].changes), [("busy", Some(0.375), Some(0.75))]);
    after.score.llcs = Some(["16-17", "2-3"].map(|cpus| cpus.parse().unwrap()).to_vec());
    let of_other = compared(&before, &after, By::Name);
    let caches = ["cache of CPUs 0-1", "cache of CPUs 2-3", "cache of CPUs 16-17"];
    assert_eq!(labels(&of_other.llcs), caches, "by number");
    assert_eq!(values(&of_other.llcs[0].changes), [("busy", Some(0.375), None)]);
    assert_eq!(labels(&of.domains), ["domain0 MC, idle"]);
    assert_eq!(values(&of.domains[0].changes), [("lb_count", Some(1000.0), Some(1000.0))]);
}

#[test]
fn a_queue_that_was_never_looked_at_has_no_mean() {
    let mean = |lengths| queue_mean(&CpuScore { lengths, ..CpuScore::default() });
    assert_eq!(mean(Some(vec![1, 3])), Some(0.75));
    assert_eq!(mean(Some(vec![0, 0])), None);
    assert_eq!(mean(None), None);
}

#[test]
fn a_task_that_runs_much_and_as_before_comes_after_one_that_changed() {
    let of = |run_ns| vec![task("steady", 1, 900_000, &[]), task("web", 2, run_ns, &[])];
    let [before, after] = [saved("a", S, of(4_000), vec![]), saved("b", S, of(3_000), vec![])];
    assert_eq!(labels(&compared(&before, &after, By::Name).rows), ["web", "steady"]);
    let in_twice = vec![task("steady", 1, 1_800_000, &[]), task("web", 2, 6_000, &[])];
    let longer = saved("b", 2 * S, in_twice, vec![]);
    assert_eq!(labels(&compared(&before, &longer, By::Name).rows), ["web", "steady"]);
}

#[test]
fn a_task_of_which_nothing_is_known_has_no_row() {
    let unknown = TaskScore { name: "web".to_string(), watched: true, ..TaskScore::default() };
    let of = |id| saved(id, S, vec![unknown.clone()], vec![]);
    assert_eq!(labels(&compared(&of("a"), &of("b"), By::Name).rows), [""; 0]);
}
