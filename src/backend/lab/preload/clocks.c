/*
 * Purpose: gives each virtual CPU of a QEMU under -icount a clock and the full speed of its own.
 *
 * QEMU counts the instructions of all virtual CPUs together, so that each of N busy ones has 1/N of
 * the speed. Here the thread that runs them has a loop of its own instead: it always runs the CPU
 * whose clock is furthest behind, until that is `skew` ahead of the next one or a timer is due. The
 * clock of a CPU moves on by a fixed time for each instruction that it executes.
 *
 * A program of the guest may also ask for a burst: time in which its CPU computes without touching
 * anything that others see. Nobody executes it. The CPU stays in its burst until the burst or the
 * wait for an interrupt ends, others may run ahead meanwhile, and nothing is late. The program asks
 * by `rdtsc` with BURST in rcx and nanoseconds in rsi; afterwards rsi has the nanoseconds that were
 * spent: fewer if an interrupt came. With 0 ns it asks whether this is possible: rsi has BURST then.
 *
 * In the same way, with READY in rcx, it says that it is ready for its run: its turn ends there, and copies.c may
 * make copies.
 *
 * An interrupt from one CPU to another may take time. It is held back until no CPU that runs is behind
 * its arrival, unless the CPU is interrupted by something else before: then it takes both. With a
 * delay below SKEW a CPU that is ahead takes it up to SKEW later.
 *
 * While the machine boots, a CPU that is alone and only reads the clock again and again (a hypervisor that
 * waits for a new second of the clock chip) has each of these readings take longer than the one before it.
 *
 * Input: SCHEDLAB_CLOCKS=COST,SKEW,PAUSE,IDLE,SHORT,BELOW,NEAR,FAR,GROUP. In picoseconds: of an
 * instruction, between CPUs, of the first PAUSE in a row, from an interrupt to the first instruction of an
 * idle CPU (SHORT if it was idle for less than BELOW), and of an interrupt within a group of GROUP CPUs and
 * to another group. Without the variable nothing is changed.
 * Where this QEMU lacks a function, nothing is changed either, and the proof names it.
 *
 * How it gets there: QEMU built with modules has its functions in the dynamic symbol table. Three
 * of them are known to the class "tcg-accel-ops" by pointers, which are replaced. The first reading
 * of the clock by the virtual CPUs' thread never returns: it is the loop from then on.
 *
 * All time is in picoseconds.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "preload.h"

typedef struct CPUState CPUState; /* QEMU's, never looked into but for its registers */

/* Functions of QEMU: result, name, parameters. */
#define FUNCTIONS(X) \
    X(CPUState *, qemu_get_cpu, (int index)) \
    X(void *, object_class_by_name, (const char *name)) \
    X(int64_t, icount_get, (void)) \
    X(int64_t, icount_get_raw, (void)) \
    X(void, icount_prepare_for_run, (CPUState *, int64_t budget)) \
    X(void, icount_process_data, (CPUState *)) \
    X(void, icount_handle_interrupt, (CPUState *, int mask)) \
    X(void, rr_kick_vcpu_thread, (CPUState *)) \
    X(void, qemu_cpu_kick, (CPUState *)) \
    X(int, tcg_cpu_exec, (CPUState *)) \
    X(bool, cpu_thread_is_idle, (CPUState *)) \
    X(bool, cpu_can_run, (CPUState *)) \
    X(bool, cpu_has_work, (CPUState *)) \
    X(bool, cpu_work_list_empty, (CPUState *)) \
    X(void, qemu_cond_wait_bql, (void *cond)) \
    X(void, bql_lock_impl, (const char *file, int line)) \
    X(void, bql_unlock, (void)) \
    X(bool, qemu_in_vcpu_thread, (void)) \
    X(bool, runstate_is_running, (void)) \
    X(int64_t, qemu_clock_deadline_ns_all, (int clock, int attributes)) \
    X(bool, qemu_clock_run_timers, (int clock)) \
    X(int, qemu_shutdown_requested_get, (void)) \
    X(int, gdb_read_register, (CPUState *, struct bytes *, int number))

/* GLib's GByteArray. */
struct bytes {
    uint8_t *data;
    unsigned length;
};

#define DECLARE(result, name, parameters) result (*name) parameters;
static struct {
    FUNCTIONS(DECLARE)
    /* Two that other versions have by another name. */
    void (*process_events)(CPUState *);
    void (*leave_code)(CPUState *);
    struct bytes *(*g_byte_array_new)(void);
    uint8_t *(*g_byte_array_free)(struct bytes *, int with_data);
} qemu;

enum {
    VIRTUAL_CLOCK = 1,
    ALL_TIMERS = -1,
    INTERRUPT = 0x10000, /* why a CPU stopped: also at a PAUSE */
    HARD = 0x2,          /* a kind of interrupt: of a device or another CPU */
    POLL = 0x10,         /* one that has a CPU look at what its controller has for it */
    MAX_CPUS = 64,
    RCX = 1, /* in QEMU's order of registers */
    RSI = 6,
    REGISTERS = 16,
};
static const int64_t never = INT64_MAX;
static const int64_t ns = 1000;
/* A CPU that spins looks less and less often: each PAUSE takes twice as long as the one before it, up
 * to so much. It spins if it executed no more instructions in between. */
static const int64_t max_pause = 1000000;
static const int64_t spin_instructions = 64;
/* A CPU waits if it executed no more instructions than these between two readings of the clock, so often in a
 * row. The clock chip announces a new second for 244 us, which no step may leave out. */
static const int64_t poll_instructions = 512;
static const int64_t poll_readings = 256;
static const int64_t max_poll = 50000000;
/* A machine that begins later than this is a copy, and has booted. */
static const int64_t boot_begins = 1000000000;
/* A turn of a CPU that is alone. */
static const int64_t max_turn = 1000000000;
/* "schedburn" in a reader's eyes; the kernel never has it in rcx. */
static const uint64_t burst_word = 0x5c4edb0257ba9e17u;
static const uint64_t ready_word = 0x5c4edb0257ba9e18u;

static struct {
    int64_t cost, skew, pause, idle, short_idle, short_below, near, far, group;
} option;

static struct proof *proof;
static bool in_force;

/* The virtual CPUs. Only their own thread touches all this, but for `now`. */
static struct cpu {
    CPUState *state;
    uint64_t *registers; /* NULL: not found, so no bursts */
    int64_t at;          /* its clock */
    int64_t wake;        /* when an interrupt came while it was idle or in a burst */
    int64_t arrival;     /* of an interrupt that is under way */
    int64_t from, until; /* of its burst */
    int64_t pause;       /* what its next PAUSE takes */
    int64_t read_raw;    /* instructions of all CPUs when it last read the time stamp */
    int64_t readings;    /* of it in a row */
    bool is_idle, in_burst;
} cpus[MAX_CPUS];
static int count;
static int running = -1;        /* the CPU whose turn it is */
static int64_t began_raw;       /* instructions of all CPUs when its turn began */
static int64_t turn_end;        /* until when it may run */
static bool is_alone;           /* no other CPU runs */
static bool is_booting;
static bool stopped_here;       /* its turn was ended by this library */
static bool is_ready;           /* the guest has just said so */
static bool no_limit;           /* the clock is read for the limit of a turn */
static _Atomic int64_t now;     /* the machine's clock: no CPU that runs is behind it */
static void *sleep_condition;
static __thread bool wants_condition;
static CPUState **current;      /* QEMU's variable of this thread */
static long exit_request;       /* where in a CPU QEMU notes that it is to leave its code */
static int64_t *bias;           /* what QEMU adds to the clock that it saves */

static void mix(uint64_t word)
{
    proof->digest = (proof->digest ^ word) * 1099511628211u;
}

static int64_t clock_now(void)
{
    if (running >= 0 && qemu.qemu_in_vcpu_thread())
        return cpus[running].at + (qemu.icount_get_raw() - began_raw) * option.cost;
    return now;
}

/* Ends the turn after the instruction that is being executed. */
static void end_turn(void)
{
    stopped_here = true;
    qemu.leave_code(cpus[running].state);
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* What the program that reads the time stamp asks for: nothing, copies, or a burst. */
static void answer_request(struct cpu *cpu)
{
    uint64_t *words = cpu->registers;
    if (words && words[RCX] == ready_word) {
        is_ready = true;
        end_turn();
    }
    if (!words || words[RCX] != burst_word)
        return;
    if (words[RSI] == 0) {
        words[RSI] = burst_word;
        return;
    }
    cpu->from = clock_now();
    cpu->until = cpu->from + (int64_t)(words[RSI] & 0xffffffffff) * ns;
    cpu->in_burst = true;
    words[RSI] = 0;
    proof->bursts++;
    end_turn();
}

static void end_burst(struct cpu *cpu, int64_t when)
{
    cpu->at = earlier(later(when, cpu->from), cpu->until);
    cpu->registers[RSI] = (uint64_t)((cpu->at - cpu->from) / ns);
    cpu->in_burst = false;
}

/* While the machine boots: lets time pass for a CPU that only waits for it. */
static void wait_for_time(struct cpu *cpu)
{
    int64_t raw = qemu.icount_get_raw();
    bool is_near = raw - cpu->read_raw <= poll_instructions;
    cpu->read_raw = raw;
    cpu->readings = is_near ? cpu->readings + 1 : 0;
    int64_t left = turn_end - clock_now();
    if (cpu->readings <= poll_readings || left <= 0)
        return;
    int64_t step = earlier(max_poll, (cpu->readings - poll_readings) * ns);
    cpu->at += earlier(step, left);
    end_turn();
}

int64_t clocks_host_us(void)
{
    enum { INSTRUCTIONS_A_US = 200 }; /* about what an emulated CPU executes */
    return (in_force ? began_raw : 0) / INSTRUCTIONS_A_US;
}

static void run_cpus(void) __attribute__((noreturn));

/* In the place of QEMU's `get_virtual_clock`, in nanoseconds. */
static int64_t virtual_clock(void)
{
    if (!in_force) {
        if (!*current || !qemu.qemu_in_vcpu_thread() || !qemu.runstate_is_running())
            return qemu.icount_get();
        run_cpus();
    }
    if (no_limit)
        return INT64_MIN / 4; /* no timer is near */
    return clock_now() / ns;
}

/* In the place of QEMU's `get_elapsed_ticks`: the time stamp counter. */
static int64_t elapsed_ticks(void)
{
    if (!in_force)
        return qemu.icount_get();
    if (running >= 0 && qemu.qemu_in_vcpu_thread())
        answer_request(&cpus[running]);
    if (is_booting && is_alone && running >= 0 && qemu.qemu_in_vcpu_thread())
        wait_for_time(&cpus[running]);
    return clock_now() / ns;
}

/* In the place of `kick_vcpu_thread`. The main thread need not end turns: they are short. */
static void kick(CPUState *cpu)
{
    if (!in_force)
        qemu.rr_kick_vcpu_thread(cpu);
    else if (running >= 0 && qemu.qemu_in_vcpu_thread())
        end_turn();
}

/* The time of an interrupt from one CPU to another. */
static int64_t delay(int from, int to)
{
    return from / option.group == to / option.group ? option.near : option.far;
}

/* The time to leave idle after an idling of this length. */
static int64_t idle_exit(int64_t length)
{
    return length < option.short_below ? option.short_idle : option.idle;
}

/* Whether the interrupt of this time wakes a CPU or ends its burst. */
static bool wakes(struct cpu *cpu, int64_t when)
{
    if (!cpu->is_idle && !cpu->in_burst)
        return false;
    cpu->wake = earlier(cpu->wake, when);
    return true;
}

/* In the place of `handle_interrupt`: holds back what another CPU sends if that takes time. Notes
 * when an interrupt came for a CPU that is idle or in a burst, and ends the turn of the sender, so that
 * the other runs on from that time. */
static void interrupt(CPUState *state, int mask)
{
    int target = 0;
    bool is_ours = in_force && qemu.qemu_in_vcpu_thread();
    while (is_ours && target < count && cpus[target].state != state)
        target++;
    if (!is_ours || target == count) {
        qemu.icount_handle_interrupt(state, mask);
        return;
    }
    struct cpu *cpu = &cpus[target];
    bool is_sent = running >= 0 && running != target;
    if (is_sent && mask == HARD && delay(running, target) > 0) {
        cpu->arrival = earlier(cpu->arrival, clock_now() + delay(running, target));
        end_turn();
        return;
    }
    if (mask == HARD)
        cpu->arrival = never; /* its controller has both */
    qemu.icount_handle_interrupt(state, mask);
    if (target != running && wakes(cpu, clock_now()) && running >= 0)
        end_turn();
}

/* An interrupt that was under way. Its controller knows whether the CPU has taken it meanwhile. */
static void deliver(struct cpu *cpu)
{
    wakes(cpu, cpu->arrival);
    cpu->arrival = never;
    qemu.icount_handle_interrupt(cpu->state, POLL);
}

static int64_t next_arrival(void)
{
    int64_t next = never;
    for (struct cpu *cpu = cpus; cpu < cpus + count; cpu++)
        next = earlier(next, cpu->arrival);
    return next;
}

static void deliver_until(int64_t when)
{
    for (struct cpu *cpu = cpus; cpu < cpus + count; cpu++)
        if (cpu->arrival <= when)
            deliver(cpu);
}

void clocks_broadcast(pthread_cond_t *cond)
{
    if (wants_condition)
        sleep_condition = cond;
}

static void sleep_until_broadcast(void)
{
    qemu.qemu_cond_wait_bql(sleep_condition);
}

/* Runs a CPU until its clock is at `end`, or it stops. Returns whether it only stopped at a PAUSE. */
static bool take_turn(struct cpu *cpu, int64_t end)
{
    int64_t budget = (end - cpu->at + option.cost - 1) / option.cost;
    ((uint8_t *)cpu->state)[exit_request] = 0; /* newer versions leave that to the loop */
    qemu.bql_unlock();
    *current = cpu->state;
    no_limit = true;
    qemu.icount_prepare_for_run(cpu->state, budget);
    no_limit = false;
    began_raw = qemu.icount_get_raw();
    turn_end = end;
    stopped_here = false;
    running = (int)(cpu - cpus);
    int why = qemu.tcg_cpu_exec(cpu->state);
    running = -1;
    qemu.icount_process_data(cpu->state);
    qemu.bql_lock_impl(__FILE__, __LINE__);
    int64_t executed = qemu.icount_get_raw() - began_raw;
    cpu->at += executed * option.cost;
    bool paused = why == INTERRUPT && executed > 0 && executed < budget && !stopped_here;
    if (executed > spin_instructions)
        cpu->pause = option.pause;
    if (paused) {
        cpu->at += cpu->pause;
        cpu->pause = earlier(2 * cpu->pause, max_pause);
    }
    mix((uint64_t)(cpu - cpus));
    mix((uint64_t)executed);
    mix((uint64_t)cpu->at);
    return paused && cpu->at < end;
}

/* Whether some CPU asked for the machine to stop. Does what other threads left for the CPUs. */
static bool is_stopping(void)
{
    bool stopping = false;
    for (struct cpu *cpu = cpus; cpu < cpus + count; cpu++) {
        if (qemu.cpu_work_list_empty(cpu->state) && qemu.cpu_can_run(cpu->state))
            continue;
        qemu.process_events(cpu->state);
        stopping |= !qemu.cpu_can_run(cpu->state);
    }
    return stopping;
}

/* A machine that stops may be saved: it has one clock, that of the CPU furthest ahead, and no
 * interrupt is under way. */
static void level_clocks(void)
{
    deliver_until(never - 1);
    for (struct cpu *cpu = cpus; cpu < cpus + count; cpu++) {
        if (cpu->in_burst)
            end_burst(cpu, cpu->from);
        now = later(now, cpu->at);
    }
    now = now / ns * ns;
    for (struct cpu *cpu = cpus; cpu < cpus + count; cpu++)
        cpu->at = now;
    *bias += now / ns - qemu.icount_get();
}

/* Who is idle, and whose burst an interrupt ended. `woken`: when, if the interrupt was not seen. */
static void look_at_cpus(int64_t woken)
{
    for (struct cpu *cpu = cpus; cpu < cpus + count; cpu++) {
        bool was_idle = cpu->is_idle;
        cpu->is_idle = qemu.cpu_thread_is_idle(cpu->state);
        int64_t since = cpu->wake == never ? woken : cpu->wake;
        if (cpu->in_burst && qemu.cpu_has_work(cpu->state))
            end_burst(cpu, since);
        else if (was_idle && !cpu->is_idle)
            cpu->at = later(cpu->at, since + idle_exit(since - cpu->at));
        if (!cpu->in_burst && !cpu->is_idle)
            cpu->wake = never;
    }
}

static int64_t next_event(const struct cpu *cpu)
{
    return cpu->in_burst ? cpu->until : cpu->at;
}

/* The CPU that is furthest behind, and the time of the next one. */
static struct cpu *furthest_behind(int64_t *second)
{
    struct cpu *first = NULL;
    *second = never;
    for (struct cpu *cpu = cpus; cpu < cpus + count; cpu++) {
        if (cpu->is_idle)
            continue;
        if (!first || next_event(cpu) < next_event(first)) {
            if (first)
                *second = next_event(first);
            first = cpu;
        } else {
            *second = earlier(*second, next_event(cpu));
        }
    }
    return first;
}

/* When the next timer is due; `never` without one. */
static int64_t next_timer(void)
{
    int64_t left_ns = qemu.qemu_clock_deadline_ns_all(VIRTUAL_CLOCK, ALL_TIMERS);
    return left_ns < 0 || left_ns > never / ns / 4 ? never : (now / ns + left_ns) * ns;
}

/* Runs what is due. A timer that is still due afterwards belongs to a thread that is not in step: it is
 * counted, as the machine is not exact then. */
static void run_timers(void)
{
    *current = cpus[0].state;
    qemu.qemu_clock_run_timers(VIRTUAL_CLOCK);
    mix((uint64_t)now);
    proof->foreign += next_timer() <= now;
}

/* A register as QEMU's own debugger stub reports it. */
static bool read_register(CPUState *state, int number, uint64_t *word)
{
    struct bytes *bytes = qemu.g_byte_array_new();
    int length = qemu.gdb_read_register(state, bytes, number);
    bool is_word = length == 8 && bytes->length == 8;
    if (is_word)
        memcpy(word, bytes->data, 8);
    qemu.g_byte_array_free(bytes, 1);
    return is_word;
}

/* QEMU's registers of a CPU: the words of which the stub reports the second as rcx. */
static uint64_t *find_registers(CPUState *state)
{
    /* The stub's order is rax, rbx, rcx, rdx, rsi, rdi; that of QEMU rax, rcx, rdx, rbx, rsp, rbp. */
    static const int order[REGISTERS] = {0, 2, 3, 1, 7, 6, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15};
    uint64_t words[REGISTERS];
    for (int at = 0; at < REGISTERS; at++)
        if (!read_register(state, order[at], &words[at]))
            return NULL;
    enum { CPU_WORDS = 4096 }; /* QEMU's own part of a CPU, before the registers */
    for (uint64_t *at = (uint64_t *)state; at < (uint64_t *)state + CPU_WORDS; at++) {
        if (memcmp(at, words, sizeof words) != 0)
            continue;
        uint64_t now_rcx = 0;
        at[RCX] = ~words[RCX];
        bool is_it = read_register(state, order[RCX], &now_rcx) && now_rcx == ~words[RCX];
        at[RCX] = words[RCX];
        if (is_it)
            return at;
    }
    return NULL;
}

static void begin(void)
{
    in_force = true;
    wants_condition = true;
    for (count = 0; count < MAX_CPUS; count++) {
        cpus[count].state = qemu.qemu_get_cpu(count);
        if (!cpus[count].state)
            break;
    }
    qemu.qemu_cpu_kick(cpus[0].state);
    wants_condition = false;
    covered_begin(cpus[0].state);
    now = qemu.icount_get() * ns;
    is_booting = now < boot_begins;
    uint64_t *registers = find_registers(cpus[0].state);
    for (struct cpu *cpu = cpus; cpu < cpus + count; cpu++) {
        cpu->at = now;
        cpu->wake = cpu->arrival = never;
        cpu->pause = option.pause;
        cpu->is_idle = true;
        if (registers)
            cpu->registers = registers + ((uint64_t *)cpu->state - (uint64_t *)cpus[0].state);
    }
}

static void run_cpus(void)
{
    begin();
    struct cpu *last = NULL;
    int64_t woken = now;
    for (;;) {
        if (is_ready) {
            is_ready = false;
            copies_serve();
            proof = lockstep_proof();
        }
        bool stopping = is_stopping();
        if (stopping)
            level_clocks();
        int ends = qemu.qemu_shutdown_requested_get();
        if (ends)
            copies_end(ends);
        if (stopping || ends) {
            sleep_until_broadcast();
            continue;
        }
        look_at_cpus(woken);
        int64_t second;
        struct cpu *first = furthest_behind(&second);
        int64_t due = earlier(next_timer(), next_arrival());
        if (!first && (due == never || !qemu.runstate_is_running())) {
            sleep_until_broadcast();
            continue;
        }
        if (!first || next_event(first) >= due) {
            now = woken = later(now, due);
            deliver_until(now);
            run_timers();
            continue;
        }
        now = later(now, next_event(first));
        if (first->in_burst) {
            end_burst(first, first->until);
            continue;
        }
        /* Whose turn it was goes on until it is far enough ahead. */
        int64_t others = second;
        if (last && last != first && !last->is_idle && !last->in_burst) {
            if (last->at < earlier(first->at + option.skew, due)) {
                others = first->at;
                first = last;
            }
        }
        is_alone = second == never;
        int64_t end = others == never ? first->at + max_turn : others + option.skew;
        end = later(earlier(end, due), first->at + option.cost);
        last = first;
        /* A PAUSE changes nothing for others: there is no need to look at all of them. */
        while (take_turn(first, end) && qemu.cpu_work_list_empty(first->state))
            ;
        woken = first->at;
    }
}

/* The word that QEMU adds to its own clock and saves with a machine: the one that moves that clock. */
static int64_t *find_bias(int64_t *words)
{
    const int64_t moved = INT64_C(1) << 50;
    for (int word = 0; word < 32; word++) {
        int64_t before = qemu.icount_get();
        words[word] += moved;
        bool is_it = qemu.icount_get() - before == moved;
        words[word] -= moved;
        if (is_it)
            return &words[word];
    }
    return NULL;
}

/* Replaces the pointers of the accelerator's class: all of them or none. Returns what was not found. */
static const char *replace(void **class)
{
    /* The class has the clock before the time stamp counter; both are one function of QEMU. */
    const struct {
        void *theirs, *ours;
    } pairs[] = {
        {(void *)qemu.icount_get, (void *)virtual_clock},
        {(void *)qemu.icount_get, (void *)elapsed_ticks},
        {(void *)qemu.rr_kick_vcpu_thread, (void *)kick},
        {(void *)qemu.icount_handle_interrupt, (void *)interrupt},
    };
    enum { PAIRS = sizeof pairs / sizeof pairs[0], CLASS_WORDS = 48 };
    void **found[PAIRS] = {NULL};
    int left = PAIRS;
    for (int word = 0; class && word < CLASS_WORDS && left > 0; word++)
        for (int pair = 0; pair < PAIRS; pair++)
            if (!found[pair] && class[word] == pairs[pair].theirs) {
                found[pair] = &class[word];
                left--;
                break;
            }
    if (left > 0)
        return "tcg-accel-ops";
    for (int pair = 0; pair < PAIRS; pair++)
        *found[pair] = pairs[pair].ours;
    return NULL;
}

/* The byte that `leave_code` sets to 1: it is shown a CPU of zeros. Negative: it cannot be known. */
static long find_exit_request(void)
{
    enum { CPU_BYTES = 1 << 16 };
    uint8_t *bytes = calloc(1, CPU_BYTES);
    if (!bytes)
        return -1;
    qemu.leave_code((CPUState *)bytes);
    long found = -1;
    for (long at = CPU_BYTES - 1; at >= 0; at--)
        if (bytes[at] == 1)
            found = at;
    free(bytes);
    return found;
}

static void *either(const char *newer, const char *older)
{
    void *found = dlsym(RTLD_DEFAULT, newer);
    return found ? found : dlsym(RTLD_DEFAULT, older);
}

/* The name of the first function that is not there; NULL if all are. */
static const char *find_functions(void)
{
#define FIND(result, name, parameters) \
    if (!(*(void **)&qemu.name = dlsym(RTLD_DEFAULT, #name))) \
        return #name;
    FUNCTIONS(FIND)
    *(void **)&qemu.process_events =
        either("qemu_process_cpu_events_common", "qemu_wait_io_event_common");
    if (!qemu.process_events)
        return "qemu_wait_io_event_common";
    /* Where the first exists, the second kicks the CPU, and so would call itself. */
    *(void **)&qemu.leave_code = either("tcg_kick_vcpu_thread", "cpu_exit");
    if (!qemu.leave_code)
        return "cpu_exit";
    exit_request = find_exit_request();
    if (exit_request < 0)
        return "exit_request";
    *(void **)&qemu.g_byte_array_new = dlsym(RTLD_DEFAULT, "g_byte_array_new");
    *(void **)&qemu.g_byte_array_free = dlsym(RTLD_DEFAULT, "g_byte_array_free");
    if (!qemu.g_byte_array_new || !qemu.g_byte_array_free)
        return "g_byte_array_new";
    current = dlsym(RTLD_DEFAULT, "current_cpu");
    return current ? NULL : "current_cpu";
}

void clocks_install(struct proof *of)
{
    const char *wanted = getenv("SCHEDLAB_CLOCKS");
    if (!wanted || proof)
        return;
    proof = of;
    proof->digest = 14695981039346656037u;
    int64_t *const options[] = {&option.cost, &option.skew, &option.pause, &option.idle,
                                &option.short_idle, &option.short_below, &option.near, &option.far, &option.group};
    enum { OPTIONS = sizeof options / sizeof options[0] };
    int read = 0;
    for (char *at = (char *)wanted; read < OPTIONS; at++) {
        *options[read++] = strtoll(at, &at, 10);
        if (*at != ',')
            break;
    }
    const char *missing = NULL;
    if (read < OPTIONS || option.cost <= 0 || option.group <= 0)
        missing = "SCHEDLAB_CLOCKS";
    if (!missing)
        missing = find_functions();
    if (!missing) {
        void *state = dlsym(RTLD_DEFAULT, "timers_state");
        bias = state ? find_bias(state) : NULL;
        missing = bias ? replace(qemu.object_class_by_name("tcg-accel-ops")) : "timers_state";
    }
    proof->clocks = !missing;
    if (missing)
        strncpy(proof->missing, missing, sizeof proof->missing - 1);
}
