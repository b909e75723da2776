//! The only English about results: verdicts and their reasons, the method, sides, counts, and
//! the command. Facts come in, sentences go out; nothing reads a sentence again. Pure.

pub mod disturbance;
mod fold;
mod names;
mod notes;
mod plans;
mod rounds;
mod setup;
mod sides;
#[cfg(test)]
mod tests;
mod verdicts;
mod words;

pub use fold::{folded_notes, gaps};
pub use names::{distinct_names, names};
pub use notes::{differs, note, one_line, spoilt, spoilt_fairness};
pub use plans::{about, analysis_time, guest, in_turns, method, over_hosts, plan, until_decided};
pub use rounds::{Needed, Tally, decides, in_all, in_lab, later, more_rounds, rounds, show_rounds};
pub use setup::{changes, knobs, placement, set};
pub use sides::{Compared, compared, differing_knobs};
pub use verdicts::{
    SPOILT, bound, each, floor_percent, has_spoilt, is_good, key, keys, marked, shapes, show_floor,
    verdict, verdict_on, why,
};
pub use words::{
    first_between, first_of, joined, listed, metric, p_value, place, place_of, rough_time, time,
    with_sides,
};
