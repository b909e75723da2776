//! The machines of the lab. Plain data.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
use serde_json::{Map, Value};

use super::words;

/// The machine of every guest of a plan: `[lab]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(remote = "Self")]
pub struct Lab {
    /// The kernel of variants that name none.
    pub kernel: String,
    /// Words for every kernel's command line; a variant's own follow them and win.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kernel_args: String,
    pub cpus: u32,
    pub sockets: u32,
    /// Last-level caches of the whole machine.
    pub llcs: u32,
    /// SMT siblings of each core.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub threads: u32,
    pub nodes: u32,
    /// The distance between two of them, where each is 10 from itself; `None`: the kernel's default, which is 20.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_distance: Option<u32>,
    pub memory_bytes: u64,
    /// Virtual time that an instruction takes; of one shared clock a power of two in nanoseconds.
    pub instruction_ps: u32,
    pub clocks: CpuClocks,
    /// How far a CPU may run ahead of the next one.
    #[serde(default)]
    pub skew_ns: u32,
    /// Work that is given as a time is executed, too: on a shared clock always.
    #[serde(default)]
    pub executed: bool,
    /// Trajectories of each cell.
    pub seeds: u32,
    /// Delays of a real machine that are added.
    #[serde(default, skip_serializing_if = "LabModel::is_off")]
    pub model: LabModel,
    /// Time comes from the host's clock. This is asked for on the command line; a plan cannot set it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub realtime: bool,
}

/// Delays of a real machine that are added to virtual time, in nanoseconds; `None`: nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LabModel {
    /// The machine that was measured for it; `None`: all is written in the plan.
    pub twin: Option<String>,
    /// From an interrupt to the first instruction of a CPU that was idle.
    pub idle_exit_ns: Option<u32>,
    /// The exit from a short idle time; `None`: it takes as long as any other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub short_idle: Option<ShortIdle>,
    /// The time that an interrupt takes to another CPU: of the same last-level cache, and of another one.
    pub ipi_near_ns: Option<u32>,
    pub ipi_far_ns: Option<u32>,
    /// The time that a worker loses with its first work in another last-level cache.
    pub migration_ns: Option<u32>,
    /// The timer slack of workers that do not set their own; `None`: the kernel's default.
    pub timer_slack_ns: Option<u32>,
    #[serde(skip_serializing_if = "Stretch::is_off")]
    pub stretch: Stretch,
}

/// The cost of leaving idle soon after a CPU entered it: the CPU still polls, or is in a shallow state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShortIdle {
    pub exit_ns: u32,
    /// A longer idling is not short.
    pub below_ns: u32,
}

/// How much longer work of a time takes than on a CPU at full speed, in thousandths of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Stretch {
    pub longer: u32,
    /// Single pieces of work take up to this much more or less, evenly spread.
    pub jitter: u32,
}

impl Lab {
    /// Guests are x86-64, and their first process is this program: the lab is where it was built for the same.
    pub fn is_here() -> bool {
        cfg!(target_arch = "x86_64")
    }
}

impl Stretch {
    pub fn is_off(&self) -> bool {
        *self == Stretch::default()
    }
}

impl LabModel {
    pub fn is_off(&self) -> bool {
        *self == LabModel::default()
    }

    /// Without the parts that need CPUs with clocks of their own.
    fn without_clocks(&self) -> LabModel {
        let LabModel { timer_slack_ns, stretch, .. } = *self;
        LabModel { timer_slack_ns, stretch, ..LabModel::default() }
    }

    /// The part that the workers of a run in such a guest apply.
    pub fn run_model(&self, lab: &Lab) -> RunModel {
        let migration = |cost_ns| Migration { cost_ns, cpus_per_llc: lab.cpus_per_llc() };
        RunModel {
            migration: self.migration_ns.map(migration),
            timer_slack_ns: self.timer_slack_ns,
            stretch: self.stretch,
        }
    }
}

/// The part of a [`LabModel`] that workers themselves apply.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunModel {
    pub migration: Option<Migration>,
    pub timer_slack_ns: Option<u32>,
    #[serde(default)]
    pub stretch: Stretch,
}

/// The cost of a worker's move to another last-level cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Migration {
    pub cost_ns: u32,
    /// CPUs of a cache are next to each other.
    pub cpus_per_llc: u32,
}

words! {
    /// How much of a machine a guest has, from less to more.
    #[derive(PartialOrd, Ord)]
    pub enum FidelityClass {
        /// All CPUs share one clock: N busy ones have 1/N of the speed.
        Shared = "one clock for all CPUs",
        /// Each CPU has a clock and the full speed of its own.
        Clocks = "clocks",
        /// And work that is given as a time takes this time, as on every machine.
        Burn = "burn",
        /// Delays of a real machine are added, too.
        Twin = "twin",
    }
}

words! {
    /// The clocks of a guest's virtual CPUs.
    #[derive(Default, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum CpuClocks {
        /// Each has a clock of its own and runs at its full speed.
        #[default]
        Own = "own",
        /// The instructions of all are counted together: each of N busy ones has 1/N of the speed.
        Shared = "shared",
    }
}

fn one() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's interface")]
fn is_one(number: &u32) -> bool {
    *number == 1
}

/// Plans of older versions have whole nanoseconds and one clock.
impl<'de> Deserialize<'de> for Lab {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Lab, D::Error> {
        let mut stored: Map<String, Value> = Map::deserialize(from)?;
        let number = |name| stored.get(name).and_then(Value::as_u64);
        // Older versions slowed the clock by the number of CPUs; a shorter instruction does the same.
        let is_slow = stored.get("slow_clock") == Some(&Value::Bool(true));
        let slower = number("cpus").filter(|_| is_slow).unwrap_or(1).max(1);
        let ns_as_ps = |ns: u64| ns.saturating_mul(1000).min(u32::MAX.into()) / slower;
        let stored_ps = number("instruction_ns").map_or(0, ns_as_ps);
        stored.entry("instruction_ps").or_insert(stored_ps.into());
        if !stored.contains_key("clocks") {
            stored.insert("clocks".to_string(), "shared".into());
            stored.insert("executed".to_string(), true.into());
        }
        let mut lab = Lab::deserialize(Value::Object(stored)).map_err(D::Error::custom)?;
        lab.threads = lab.threads.max(1);
        Ok(lab)
    }
}

impl Serialize for Lab {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        Lab::serialize(self, to)
    }
}

impl Default for Lab {
    fn default() -> Self {
        Lab {
            kernel: "debian:6.18".to_string(),
            kernel_args: String::new(),
            cpus: 4,
            sockets: 1,
            llcs: 1,
            threads: 1,
            nodes: 1,
            node_distance: None,
            memory_bytes: 512 << 20,
            instruction_ps: 500,
            clocks: CpuClocks::Own,
            skew_ns: 500,
            executed: false,
            seeds: 8,
            model: LabModel::default(),
            realtime: false,
        }
    }
}

impl Lab {
    /// The machine of plans that are stored without one: the defaults of the time when these were
    /// left out.
    pub fn first_default() -> Lab {
        Lab {
            instruction_ps: 2000,
            clocks: CpuClocks::Shared,
            skew_ns: 0,
            executed: true,
            ..Lab::default()
        }
    }

    pub fn is_first_default(&self) -> bool {
        *self == Lab::first_default()
    }

    /// The nearest machine whose virtual CPUs share one clock.
    pub fn with_shared_clock(&self) -> Lab {
        let instruction_ps = self.instruction_ps.next_multiple_of(1000);
        let instruction_ps = (instruction_ps / 1000).next_power_of_two() * 1000;
        let model = self.model.without_clocks();
        Lab { clocks: CpuClocks::Shared, instruction_ps, executed: true, model, ..self.clone() }
    }

    pub fn fidelity(&self) -> FidelityClass {
        match self {
            Lab { clocks: CpuClocks::Shared, .. } => FidelityClass::Shared,
            Lab { model, .. } if !model.is_off() => FidelityClass::Twin,
            Lab { executed: false, .. } => FidelityClass::Burn,
            Lab { executed: true, .. } => FidelityClass::Clocks,
        }
    }

    /// At least 1.
    pub fn cpus_per_llc(&self) -> u32 {
        (self.cpus / self.llcs.max(1)).max(1)
    }

    /// The time of one instruction, in nanoseconds.
    pub fn instruction_ns(&self) -> f64 {
        f64::from(self.instruction_ps) / 1e3
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Plan;

    fn stored(lab: &str) -> Lab {
        let plan = format!(
            r#"{{"title":"","measure":{{"rounds":9,"duration_ns":1,"warmup_ns":1,"window_ns":1,"seed":1,
            "budget_ns":null,"grace_ns":1}},"variants":[],"works":[],"placement":{{"cpus":null}}{lab}}}"#
        );
        let plan: Plan = serde_json::from_str(&plan).unwrap();
        let again: Plan = serde_json::from_str(&serde_json::to_string(&plan).unwrap()).unwrap();
        assert_eq!(again.lab, plan.lab, "{lab}");
        plan.lab
    }

    #[test]
    fn plans_stored_before_clocks_of_their_own_keep_their_machine() {
        let of_old = |more: &str| {
            stored(&format!(
                r#","lab":{{"kernel":"debian:6.1","cpus":4,"sockets":1,"llcs":1,"nodes":1,
                "memory_bytes":1,"seeds":3{more}}}"#
            ))
        };
        let plain = of_old(r#","instruction_ns":2,"slow_clock":false"#);
        let speed = |lab: &Lab| (lab.clocks, lab.instruction_ps, lab.executed);
        assert_eq!(speed(&plain), (CpuClocks::Shared, 2000, true));
        assert_eq!((plain.kernel.as_str(), plain.seeds), ("debian:6.1", 3));
        let slow = of_old(r#","instruction_ns":2,"slow_clock":true"#);
        assert_eq!(speed(&slow), (CpuClocks::Shared, 500, true));
        assert_eq!(
            speed(&stored("")),
            (CpuClocks::Shared, 2000, true),
            "left out: the default then"
        );
        let model =
            LabModel { idle_exit_ns: Some(7), timer_slack_ns: Some(1), ..LabModel::default() };
        for now in [Lab::default(), Lab { model, ..Lab::default() }] {
            let text = serde_json::to_string(&now).unwrap();
            assert_eq!(text.contains("model"), !now.model.is_off(), "as before where it is off");
            assert_eq!(stored(&format!(r#","lab":{text}"#)), now);
        }
    }

    #[test]
    fn a_machine_has_a_class_of_fidelity() {
        let own = Lab::default();
        let model = LabModel { ipi_near_ns: Some(1000), ..LabModel::default() };
        let twin = Lab { model, ..own.clone() };
        let executed = Lab { executed: true, ..own.clone() };
        let labs = [&own.with_shared_clock(), &executed, &own, &twin];
        let classes = [
            FidelityClass::Shared,
            FidelityClass::Clocks,
            FidelityClass::Burn,
            FidelityClass::Twin,
        ];
        assert_eq!(labs.map(Lab::fidelity), classes);
        assert!(twin.with_shared_clock().model.is_off(), "they need clocks");
    }

    #[test]
    fn the_nearest_machine_with_one_clock_has_a_whole_speed() {
        let speed = |instruction_ps| {
            let lab = Lab { instruction_ps, ..Lab::default() }.with_shared_clock();
            assert!(lab.executed && lab.clocks == CpuClocks::Shared);
            lab.instruction_ps
        };
        assert_eq!(
            [250, 500, 1000, 1500, 3000, 8000].map(speed),
            [1000, 1000, 1000, 2000, 4000, 8000]
        );
    }
}
