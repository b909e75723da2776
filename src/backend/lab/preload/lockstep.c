/*
 * Purpose: makes QEMU's main loop take turns with the thread that runs the virtual CPUs, so that
 * a guest under -icount does the same whatever the host does meanwhile.
 *
 * Under -icount one thread runs all virtual CPUs in turn, by the count of instructions. Only the
 * main loop races with it: it also runs timers of the virtual clock and kicks virtual CPUs, at a
 * moment that the host's scheduler chooses. Here the main loop, back from its poll, continues only
 * while the virtual CPUs' thread sleeps, which it does when all of them are idle. Its changes then
 * depend on the guest's state alone. No timer is missed: the virtual CPUs' thread itself runs those
 * that expire while the guest computes. Nor has that thread the host's time of day.
 *
 * Input: a shared library for LD_PRELOAD, and SCHEDLAB_LOCKSTEP=FILE. It writes `struct proof` to
 * FILE through a shared mapping (so a killed QEMU leaves it too). Needs
 * `-name NAME,debug-threads=on`: the thread is known by its name.
 *
 * Effect on anything else: none. Until a thread takes QEMU's name for the one thread of all virtual
 * CPUs, or if FILE cannot be written, every function here only calls the original. Then there is no
 * proof, and the guest does not count as in lockstep.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "preload.h"

static const char vcpus_name[] = "ALL CPUs/TCG";
static const struct timespec patience = {.tv_sec = 5};

enum { ASLEEP, AWAKE };
static atomic_int vcpus = AWAKE;                 /* also the futex of a main loop that is held */
static atomic_int held;                          /* whether a thread waits on that futex */
static _Atomic(pthread_cond_t *) vcpus_wait_for; /* the condition they sleep on while ASLEEP */
static _Atomic(pthread_mutex_t *) big_lock;      /* QEMU's, used with that condition */
static _Atomic(struct proof *) proof;            /* not NULL: in force */
static clockid_t vcpus_cpu_clock;
static pid_t vcpus_thread;
static __thread int is_vcpus;

/* The C library's function behind one of ours. The layout of conditions changed once: the newer of
 * two versions is needed, and dlsym alone may find the older. */
static void *real(const char *name)
{
    void *found = dlvsym(RTLD_NEXT, name, "GLIBC_2.3.2");
    if (!found)
        found = dlsym(RTLD_NEXT, name);
    if (!found)
        abort(); /* impossible: the caller is linked with it */
    return found;
}

/* Resolved at each function's first call: other libraries' constructors may run before ours. */
#define REAL(name) \
    static _Atomic(__typeof__(&name)) cached; \
    __typeof__(&name) call = atomic_load_explicit(&cached, memory_order_relaxed); \
    if (!call) \
        atomic_store_explicit(&cached, call = real(#name), memory_order_relaxed)

static struct proof *map_proof(const char *path)
{
    int file = path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (file < 0)
        return NULL;
    void *map = MAP_FAILED;
    if (ftruncate(file, 0) == 0 && ftruncate(file, sizeof(struct proof)) == 0)
        map = mmap(NULL, sizeof(struct proof), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    return map == MAP_FAILED ? NULL : map;
}

struct proof *lockstep_proof(void)
{
    return atomic_load(&proof);
}

bool lockstep_renew(const struct proof *before)
{
    struct proof *own = map_proof("proof");
    if (!own)
        return false;
    *own = *before;
    own->pid = (uint64_t)getpid();
    atomic_store(&proof, own);
    return true;
}

/* Each counter has one writer at a time: the virtual CPUs' thread, or whoever holds QEMU's big
 * lock while they sleep. Only `wakes` may be counted by two threads at once. */
static void count(uint64_t *counter)
{
    __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

/* QEMU's threads name themselves before they do anything else. */
int pthread_setname_np(pthread_t thread, const char *name)
{
    REAL(pthread_setname_np);
    if (strcmp(name, vcpus_name) == 0 && pthread_equal(thread, pthread_self())) {
        struct proof *known = atomic_load(&proof);
        struct proof *fresh = known ? known : map_proof(getenv("SCHEDLAB_LOCKSTEP"));
        if (fresh && pthread_getcpuclockid(thread, &vcpus_cpu_clock) == 0) {
            memcpy(fresh->magic, "LOCKSTP2", sizeof fresh->magic);
            fresh->pid = (uint64_t)getpid();
            count(&fresh->threads);
            is_vcpus = 1;
            vcpus_thread = (pid_t)syscall(SYS_gettid);
            atomic_store(&proof, fresh);
            clocks_install(fresh);
        }
    }
    return call(thread, name);
}

int pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
    REAL(pthread_cond_wait);
    if (!is_vcpus)
        return call(cond, mutex);
    /* The big lock is still held here: a main loop that is woken now gets the lock, and its turn,
     * only when this thread sleeps. */
    atomic_store(&big_lock, mutex);
    atomic_store(&vcpus_wait_for, cond);
    atomic_store(&vcpus, ASLEEP);
    if (atomic_load(&held))
        syscall(SYS_futex, &vcpus, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    int error = call(cond, mutex);
    if (atomic_exchange(&vcpus, AWAKE) == ASLEEP)
        count(&atomic_load(&proof)->strays);
    return error;
}

/* Before the virtual CPUs are woken: afterwards both threads would race for the big lock. */
static void announce(pthread_cond_t *cond)
{
    struct proof *in_force = atomic_load(&proof);
    if (!in_force || atomic_load(&vcpus_wait_for) != cond)
        return;
    if (atomic_exchange(&vcpus, AWAKE) == ASLEEP)
        count(&in_force->wakes);
}

int pthread_cond_signal(pthread_cond_t *cond)
{
    REAL(pthread_cond_signal);
    announce(cond);
    return call(cond);
}

int pthread_cond_broadcast(pthread_cond_t *cond)
{
    REAL(pthread_cond_broadcast);
    announce(cond);
    clocks_broadcast(cond);
    return call(cond);
}

/*
 * The time of day, by which QEMU sizes its tables of translated addresses: one that saw little use for 100 ms shrinks.
 * A guest notices what such a table still has, as it may change a permission without a flush. So the virtual CPUs'
 * thread has a time of its own, which only instructions move on. It begins later than any host's, as the tables' first
 * times are the host's.
 */
int gettimeofday(struct timeval *restrict time, void *restrict zone)
{
    const int64_t begin_s = INT64_C(4000000000);
    enum { A_SECOND = 1000000 };
    REAL(gettimeofday);
    if (!is_vcpus)
        return call(time, zone);
    int64_t us = clocks_host_us();
    *time = (struct timeval){.tv_sec = begin_s + us / A_SECOND, .tv_usec = us % A_SECOND};
    return 0;
}

static int64_t vcpus_cpu_ns(void)
{
    struct timespec used = {0};
    clock_gettime(vcpus_cpu_clock, &used);
    return used.tv_sec * INT64_C(1000000000) + used.tv_nsec;
}

/* Whether the kernel has the virtual CPUs' thread asleep. One that waits for a CPU of the host is not. */
static int are_vcpus_blocked(void)
{
    char path[64], stat[256];
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)vcpus_thread);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = file < 0 ? -1 : read(file, stat, sizeof stat - 1);
    if (file >= 0)
        close(file);
    if (length <= 0)
        return 1;
    stat[length] = 0;
    const char *state = strrchr(stat, ')');
    return !state || strncmp(state, ") S", 3) == 0;
}

/* Whether the main thread polls in the middle of its turn, as it does for block devices when QEMU
 * ends. It must not wait then: the virtual CPUs cannot go to sleep without that lock. */
static int holds_big_lock(pid_t thread)
{
    pthread_mutex_t *lock = atomic_load(&big_lock);
    return lock && __atomic_load_n(&lock->__data.__owner, __ATOMIC_RELAXED) == thread;
}

/* Holds the main loop until the virtual CPUs sleep. If they wait for the main loop in an unknown
 * way, it continues after they were blocked and used no CPU time for two periods (one is a QEMU that was
 * stopped and continued), and the proof counts it. */
static void wait_for_turn(struct proof *in_force)
{
    int idle_periods = 0;
    count(&in_force->turns);
    if (atomic_load(&vcpus) == AWAKE)
        count(&in_force->held);
    atomic_store(&held, 1);
    while (atomic_load(&vcpus) == AWAKE && idle_periods < 2) {
        int64_t before_ns = vcpus_cpu_ns();
        long woken = syscall(SYS_futex, &vcpus, FUTEX_WAIT_PRIVATE, AWAKE, &patience, NULL, 0);
        if (woken == -1 && errno == ETIMEDOUT)
            idle_periods = vcpus_cpu_ns() == before_ns && are_vcpus_blocked() ? idle_periods + 1 : 0;
    }
    atomic_store(&held, 0);
    if (idle_periods == 2)
        count(&in_force->stalls);
}

static int after_poll(int ready)
{
    struct proof *in_force = atomic_load(&proof);
    pid_t thread = in_force ? (pid_t)syscall(SYS_gettid) : 0;
    /* The main thread's number is that of the process. */
    if (in_force && (uint64_t)thread == in_force->pid && !holds_big_lock(thread)) {
        int error = errno;
        wait_for_turn(in_force);
        errno = error;
    }
    return ready;
}

int ppoll(struct pollfd *fds, nfds_t count_of_fds, const struct timespec *limit,
          const sigset_t *mask)
{
    REAL(ppoll);
    return after_poll(call(fds, count_of_fds, limit, mask));
}

/* The name of ppoll in programs that are built with _FORTIFY_SOURCE. */
int __ppoll_chk(struct pollfd *fds, nfds_t count_of_fds, const struct timespec *limit,
                const sigset_t *mask, size_t fds_bytes)
{
    REAL(__ppoll_chk);
    return after_poll(call(fds, count_of_fds, limit, mask, fds_bytes));
}
