/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Deliberately wrong, for tests of `hunt`: a queue for each CPU, and a task that comes goes to that of the first idle
 * CPU, whether or not it may run there. Where it may not, it is lost.
 */
#include "scx.h"

#define SLICE (5 * MS)
#define MAX_CPUS 256
/* The queue of the first CPU. */
#define FIRST 16

extern u32 scx_bpf_nr_cpu_ids(void) KFUNC;
extern s32 scx_bpf_task_cpu(const struct task_struct *task) KFUNC;
extern bool scx_bpf_test_and_clear_cpu_idle(s32 cpu) KFUNC;
extern void scx_bpf_kick_cpu(s32 cpu, u64 flags) KFUNC;

SEC("struct_ops.s/init")
s32 stray_init(u64 *ctx)
{
	u32 cpus = scx_bpf_nr_cpu_ids();
	s32 failed = scx_bpf_create_dsq(QUEUE, ANY_NODE);

	(void)ctx;
	for (u32 cpu = 0; !failed && cpu < MAX_CPUS && cpu < cpus; cpu++)
		failed = scx_bpf_create_dsq(FIRST + cpu, ANY_NODE);
	return failed;
}

SEC("struct_ops/select_cpu")
s32 stray_select_cpu(u64 *ctx)
{
	return (s32)ctx[1];
}

SEC("struct_ops/enqueue")
void stray_enqueue(u64 *ctx)
{
	struct task_struct *task = (struct task_struct *)ctx[0];
	u32 cpus = scx_bpf_nr_cpu_ids(), to = scx_bpf_task_cpu(task);

	/* Threads of the kernel are served, or the machine would hang. */
	if (!task->mm) {
		insert(task, QUEUE, SLICE, ctx[1]);
		return;
	}
	for (u32 cpu = 0; cpu < MAX_CPUS && cpu < cpus; cpu++) {
		if (scx_bpf_test_and_clear_cpu_idle(cpu)) {
			to = cpu;
			break;
		}
	}
	insert(task, FIRST + to, SLICE, ctx[1]);
	scx_bpf_kick_cpu(to, 0);
}

SEC("struct_ops/dispatch")
void stray_dispatch(u64 *ctx)
{
	if (!take_from(QUEUE))
		take_or_keep(FIRST + (u32)ctx[0], (struct task_struct *)ctx[1], SLICE);
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
