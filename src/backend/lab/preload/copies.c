/*
 * Purpose: a QEMU whose guest is ready makes copies of itself, so that each of many runs begins in a machine that
 * is in memory, with the guest's code translated.
 *
 * The guest says that it is ready (clocks.c). Under SCHEDLAB_COPIES the thread of the virtual CPUs then takes
 * requests: on standard input the folder of a copy, which ends with a zero byte, on standard output lines:
 * `copy PID` when it runs, `end PID STATUS` when it has ended with this status of `wait`. A copy has files of its
 * own in its folder: it reads `spec`, and writes `results`, `console`, `complaints`, `covered` and its proof.
 *
 * A copy is a fork, and has only the thread of the virtual CPUs: in lockstep (lockstep.c) the main loop does
 * nothing while a guest is at work, but to end QEMU, which a copy does itself. At the time of a fork that thread
 * holds QEMU's big lock, and the main loop waits for its turn.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "preload.h"

enum {
    MAX_COPIES = 256,
    MAX_PATH = 4096,
    MAX_SPEC = 64 << 20,
    GUEST_SHUTDOWN = 6, /* QEMU's ShutdownCause */
    ENDED_WELL = 33,    /* the exit status that QEMU makes of what the agent writes to its port */
};

static const char spec_name[] = "opt/schedlab/run";
static bool serves, is_copy;
static struct {
    pid_t pid;
    int file;
} running[MAX_COPIES];
static int count;

/* QEMU keeps a guest's memory from its children. */
int madvise(void *start, size_t length, int advice)
{
    if (serves && advice == MADV_DONTFORK)
        return 0;
    return (int)syscall(SYS_madvise, start, length, advice);
}

__attribute__((constructor)) static void look_at_environment(void)
{
    serves = getenv("SCHEDLAB_COPIES") != NULL;
}

/* A file in the folder of this copy in the place of the machine's open file of that name. */
static bool replace_file(const char *machine, const char *name)
{
    char path[MAX_PATH + 32], link[64], target[MAX_PATH + 32];
    snprintf(path, sizeof path, "%s/%s", machine, name);
    int file = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    bool found = false;
    for (int old = 3; file >= 0 && old < 1024 && !found; old++) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", old);
        ssize_t length = readlink(link, target, sizeof target - 1);
        if (length <= 0 || old == file)
            continue;
        target[length] = 0;
        found = strcmp(target, path) == 0 && dup2(file, old) == old;
    }
    if (file >= 0)
        close(file);
    return found;
}

/* Gives the guest its run. */
static bool put_spec(void)
{
    void *(*find)(void) = (void *(*)(void))dlsym(RTLD_DEFAULT, "fw_cfg_find");
    void *(*modify)(void *, const char *, void *, size_t) =
        (void *(*)(void *, const char *, void *, size_t))dlsym(RTLD_DEFAULT, "fw_cfg_modify_file");
    int file = open("spec", O_RDONLY | O_CLOEXEC);
    struct stat stat;
    if (!find || !modify || file < 0 || fstat(file, &stat) != 0 || stat.st_size > MAX_SPEC)
        return false;
    char *bytes = malloc((size_t)stat.st_size + 1); /* QEMU's from now on */
    bool is_whole = bytes && read(file, bytes, (size_t)stat.st_size) == stat.st_size;
    close(file);
    if (is_whole)
        modify(find(), spec_name, bytes, (size_t)stat.st_size);
    return is_whole;
}

static void become_copy(const char *folder, pid_t parent)
{
    char machine[MAX_PATH];
    is_copy = true;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setpgid(0, 0);
    /* QEMU's handlers leave the end to the main loop. */
    const int ends[] = {SIGINT, SIGHUP, SIGTERM};
    for (size_t at = 0; at < sizeof ends / sizeof ends[0]; at++)
        signal(ends[at], SIG_DFL);
    for (int at = 0; at < count; at++)
        close(running[at].file);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (getppid() != parent || null < 0 || !getcwd(machine, sizeof machine) || chdir(folder) != 0)
        _exit(1);
    dup2(null, STDIN_FILENO);
    dup2(null, STDOUT_FILENO);
    int complaints = open("complaints", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    dup2(complaints, STDERR_FILENO);
    if (!replace_file(machine, "results") || !replace_file(machine, "console") || !put_spec()) {
        fprintf(stderr, "a copy of the machine cannot have files of its own\n");
        _exit(1);
    }
}

static void answer(const char *word, pid_t pid, int status)
{
    char line[64];
    int length = snprintf(line, sizeof line, status < 0 ? "%s %d\n" : "%s %d %d\n", word, (int)pid, status);
    if (write(STDOUT_FILENO, line, (size_t)length) != length)
        _exit(0); /* whoever asked has ended */
}

static void take_ended(void)
{
    for (int at = 0; at < count; at++) {
        int status;
        if (waitpid(running[at].pid, &status, WNOHANG) != running[at].pid)
            continue;
        answer("end", running[at].pid, status);
        close(running[at].file);
        running[at--] = running[--count];
    }
}

/* The next folder; false at the end of all requests. */
static bool next_request(char *folder)
{
    for (size_t length = 0; length < MAX_PATH; length++) {
        if (read(STDIN_FILENO, &folder[length], 1) != 1)
            return false;
        if (!folder[length])
            return true;
    }
    return false;
}

void copies_serve(void)
{
    if (!serves || is_copy)
        return;
    struct proof before = *lockstep_proof();
    pid_t own = getpid();
    for (;;) {
        struct pollfd files[1 + MAX_COPIES] = {{.fd = count < MAX_COPIES ? STDIN_FILENO : -1, .events = POLLIN}};
        for (int at = 0; at < count; at++)
            files[1 + at] = (struct pollfd){.fd = running[at].file, .events = POLLIN};
        /* Not by poll: the main thread's belongs to its loop. */
        syscall(SYS_poll, files, 1 + count, -1);
        take_ended();
        char folder[MAX_PATH];
        if (!(files[0].revents & (POLLIN | POLLHUP)))
            continue;
        if (!next_request(folder))
            _exit(0);
        pid_t pid = fork();
        if (pid == 0) {
            become_copy(folder, own);
            if (!lockstep_renew(&before) || !covered_renew())
                _exit(1);
            return;
        }
        if (pid > 0)
            setpgid(pid, pid);
        int file = pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
        if (file < 0) {
            if (pid > 0)
                kill(pid, SIGKILL);
            answer("copy", -1, -1);
            continue;
        }
        running[count].pid = pid;
        running[count++].file = file;
        answer("copy", pid, -1);
    }
}

void copies_end(int cause)
{
    if (is_copy)
        _exit(cause == GUEST_SHUTDOWN ? ENDED_WELL : 0);
}
