/*
 * The interface between the parts of the library: lockstep.c keeps QEMU's main loop in step with the
 * thread of the virtual CPUs, clocks.c gives each virtual CPU a clock of its own, copies.c makes copies of a
 * machine that is ready, covered.c notes which code was executed.
 */
#ifndef SCHEDLAB_PRELOAD_H
#define SCHEDLAB_PRELOAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* Little-endian words, read by the host afterwards. The guest was in lockstep if `magic` is right,
 * `threads` is 1, `turns` is not 0, and `strays` and `stalls` are 0. Its virtual CPUs had clocks of
 * their own if `clocks` is 1, and were exact if `foreign` is 0. */
struct proof {
    char magic[8];
    uint64_t pid;
    uint64_t threads; /* that run virtual CPUs; more than one cannot be kept in step */
    uint64_t turns;   /* that the main loop asked for: it continues when the virtual CPUs sleep */
    uint64_t held;    /* turns for which it had to wait */
    uint64_t wakes;   /* of the virtual CPUs by a call that was seen */
    uint64_t strays;  /* wakes without a call that was seen */
    uint64_t stalls;  /* waits given up because the virtual CPUs made no progress either */
    uint64_t clocks;  /* 1: each virtual CPU has a clock of its own */
    uint64_t bursts;  /* that virtual CPUs did not have to execute */
    uint64_t foreign; /* timers that are due and belong to a thread that is not in step */
    uint64_t digest;  /* of all turns of the virtual CPUs */
    char missing[32]; /* what this QEMU lacks for clocks; empty if nothing */
};

/* Installs the clocks if they were asked for. Called once, by the thread of the virtual CPUs before
 * it does anything else. */
void clocks_install(struct proof *proof);

/* Called before each broadcast by any thread: finds the condition on which the virtual CPUs' thread
 * sleeps. */
void clocks_broadcast(pthread_cond_t *cond);

/* The instructions executed before this turn of a virtual CPU, as microseconds; 0 without clocks. */
int64_t clocks_host_us(void);

/* The proof of this process. */
struct proof *lockstep_proof(void);

/* In a copy: begins a proof in its working folder, which continues the one before. */
bool lockstep_renew(const struct proof *before);

/* Called by the thread of the virtual CPUs, which holds the big lock, when the guest is ready for its run. Returns
 * at once, or in each copy. */
void copies_serve(void);

/* Called before the virtual CPUs wait for QEMU's end: ends a copy, which has no main loop. */
void copies_end(int cause);

/* Begins to note which code is executed if that was asked for, with the first virtual CPU, before that executes
 * anything. */
void covered_begin(void *cpu);

/* Begins notes in the working folder of a copy, which continue those before. */
bool covered_renew(void);

#endif
