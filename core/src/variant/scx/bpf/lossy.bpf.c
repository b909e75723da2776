/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Deliberately wrong, for tests of `hunt`: `fifo`, but a task that comes while four wait is lost until it is woken,
 * or moved to other CPUs: nothing puts it into a queue.
 */
#include "scx.h"

#define SLICE (5 * MS)
#define FULL 4

SEC("struct_ops.s/init")
s32 lossy_init(u64 *ctx)
{
	(void)ctx;
	return scx_bpf_create_dsq(QUEUE, ANY_NODE);
}

SEC("struct_ops/select_cpu")
s32 lossy_select_cpu(u64 *ctx)
{
	return select_idle((struct task_struct *)ctx[0], (s32)ctx[1], ctx[2], SLICE);
}

SEC("struct_ops/enqueue")
void lossy_enqueue(u64 *ctx)
{
	struct task_struct *task = (struct task_struct *)ctx[0];

	if (task->mm && scx_bpf_dsq_nr_queued(QUEUE) >= FULL)
		return;
	insert(task, QUEUE, SLICE, ctx[1]);
}

SEC("struct_ops/dispatch")
void lossy_dispatch(u64 *ctx)
{
	take_or_keep(QUEUE, (struct task_struct *)ctx[1], SLICE);
}

SEC("struct_ops/exit")
void lossy_exit(u64 *ctx)
{
	report_exit((struct scx_exit_info *)ctx[0]);
}

SEC(".struct_ops.link")
struct sched_ext_ops lossy = {
	.select_cpu = (void *)lossy_select_cpu,
	.enqueue = (void *)lossy_enqueue,
	.dispatch = (void *)lossy_dispatch,
	.init = (void *)lossy_init,
	.exit = (void *)lossy_exit,
	.name = "schedlab_lossy",
};
