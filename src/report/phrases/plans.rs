//! Plans, the machines that they ran on, their sides, and the method of their verdicts. Pure.

use std::collections::BTreeSet;

use crate::analysis::{Analysis, InTurns, Method, Note, Pairing, PlanFacts, Side};
use crate::model::{
    CpuClocks, Environment, GuestTimes, Lab, LabModel, Measure, PlanEnd, Reading, SampledPlan,
    Variant, show_duration,
};

use super::super::layout::clean;
use super::super::numbers::{Scale, counted, percent};
use super::verdicts::each;
use super::words::{joined, list, time};

/// `kernel 6.18.5; machine M; backend local; 40 runs in 2 boots; plan P`. In the lab there are no
/// boots, but a clock: `virtual time, exact in all 40 runs`.
pub fn about(analysis: &Analysis, side: &Side) -> String {
    joined(about_parts(analysis, side), "; ")
}

/// The parts of [`about`]: kernels, machines, backends, runs and plans.
pub fn about_parts(analysis: &Analysis, side: &Side) -> [String; 5] {
    let Side { label, kernels, machines, backends, plans, boots, runs, times, .. } = side;
    if *runs == 0 {
        let others = analysis.notes.iter().find_map(|found| match found {
            Note::OtherRuns { side, runs, .. } if side == label => Some(counted(*runs, "run")),
            _ => None,
        });
        let none = || "no measured run".to_string();
        let none = others.map_or_else(none, |runs| format!("{runs}, of which none is compared"));
        return [String::new(), String::new(), String::new(), none, String::new()];
    }
    let boots = match boots {
        None => "unknown boots".to_string(),
        Some(boots) => counted(*boots, "boot"),
    };
    let count = counted(*runs, "run");
    let runs = match times.runs() {
        0 => format!("{count} in {boots}"),
        of_lab if of_lab == *runs => clean(&times.to_string()),
        of_lab => format!("{count}, {of_lab} of them in the lab: {}", clean(&times.to_string())),
    };
    [
        list("kernel", kernels),
        list("machine", machines),
        list("backend", backends),
        runs,
        list("plan", plans),
    ]
}

/// The clock of all runs, for the head of mailed tables; `None` where no run is of the lab.
pub fn analysis_time(analysis: &Analysis) -> Option<String> {
    let mut times = GuestTimes::default();
    analysis.sides.iter().for_each(|side| times.add_all(&side.times));
    times.why = None;
    let others = analysis.sides.iter().map(|side| side.runs).sum::<usize>() - times.runs();
    match (times.runs(), others) {
        (0, _) => None,
        (_, 0) => Some(format!("lab, {times}{}", fidelity(analysis))),
        (_, others) => Some(format!("lab, {times}; {} on a host", counted(others, "run"))),
    }
}

/// The properties of the guests' machine in virtual time, if all plans have the same: `; own clocks, 0.5 ns an
/// instruction, work in time skipped`.
fn fidelity(analysis: &Analysis) -> String {
    let mut labs = analysis.plans.iter().filter_map(|plan| plan.lab.as_ref());
    let Some(lab) = labs.next().filter(|lab| !lab.realtime) else { return String::new() };
    let of = |lab: &Lab| {
        let speed = (lab.clocks, lab.instruction_ps, lab.executed);
        (speed, lab.kernel_args.clone(), lab.model.clone())
    };
    if labs.any(|other| of(other) != of(lab)) {
        return "; with several clocks or command lines".to_string();
    }
    let clocks = match lab.clocks {
        CpuClocks::Own => format!("fidelity {}: own clocks", lab.fidelity().word()),
        CpuClocks::Shared => lab.fidelity().word().to_string(),
    };
    let work = if lab.executed { "executed" } else { "skipped" };
    let ns = lab.instruction_ns();
    let words = match lab.kernel_args.as_str() {
        "" => String::new(),
        words => format!(", {}", clean(words)),
    };
    let model = added(&lab.model);
    format!("; {clocks}, {ns} ns an instruction, work in time {work}{words}{model}")
}

/// The costs of a real machine that the lab adds: `, exit from idle 12us, of AMD EPYC, 2 CPUs`.
fn added(model: &LabModel) -> String {
    let LabModel {
        twin,
        idle_exit_ns,
        short_idle,
        ipi_near_ns,
        ipi_far_ns,
        migration_ns,
        timer_slack_ns,
        stretch,
    } = model;
    let times = [
        ("exit from idle", idle_exit_ns),
        ("from short idle", &short_idle.map(|short| short.exit_ns)),
        ("interrupts near", ipi_near_ns),
        ("far", ipi_far_ns),
        ("migration", migration_ns),
        ("timer slack", timer_slack_ns),
    ];
    let times = times
        .into_iter()
        .filter_map(|(name, ns)| ns.map(|ns| format!(", {name} {}", show_duration(ns.into()))));
    let percent = |permille: u32| f64::from(permille) / 10.0;
    let work = (!stretch.is_off())
        .then(|| format!(", work +{}% +-{}%", percent(stretch.longer), percent(stretch.jitter)));
    let twin = twin.iter().map(|twin| format!(", measured on {}", clean(twin)));
    times.chain(work).chain(twin).collect()
}

/// `over 8 hosts, each one draw: 5 to 21 rounds`; `None` where verdicts are not over hosts.
pub fn over_hosts(analysis: &Analysis) -> Option<String> {
    let rounds = || analysis.hosts.iter().map(|host| host.rounds);
    let (least, most) = (rounds().min()?, rounds().max()?);
    let hosts = counted(analysis.hosts.len(), "host");
    let rounds = if least == most {
        counted(most, "round")
    } else {
        format!("{least} to {}", counted(most, "round"))
    };
    Some(format!("over {hosts}, each one draw: {rounds}"))
}

/// How the verdicts were reached, a phrase each.
pub fn method(analysis: &Analysis) -> Vec<String> {
    let Method { margin, tail_margin, margins, alpha, pairing, floors, looks, seed, .. } =
        &analysis.method;
    let paired = match pairing {
        Pairing::WithinRounds => "ratios paired within rounds",
        Pairing::OverHosts => {
            "each host is one draw, the geometric mean of the ratios within its rounds: verdicts and \
             intervals hold for hosts like these"
        }
        Pairing::None if analysis.is_exact() => {
            "ratios not paired: the sides are exact runs of different plans"
        }
        Pairing::None => {
            "ratios not paired: the sides were measured at different times, and what changed in \
             between is in the ratios"
        }
    };
    let mut said = vec![paired.to_string()];
    said.extend(analysis.method.turns.map(describe_turns));
    let range = |margin: &f64| {
        let (low, high) = (1.0 / (1.0 + margin), 1.0 + margin);
        format!("margin {}: SAME is a ratio from {low:.3} to {high:.3}", percent(*margin))
    };
    said.push(range(margin));
    if tail_margin != margin {
        said.push(format!("of tail latencies (p99 and beyond) {}", range(tail_margin)));
    }
    if !margins.is_empty() {
        let own = margins.iter().map(|(name, own)| format!("{} {}", clean(name), percent(*own)));
        said.push(format!("margins of single metrics: {}", joined(own, ", ")));
    }
    let families = [
        (analysis.method.headline_verdicts, "headline family"),
        (analysis.method.explaining_verdicts, "explaining family"),
    ];
    for (verdicts, family) in families.into_iter().filter(|(verdicts, _)| *verdicts > 0) {
        said.push(format!(
            "{family} of {}, error rate {} over all of them, and again for SAME",
            counted(verdicts, "verdict"),
            percent(*alpha)
        ));
    }
    said.push(match looks {
        None => format!("one look at all {}s", each(analysis)),
        Some(looks) => {
            format!(
                "looks after rounds {}",
                joined(looks.iter().map(|look| look.rounds.to_string()), ", ")
            )
        }
    });
    if !floors.is_empty() {
        let ids = joined(floors.iter().map(|id| clean(id)), ", ");
        said.push(format!("no difference below what A/A resolves here ({ids})"));
    }
    said.push("intervals are 95 %, each for its ratio alone".to_string());
    said.push(format!("seed {seed}"));
    said
}

/// `in turns of 100ms inside one run, a switch takes 3.1 us`.
fn describe_turns(turns: InTurns) -> String {
    let InTurns { block_ns, switch_ns } = turns;
    let block = show_duration(block_ns);
    let switch = switch_ns
        .map_or(String::new(), |ns| format!(", a switch takes {}", Scale::time(ns as f64)));
    format!("in turns of {block} inside one run{switch}")
}

/// `9 rounds in 1 min 38 s, Linux 6.18.44, 2 CPUs (kvm)`.
pub fn plan(analysis: &Analysis, plan: &PlanFacts) -> String {
    let asked = Some(plan.measure.rounds).filter(|_| plan.measured_again() > 0);
    let asked = asked.map(|asked| format!("{asked} asked for"));
    let failed = Some(plan.rounds_failed).filter(|failed| *failed > 0);
    let failed = failed.map(|failed| format!("runs failed in {failed}"));
    let remarks = joined(asked.into_iter().chain(failed), "; ");
    let remarks = if remarks.is_empty() { remarks } else { format!(" ({remarks})") };
    let rounds = counted(plan.rounds_done, "round") + &remarks;
    // Runs that a backend invents take no time.
    let took_ns = plan.took_ns.filter(|took_ns| *took_ns > 0);
    let took = took_ns.map(|took_ns| format!(" in {}", time(took_ns))).unwrap_or_default();
    // Each variant of an imported plan has a session, which may be of a machine of its own.
    let is_of_one = |last: &&Environment| {
        plan.backend != SampledPlan::IMPORTED
            || plan.environments.iter().all(|of| machine(of, &[]) == machine(last, &[]))
    };
    let last = plan.environments.last().filter(is_of_one);
    let variants: Vec<&Variant> = analysis.sides.iter().flat_map(|side| &side.variants).collect();
    let machine = analysis_time(analysis).or_else(|| last.map(|last| machine(last, &variants)));
    let ended = match plan.ended {
        // In the lab the number of rounds otherwise depends on the plan alone, so the budget is named.
        Some(PlanEnd::Budget) if plan.lab.is_some() => Some(budget_end(plan)),
        Some(PlanEnd::Complete | PlanEnd::Decided | PlanEnd::Budget) => None,
        Some(PlanEnd::Interrupted) => Some("interrupted".to_string()),
        None => Some("not ended".to_string()),
    };
    let turns = in_turns(&plan.measure, &plan.durations_ns);
    let guests = plan.lab.as_ref().map(|lab| guests(lab, &plan.durations_ns));
    let parts = [Some(format!("{rounds}{took}")), turns, guests, machine, ended];
    joined(parts.into_iter().flatten(), ", ")
}

/// `4 virtual CPUs, runs of 50ms to 4s`: the second where works have durations of their own.
fn guests(lab: &Lab, durations_ns: &BTreeSet<u64>) -> String {
    let guest = guest(lab);
    match [durations_ns.first(), durations_ns.last()] {
        [Some(first), Some(last)] if first != last => {
            let [first, last] = [*first, *last].map(show_duration);
            format!("{guest}, runs of {first} to {last}")
        }
        _ => guest,
    }
}

/// `16 virtual CPUs in cores of 2, 2 NUMA nodes at distance 31`: the machine of a guest, one thing of a kind unsaid.
pub fn guest(lab: &Lab) -> String {
    let Lab { cpus, sockets, llcs, threads, nodes, node_distance, .. } = lab;
    let several = |count: &u32, part| (*count > 1).then(|| counted(*count, part));
    let cores = (*threads > 1).then(|| format!(" in cores of {threads}"));
    let cpus = counted(*cpus, "virtual CPU") + &cores.unwrap_or_default();
    let caches = several(llcs, "last-level cache").filter(|_| llcs != sockets);
    let far = node_distance.map_or(String::new(), |far| format!(" at distance {far}"));
    let nodes = several(nodes, "NUMA node").map(|nodes| nodes + &far);
    let parts = [Some(cpus), several(sockets, "socket"), caches, nodes];
    joined(parts.into_iter().flatten(), ", ")
}

/// `variants in turns of 300ms inside one run, 900ms of each, for 1s is not whole blocks`; `durations_ns`: those of
/// the runs.
pub fn in_turns(measure: &Measure, durations_ns: &BTreeSet<u64>) -> Option<String> {
    let turns = format!("variants in turns of {} inside one run", show_duration(measure.turns_ns?));
    let whole_ns = |ns: u64| measure.whole_blocks_ns(ns);
    Some(match durations_ns.iter().find(|ns| whole_ns(**ns) != **ns) {
        None => turns,
        Some(asked_ns) => {
            let [cut, asked] = [whole_ns(*asked_ns), *asked_ns].map(show_duration);
            format!("{turns}, {cut} of each, for {asked} is not whole blocks")
        }
    })
}

/// `ended by its budget of 2 min`: with more time there would have been more rounds.
fn budget_end(plan: &PlanFacts) -> String {
    let budget = plan.measure.budget_ns.map(|ns| format!(" of {}", show_duration(ns)));
    format!("ended by its budget{}", budget.unwrap_or_default())
}

/// How many rounds a plan until it is decided took, and what ended it. `None`: fixed beforehand.
pub fn until_decided(plan: &PlanFacts) -> Option<String> {
    let rounds = counted(plan.rounds_done, "round");
    let ended = match plan.ended {
        _ if !plan.measure.until_decided => return None,
        Some(PlanEnd::Decided) => "all is decided".to_string(),
        Some(PlanEnd::Budget) => budget_end(plan),
        Some(PlanEnd::Complete) => "no more were allowed".to_string(),
        Some(PlanEnd::Interrupted) | None => "interrupted".to_string(),
    };
    Some(format!("{rounds}, {ended}"))
}

/// With all schedulers that these variants ran under.
fn machine(of: &Environment, variants: &[&Variant]) -> String {
    let cpus = match of.topology.usable().len() {
        0 => String::new(),
        cpus => format!(", {}", counted(cpus, "CPU")),
    };
    let virtualisation = match &of.virtualisation {
        Reading::Known(name) if name != "none" => format!(" ({})", clean(name)),
        _ => String::new(),
    };
    let own = of.scheduler.as_ref().and_then(|of| of.as_ref().known());
    let mut schedulers: Vec<String> = Vec::new();
    if variants.is_empty() || variants.iter().any(|variant| variant.scx().is_none()) {
        schedulers.extend(own.map(|name| clean(name)));
    }
    for scx in variants.iter().filter_map(|variant| variant.scx()) {
        let name = format!("scx {}", clean(scx));
        if !schedulers.contains(&name) {
            schedulers.push(name);
        }
    }
    let schedulers = if schedulers.is_empty() {
        String::new()
    } else {
        format!(" with {}", joined(schedulers, ", "))
    };
    format!("Linux {}{schedulers}{cpus}{virtualisation}", clean(&of.kernel_release))
}
