/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * One queue for the whole machine, first in, first out. Weights mean nothing, nobody preempts, and a task
 * that has run for 5 ms goes to the end.
 */
#include "scx.h"

#define SLICE (5 * MS)

SEC("struct_ops.s/init")
s32 fifo_init(u64 *ctx)
{
	(void)ctx;
	return scx_bpf_create_dsq(QUEUE, ANY_NODE);
}

SEC("struct_ops/select_cpu")
s32 fifo_select_cpu(u64 *ctx)
{
	return select_idle((struct task_struct *)ctx[0], (s32)ctx[1], ctx[2], SLICE);
}

SEC("struct_ops/enqueue")
void fifo_enqueue(u64 *ctx)
{
	insert((struct task_struct *)ctx[0], QUEUE, SLICE, ctx[1]);
}

SEC("struct_ops/dispatch")
void fifo_dispatch(u64 *ctx)
{
	take_or_keep(QUEUE, (struct task_struct *)ctx[1], SLICE);
}

SEC("struct_ops/exit")
void fifo_exit(u64 *ctx)
{
	report_exit((struct scx_exit_info *)ctx[0]);
}

SEC(".struct_ops.link")
struct sched_ext_ops fifo = {
	.select_cpu = (void *)fifo_select_cpu,
	.enqueue = (void *)fifo_enqueue,
	.dispatch = (void *)fifo_dispatch,
	.init = (void *)fifo_init,
	.exit = (void *)fifo_exit,
	.name = "schedlab_fifo",
};
