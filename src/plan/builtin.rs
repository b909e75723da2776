//! Plans that come with the program, in the same format as a user's.

/// A plan of `plans/`, embedded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Builtin {
    pub name: &'static str,
    pub text: &'static str,
}

impl Builtin {
    /// For lists: empty where it has none.
    pub fn title(&self) -> String {
        #[derive(Default, serde::Deserialize)]
        struct Titled {
            #[serde(default)]
            title: String,
        }
        toml::from_str::<Titled>(self.text).unwrap_or_default().title
    }
}

macro_rules! plans {
    ($folder:literal: $($name:literal)*) => {
        &[$(Builtin {
            name: $name,
            text: include_str!(concat!("../../", $folder, "/", $name, ".toml")),
        }),*]
    };
}

const BUILTINS: &[Builtin] = plans!("plans":
    "quick"
    "lab-quick"
    "schbench-v1"
    "service-chain"
    "throughput"
    "lkml"
    "try"
    "fidelity"
    "smoke"
    "switches"
);

/// Each has a `[finding]`.
const FINDINGS: &[Builtin] = plans!("plans/findings":
    "run-to-parity"
    "delay-dequeue-pipe"
    "pipe-switches"
    "pipe-switches-full"
    "delay-dequeue-tbench"
    "fair-sleepers"
    "preempt-short"
    "short-slice"
    "short-slice-cgroups"
    "idle-search"
    "lazy-preemption"
    "eevdf-schbench"
    "eevdf-schbench-busy"
    "front-server"
);

/// All built-in plans, in the order of `schedlab list plans`.
pub fn builtins() -> &'static [Builtin] {
    BUILTINS
}

/// Plans that check published findings about schedulers, in the order of `schedlab list findings`.
pub fn findings() -> &'static [Builtin] {
    FINDINGS
}

/// A plan or a finding.
pub fn builtin(name: &str) -> Option<&'static Builtin> {
    BUILTINS.iter().chain(FINDINGS).find(|builtin| builtin.name == name)
}
