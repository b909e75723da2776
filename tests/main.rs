//! The integration target: one program to link, one module per subject. Tests that boot guests have their own
//! target, tests/lab.rs.

mod bpf;
mod capture;
mod ci;
mod cli;
mod commands;
mod compare;
mod corpus;
mod damage;
mod disk;
mod earlier;
mod expect;
mod faults;
mod findings;
mod fleet;
mod home;
mod house;
mod imported;
mod kernel_build;
mod kernels;
mod kill;
mod knobs;
mod live;
mod need;
mod no_home;
mod over_hosts;
mod page;
#[cfg(feature = "parquet")]
mod parquet;
mod phases;
mod plan_power;
mod plan_schema;
mod pools;
mod pty;
mod release;
mod rt_app;
mod schbench;
mod schbench_load;
mod schedbench;
mod score_counts;
mod score_inputs;
mod score_killed;
mod score_saved;
mod score_sources;
mod selection;
#[cfg(feature = "serve")]
mod serve;
mod session;
mod shards;
#[cfg(feature = "cache")]
mod shared_cache;
mod strace;
mod support;
mod trace;
mod trial;
mod turns;
mod watch;
mod writers;
