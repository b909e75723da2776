//! The kernel's interfaces: clocks, futexes, shared memory, processes, /proc and /sys.
//! With the hot loops of workloads this is the only unsafe code.

pub mod abandoned;
pub mod balancing;
pub mod boot;
pub mod burst;
mod call;
pub mod cgroup;
mod change;
pub mod child;
pub mod clock;
pub mod command;
pub mod companion;
mod dirs;
pub mod dma;
pub mod environment;
mod epoll;
mod eventfd;
pub mod fork;
pub mod futex;
pub mod heat;
pub mod host;
pub mod input;
#[cfg(feature = "bpf")]
pub mod libbpf;
pub mod load;
mod memory;
pub mod mounts;
mod mutex;
mod output;
pub mod packages;
pub mod peek;
pub mod perf;
pub mod ports;
pub mod process;
pub mod ramdisk;
pub mod remedy;
pub mod replace;
pub mod sched;
pub mod schedstat;
pub mod scheduler;
pub mod scratch;
pub mod signal;
pub mod socket;
pub mod sparse;
pub mod sqlite;
pub mod symbols;
pub mod task;
#[cfg(test)]
pub mod testing;
pub mod thread;
pub mod tool;
pub mod topology;
pub mod tty;
mod tty_restore;
pub mod virtualisation;
pub mod wake_pipe;
pub mod xen;

#[cfg(test)]
pub(crate) use change::fuse;
pub use dirs::{
    FolderError, cache_dir, config_dir, free_bytes, is_absent, man_dir, state_dir, terminal_columns,
};
pub use environment::environment;
pub use epoll::{Epoll, Ready};
pub use eventfd::eventfd;
pub use host::{FileError, Host};
pub use memory::{
    InterleaveError, PAGE_BYTES, Page, can_interleave, interleave, policy_of, private, shared,
};
pub use mutex::lock;
pub use output::Output;
pub use scheduler::scheduler;
