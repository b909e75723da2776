//! The kernel's interfaces: clocks, futexes, shared memory, processes, /proc and /sys.
//! With the hot loops of workloads this is the only unsafe code.

pub mod clock;
pub mod futex;
pub mod host;
pub mod shared;

pub use host::Host;
