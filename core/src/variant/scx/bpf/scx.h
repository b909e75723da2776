/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the sched_ext schedulers here use of the kernel, from 6.12 on. Fields that are read are found when
 * they are loaded (CO-RE); functions that kernels of some age do not have are weak, and asked for first.
 */
#ifndef SCHEDLAB_SCX_H
#define SCHEDLAB_SCX_H

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int s32;
typedef long long s64;
typedef _Bool bool;

#define SEC(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))
#define KFUNC __attribute__((section(".ksyms"), weak))
#define MAP_UINT(name, value) int(*name)[value]
#define MAP_TYPE(name, type) type *name
#define NULL ((void *)0)

/* A millisecond in ns. */
#define MS 1000000ULL
/* The queue of the CPU that a task is put on: what that CPU runs next. */
#define LOCAL_QUEUE ((1ULL << 63) | 2)
/* In the flags of a task: it is runnable. */
#define TASK_QUEUED 1
/* The queue of our own that each scheduler here has. */
#define QUEUE 1
#define ANY_NODE (-1)

enum { BPF_MAP_TYPE_TASK_STORAGE = 29 };
enum { BPF_F_NO_PREALLOC = 1 };
enum { BPF_LOCAL_STORAGE_GET_F_CREATE = 1 };

enum scx_exit_kind {
	SCX_EXIT_NONE = 0,
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct sched_entity {
	u64 sum_exec_runtime;
};

struct sched_ext_entity {
	u32 weight;
	u32 flags;
	u64 slice;
	u64 dsq_vtime;
};

struct mm_struct;

/* The loader takes no function for the kernel's whose parameters are only declared. */
struct cpumask {
	u64 bits[1];
};

struct task_struct {
	struct sched_entity se;
	struct sched_ext_entity scx;
	const struct cpumask *cpus_ptr;
	/* None: a thread of the kernel. */
	struct mm_struct *mm;
};

struct scx_exit_info {
	enum scx_exit_kind kind;
	s64 exit_code;
	const char *reason;
	char *msg;
};

#pragma clang attribute pop

struct scx_init_task_args;

/* The callbacks that are used, by name. The kernel has more. */
struct sched_ext_ops {
	s32 (*select_cpu)(struct task_struct *task, s32 prev_cpu, u64 flags);
	void (*enqueue)(struct task_struct *task, u64 flags);
	void (*dispatch)(s32 cpu, struct task_struct *prev);
	void (*running)(struct task_struct *task);
	void (*stopping)(struct task_struct *task, bool runnable);
	s32 (*init_task)(struct task_struct *task, struct scx_init_task_args *args);
	s32 (*init)(void);
	void (*exit)(struct scx_exit_info *info);
	char name[128];
};

/* Helpers, by their numbers in the kernel's interface. */
static u64 (*const monotonic_ns)(void) = (void *)5;
static long (*const read_kernel_str)(void *to, u32 size, const void *from) = (void *)115;
static void *(*const task_storage)(void *map, struct task_struct *task, void *value,
				   u64 flags) = (void *)156;

struct scx_bpf_dsq_insert_vtime_args {
	u64 dsq_id;
	u64 slice;
	u64 vtime;
	u64 enq_flags;
};

struct bpf_iter_scx_dsq {
	u64 opaque[6];
};

/* Always there. */
extern int bpf_iter_scx_dsq_new(struct bpf_iter_scx_dsq *it, u64 queue, u64 flags) KFUNC;
extern struct task_struct *bpf_iter_scx_dsq_next(struct bpf_iter_scx_dsq *it) KFUNC;
extern void bpf_iter_scx_dsq_destroy(struct bpf_iter_scx_dsq *it) KFUNC;
extern bool bpf_cpumask_test_cpu(u32 cpu, const struct cpumask *mask) KFUNC;
extern s32 scx_bpf_create_dsq(u64 queue, s32 node) KFUNC;
extern s32 scx_bpf_dsq_nr_queued(u64 queue) KFUNC;
extern s32 scx_bpf_select_cpu_dfl(struct task_struct *task, s32 prev_cpu, u64 flags,
				  bool *is_idle) KFUNC;

/*
 * Names by age: 6.12, 6.13, and the newest. The loader leaves out what follows the last three
 * underscores.
 */
extern void scx_bpf_dispatch(struct task_struct *task, u64 queue, u64 slice, u64 flags) KFUNC;
extern void scx_bpf_dsq_insert(struct task_struct *task, u64 queue, u64 slice, u64 flags) KFUNC;
extern bool scx_bpf_dsq_insert___v2___newest(struct task_struct *task, u64 queue, u64 slice,
					     u64 flags) KFUNC;

extern void scx_bpf_dispatch_vtime(struct task_struct *task, u64 queue, u64 slice, u64 key,
				   u64 flags) KFUNC;
extern void scx_bpf_dsq_insert_vtime(struct task_struct *task, u64 queue, u64 slice, u64 key,
				     u64 flags) KFUNC;
extern bool __scx_bpf_dsq_insert_vtime(struct task_struct *task,
				       struct scx_bpf_dsq_insert_vtime_args *args) KFUNC;

extern bool scx_bpf_consume(u64 queue) KFUNC;
extern bool scx_bpf_dsq_move_to_local(u64 queue) KFUNC;
extern bool scx_bpf_dsq_move_to_local___v2___newest(u64 queue, u64 flags) KFUNC;

/* Only newest kernels; before, the field is written. */
extern bool scx_bpf_task_set_slice(struct task_struct *task, u64 slice) KFUNC;

/* At the end of a queue. */
INLINE void insert(struct task_struct *task, u64 queue, u64 slice_ns, u64 flags)
{
	if (scx_bpf_dsq_insert___v2___newest)
		scx_bpf_dsq_insert___v2___newest(task, queue, slice_ns, flags);
	else if (scx_bpf_dsq_insert)
		scx_bpf_dsq_insert(task, queue, slice_ns, flags);
	else
		scx_bpf_dispatch(task, queue, slice_ns, flags);
}

/* Where its key puts it: the smallest is served first. */
INLINE void insert_by_key(struct task_struct *task, u64 queue, u64 slice_ns, u64 key, u64 flags)
{
	struct scx_bpf_dsq_insert_vtime_args args = {
		.dsq_id = queue,
		.slice = slice_ns,
		.vtime = key,
		.enq_flags = flags,
	};

	if (__scx_bpf_dsq_insert_vtime)
		__scx_bpf_dsq_insert_vtime(task, &args);
	else if (scx_bpf_dsq_insert_vtime)
		scx_bpf_dsq_insert_vtime(task, queue, slice_ns, key, flags);
	else
		scx_bpf_dispatch_vtime(task, queue, slice_ns, key, flags);
}

/* The first of a queue that may run on this CPU becomes what this CPU runs next. False: there is none. */
INLINE bool take_from(u64 queue)
{
	if (scx_bpf_dsq_move_to_local___v2___newest)
		return scx_bpf_dsq_move_to_local___v2___newest(queue, 0);
	if (scx_bpf_dsq_move_to_local)
		return scx_bpf_dsq_move_to_local(queue);
	return scx_bpf_consume(queue);
}

/* Whether the task that this CPU ran could go on. Where its slice has ended, it is in no queue yet. */
INLINE bool is_runnable(const struct task_struct *prev)
{
	return prev->scx.flags & TASK_QUEUED;
}

/* The task that this CPU ran goes on, unless another one was taken. */
INLINE void keep(struct task_struct *prev, u64 slice_ns)
{
	if (scx_bpf_task_set_slice)
		scx_bpf_task_set_slice(prev, slice_ns);
	else
		prev->scx.slice = slice_ns;
}

/*
 * As take_from(), but where there is none the task that this CPU ran goes on for another slice of this length: the kernel
 * would give it one of 20 ms.
 */
INLINE void take_or_keep(u64 queue, struct task_struct *prev, u64 slice_ns)
{
	if (!take_from(queue) && prev && is_runnable(prev))
		keep(prev, slice_ns);
}

/* To an idle CPU at once where there is one; who finds none is enqueued. */
INLINE s32 select_idle(struct task_struct *task, s32 prev_cpu, u64 flags, u64 slice_ns)
{
	bool is_idle = 0;
	s32 cpu = scx_bpf_select_cpu_dfl(task, prev_cpu, flags, &is_idle);

	if (is_idle)
		insert(task, LOCAL_QUEUE, slice_ns, 0);
	return cpu;
}

/* Why it was detached; `core/src/variant/scx/loaded.rs` has the same layout. */
struct exit_report {
	s64 exit_code;
	u32 kind;
	u32 is_filled;
	char reason[128];
	char message[512];
};

struct exit_report report SEC(".bss.exit");

INLINE void report_exit(const struct scx_exit_info *info)
{
	report.exit_code = info->exit_code;
	report.kind = info->kind;
	read_kernel_str(report.reason, sizeof(report.reason), info->reason);
	read_kernel_str(report.message, sizeof(report.message), info->msg);
	report.is_filled = 1;
}

/* The kernel gives these functions, and loading, to programs whose license says this. */
char _license[] SEC("license") = "Dual MIT/GPL";

#endif
