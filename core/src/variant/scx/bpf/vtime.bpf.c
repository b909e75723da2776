/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * One queue for the whole machine, by virtual time: the CPU time that a task has had, divided by its weight
 * (100 at nice 0). Who has had the least is served first, for 3 ms; nobody preempts. Who has slept is owed
 * one slice at most, so that nobody saves up.
 */
#include "scx.h"

#define SLICE (3 * MS)
#define USUAL_WEIGHT 100

struct account {
	u64 vtime_ns;
	/* The task's CPU time when it was last switched to. */
	u64 began_ns;
};

struct {
	MAP_UINT(type, BPF_MAP_TYPE_TASK_STORAGE);
	MAP_UINT(map_flags, BPF_F_NO_PREALLOC);
	MAP_TYPE(key, int);
	MAP_TYPE(value, struct account);
} accounts SEC(".maps");

/* That of the task which was switched to last, or went on, and never backwards. Written without a lock: who is a
 * little late is a little off. */
static u64 now_ns;

INLINE bool is_before(u64 one, u64 other)
{
	return (s64)(one - other) < 0;
}

INLINE struct account *account_of(struct task_struct *task)
{
	return task_storage(&accounts, task, NULL, 0);
}

SEC("struct_ops.s/init")
s32 vtime_init(u64 *ctx)
{
	(void)ctx;
	return scx_bpf_create_dsq(QUEUE, ANY_NODE);
}

SEC("struct_ops/init_task")
s32 vtime_init_task(u64 *ctx)
{
	struct task_struct *task = (struct task_struct *)ctx[0];
	struct account fresh = { .vtime_ns = now_ns };

	return task_storage(&accounts, task, &fresh, BPF_LOCAL_STORAGE_GET_F_CREATE) ? 0 : -12 /* ENOMEM */;
}

SEC("struct_ops/select_cpu")
s32 vtime_select_cpu(u64 *ctx)
{
	return select_idle((struct task_struct *)ctx[0], (s32)ctx[1], ctx[2], SLICE);
}

SEC("struct_ops/enqueue")
void vtime_enqueue(u64 *ctx)
{
	struct task_struct *task = (struct task_struct *)ctx[0];
	struct account *account = account_of(task);
	u64 min_ns = now_ns - SLICE;

	if (account && is_before(account->vtime_ns, min_ns))
		account->vtime_ns = min_ns;
	insert_by_key(task, QUEUE, SLICE, account ? account->vtime_ns : now_ns, ctx[1]);
}

/* The virtual time by now of a task that was switched to and has not stopped. */
INLINE u64 vtime_by_now(const struct task_struct *task, const struct account *account)
{
	u64 ran_ns = task->se.sum_exec_runtime - account->began_ns;
	u32 weight = task->scx.weight;

	return account->vtime_ns + ran_ns * USUAL_WEIGHT / (weight ? weight : 1);
}

INLINE void advance(u64 vtime_ns)
{
	if (is_before(now_ns, vtime_ns))
		now_ns = vtime_ns;
}

/* Whether a task waits for this CPU that has had no more virtual time. */
INLINE bool is_turn_of_another(u32 cpu, u64 vtime_ns)
{
	struct bpf_iter_scx_dsq queue;
	struct task_struct *task;
	bool is = 0;

	bpf_iter_scx_dsq_new(&queue, QUEUE, 0);
	while (!is && (task = bpf_iter_scx_dsq_next(&queue))) {
		if (is_before(vtime_ns, task->scx.dsq_vtime))
			break;
		is = bpf_cpumask_test_cpu(cpu, task->cpus_ptr);
	}
	bpf_iter_scx_dsq_destroy(&queue);
	return is;
}

SEC("struct_ops/dispatch")
void vtime_dispatch(u64 *ctx)
{
	struct task_struct *prev = (struct task_struct *)ctx[1];
	struct account *account;
	u64 vtime_ns;

	if (prev && is_runnable(prev) && (account = account_of(prev))) {
		vtime_ns = vtime_by_now(prev, account);
		if (!is_turn_of_another((u32)ctx[0], vtime_ns)) {
			advance(vtime_ns);
			keep(prev, SLICE);
			return;
		}
	}
	take_from(QUEUE);
}

SEC("struct_ops/running")
void vtime_running(u64 *ctx)
{
	struct task_struct *task = (struct task_struct *)ctx[0];
	struct account *account = account_of(task);

	if (!account)
		return;
	account->began_ns = task->se.sum_exec_runtime;
	advance(account->vtime_ns);
}

SEC("struct_ops/stopping")
void vtime_stopping(u64 *ctx)
{
	struct task_struct *task = (struct task_struct *)ctx[0];
	struct account *account = account_of(task);

	if (account)
		account->vtime_ns = vtime_by_now(task, account);
}

SEC("struct_ops/exit")
void vtime_exit(u64 *ctx)
{
	report_exit((struct scx_exit_info *)ctx[0]);
}

SEC(".struct_ops.link")
struct sched_ext_ops vtime = {
	.select_cpu = (void *)vtime_select_cpu,
	.enqueue = (void *)vtime_enqueue,
	.dispatch = (void *)vtime_dispatch,
	.running = (void *)vtime_running,
	.stopping = (void *)vtime_stopping,
	.init_task = (void *)vtime_init_task,
	.init = (void *)vtime_init,
	.exit = (void *)vtime_exit,
	.name = "schedlab_vtime",
};
