/*
 * Purpose: notes which bytes of some of the guest's code have been executed.
 *
 * QEMU translates code when a virtual CPU is about to execute it, a block without branches at a time, and keeps the
 * translation. Here each translation notes the bytes of its block, so execution costs nothing. Blocks that were
 * translated before a copy was made count for it, too: a copy goes on with the notes of its machine. Bytes do not
 * depend on where turns of virtual CPUs end, as the beginnings of blocks do.
 *
 * Input: SCHEDLAB_COVERED=FROM-TO,FROM-TO in hexadecimal: addresses of the guest. In the working folder it writes
 * `covered` through a shared mapping: a magic word, and a bit for each byte of these ranges, one after the other. Without
 * the variable, or where this QEMU lacks the function, there is no file. The magic word is taken back if a block is not
 * laid out as expected.
 *
 * How it gets there: the class of virtual CPUs has a pointer to operations, one of which translates. It is given a copy
 * of these operations in which that one is ours.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "preload.h"

enum {
    MAX_RANGES = 8,
    MAX_BYTES = 1 << 20, /* of code */
    OPERATIONS = 64,
    SIZE_AT = 24,         /* in a block: the size of its code, and the number of its instructions */
    MAX_INSTRUCTION = 15, /* bytes */
};

typedef void translate_function(void *cpu, void *block, int *instructions, uint64_t address, void *code);

static const char magic[8] = "COVERED1";
static struct {
    uint64_t from, to;
} ranges[MAX_RANGES];
static int range_count;
static size_t map_bytes;
static struct map {
    char magic[8];
    uint8_t bits[];
} *map; /* not NULL: in force */
static translate_function *theirs;
static void *operations[OPERATIONS];

static void note(uint64_t from, uint64_t to)
{
    uint64_t before = 0;
    for (int at = 0; at < range_count; at++) {
        uint64_t first = from > ranges[at].from ? from : ranges[at].from;
        uint64_t end = to < ranges[at].to ? to : ranges[at].to;
        for (uint64_t address = first; address < end; address++) {
            uint64_t bit = before + address - ranges[at].from;
            map->bits[bit / 8] |= (uint8_t)(1 << bit % 8);
        }
        before += ranges[at].to - ranges[at].from;
    }
}

static void translate(void *cpu, void *block, int *instructions, uint64_t address, void *code)
{
    theirs(cpu, block, instructions, address, code);
    uint16_t found[2];
    memcpy(found, (const char *)block + SIZE_AT, sizeof found);
    int size = found[0], count = found[1];
    /* It leaves the last instruction to the next block where that would reach into another page. */
    bool is_count = count == *instructions || count + 1 == *instructions;
    if (!is_count || size < count || size > MAX_INSTRUCTION * count)
        memset(map->magic, 0, sizeof map->magic);
    else
        note(address, address + (uint64_t)size);
}

/* Reads the ranges. Returns whether there are some, and not too many. */
static bool read_ranges(const char *wanted)
{
    uint64_t bytes = 0;
    char *at = (char *)wanted;
    for (; range_count < MAX_RANGES; range_count++) {
        uint64_t from = strtoull(at, &at, 16);
        uint64_t to = *at == '-' ? strtoull(at + 1, &at, 16) : 0;
        if (to <= from || to - from > MAX_BYTES || (bytes += to - from) > MAX_BYTES)
            return false;
        ranges[range_count].from = from;
        ranges[range_count].to = to;
        if (*at++ != ',')
            break;
    }
    range_count++;
    map_bytes = sizeof(struct map) + (bytes + 7) / 8;
    return range_count <= MAX_RANGES;
}

static struct map *make_map(void)
{
    int file = open("covered", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file < 0)
        return NULL;
    void *made = MAP_FAILED;
    if (ftruncate(file, (off_t)map_bytes) == 0)
        made = mmap(NULL, map_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    return made == MAP_FAILED ? NULL : made;
}

/* The image of QEMU may end behind fewer. */
static bool copy_operations(const void *from)
{
    struct iovec to = {operations, sizeof operations}, source = {(void *)from, sizeof operations};
    return process_vm_readv(getpid(), &to, 1, &source, 1, 0) == (ssize_t)sizeof operations;
}

/* The pointer of this class to operations of QEMU with this one; `place`: where among them it is. */
static void **find_operations(void **class, const void *wanted, int *place)
{
    Dl_info qemu, other;
    if (!dladdr(wanted, &qemu))
        return NULL;
    size_t words = malloc_usable_size(class) / sizeof *class;
    for (void **word = class; word < class + words; word++) {
        if ((uintptr_t)*word % sizeof(void *) || !dladdr(*word, &other) || other.dli_fbase != qemu.dli_fbase)
            continue;
        if (!copy_operations(*word))
            continue;
        for (*place = 0; *place < OPERATIONS; ++*place)
            if (operations[*place] == wanted)
                return word;
    }
    return NULL;
}

void covered_begin(void *cpu)
{
    const char *wanted = getenv("SCHEDLAB_COVERED");
    void *(*class_of)(void *) = (void *(*)(void *))dlsym(RTLD_DEFAULT, "object_get_class");
    void *translates = dlsym(RTLD_DEFAULT, "x86_translate_code");
    if (!wanted || !class_of || !translates || !read_ranges(wanted))
        return;
    int place;
    void **pointer = find_operations(class_of(cpu), translates, &place);
    map = pointer ? make_map() : NULL;
    if (!map)
        return;
    memcpy(map->magic, magic, sizeof magic);
    *(void **)&theirs = translates;
    *(void **)&operations[place] = (void *)translate;
    *pointer = operations;
}

bool covered_renew(void)
{
    if (!map)
        return true;
    struct map *own = make_map();
    if (!own)
        return false;
    memcpy(own, map, map_bytes);
    map = own;
    return true;
}
