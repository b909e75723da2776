//! `[lab]` and `[lab.model]`: the machine of guests, from the values in the plan, else from a measured
//! machine, else from defaults. Pure.

use crate::model::{
    Cost, CpuClocks, Field, Lab, LabModel, OFF, Params, Raw, Reading, ShortIdle, Spread, Stretch,
    Twin, Value,
};
use crate::variant;

use super::error::Faults;
use super::fields::{LAB, LAB_MODEL, MAX_JITTER, MAX_SLOWDOWN, names};
use super::table::{Span, Spans, Table, fill_defaults, known_keys, section};

/// The limits of `speed`.
const INSTRUCTION_PS: std::ops::RangeInclusive<f64> = 250.0..=8000.0;

/// Values that are written in the plan or measured.
#[derive(Default)]
struct Given {
    params: Params,
    places: Spans,
}

/// `twin` is the machine that the plan names, or another one in its place. Without it the result's
/// `model.twin` is the name in the plan, and the values are not checked against each other yet.
pub fn lab(top: &mut Table, twin: Option<&Twin>, faults: &mut Faults) -> Lab {
    let (mut machine, mut model) = (Given::default(), Given::default());
    if let Some(mut table) = section(top, "lab", faults) {
        machine = Given::take(&mut table, LAB, faults);
        if let Some(mut inner) = section(&mut table, "model", faults) {
            model = Given::take(&mut inner, LAB_MODEL, faults);
            inner.finish(&names(LAB_MODEL), "[lab.model]", faults);
        }
        table.finish(&known_keys(&["model"], &[LAB]), "[lab]", faults);
    }
    if let Some(twin) = twin {
        let at = machine.places.get("machine").cloned().unwrap_or(0..0);
        machine.complete(LAB, of_machine(twin), &at, faults);
        model.complete(LAB_MODEL, of_model(twin), &at, faults);
    }
    let has_llcs = machine.params.contains_key("llcs");
    let named = machine.params.get("machine").and_then(Value::as_text).map(str::to_string);
    let mut lab = machine.lab(has_llcs);
    // A measured machine's siblings need not fit the CPUs that are written.
    if !machine.places.contains_key("threads") && split_cores(&lab).is_some() {
        lab.threads = 1;
    }
    let is_complete = named.is_none() || twin.is_some();
    lab.model = model.model(twin.map(model_name).or(named));
    if is_complete {
        // If caches are not written, they follow the sockets, so only the sockets can be at fault.
        let wrong = misshapen(&lab).into_iter().filter(|(name, ..)| has_llcs || *name != "llcs");
        for (name, message, hint) in wrong {
            // Defaults fit each other; only written values can be at fault.
            let places = [&machine.places, &model.places];
            let mut places = places.iter().filter_map(|places| places.get(name));
            let at = places.next().or(machine.places.values().next()).cloned().unwrap_or(0..0);
            faults.add(&at, message, "does not fit", hint);
        }
    }
    lab
}

impl Given {
    fn take(table: &mut Table, fields: &[Field], faults: &mut Faults) -> Given {
        let (params, places) = table.take_placed(fields, faults);
        Given { params, places }
    }

    /// Fills in measured values that are not written, within the same limits. `at` is the place where the
    /// machine is named.
    fn complete(
        &mut self,
        fields: &[Field],
        measured: Vec<(&'static str, Raw)>,
        at: &Span,
        faults: &mut Faults,
    ) {
        for (name, raw) in measured {
            let field = fields.iter().find(|field| field.name == name);
            let Some(field) = field.filter(|_| !self.params.contains_key(name)) else { continue };
            match field.kind.parse(&raw) {
                Ok(value) => _ = self.params.insert(name.to_string(), value),
                Err(why) => {
                    let message = format!("`{name}` of this machine: {}", why.message);
                    faults.add(at, message, "cannot be had", format!("write {name}: {}", why.hint));
                }
            }
        }
    }

    fn lab(&mut self, has_llcs: bool) -> Lab {
        fill_defaults(&mut self.params, LAB);
        let given = &self.params;
        let int = |name: &str| given.get(name).and_then(Value::as_int).unwrap_or(1) as u32;
        let text =
            |name: &str| given.get(name).and_then(Value::as_text).unwrap_or_default().to_string();
        let is = |name: &str, word: &str| given.get(name).and_then(Value::as_text) == Some(word);
        Lab {
            kernel: text("kernel"),
            kernel_args: text("kernel-args"),
            cpus: int("cpus"),
            sockets: int("sockets"),
            llcs: if has_llcs { int("llcs") } else { int("sockets") },
            threads: int("threads"),
            nodes: int("nodes"),
            node_distance: given.get("node-distance").and_then(Value::as_int).map(|far| far as u32),
            memory_bytes: given.get("memory").and_then(Value::as_bytes).unwrap_or_default(),
            instruction_ps: int("speed"),
            clocks: if is("clocks", "shared") { CpuClocks::Shared } else { CpuClocks::Own },
            skew_ns: given.get("skew").and_then(Value::as_duration_ns).unwrap_or_default() as u32,
            executed: is("burn", "executed") || is("clocks", "shared"),
            seeds: int("seeds"),
            model: LabModel::default(),
            realtime: false,
        }
    }

    fn model(&mut self, twin: Option<String>) -> LabModel {
        if let Some(near) = self.params.get("ipi-near").cloned() {
            self.params.entry("ipi-far".to_string()).or_insert(near);
        }
        fill_defaults(&mut self.params, LAB_MODEL);
        let ns = |name: &str| self.params.get(name)?.as_duration_ns().map(|ns| ns as u32);
        let permille = |name: &str| match self.params.get(name) {
            Some(Value::Percent(percent)) => (10.0 * percent).round() as u32,
            _ => 0,
        };
        LabModel {
            twin,
            idle_exit_ns: ns("idle-exit"),
            short_idle: self.params.contains_key("idle-exit-short").then(|| ShortIdle {
                exit_ns: ns("idle-exit-short").unwrap_or_default(),
                below_ns: ns("idle-short").unwrap_or_default(),
            }),
            ipi_near_ns: ns("ipi-near"),
            ipi_far_ns: ns("ipi-far"),
            migration_ns: ns("migration-cost"),
            timer_slack_ns: ns("timer-slack"),
            stretch: Stretch { longer: permille("slowdown"), jitter: permille("jitter") },
        }
    }
}

/// The fields of [`LAB`] that a measured machine has.
fn of_machine(twin: &Twin) -> Vec<(&'static str, Raw)> {
    let topology = &twin.topology;
    let parts = [
        ("cpus", topology.cpus),
        ("sockets", topology.sockets),
        ("llcs", topology.llcs),
        ("nodes", topology.nodes),
    ];
    let threads = topology.threads_per_core.as_ref().known().map(|threads| ("threads", *threads));
    let mut given: Vec<_> = parts
        .into_iter()
        .chain(threads)
        .map(|(name, count)| (name, Raw::Int(count.into())))
        .collect();
    if let Some(ns) = twin.median_ns(Cost::Instruction) {
        let ps = (1e3 * ns).clamp(*INSTRUCTION_PS.start(), *INSTRUCTION_PS.end());
        given.push(("speed", Raw::Text(format!("{ps:.0}ps"))));
    }
    given
}

/// The machine whose delays the guests have, and which of its delays they lack.
fn model_name(twin: &Twin) -> String {
    let lacks = if twin.other_cpus().is_some() { ": without jitter" } else { "" };
    twin.name() + lacks
}

/// The fields of [`LAB_MODEL`] that it has. Costs that are unknown or not above 0 stay off.
fn of_model(twin: &Twin) -> Vec<(&'static str, Raw)> {
    let costs = [
        ("idle-exit", Cost::IdleExit),
        ("ipi-near", Cost::IpiNear),
        ("ipi-far", Cost::IpiFar),
        ("migration-cost", Cost::MigrationFar),
    ];
    let medians = costs.into_iter().filter_map(|(name, cost)| Some((name, twin.median_ns(cost)?)));
    // A guest has no other setting for the delay of a timer's interrupt.
    let late = twin.median_ns(Cost::TimerBusy).zip(twin.median_ns(Cost::WakeHere));
    let late_ns = late.map_or(0.0, |(timer_ns, wake_ns)| (timer_ns - wake_ns).max(0.0));
    // 0 would mean the kernel's default.
    let slack = twin.timer_slack_ns.as_ref().known();
    let slack = slack.map(|ns| ("timer-slack", (*ns as f64 + late_ns).max(1.0)));
    let times = medians.chain(slack).filter(|(_, ns)| *ns >= 1.0);
    let mut given: Vec<_> =
        times.map(|(name, ns)| (name, Raw::Text(format!("{ns:.0}ns")))).collect();
    // Without a value it would be the cost of a long idling.
    given.extend(twin.median_ns(Cost::IdleExitShort).map(|ns| {
        let exit = if ns < 1.0 { OFF.to_string() } else { format!("{ns:.0}ns") };
        ("idle-exit-short", Raw::Text(exit))
    }));
    if let Reading::Known(Spread { median_ns, p10_ns, p90_ns, .. }) = twin.cost(Cost::WorkBusy) {
        // Four fifths of a uniform distribution lie between its 10th and 90th percentile.
        let jitter = (p90_ns - p10_ns) / 1.6;
        // Next to other load it is that load's, which no lab should have.
        let jitter = if twin.other_cpus().is_some() { 0.0 } else { jitter };
        let times = [("slowdown", median_ns - 1e6, MAX_SLOWDOWN), ("jitter", jitter, MAX_JITTER)];
        given.extend(times.map(|(name, ns, max)| {
            let percent = (100.0 * ns / 1e6).clamp(0.0, max);
            (name, Raw::Text(format!("{percent:.1}%")))
        }));
    }
    given
}

/// The first kind of part whose CPUs are not whole cores, and the number of its CPUs.
fn split_cores(lab: &Lab) -> Option<(&'static str, u32)> {
    let parts = [("last-level cache", lab.llcs), ("NUMA node", lab.nodes)];
    let parts = parts.into_iter().filter(|(_, parts)| lab.cpus.is_multiple_of(*parts));
    let mut parts = parts.map(|(name, parts)| (name, lab.cpus / parts));
    parts.find(|(_, cpus)| !cpus.is_multiple_of(lab.threads))
}

/// Settings of a machine that contradict each other: the key, the message and the hint.
fn misshapen(lab: &Lab) -> Vec<(&'static str, String, String)> {
    let mut wrong = Vec::new();
    for (name, parts) in [("sockets", lab.sockets), ("llcs", lab.llcs), ("nodes", lab.nodes)] {
        if !lab.cpus.is_multiple_of(parts) {
            let message = format!("{} CPUs cannot be spread evenly over {parts} {name}", lab.cpus);
            wrong.push((name, message, "a divisor of `cpus`".to_string()));
        }
    }
    if !lab.llcs.is_multiple_of(lab.sockets) {
        let message = format!("{} caches on {} sockets", lab.llcs, lab.sockets);
        wrong.push(("llcs", message, "as many as `sockets`, or a multiple".to_string()));
    }
    if lab.node_distance.is_some() && lab.nodes == 1 {
        let message = "one NUMA node has no distance to others".to_string();
        wrong.push(("node-distance", message, "with nodes = 2".to_string()));
    }
    if let Some((name, cpus)) = split_cores(lab) {
        let message = format!("cores of {} CPUs do not fill a {name} of {cpus}", lab.threads);
        let hint = "a divisor of the CPUs of each cache and node";
        wrong.push(("threads", message, hint.to_string()));
    }
    if !lab.kernel_args.is_empty() && !variant::are_kernel_args(&lab.kernel_args) {
        let message = "expected words of letters, digits and _-=.,:;/+@%, as a kernel's command line has them"
            .to_string();
        wrong.push(("kernel-args", message, "kernel-args = \"preempt=none\"".to_string()));
    }
    if lab.clocks == CpuClocks::Own {
        return wrong;
    }
    if ![1000, 2000, 4000, 8000].contains(&lab.instruction_ps) {
        let ns = lab.instruction_ns();
        let message = format!("an instruction of a shared clock cannot take {ns} ns");
        wrong.push(("speed", message, "1ns, 2ns, 4ns or 8ns, or clocks = \"own\"".to_string()));
    }
    let LabModel { idle_exit_ns, short_idle, ipi_near_ns, ipi_far_ns, migration_ns, .. } =
        lab.model;
    let delays = [
        ("idle-exit", idle_exit_ns),
        ("idle-exit-short", short_idle.map(|short| short.exit_ns)),
        ("ipi-near", ipi_near_ns),
        ("ipi-far", ipi_far_ns),
        ("migration-cost", migration_ns),
    ];
    if let Some((name, _)) = delays.into_iter().find(|(_, ns)| ns.is_some()) {
        let message = format!("CPUs that share one clock have no `{name}`");
        wrong.push((name, message, format!("{name} = \"off\", or clocks = \"own\"")));
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Reading, Spread, twin_testing};
    use crate::plan;

    #[test]
    fn a_guest_is_what_lab_says_it_is_where_a_plan_says_nothing() {
        let lab = |text| plan::lab("t", text, None).unwrap();
        assert_eq!(lab("schema = 1"), Lab::default());
        assert_eq!(lab("schema = 1\n[lab]\n[lab.model]\n"), Lab::default());
        let text = "[lab]\ncpus = 8\nsockets = 2\nspeed = \"1ns\"\nmemory = \"1GiB\"\nseeds = 3\n\
            nodes = 2\nnode-distance = 31\nthreads = 2\nclocks = \"shared\"\nburn = \"executed\"\nskew = \"1us\"\nkernel = \"debian:6.1\"\n\
            kernel-args = \"preempt=none\"";
        let expected = Lab {
            kernel: "debian:6.1".to_string(),
            kernel_args: "preempt=none".to_string(),
            cpus: 8,
            sockets: 2,
            llcs: 2,
            threads: 2,
            nodes: 2,
            node_distance: Some(31),
            memory_bytes: 1 << 30,
            instruction_ps: 1000,
            clocks: CpuClocks::Shared,
            skew_ns: 1000,
            executed: true,
            seeds: 3,
            model: LabModel::default(),
            realtime: false,
        };
        assert_eq!(lab(text), expected);
        assert!(plan::lab("t", "[lab]\nkernel-args = \"a=$(id)\"", None).is_err());
    }

    #[test]
    fn what_a_plan_leaves_out_comes_from_the_machine() {
        let mut twin = twin_testing::twin();
        let spread = |ns| Spread { median_ns: ns, p10_ns: ns, p90_ns: ns, samples: 1 };
        twin.costs.insert(Cost::Instruction, Reading::Known(spread(0.31)));
        twin.costs.insert(Cost::IdleExit, Reading::Known(spread(-3.0)));
        twin.costs.insert(Cost::IpiNear, Reading::Known(spread(1499.6)));
        twin.costs.insert(Cost::IpiFar, Reading::Unknown("one cache".to_string()));
        let work = Spread { median_ns: 1.2e6, p10_ns: 1.04e6, p90_ns: 1.36e6, samples: 9 };
        twin.costs.insert(Cost::WorkBusy, Reading::Known(work));
        let lab = |text: &str| plan::lab("t", &format!("[lab]\n{text}"), Some(&twin));
        let all = lab("machine = \"m.toml\"").unwrap();
        assert_eq!((all.cpus, all.llcs, all.threads, all.instruction_ps), (8, 2, 2, 310));
        let one = lab("machine = \"m.toml\"\ncpus = 2").unwrap();
        assert_eq!((one.cpus, one.llcs, one.threads), (2, 2, 1), "one CPU for each cache");
        let model = LabModel {
            twin: Some(twin.name()),
            idle_exit_ns: None,
            short_idle: Some(ShortIdle { exit_ns: 12_006, below_ns: 200_000 }),
            ipi_near_ns: Some(1500),
            ipi_far_ns: Some(1500),
            migration_ns: Some(16_008),
            timer_slack_ns: Some(56_003),
            stretch: Stretch { longer: 200, jitter: 200 },
        };
        assert_eq!(all.model, model);
        let text = "machine = \"m.toml\"\ncpus = 4\nspeed = \"1ns\"\n[lab.model]\n\
            migration-cost = \"off\"\nidle-exit = \"5us\"\nidle-short = \"1ms\"\nipi-far = \"9us\"\njitter = \"0%\"\n";
        let some = lab(text).unwrap();
        assert_eq!((some.cpus, some.llcs, some.instruction_ps), (4, 2, 1000));
        let (idle_exit_ns, ipi_far_ns) = (Some(5000), Some(9000));
        let stretch = Stretch { longer: 200, jitter: 0 };
        let short_idle = Some(ShortIdle { exit_ns: 12_006, below_ns: 1_000_000 });
        let migration_ns = None;
        let expected =
            LabModel { idle_exit_ns, short_idle, ipi_far_ns, migration_ns, stretch, ..model };
        assert_eq!(some.model, expected);
        let other = plan::lab("t", "[lab]\nmachine = \"m.toml\"\nllcs = 8", None).unwrap();
        assert_eq!(other.model.twin.as_deref(), Some("m.toml"), "what is to be read");
        assert_eq!(lab("").unwrap(), all, "it need not be named");
        twin.other_load = Reading::Known(7.9);
        let busy = plan::lab("t", "[lab]\nmachine = \"m.toml\"", Some(&twin)).unwrap().model;
        assert_eq!(busy.stretch, Stretch { longer: 200, jitter: 0 }, "others made the jitter");
        let named = busy.twin.unwrap();
        assert!(named.contains("others kept 7.90 CPUs busy: without jitter"), "{named}");
    }

    #[test]
    fn a_machine_that_the_lab_cannot_have_is_a_fault_of_the_plan() {
        let mut twin = twin_testing::twin();
        let error = |text: &str, twin: Option<&Twin>| {
            let errors = plan::lab("t", &format!("[lab]\n{text}"), twin).unwrap_err();
            let error = &errors.errors()[0];
            format!("{}; {}", error.message, error.hint)
        };
        twin.topology.cpus = 128;
        let machine = "machine = \"m.toml\"";
        let many = error(machine, Some(&twin));
        assert!(many.starts_with("`cpus` of this machine: 128 ") && many.contains("64"), "{many}");
        twin.topology.cpus = 3;
        let uneven = error(machine, Some(&twin));
        assert!(uneven.contains("3 CPUs cannot be spread evenly over 2 llcs"), "{uneven}");
        for (text, says) in [
            ("[lab.model]\nidle-exits = \"1us\"", "unknown key `idle-exits` in [lab.model]"),
            ("[lab.model]\nidle-exit = \"1s\"", "1s"),
            ("[lab.model]\nidle-exit = 5", "no unit"),
            ("model = \"twin\"", "`model` is"),
            ("capacities = [1024, 512]", "x86 guest unequal capacities"),
            ("cpus = 6\nthreads = 4", "cores of 4 CPUs do not fill a last-level cache of 6"),
            ("node-distance = 30", "one NUMA node has no distance to others"),
            ("nodes = 4\nthreads = 2", "cores of 2 CPUs do not fill a NUMA node of 1"),
            (
                "clocks = \"shared\"\nspeed = \"1ns\"\n[lab.model]\nipi-near = \"1us\"",
                "CPUs that share one clock have no `ipi-near`",
            ),
        ] {
            let error = error(text, None);
            assert!(error.contains(says), "{error}");
        }
    }
}
