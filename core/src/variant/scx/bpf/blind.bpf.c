/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Deliberately wrong, for tests of `hunt`: `fifo`, but a task that waits wakes the first idle CPU, whether it may run there or
 * not. An idle CPU that it may use sleeps on.
 */
#include "scx.h"

#define SLICE (5 * MS)
#define MAX_CPUS 64
#define KICK_IDLE 1

SEC("struct_ops.s/init")
s32 blind_init(u64 *ctx)
{
	(void)ctx;
	return scx_bpf_create_dsq(QUEUE, ANY_NODE);
}

SEC("struct_ops/select_cpu")
s32 blind_select_cpu(u64 *ctx)
{
	/* It stays, and `enqueue` looks for an idle CPU. */
	return (s32)ctx[1];
}

SEC("struct_ops/enqueue")
void blind_enqueue(u64 *ctx)
{
	u32 cpus = scx_bpf_nr_cpu_ids();

	insert((struct task_struct *)ctx[0], QUEUE, SLICE, ctx[1]);
	for (u32 cpu = 0; cpu < MAX_CPUS && cpu < cpus; cpu++) {
		if (scx_bpf_test_and_clear_cpu_idle(cpu)) {
			scx_bpf_kick_cpu(cpu, KICK_IDLE);
			break;
		}
	}
}

SEC("struct_ops/dispatch")
void blind_dispatch(u64 *ctx)
{
	(void)ctx;
	take_from(QUEUE);
}

SEC("struct_ops/exit")
void blind_exit(u64 *ctx)
{
	report_exit((struct scx_exit_info *)ctx[0]);
}

SEC(".struct_ops.link")
struct sched_ext_ops blind = {
	.select_cpu = (void *)blind_select_cpu,
	.enqueue = (void *)blind_enqueue,
	.dispatch = (void *)blind_dispatch,
	.init = (void *)blind_init,
	.exit = (void *)blind_exit,
	.name = "schedlab_blind",
};
