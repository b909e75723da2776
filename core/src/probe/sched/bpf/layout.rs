//! The types of `../bpf/sched.h`, which the BPF programs share with us, byte for byte. A test holds sizes and
//! offsets against those that the compiled programs carry.

use bytemuck::{AnyBitPattern, NoUninit, Pod, Zeroable};

use crate::probe::sched::buckets::{SLICE_BUCKETS, WAIT_BUCKETS};

pub const MAX_CPUS: usize = 1024;
pub const LENGTHS: usize = 64;
pub const PARTNERS: usize = 4;
pub const WORST_HOLDERS: usize = 8;

pub const INTERRUPT_NAME: u32 = 2;
pub const IDLE_NAME: u32 = 3;
/// Both sides of a pair with nobody watched.
pub const UNWATCHED_NAME: u32 = 4;

pub const FIRST_NAME: u32 = 5;

pub const TRACE_SWITCH: u16 = 1;
pub const TRACE_WAKING: u16 = 2;
pub const TRACE_MIGRATE: u16 = 3;
pub const TRACE_RECEIVED: u16 = 4;
/// A flag in [`Line::info`] of a switch.
pub const PREEMPTED: u32 = 1 << 31;
/// In a line of a wakeup: by a write or a send.
pub const SYNC: u32 = 1 << 31;
pub const SENDERS: usize = 6;

pub const WATCHED: u32 = 1;
pub const KERNEL_THREAD: u32 = 2;
pub const DEAD: u32 = 4;

pub const WALK_FIRST: u32 = 0;
pub const WALK_BEGIN: u32 = 1;
pub const WALK_WATCH: u32 = 2;
pub const WALK_READ: u32 = 3;
pub const WALK_PEEK: u32 = 4;

pub const PAIR_WOKEN: u32 = 0;
pub const PAIR_DELAYED: u32 = 1;

/// The largest count of a task's bucket; it goes on from 1.
pub const FULL_BUCKET: u64 = 0xffff;

/// In [`Stay::cpu`]: it is a bucket of a histogram.
pub const STAY_WAIT: u32 = 1 << 30;
pub const STAY_SLICE: u32 = 1 << 29;

#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub struct Waker {
    pub name: u32,
    pub count: u32,
}

#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub struct Partner {
    pub name: u32,
    pub count: u32,
    pub ns: u64,
}

#[derive(Debug, Clone, Copy, AnyBitPattern)]
#[repr(C)]
pub struct Task {
    pub run_seen: u64,
    pub delay_seen: u64,
    pub voluntary_seen: u64,
    pub involuntary_seen: u64,
    pub run_ns: u64,
    pub wait_ns: u64,
    pub wait_max_ns: u64,
    pub slice_max_ns: u64,
    pub waits: u64,
    pub slices: u64,
    pub voluntary: u64,
    pub involuntary: u64,
    pub wakeups: u64,
    pub run_here_ns: u64,
    pub run_read: u64,
    pub delay_charged: u64,
    pub cgroup: u64,
    pub cpu: u32,
    pub name: u32,
    pub flags: u32,
    pub number: u32,
    /// Within the last-level cache, within the node, farther.
    pub migrations: [u32; 3],
    pub pid: i32,
    pub tgid: i32,
    pub comm: [u8; 16],
    pub woken_by: [Waker; PARTNERS],
    pub delayed_by: [Partner; PARTNERS],
    pub wait: [u16; WAIT_BUCKETS],
    pub slice: [u16; SLICE_BUCKETS],
}

/// The counts that follow a task which is read while it lives. No map has them, so the programs do not carry their
/// layout: a test checks that readings add up.
#[derive(Debug, Clone, Copy, AnyBitPattern)]
#[repr(C)]
pub struct Live {
    pub run: u64,
    pub voluntary: u64,
    pub involuntary: u64,
    pub waiting_ns: u64,
    pub wait_max_ns: u64,
    pub slice_max_ns: u64,
}

#[derive(Debug, Clone, Copy, AnyBitPattern)]
#[repr(C, align(128))]
pub struct Cpu {
    pub switches: u64,
    pub idle_entries: u64,
    pub idle_ns: u64,
    pub idle_since: u64,
    pub untracked: u64,
    pub other_run_ns: u64,
    pub other_voluntary: u64,
    pub other_involuntary: u64,
    pub other_since: u64,
    pub name: u32,
    pub interrupts: u32,
    pub trace_head: u64,
    pub watched: u32,
    pub worst_slice_us: u32,
    pub worst_ns: u64,
    pub worst_at: u64,
    pub worst_pid: i32,
    pub worst_name: u32,
    pub worst_prev_pid: i32,
    pub worst_prev_name: u32,
    pub softirq: u32,
    pub message: u32,
    pub address: u64,
    pub lengths: [u64; LENGTHS],
}

#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub struct HolderSum {
    pub name: u32,
    pub unused: u32,
    pub ns: u64,
}

/// The beginning of `struct past`.
#[derive(Debug, Clone, Copy, AnyBitPattern)]
#[repr(C)]
pub struct Past {
    pub turns: u64,
    pub pid: i32,
    pub worst_count: u32,
    pub worst: [HolderSum; WORST_HOLDERS],
}

#[derive(Debug, Clone, Copy, NoUninit, Zeroable)]
#[repr(C)]
pub struct Settings {
    pub full: u32,
    pub events_only: u32,
    pub trace_slots: u32,
    pub max_tasks: u32,
    pub max_names: u32,
    pub senders: [u32; SENDERS],
    pub llc_of: [u16; MAX_CPUS],
    pub node_of: [u16; MAX_CPUS],
}

#[derive(Debug, Clone, Copy, Default, NoUninit)]
#[repr(C)]
pub struct Control {
    pub counting: u32,
    pub walk_to: u32,
    pub watch_pid: i32,
    pub watch_children_of: i32,
    pub only_watched: u32,
    pub clock_wanted: u32,
    pub began_ns: u64,
}

/// The fields before the CPUs in `struct counters`.
#[derive(Debug, Clone, Copy, AnyBitPattern)]
#[repr(C, align(128))]
pub struct Counters {
    pub tasks_now: u32,
    pub tasks_ever: u32,
    pub names_given: u32,
    pub unused: u32,
    pub tasks_lost: u64,
    pub names_lost: u64,
    pub dead_lost: u64,
    pub pairs_lost: u64,
    pub stays_lost: u64,
    pub samples_lost: u64,
    pub clock_ahead: u64,
}

#[derive(Debug, Clone, Copy, AnyBitPattern)]
#[repr(C)]
pub struct Pair {
    pub name: u32,
    pub by: u32,
    pub kind: u32,
}

#[derive(Debug, Clone, Copy, AnyBitPattern)]
#[repr(C)]
pub struct PairSum {
    pub count: u64,
    pub ns: u64,
}

#[derive(Debug, Clone, Copy, AnyBitPattern)]
#[repr(C)]
pub struct Stay {
    pub number: u32,
    pub cpu: u32,
}

/// One line of the flight recorder, `struct trace`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, AnyBitPattern)]
#[repr(C)]
pub struct Line {
    pub at_ns: u64,
    pub pid: i32,
    pub other: i32,
    pub info: u32,
    pub kind: u16,
    pub prio: u16,
    pub name: u32,
    pub other_name: u32,
}
