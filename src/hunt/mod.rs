//! Hunts for faults of schedulers: scenarios at random, rules that every scheduler keeps, and the smallest case that
//! still breaks one. Pure: a scenario becomes the text of a plan, and whoever runs it hands its windows back.

mod case;
mod contract;
mod flow;
mod generate;
mod likeness;
mod passes;
mod placement;
mod reached;
mod rules;
mod seen;
mod shrink;
#[cfg(test)]
mod testing;
mod traced;

pub use case::{Case, LONG_MS, Machine, Place, Target, WINDOW_MS, plan_text};
pub use contract::{Judgement, Rule};
pub use generate::Generator;
pub use likeness::Likeness;
pub use reached::Reached;
pub use rules::{judgements, registry};
pub use seen::Seen;
pub use shrink::{Shrinker, size, smaller_machines};
#[cfg(test)]
pub use testing::seen;
pub use traced::{describe, timeline};
