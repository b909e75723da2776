//! The one integration target: one program to link, one module per subject.

mod cli;
mod faults;
mod house;
mod kill;
mod knobs;
mod need;
mod pools;
mod schbench;
mod schbench_load;
mod schedbench;
mod support;
