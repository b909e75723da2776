/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Deliberately wrong, for tests of `hunt`: `fifo`, but a task that comes wakes the first idle CPU, also one that it may not
 * run on. An idle CPU that it may run on sleeps on, while it waits for a busy one.
 */
#include "scx.h"

#define SLICE (5 * MS)
#define MAX_CPUS 256

extern u32 scx_bpf_nr_cpu_ids(void) KFUNC;
extern bool scx_bpf_test_and_clear_cpu_idle(s32 cpu) KFUNC;
extern void scx_bpf_kick_cpu(s32 cpu, u64 flags) KFUNC;

SEC("struct_ops.s/init")
s32 stray_init(u64 *ctx)
{
	(void)ctx;
	return scx_bpf_create_dsq(QUEUE, ANY_NODE);
}

SEC("struct_ops/select_cpu")
s32 stray_select_cpu(u64 *ctx)
{
	return (s32)ctx[1];
}

SEC("struct_ops/enqueue")
void stray_enqueue(u64 *ctx)
{
	u32 cpus = scx_bpf_nr_cpu_ids();

	insert((struct task_struct *)ctx[0], QUEUE, SLICE, ctx[1]);
	for (u32 cpu = 0; cpu < MAX_CPUS && cpu < cpus; cpu++) {
		if (scx_bpf_test_and_clear_cpu_idle(cpu)) {
			scx_bpf_kick_cpu(cpu, 0);
			break;
		}
	}
}

SEC("struct_ops/dispatch")
void stray_dispatch(u64 *ctx)
{
	(void)ctx;
	take_from(QUEUE);
}

SEC("struct_ops/exit")
void stray_exit(u64 *ctx)
{
	report_exit((struct scx_exit_info *)ctx[0]);
}

SEC(".struct_ops.link")
struct sched_ext_ops stray = {
	.select_cpu = (void *)stray_select_cpu,
	.enqueue = (void *)stray_enqueue,
	.dispatch = (void *)stray_dispatch,
	.init = (void *)stray_init,
	.exit = (void *)stray_exit,
	.name = "schedlab_stray",
};
