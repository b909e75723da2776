/*
 * Purpose: makes QEMU's main loop take turns with the thread that runs the virtual CPUs, so that
 * a guest under -icount does the same whatever the host does meanwhile.
 *
 * Under -icount one thread runs all virtual CPUs in turn, by the count of instructions. Only the
 * main loop races with it: it too runs timers of the virtual clock and kicks virtual CPUs, at a
 * moment that the host's scheduler chooses. Here the main loop, back from its poll, goes on only
 * while the virtual CPUs' thread sleeps, which it does when all of them are idle. What the main
 * loop then changes is a function of the guest's state. Nothing is lost: timers that expire while
 * the guest computes are run by the virtual CPUs' thread itself.
 *
 * Input: a shared library for LD_PRELOAD, and SCHEDLAB_LOCKSTEP=FILE, where FILE is made or
 * overwritten with `struct proof`, kept up to date by a shared mapping (a killed QEMU leaves it
 * too). Needs `-name NAME,debug-threads=on`: the thread is known by its name.
 *
 * Effect on anything else: none. Until a thread takes the name that QEMU gives to the one thread
 * of all virtual CPUs, or if FILE cannot be had, every function here only passes on. Then the
 * proof is missing, and nobody may say that the guest was in lockstep.
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
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* What the host reads afterwards: eight little-endian words. In force was lockstep if `magic` is
 * right, `threads` is 1, `turns` is not 0, and `strays` and `stalls` are 0. */
struct proof {
    char magic[8];
    uint64_t pid;
    uint64_t threads; /* that run virtual CPUs; more than one cannot be kept in step */
    uint64_t turns;   /* that the main loop asked for: it goes on when the virtual CPUs sleep */
    uint64_t held;    /* of these, how often it had to wait */
    uint64_t wakes;   /* of the virtual CPUs by a call that was seen */
    uint64_t strays;  /* wakes that no call seen here explains */
    uint64_t stalls;  /* holds given up, as the virtual CPUs made no progress either */
};

static const char vcpus_name[] = "ALL CPUs/TCG";
static const struct timespec patience = {.tv_sec = 5};

enum { ASLEEP, AWAKE };
static atomic_int vcpus = AWAKE;                 /* also the futex of a main loop that is held */
static atomic_int held;                          /* whether somebody waits on that futex */
static _Atomic(pthread_cond_t *) vcpus_wait_for; /* what they sleep on while ASLEEP */
static _Atomic(pthread_mutex_t *) big_lock;      /* QEMU's; the one that goes with it */
static _Atomic(struct proof *) proof;            /* not NULL: in force */
static clockid_t vcpus_cpu_clock;
static __thread int is_vcpus;

/* The C library's function behind one of ours. Conditions changed their layout once: of two
 * versions it must be the newer one, and dlsym alone may find the other. */
static void *real(const char *name)
{
    void *found = dlvsym(RTLD_NEXT, name, "GLIBC_2.3.2");
    if (!found)
        found = dlsym(RTLD_NEXT, name);
    if (!found)
        abort(); /* called, hence linked, hence somewhere */
    return found;
}

/* Resolved at each function's first call: other libraries' constructors may come before ours. */
#define REAL(name) \
    static _Atomic(__typeof__(&name)) cached; \
    __typeof__(&name) call = atomic_load_explicit(&cached, memory_order_relaxed); \
    if (!call) \
        atomic_store_explicit(&cached, call = real(#name), memory_order_relaxed)

static struct proof *map_proof(void)
{
    const char *path = getenv("SCHEDLAB_LOCKSTEP");
    int file = path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (file < 0)
        return NULL;
    void *map = MAP_FAILED;
    if (ftruncate(file, 0) == 0 && ftruncate(file, sizeof(struct proof)) == 0)
        map = mmap(NULL, sizeof(struct proof), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    return map == MAP_FAILED ? NULL : map;
}

/* Each counter has one writer at a time: the virtual CPUs' thread, or whoever holds QEMU's big
 * lock while they sleep. Only `wakes` may be counted by two threads at once. */
static void count(uint64_t *counter)
{
    __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

/* QEMU's threads name themselves first thing. */
int pthread_setname_np(pthread_t thread, const char *name)
{
    REAL(pthread_setname_np);
    if (strcmp(name, vcpus_name) == 0 && pthread_equal(thread, pthread_self())) {
        struct proof *known = atomic_load(&proof);
        struct proof *fresh = known ? known : map_proof();
        if (fresh && pthread_getcpuclockid(thread, &vcpus_cpu_clock) == 0) {
            memcpy(fresh->magic, "LOCKSTP1", sizeof fresh->magic);
            fresh->pid = (uint64_t)getpid();
            count(&fresh->threads);
            is_vcpus = 1;
            atomic_store(&proof, fresh);
        }
    }
    return call(thread, name);
}

int pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
    REAL(pthread_cond_wait);
    if (!is_vcpus)
        return call(cond, mutex);
    /* The big lock is still held here: a main loop that is let go now gets it, and with it its
     * turn, only once this thread does sleep. */
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

/* Whoever wakes the virtual CPUs says so before: afterwards both would run for the big lock. */
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
    return call(cond);
}

static int64_t vcpus_cpu_ns(void)
{
    struct timespec used = {0};
    clock_gettime(vcpus_cpu_clock, &used);
    return used.tv_sec * INT64_C(1000000000) + used.tv_nsec;
}

/* Whether the main thread polls in the middle of its turn, as it does for block devices when QEMU
 * ends. It must not be held then: the virtual CPUs cannot go to sleep without that lock. */
static int holds_big_lock(pid_t thread)
{
    pthread_mutex_t *lock = atomic_load(&big_lock);
    return lock && __atomic_load_n(&lock->__data.__owner, __ATOMIC_RELAXED) == thread;
}

/* Holds the main loop until the virtual CPUs sleep. Should they wait for it in turn in some way
 * that is not known here, it goes on once they used no CPU time for two periods (one is a QEMU
 * that was stopped and continued), and the proof says so. */
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
            idle_periods = vcpus_cpu_ns() == before_ns ? idle_periods + 1 : 0;
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

/* What ppoll is called by where programs are built with _FORTIFY_SOURCE. */
int __ppoll_chk(struct pollfd *fds, nfds_t count_of_fds, const struct timespec *limit,
                const sigset_t *mask, size_t fds_bytes)
{
    REAL(__ppoll_chk);
    return after_poll(call(fds, count_of_fds, limit, mask, fds_bytes));
}
