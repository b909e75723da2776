//! Hosts as draws: what is one host, what is one plan, who differs.

use crate::analysis::testing::{environment, plan, rounds, row, work};
use crate::analysis::{
    Analysis, Difference, Family, Note, OverHosts, Pairing, Question, Selection, alike, analyse,
};
use crate::model::{Reading, SampledPlan};
use crate::stats::{Effect, Verdict, Why};

const VARIANTS: [&str; 2] = ["default", "batch"];

/// A plan with these rounds on this host, where `batch` is `factor` times the baseline.
fn on(host: &str, at: u64, until: u32, factor: f64) -> SampledPlan {
    let mut plan = rounds(plan(&format!("p{at}"), at, &VARIANTS), 0..until, &[1.0, factor]);
    plan.environments = vec![environment("6.12.0", host, Some(&format!("boot of {host}")))];
    plan
}

/// Ten rounds on each host.
fn fleet(factors: &[f64]) -> Vec<SampledPlan> {
    let hosts = factors.iter().zip(1..);
    hosts.map(|(factor, at)| on(&format!("n{at}"), at, 10, *factor)).collect()
}

fn sides(plans: &[SampledPlan]) -> Vec<Selection> {
    let ids = || plans.iter().map(|plan| plan.id.clone()).collect();
    VARIANTS.map(|name| Selection::of_variant("p1", name).with_plans(ids())).to_vec()
}

fn question(plans: &[SampledPlan]) -> Question {
    Question { over_hosts: true, ..Question::new(sides(plans), "schedlab compare".to_string()) }
}

fn judged(plans: &[SampledPlan]) -> Analysis {
    analyse(plans, &[], &question(plans))
}

fn over<'a>(analysis: &'a Analysis, metric: &str) -> &'a OverHosts {
    row(analysis, metric).cells[1].over_hosts.as_ref().unwrap()
}

fn names(analysis: &Analysis) -> Vec<&str> {
    analysis.hosts.iter().map(|host| host.name.as_str()).collect()
}

const SIX: [f64; 6] = [1.05, 1.06, 1.04, 1.055, 1.045, 1.05];

#[test]
fn each_host_is_one_draw_whatever_its_rounds() {
    let mut plans = fleet(&SIX);
    plans.push(on("n7", 7, 40, 1.05));
    let analysis = judged(&plans);
    assert_eq!(analysis.method.pairing, Pairing::OverHosts);
    let cell = &row(&analysis, "throughput").cells[1];
    let judged = cell.judged.unwrap();
    assert_eq!(judged.verdict, Verdict::Better);
    let ratio = judged.effect.unwrap().ratio().unwrap();
    assert_eq!(ratio.pairs, 7);
    let over = cell.over_hosts.as_ref().unwrap();
    let logs = || over.hosts.iter().map(|of| of.ratio.ratio.ln());
    assert!((ratio.ratio.ln() - logs().sum::<f64>() / 7.0).abs() < 1e-12);
    assert_eq!(
        over.hosts.iter().map(|of| of.ratio.pairs).collect::<Vec<_>>(),
        [10, 10, 10, 10, 10, 10, 40]
    );
    assert_eq!(cell.values.len(), 7);
    assert_eq!(analysis.hosts[6].rounds, 40);
    let further = over.further.unwrap();
    let interval = ratio.interval.unwrap();
    assert!(further.low < interval.low && interval.high < further.high, "{further:?}");
    assert!(!analysis.notes.iter().any(|note| matches!(note, Note::Pooled { .. })));
    // More rounds of one host do not count as another host.
    let three: Vec<SampledPlan> = (1..=3).map(|at| on(&format!("n{at}"), at, 100, 1.05)).collect();
    let analysis = super::super::analyse(&three, &[], &question(&three));
    let verdict = row(&analysis, "throughput").cells[1].verdict();
    let is_few = |why| matches!(why, Why::TooFewRounds { least: 6 });
    assert!(matches!(verdict, Some(Verdict::Inconclusive { why, .. }) if is_few(why)));
    assert!(analysis.notes.contains(&Note::TooFewHosts { hosts: 3, least: 6 }));
}

#[test]
fn what_differs_from_host_to_host_opens_the_verdict() {
    let scattered = [1.3, 0.8, 1.1, 0.9, 1.25, 0.85, 1.2, 0.95];
    let cell = |factors: &[f64]| row(&judged(&fleet(factors)), "throughput").cells[1].verdict();
    assert!(matches!(cell(&scattered), Some(Verdict::Inconclusive { why: Why::Noise, .. })));
    let same = [1.001, 0.999, 1.002, 0.998, 1.0, 1.001, 0.999, 1.0];
    assert_eq!(cell(&same), Some(Verdict::Same));
}

#[test]
fn one_machine_is_one_host_under_any_name_and_two_of_one_name_are_two() {
    let id = |id: &str| Some(Reading::Known(id.to_string()));
    let mut plans = fleet(&SIX);
    // A container has another name, and the boot of its machine.
    let mut renamed = on("c0ffee", 7, 10, 1.05);
    renamed.environments[0].boot_id = plans[0].environments[0].boot_id.clone();
    // The next boot of a machine.
    let mut rebooted = on("n2", 8, 10, 1.05);
    rebooted.environments[0].boot_id = Reading::Known("another".to_string());
    // Another machine that calls itself the same.
    let mut namesake = on("n3", 9, 10, 1.05);
    namesake.environments[0].boot_id = Reading::Known("a third".to_string());
    (plans[2].environments[0].machine_id, namesake.environments[0].machine_id) = (id("a"), id("b"));
    plans.extend([renamed, rebooted, namesake]);
    let analysis = judged(&plans);
    assert_eq!(names(&analysis), ["c0ffee", "n2", "n3", "n3#2", "n4", "n5", "n6"]);
    assert_eq!(analysis.hosts[0].plans, ["p1", "p7"]);
    assert_eq!((analysis.hosts[1].plans.len(), analysis.hosts[1].rounds), (2, 20));
    assert_eq!(over(&analysis, "throughput").hosts[0].ratio.pairs, 20);
    assert_eq!(row(&analysis, "throughput").cells[1].judged.unwrap().effect.unwrap().pairs(), 7);
}

#[test]
fn a_plan_that_is_another_is_refused_with_the_reason() {
    let mut plans = fleet(&SIX);
    plans[3].plan.measure.duration_ns = 1_000_000_000;
    plans.push(work(on("n7", 7, 10, 1.05), "chat", 2));
    let mut moved = on("n8", 8, 10, 1.05);
    moved.environments.push(environment("6.12.0", "n9", Some("elsewhere")));
    plans.push(moved);
    // Seeds, and how many rounds there are, may differ.
    plans[1].plan.measure.seed = 7;
    plans[1].plan.measure.rounds = 99;
    let (kept, notes) = alike(plans.clone(), &sides(&plans), None);
    let ids: Vec<&str> = kept.iter().map(|plan| plan.id.as_str()).collect();
    assert_eq!(ids, ["p1", "p2", "p3", "p5", "p6"]);
    let own = |host: &str, id: &str| vec![(host.to_string(), id.to_string())];
    let time =
        Difference::Time { what: "duration", own_ns: 5_000_000_000, other_ns: 1_000_000_000 };
    let chat = Difference::OnlyOne("chat threads=2 [batch]".to_string());
    let expected = [
        Note::OtherPlan { plans: own("n4", "p4"), why: time },
        Note::OtherPlan { plans: own("n7", "p7"), why: chat },
        Note::OtherPlan { plans: own("n8", "p8"), why: Difference::Machines },
    ];
    assert_eq!(notes, expected);
    let of = |reference| alike(plans.clone(), &sides(&plans), Some(reference)).0;
    assert_eq!(of("p4").iter().map(|plan| plan.id.as_str()).collect::<Vec<_>>(), ["p4"]);
    assert_eq!(of("p8").len(), 5, "a plan on two machines is not a reference");
    let analysis = analyse(&kept, &[], &Question { refused: notes, ..question(&kept) });
    let refused = analysis.notes.iter().filter(|note| note.is_refusal()).count();
    assert_eq!((refused, analysis.hosts.len()), (3, 5));
}

#[test]
fn hosts_that_differ_are_named_and_kinds_are_noted() {
    let mut factors = [1.05; 12];
    factors.iter_mut().zip(0..).for_each(|(factor, at)| *factor += 0.004 * f64::from(at % 5));
    factors[4] = 0.7;
    let mut plans = fleet(&factors);
    for plan in &mut plans[..4] {
        plan.environments[0].kernel_release = "6.1.0".to_string();
    }
    let analysis = judged(&plans);
    let differs = analysis.notes.iter().filter_map(|note| match note {
        Note::HostDiffers { host, metrics, .. } => Some((host.as_str(), metrics.join(" "))),
        _ => None,
    });
    // A test's run multiplies all its metrics.
    assert_eq!(differs.collect::<Vec<_>>(), [("n5", "throughput wakeup_p99".to_string())]);
    let marked: Vec<usize> = over(&analysis, "throughput")
        .hosts
        .iter()
        .filter(|of| of.differs)
        .map(|of| of.host)
        .collect();
    assert_eq!(marked.iter().map(|at| names(&analysis)[*at]).collect::<Vec<_>>(), ["n5"]);
    assert_eq!(over(&analysis, "switches").hosts.iter().filter(|of| of.differs).count(), 0);
    let kinds = analysis.notes.iter().find_map(|note| match note {
        Note::HostKinds { kinds } => Some(kinds),
        _ => None,
    });
    let kinds: Vec<(String, usize)> =
        kinds.unwrap().iter().map(|kind| (kind.kernels.join(" "), kind.hosts.len())).collect();
    assert_eq!(kinds, [("6.1.0".to_string(), 4), ("6.12.0".to_string(), 8)]);
    let ratios = &over(&analysis, "throughput").kinds;
    assert_eq!(ratios.iter().map(|of| of.unwrap().pairs).collect::<Vec<_>>(), [4, 8]);
}

#[test]
fn a_host_without_a_ratio_makes_all_differences_and_one_without_values_is_left_out() {
    let mut plans = fleet(&[SIX.as_slice(), &[1.05]].concat());
    plans[2].runs[0].values[0].1 = 0.0;
    plans[5].runs.retain(|run| run.key.cell == 0);
    let analysis = judged(&plans);
    let judged = row(&analysis, "throughput").cells[1].judged.unwrap();
    let Ok(Effect::Difference(found)) = judged.effect else { panic!("{judged:?}") };
    // The difference is the mean over six hosts; five of them have ratios.
    let over = over(&analysis, "throughput");
    let mean = over.draws.iter().map(|(_, draw)| draw).sum::<f64>() / 6.0;
    assert!((found.difference - mean).abs() < 1e-9 && found.pairs == 6, "{found:?} {over:?}");
    assert_eq!(over.hosts.len(), 5);
    assert!(!matches!(judged.verdict, Verdict::Unjudged(_)), "{judged:?}");
    let other = row(&analysis, "wakeup_p99");
    assert_eq!(other.cells[1].judged.unwrap().effect.unwrap().pairs(), 6);
    assert_eq!((other.cells[0].values.len(), other.cells[1].values.len()), (7, 6));
    assert!(other.cells.iter().all(|cell| cell.shapes.is_empty() && cell.cv.is_none()));
}

#[test]
fn explaining_metrics_change_no_headline_verdict() {
    let plans = fleet(&[1.01, 1.012, 1.02, 1.005, 1.011, 1.018, 0.999]);
    let asked = Question { explaining: true, ..question(&plans) };
    let [alone, with] = [question(&plans), asked].map(|asked| analyse(&plans, &[], &asked));
    for metric in ["throughput", "wakeup_p99"] {
        assert_eq!(row(&alone, metric).cells[1].judged, row(&with, metric).cells[1].judged);
    }
    assert_eq!(row(&with, "wakeup_max").family, Family::Explaining);
    assert!(row(&with, "wakeup_max").cells[1].verdict().is_some());
}
