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
 *   where the CPU was taken from it, to count by whom.
 * - A CPU notes who had it until when. The wait of a task that comes is charged to those who ran
 *   meanwhile: most waits span a turn or two, and long ones are rare.
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

/* One for each CPU. */
struct {
	MAP_UINT(type, BPF_MAP_TYPE_ARRAY);
	MAP_UINT(max_entries, 1);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct past);
} pasts SEC(".maps");

/* The iterator's: it may be interrupted by a switch. */
struct tally walk_tally SEC(".data.tally");

/* The flight recorder: `trace_slots` entries for each CPU. */
struct {
	MAP_UINT(type, BPF_MAP_TYPE_ARRAY);
	MAP_UINT(max_entries, 1);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct trace);
} traces SEC(".maps");

struct {
	MAP_UINT(type, BPF_MAP_TYPE_ARRAY);
	MAP_UINT(max_entries, SOCKETS);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct message);
} messages SEC(".maps");

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

/* The verifier of 6.1 forgets the bounds of a number that is kept on the stack, not those of a pointer. */
INLINE struct cpu *cpu_at(u32 number)
{
	struct cpu *cpu;

	asm volatile("" : "+r"(number));
	if (number >= MAX_CPUS)
		number = MAX_CPUS - 1;
	cpu = &counters.cpus[number];
	asm volatile("" : "+r"(cpu));
	return cpu;
}

/* By the first six bits of a de Bruijn sequence, whose every six bits differ: how far it was moved. */
static const u8 LOG2[64] = {
	0,  58, 1,  59, 47, 53, 2,	60, 39, 48, 27, 54, 33, 42, 3,	61, 51, 37, 40, 49, 18, 28,
	20, 55, 30, 34, 11, 43, 14, 22, 4,  62, 57, 46, 52, 38, 26, 32, 41, 50, 36, 17, 19, 29,
	10, 13, 21, 56, 45, 25, 31, 35, 16, 9,  12, 44, 24, 15, 8,  23, 7,  6,  5,  63,
};

/*
 * The number of the highest set bit. There is no instruction for it, and branches would cost time where values
 * vary, and the verifier would follow each of them.
 */
INLINE u32 log2(u64 value)
{
	value |= value >> 1;
	value |= value >> 2;
	value |= value >> 4;
	value |= value >> 8;
	value |= value >> 16;
	value |= value >> 32;
	return LOG2[(value * 0x03f6eaf2cd271461ULL) >> 58];
}

/* The bucket of a time. */
INLINE u32 bucket(u64 ns, u32 bits)
{
	u32 top = log2(ns);

	if (ns < (1ULL << FIRST_BIT))
		return 0;
	if (ns >= (1ULL << LAST_BIT))
		return 1 + ((LAST_BIT - FIRST_BIT) << bits);
	return 1 + ((top - FIRST_BIT) << bits) + ((ns >> (top - bits)) & ((1 << bits) - 1));
}

/*
 * Global functions: the verifier goes through each of them once, not at each call. A call takes some 10 ns: no
 * usual switch makes one.
 */
GLOBAL int spill(u32 kind, u32 name, u32 by, u32 count, u64 ns)
{
	struct pair key = { .name = name, .by = by, .kind = kind };
	struct pair_sum first = { .count = count, .ns = ns };
	struct pair_sum *sum;

	if (by == UNWATCHED_NAME)
		key.name = UNWATCHED_NAME;
	sum = map_lookup(&pairs, &key);

	if (!sum) {
		if (!map_update(&pairs, &key, &first, BPF_NOEXIST))
			return 0;
		sum = map_lookup(&pairs, &key);
	}
	if (!sum) {
		__sync_fetch_and_add(&counters.pairs_lost, count);
		return 0;
	}
	__sync_fetch_and_add(&sum->count, first.count);
	__sync_fetch_and_add(&sum->ns, first.ns);
	return 0;
}

/*
 * A partner of a task, in its own table: the name that was there, or a count that is full, makes
 * room.
 */
INLINE struct partner *make_partner(struct task *task, u32 by)
{
	struct partner *partner = &task->delayed_by[by % PARTNERS];

	if (partner->name != by || partner->count == FULL_COUNT) {
		if (partner->count || partner->ns)
			spill(PAIR_DELAYED, task->name, partner->name, partner->count, partner->ns);
		partner->name = by;
		partner->count = 0;
		partner->ns = 0;
	}
	return partner;
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
GLOBAL int add_stay(u32 number, u32 cpu, u64 value)
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

/* Since when a task has been in the run queue that it waits in; 0 where it does not wait. */
INLINE u64 queued_since(struct task_struct *of)
{
	/* Of one that sleeps it may be left over. */
	return of->__state || of->on_cpu ? 0 : of->sched_info.last_queued;
}

/* What a task has done by now is not to be counted again: of a wait under way what there is of it so far. */
INLINE void see(struct task *task, struct task_struct *of)
{
	u64 queued = queued_since(of), now;

	task->run_seen = run_now(of);
	task->delay_seen = of->sched_info.run_delay;
	if (queued && counters.clock_ahead) {
		now = monotonic_ns() + counters.clock_ahead;
		asm volatile("" ::: "memory");
		/* Of a wait that ended in between the kernel may have added a part. */
		if (of->sched_info.last_queued == queued && now > queued)
			task->delay_seen += now - queued;
	}
	task->delay_charged = task->delay_seen;
	task->voluntary_seen = of->nvcsw;
	task->involuntary_seen = of->nivcsw;
}

/*
 * The kernel may refuse room for a moment: memory is refilled, a CPU is in the middle of the same, or another CPU makes
 * room for the same task. It does not say why.
 */
#define ATTEMPTS 4

INLINE struct task *make_task(struct task_struct *of, bool is_named)
{
	struct task *task;
	struct name name;

	task = 0;
	for (u32 at = 0; at < ATTEMPTS && !task && counters.tasks_now < settings.max_tasks; at++)
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

/* Accounts the wait of a task that comes: the kernel will add its last piece in a moment. */
INLINE u64 account_wait(struct task *task, struct task_struct *of, u64 now)
{
	u64 queued = of->sched_info.last_queued;
	u64 delay = of->sched_info.run_delay;
	u64 wait;
	u32 at;

	if (queued && now > queued)
		delay += now - queued;
	wait = delay > task->delay_seen ? delay - task->delay_seen : 0;
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

/* A piece of a wait: in one CPU's run queue. */
struct piece {
	u64 from_ns;
	u64 to_ns;
	/* As in `turn`: who has had the CPU since its last switch. */
	u32 holder;
	/* The task may count on meanwhile, on another CPU: nothing of it is changed. */
	u16 is_aside;
	u16 is_worst;
};

INLINE u32 holder(const struct cpu *cpu)
{
	return (cpu->name ? cpu->name : OTHER_NAME) << 1 | !!cpu->watched;
}

/* The name of who had a CPU that a task waited for, where one of them is of interest. */
INLINE u32 shown_holder(const struct task *task, u32 holder)
{
	if (control.only_watched && !(task->flags & WATCHED) && !(holder & 1))
		return UNWATCHED_NAME;
	return holder >> 1;
}

GLOBAL int charge_holder(struct task *task, u32 holder, u64 ns, u32 is_aside)
{
	if (!task)
		return 0;
	if (is_aside)
		spill(PAIR_DELAYED, task->name, shown_holder(task, holder), 0, ns);
	else
		make_partner(task, shown_holder(task, holder))->ns += ns;
	return 0;
}

INLINE void add_to_tally(struct tally *tally, u32 at, u64 ns)
{
	u32 count = tally->count;

	at &= HOLDERS - 1;
	if (!tally->ns[at] && count < HOLDERS) {
		tally->places[count] = at;
		tally->count = count + 1;
	}
	tally->ns[at] += ns;
}

INLINE void tally_turn(struct task *task, const struct past *past, struct tally *tally, const struct piece *piece,
		       const struct turn *turn, u64 since)
{
	u64 from = since > piece->from_ns ? since : piece->from_ns;
	u64 to = turn->until_ns < piece->to_ns ? turn->until_ns : piece->to_ns;
	u32 place = turn->place & (HOLDERS - 1);

	if (to <= from)
		return;
	tally->known_ns += to - from;
	if (past->holders[place] == turn->holder)
		add_to_tally(tally, place, to - from);
	else
		charge_holder(task, turn->holder, to - from, piece->is_aside);
}

/* A turn of a piece, so many before the last one. Whether the piece began before it. */
GLOBAL int tally_recent(struct task *task, const struct past *past, struct tally *tally, const struct piece *piece,
			u32 back)
{
	u64 since;
	u32 at;

	if (!task || !past || !tally || !piece)
		return 0;
	at = past->turns - back;
	since = past->recent[(at - 1) & (RECENT - 1)].until_ns;
	tally_turn(task, past, tally, piece, &past->recent[at & (RECENT - 1)], since);
	return since > piece->from_ns;
}

/*
 * The first mark from a moment on, and when it was set; ~0: there is none. What the verifier knows of
 * registers makes each pass of a loop another one, so all of it is in memory.
 */
INLINE u64 find_mark(struct past *past, volatile struct tally *tally, const volatile struct piece *piece)
{
	tally->marked_ns = ~0ULL;
	ROLLED for (u32 at = 0; at < MARK_LEVELS * MARKS; at++) {
		u64 at_ns = past->marks[at].turn.until_ns;

		if (at_ns >= piece->from_ns && at_ns < tally->marked_ns) {
			tally->marked_ns = at_ns;
			tally->mark = at;
		}
	}
	return tally->marked_ns;
}

/* The difference of sums, from the first mark within a piece on, and the turn before that mark. */
INLINE void tally_sums(struct task *task, struct past *past, struct tally *tally, const struct piece *piece)
{
	u64 marked = find_mark(past, tally, piece);
	const struct mark *mark;

	if (marked > piece->to_ns || tally->mark >= MARK_LEVELS * MARKS)
		return;
	mark = &past->marks[tally->mark];
	tally_turn(task, past, tally, piece, &mark->turn, mark->since_ns);
	ROLLED for (u32 at = 0; at < HOLDERS; at++) {
		u64 before = mark->ran_ns[at] > past->ran_before_ns[at] ? mark->ran_ns[at] :
									  past->ran_before_ns[at];

		if (past->ran_ns[at] > before) {
			tally->known_ns += past->ran_ns[at] - before;
			add_to_tally(tally, at, past->ran_ns[at] - before);
		}
	}
}

/* Charges a task's wait to those who had the CPU meanwhile. Who is not known is OTHER_NAME. */
GLOBAL int charge(struct task *task, struct past *past, struct tally *tally, const struct piece *piece)
{
	u64 known = 0, until, from;
	u32 count;

	if (!task || !piece)
		return 0;
	if (past && tally) {
		tally->known_ns = 0;
		until = past->recent[past->turns & (RECENT - 1)].until_ns;
		from = until > piece->from_ns ? until : piece->from_ns;
		if (piece->to_ns > from) {
			tally->known_ns = piece->to_ns - from;
			charge_holder(task, piece->holder, piece->to_ns - from, piece->is_aside);
		}
		/* The beginning of the oldest turn is not known. */
		if (past->recent[(past->turns + 1) & (RECENT - 1)].until_ns > piece->from_ns)
			tally_sums(task, past, tally, piece);
		else
			ROLLED for (u32 back = 0; back < RECENT - 1; back++)
				if (!tally_recent(task, past, tally, piece, back))
					break;
		known = tally->known_ns;
		count = tally->count;
		tally->count = 0;
		if (piece->is_worst)
			past->worst_count = count;
		ROLLED for (u32 at = 0; at < HOLDERS; at++) {
			u32 place = tally->places[at] & (HOLDERS - 1);
			u64 ns = tally->ns[place];

			if (at >= count)
				break;
			tally->ns[place] = 0;
			charge_holder(task, past->holders[place], ns, piece->is_aside);
			if (piece->is_worst && at < WORST_HOLDERS) {
				past->worst[at].name = past->holders[place] >> 1;
				past->worst[at].ns = ns;
			}
		}
	}
	if (piece->to_ns > piece->from_ns + known)
		charge_holder(task, OTHER_NAME << 1, piece->to_ns - piece->from_ns - known, piece->is_aside);
	return 0;
}

INLINE u32 first_place(u32 holder)
{
	return (holder * 0x9e3779b1U) >> 27;
}

/* The place of a name among the sums of a CPU, which it gets where it has none. */
GLOBAL int find_place(struct past *past, u32 holder)
{
	u32 first = first_place(holder), least = first;
	u64 least_ns = ~0ULL;

	if (!past)
		return 0;
	for (u32 more = 0; more < 4; more++) {
		u32 at = (first + more) & (HOLDERS - 1);
		u64 ns = past->ran_ns[at] - past->ran_before_ns[at];

		if (past->holders[at] == holder)
			return at;
		if (ns < least_ns) {
			least_ns = ns;
			least = at;
		}
	}
	past->holders[least] = holder;
	past->ran_before_ns[least] = past->ran_ns[least];
	return least;
}

/* Marks the end of the last turn, at a level by the coarsest step of the clock since the mark before. */
INLINE void set_mark(struct past *past, const struct turn *turn)
{
	u32 level = log2((turn->until_ns ^ past->marked_ns) >> MARK_BITS), at;
	struct mark *mark;

	if (level >= MARK_LEVELS)
		level = MARK_LEVELS - 1;
	at = level * MARKS + (past->marked[level]++ & (MARKS - 1));
	/* The compiler knows that it is one of them, the verifier does not. */
	asm volatile("" : "+r"(at));
	if (at >= MARK_LEVELS * MARKS)
		return;
	mark = &past->marks[at];
	mark->turn = *turn;
	mark->since_ns = past->recent[(past->turns - 1) & (RECENT - 1)].until_ns;
	__builtin_memcpy(mark->ran_ns, past->ran_ns, sizeof(mark->ran_ns));
	past->marked_ns = turn->until_ns;
}

/* Notes that a CPU was this one's until now. */
INLINE void end_turn(struct past *past, u32 by, u64 now)
{
	struct turn *turn = &past->recent[past->turns & (RECENT - 1)];
	u64 ended = turn->until_ns;
	u32 place;

	if (turn->holder != by) {
		place = first_place(by);
		if (past->holders[place] != by)
			place = find_place(past, by);
		past->turns++;
		turn = &past->recent[past->turns & (RECENT - 1)];
		turn->holder = by;
		turn->place = place;
	}
	turn->until_ns = now;
	/* The beginning of the first one was not seen. */
	if (ended)
		past->ran_ns[turn->place & (HOLDERS - 1)] += now - ended;
	if ((now ^ past->marked_ns) >> MARK_BITS)
		set_mark(past, turn);
}

/*
 * A wait that the kernel counted and whose end no program saw: rare, on busy machines; why is not known. Who ran
 * meanwhile is not known either. The task may count on, on another CPU.
 */
INLINE void account_unseen_wait(struct task *task, struct task_struct *of)
{
	u64 delay = of->sched_info.run_delay;

	if (delay > task->delay_seen)
		task->wait_ns += delay - task->delay_seen;
	task->delay_seen = delay;
	if (settings.full && delay > task->delay_charged) {
		charge_holder(task, OTHER_NAME << 1, delay - task->delay_charged, 1);
		task->delay_charged = delay;
	}
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
 * A line of the flight recorder. Interrupts are off where this is called, but for `on_fork` and `on_received`:
 * what interrupts these goes on from the line that was taken in one step.
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

/* Charges the last piece of a wait, which ends now. */
INLINE void charge_wait(struct task *task, struct task_struct *of, struct past *past, u64 now, bool is_worst)
{
	u64 queued = of->sched_info.last_queued, delay = task->delay_seen - task->delay_charged;
	struct piece piece = { .from_ns = now, .to_ns = now, .is_worst = is_worst };

	task->delay_charged = task->delay_seen;
	if (!control.counting || (s64)delay <= 0)
		return;
	if (queued && now > queued)
		piece.from_ns = delay < now - queued ? now - delay : queued;
	/* Most waits lie within one turn. */
	if (past && !is_worst && delay == now - piece.from_ns) {
		const struct turn *turn = &past->recent[past->turns & (RECENT - 1)];

		if (past->recent[(past->turns - 1) & (RECENT - 1)].until_ns <= piece.from_ns) {
			make_partner(task, shown_holder(task, turn->holder))->ns += delay;
			return;
		}
	}
	/* An earlier piece whose end was not seen. */
	if (delay > now - piece.from_ns)
		charge_holder(task, OTHER_NAME << 1, delay - (now - piece.from_ns), 0);
	charge(task, past, past ? &past->tally : 0, &piece);
}

INLINE void arrive(struct cpu *cpu, u32 number, struct task_struct *prev, struct task_struct *next,
		   struct past *past, u64 now)
{
	u32 prev_name = cpu->name;
	struct task *task;
	bool is_worst;
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
	is_worst = wait > cpu->worst_ns && (!control.only_watched || cpu->watched);
	if (is_worst)
		note_worst(cpu, task, prev, prev_name, wait);
	if (settings.full)
		charge_wait(task, next, past, now, is_worst);
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
	struct past *past = settings.full ? map_lookup(&pasts, &number) : 0;
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
	if (past) {
		/* Some machines hide switches. */
		end_turn(past, prev_pid == past->pid ? holder(cpu) : OTHER_NAME << 1, now);
		past->pid = next_pid;
	}
	if (next_pid && settings.events_only) {
		cpu->name = OTHER_NAME;
	} else if (next_pid) {
		arrive(cpu, number, prev, next, past, now);
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
		} else if (settings.full && control.counting && (preempt || !prev_state)) {
			task = task_storage(&tasks, prev, 0, 0);
			if (task)
				make_partner(task, is_of_interest(task, cpu) ? cpu->name
									     : UNWATCHED_NAME)->count++;
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

/* Argument: its kind. */
SEC("tp_btf/softirq_entry")
int softirq_enters(u64 *arguments)
{
	u32 number;

	here(&number)->softirq = arguments[0];
	return enter_interrupt();
}

SEC("tp_btf/softirq_exit")
int softirq_leaves(void *context)
{
	u32 number;

	(void)context;
	here(&number)->softirq = NO_SOFTIRQ;
	return leave_interrupt();
}

INTERRUPT(irq_handler)
INTERRUPT(local_timer)

/*
 * Whether the current task wakes by writing or sending: mostly through a pipe or a socket, whose wakers the kernel takes to
 * be about to sleep (WF_SYNC, which no tracepoint has). What it sends to its own machine arrives in a soft interrupt within
 * its system call. Only traces pay for this: the counts of who woke whom have such a wakeup as one by an interrupt.
 */
INLINE int is_sending(const struct cpu *cpu, struct task_struct *own)
{
	struct pt_regs *registers;
	u32 number;

	if (cpu->interrupts > 1 || (cpu->interrupts && cpu->softirq != NET_RX_SOFTIRQ))
		return 0;
	if (!has_helper(BPF_FUNC_task_pt_regs))
		return 0;
	registers = task_registers(own);
	number = has_field(registers->orig_ax) ? registers->orig_ax : registers->syscallno;
	for (int at = 0; at < SENDERS; at++) {
		if (settings.senders[at] == number)
			return 1;
	}
	return 0;
}

/* Argument: the task that is woken. The current task is who wakes it, wherever it will run. */
SEC("tp_btf/sched_waking")
int on_waking(u64 *arguments)
{
	struct task_struct *of = (void *)arguments[0];
	struct task *task = 0;
	u32 number, by;
	struct cpu *cpu;

	if (!control.counting)
		return 0;
	if (!settings.events_only) {
		task = task_storage(&tasks, of, 0, 0);
		if (!task)
			return 0;
	}
	cpu = here(&number);
	by = cpu->interrupts ? INTERRUPT_NAME : cpu->name;
	if (settings.full && task) {
		task->wakeups++;
		if (control.only_watched && !(task->flags & WATCHED) &&
		    (cpu->interrupts || !cpu->watched))
			count_waker(task, UNWATCHED_NAME);
		else
			count_waker(task, by ? by : OTHER_NAME);
	}
	if (settings.trace_slots) {
		struct task_struct *own = current_task();
		int sends = is_sending(cpu, own);
		u32 last_cpu = task ? task->cpu : has_field(of->thread_info.cpu) ? of->thread_info.cpu : 0;
		u32 message = cpu->message - 1;
		struct message *sent = sends && cpu->message ? map_lookup(&messages, &message) : 0;
		struct trace entry = {
			.at_ns = boot_ns(),
			.pid = cpu->interrupts && !sends ? 0 : own->pid,
			.other = of->pid,
			.info = last_cpu | (sends ? 1U << 31 : 0),
			.kind = TRACE_WAKING,
			.prio = of->prio,
			.name = sends ? cpu->name : by,
			.other_name = task ? task->name : OTHER_NAME,
		};
		if (sent && sent->pid == entry.pid)
			sent->has_woken = 1;
		cpu->message = 0;
		record(number, cpu->trace_head++, &entry);
	}
	return 0;
}

/* The place of a socket among the messages. */
INLINE u32 place_of(u64 socket)
{
	return (socket >> 6) * 0x9e3779b97f4a7c15ULL >> (64 - SOCKET_BITS);
}

/* Argument: the socket that has something to read from now on. It wakes its reader after this, where one sleeps. */
SEC("tp_btf/sk_data_ready")
int on_sent(u64 *arguments)
{
	struct task_struct *own = current_task();
	u32 number, place;
	struct cpu *cpu = here(&number);
	struct message *message;
	u64 socket;

	if (!control.counting || !is_sending(cpu, own))
		return 0;
	cpu->address = arguments[0];
	socket = cpu->address;
	place = place_of(socket);
	message = map_lookup(&messages, &place);
	if (!message)
		return 0;
	if (message->socket != socket || !message->pid)
		message->has_woken = 0;
	message->socket = socket;
	message->at_ns = boot_ns();
	message->pid = own->pid;
	cpu->message = place + 1;
	return 0;
}

/* Arguments: the socket, the bytes that were received or an error, and flags. */
SEC("tp_btf/sock_recv_length")
int on_received(u64 *arguments)
{
	struct task_struct *own = current_task();
	u32 number, place;
	struct cpu *cpu = here(&number);
	struct message *message;
	u64 socket, now;
	s32 by;

	if (!control.counting || (s32)arguments[1] <= 0 || (arguments[2] & MSG_PEEK))
		return 0;
	cpu->address = arguments[0];
	socket = cpu->address;
	place = place_of(socket);
	message = map_lookup(&messages, &place);
	if (!message || message->socket != socket || !message->pid)
		return 0;
	by = message->pid;
	message->pid = 0;
	if (message->has_woken || by == own->pid)
		return 0;
	now = boot_ns();
	if (now - message->at_ns > 0xffffffffU)
		return 0;
	struct trace entry = {
		.at_ns = now,
		.pid = own->pid,
		.other = by,
		.info = now - message->at_ns,
		.kind = TRACE_RECEIVED,
		.prio = own->prio,
		.name = cpu->name,
	};
	record(number, __sync_fetch_and_add(&cpu->trace_head, 1), &entry);
	return 0;
}

/* Charges the piece of a wait that ends as the task leaves a CPU's run queue, which is locked. */
INLINE void charge_left_queue(struct task *task, struct task_struct *of, u32 from)
{
	u64 now = of->se.cfs_rq->rq->clock, delay = of->sched_info.run_delay;
	struct piece piece = { .from_ns = now - (delay - task->delay_charged), .to_ns = now };
	u32 here;
	struct past *past = map_lookup(&pasts, &from), *own;

	here = this_cpu();
	own = map_lookup(&pasts, &here);
	if (control.counting && delay > task->delay_charged && own && from < MAX_CPUS) {
		piece.holder = holder(cpu_at(from));
		charge(task, past, &own->tally, &piece);
	}
	task->delay_charged = delay;
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
	if (settings.full && of->on_rq == ON_RQ_MIGRATING)
		charge_left_queue(task, of, from);
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
 * Charges what there is so far of a wait under way. How long it has lasted, in all run queues that the task has been
 * in; 0 where it does not wait. It may end at this moment: then a piece is charged twice, or as OTHER_NAME.
 */
INLINE u64 charge_waiting(struct task *task, struct task_struct *of)
{
	u64 queued = queued_since(of);
	u32 number = has_field(of->thread_info.cpu) ? of->thread_info.cpu : task->cpu;
	const struct cpu *cpu = cpu_at(number);
	struct piece piece = {};
	u64 total, seen;

	/* No clock is read for a task that sleeps. */
	if (!queued || !counters.clock_ahead)
		return 0;
	piece.is_aside = 1;
	piece.to_ns = monotonic_ns() + counters.clock_ahead;
	total = of->sched_info.run_delay + piece.to_ns - queued;
	seen = task->delay_seen;
	asm volatile("" ::: "memory");
	if (of->sched_info.last_queued != queued || piece.to_ns <= queued || total <= seen)
		return 0;
	if (settings.full && control.counting && total > task->delay_charged && number < MAX_CPUS) {
		piece.from_ns = piece.to_ns - (total - task->delay_charged);
		if (piece.from_ns < queued) {
			charge_holder(task, OTHER_NAME << 1, queued - piece.from_ns, 1);
			piece.from_ns = queued;
		}
		piece.holder = holder(cpu);
		task->delay_charged = total;
		charge(task, map_lookup(&pasts, &number), &walk_tally, &piece);
	}
	return total - seen;
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
		.waiting_ns = charge_waiting(task, of),
	};

	/* Most tasks sleep. */
	if (!live.waiting_ns && !of->on_cpu && of->se.sum_exec_runtime == task->run_read)
		return;
	live.run = run_now(of);
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
	struct live live = {};
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
		live.waiting_ns = charge_waiting(task, of);
		account_left(task, of, run_now(of), 1, !of->on_cpu);
		/* Of one that waits the pieces before the last are part of its wait. */
		if (!live.waiting_ns)
			account_unseen_wait(task, of);
		complete(task, of);
		seq_write(context->meta->seq, task, sizeof(*task));
		seq_write(context->meta->seq, &live, sizeof(live));
		return 0;
	}
	task = task_storage(&tasks, of, 0, 0);
	if (!task)
		task = make_task(of, control.walk_to != WALK_WATCH);
	if (!task)
		return 0;
	if (control.walk_to != WALK_WATCH) {
		see(task, of);
		task->run_read = task->run_seen;
	}
	else if (of->tgid == control.watch_pid)
		task->flags |= WATCHED;
	return 0;
}
