/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The probe `sched`: what the scheduler does to every task, counted in the kernel.
 *
 * What it costs is added to every context switch and wakeup, so:
 *
 * - No clock is read but where a CPU begins or ends to idle. The run queue's own clock has just been updated when a switch is traced, and
 *   the kernel keeps each task's run time, run-queue delay and switch counts by itself
 *   (`se.sum_exec_runtime`, `sched_info`, `nvcsw`, `nivcsw`). The programs read those and
 *   sort the differences into histograms; sums equal the kernel's own.
 * - A switch looks up one task, the one that comes. What happened to it since it last came - its
 *   last slice, how it was left, its wait - is accounted then. The one that goes is looked up only
 *   where the CPU was taken from it, to note by whom.
 * - Names are numbers, given out when a task is made or renamed. The few partners
 *   that most tasks have lie next to the task's counts; the others go through a map.
 *
 * Nothing is allocated at a switch, where the run queue is locked: a task's memory is made when
 * it is forked, or beforehand by the iterator `walk`. Where there is none the task is counted as
 * untracked.
 */
#include "kernel.h"
#include "sched.h"

/* Dual, as some helpers are for programs under the GPL alone; ours are under either. */
char _license[] SEC("license") = "Dual MIT/GPL";

/* Set before loading. What is off is no part of the loaded program. */
const volatile struct settings settings SEC(".rodata.settings");
/* Set by the reader while programs run. */
volatile struct control control SEC(".data.control");
struct counters counters;

struct {
	MAP_UINT(type, BPF_MAP_TYPE_TASK_STORAGE);
	MAP_UINT(map_flags, BPF_F_NO_PREALLOC);
	MAP_TYPE(key, int);
	MAP_TYPE(value, struct task);
} tasks SEC(".maps");

/* Tasks that have ended. */
struct {
	MAP_UINT(type, BPF_MAP_TYPE_RINGBUF);
	MAP_UINT(max_entries, 2 << 20);
} dead SEC(".maps");

struct name {
	char comm[16];
};

struct {
	MAP_UINT(type, BPF_MAP_TYPE_HASH);
	MAP_UINT(max_entries, 1 << 12);
	MAP_TYPE(key, struct name);
	MAP_TYPE(value, u32);
} names SEC(".maps");

struct {
	MAP_UINT(type, BPF_MAP_TYPE_HASH);
	MAP_UINT(max_entries, 1 << 14);
	MAP_TYPE(key, struct pair);
	MAP_TYPE(value, struct pair_sum);
} pairs SEC(".maps");

/* Run time of tasks on CPUs that they have left. */
struct {
	MAP_UINT(type, BPF_MAP_TYPE_HASH);
	MAP_UINT(max_entries, 1 << 15);
	MAP_TYPE(key, struct stay);
	MAP_TYPE(value, u64);
} stays SEC(".maps");

/* The flight recorder: `trace_slots` entries for each CPU. */
struct {
	MAP_UINT(type, BPF_MAP_TYPE_ARRAY);
	MAP_UINT(max_entries, 1);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct trace);
} traces SEC(".maps");

/* Where counts of a task have no room for more. */
#define FULL_COUNT 0xffffffffU
#define FULL_BUCKET 0xffff

INLINE struct cpu *here(u32 *number)
{
	u32 cpu = this_cpu();

	if (cpu >= MAX_CPUS)
		cpu = MAX_CPUS - 1;
	*number = cpu;
	return &counters.cpus[cpu];
}

/* The bucket of a time; the highest set bit by halving, as there is no instruction for it. */
INLINE u32 bucket(u64 ns, u32 bits)
{
	u32 top = 0;
	u64 rest = ns;

	if (ns < (1ULL << FIRST_BIT))
		return 0;
	if (ns >= (1ULL << LAST_BIT))
		return 1 + ((LAST_BIT - FIRST_BIT) << bits);
	if (rest >= 1ULL << 32) {
		rest >>= 32;
		top += 32;
	}
	if (rest >= 1 << 16) {
		rest >>= 16;
		top += 16;
	}
	if (rest >= 1 << 8) {
		rest >>= 8;
		top += 8;
	}
	if (rest >= 1 << 4) {
		rest >>= 4;
		top += 4;
	}
	if (rest >= 1 << 2) {
		rest >>= 2;
		top += 2;
	}
	if (rest >= 2)
		top += 1;
	return 1 + ((top - FIRST_BIT) << bits) + ((ns >> (top - bits)) & ((1 << bits) - 1));
}

INLINE void spill(u32 kind, u32 name, u32 by, u32 count, u64 ns)
{
	struct pair key = { .name = name, .by = by, .kind = kind };
	struct pair_sum first = { .count = count, .ns = ns };
	struct pair_sum *sum;

	if (by == UNWATCHED_NAME)
		key.name = UNWATCHED_NAME;
	sum = map_lookup(&pairs, &key);

	if (!sum) {
		if (!map_update(&pairs, &key, &first, BPF_NOEXIST))
			return;
		sum = map_lookup(&pairs, &key);
	}
	if (!sum) {
		__sync_fetch_and_add(&counters.pairs_lost, count);
		return;
	}
	__sync_fetch_and_add(&sum->count, first.count);
	__sync_fetch_and_add(&sum->ns, first.ns);
}

/*
 * Counts a partner of a task: in its own table, where the name that was there, or a count that is
 * full, makes room.
 */
INLINE void count_preemptor(struct task *task, u64 ns)
{
	u32 by = task->preemptor;
	struct partner *partner = &task->preempted_by[by % PARTNERS];

	if (partner->name != by || partner->count == FULL_COUNT) {
		if (partner->count)
			spill(PAIR_PREEMPTED, task->name, partner->name, partner->count, partner->ns);
		partner->name = by;
		partner->count = 0;
		partner->ns = 0;
	}
	partner->count++;
	partner->ns += ns;
}

INLINE void count_waker(struct task *task, u32 by)
{
	struct waker *waker = &task->woken_by[by % PARTNERS];

	if (waker->name != by || waker->count == FULL_COUNT) {
		if (waker->count)
			spill(PAIR_WOKEN, task->name, waker->name, waker->count, 0);
		waker->name = by;
		waker->count = 0;
	}
	waker->count++;
}

/* Adds to an entry of `stays`. */
INLINE bool add_stay(u32 number, u32 cpu, u64 value)
{
	struct stay key = { .number = number, .cpu = cpu };
	u64 *sum = map_lookup(&stays, &key);

	if (sum) {
		__sync_fetch_and_add(sum, value);
		return 1;
	}
	return !map_update(&stays, &key, &value, BPF_NOEXIST);
}

/* One more sample of a bucket. A full one goes on in the map. */
INLINE void count_sample(struct task *task, u16 *bucket, u32 kind, u32 at)
{
	if (*bucket == FULL_BUCKET) {
		if (!add_stay(task->number, kind | at, FULL_BUCKET)) {
			__sync_fetch_and_add(&counters.samples_lost, 1);
			return;
		}
		*bucket = 0;
	}
	*bucket += 1;
}

/* The number of a name, a new one where it has none. In process context alone. */
INLINE u32 number_of(const struct name *name)
{
	u32 *known = map_lookup(&names, name);
	u32 number;

	if (known)
		return *known;
	if (counters.names_given >= settings.max_names) {
		__sync_fetch_and_add(&counters.names_lost, 1);
		return OTHER_NAME;
	}
	number = FIRST_NAME + __sync_fetch_and_add(&counters.names_given, 1);
	if (!map_update(&names, name, &number, BPF_NOEXIST))
		return number;
	known = map_lookup(&names, name);
	if (known)
		return *known;
	__sync_fetch_and_add(&counters.names_lost, 1);
	return OTHER_NAME;
}

/*
 * How long a task has run. The kernel adds the slice of one that runs at each tick: what came since is
 * added here. Steal and interrupts since are taken for its own, until the next tick.
 */
INLINE u64 run_now(struct task_struct *of)
{
	u64 run = of->se.sum_exec_runtime;
	u64 since = of->se.exec_start;
	const struct rq *rq = of->se.cfs_rq->rq;
	u64 now = monotonic_ns() + counters.clock_ahead - (rq->clock - rq->clock_task);

	/* Unknown: no switch has set it. */
	if (!counters.clock_ahead || !of->on_cpu || now < since)
		return run;
	return run + (now - since);
}

/* What a task has done by now is not to be counted again. */
INLINE void see(struct task *task, struct task_struct *of)
{
	task->run_seen = run_now(of);
	task->delay_seen = of->sched_info.run_delay;
	task->voluntary_seen = of->nvcsw;
	task->involuntary_seen = of->nivcsw;
}

INLINE struct task *make_task(struct task_struct *of, bool is_named)
{
	struct task *task;
	struct name name;

	task = 0;
	if (counters.tasks_now < settings.max_tasks)
		task = task_storage(&tasks, of, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!task) {
		if (is_named)
			__sync_fetch_and_add(&counters.tasks_lost, 1);
		return 0;
	}
	__sync_fetch_and_add(&counters.tasks_now, 1);
	task->number = __sync_fetch_and_add(&counters.tasks_ever, 1);
	task->pid = of->pid;
	task->tgid = of->tgid;
	__builtin_memcpy(name.comm, of->comm, sizeof(name.comm));
	task->name = number_of(&name);
	if (of->flags & 0x00200000 /* PF_KTHREAD */)
		task->flags |= KERNEL_THREAD;
	see(task, of);
	return task;
}

/* What is read of a task when it is handed over. */
INLINE void complete(struct task *task, struct task_struct *of)
{
	__builtin_memcpy(task->comm, of->comm, sizeof(task->comm));
	task->cgroup = of->cgroups->dfl_cgrp->kn->id;
}

/* Accounts what has happened to a task until it went, or until now where it still runs. */
INLINE void account_left(struct task *task, struct task_struct *of, u64 run, bool counting, bool went)
{
	u64 slice = run > task->run_seen ? run - task->run_seen : 0;
	u64 voluntary = of->nvcsw, involuntary = of->nivcsw;
	u32 at;

	if (counting) {
		task->voluntary += voluntary - task->voluntary_seen;
		task->involuntary += involuntary - task->involuntary_seen;
		task->run_ns += slice;
		task->run_here_ns += slice;
		if (settings.full && slice && went) {
			task->slices++;
			if (slice > task->slice_max_ns)
				task->slice_max_ns = slice;
			at = bucket(slice, SLICE_BITS);
			if (at < SLICE_BUCKETS)
				count_sample(task, &task->slice[at], STAY_SLICE, at);
		}
	}
	task->run_seen = run;
	task->voluntary_seen = voluntary;
	task->involuntary_seen = involuntary;
}

/* A wait that the kernel counted and whose end no program saw: rare, on busy machines; why is not known. */
INLINE void account_unseen_wait(struct task *task, struct task_struct *of)
{
	u64 delay = of->sched_info.run_delay;

	if (delay > task->delay_seen)
		task->wait_ns += delay - task->delay_seen;
	task->delay_seen = delay;
}

/* Accounts the wait of a task that comes: the kernel will add its last piece in a moment. */
INLINE u64 account_wait(struct task *task, struct task_struct *of, u64 now)
{
	u64 queued = of->sched_info.last_queued;
	u64 delay = of->sched_info.run_delay;
	u64 wait;
	u32 at;

	if (queued && now > queued)
		delay += now - queued;
	wait = delay - task->delay_seen;
	task->delay_seen = delay;
	if (!control.counting)
		return 0;
	task->waits++;
	task->wait_ns += wait;
	if (wait > task->wait_max_ns)
		task->wait_max_ns = wait;
	at = bucket(wait, WAIT_BITS);
	if (at < WAIT_BUCKETS)
		count_sample(task, &task->wait[at], STAY_WAIT, at);
	return wait;
}

/* Where a task ran is known by CPU: what it ran here goes to the map when it leaves. */
INLINE void leave_cpu(struct task *task)
{
	u64 ns = task->run_here_ns;

	task->run_here_ns = 0;
	if (ns && !add_stay(task->number, task->cpu, ns))
		__sync_fetch_and_add(&counters.stays_lost, 1);
}

/*
 * A line of the flight recorder. Interrupts are off where this is called, but for `on_fork`:
 * what interrupts that goes on from the line that was taken in one step.
 */
INLINE void record(u32 cpu, u64 line, const struct trace *entry)
{
	u32 at = cpu * settings.trace_slots + (line & (settings.trace_slots - 1));
	struct trace *slot = map_lookup(&traces, &at);

	if (slot)
		*slot = *entry;
}

INLINE void hand_over(struct task_struct *of)
{
	struct task *task = task_storage(&tasks, of, 0, 0);
	u64 flags = BPF_RB_NO_WAKEUP;

	if (!task)
		return;
	account_left(task, of, of->se.sum_exec_runtime, control.counting, 1);
	if (control.counting)
		account_unseen_wait(task, of);
	complete(task, of);
	task->flags |= DEAD;
	if (ringbuf_query(&dead, BPF_RB_AVAIL_DATA) > 1 << 20)
		flags = BPF_RB_FORCE_WAKEUP;
	if (ringbuf_output(&dead, task, sizeof(*task), flags))
		__sync_fetch_and_add(&counters.dead_lost, 1);
	__sync_fetch_and_add(&counters.tasks_now, -1);
}

/* The longest wait so far, and who had the CPU until then. Rare: each is longer than all before. */
INLINE void note_worst(struct cpu *cpu, struct task *task, struct task_struct *prev, u32 prev_name, u64 wait)
{
	struct task *before = prev->pid ? task_storage(&tasks, prev, 0, 0) : 0;
	u64 run = prev->se.sum_exec_runtime;

	cpu->worst_ns = wait;
	cpu->worst_at = monotonic_ns();
	cpu->worst_pid = task->pid;
	cpu->worst_name = task->name;
	cpu->worst_prev_pid = prev->pid;
	cpu->worst_prev_name = prev_name;
	cpu->worst_slice_us = before && run > before->run_seen ? (run - before->run_seen) / 1000 : 0;
}

INLINE void arrive(struct cpu *cpu, u32 number, struct task_struct *prev, struct task_struct *next, u64 now)
{
	u32 prev_name = cpu->name;
	struct task *task;
	u64 wait;

	task = task_storage(&tasks, next, 0, 0);
	if (!task) {
		cpu->name = OTHER_NAME;
		cpu->watched = 0;
		if (control.counting)
			cpu->untracked++;
		cpu->other_since = now;
		return;
	}
	cpu->name = task->name;
	cpu->watched = task->flags & WATCHED;
	account_left(task, next, next->se.sum_exec_runtime, control.counting, 1);
	if (task->cpu != number) {
		leave_cpu(task);
		task->cpu = number;
	}
	wait = account_wait(task, next, now);
	if (wait > cpu->worst_ns && (!control.only_watched || cpu->watched))
		note_worst(cpu, task, prev, prev_name, wait);
	if (settings.full && task->preemptor) {
		if (control.counting)
			count_preemptor(task, wait);
		task->preemptor = NO_NAME;
	}
}

/* What is known of a task that there is no room for: how long it was here and how it went. */
INLINE void leave_other(struct cpu *cpu, u64 now, bool voluntary)
{
	if (control.counting) {
		if (now > cpu->other_since)
			cpu->other_run_ns += now - cpu->other_since;
		if (voluntary)
			cpu->other_voluntary++;
		else
			cpu->other_involuntary++;
	}
	cpu->other_since = 0;
}

/* Whether who does something to a task, the one that runs on this CPU, is named. */
INLINE bool is_of_interest(const struct task *task, const struct cpu *cpu)
{
	return !control.only_watched || (task->flags & WATCHED) || cpu->watched;
}

/* What of a CPU's idling has been counted over. */
INLINE void count_idle(struct cpu *cpu)
{
	u64 now = monotonic_ns();
	u64 since = cpu->idle_since > control.began_ns ? cpu->idle_since : control.began_ns;

	if (now > since)
		cpu->idle_ns += now - since;
}

/* Arguments: preempt, prev, next, prev_state. */
SEC("tp_btf/sched_switch")
int on_switch(u64 *arguments)
{
	bool preempt = arguments[0];
	struct task_struct *prev = (void *)arguments[1];
	struct task_struct *next = (void *)arguments[2];
	u32 prev_state = arguments[3];
	u64 now = next->se.cfs_rq->rq->clock;
	s32 prev_pid = prev->pid, next_pid = next->pid;
	u32 number, prev_name;
	struct cpu *cpu = here(&number);
	struct task *task;

	prev_name = cpu->name;
	if (control.clock_wanted)
		counters.clock_ahead = now - monotonic_ns();
	/* No switch is in an interrupt: one whose end was not seen is over. */
	cpu->interrupts = 0;
	if (control.counting)
		cpu->switches++;
	if (!prev_pid && cpu->idle_since) {
		if (control.counting)
			count_idle(cpu);
		cpu->idle_since = 0;
	}
	if (cpu->other_since)
		leave_other(cpu, now, !preempt && prev_state);
	if (next_pid) {
		arrive(cpu, number, prev, next, now);
	} else {
		cpu->name = IDLE_NAME;
		cpu->watched = 0;
		cpu->idle_since = monotonic_ns();
		if (control.counting)
			cpu->idle_entries++;
	}
	if (prev_pid) {
		if (prev_state & TASK_DEAD) {
			hand_over(prev);
		} else if (settings.full && (preempt || !prev_state)) {
			task = task_storage(&tasks, prev, 0, 0);
			if (task)
				task->preemptor = is_of_interest(task, cpu) ? cpu->name
									    : UNWATCHED_NAME;
		}
	}
	if (settings.trace_slots && control.counting) {
		struct trace entry = {
			.at_ns = boot_ns(),
			.pid = prev_pid,
			.other = next_pid,
			.info = prev_state | (preempt ? 1U << 31 : 0),
			.kind = TRACE_SWITCH,
			.prio = next->prio,
			.name = prev_name,
			.other_name = cpu->name,
		};
		record(number, cpu->trace_head++, &entry);
	}
	return 0;
}

/*
 * Who wakes a task from an interrupt is the interrupt, not the task that it interrupted. The kernel's own
 * count of them (preempt_count) cannot be found on every kernel, so they are counted here.
 */
INLINE int enter_interrupt(void)
{
	u32 number;

	here(&number)->interrupts++;
	return 0;
}

INLINE int leave_interrupt(void)
{
	u32 number;
	struct cpu *cpu = here(&number);

	/* The first may have begun before this was attached. */
	if (cpu->interrupts)
		cpu->interrupts--;
	return 0;
}

#define INTERRUPT(name)                                    \
	SEC("tp_btf/" #name "_entry") int name##_enters(void *context) \
	{                                                  \
		(void)context;                             \
		return enter_interrupt();                  \
	}                                                  \
	SEC("tp_btf/" #name "_exit") int name##_leaves(void *context)  \
	{                                                  \
		(void)context;                             \
		return leave_interrupt();                  \
	}

INTERRUPT(softirq)
INTERRUPT(irq_handler)
INTERRUPT(local_timer)

/* Argument: the task that is woken. The current task is who wakes it, wherever it will run. */
SEC("tp_btf/sched_waking")
int on_waking(u64 *arguments)
{
	struct task_struct *of = (void *)arguments[0];
	struct task *task;
	u32 number, by;
	struct cpu *cpu;

	if (!control.counting)
		return 0;
	task = task_storage(&tasks, of, 0, 0);
	if (!task)
		return 0;
	cpu = here(&number);
	by = cpu->interrupts ? INTERRUPT_NAME : cpu->name;
	if (settings.full) {
		task->wakeups++;
		if (control.only_watched && !(task->flags & WATCHED) &&
		    (cpu->interrupts || !cpu->watched))
			count_waker(task, UNWATCHED_NAME);
		else
			count_waker(task, by ? by : OTHER_NAME);
	}
	if (settings.trace_slots) {
		struct trace entry = {
			.at_ns = boot_ns(),
			.pid = cpu->interrupts ? 0 : current_task()->pid,
			.other = of->pid,
			.info = task->cpu,
			.kind = TRACE_WAKING,
			.prio = of->prio,
			.name = by,
			.other_name = task->name,
		};
		record(number, cpu->trace_head++, &entry);
	}
	return 0;
}

/* Arguments: the task, and the CPU that it goes to. */
SEC("tp_btf/sched_migrate_task")
int on_migrate(u64 *arguments)
{
	struct task_struct *of = (void *)arguments[0];
	u32 to = arguments[1], from, distance = DISTANCE_LLC;
	struct task *task = task_storage(&tasks, of, 0, 0);

	if (!task)
		return 0;
	from = has_field(of->thread_info.cpu) ? of->thread_info.cpu : task->cpu;
	if (from < MAX_CPUS && to < MAX_CPUS) {
		if (settings.node_of[from] != settings.node_of[to])
			distance = DISTANCE_FAR;
		else if (settings.llc_of[from] != settings.llc_of[to])
			distance = DISTANCE_NODE;
	}
	if (control.counting)
		task->migrations[distance]++;
	if (settings.trace_slots && control.counting) {
		u32 number;
		struct cpu *cpu = here(&number);
		struct trace entry = {
			.at_ns = boot_ns(),
			.pid = of->pid,
			.other = from,
			.info = to,
			.kind = TRACE_MIGRATE,
			.prio = of->prio,
			.name = task->name,
		};

		record(number, cpu->trace_head++, &entry);
	}
	return 0;
}

/* Arguments: parent, child. Nothing runs of the child yet, and no run queue is locked. */
SEC("tp_btf/sched_process_fork")
int on_fork(u64 *arguments)
{
	struct task_struct *parent = (void *)arguments[0];
	struct task_struct *child = (void *)arguments[1];
	struct task *made = make_task(child, 1);
	struct task *from = task_storage(&tasks, parent, 0, 0);

	if (!made)
		return 0;
	if (from)
		made->flags |= from->flags & WATCHED;
	if (parent->tgid == control.watch_children_of && child->tgid != control.watch_children_of)
		made->flags |= WATCHED;
	if (settings.trace_slots && control.counting) {
		u32 number;
		struct cpu *cpu = here(&number);
		struct trace entry = {
			.at_ns = boot_ns(),
			.pid = parent->pid,
			.other = child->pid,
			.info = number,
			.kind = TRACE_WAKING,
			.prio = child->prio,
			.name = cpu->name,
			.other_name = made->name,
		};

		record(number, __sync_fetch_and_add(&cpu->trace_head, 1), &entry);
	}
	return 0;
}

/* Arguments: task, new name. */
SEC("tp_btf/task_rename")
int on_rename(u64 *arguments)
{
	struct task_struct *of = (void *)arguments[0];
	struct task *task = task_storage(&tasks, of, 0, 0);
	struct name name = {};
	u32 number;

	if (!task || read_kernel_str(name.comm, sizeof(name.comm), (void *)arguments[1]) < 0)
		return 0;
	task->name = number_of(&name);
	if (of == current_task())
		here(&number)->name = task->name;
	return 0;
}

/* On every CPU at even intervals: how long its run queue is, the running task included. */
SEC("perf_event")
int on_sample(void *context)
{
	const struct rq *rq = current_task()->se.cfs_rq->rq;
	u32 length = rq->nr_running, asleep = 0, number;
	struct cpu *cpu = here(&number);

	(void)context;
	if (!control.counting)
		return 0;
	if (has_field(rq->cfs.h_nr_runnable))
		asleep = rq->cfs.h_nr_queued - rq->cfs.h_nr_runnable;
	else if (has_field(rq->cfs.h_nr_delayed))
		asleep = rq->cfs.h_nr_delayed;
	length = asleep < length ? length - asleep : 0;
	cpu->lengths[length < LENGTHS ? length : LENGTHS - 1]++;
	return 0;
}

/*
 * Hands over what a task has done so far where it ran since the last time, or waits. It counts on, on
 * another CPU at this moment, so nothing of its counts is changed but maxima, which begin anew. The
 * iterator comes again where there was no room.
 */
INLINE void peek(struct task *task, struct task_struct *of, struct seq_file *seq)
{
	struct live live = {
		.voluntary = of->nvcsw,
		.involuntary = of->nivcsw,
		.wait_max_ns = task->wait_max_ns,
		.slice_max_ns = task->slice_max_ns,
	};
	/* Of one that sleeps it may be left over. */
	u64 queued = of->__state ? 0 : of->sched_info.last_queued;
	u64 now;

	/* Most tasks sleep: no clock is read for them. */
	if (!queued && !of->on_cpu && of->se.sum_exec_runtime == task->run_read)
		return;
	live.run = run_now(of);
	now = monotonic_ns() + counters.clock_ahead;
	if (queued && counters.clock_ahead && now > queued)
		live.waiting_ns = now - queued;
	complete(task, of);
	if (seq_write(seq, task, sizeof(*task)) || seq_write(seq, &live, sizeof(live)))
		return;
	task->run_read = live.run;
	__sync_val_compare_and_swap(&task->wait_max_ns, live.wait_max_ns, 0);
	__sync_val_compare_and_swap(&task->slice_max_ns, live.slice_max_ns, 0);
}

/* All tasks, before programs count and when they are read. */
SEC("iter/task")
int walk(struct bpf_iter__task *context)
{
	struct task_struct *of = context->task;
	struct task *task;

	if (!of)
		return 0;
	if (control.walk_to == WALK_READ || control.walk_to == WALK_PEEK) {
		task = task_storage(&tasks, of, 0, 0);
		/* An ended one that is still there has been handed over. */
		if (!task || task->flags & DEAD)
			return 0;
		if (control.walk_to == WALK_PEEK) {
			peek(task, of, context->meta->seq);
			return 0;
		}
		account_left(task, of, run_now(of), 1, !of->on_cpu);
		account_unseen_wait(task, of);
		complete(task, of);
		seq_write(context->meta->seq, task, sizeof(*task));
		return 0;
	}
	task = task_storage(&tasks, of, 0, 0);
	if (!task)
		task = make_task(of, control.walk_to == WALK_FIRST);
	if (!task)
		return 0;
	/* Who took the CPU before it was known who is watched is of no interest. */
	if (control.only_watched && !(task->flags & WATCHED) && task->preemptor)
		task->preemptor = UNWATCHED_NAME;
	if (control.walk_to != WALK_WATCH) {
		see(task, of);
		task->run_read = task->run_seen;
	}
	else if (of->tgid == control.watch_pid)
		task->flags |= WATCHED;
	return 0;
}
