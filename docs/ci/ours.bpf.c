/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A whole sched_ext scheduler for Linux 6.13 and later, to begin with: a waking task gets an idle CPU at once; else it
 * waits in one queue for all CPUs, first in, first out, for slices of SLICE_MS.
 *
 *     clang-19 -target bpf -mcpu=v3 -g -O2 -c ours.bpf.c -o ours.bpf.o
 *     schedlab run scheduler.toml --backend lab        (with scx = "./ours.bpf.o")
 *
 * It declares the little that it uses of the kernel. Larger ones include vmlinux.h (bpftool btf dump file
 * /sys/kernel/btf/vmlinux format c) and the headers of the sched-ext project.
 */
#ifndef SLICE_MS
#define SLICE_MS 5
#endif
#define SLICE_NS (SLICE_MS * 1000000ULL)
#define QUEUE 1
#define LOCAL ((1ULL << 63) | 2) /* what the CPU of the task runs next */
#define SEC(name) __attribute__((section(name), used))
#define KERNEL __attribute__((section(".ksyms")))

typedef unsigned long long u64;
typedef int s32;

struct task_struct {
	int pid;
} __attribute__((preserve_access_index));

/* The callbacks that are used: the loader finds them by their names. */
struct sched_ext_ops {
	s32 (*select_cpu)(struct task_struct *task, s32 last_cpu, u64 flags);
	void (*enqueue)(struct task_struct *task, u64 flags);
	void (*dispatch)(s32 cpu, struct task_struct *last);
	s32 (*init)(void);
	char name[128];
};

extern s32 scx_bpf_create_dsq(u64 queue, s32 node) KERNEL;
extern s32 scx_bpf_select_cpu_dfl(struct task_struct *task, s32 last_cpu, u64 flags, _Bool *is_idle) KERNEL;
extern void scx_bpf_dsq_insert(struct task_struct *task, u64 queue, u64 slice_ns, u64 flags) KERNEL;
extern _Bool scx_bpf_dsq_move_to_local(u64 queue) KERNEL;

/* Each callback gets its arguments as an array of numbers. */
SEC("struct_ops/select_cpu")
s32 ours_select_cpu(u64 *arguments)
{
	struct task_struct *task = (void *)arguments[0];
	_Bool is_idle = 0;
	s32 cpu = scx_bpf_select_cpu_dfl(task, arguments[1], arguments[2], &is_idle);

	if (is_idle)
		scx_bpf_dsq_insert(task, LOCAL, SLICE_NS, 0);
	return cpu;
}

SEC("struct_ops/enqueue")
void ours_enqueue(u64 *arguments)
{
	scx_bpf_dsq_insert((void *)arguments[0], QUEUE, SLICE_NS, arguments[1]);
}

SEC("struct_ops/dispatch")
void ours_dispatch(u64 *arguments)
{
	scx_bpf_dsq_move_to_local(QUEUE);
}

SEC("struct_ops.s/init")
s32 ours_init(u64 *arguments)
{
	return scx_bpf_create_dsq(QUEUE, -1);
}

SEC(".struct_ops.link")
struct sched_ext_ops ours = {
	.select_cpu = (void *)ours_select_cpu,
	.enqueue = (void *)ours_enqueue,
	.dispatch = (void *)ours_dispatch,
	.init = (void *)ours_init,
	.name = "ours",
};

char _license[] SEC("license") = "Dual MIT/GPL";
