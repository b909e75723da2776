/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Deliberately wrong, for tests of `hunt`: `fifo`, but a task that finds no place wakes any idle CPU, also one that it may
 * not run on. An idle CPU that it may run on sleeps on, while it waits for a busy one.
 */
#include "scx.h"

#define SLICE (5 * MS)

/* Defined, since a kernel's function whose types are only declared is taken for another one. */
struct cpumask {
	u64 bits;
};

extern const struct cpumask *scx_bpf_get_online_cpumask(void) KFUNC;
extern void scx_bpf_put_cpumask(const struct cpumask *mask) KFUNC;
extern s32 scx_bpf_pick_idle_cpu(const struct cpumask *allowed, u64 flags) KFUNC;
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
	const struct cpumask *online = scx_bpf_get_online_cpumask();
	s32 cpu = scx_bpf_pick_idle_cpu(online, 0);

	scx_bpf_put_cpumask(online);
	insert((struct task_struct *)ctx[0], QUEUE, SLICE, ctx[1]);
	if (cpu >= 0)
		scx_bpf_kick_cpu(cpu, 0);
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
