/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Deliberately wrong, for tests of `hunt`: `fifo`, but a task below the usual weight is served when no other could run,
 * and starves where others always could.
 */
#include "scx.h"

#define SLICE (5 * MS)
#define USUAL_WEIGHT 100
/* The queue of those below it. */
#define LIGHT 2

SEC("struct_ops.s/init")
s32 haughty_init(u64 *ctx)
{
	s32 failed = scx_bpf_create_dsq(QUEUE, ANY_NODE);

	(void)ctx;
	return failed ? failed : scx_bpf_create_dsq(LIGHT, ANY_NODE);
}

SEC("struct_ops/select_cpu")
s32 haughty_select_cpu(u64 *ctx)
{
	return select_idle((struct task_struct *)ctx[0], (s32)ctx[1], ctx[2], SLICE);
}

SEC("struct_ops/enqueue")
void haughty_enqueue(u64 *ctx)
{
	struct task_struct *task = (struct task_struct *)ctx[0];

	insert(task, task->scx.weight < USUAL_WEIGHT ? LIGHT : QUEUE, SLICE, ctx[1]);
}

SEC("struct_ops/dispatch")
void haughty_dispatch(u64 *ctx)
{
	struct task_struct *prev = (struct task_struct *)ctx[1];

	if (take_from(QUEUE))
		return;
	if (prev && is_runnable(prev) && prev->scx.weight >= USUAL_WEIGHT)
		keep(prev, SLICE);
	else
		take_or_keep(LIGHT, prev, SLICE);
}

SEC("struct_ops/exit")
void haughty_exit(u64 *ctx)
{
	report_exit((struct scx_exit_info *)ctx[0]);
}

SEC(".struct_ops.link")
struct sched_ext_ops haughty = {
	.select_cpu = (void *)haughty_select_cpu,
	.enqueue = (void *)haughty_enqueue,
	.dispatch = (void *)haughty_dispatch,
	.init = (void *)haughty_init,
	.exit = (void *)haughty_exit,
	.name = "schedlab_haughty",
};
