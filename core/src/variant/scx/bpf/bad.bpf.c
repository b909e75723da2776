/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Deliberately bad, for tests of verdicts. What is bad:
 *
 * - Last in, first out: among those who wait, who came last is served first, and the others wait on.
 * - Slices of 100 ms, and nobody preempts: who wakes on a busy CPU waits for as long.
 * - Weights mean nothing.
 *
 * What is not: an idle CPU takes a task at once. And no task starves permanently, or the kernel would eject
 * the scheduler after 30 s: who came in one second is served before all who came in the next. With 100
 * runnable tasks for each CPU a task waits for some 11 s.
 */
#include "scx.h"

#define SLICE (100 * MS)
#define WINDOW (1000 * MS)

SEC("struct_ops.s/init")
s32 bad_init(u64 *ctx)
{
	(void)ctx;
	return scx_bpf_create_dsq(QUEUE, ANY_NODE);
}

SEC("struct_ops/select_cpu")
s32 bad_select_cpu(u64 *ctx)
{
	return select_idle((struct task_struct *)ctx[0], (s32)ctx[1], ctx[2], SLICE);
}

SEC("struct_ops/enqueue")
void bad_enqueue(u64 *ctx)
{
	u64 now_ns = monotonic_ns(), into_window_ns = now_ns % WINDOW;

	/* Backwards within a window, windows forwards. */
	insert_by_key((struct task_struct *)ctx[0], QUEUE, SLICE, now_ns - 2 * into_window_ns + WINDOW, ctx[1]);
}

SEC("struct_ops/dispatch")
void bad_dispatch(u64 *ctx)
{
	take_or_keep(QUEUE, (struct task_struct *)ctx[1], SLICE);
}

SEC("struct_ops/exit")
void bad_exit(u64 *ctx)
{
	report_exit((struct scx_exit_info *)ctx[0]);
}

SEC(".struct_ops.link")
struct sched_ext_ops bad = {
	.select_cpu = (void *)bad_select_cpu,
	.enqueue = (void *)bad_enqueue,
	.dispatch = (void *)bad_dispatch,
	.init = (void *)bad_init,
	.exit = (void *)bad_exit,
	.name = "schedlab_bad",
};
