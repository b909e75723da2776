//! Knobs that a machine is booted with. Only a backend that boots its own machines has them, and
//! takes them off a variant before anything here sees it: wherever else, they cannot be had.

use crate::model::Kind;

use super::super::contract::{Knob, Wants, knobs};

/// Whether these are words of a kernel's command line that cannot end a quotation.
pub fn are_kernel_args(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b" _-=.,:;/+@%".contains(&b);
    !text.trim().is_empty() && text.bytes().all(plain)
}

pub static KNOBS: [Knob; 5] = knobs! {
    "kernel": Kind::Text =>
        "the kernel that is booted, in the lab: debian:6.18, or the path of a bzImage",
        Wants::Boot(|text| !text.trim().is_empty());
    "kernel-args": Kind::Text =>
        "words added to the kernel's command line, in the lab: preempt=full",
        Wants::Boot(are_kernel_args);
    "xen": Kind::Text =>
        "the path of a hypervisor of your own, xen.gz or xen, in place of that of a kernel like \
         xen:4.17, in the lab",
        Wants::Boot(|text| !text.trim().is_empty());
    "xen-args": Kind::Text =>
        "words added to Xen's command line, in the lab: credit2_runqueue=core",
        Wants::Boot(are_kernel_args);
    "guest-kernel": Kind::Text =>
        "the kernel of guests of Xen, in the lab: debian:6.12, or the path of a bzImage; that of \
         the first domain unless given",
        Wants::Boot(|text| !text.trim().is_empty());
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
