//! Knobs that a machine is booted with. Only a backend that boots its own machines has them, and
//! takes them off a variant before anything here sees it: wherever else, they cannot be had.

use crate::model::{Field, Kind, Value};
use crate::sys::Host;
use crate::variant::{Action, Knob, Missing, Scope};

use super::{field, misfit};

pub struct BootKnob {
    field: Field,
    fits: fn(&str) -> bool,
}

impl Knob for BootKnob {
    fn field(&self) -> Field {
        self.field
    }

    fn scope(&self) -> Scope {
        Scope::Boot
    }

    fn actions(&self, value: &Value, _host: &Host) -> Result<Vec<Action>, Missing> {
        let text = value.as_text().filter(|text| (self.fits)(text));
        text.map(|_| vec![Action::Boot]).ok_or_else(|| misfit(&self.field, value))
    }
}

pub static KERNEL: BootKnob = BootKnob {
    field: field(
        "kernel",
        Kind::Text,
        "the kernel that is booted, in the lab: debian:6.18, or the path of a bzImage",
    ),
    fits: |text| !text.trim().is_empty(),
};

/// Whether these are words of a kernel's command line that cannot end a quotation.
pub fn are_kernel_args(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b" _-=.,:;/+@%".contains(&b);
    !text.trim().is_empty() && text.bytes().all(plain)
}

pub static KERNEL_ARGS: BootKnob = BootKnob {
    field: field(
        "kernel-args",
        Kind::Text,
        "words added to the kernel's command line, in the lab: preempt=full",
    ),
    fits: are_kernel_args,
};

pub static XEN_ARGS: BootKnob = BootKnob {
    field: field(
        "xen-args",
        Kind::Text,
        "words added to Xen's command line, in the lab: credit2_runqueue=core",
    ),
    fits: are_kernel_args,
};

pub static XEN: BootKnob = BootKnob {
    field: field(
        "xen",
        Kind::Text,
        "the path of a hypervisor of your own, xen.gz or xen, in place of that of a kernel like xen:4.17, in \
         the lab",
    ),
    fits: |text| !text.trim().is_empty(),
};

pub static GUEST_KERNEL: BootKnob = BootKnob {
    field: field(
        "guest-kernel",
        Kind::Text,
        "the kernel of guests of Xen, in the lab: debian:6.12, or the path of a bzImage; that of the first \
         domain unless given",
    ),
    fits: |text| !text.trim().is_empty(),
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_plain_words() {
        let cases: &[(&str, bool)] = &[
            ("preempt=full", true),
            ("rqshare=none isolcpus=1-3,5 foo.bar=/x:y", true),
            ("", false),
            ("  ", false),
            ("a\nb", false),
            ("a=\"b c\"", false),
            ("a=$(id)", false),
            ("é", false),
        ];
        for (text, fits) in cases {
            assert_eq!(are_kernel_args(text), *fits, "{text:?}");
        }
    }
}
