/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Deliberately wrong, for tests of `hunt`: `fifo` for tasks of the usual weight and more. Those of less have a CPU only
 * where no other waits.
 */
#include "scx.h"

#define SLICE (5 * MS)
#define USUAL_WEIGHT 100
/* Less than after which the kernel ejects a scheduler. */
#define LATER (20000 * MS)

SEC("struct_ops.s/init")
s32 greedy_init(u64 *ctx)
{
	(void)ctx;
	return scx_bpf_create_dsq(QUEUE, ANY_NODE);
}

SEC("struct_ops/select_cpu")
s32 greedy_select_cpu(u64 *ctx)
{
	return select_idle((struct task_struct *)ctx[0], (s32)ctx[1], ctx[2], SLICE);
}

SEC("struct_ops/enqueue")
void greedy_enqueue(u64 *ctx)
{
	struct task_struct *task = (struct task_struct *)ctx[0];
	u64 later_ns = task->scx.weight < USUAL_WEIGHT ? LATER : 0;

	insert_by_key(task, QUEUE, SLICE, monotonic_ns() + later_ns, ctx[1]);
}

SEC("struct_ops/dispatch")
void greedy_dispatch(u64 *ctx)
{
	(void)ctx;
	take_from(QUEUE);
}

SEC("struct_ops/exit")
void greedy_exit(u64 *ctx)
{
	report_exit((struct scx_exit_info *)ctx[0]);
}

SEC(".struct_ops.link")
struct sched_ext_ops greedy = {
	.select_cpu = (void *)greedy_select_cpu,
	.enqueue = (void *)greedy_enqueue,
	.dispatch = (void *)greedy_dispatch,
	.init = (void *)greedy_init,
	.exit = (void *)greedy_exit,
	.name = "schedlab_greedy",
};
