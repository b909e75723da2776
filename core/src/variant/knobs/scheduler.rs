//! The knob `scx`: a sched_ext scheduler in place of the kernel's own.

use crate::model::Kind;

use super::super::contract::{Knob, Wants, knobs};

pub static KNOBS: [Knob; 1] = knobs! {
    "scx": Kind::Text =>
        "sched_ext scheduler: fifo or vtime, for tests bad, lossy, stray or haughty, or the path \
         of a program (Linux 6.12)",
        Wants::Scheduler;
};
