/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the BPF programs here use of the kernel: only the fields that are read, by name. Where they lie is
 * found when the programs are loaded (CO-RE), from the running kernel's BTF.
 */
#ifndef SCHEDLAB_KERNEL_H
#define SCHEDLAB_KERNEL_H

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int s32;
typedef long long s64;
typedef _Bool bool;

#define SEC(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))
#define GLOBAL __attribute__((noinline))
/* Before a loop. */
#define ROLLED _Pragma("clang loop unroll(disable)")
#define has_field(field) __builtin_preserve_field_info(field, 2 /* BPF_FIELD_EXISTS */)

/* Map definitions are read from the types of these members. */
#define MAP_UINT(name, value) int(*name)[value]
#define MAP_TYPE(name, type) type *name

enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
};
enum { BPF_F_NO_PREALLOC = 1 };
enum { BPF_ANY = 0, BPF_NOEXIST = 1 };
enum { BPF_LOCAL_STORAGE_GET_F_CREATE = 1 };
enum { BPF_RB_NO_WAKEUP = 1, BPF_RB_FORCE_WAKEUP = 2 };
enum { BPF_RB_AVAIL_DATA = 0 };

/* Of every kernel; what a task does otherwise than run lies in the bits. */
enum { TASK_DEAD = 0x80 };
/* The soft interrupt in which packets arrive: those to the own machine while their sender is in its system call. */
enum { NET_RX_SOFTIRQ = 3, NO_SOFTIRQ = 0xffff };
/* A flag of a receive: what it receives stays where it is. */
enum { MSG_PEEK = 2 };
/* In `on_rq`: on its way from one run queue to another. */
enum { ON_RQ_MIGRATING = 2 };

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct kernfs_node {
	u64 id;
};

struct cgroup {
	struct kernfs_node *kn;
};

struct css_set {
	struct cgroup *dfl_cgrp;
};

struct sched_info {
	u64 run_delay;
	u64 last_queued;
};

struct rq;

/* With delayed dequeue (EEVDF), tasks that sleep may still be counted as running. */
struct cfs_rq {
	struct rq *rq;
	unsigned int h_nr_queued;
	unsigned int h_nr_runnable;
	unsigned int h_nr_delayed;
};

struct rq {
	u64 clock;
	u64 clock_task;
	unsigned int nr_running;
	struct cfs_rq cfs;
};

/* `cfs_rq` is that of the task's CPU, whatever class the task is of. */
struct sched_entity {
	u64 exec_start;
	u64 sum_exec_runtime;
	struct cfs_rq *cfs_rq;
};

struct thread_info {
	u32 cpu;
};

struct task_struct {
	struct thread_info thread_info;
	unsigned int flags;
	s32 pid;
	s32 tgid;
	s32 prio;
	/* Bytes since Linux 7.2. libbpf makes a load as wide as the kernel's field where both are unsigned. */
	u32 on_cpu;
	u32 on_rq;
	unsigned int __state;
	unsigned long nvcsw;
	unsigned long nivcsw;
	struct sched_entity se;
	struct sched_info sched_info;
	struct css_set *cgroups;
	char comm[16];
};

/* The number of the system call, on x86 and on ARM. */
struct pt_regs {
	unsigned long orig_ax;
	s32 syscallno;
};

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
};

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

#pragma clang attribute pop

/* Since 5.15. */
enum bpf_func_id { BPF_FUNC_task_pt_regs = 175 };
#define has_helper(number) \
	__builtin_preserve_enum_value(*(enum bpf_func_id *)number, 0 /* BPF_ENUMVAL_EXISTS */)

/* Helpers, by their numbers in the kernel's interface. */
static void *(*const map_lookup)(void *map, const void *key) = (void *)1;
static long (*const map_update)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static u32 (*const this_cpu)(void) = (void *)8;
static long (*const read_kernel_str)(void *to, u32 size, const void *from) = (void *)115;
static long (*const seq_write)(struct seq_file *seq, const void *data, u32 size) = (void *)127;
static long (*const ringbuf_output)(void *ring, const void *data, u64 size, u64 flags) = (void *)130;
static u64 (*const monotonic_ns)(void) = (void *)5;
static u64 (*const boot_ns)(void) = (void *)125;
static u64 (*const ringbuf_query)(void *ring, u64 what) = (void *)134;
static void *(*const task_storage)(void *map, struct task_struct *task, void *value,
				   u64 flags) = (void *)156;
static struct task_struct *(*const current_task)(void) = (void *)158;
static struct pt_regs *(*const task_registers)(struct task_struct *task) =
	(void *)BPF_FUNC_task_pt_regs;

#endif
