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
        own_title(self.text).unwrap_or_default()
    }
}

/// The title in a plan's text, empty where it has none; `None`: the text is no TOML.
fn own_title(text: &str) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Titled {
        #[serde(default)]
        title: String,
    }
    toml::from_str::<Titled>(text).ok().map(|own| own.title)
}

/// The text with a title, if it has none: one that is named by a file is not there where the text has no file.
pub fn with_title(text: String, title: &str) -> String {
    if own_title(&text).is_some_and(|own| own.is_empty()) {
        format!("title = {}\n{text}", toml::Value::from(title))
    } else {
        text
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

/// Cases of stock kernels that `schedlab hunt` found.
const CASES: &[Builtin] = plans!("plans/cases":
    "idle-own-cpu"
    "idle-two-steps"
    "idle-smt"
    "idle-behind-pinned"
    "idle-after-pinned"
    "idle-heavy-cgroup"
    "idle-next-to-idle-policy"
    "idle-next-to-idle-cgroup"
    "idle-next-to-a-limit"
    "share-nice"
    "share-behind-real-time"
    "starve-behind-a-lock"
);

/// All built-in plans, in the order of `schedlab list plans`.
pub fn builtins() -> &'static [Builtin] {
    BUILTINS
}

/// Plans that check published findings about schedulers, in the order of `schedlab list findings`.
pub fn findings() -> &'static [Builtin] {
    FINDINGS
}

/// Plans of the lab in which a kernel breaks a rule of `schedlab hunt`, in the order of `schedlab list cases`.
pub fn cases() -> &'static [Builtin] {
    CASES
}

/// Whether this is a finding or a case, which has no meaning on a host.
pub fn is_of_kernels(name: &str) -> bool {
    FINDINGS.iter().chain(CASES).any(|builtin| builtin.name == name)
}

/// Plans, findings and cases.
pub fn embedded() -> impl Iterator<Item = &'static Builtin> + Clone {
    BUILTINS.iter().chain(FINDINGS).chain(CASES)
}

pub fn builtin(name: &str) -> Option<&'static Builtin> {
    embedded().find(|builtin| builtin.name == name)
}
