//! Plans that come with the program, in the same format as a user's.

/// A plan of `plans/`, embedded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Builtin {
    pub name: &'static str,
    /// The title in `text`, for lists.
    pub title: &'static str,
    pub text: &'static str,
}

const BUILTINS: &[Builtin] = &[
    Builtin {
        name: "quick",
        title: "Default, batch and a short slice on this machine",
        text: include_str!("../../plans/quick.toml"),
    },
    Builtin {
        name: "lab-quick",
        title: "CFS against EEVDF under schbench, four virtual CPUs",
        text: include_str!("../../plans/lab-quick.toml"),
    },
    Builtin {
        name: "schbench-v1",
        title: "schbench -F128 at N1, N10 and N20, with and without locking",
        text: include_str!("../../plans/schbench-v1.toml"),
    },
    Builtin {
        name: "service-chain",
        title: "A front server's switches: EEVDF with and without RUN_TO_PARITY, and CFS",
        text: include_str!("../../plans/service-chain.toml"),
    },
    Builtin {
        name: "throughput",
        title: "Throughput of real programs, light to heavy",
        text: include_str!("../../plans/throughput.toml"),
    },
    Builtin {
        name: "lkml",
        title: "The loads that mails on scheduler patches quote",
        text: include_str!("../../plans/lkml.toml"),
    },
    Builtin {
        name: "fidelity",
        title: "Fidelity: the same loads on a host and in the lab",
        text: include_str!("../../plans/fidelity.toml"),
    },
    Builtin {
        name: "smoke",
        title: "Does measuring work at all? Two rounds of a fifth of a second",
        text: include_str!("../../plans/smoke.toml"),
    },
    Builtin {
        name: "switches",
        title: "Switches of each role next to throughput: default against a short slice",
        text: include_str!("../../plans/switches.toml"),
    },
];

/// In the order of `schedlab list plans`.
pub fn builtins() -> &'static [Builtin] {
    BUILTINS
}

pub fn builtin(name: &str) -> Option<&'static Builtin> {
    BUILTINS.iter().find(|builtin| builtin.name == name)
}
