/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the BPF programs of the probe `sched` and their reader share: sizes and layouts. The
 * reader's side is core/src/probe/sched/bpf.rs; a test holds both against each other.
 */
#ifndef SCHEDLAB_SCHED_H
#define SCHEDLAB_SCHED_H

enum {
	/* CPUs with higher numbers are counted under the last. */
	MAX_CPUS = 1024,
	/* Run-queue lengths; the last counts all longer ones. */
	LENGTHS = 64,
	/* Names of partners that a task keeps by itself; others go through the map `pairs`. */
	PARTNERS = 4,
};

/*
 * How far back a CPU knows who had it. A wait of fewer than RECENT turns is exact. The beginning of a longer
 * one is not known: up to 1 / (MARKS - 1) of it or 33 us, and what lies before the marks of the last level.
 */
enum {
	/* Turns that are kept one by one. */
	RECENT = 256,
	/* Names whose run time a CPU sums; one without room takes the place of one that ran for less. */
	HOLDERS = 32,
	/*
	 * The sums are marked at the first switch after each multiple of 2^MARK_BITS ns. Level N has the last
	 * MARKS marks after odd multiples of 2^(MARK_BITS + N).
	 */
	MARK_BITS = 15,
	MARK_LEVELS = 20,
	MARKS = 16,
	/* Names that had the CPU during the longest wait. */
	WORST_HOLDERS = 8,
};

/*
 * Histograms are logarithmic: below 2^FIRST_BIT ns one bucket, then 2^bits buckets for each
 * doubling, and a last one for 2^LAST_BIT ns and more.
 */
enum {
	FIRST_BIT = 8,
	LAST_BIT = 35,
	WAIT_BITS = 3,
	SLICE_BITS = 2,
	WAIT_BUCKETS = 2 + ((LAST_BIT - FIRST_BIT) << WAIT_BITS),
	SLICE_BUCKETS = 2 + ((LAST_BIT - FIRST_BIT) << SLICE_BITS),
};

/*
 * Names that are no task's; those of tasks begin with FIRST_NAME. UNWATCHED_NAME is both sides of
 * a pair of which neither is watched, where only some tasks are.
 */
enum { NO_NAME, OTHER_NAME, INTERRUPT_NAME, IDLE_NAME, UNWATCHED_NAME, FIRST_NAME };

/* Bits of task.flags. */
enum { WATCHED = 1, KERNEL_THREAD = 2, DEAD = 4 };

enum { DISTANCE_LLC, DISTANCE_NODE, DISTANCE_FAR, DISTANCES };

struct waker {
	u32 name;
	u32 count;
};

/* Who ran while a task waited: for how long, and how often it took the CPU from the task. */
struct partner {
	u32 name;
	u32 count;
	u64 ns;
};

/*
 * One task. Times are nanoseconds. The kernel keeps each of these in memory of its own, with up to
 * 80 bytes before it, in sizes that are powers of 2: with at most 944 bytes it takes 1 KiB. Buckets
 * of histograms that are full go on in the map `stays`.
 */
struct task {
	/* The kernel's own counts at the last look. */
	u64 run_seen;
	u64 delay_seen;
	u64 voluntary_seen;
	u64 involuntary_seen;

	u64 run_ns;
	u64 wait_ns;
	u64 wait_max_ns;
	u64 slice_max_ns;
	u64 waits;
	u64 slices;
	u64 voluntary;
	u64 involuntary;
	u64 wakeups;
	/* Of run_ns, what it ran on `cpu` since it came there. */
	u64 run_here_ns;
	/* What it had run when it was last read while it counts on. */
	u64 run_read;
	/* Run-queue delay, that of a wait under way included, that was charged to those who ran meanwhile. */
	u64 delay_charged;
	u64 cgroup;
	u32 cpu;
	u32 name;
	u32 flags;
	/* Its own, never another task's. */
	u32 number;
	u32 migrations[DISTANCES];
	s32 pid;
	s32 tgid;
	char comm[16];
	struct waker woken_by[PARTNERS];
	struct partner delayed_by[PARTNERS];
	u16 wait[WAIT_BUCKETS];
	u16 slice[SLICE_BUCKETS];
};

/*
 * What follows a task where it is read while it counts on: what the kernel has counted by now, how long
 * it has been waiting, and maxima since the last such reading, after which they begin anew.
 */
struct live {
	u64 run;
	u64 voluntary;
	u64 involuntary;
	u64 waiting_ns;
	u64 wait_max_ns;
	u64 slice_max_ns;
};

/* One CPU. Two cache lines from the next. */
struct cpu {
	u64 switches;
	u64 idle_entries;
	u64 idle_ns;
	/* Of the monotonic clock; 0 while it does not idle. */
	u64 idle_since;
	/* Of tasks that there is no room for: switches to them, and what they did since. */
	u64 untracked;
	u64 other_run_ns;
	u64 other_voluntary;
	u64 other_involuntary;
	/* Of the run queue's clock; 0 while none of them runs. */
	u64 other_since;
	/* Of the task that runs, NO_NAME before the first switch. */
	u32 name;
	/* Interrupts that it serves, one inside the other. */
	u32 interrupts;
	u64 trace_head;
	/* The task that runs is. */
	u32 watched;
	/* The longest wait that ended here, and who ran until then: for how long at a stretch. */
	u32 worst_slice_us;
	u64 worst_ns;
	/* Of the monotonic clock: when it ended. */
	u64 worst_at;
	s32 worst_pid;
	u32 worst_name;
	s32 worst_prev_pid;
	u32 worst_prev_name;
	/* The kind of the soft interrupt that it serves, or NO_SOFTIRQ. */
	u32 softirq;
	/* 1 more than the place of the message that was sent here last; 0: none, or it has woken somebody. */
	u32 message;
	/* Where an address becomes a number, which the verifier allows of what was in a map. */
	volatile u64 address;
	u64 lengths[LENGTHS];
} __attribute__((aligned(128)));

/*
 * A time without a switch to another name, up to `until_ns` of the run queue's clock. `holder` is twice
 * the name, and 1 more where the task is watched. `place` is that among the sums.
 */
struct turn {
	u64 until_ns;
	u32 holder;
	u32 place;
};

struct mark {
	/* The last turn before it, and since when. */
	struct turn turn;
	u64 since_ns;
	u64 ran_ns[HOLDERS];
};

/* Who had a CPU during one piece of one wait. */
struct tally {
	u32 count;
	u32 mark;
	u64 marked_ns;
	/* How much of the piece is known. */
	u64 known_ns;
	u32 places[HOLDERS];
	/* By place among the sums. 0 in between. */
	u64 ns[HOLDERS];
};

struct holder_sum {
	u32 name;
	u32 unused;
	u64 ns;
};

/* Who had a CPU, and until when. */
struct past {
	/* The number of the last turn. */
	u64 turns;
	/* Of the task that came last. */
	s32 pid;
	u32 worst_count;
	struct holder_sum worst[WORST_HOLDERS];
	u32 holders[HOLDERS];
	u64 ran_ns[HOLDERS];
	/* What `ran_ns` was when the name came to this place. */
	u64 ran_before_ns[HOLDERS];
	struct turn recent[RECENT];
	/* When the last mark was set, and how many there were of each level. */
	u64 marked_ns;
	u32 marked[MARK_LEVELS];
	struct mark marks[MARK_LEVELS * MARKS];
	struct tally tally;
};

enum { SENDERS = 6 };

struct settings {
	/* More than switch counts and waits: slices, wakeups, migrations, pairs. */
	u32 full;
	/* No more than the flight recorder: at a switch or a wakeup nothing is counted of a task. */
	u32 events_only;
	/* Entries of the flight recorder for each CPU, a power of 2; 0: none. */
	u32 trace_slots;
	u32 max_tasks;
	u32 max_names;
	/* The numbers of the system calls that write and send. */
	u32 senders[SENDERS];
	/* By CPU: which last-level cache and which NUMA node. */
	u16 llc_of[MAX_CPUS];
	u16 node_of[MAX_CPUS];
};

struct control {
	u32 counting;
	/* What `walk` is to do with each task. */
	u32 walk_to;
	/* The process that WALK_WATCH marks, and the one whose children are watched from birth. */
	s32 watch_pid;
	s32 watch_children_of;
	/* Of pairs of which neither side is watched the names are not kept. */
	u32 only_watched;
	/* The next switch sets `clock_ahead`. */
	u32 clock_wanted;
	/* When counting began, by the monotonic clock. */
	u64 began_ns;
};

/* The first line, then one or more for each CPU. */
struct counters {
	u32 tasks_now;
	u32 tasks_ever;
	u32 names_given;
	u32 unused;
	/* Lost, and reported. */
	u64 tasks_lost;
	u64 names_lost;
	u64 dead_lost;
	u64 pairs_lost;
	u64 stays_lost;
	u64 samples_lost;
	/* The run queues' clock, less the monotonic one. */
	u64 clock_ahead;
	struct cpu cpus[MAX_CPUS];
};

enum { PAIR_WOKEN, PAIR_DELAYED };

struct pair {
	u32 name;
	u32 by;
	u32 kind;
};

struct pair_sum {
	u64 count;
	u64 ns;
};

/* Run time on a CPU; or samples, where STAY_WAIT or STAY_SLICE is in `cpu`: of that bucket. */
struct stay {
	/* Of the task. */
	u32 number;
	u32 cpu;
};

enum { STAY_WAIT = 1 << 30, STAY_SLICE = 1 << 29 };

/* What the iterator does with each task. */
enum { WALK_FIRST, WALK_BEGIN, WALK_WATCH, WALK_READ, WALK_PEEK };

enum { TRACE_SWITCH = 1, TRACE_WAKING, TRACE_MIGRATE, TRACE_RECEIVED };

/* Places of sockets: of two at one place the later message stays. */
enum { SOCKET_BITS = 14, SOCKETS = 1 << SOCKET_BITS };

/* The last that was sent to a socket of all that was not received yet. */
struct message {
	/* Its address, which never leaves the kernel. */
	u64 socket;
	u64 at_ns;
	/* Who sent it; 0: all was received. */
	s32 pid;
	u32 has_woken;
};

/*
 * One line of the flight recorder. The time is that of the clock that runs on in suspend, as in
 * the kernel's own traces for Perfetto.
 * SWITCH: from pid to other, info is how the former was left (its state, bit 31: preempted).
 * WAKING: pid (0: an interrupt) wakes other, or has just made it; info is the CPU where other was
 * last (bit 31: by writing or sending).
 * MIGRATE: pid goes from CPU other to CPU info.
 * RECEIVED: pid has what other sent info ns ago, which woke nobody.
 */
struct trace {
	u64 at_ns;
	s32 pid;
	s32 other;
	u32 info;
	u16 kind;
	u16 prio;
	u32 name;
	u32 other_name;
};

#endif
